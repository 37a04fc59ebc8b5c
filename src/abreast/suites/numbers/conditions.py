"""The conditions: transforms that put the numbers into the prompt, which is otherwise the same for all."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from typing import Any

import numpy as np

from abreast.errors import Crashed, Skipped
from abreast.suites.numbers.dataset.queries import present
from abreast.suites.numbers.dataset.series import Columns, Values

SYSTEM = (
    "You answer questions about data. You have no tools. Be exact, and keep to the form of reply that is asked for."
)
PROMPT = """{{ data }}

Question: {{ question }}

Calculate first if you need to. Then end your reply with exactly these two lines:
Confidence: <0 to 100 %>
Answer: <only the answer{% if choices is defined %}: {{ choices | join(", ") }}{% endif %}>"""

PACKAGE = "semantic-frame"
SPIKE = 3.5  # robust standard deviations of an anomaly in the summary


def data_in(prompt: str, question: str) -> str | None:
    """Return the data part of a prompt; None if the prompt does not ask this question.

    >>> data_in("Data:\\n1, 2\\n\\nQuestion: What is the mean?\\n\\nReply ...", "What is the mean?")
    'Data:\\n1, 2'
    """
    data, separator, _ = prompt.rpartition(f"\n\nQuestion: {question}")
    return data if separator else None


def raw(item: Mapping[str, Any], skip_above: int | None = None) -> dict[str, Any]:
    """The numbers themselves; trials with more than `skip_above` points are skipped."""
    if skip_above is not None and item["size"] > skip_above:
        raise Skipped(f"{item['size']:,} points, and raw numbers are skipped above {skip_above:,}")
    parts = []
    for name, numbers in item["columns"].items():
        title = f"Series {name}" if len(name) == 1 else name.capitalize().replace("_", " ")
        title = "Data" if len(item["columns"]) == 1 else title
        values = ", ".join("null" if number is None else repr(number) for number in numbers)
        parts.append(f"{title}:\n{values}")
    return _variables(item, "\n\n".join(parts))


def semantic_frame(item: Mapping[str, Any]) -> dict[str, Any]:
    return _described_by_package(item, lambda result: str(result.narrative))


def semantic_frame_full(item: Mapping[str, Any]) -> dict[str, Any]:
    """The full output of semantic-frame as JSON: narrative, classes, anomalies, profile."""
    return _described_by_package(item, lambda result: json.dumps(result.model_dump(mode="json", by_alias=True)))


def _described_by_package(item: Mapping[str, Any], write: Callable[[Any], str]) -> dict[str, Any]:
    from semantic_frame import describe_dataframe, describe_series

    columns = columns_of(item)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about gaps, which are intended
        if len(columns) == 1:
            (values,) = columns.values()
            result = describe_series(values, context="value", output="full")
            lines = [write(result)]
        else:
            import pandas as pd

            frame = describe_dataframe(pd.DataFrame(columns), context="data")
            lines = [f"{name}: {write(result)}" for name, result in frame.columns.items()]
            lines.append(frame.summary_narrative)
    return _variables(item, "\n".join(["Description of the data:", *lines]))


def summary_statistics(item: Mapping[str, Any]) -> dict[str, Any]:
    columns = columns_of(item)
    lines = [f"{name}: {_summary(values)}" for name, values in columns.items()]
    lines += _correlations(columns)
    return _variables(item, "\n".join(["Summary of the data:", *lines]))


def described(item: Mapping[str, Any], by: Callable[[Any], str]) -> dict[str, Any]:
    """The text of a user's function, which gets a list of numbers, or a mapping of lists for several columns."""
    columns = {name: list(numbers) for name, numbers in item["columns"].items()}
    text = by(next(iter(columns.values())) if len(columns) == 1 else columns)
    if not isinstance(text, str):
        raise Crashed(f"the transform must return text, got {type(text).__name__}")
    return _variables(item, text)


for _transform in (raw, semantic_frame, semantic_frame_full, summary_statistics):
    _transform.quick = True  # type: ignore[attr-defined] # estimates may call them


def package_version() -> str | None:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def columns_of(item: Mapping[str, Any]) -> Columns:
    return {
        name: np.array([np.nan if number is None else number for number in numbers], dtype=float)
        for name, numbers in item["columns"].items()
    }


def _variables(item: Mapping[str, Any], data: str) -> dict[str, Any]:
    return {"data": data, **{key: item[key] for key in ("question", "choices") if key in item}}


def _summary(values: Values) -> str:
    finite = present(values)
    quantiles = np.percentile(finite, [5, 25, 50, 75, 95])
    at = np.arange(len(values))[np.isfinite(values)]
    varies = np.ptp(finite) > 0
    figures = {
        "count": len(finite),
        "missing": len(values) - len(finite),
        "mean": np.mean(finite),
        "std": np.std(finite, ddof=1),
        "min": np.min(finite),
        **dict(zip(("p5", "p25", "median", "p75", "p95"), quantiles, strict=True)),
        "max": np.max(finite),
        "slope": np.polyfit(at, finite, 1)[0] if varies else 0.0,
        "correlation with position": np.corrcoef(at, finite)[0, 1] if varies else 0.0,
    }
    text = ", ".join(f"{name} {float(value):.6g}" for name, value in figures.items() if name != "missing" or value)
    return f"{text}; {_outliers(values)}"


def _outliers(values: Values) -> str:
    """Values far from the median, with their positions."""
    finite = present(values)
    middle = float(np.median(finite))
    spread = 1.4826 * float(np.median(np.abs(finite - middle)))
    far = np.flatnonzero(np.abs(np.nan_to_num(values - middle)) > SPIKE * spread).tolist() if spread else []
    if not far:
        return "no anomalies"
    listed = ", ".join(f"{at} ({values[at]:.6g})" for at in far[:20])
    more = f" and {len(far) - 20:,} more" if len(far) > 20 else ""
    return f"anomalies at position {listed}{more}"


def _correlations(columns: Columns) -> list[str]:
    lines = []
    for first, second in combinations(columns, 2):
        is_paired = np.isfinite(columns[first]) & np.isfinite(columns[second])
        a, b = columns[first][is_paired], columns[second][is_paired]
        if len(a) > 2 and np.ptp(a) and np.ptp(b):
            lines.append(f"correlation of {first} and {second}: {float(np.corrcoef(a, b)[0, 1]):.4f}")
    return lines

"""The conditions: how the numbers get into the prompt. Everything else of a prompt is the same for all of them."""

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
SPIKE = 3.5  # robust standard deviations, of the summary's own anomalies


def data_in(prompt: str, question: str) -> str | None:
    """The part of a prompt that shows the data; None if the prompt does not ask this question.

    >>> data_in("Data:\\n1, 2\\n\\nQuestion: What is the mean?\\n\\nReply ...", "What is the mean?")
    'Data:\\n1, 2'
    """
    data, mark, _ = prompt.rpartition(f"\n\nQuestion: {question}")
    return data if mark else None


def raw(asked: Mapping[str, Any], skip_above: int | None = None) -> dict[str, Any]:
    """The numbers themselves. A series longer than `skip_above` is not sent."""
    if skip_above is not None and asked["size"] > skip_above:
        raise Skipped(f"{asked['size']:,} points, and raw numbers are skipped above {skip_above:,}")
    parts = []
    for name, numbers in asked["columns"].items():
        title = f"Series {name}" if len(name) == 1 else name.capitalize().replace("_", " ")
        title = "Data" if len(asked["columns"]) == 1 else title
        written = ", ".join("null" if number is None else repr(number) for number in numbers)
        parts.append(f"{title}:\n{written}")
    return _filled(asked, "\n\n".join(parts))


def semantic_frame(asked: Mapping[str, Any]) -> dict[str, Any]:
    return _described_by_package(asked, lambda result: str(result.narrative))


def semantic_frame_full(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The full output of the package semantic-frame: narrative, classes, anomalies, a profile with count and std."""
    return _described_by_package(asked, lambda result: json.dumps(result.model_dump(mode="json", by_alias=True)))


def _described_by_package(asked: Mapping[str, Any], write: Callable[[Any], str]) -> dict[str, Any]:
    from semantic_frame import describe_dataframe, describe_series

    columns = columns_of(asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about gaps, which are meant
        if len(columns) == 1:
            (values,) = columns.values()
            result = describe_series(values, context="value", output="full")
            lines = [write(result)]
        else:
            import pandas as pd

            frame = describe_dataframe(pd.DataFrame(columns), context="data")
            lines = [f"{name}: {write(result)}" for name, result in frame.columns.items()]
            lines.append(frame.summary_narrative)
    return _filled(asked, "\n".join(["Description of the data:", *lines]))


def summary_statistics(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Our own: the figures anybody would compute first."""
    columns = columns_of(asked)
    lines = [f"{name}: {_summary(values)}" for name, values in columns.items()]
    lines += _correlations(columns)
    return _filled(asked, "\n".join(["Summary of the data:", *lines]))


def described(asked: Mapping[str, Any], by: Callable[[Any], str]) -> dict[str, Any]:
    """What a function of the user says of them: it gets a list of numbers, or of several columns a mapping of lists."""
    columns = {name: list(numbers) for name, numbers in asked["columns"].items()}
    said = by(next(iter(columns.values())) if len(columns) == 1 else columns)
    if not isinstance(said, str):
        raise Crashed(f"the transform must return text, got {type(said).__name__}")
    return _filled(asked, said)


for _ours in (raw, semantic_frame, semantic_frame_full, summary_statistics):
    _ours.quick = True  # type: ignore[attr-defined] # estimates may call them


def package_version() -> str | None:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return None


def columns_of(asked: Mapping[str, Any]) -> Columns:
    return {
        name: np.array([np.nan if number is None else number for number in numbers], dtype=float)
        for name, numbers in asked["columns"].items()
    }


def _filled(asked: Mapping[str, Any], data: str) -> dict[str, Any]:
    """What the template sees: the question and the data, and nothing else of the case."""
    return {"data": data, **{key: asked[key] for key in ("question", "choices") if key in asked}}


def _summary(values: Values) -> str:
    there = present(values)
    quantiles = np.percentile(there, [5, 25, 50, 75, 95])
    at = np.arange(len(values))[np.isfinite(values)]
    varies = np.ptp(there) > 0
    figures = {
        "count": len(there),
        "missing": len(values) - len(there),
        "mean": np.mean(there),
        "std": np.std(there, ddof=1),
        "min": np.min(there),
        **dict(zip(("p5", "p25", "median", "p75", "p95"), quantiles, strict=True)),
        "max": np.max(there),
        "slope": np.polyfit(at, there, 1)[0] if varies else 0.0,
        "correlation with position": np.corrcoef(at, there)[0, 1] if varies else 0.0,
    }
    told = ", ".join(f"{name} {float(value):.6g}" for name, value in figures.items() if name != "missing" or value)
    return f"{told}; {_outliers(values)}"


def _outliers(values: Values) -> str:
    """Values far from the median, by position: the simple rule that everybody uses."""
    there = present(values)
    middle = float(np.median(there))
    spread = 1.4826 * float(np.median(np.abs(there - middle)))
    far = np.flatnonzero(np.abs(np.nan_to_num(values - middle)) > SPIKE * spread).tolist() if spread else []
    if not far:
        return "no anomalies"
    listed = ", ".join(f"{at} ({values[at]:.6g})" for at in far[:20])
    more = f" and {len(far) - 20:,} more" if len(far) > 20 else ""
    return f"anomalies at position {listed}{more}"


def _correlations(columns: Columns) -> list[str]:
    lines = []
    for one, other in combinations(columns, 2):
        both = np.isfinite(columns[one]) & np.isfinite(columns[other])
        left, right = columns[one][both], columns[other][both]
        if len(left) > 2 and np.ptp(left) and np.ptp(right):
            lines.append(f"correlation of {one} and {other}: {float(np.corrcoef(left, right)[0, 1]):.4f}")
    return lines

"""Recordings from CSV files with the columns timestamp and value, as in the Numenta Anomaly Benchmark."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import BadInput
from abreast.suites.numbers.dataset.series import Random, Values

LEAST = 50  # values
LARGEST = 1e100  # statistics of larger values would overflow

Mark = tuple[int, int]  # the first and the last position of a marked anomaly


@dataclass(frozen=True, slots=True)
class Recording:
    """A series from a file; `marks` are its anomalies, None if it was not examined."""

    name: str
    values: Values
    marks: tuple[Mark, ...] | None = None


def load(paths: Sequence[Path], labels: Path | None) -> list[Recording]:
    marks = {} if labels is None else _labels(labels)
    recordings: list[Recording] = []
    for path in paths:
        files = sorted(path.rglob("*.csv")) if path.is_dir() else [path]
        if not files:
            raise BadInput(f"--series {path}: no *.csv files", "use CSV files with the columns timestamp and value")
        recordings += [_read(file, marks, labels) for file in files]
    if labels is not None and not paths:
        raise BadInput("--labels needs recordings", "add them with --series PATH")
    if labels is not None and all(recording.marks is None for recording in recordings):
        fix = "use file names such as folder/file.csv or file.csv as keys"
        raise BadInput(f"--labels {labels}: names none of the recordings", fix)
    return recordings


def window(random: Random, recordings: Sequence[Recording], size: int, over_mark: bool = False) -> Recording:
    """Return a random window of at most `size` points; with `over_mark` over a mark, if there is one."""
    marked = [recording for recording in recordings if recording.marks] if over_mark else []
    source = (marked or recordings)[int(random.integers(len(marked or recordings)))]
    last = max(0, len(source.values) - size)
    if marked:
        first_of_mark, last_of_mark = (source.marks or ())[int(random.integers(len(source.marks or ())))]
        lowest, highest = min(last, max(0, first_of_mark - size + 1)), min(last, last_of_mark)
        start = int(random.integers(lowest, highest + 1))
    else:
        start = int(random.integers(last + 1))
    return Recording(source.name, source.values[start : start + size], clip(source.marks, start, start + size))


def clip(marks: tuple[Mark, ...] | None, start: int, end: int) -> tuple[Mark, ...] | None:
    """Return the parts of marks from `start` up to `end`, relative to `start`.

    None if there are no marks, or if the anomalies are unclear: less than half of a mark is inside, and less than
    a quarter of the window; or marked windows cover more than half of it.

    >>> clip(((3, 3), (8, 11)), 2, 11), clip(((3, 3), (8, 11)), 2, 8)
    (((1, 1), (6, 8)), ((1, 1),))
    >>> clip(((8, 15),), 2, 10), clip(((2, 9),), 2, 10)
    (((6, 7),), None)
    """
    if marks is None:
        return None
    size = end - start
    inside = [(a, b, max(a, start) - start, min(b, end - 1) - start) for a, b in marks if start <= b and a < end]
    if any(d - c + 1 < min((b - a + 1) / 2, size / 4) for a, b, c, d in inside):
        return None
    if any(b > a for a, b, _, _ in inside) and sum(d - c + 1 for *_, c, d in inside) > size / 2:
        return None
    return tuple((c, d) for *_, c, d in inside)


def _read(path: Path, marks: Mapping[str, list[Any]], labels: Path | None) -> Recording:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise BadInput(f"--series {path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"--series {path}: not a CSV file ({error})") from None
    if not rows or not {"timestamp", "value"} <= set(rows[0]):
        raise BadInput(
            f"--series {path}:1: no header with timestamp and value", "begin the file with `timestamp,value`"
        )
    time_column, value_column = rows[0].index("timestamp"), rows[0].index("value")
    lines = [(number, row) for number, row in enumerate(rows[1:], 2) if row]
    values = np.array(
        [_value(path, number, row, max(time_column, value_column), value_column) for number, row in lines]
    )
    if np.isfinite(values).sum() < LEAST:
        raise BadInput(f"--series {path}: has {len(values):,} values, but at least {LEAST} are needed")
    times = [row[time_column].strip() for _, row in lines]
    return Recording(path.stem, values, _find_marks(path, times, marks, labels))


def _value(path: Path, number: int, row: list[str], last: int, column: int) -> float:
    text = row[column].strip() if len(row) > last else None
    if text is None:
        raise BadInput(f"--series {path}:{number}: {','.join(row)!r} has no value", "write a timestamp and a number")
    if text == "":
        return math.nan
    try:
        value = float(text)
    except ValueError:
        raise BadInput(f"--series {path}:{number}: {text!r} is not a number", "leave missing values empty") from None
    if math.isfinite(value) and abs(value) > LARGEST:
        raise BadInput(f"--series {path}:{number}: {text!r} is too large", f"use values up to {LARGEST:g}")
    return value if math.isfinite(value) else math.nan


def _labels(path: Path) -> dict[str, list[Any]]:
    """Read labels such as `{"folder/file.csv": ["2014-04-11 00:00:00", ...]}`; a pair is a time window."""
    try:
        labels = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--labels {path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"--labels {path}: not valid JSON ({error})") from None
    if not isinstance(labels, dict) or not all(isinstance(marks, list) for marks in labels.values()):
        raise BadInput(f"--labels {path}: must map file names to lists of timestamps")
    return labels


def _find_marks(
    path: Path, times: list[str], marks: Mapping[str, list[Any]], labels: Path | None
) -> tuple[Mark, ...] | None:
    """Return the marks of a file; None if the labels do not name it."""
    name = next((name for name in marks if path.as_posix().endswith(f"/{name}") or path.name == name), None)
    if name is None:
        return None
    moments = [_parse_moment(text) for text in times]
    positions: set[Mark] = set()
    for mark in marks[name]:
        first, last = mark if isinstance(mark, list | tuple) and len(mark) == 2 else (mark, mark)
        inside = [at for at, moment in enumerate(moments) if _parse_moment(first) <= moment <= _parse_moment(last)]
        if not inside:
            raise BadInput(
                f"--labels {labels}: {name}: {mark!r} matches no line of {path}", f"use timestamps such as {times[0]!r}"
            )
        positions.add((inside[0], inside[-1]))
    return tuple(sorted(positions))


def _parse_moment(text: Any) -> str:
    """Return a comparable timestamp: without fractions of a second, with a space between date and time."""
    return str(text).strip().replace("T", " ").partition(".")[0]

"""Recordings from files: a header, then a timestamp and a value a line, as the Numenta Anomaly Benchmark has them."""

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
LARGEST = 1e100  # beyond which figures of many values are no numbers any more

Mark = tuple[int, int]  # the first and the last position of what somebody marked


@dataclass(frozen=True, slots=True)
class Recording:
    """A series from a file; `labelled` is what somebody marked in it, None if nobody looked."""

    name: str
    values: Values
    labelled: tuple[Mark, ...] | None = None


def load(paths: Sequence[Path], labels: Path | None) -> list[Recording]:
    marks = {} if labels is None else _labels(labels)
    found: list[Recording] = []
    for path in paths:
        files = sorted(path.rglob("*.csv")) if path.is_dir() else [path]
        if not files:
            raise BadInput(f"--series {path}: no *.csv in it", "give a file with a timestamp and a value a line")
        found += [_read(file, marks, labels) for file in files]
    if labels is not None and not paths:
        raise BadInput("--labels marks anomalies in recordings, and there are none", "give them with --series PATH")
    if labels is not None and all(each.labelled is None for each in found):
        told = "name the files as they are, such as folder/file.csv or file.csv"
        raise BadInput(f"--labels {labels}: names none of the recordings", told)
    return found


def window(random: Random, recordings: Sequence[Recording], size: int, over_mark: bool = False) -> Recording:
    """`size` points in a row of any of them, or all of a shorter one; with `over_mark` over a mark if there is one."""
    marked = [recording for recording in recordings if recording.labelled] if over_mark else []
    source = (marked or recordings)[int(random.integers(len(marked or recordings)))]
    last = max(0, len(source.values) - size)
    if marked:
        first_of_mark, last_of_mark = (source.labelled or ())[int(random.integers(len(source.labelled or ())))]
        lowest, highest = min(last, max(0, first_of_mark - size + 1)), min(last, last_of_mark)
        start = int(random.integers(lowest, highest + 1))
    else:
        start = int(random.integers(last + 1))
    return Recording(source.name, source.values[start : start + size], clip(source.labelled, start, start + size))


def clip(marks: tuple[Mark, ...] | None, start: int, end: int) -> tuple[Mark, ...] | None:
    """The marks from `start` up to `end`, counted from there, each without what lies outside.

    None if nobody marked anything, or if it is not clear what is anomalous there: less than half of a mark is inside,
    and that is less than a quarter of the part; or windows cover more than half of the part.

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
        raise BadInput(f"--series {path}: is no CSV file ({error})") from None
    if not rows or not {"timestamp", "value"} <= set(rows[0]):
        raise BadInput(f"--series {path}:1: no header with timestamp and value", "write timestamp,value")
    when, what = rows[0].index("timestamp"), rows[0].index("value")
    lines = [(number, row) for number, row in enumerate(rows[1:], 2) if row]
    values = np.array([_value(path, number, row, max(when, what), what) for number, row in lines])
    if np.isfinite(values).sum() < LEAST:
        raise BadInput(f"--series {path}: has {len(values):,} values, and takes at least {LEAST}")
    times = [row[when].strip() for _, row in lines]
    return Recording(path.stem, values, _marked(path, times, marks, labels))


def _value(path: Path, number: int, row: list[str], last: int, what: int) -> float:
    text = row[what].strip() if len(row) > last else None
    if text is None:
        raise BadInput(
            f"--series {path}:{number}: {','.join(row)!r} has no value", "write a timestamp, a comma, a number"
        )
    if text == "":
        return math.nan
    try:
        value = float(text)
    except ValueError:
        raise BadInput(f"--series {path}:{number}: {text!r} is no number", "leave it empty if it is missing") from None
    if math.isfinite(value) and abs(value) > LARGEST:
        raise BadInput(f"--series {path}:{number}: {text!r} is too large", f"at most {LARGEST:g}")
    return value if math.isfinite(value) else math.nan


def _labels(path: Path) -> dict[str, list[Any]]:
    """`{"folder/file.csv": ["2014-04-11 00:00:00", ...]}`; a pair stands for a window of time."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--labels {path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"--labels {path}: is no JSON ({error})") from None
    if not isinstance(found, dict) or not all(isinstance(marks, list) for marks in found.values()):
        raise BadInput(f"--labels {path}: must map file names to lists of timestamps")
    return found


def _marked(
    path: Path, times: list[str], marks: Mapping[str, list[Any]], labels: Path | None
) -> tuple[Mark, ...] | None:
    """What is marked in a file; None if it is not named among the labels: then nobody has looked at it."""
    name = next((name for name in marks if path.as_posix().endswith(f"/{name}") or path.name == name), None)
    if name is None:
        return None
    moments = [_moment(text) for text in times]
    found: set[Mark] = set()
    for mark in marks[name]:
        first, last = mark if isinstance(mark, list | tuple) and len(mark) == 2 else (mark, mark)
        inside = [at for at, moment in enumerate(moments) if _moment(first) <= moment <= _moment(last)]
        if not inside:
            raise BadInput(f"--labels {labels}: {name}: {mark!r} marks no line of {path}", f"such as {times[0]!r}")
        found.add((inside[0], inside[-1]))
    return tuple(sorted(found))


def _moment(text: Any) -> str:
    """A timestamp that compares: without parts of a second, and with a space in the middle."""
    return str(text).strip().replace("T", " ").partition(".")[0]

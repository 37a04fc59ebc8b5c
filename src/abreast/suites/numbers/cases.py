"""The cases: a task, a series and a query, each sample from a recorded seed.

Case 7 of a task does not depend on the number of trials, the other tasks or their order, so that answers are reused.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import BadInput, suggestion
from abreast.suites.numbers.dataset import anomalies, external
from abreast.suites.numbers.dataset.queries import ANOMALY, MARKED, QUERIES, Query
from abreast.suites.numbers.dataset.series import PERTURBATIONS, Columns, Random, draw, rounded, spread
from abreast.suites.numbers.dataset.tasks import DOMAINS, TASKS, TaskKind

SEED = 42
TRIALS, QUICK = 30, 5
SMALLEST = 50  # points
TRIES = 500  # draws for one case before giving up
CLEAN = 0.25  # share of anomaly series without anomalies
_KINDS: tuple[anomalies.Kind, ...] = ("spike", "drop", "level shift")
_MISSING = "Missing values (null) are left out of every figure, and keep their positions."
_STRETCHES = "An anomaly may last for many positions: give one position in each."
_MARKED_SHARE = {"presence": 0.5, "anomalies": 0.75, "locations": 1.0}  # share of windows placed over a mark
_MARK_QUERIES = tuple(_MARKED_SHARE)
_GENERATED = ("type", *DOMAINS)  # queries that recordings cannot answer
_PAIRED = ("higher_mean", "more_volatile", "stronger_trend", "correlation")


@dataclass(frozen=True, slots=True)
class DrawnSeries:
    """One series as it is shown, and its source."""

    columns: Columns
    source: str
    marks: tuple[external.Mark, ...] | None = None  # anomalies that a person marked

    @property
    def size(self) -> int:
        return max(map(len, self.columns.values()))


def cases(
    trials: int = TRIALS,
    tasks: Sequence[str] = (),
    seed: int = SEED,
    max_data_size: int | None = None,
    robustness: bool = False,
    series: Sequence[str] = (),
    labels: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield `trials` cases of each task, in the order of the tasks; with `robustness` also under every perturbation.

    `series` are recordings to take windows from, instead of generated series; `labels` marks their anomalies.

    >>> [case["id"] for case in cases(trials=2, tasks=["trend"])]
    ['trend-000', 'trend-001']
    """
    recordings = external.load([Path(path) for path in series], Path(labels) if labels else None)
    for name in checked(tasks):
        task = TASKS[name]
        if recordings and not _queries(task, recordings):
            continue
        for index in range(trials):
            yield from _cases_of_draw(name, task, index, seed, max_data_size, robustness, recordings)


def checked(tasks: Sequence[str]) -> list[str]:
    for name in tasks:
        if name not in TASKS:
            raise BadInput(f"--task {name}: no such task{suggestion(name, TASKS)}")
    return [name for name in TASKS if not tasks or name in tasks]


def _queries(task: TaskKind, recordings: Sequence[external.Recording]) -> list[str]:
    """Return the queries of a task that the recordings, if any, can answer."""
    if not recordings:
        return list(task.queries)
    has_marks = any(recording.marks is not None for recording in recordings)
    return [query for query in task.queries if (has_marks if query in _MARK_QUERIES else query not in _GENERATED)]


def _cases_of_draw(
    name: str,
    task: TaskKind,
    index: int,
    seed: int,
    limit: int | None,
    robustness: bool,
    recordings: Sequence[external.Recording],
) -> Iterator[dict[str, Any]]:
    sizes = [size for size in task.sizes if limit is None or size <= limit] or [limit or task.sizes[0]]
    size = _take_turn(sizes, name, index, seed, "size")
    random = np.random.default_rng([seed, _number(name), index])
    query, sample, right = _draw_decidable(random, name, task, index, seed, size, recordings)
    case_id = f"{name}-{index:03d}"
    tags = {"task": name, "difficulty": query.difficulty(sample.size), "size": str(sample.size)}
    if not robustness:
        yield _case(case_id, sample, query, right, tags)
        return
    yield {**_case(case_id, sample, query, right, {**tags, "perturbation": "none"}), "group": case_id}
    for kind in PERTURBATIONS:
        changed = _perturb(kind, sample, random, query)
        if changed is not None:
            perturbed, expected = changed
            case = _case(f"{case_id}-{kind}", perturbed, query, expected, {**tags, "perturbation": kind})
            yield {**case, "group": case_id}


def _take_turn(items: Sequence[Any], name: str, index: int, seed: int, purpose: str) -> Any:
    """Cycle through the items, shuffled in every round, so that any number of cases is balanced."""
    cycle, position = divmod(index, len(items))
    order = np.random.default_rng([seed, _number(f"{name} {purpose}"), cycle]).permutation(len(items))
    return items[int(order[position])]


def _number(text: str) -> int:
    return zlib.crc32(text.encode())


def _draw_decidable(
    random: Random,
    name: str,
    task: TaskKind,
    index: int,
    seed: int,
    size: int,
    recordings: Sequence[external.Recording],
) -> tuple[Query, DrawnSeries, Any]:
    """Return the next query, a series that decides it, and the truth; if no recording decides it, a later query."""
    queries = _queries(task, recordings)
    for turn in range(index, index + (len(queries) if recordings else 1)):
        query = QUERIES[_take_turn(queries, name, turn, seed, "query")]
        for _ in range(TRIES):
            sample = _window(random, query, size, recordings) if recordings else _generate(random, task, query, size)
            right = truth(query, sample)
            if right is not None:
                return query, sample, right
    source = "windows of the recordings" if recordings else "series"
    message = f"none of {TRIES} {source} of {size:,} points has an answer to a query of the task {name}"
    raise BadInput(message, "exclude the task with `--task`, or use other recordings")


def _generate(random: Random, task: TaskKind, query: Query, size: int) -> DrawnSeries:
    sources = task.drawn_from(query.name)
    source = str(sources[int(random.integers(len(sources)))])
    columns = draw(source, random, size)
    if query.name not in (*_MARK_QUERIES, "type"):
        return DrawnSeries(columns, source)
    return _add_anomalies(random, query, columns["value"], source)


def _add_anomalies(random: Random, query: Query, values: Any, source: str) -> DrawnSeries:
    """Return a clean series, or one with events of one kind; undecided if detection does not find exactly those."""
    clean = query.name in ("presence", "anomalies") and random.random() < (0.5 if query.name == "presence" else CLEAN)
    if clean:
        return DrawnSeries({"value": values}, f"{source}, clean") if not anomalies.find(values) else _undecided(source)
    kinds = _KINDS if len(values) >= 4 * anomalies.LEVEL else _KINDS[:2]
    kind = kinds[int(random.integers(len(kinds)))]
    changed, events = anomalies.put(random, values, kind)
    columns = rounded({"value": changed})
    if anomalies.find(columns["value"]) != events:
        return _undecided(source)
    return DrawnSeries(columns, f"{source}, {kind}")


def _undecided(source: str) -> DrawnSeries:
    return DrawnSeries({"value": np.array([np.nan])}, source)


def _window(random: Random, query: Query, size: int, recordings: Sequence[external.Recording]) -> DrawnSeries:
    if query.name in _PAIRED:
        first, second = (external.window(random, recordings, size) for _ in range(2))
        length = min(len(first.values), len(second.values))
        columns = rounded({"A": first.values[:length], "B": second.values[:length]})
        return DrawnSeries(columns, f"{first.name}, {second.name}")
    needs_marks = query.name in _MARK_QUERIES
    over_mark = needs_marks and random.random() < _MARKED_SHARE[query.name]
    candidates = [recording for recording in recordings if recording.marks is not None or not needs_marks]
    recording = external.window(random, candidates, size, over_mark)
    if needs_marks and recording.marks is None:
        return _undecided(recording.name)  # the marks are unclear
    return DrawnSeries(rounded({"value": recording.values}), recording.name, recording.marks if needs_marks else None)


def truth(query: Query, sample: DrawnSeries) -> Any:
    """Return the truth by the marks of a recording, else by the numbers shown; None if they do not decide the query."""
    if sample.marks is not None:
        marks = sample.marks
        if query.name == "locations":  # positions, or the ends of windows
            are_points = all(first == last for first, last in marks)
            return [first if are_points else [first, last] for first, last in marks] or None
        return len(marks) if query.name == "anomalies" else "yes" if marks else "no"
    if any(np.isfinite(values).sum() < 2 for values in sample.columns.values()):
        return None
    return query.truth(sample.columns)


def _perturb(kind: str, sample: DrawnSeries, random: Random, query: Query) -> tuple[DrawnSeries, Any] | None:
    """Return the perturbed series and its truth; None if it no longer decides the query."""
    seed = int(random.integers(2**32))
    changed = PERTURBATIONS[kind](np.random.default_rng(seed), sample.columns)
    size = max(map(len, changed.values()))
    if all(np.array_equal(changed[name], sample.columns[name], equal_nan=True) for name in changed):
        return None
    perturbed = DrawnSeries(changed, sample.source, external.clip(sample.marks, 0, size))
    if query.name in (*_MARK_QUERIES, "type") and not _is_still_clear(kind, sample, perturbed):
        return None
    right = truth(query, perturbed)
    return None if right is None else (perturbed, right)


def _is_still_clear(kind: str, before: DrawnSeries, after: DrawnSeries) -> bool:
    """Whether the anomalies are the remaining original ones and the added outliers, and no others."""
    old, new = before.columns["value"], after.columns["value"]
    is_present = np.isfinite(new)
    if before.marks is not None:  # marks do not cover points that the perturbation adds or moves
        is_moved = kind in ("outliers", "reorder")
        return not is_moved and after.marks is not None and all(is_present[a] and is_present[b] for a, b in after.marks)
    positions = [anomaly.position for anomaly in anomalies.find(old)]
    expected = {position for position in positions if position < len(new) and is_present[position]}
    if kind == "outliers":
        expected |= set(np.flatnonzero(np.abs(new - old) > spread(old)).tolist())
    return expected == {anomaly.position for anomaly in anomalies.find(new)}


def _case(case_id: str, sample: DrawnSeries, query: Query, right: Any, tags: dict[str, str]) -> dict[str, Any]:
    gaps = any(not np.isfinite(values).all() for values in sample.columns.values())
    question = query.question if sample.marks is None else query.question.replace(ANOMALY, MARKED)
    if isinstance(right, list) and isinstance(right[0], list):
        question = f"{question} {_STRETCHES}"
    data: dict[str, Any] = {
        "query": query.name,
        "question": f"{question} {_MISSING}" if gaps else question,
        "source": sample.source,
        "size": sample.size,
        "columns": {name: as_json(values) for name, values in sample.columns.items()},
    }
    if query.choices:
        data["choices"] = query.choices
    expected = int(right) if isinstance(right, float) and right.is_integer() else right
    return {"id": case_id, "input": data, "expected": expected, "tags": tags}


def as_json(values: Any) -> list[float | int | None]:
    """Values for JSON: integers without a decimal point, missing values as null."""
    return [None if not np.isfinite(x) else int(x) if x == int(x) else float(x) for x in values.tolist()]

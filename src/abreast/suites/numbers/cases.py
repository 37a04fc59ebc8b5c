"""The cases: a task, a series and a query, each a new draw from a recorded seed.

Case 7 of a task is the same whatever else is asked for: more trials, other tasks, another order change nothing, so what
was answered before is reused.
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
from abreast.suites.numbers.dataset.tasks import DOMAINS, TASKS, Task

SEED = 42
TRIALS, QUICK = 30, 5
SMALLEST = 50  # points
TRIES = 500  # draws for one case before something must be wrong
CLEAN = 0.25  # of the anomaly series have none
_KINDS: tuple[anomalies.Kind, ...] = ("spike", "drop", "level shift")
_MISSING = "Missing values (null) are left out of every figure, and keep their positions."
_STRETCHES = "An anomaly may last for many positions: give one position in each."
_OVER_MARK = {"presence": 0.5, "anomalies": 0.75, "locations": 1.0}  # share of windows that are put over a mark
_MARKED = tuple(_OVER_MARK)  # queries about data with marked anomalies
_GENERATED = ("type", *DOMAINS)  # what no recording tells
_PAIRED = ("higher_mean", "more_volatile", "stronger_trend", "correlation")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One series as it will be shown, and where it comes from."""

    columns: Columns
    source: str
    labelled: tuple[external.Mark, ...] | None = None  # anomalies that somebody marked by hand

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
    """So many of each task, in the order of the tasks; with `robustness` each of them also under every perturbation.

    `series` are recordings to cut windows from, instead of generated ones; `labels` marks the anomalies in them.

    >>> [case["id"] for case in cases(trials=2, tasks=["trend"])]
    ['trend-000', 'trend-001']
    """
    recordings = external.load([Path(path) for path in series], Path(labels) if labels else None)
    for name in checked(tasks):
        task = TASKS[name]
        if recordings and not any(_asked(task, recordings)):
            continue
        for index in range(trials):
            yield from _of_draw(name, task, index, seed, max_data_size, robustness, recordings)


def checked(tasks: Sequence[str]) -> list[str]:
    for name in tasks:
        if name not in TASKS:
            raise BadInput(f"--task {name}: no such task{suggestion(name, TASKS)}")
    return [name for name in TASKS if not tasks or name in tasks]


def _asked(task: Task, recordings: Sequence[external.Recording]) -> list[str]:
    """The queries of a task; of recordings those that make sense there."""
    if not recordings:
        return list(task.queries)
    marked = any(each.labelled is not None for each in recordings)
    return [query for query in task.queries if (marked if query in _MARKED else query not in _GENERATED)]


def _of_draw(
    name: str,
    task: Task,
    index: int,
    seed: int,
    limit: int | None,
    robustness: bool,
    recordings: Sequence[external.Recording],
) -> Iterator[dict[str, Any]]:
    sizes = [size for size in task.sizes if limit is None or size <= limit] or [limit or task.sizes[0]]
    size = _turn(sizes, name, index, seed, "size")
    random = np.random.default_rng([seed, _number(name), index])
    query, drawn, right = _decided(random, name, task, index, seed, size, recordings)
    case_id = f"{name}-{index:03d}"
    tags = {"task": name, "difficulty": query.difficulty(drawn.size), "size": str(drawn.size)}
    if not robustness:
        yield _case(case_id, drawn, query, right, tags)
        return
    yield {**_case(case_id, drawn, query, right, {**tags, "perturbation": "none"}), "group": case_id}
    for kind in PERTURBATIONS:
        changed = _perturbed(kind, drawn, random, query)
        if changed is not None:
            other, expected = changed
            case = _case(f"{case_id}-{kind}", other, query, expected, {**tags, "perturbation": kind})
            yield {**case, "group": case_id}


def _turn(items: Sequence[Any], name: str, index: int, seed: int, what: str) -> Any:
    """One item after the other in an order that is drawn anew for every round: any beginning is balanced."""
    number, place = divmod(index, len(items))
    order = np.random.default_rng([seed, _number(f"{name} {what}"), number]).permutation(len(items))
    return items[int(order[place])]


def _number(text: str) -> int:
    return zlib.crc32(text.encode())


def _decided(
    random: Random, name: str, task: Task, index: int, seed: int, size: int, recordings: Sequence[external.Recording]
) -> tuple[Query, Drawn, Any]:
    """A query whose turn it is, a series that decides it, and what is right; if no recording does, the next query."""
    queries = _asked(task, recordings)
    for turn in range(index, index + (len(queries) if recordings else 1)):
        query = QUERIES[_turn(queries, name, turn, seed, "query")]
        for _ in range(TRIES):
            drawn = _cut(random, query, size, recordings) if recordings else _generated(random, task, query, size)
            right = truth(query, drawn)
            if right is not None:
                return query, drawn, right
    what = "windows of the recordings" if recordings else "series"
    raise BadInput(
        f"none of {TRIES} {what} of {size:,} points has an answer to a query of the task {name}",
        "leave it out: name the others with --task, or give other recordings",
    )


def _generated(random: Random, task: Task, query: Query, size: int) -> Drawn:
    sources = task.drawn_from(query.name)
    source = str(sources[int(random.integers(len(sources)))])
    columns = draw(source, random, size)
    if query.name not in (*_MARKED, "type"):
        return Drawn(columns, source)
    return _with_anomalies(random, query, columns["value"], source)


def _with_anomalies(random: Random, query: Query, values: Any, source: str) -> Drawn:
    """Clean, or with events of one kind; drawn again if those are not exactly what stands out."""
    clean = query.name in ("presence", "anomalies") and random.random() < (0.5 if query.name == "presence" else CLEAN)
    if clean:
        return Drawn({"value": values}, f"{source}, clean") if not anomalies.find(values) else _none(source)
    kinds = _KINDS if len(values) >= 4 * anomalies.LEVEL else _KINDS[:2]
    kind = kinds[int(random.integers(len(kinds)))]
    changed, events = anomalies.put(random, values, kind)
    shown = rounded({"value": changed})
    if anomalies.find(shown["value"]) != events:
        return _none(source)
    return Drawn(shown, f"{source}, {kind}")


def _none(source: str) -> Drawn:
    return Drawn({"value": np.array([np.nan])}, source)


def _cut(random: Random, query: Query, size: int, recordings: Sequence[external.Recording]) -> Drawn:
    if query.name in _PAIRED:
        one, other = (external.window(random, recordings, size) for _ in range(2))
        least = min(len(one.values), len(other.values))
        columns = rounded({"A": one.values[:least], "B": other.values[:least]})
        return Drawn(columns, f"{one.name}, {other.name}")
    labelled = query.name in _MARKED
    over_mark = labelled and random.random() < _OVER_MARK[query.name]
    known = [each for each in recordings if each.labelled is not None or not labelled]
    found = external.window(random, known, size, over_mark)
    if labelled and found.labelled is None:
        return _none(found.name)  # it is not clear what is marked in it
    return Drawn(rounded({"value": found.values}), found.name, found.labelled if labelled else None)


def truth(query: Query, drawn: Drawn) -> Any:
    """What is right, by the numbers shown; by the marks of a recording, where it has some. None: nothing is."""
    if drawn.labelled is not None:
        marks = drawn.labelled
        if query.name == "locations":  # positions; or where each window of time begins and ends
            are_points = all(first == last for first, last in marks)
            return [first if are_points else [first, last] for first, last in marks] or None
        return len(marks) if query.name == "anomalies" else "yes" if marks else "no"
    if any(np.isfinite(values).sum() < 2 for values in drawn.columns.values()):
        return None
    return query.truth(drawn.columns)


def _perturbed(kind: str, drawn: Drawn, random: Random, query: Query) -> tuple[Drawn, Any] | None:
    """The series under a perturbation with a truth of its own; None if it decides the query no more."""
    seed = int(random.integers(2**32))
    changed = PERTURBATIONS[kind](np.random.default_rng(seed), drawn.columns)
    size = max(map(len, changed.values()))
    if all(np.array_equal(changed[name], drawn.columns[name], equal_nan=True) for name in changed):
        return None
    other = Drawn(changed, drawn.source, external.clip(drawn.labelled, 0, size))
    if query.name in (*_MARKED, "type") and not _still_clear(kind, drawn, other):
        return None
    right = truth(query, other)
    return None if right is None else (other, right)


def _still_clear(kind: str, before: Drawn, after: Drawn) -> bool:
    """Whether the anomalies are those that were there, as far as they are left, and those that were put in now."""
    old, new = before.columns["value"], after.columns["value"]
    left = np.isfinite(new)
    if before.labelled is not None:  # nobody marked what was put in now
        moved = kind in ("outliers", "reorder")
        return not moved and after.labelled is not None and all(left[a] and left[b] for a, b in after.labelled)
    known = {each.position for each in anomalies.find(old) if each.position < len(new) and left[each.position]}
    if kind == "outliers":
        known |= set(np.flatnonzero(np.abs(new - old) > spread(old)).tolist())
    return known == {each.position for each in anomalies.find(new)}


def _case(case_id: str, drawn: Drawn, query: Query, right: Any, tags: dict[str, str]) -> dict[str, Any]:
    gaps = any(not np.isfinite(values).all() for values in drawn.columns.values())
    question = query.question if drawn.labelled is None else query.question.replace(ANOMALY, MARKED)
    if isinstance(right, list) and isinstance(right[0], list):
        question = f"{question} {_STRETCHES}"
    asked: dict[str, Any] = {
        "query": query.name,
        "question": f"{question} {_MISSING}" if gaps else question,
        "source": drawn.source,
        "size": drawn.size,
        "columns": {name: shown(values) for name, values in drawn.columns.items()},
    }
    if query.choices:
        asked["choices"] = query.choices
    whole = isinstance(right, float) and right.is_integer()
    return {"id": case_id, "input": asked, "expected": int(right) if whole else right, "tags": tags}


def shown(values: Any) -> list[float | int | None]:
    """Numbers as they are written: whole ones without a point, missing ones as null."""
    return [None if not np.isfinite(x) else int(x) if x == int(x) else float(x) for x in values.tolist()]

"""The rows of the grid that a page shows, in the order in which it was loaded.

An open page keeps its order while results arrive: values change in place, and new cases are added at the end.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.analyse.rows import Ints
from abreast.report.words.variant_figures import dollars, short_score
from abreast.report.words.verdict_sentence import points
from abreast.store import Store
from abreast.text import many
from abreast.view.cases.grid import (
    CANCELLED,
    INFRASTRUCTURE,
    MISSING,
    NO_WINNER,
    OK,
    OWN_FAILURE,
    SKIPPED,
    TIE,
    CaseGrid,
    tag_text,
)
from abreast.view.cases.selection import STATUSES, CaseSelection

GRIDS_KEPT = 4  # runs
ORDERS_KEPT = 24
MOST_ROWS = 500  # of one window
_PLAN = ("planned_trials", "primary_score", "spec")  # if they change, as by `abreast rescore`, everything is read again
_MARKS = {OWN_FAILURE: "failed", INFRASTRUCTURE: "infrastructure"}


@dataclass(frozen=True, slots=True)
class CaseCell:
    """One variant's results for a case."""

    position: int  # of the first repeat
    score: float | None
    text: str  # the score, or why it is missing
    note: str  # failures, and the number of completed repeats
    look: str  # a CSS class

    @property
    def words(self) -> str:
        return ", ".join(part for part in (self.text, self.note) if part)


@dataclass(frozen=True, slots=True)
class CaseRow:
    number: int  # from 0, in the order shown
    case: int
    id: str
    cells: list[CaseCell]
    difference: float | None
    winner: str
    tags: str
    cost_usd: float | None
    service_s: float | None

    @property
    def difference_text(self) -> str:
        return "" if self.difference is None else points(self.difference)

    @property
    def cost_text(self) -> str:
        return "" if self.cost_usd is None else dollars(self.cost_usd)

    @property
    def latency_text(self) -> str:
        if self.service_s is None:
            return ""
        return f"{self.service_s:,.2f} s" if self.service_s >= 0.1 else f"{self.service_s * 1000:.0f} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class GridColumn:
    """A column of the table; `sort` is the address of the same cases in its order."""

    name: str
    title: str
    explanation: str
    sort: str
    direction: str  # value of `aria-sort`


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseWindow:
    """The part of the grid that a page shows."""

    run: Mapping[str, Any]
    selection: CaseSelection
    columns: list[GridColumn]
    rows: list[CaseRow]
    first: int
    total: int
    stored: int  # cases of the run with a row
    planned: int
    order: str  # token of the order that the page keeps
    is_signed: bool  # whether the sign of a difference says which variant is better
    is_outdated: bool  # whether sorting again would change the order
    filters: dict[str, list[tuple[str, str]]]  # values and titles of each filter

    @property
    def summary(self) -> str:
        if self.selection.is_filtered:
            return f"{self.total:,} of {many(self.stored, 'case')}"
        if self.stored < self.planned:
            return f"{self.stored:,} of {many(self.planned, 'case')} so far"
        return many(self.total, "case")


class CaseGrids:
    """The grids of recently viewed runs, and the orders that open pages keep."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._grids: OrderedDict[int, CaseGrid] = OrderedDict()
        self._orders: OrderedDict[str, Ints] = OrderedDict()

    @contextmanager
    def updated(self, store: Store, run: str) -> Iterator[CaseGrid]:
        """Yield the updated grid of a run, to one thread at a time."""
        meta = store.run(run)
        with self._lock:
            grid = self._grids.pop(meta["run"], None)
            if grid is None or any(grid.run[name] != meta[name] for name in _PLAN) or not grid.is_part_of(store):
                grid = CaseGrid(store, meta)
            self._grids[meta["run"]] = grid
            grid.run = meta
            while len(self._grids) > GRIDS_KEPT:
                self._grids.popitem(last=False)
        with grid.lock:
            grid.update(store)
            yield grid

    def window(self, store: Store, run: str, query: dict[str, str], first: int, count: int, order: str) -> CaseWindow:
        """`order` is the token of an earlier window of the page, or empty."""
        with self.updated(store, run) as grid:
            selection = CaseSelection.parse(query, grid)
            current = selection.order(store, grid)
            page_order, token = self._page_order(current, order)
            has_changed = not np.array_equal(page_order, current)
            first = max(0, min(first, len(page_order) - 1))
            cases = page_order[first : first + min(count, MOST_ROWS)].tolist()
            return CaseWindow(
                run=grid.run,
                selection=selection,
                columns=_columns(grid, selection),
                rows=list(case_rows(grid, selection, cases, first)),
                first=first,
                total=len(page_order),
                stored=int(grid.has_row.sum()),
                planned=grid.case_count,
                order=token,
                is_signed=grid.treatment is not None,
                is_outdated=has_changed and bool(selection.query()),
                filters=_filters(grid),
            )

    def _page_order(self, current: Ints, token: str) -> tuple[Ints, str]:
        """Return the order that a page keeps, followed by new cases, and its token."""
        with self._lock:
            order = self._orders.pop(token, None)
            if order is None:
                order, token = current, secrets.token_hex(6)
            elif len(new := current[~np.isin(current, order)]):
                order = np.concatenate([order, new])
            self._orders[token] = order.astype(np.int32)
            while len(self._orders) > ORDERS_KEPT:
                self._orders.popitem(last=False)
        return order, token


def case_rows(grid: CaseGrid, selection: CaseSelection, cases: list[int], first: int = 0) -> Iterator[CaseRow]:
    score = selection.score_of(grid)
    figures = grid.figures(score)
    for number, case in enumerate(cases, first):
        winner = int(figures.winner[case])
        yield CaseRow(
            number=number,
            case=case,
            id=grid.ids[case],
            cells=[
                _cell(grid, case, variant, _number_or_none(figures.scores[case, variant]), has_scores=score is not None)
                for variant in range(len(grid.variants))
            ],
            difference=_number_or_none(figures.difference[case]),
            winner={TIE: "tie", NO_WINNER: ""}.get(winner) if winner < 0 else grid.variants[winner],  # type: ignore[arg-type]
            tags=tag_text(grid.tags_of(case)),
            cost_usd=_number_or_none(figures.cost_usd[case]),
            service_s=_number_or_none(figures.service_s[case]),
        )


def _number_or_none(value: float) -> float | None:
    return None if value != value else float(value)


def _cell(grid: CaseGrid, case: int, variant: int, score: float | None, has_scores: bool) -> CaseCell:
    outcomes = grid.outcomes_of(case, variant)
    numbers = dict.fromkeys(range(MISSING + 1), 0)
    for (number, _), count in outcomes.items():
        numbers[number] += count
    failures = [(number, kind, count) for (number, kind), count in outcomes.items() if number in _MARKS]
    words = [kind.replace("_", " ") + (f" × {count}" if count > 1 else "") for _, kind, count in sorted(failures)]
    waiting = numbers[CANCELLED] + numbers[MISSING]
    if waiting and waiting < grid.repeats:
        words.append(f"{grid.repeats - waiting} of {grid.repeats}")
    text = "" if score is None else short_score(score)
    if not text and numbers[OK]:
        text = "no score" if has_scores else "answered"
    elif not text and not words:
        text = "skipped" if numbers[SKIPPED] else "not run"
    look = next((mark for number, mark in _MARKS.items() if numbers[number]), "")
    if not look and score is not None:
        look = "right" if score >= 1 else "wrong" if score <= 0 else "part"
    return CaseCell(grid.trials_of(case, variant)[0], score, text, ", ".join(words), look or "none")


def _columns(grid: CaseGrid, selection: CaseSelection) -> list[GridColumn]:
    figures = grid.figures(selection.score_of(grid))
    mean = "mean score over the repeats" if grid.repeats > 1 else "score"
    is_compared = len(grid.variants) > 1 and bool(grid.score_names)
    if grid.treatment is None:
        difference = ("spread", "points between the best and the worst variant")
    else:
        difference = ("difference", f"points of {grid.variants[grid.treatment]} above {grid.variants[grid.baseline]}")
    columns = [("case", "case", "id of the case")]
    columns += [(f"variant-{index}", name, f"{mean} of {name}") for index, name in enumerate(grid.variants)]
    if is_compared:
        columns += [("difference", *difference), ("winner", "winner", "the variant with the highest score")]
    if grid.known_tags():
        columns.append(("tags", "tags", "tags of the case"))
    if not np.isnan(figures.cost_usd).all():
        columns.append(("cost", "cost", "dollars for all trials of the case"))
    columns.append(("latency", "latency", "mean seconds of an answer"))
    directions = {True: "descending", False: "ascending"}
    return [
        GridColumn(
            name=name,
            title=title,
            explanation=explanation,
            sort=selection.toggled(name),
            direction=directions[selection.is_descending] if selection.column == name else "none",
        )
        for name, title, explanation in columns
    ]


def _filters(grid: CaseGrid) -> dict[str, list[tuple[str, str]]]:
    winners = [(str(index), name) for index, name in enumerate(grid.variants)]
    first, *others = grid.score_names or [""]
    is_compared = len(grid.variants) > 1 and bool(grid.score_names)
    return {
        "tag": [(f"{key}={value}",) * 2 for key, values in grid.known_tags().items() for value in values],
        "status": list(STATUSES.items()),
        "winner": [*winners, ("tie", "tie"), ("none", "not comparable")] if is_compared else [],
        "error": [(kind, kind.replace("_", " ")) for kind in sorted(grid.error_kinds)],
        "score": [("", first), *((name, name) for name in others)] if others else [],
    }

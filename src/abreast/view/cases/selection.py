"""Selection and order of the cases in the grid, as contained in the page's address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import numpy as np

from abreast.analyse.rows import Bools, Ints
from abreast.errors import BadInput
from abreast.store import Store
from abreast.view.cases.grid import (
    CANCELLED,
    INFRASTRUCTURE,
    MISSING,
    NO_WINNER,
    OWN_FAILURE,
    SKIPPED,
    TIE,
    CaseGrid,
)

LONGEST_TEXT = 200
STATUSES = {
    "ok": "all answered",
    "failed": "a variant failed",
    "infrastructure": "infrastructure failure",
    "skipped": "skipped",
    "unfinished": "not finished",
}
_OUTCOMES = {
    "failed": [OWN_FAILURE],
    "infrastructure": [INFRASTRUCTURE],
    "skipped": [SKIPPED],
    "unfinished": [CANCELLED, MISSING],
}
_WINNERS = {"tie": TIE, "none": NO_WINNER}
_COLUMNS = ("case", "difference", "winner", "tags", "cost", "latency")


@dataclass(frozen=True, slots=True)
class CaseSelection:
    """Filters and order; empty values select everything, in plan order. Variants are identified by their index."""

    sort: str = ""  # a column; with a leading minus, in descending order
    tag: str = ""  # key=value
    status: str = ""
    winner: str = ""
    error: str = ""
    q: str = ""  # text to search in ids, prompts and answers
    score: str = ""

    @classmethod
    def parse(cls, query: Mapping[str, str], grid: CaseGrid) -> CaseSelection:
        selection = cls(**{name: query.get(name, "").replace("\0", "") for name in cls.__slots__})
        selection = replace(selection, q=selection.q.strip()[:LONGEST_TEXT])
        indexes = [str(index) for index in range(len(grid.variants))]
        _require("sort", selection.column, ("", *_COLUMNS, *(f"variant-{index}" for index in indexes)))
        _require("status", selection.status, ("", *STATUSES))
        _require("winner", selection.winner, ("", *_WINNERS, *indexes))
        if grid.score_names:
            _require("score", selection.score, ("", *grid.score_names))
        if selection.tag and "=" not in selection.tag:
            raise BadInput(f"tag: {selection.tag!r} has no value", "use KEY=VALUE")
        return selection

    @property
    def column(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def is_descending(self) -> bool:
        return self.sort.startswith("-")

    @property
    def is_filtered(self) -> bool:
        return any((self.tag, self.status, self.winner, self.error, self.q))

    def query(self, **changes: object) -> str:
        """Return the query string of this selection, with changes.

        >>> CaseSelection(status="ok", q="a b").query(sort="-cost")
        'sort=-cost&status=ok&q=a+b'
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__} | changes
        return urlencode({name: value for name, value in values.items() if value not in ("", None)})

    def toggled(self, column: str) -> str:
        """Return the query string after a click on a column: largest first, then smallest first, then plan order; texts
        begin with smallest first."""
        first, second = (column, f"-{column}") if column in ("case", "tags") else (f"-{column}", column)
        return self.query(sort={first: second, second: ""}.get(self.sort, first))

    # -- applied to a grid ---------------------------------------------------------------------------------------------

    def score_of(self, grid: CaseGrid) -> str | None:
        return self.score or next(iter(grid.score_names), None)

    def matching(self, store: Store, grid: CaseGrid) -> Bools:
        """Return whether each case is selected, by index."""
        is_shown = grid.has_row
        if self.tag:
            key, _, value = self.tag.partition("=")
            is_shown = is_shown & grid.has_tag(key, value)
        if self.status == "ok":
            is_shown = is_shown & ~grid.has_outcome(*(other for others in _OUTCOMES.values() for other in others))
        elif self.status:
            is_shown = is_shown & grid.has_outcome(*_OUTCOMES[self.status])
        if self.winner:
            number = _WINNERS[self.winner] if self.winner in _WINNERS else int(self.winner)
            is_shown = is_shown & (grid.figures(self.score_of(grid)).winner == number)
        if self.error:
            is_shown = is_shown & grid.has_error(self.error)
        if self.q:
            is_shown = is_shown & grid.mentions(store, self.q)
        return is_shown

    def order(self, store: Store, grid: CaseGrid) -> Ints:
        """Return the indexes of the selected cases in order. Cases without a value come last; ties keep plan order."""
        selected = np.flatnonzero(self.matching(store, grid))
        if not self.column:
            return selected
        keys = np.asarray(self._keys(grid)[selected], dtype=float)
        is_unknown = np.isnan(keys)
        keys = np.where(is_unknown, 0.0, -keys if self.is_descending else keys)
        return np.asarray(selected[np.lexsort((keys, is_unknown))])

    def _keys(self, grid: CaseGrid) -> Any:
        figures = grid.figures(self.score_of(grid))
        if self.column.startswith("variant-"):
            return figures.scores[:, int(self.column.removeprefix("variant-"))]
        if self.column == "case":
            return grid.id_ranks()
        if self.column == "tags":
            return grid.tag_ranks()
        if self.column == "winner":
            return np.where(figures.winner == NO_WINNER, np.nan, figures.winner)
        return {"difference": figures.difference, "cost": figures.cost_usd, "latency": figures.service_s}[self.column]


def _require(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        names = ", ".join(choice for choice in choices if choice)
        raise BadInput(f"{name}: unknown value {value[:100]!r}", f"choose one of {names}" if names else "omit it")

"""The base of all groups of queries: the store, and the joins of its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import numpy.typing as npt

    from abreast.store.dialect import Dialect
    from abreast.store.store import Store

CASE = "cases c ON c.digest = t.case_digest"
VARIANT = "variants v ON v.run_id = t.run_id AND v.variant = t.variant"
PAYLOAD = "payloads p ON p.run_id = t.run_id AND p.position = t.position"
# Skipped trials and infrastructure errors have no outcome that can be compared.
HAS_OUTCOME = "(t.status = 'ok' OR (t.status = 'error' AND t.error_blame = 'variant'))"
AT_ONCE = 500  # most values in one IN: engines limit the number of parameters

Array: TypeAlias = "npt.NDArray[Any]"


class Matches(NamedTuple):
    """The number of matching trials, and the positions of the first ones."""

    total: int
    positions: tuple[int, ...]


class QueryGroup:
    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def _dialect(self) -> Dialect:
        return self._store.reading().dialect

    def _scalar(self, sql: str, *parameters: object) -> Any:
        """The value of a query with one row and one column."""
        return self._store.rows(sql, parameters)[0][0]

    def _column(self, sql: str, *parameters: object) -> list[Any]:
        """The values of a query with one column."""
        return [value for (value,) in self._store.rows(sql, parameters)]

    def _exists(self, sql: str, *parameters: object) -> bool:
        return bool(self._store.rows(f"{sql} LIMIT 1", parameters))

    def _matches(self, run_id: int, condition: str, parameters: Sequence[object], most: int) -> Matches:
        rows = self._store.rows(
            f"SELECT COUNT(*) OVER (), t.position FROM trials t WHERE t.run_id = ? AND {condition} "
            "ORDER BY t.position LIMIT ?",
            (run_id, *parameters, most),
        )
        return Matches(rows[0][0] if rows else 0, tuple(row[1] for row in rows))


def count_if(condition: str) -> str:
    """An aggregate: the number of rows for which a condition holds."""
    return f"COUNT(CASE WHEN {condition} THEN 1 END)"


def in_batches(positions: Iterable[int]) -> Iterator[list[int]]:
    rest = iter(positions)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch


def as_columns(chunks: Iterable[list[tuple[Any, ...]]], kinds: Mapping[str, type]) -> dict[str, Array]:
    """Turn chunks of rows into arrays by name. Equal texts are shared; a missing float is nan, a missing integer 0."""
    import numpy as np  # late: few commands need it

    dtypes = {int: np.int64, float: float, bool: bool, str: object}
    texts: dict[str | None, str | None] = {}
    parts: dict[str, list[Array]] = {name: [np.array([], dtype=dtypes[kind])] for name, kind in kinds.items()}
    for chunk in chunks:
        for (name, kind), column in zip(kinds.items(), zip(*chunk, strict=True), strict=True):
            items: Iterable[Any] = column
            if kind is str:
                items = [texts.setdefault(item, item) for item in column]
            elif kind is int and None in column:
                items = [item or 0 for item in column]
            parts[name].append(np.array(items, dtype=dtypes[kind]))
    return {name: np.concatenate(parts.pop(name)) for name in kinds}  # pop frees memory early

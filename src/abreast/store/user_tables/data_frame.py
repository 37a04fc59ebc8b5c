"""Data frames of pandas or polars."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from abreast.errors import BadInput
from abreast.store.user_tables.tables import Frame


def data_frame(frame: Frame, library: str | None = None) -> Any:
    """Make a data frame of `library`: by default pandas, or polars if only that is installed."""
    chosen = library or _installed()
    if chosen == "polars":
        import polars

        return polars.DataFrame({key: list(column) for key, column in frame.columns.items()}, strict=False)
    if chosen != "pandas":
        raise BadInput(f"to_df: unknown library {chosen!r}", "use pandas or polars")
    import pandas

    return pandas.DataFrame({key: _series(pandas, frame.types[key], column) for key, column in frame.columns.items()})


def _installed() -> str:
    from importlib.util import find_spec

    for name in ("pandas", "polars"):
        if find_spec(name) is not None:
            return name
    raise BadInput("to_df needs pandas or polars", "run `pip install pandas`")


_NULLABLE = {"integer": "Int64", "boolean": "boolean"}


def _series(pandas: Any, kind: str, column: Any) -> Any:
    """Convert a column; integers and booleans keep their type even if some values are missing."""
    import numpy

    with suppress(ValueError, TypeError):  # a user's SQL stored text in a numeric column
        if kind == "real" or (kind == "integer" and None not in column):
            return numpy.array(column, dtype=float if kind == "real" else numpy.int64)
        if kind in _NULLABLE and None in column:
            return pandas.array(list(column), dtype=_NULLABLE[kind])
    if kind == "json" or (kind != "real" and None in column):  # pandas would turn None into a number
        return pandas.Series(list(column), dtype=object)
    return list(column)

"""Parquet files, read and written by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from abreast.store.dialect import quote

ROWS_AT_A_TIME = 1_000


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file. Raises ValueError if it cannot be read."""
    try:
        with duckdb.connect(config={"threads": 1}) as connection:
            result = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
            names = [column[0] for column in result.description or []]
            while rows := result.fetchmany(ROWS_AT_A_TIME):
                for row in rows:
                    yield dict(zip(names, row, strict=True))
    except (duckdb.Error, UnicodeDecodeError) as error:
        raise ValueError(str(error).splitlines()[0].rpartition("Error: ")[2]) from error


def write_parquet(names: Sequence[str], lines: Path | None, output: str) -> None:
    """Write a file from JSON lines, or an empty one with these columns. Raises ValueError if it cannot be written."""
    with duckdb.connect() as connection:
        try:
            if lines is not None:
                source = connection.read_json(str(lines), format="newline_delimited", sample_size=-1)
            else:
                columns = ", ".join(f"NULL::VARCHAR AS {quote(name)}" for name in names)
                source = connection.sql(f"SELECT {columns} LIMIT 0")
            source.write_parquet(output)
        except duckdb.Error as error:
            raise ValueError(str(error).splitlines()[0]) from error

"""Parquet files, read and written by DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from abreast.errors import BadInput
from abreast.store.dialect import quote


def read_parquet(path: Path, where: str) -> Iterator[dict[str, Any]]:
    """The rows of a file, one by one; `where` is the file as errors name it."""
    try:
        with duckdb.connect(config={"threads": 1}) as connection:
            result = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
            names = [column[0] for column in result.description or []]
            while rows := result.fetchmany(1000):
                for row in rows:
                    yield dict(zip(names, row, strict=True))
    except (duckdb.Error, UnicodeDecodeError) as error:
        why = str(error).splitlines()[0].replace(str(path), where).rpartition("Error: ")[2]
        raise BadInput(f"{where}: not a readable parquet file: {why}") from None


def write_parquet(lines: Path, names: Sequence[str], output: str, is_empty: bool) -> None:
    """Convert a file of JSON lines; `names` are its columns."""
    with duckdb.connect() as connection:
        source = None if is_empty else connection.read_json(str(lines), format="newline_delimited", sample_size=-1)
        try:
            if source is None:
                columns = ", ".join(f"NULL::VARCHAR AS {quote(name)}" for name in names)
                source = connection.sql(f"SELECT {columns} LIMIT 0")
            source.write_parquet(output)
        except duckdb.Error as error:
            raise BadInput(f"--output {output}: {str(error).splitlines()[0]}") from None

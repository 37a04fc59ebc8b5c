"""Rows as files: CSV, JSON lines and parquet, row by row."""

from __future__ import annotations

import csv
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from abreast.errors import BadInput
from abreast.store import Store, tables


def export(store: Store, table: str, name: str | None, form: str, output: str | None) -> int:
    """Write the rows of a table, or those of one run or tracker; how many there were."""
    names, rows = tables.stream(store, table)
    if name is not None:
        of_run = "run" in names and store.rows("SELECT 1 FROM runs WHERE run = ?", (name,))
        who = "run" if of_run else "track_id"
        rows = tables.stream(store, table, tables.Condition(f"{{{who}}} = ?", (name,), (who,)))[1]
    if form == "parquet":
        if output is None:
            raise BadInput("parquet cannot go to standard output", "--output rows.parquet")
        return _parquet(names, rows, output)
    with _opened(output) as file:
        return _csv(names, rows, file) if form == "csv" else _jsonl(names, rows, file)


def as_csv(store: Store, run: str) -> str:
    """The trials of a run."""
    file = io.StringIO()
    names = [row[1] for row in store.rows("PRAGMA table_info(predictions)")]
    _csv(names, store.each("SELECT * FROM predictions WHERE run = ?", (run,)), file)
    return file.getvalue()


@contextmanager
def _opened(output: str | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        with Path(output).open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise BadInput(f"--output {output}: cannot be written ({error.strerror})") from None


def _csv(names: list[str], rows: Iterator[tuple[Any, ...]], file: TextIO) -> int:
    writer, count = csv.writer(file, lineterminator="\n"), 0
    writer.writerow(names)
    for row in rows:
        writer.writerow([_text(value) if isinstance(value, dict | list | bytes) else value for value in row])
        count += 1
    return count


def _text(value: Any) -> str:
    """What a file of text has no word for."""
    if isinstance(value, bytes):
        return value.hex()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _jsonl(names: list[str], rows: Iterator[tuple[Any, ...]], file: TextIO) -> int:
    count = 0
    for row in rows:
        file.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=_text) + "\n")
        count += 1
    return count


def _parquet(names: list[str], rows: Iterator[tuple[Any, ...]], output: str) -> int:
    import duckdb

    with tempfile.TemporaryDirectory(prefix="abreast-") as folder:
        lines = Path(folder) / "rows.jsonl"
        with lines.open("w", encoding="utf-8") as file:
            count = _jsonl(names, rows, file)
        with duckdb.connect() as connection:
            source = connection.read_json(str(lines), format="newline_delimited", sample_size=-1) if count else None
            try:
                if source is None:
                    columns = ", ".join(f'NULL::VARCHAR AS "{name}"' for name in names)
                    source = connection.sql(f"SELECT {columns} LIMIT 0")
                source.write_parquet(output)
            except duckdb.Error as error:
                raise BadInput(f"--output {output}: {str(error).splitlines()[0]}") from None
    return count

"""Rows as files: CSV, JSON lines and parquet, row by row."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from abreast.errors import BadInput
from abreast.output import emit, while_read
from abreast.report.formats.catalogue import ReportFormat, ReportRequest
from abreast.store import Store
from abreast.store.user_state.drivers import temporary_folder
from abreast.store.user_tables import tables
from abreast.text import dump_json

# Text that a spreadsheet would run as a formula: OWASP's list, and the full-width forms that some accept. Any number of
# quotes may precede it, so that removing one quote always restores the text.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def escape_formula(value: Any) -> Any:
    """Put a quote before text that a spreadsheet would run as a formula. Numbers are unchanged.

    >>> escape_formula("=1+1"), escape_formula("'=1+1"), escape_formula("plain"), escape_formula("-3.5")
    ("'=1+1", "''=1+1", 'plain', '-3.5')
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


class CsvFile:
    """CSV with Unix line ends. `csv.writer` with these would leave carriage returns unquoted, which break rows."""

    def __init__(self, file: _Writable, escape_formulas: bool) -> None:
        self._file = file
        self._writer = csv.writer(self, lineterminator="\r\n")
        self._escape = escape_formula if escape_formulas else lambda value: value

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix("\r\n") + "\n")

    def write_row(self, row: Iterable[Any]) -> None:
        self._writer.writerow(
            [_text(value) if isinstance(value, dict | list | bytes) else self._escape(value) for value in row]
        )


def export(
    store: Store, table: str, name: str | None, form: str, output: str | None, escape_formulas: bool = False
) -> int:
    """Write the rows of a table, or those of one run or tracker, and return their number."""
    names, rows = tables.stream(store, table)
    if name is not None:
        key = "run" if "run" in names and name in store.queries.run_names() else "track_id"
        rows = tables.stream(store, table, tables.Condition.matching({key: name}))[1]
    if form == "parquet":
        if output is None:
            raise BadInput("parquet cannot go to standard output", "use --output rows.parquet")
        return _parquet(names, rows, output)
    if output is None:
        rows = while_read(rows)
    with _opened(output) as file:
        return _csv(names, rows, file, escape_formulas) if form == "csv" else _jsonl(names, rows, file)


class Csv(ReportFormat):
    file_name = "trials.csv"

    def pieces(self, request: ReportRequest) -> list[str]:
        analysis = request.analysis
        return [as_csv(analysis.rows.store, analysis.run["run"], request.escape_formulas)]


def as_csv(store: Store, run: str, escape_formulas: bool) -> str:
    file = io.StringIO()
    names, rows = store.queries.prediction_rows(run)
    _csv(names, rows, file, escape_formulas)
    return file.getvalue()


class _Writable(Protocol):
    def write(self, text: str, /) -> object: ...


class _StandardOutput:
    def write(self, text: str, /) -> None:
        emit(text)


@contextmanager
def _opened(output: str | None) -> Iterator[_Writable]:
    if output is None:
        yield _StandardOutput()
        return
    try:
        with Path(output).open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise BadInput(f"--output {output}: cannot write ({error.strerror})") from None


def _csv(names: list[str], rows: Iterator[tuple[Any, ...]], file: _Writable, escape_formulas: bool) -> int:
    table, count = CsvFile(file, escape_formulas), 0
    table.write_row(names)
    for row in rows:
        table.write_row(row)
        count += 1
    return count


def _text(value: Any) -> str:
    """Convert a value for which CSV and JSON have no type."""
    if isinstance(value, bytes):
        return value.hex()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def _jsonl(names: list[str], rows: Iterator[tuple[Any, ...]], file: _Writable) -> int:
    count = 0
    for row in rows:
        file.write(dump_json(dict(zip(names, row, strict=True)), default=_text) + "\n")
        count += 1
    return count


def _parquet(names: list[str], rows: Iterator[tuple[Any, ...]], output: str) -> int:
    from abreast.store.parquet import write_parquet  # slow: imports DuckDB

    with temporary_folder() as folder:
        lines = folder / "rows.jsonl"
        with lines.open("w", encoding="utf-8") as file:
            count = _jsonl(names, rows, file)
        try:
            write_parquet(names, lines if count else None, output)
        except ValueError as error:
            raise BadInput(f"--output {output}: {error}") from None
    return count

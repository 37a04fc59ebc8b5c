"""Tables of any tool: CSV, TSV or JSON lines with a row for each trial, and columns that the user can map."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, get_args

from abreast.errors import BadInput, suggestion
from abreast.importers.base import LogFormat, LoggedTrial, LogHeader
from abreast.importers.log_file import LogFile
from abreast.model import Answer, Blame, Case, Failure, Score, Usage
from abreast.text import printable

FIELDS = {  # column names that need no --map
    "case": ("case", "case_id", "id"),
    "variant": ("variant",),
    "repeat": ("repeat",),
    "score": ("score",),
    "input": ("input",),
    "prompt": ("prompt",),
    "expected": ("expected",),
    "answer": ("answer",),
    "error": ("error",),
    "error_kind": ("error_kind",),
    "blame": ("error_blame", "blame"),
    "tags": (),
    "group": ("group",),
    "model": ("model",),
    "latency": ("latency_s", "latency"),
    "cost": ("cost_usd", "cost"),
    "input_tokens": ("input_tokens",),
    "output_tokens": ("output_tokens",),
    "started_at": ("started_at",),
    "skipped": (),
}
_USUAL = {column for columns in FIELDS.values() for column in columns}
SEVERAL = ("score", "tags")  # fields that may have several columns
LARGEST_CELL = 1 << 27  # characters
_NUMBERS = {**dict.fromkeys(("true", "yes", "pass", "passed", "correct"), 1.0)}
_NUMBERS |= dict.fromkeys(("false", "no", "fail", "failed", "incorrect", "wrong"), 0.0)

_NOTHING = ("", "false", "no", "none", "null", "nan", "0", "[]", "{}")

Row = Mapping[str, Any]


class Table(LogFormat):
    name = "table"
    title = "table (CSV, TSV or JSON lines)"
    error_rule = (
        "a row with an error failed; the column blame says whose fault it is; without it, the row counts for neither "
        "side"
    )

    def recognises(self, log: LogFile) -> bool:
        if log.kind == "json lines":
            names: Any = log.first_line()
        elif log.kind == "text":
            try:
                names = next(_table(io.StringIO(log.head.decode("utf-8-sig", "replace"), newline=""), log), ())
            except csv.Error:
                return False
            names = names if len(names) > 1 else ()
        else:
            return False
        return bool(names) and (bool(log.columns) or any(name in _USUAL for name in names))

    def header(self, log: LogFile) -> LogHeader:
        first = next(_rows(log), None)
        if first is None:
            raise log.error("the table has no rows")
        columns = _TableColumns(log, first[1])
        if not columns.of["score"]:
            names = ", ".join(map(str, first[1]))
            raise log.error(f"no column with a score (columns: {names})", "add --map score=COLUMN")
        return LogHeader(tool="table", task=log.path.stem, primary=columns.score_names[0])

    def trials(self, log: LogFile, header: LogHeader) -> Iterator[LoggedTrial]:
        first_repeat = next((0 for row in _table_rows(log) if not row.repeat), 1)
        for row in _table_rows(log):
            yield row.trial(first_repeat)


class _TableColumns:
    """The columns of each field: mapped by the user, or else those with the usual names."""

    def __init__(self, log: LogFile, first: Row) -> None:
        for name in log.columns:
            if name not in FIELDS:
                raise log.error(f"--map {name}: unknown field{suggestion(name, FIELDS)}")
        mapped = {name: value.split(",") if name in SEVERAL else [value] for name, value in log.columns.items()}
        for name, chosen in mapped.items():
            for column in chosen:
                if column not in first:
                    raise log.error(f"--map {name}={column}: no such column{suggestion(column, map(str, first))}")
        usual = {name: [column for column in names if column in first][:1] for name, names in FIELDS.items()}
        if log.kind == "json lines":  # later rows may have more columns, such as `error` where a trial failed
            usual |= {name: list(FIELDS[name]) for name in usual.keys() - {"case", *SEVERAL} if not usual[name]}
        self.of = {**usual, **mapped}
        if not self.of["case"]:
            raise log.error(f"no column with the id of the case (columns: {', '.join(first)})", "add --map case=COLUMN")

    @property
    def score_names(self) -> list[str]:
        return [column.removeprefix("score_") for column in self.of["score"]]


class _TableRow:
    def __init__(self, log: LogFile, columns: _TableColumns, number: int, row: Row) -> None:
        self._log, self._columns, self._number, self._row = log, columns, number, row

    @property
    def repeat(self) -> int | None:
        return self._integer("repeat")

    def trial(self, first_repeat: int) -> LoggedTrial:
        case_id = self._text("case")
        if not case_id:
            raise self._error("case", "is empty")
        error = self._problem("error")
        text = self._text("answer")
        return LoggedTrial(
            case=Case(
                case_id,
                self._value("input"),
                self._value("expected"),
                {
                    name: str(self._row[name])
                    for name in self._columns.of["tags"]
                    if self._row.get(name) not in ("", None)
                },
                self._text("group") or None,
            ),
            variant=self._text("variant") or self._log.path.stem,
            repeat=None if self.repeat is None else self.repeat - first_repeat,
            prompt=self._text("prompt") or self._text("input"),
            answer=None if error and not text else self._answer(text),
            failure=self._failure(error) if error else None,
            skipped=self._problem("skipped") or None,
            scores=() if error else self._scores(),
            started_at=self._number_in("started_at"),
            latency_s=self._number_in("latency"),
        )

    def _answer(self, text: str) -> Answer:
        cost = self._number_in("cost")
        return Answer(
            text=text,
            usage=Usage(self._integer("input_tokens"), self._integer("output_tokens")),
            cost_usd=cost,
            cost_basis="unknown" if cost is None else "reported",
            model=self._text("model") or None,
        )

    def _failure(self, message: str) -> Failure:
        blame = self._text("blame") or "unknown"
        if blame not in get_args(Blame):
            raise self._error("blame", f'must be {", ".join(get_args(Blame))}, got "{blame}"')
        return Failure(self._text("error_kind") or "error", cast(Blame, blame), message)

    def _scores(self) -> list[Score]:
        pairs = zip(self._columns.score_names, self._columns.of["score"], strict=True)
        values = [(name, self._score(self._row.get(column), column)) for name, column in pairs]
        return [Score(name, value, "" if value is not None else "no score in the log") for name, value in values]

    def _score(self, value: Any, column: str) -> float | None:
        word = value.strip().lower() if isinstance(value, str) else value
        return _NUMBERS[word] if isinstance(word, str) and word in _NUMBERS else self._as_number(value, column)

    def _value(self, field: str) -> Any:
        values = (self._row.get(column) for column in self._columns.of[field])
        return next((value for value in values if value not in (None, "")), None)

    def _text(self, field: str) -> str:
        value = self._value(field)
        return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def _problem(self, field: str) -> str:
        """Return the text of an error field; empty if the text means "no error"."""
        text = self._text(field)
        return "" if text.strip().lower() in _NOTHING else text

    def _number_in(self, field: str) -> float | None:
        return self._as_number(self._value(field), next(iter(self._columns.of[field]), field))

    def _integer(self, field: str) -> int | None:
        number = self._number_in(field)
        if number is not None and (number < 0 or not number.is_integer()):
            raise self._error(field, f"must be a whole number, got {number:g}")
        return None if number is None else int(number)

    def _as_number(self, value: Any, column: str) -> float | None:
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise self._error(column, f"is not a number: {printable(str(value))[:60]}") from None
        return None if math.isnan(number) else number

    def _error(self, column: str, problem: str) -> BadInput:
        return self._log.error(f"line {self._number:,}: {column} {problem}")


def _table_rows(log: LogFile) -> Iterator[_TableRow]:
    columns = None
    for number, row in _rows(log):
        columns = columns or _TableColumns(log, row)
        yield _TableRow(log, columns, number, row)


def _rows(log: LogFile) -> Iterator[tuple[int, Row]]:
    """Yield the line and content of each row."""
    if log.kind == "json lines":
        for number, value in log.json_lines():
            if not isinstance(value, dict):
                raise log.error(f"line {number:,}: not an object with columns")
            yield number, value
        return
    with log.lines() as lines:
        table = _table(lines, log)
        try:
            names: list[str] = next(table, [])
            for name in filter(None, names):
                if names.count(name) > 1:
                    raise log.error(f"line 1: two columns are named {printable(name)[:60]}", "rename one of them")
            for row in table:
                if not row:
                    continue
                if len(row) != len(names):
                    what = f"{len(row):,} cells, the first line has {len(names):,}"
                    raise log.error(f"line {table.line_num:,}: {what}", "the file may be truncated")
                yield table.line_num, dict(zip(names, row, strict=True))
        except csv.Error as error:
            raise log.error(f"not a valid table (line {table.line_num:,}: {error})") from None


def _table(lines: Iterable[str], log: LogFile) -> Any:
    csv.field_size_limit(LARGEST_CELL)
    first = next(iter(log.head.decode("utf-8-sig", "replace").splitlines()), "")
    return csv.reader(lines, delimiter=max("\t;,", key=first.count))

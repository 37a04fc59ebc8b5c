"""Checks for untrustworthy rows of trackers: one function each, which reads the columns of one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from abreast.analyse.validate.evidence import FEWEST, MANY, Level, ResultFinding, finding, listed
from abreast.preflight.checks.renames import renames
from abreast.store.user_tables.tables import Frame
from abreast.text import many

_ROW_COLUMNS = ("row_id", "track_id", "timestamp", "code_commit", "code_dirty", "cache", "cache_row", "function_time")
_CALL_COLUMNS = (*_ROW_COLUMNS, "function_name", "error", "traceback", "cpu_s", "memory_peak_mb", "memory_grown_mb")
_ANSWERS = ("prediction", "answer", "output", "response", "function_result")


class TrackedCalls(NamedTuple):
    """The rows of one table that trackers write."""

    store: str
    table: str
    frame: Frame

    def column(self, name: str) -> list[Any]:
        return list(self.frame.columns.get(name, [None] * len(self.frame)))

    def own(self) -> dict[str, list[Any]]:
        """The columns that the user's code fills."""
        names = [name for name in self.frame.columns if name not in _CALL_COLUMNS]
        return {name: self.column(name) for name in names}

    def command(self, name: str, words: str) -> str:
        option = "" if self.table == "predictions" else f" --table {self.table}"
        return f"abreast {name} {self.store} {words}{option}"

    def finding(self, check: str, is_serious: bool, message: str, fix: str, rows: list[int]) -> ResultFinding:
        ids = self.column("row_id")
        level: Level = "serious" if is_serious else "note"
        return finding(check, level, message, fix, "rows", len(rows), (str(ids[at]) for at in rows))


def failed_calls(tracked: TrackedCalls) -> Iterator[ResultFinding]:
    errors = tracked.column("error")
    rows = [at for at, error in enumerate(errors) if error]
    if rows:
        kinds = Counter(str(errors[at]).partition(":")[0] for at in rows)
        words = listed(f"{count} {kind}" for kind, count in kinds.most_common())
        message = f"{many(len(rows), 'row')} of {len(errors):,} have an error ({words})"
        is_serious = len(rows) > MANY * len(errors)
        yield tracked.finding("errors", is_serious, message, "call these again; errors are never cached", rows)


def repeated_rows(tracked: TrackedCalls) -> Iterator[ResultFinding]:
    columns = [values for name, values in tracked.frame.columns.items() if name not in _ROW_COLUMNS]
    first: dict[str, int] = {}
    rows = [at for at, row in enumerate(zip(*columns, strict=True)) if first.setdefault(repr(row), at) != at]
    if rows and columns:
        message = f"{many(len(rows), 'row')} repeat another row of {tracked.table} and would count twice"
        fix = f"run `abreast delete {tracked.store} TRACK_ID` to remove the rows of one tracker"
        yield tracked.finding("duplicates", len(rows) > MANY * len(tracked.frame), message, fix, rows)


def one_answer(tracked: TrackedCalls) -> Iterator[ResultFinding]:
    for name, values in tracked.own().items():
        rows = [at for at, value in enumerate(values) if value is not None]
        if name in _ANSWERS and len(rows) >= FEWEST and len({repr(values[at]) for at in rows}) == 1:
            message = f"{name} is the same in all {len(rows):,} rows"
            yield tracked.finding("answers", True, message, tracked.command("head", f"--columns {name}"), rows)


def incomplete_columns(tracked: TrackedCalls) -> Iterator[ResultFinding]:
    """Find columns that some rows of one tracker have and others lack, apart from errors."""
    trackers, errors = tracked.column("track_id"), tracked.column("error")
    for name, values in tracked.own().items():
        having = {trackers[at] for at, value in enumerate(values) if value is not None}
        rows = [at for at, value in enumerate(values) if value is None and not errors[at] and trackers[at] in having]
        if rows:
            message = f"{name} is missing in {many(len(rows), 'row')} of trackers that filled it elsewhere"
            yield tracked.finding("missing", False, message, "always return it from the function", rows)


def renamed_columns(tracked: TrackedCalls) -> Iterator[ResultFinding]:
    """Columns that end where similar ones begin."""
    spans = {
        name: [at for at, value in enumerate(values) if value is not None] for name, values in tracked.own().items()
    }
    spans = {name: rows for name, rows in spans.items() if rows}
    last = len(tracked.frame) - 1
    ended = {name: rows for name, rows in spans.items() if rows[-1] < last}
    begun = {name: rows for name, rows in spans.items() if rows[0] > 0}
    stored = {
        name: list({repr(tracked.column(name)[at]): tracked.column(name)[at] for at in rows}.values())
        for name, rows in spans.items()
    }
    lasting = [name for name in spans if name not in ended and name not in begun]
    for old, new in renames([*ended, *lasting], [*begun, *lasting], stored, stored):
        if spans[old][-1] < spans[new][0]:
            message = f"{old} seems to have become {new}: no row has both"
            yield tracked.finding("renames", True, message, tracked.command("rename", f"{old} {new}"), spans[old])


def mixed_types(tracked: TrackedCalls) -> Iterator[ResultFinding]:
    for name, values in tracked.own().items():
        kinds = {
            "text" if isinstance(value, str) else "number" for value in values if isinstance(value, str | int | float)
        }
        if len(kinds) > 1:
            rows = [at for at, value in enumerate(values) if isinstance(value, str)]
            message = f"{name} has numbers and text: {many(len(rows), 'row')} have text"
            yield tracked.finding("types", False, message, tracked.command("ls", f"{name} --unique"), rows)


def code_versions(tracked: TrackedCalls) -> Iterator[ResultFinding]:
    trackers, commits = tracked.column("track_id"), tracked.column("code_commit")
    by_tracker: dict[Any, set[Any]] = {}
    for tracker, commit in zip(trackers, commits, strict=True):
        by_tracker.setdefault(tracker, set()).add(commit)
    mixed = {tracker for tracker, versions in by_tracker.items() if len(versions) > 1}
    rows = [at for at, tracker in enumerate(trackers) if tracker in mixed]
    if rows:
        message = f"{many(len(mixed), 'tracker')} wrote rows of several commits"
        yield tracked.finding("code", True, message, "use one tracker (one track_id) per version of the code", rows)
    dirty = [at for at, is_dirty in enumerate(tracked.column("code_dirty")) if is_dirty]
    if dirty:
        message = f"{many(len(dirty), 'row')} were written by uncommitted code"
        yield tracked.finding("code", False, message, "commit the code before an experiment", dirty)


TRACKED_CHECKS: tuple[tuple[Callable[[TrackedCalls], Iterator[ResultFinding]], str], ...] = (
    (failed_calls, "failed calls"),
    (repeated_rows, "rows that repeat another"),
    (one_answer, "one answer for all"),
    (incomplete_columns, "columns that rows lack"),
    (renamed_columns, "renamed columns"),
    (mixed_types, "mixed types"),
    (code_versions, "mixed or uncommitted code"),
)

"""Flagged trials: the agent changed tests, or files outside of its workspace changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from abreast.analyse.run import Analysis
from abreast.model import OUTSIDE_FILES, TEST_FILES
from abreast.text import many

LISTED = 3  # cases in a line, and files of a case
_LINES = (
    ("tests_changed", "{agent} changed tests in {trials}; they were restored before the check"),
    ("outside_changes", "files outside of the workspace changed while {agent} was working in {trials}"),
)


class Flag(NamedTuple):
    case: str
    variant: str
    repeat: int
    tests_changed: list[str]
    outside_changes: list[str]


def flags_of(analysis: Analysis) -> list[Flag]:
    rows = analysis.rows
    flags = []
    for at, data in rows.answer_data(TEST_FILES, OUTSIDE_FILES):
        files = (file_names(data, TEST_FILES), file_names(data, OUTSIDE_FILES))
        if any(files):
            case, variant = rows.cases[int(rows.case[at])].id, rows.variants[int(rows.variant[at])]
            flags.append(Flag(case, variant, int(rows.repeat[at]), *files))
    return flags


def file_names(data: Mapping[str, Any], name: str) -> list[str]:
    """A list of files in the data of an answer; empty if missing."""
    files = data.get(name)
    return [str(file) for file in files] if isinstance(files, list) else []


def flag_lines(analysis: Analysis) -> list[str]:
    """Write a sentence for each variant and kind of flag, with the first cases and files."""
    flags = flags_of(analysis)
    return [line for kind, words in _LINES for line in _lines(analysis, flags, kind, words)]


def _lines(analysis: Analysis, flags: list[Flag], kind: str, words: str) -> Iterator[str]:
    stored = Counter(analysis.rows.variant[analysis.rows.present].tolist())
    for at, name in enumerate(analysis.rows.variants):
        flagged = [(flag.case, getattr(flag, kind)) for flag in flags if flag.variant == name and getattr(flag, kind)]
        if flagged:
            by_case = {case: ", ".join(files[:LISTED]) for case, files in flagged}
            cases = "; ".join(f"{case} ({files})" for case, files in list(by_case.items())[:LISTED])
            more = f"; {len(by_case) - LISTED:,} more" if len(by_case) > LISTED else ""
            trials = f"{len(flagged):,} of {many(stored[at], 'trial')}"
            yield f"{words.format(agent=name, trials=trials)}: {cases}{more}"

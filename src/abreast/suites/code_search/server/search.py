"""`search_code`: where a text or a regular expression stands."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from abreast import regex_timeout
from abreast.suites.code_search.server.arguments import Parameter, Refused
from abreast.suites.code_search.server.files import Files
from abreast.suites.code_search.server.lines import counted, cut, fitting, plain, source_lines

PATIENCE_S = 10.0
MOST_HITS, MOST_CONTEXT = 500, 20
MOST_COUNTED = 100_000
WIDEST_SEARCHED = 100_000  # characters of a line; what is behind them is no source

DESCRIPTION = """Find a text in the code, like `rg`: every line that contains it, as `path:line: source`. \
Use it for strings, comments, error messages, configuration keys and file formats. All files that git does not ignore \
are searched, hidden ones too; binary files and those above 2 MB are not."""
BESIDES = """ To find where a function, class or type is defined or used, find_symbol and find_references are more \
exact."""

PARAMETERS = (
    Parameter(
        "pattern",
        "text",
        "The text to find, taken literally; with regex: true a Python regular expression, which sees one line at a "
        "time (alternatives are written a|b).",
        required=True,
    ),
    Parameter("regex", "flag", "The pattern is a regular expression.", default=False),
    Parameter("ignore_case", "flag", "Upper and lower case are the same.", default=False),
    Parameter("whole_word", "flag", "Only where it is not a part of a longer word.", default=False),
    Parameter("path", "text", "Only these files: a folder (src/store), a file, or a glob (*.go, src/**/test_*.py)."),
    Parameter("context", "count", "Lines to show before and after each hit.", default=0, most=MOST_CONTEXT),
    Parameter("limit", "count", "The most hits to show.", default=50, least=1, most=MOST_HITS),
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A line, counted from 0, and where in it the first match begins."""

    line: int
    start: int


class Search:
    def __init__(self, files: Files, patience_s: float = PATIENCE_S) -> None:
        self._files, self._patience_s = files, patience_s

    def call(
        self,
        pattern: str,
        regex: bool = False,
        ignore_case: bool = False,
        whole_word: bool = False,
        path: str | None = None,
        context: int = 0,
        limit: int = 50,
    ) -> str:
        """The hits, file by file, and how many there are."""
        where = str(self._files.root), self._files.chosen(path)
        wanted = pattern, regex, ignore_case, whole_word
        function, seconds = f"{__name__}:{search_files.__name__}", self._patience_s
        try:
            text, problem = regex_timeout.call(
                function, *where, wanted, limit, context, seconds=seconds, clock=regex_timeout.REAL_TIME
            )
        except regex_timeout.TooSlow:
            raise Refused(_late(seconds, regex)) from None
        if problem:
            raise Refused(problem)
        return str(text)


def search_files(
    root: str, chosen: list[str], wanted: tuple[str, bool, bool, bool], limit: int, context: int
) -> tuple[str, str]:
    """What is told of the hits, or why there is nothing to tell. Called in a process that may be ended."""
    try:
        return _told(_found(Files(Path(root)), chosen, _compiled(*wanted)), limit, context), ""
    except Refused as refused:
        return "", str(refused)
    except Exception as error:  # noqa: BLE001 - told by the process that asked
        return "", f"The search failed: {type(error).__name__}: {error}"[:300]


def _found(files: Files, chosen: list[str], wanted: re.Pattern[str]) -> Iterator[tuple[str, list[str], list[Hit]]]:
    """Files with hits: their path, their lines, and which lines those are."""
    for path in chosen:
        content = files.read(path)
        if not content:
            continue
        lines = source_lines(content)
        hits = [
            Hit(number, match.start())
            for number, line in enumerate(lines)
            if (match := wanted.search(line, 0, WIDEST_SEARCHED))
        ]
        if hits:
            yield path, lines, hits


def _compiled(pattern: str, regex: bool, ignore_case: bool, whole_word: bool) -> re.Pattern[str]:
    if not regex and ("\n" in pattern or "\r" in pattern):
        raise Refused("The pattern has a line break, and lines are searched one by one. Search for one of its lines.")
    words = pattern if regex else re.escape(pattern)
    if whole_word:
        words = rf"(?<!\w)(?:{words})(?!\w)"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(words, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError, MemoryError, ValueError) as error:
        raise Refused(
            f"The pattern is no regular expression of Python: {error}. Correct it, or leave regex out to search for "
            "the text as it is."
        ) from error


def _told(found: Iterator[tuple[str, list[str], list[Hit]]], limit: int, context: int) -> str:
    blocks: list[tuple[int, str]] = []
    shown = total = files = 0
    for path, lines, hits in found:
        taken = hits[: limit - shown]
        blocks += _blocks(plain(path), lines, taken, context)
        shown, total, files = shown + len(taken), total + len(hits), files + 1
        if total >= MOST_COUNTED:
            break
    if not total:
        return "No line has it. Try fewer words, or ignore_case: true."
    fit = fitting(block for _, block in blocks)
    shown = sum(count for count, _ in blocks[: len(fit)])
    return "\n".join([*fit, _sum(shown, total, files)])


def _blocks(path: str, lines: list[str], hits: list[Hit], context: int) -> Iterator[tuple[int, str]]:
    """How many hits each has, and its text. Hits whose contexts touch are one block, the next begins with `--`."""
    if not context:
        yield from ((1, f"{path}:{hit.line + 1}: {cut(lines[hit.line], hit.start)}") for hit in hits)
        return
    starts = {hit.line: hit.start for hit in hits}
    group: list[Hit] = []
    for hit in hits:
        if group and hit.line - group[-1].line > 2 * context + 1:
            yield len(group), _block(path, lines, group, starts, context)
            group = []
        group.append(hit)
    if group:
        yield len(group), _block(path, lines, group, starts, context)


def _block(path: str, lines: list[str], group: list[Hit], starts: dict[int, int], context: int) -> str:
    first, last = max(0, group[0].line - context), min(len(lines) - 1, group[-1].line + context)
    shown = []
    for number in range(first, last + 1):
        mark = ":" if number in starts else "-"
        shown.append(f"{path}{mark}{number + 1}{mark} {cut(lines[number], starts.get(number, 0))}")
    return "\n".join([*shown, "--"])


def _sum(shown: int, total: int, files: int) -> str:
    where = f"in {counted(files, 'file')}"
    if total >= MOST_COUNTED:
        return f"[{shown} shown of more than {MOST_COUNTED:,} hits: search for something rarer, or limit it by path]"
    if shown < total:
        return f"[{shown} shown, {total - shown:,} more; {total:,} hits {where}: limit it by path, or raise limit]"
    return f"[{counted(total, 'hit')} {where}]"


def _late(seconds: float, regex: bool) -> str:
    what = (
        "Write it without repeats inside of repeats, such as (a+)+, or" if regex else "Search for something rarer, or"
    )
    return f"The search took longer than {seconds:g} s and was ended. {what} limit it by path."

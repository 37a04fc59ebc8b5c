"""`search_code`: find a string or a regular expression."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from abreast import regex_timeout
from abreast.suites.code_search.server.arguments import Parameter, ToolError
from abreast.suites.code_search.server.files import Files, fit_answer, printable_path, shorten_line, source_lines
from abreast.text import many

PATIENCE_S = 10.0
MOST_HITS, MOST_CONTEXT = 500, 20
MOST_COUNTED = 100_000
WIDEST_SEARCHED = 100_000  # characters of a line; the rest of it is not searched

DESCRIPTION = """Find a text in the code, like `rg`: every line that contains it, as `path:line: source`. \
Use it for strings, comments, error messages, configuration keys and file formats. All files that git does not ignore \
are searched, hidden ones too; binary files and those above 2 MB are not."""
ABOUT_SYMBOL_TOOLS = """ To find where a function, class or type is defined or used, find_symbol and find_references \
are more exact."""

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


Hit = tuple[int, int]  # a line, from 0, and the start of the first match in it
FileHits = tuple[str, list[str], list[Hit]]  # the path of a file, its lines, and its hits


def search_code(
    files: Files,
    patience_s: float,
    pattern: str,
    regex: bool = False,
    ignore_case: bool = False,
    whole_word: bool = False,
    path: str | None = None,
    context: int = 0,
    limit: int = 50,
) -> str:
    """Return the hits by file, and their number."""
    query = pattern, regex, ignore_case, whole_word
    try:
        text, problem = regex_timeout.call(
            f"{__name__}:{search_files.__name__}",
            *(str(files.root), files.chosen(path), query, limit, context),
            seconds=patience_s,
            clock=regex_timeout.REAL_TIME,
        )
    except regex_timeout.TooSlow:
        simpler = "Avoid nested repeats, such as (a+)+" if regex else "Search for something rarer"
        raise ToolError(f"The search took longer than {patience_s:g} s. {simpler}, or limit it by path.") from None
    if problem:
        raise ToolError(problem)
    return str(text)


def search_files(
    root: str, chosen: list[str], query: tuple[str, bool, bool, bool], limit: int, context: int
) -> tuple[str, str]:
    """Search in the helper process; return the answer, or an error message."""
    try:
        return _describe(_find(Files(Path(root)), chosen, _compile(*query)), limit, context), ""
    except ToolError as refused:
        return "", str(refused)
    except Exception as error:  # noqa: BLE001 - the calling process reports it
        return "", f"The search failed: {type(error).__name__}: {error}"[:300]


def _find(files: Files, chosen: list[str], pattern: re.Pattern[str]) -> Iterator[FileHits]:
    for path in chosen:
        lines = source_lines(files.read(path) or b"")
        matches = ((number, pattern.search(line, 0, WIDEST_SEARCHED)) for number, line in enumerate(lines))
        if hits := [(number, match.start()) for number, match in matches if match]:
            yield path, lines, hits


def _compile(pattern: str, regex: bool, ignore_case: bool, whole_word: bool) -> re.Pattern[str]:
    if not regex and ("\n" in pattern or "\r" in pattern):
        raise ToolError("The pattern has a line break, but lines are searched one by one. Search for one of its lines.")
    source = pattern if regex else re.escape(pattern)
    if whole_word:
        source = rf"(?<!\w)(?:{source})(?!\w)"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(source, re.IGNORECASE if ignore_case else 0)
    except (re.error, OverflowError, RecursionError, MemoryError, ValueError) as error:
        message = f"The pattern is not a Python regular expression: {error}. Fix it, or omit regex."
        raise ToolError(message) from error


def _describe(matches: Iterator[FileHits], limit: int, context: int) -> str:
    blocks: list[tuple[int, str]] = []
    count = total = files = 0
    for path, lines, hits in matches:
        first = hits[: limit - count]
        blocks += _blocks(printable_path(path), lines, first, context)
        count, total, files = count + len(first), total + len(hits), files + 1
        if total >= MOST_COUNTED:
            break
    if not total:
        return "No line has it. Try fewer words, or ignore_case: true."
    fit = fit_answer(block for _, block in blocks)
    return "\n".join([*fit, _summary(sum(count for count, _ in blocks[: len(fit)]), total, files)])


def _blocks(path: str, lines: list[str], hits: list[Hit], context: int) -> Iterator[tuple[int, str]]:
    """Yield the number of hits and the text of each block. Hits with adjacent contexts share a block."""
    if not context:
        yield from ((1, f"{path}:{line + 1}: {shorten_line(lines[line], start)}") for line, start in hits)
        return
    starts = dict(hits)
    groups: list[list[int]] = []
    for line in starts:
        if groups and line - groups[-1][-1] <= 2 * context + 1:
            groups[-1].append(line)
        else:
            groups.append([line])
    for group in groups:
        block = []
        for number in range(max(0, group[0] - context), min(len(lines), group[-1] + context + 1)):
            mark = ":" if number in starts else "-"
            block.append(f"{path}{mark}{number + 1}{mark} {shorten_line(lines[number], starts.get(number, 0))}")
        yield len(group), "\n".join([*block, "--"])


def _summary(count: int, total: int, files: int) -> str:
    where = f"in {many(files, 'file')}"
    if total >= MOST_COUNTED:
        return f"[{count} shown of more than {MOST_COUNTED:,} hits: search for something rarer, or limit it by path]"
    if count < total:
        return f"[{count} shown, {total - count:,} more; {total:,} hits {where}: limit it by path, or raise limit]"
    return f"[{many(total, 'hit')} {where}]"

"""Find the files, lines and symbols that an answer names, and the Markdown structure around them."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Literal

from abreast.scorers.retrieval.json_fields import parse_spans
from abreast.scorers.retrieval.names import (
    AT,
    LONGEST_NAME,
    NUMBERS,
    Span,
    contains_word,
    declared_symbol,
    looks_like_path,
    names_symbol,
    occurrences,
    parse_location,
    path_of,
    symbol_of,
)

Kind = Literal["heading", "item", "row", "text", "code"]
_FENCE = re.compile(r"[ \t]{0,80}(`{3,40}|~{3,40})")
_LINE_KINDS: dict[Kind, re.Pattern[str]] = {
    "heading": re.compile(r"[ \t]{0,80}(?:#{1,6}[ \t]|\*\*[^*\n]{1,300}\*\*:?[ \t]*$|__[^_\n]{1,300}__:?[ \t]*$)"),
    "item": re.compile(r"[ \t]{0,200}(?:[-*+•]|\d{1,3}[.)])[ \t]"),
    "row": re.compile(r"[ \t]{0,80}\|"),
}
_RULE = re.compile(r"[\s|:-]+")
_CROSSES = "❌✗✘✖🚫⛔"
_CROSSED_OUT = re.compile(rf"^[^\n{_CROSSES}]*+[{_CROSSES}].*|~~[^~\n]{{1,500}}~~", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MarkdownUnit:
    """The range of a heading, list item, table row, paragraph or fenced block."""

    kind: Kind
    start: int
    end: int


def markdown_units(text: str) -> list[MarkdownUnit]:
    """Split a text into units, in order; blank lines are dropped."""
    units: list[MarkdownUnit] = []
    position, fence, opened = 0, "", 0
    is_blank = True
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        marker = _FENCE.match(line)
        if fence:
            if marker and marker[1].startswith(fence):
                units.append(MarkdownUnit("code", opened, start))
                fence = ""
        elif marker and "`" not in line[marker.end() :]:
            fence, opened, is_blank = marker[1], position, True
        elif not line.strip():
            is_blank = True
        else:
            kind: Kind = next((kind for kind, pattern in _LINE_KINDS.items() if pattern.match(line)), "text")
            if kind == "text" and not is_blank and units and units[-1].kind in ("text", "item"):
                units[-1] = MarkdownUnit(units[-1].kind, units[-1].start, position)
            else:
                units.append(MarkdownUnit(kind, start, position))
            is_blank = False
    if fence:
        units.append(MarkdownUnit("code", opened, len(text)))
    return units


def table_cells(text: str, row: MarkdownUnit) -> list[tuple[int, str]]:
    """Return the cells of a table row, each with its position."""
    bars = [match.start() for match in re.finditer(r"(?<!\\)\|", text[row.start : row.end])]
    return [(row.start + bar + 1, text[row.start + bar + 1 : row.start + end]) for bar, end in pairwise(bars)]


def tables(text: str, units: list[MarkdownUnit]) -> Iterator[list[MarkdownUnit]]:
    """Yield the rows of each table, without the rule below the header."""
    rows: list[MarkdownUnit] = []
    for unit in [*units, MarkdownUnit("text", len(text), len(text))]:
        if unit.kind == "row" and (not rows or rows[-1].end == unit.start):
            rows.append(unit)
            continue
        if rows:
            yield [row for row in rows if not _RULE.fullmatch(text, row.start, row.end)]
        rows = [unit] if unit.kind == "row" else []


def crossed_out(text: str) -> list[tuple[int, int]]:
    """Return the ranges between `~~`, and the lines with a cross."""
    return [match.span() for match in _CROSSED_OUT.finditer(text)]


_PATH = re.compile(
    r"(?<![\w@/\\.:+$-])(?P<path>(?:[A-Za-z]:[\\/]+|[\\/]+|~/)?+(?:(?:[\w@+.$-]++|\[[\w.]++\]"
    r"|\([\w.]++\))[\\/]++)*+(?:[\w@+.$-]*[\w$-])?)"
    rf"(?:{AT})?"
)
_BRACES = re.compile(
    r"(?<![\w./{-])(?P<before>[\w./-]{0,200})\{(?P<middle>[\w.-]{1,60}(?:, ?[\w.-]{1,60}){1,20})\}"
    r"(?P<after>[\w./-]{0,100})"
)
_URL = re.compile(r"\bhttps?://[^\s<>()\"'`\]|]{1,2000}")
_HOSTED = re.compile(  # a file on GitHub, GitLab or Gitea
    r"https?://[^/]+/(?:[^/]+/){2,6}?(?:-/)?(?:blob|blame|raw|tree|src/(?:branch|commit|tag))/[^/]+/(?P<path>[^#?]+)"
    rf"(?:\?[^#]*)?(?:#L?(?P<at>{NUMBERS}))?"
)
_RIGHT_AFTER = re.compile(  # `a.py`:12, "a.py": [12, 40], a.py(12), `a.py` (L12), and the next cell of a table
    rf"[`'\"*\])]{{0,4}}(?:(?::|: ?\[ ?|\(|[ ,(:]{{0,3}}L(?=\d))(?P<at>{NUMBERS})(?![\w.]?\w)"
    rf"|[ \t]{{0,80}}\|[ \t`*]{{0,80}}(?:[Ll]ines? )?L?(?P<cell>{NUMBERS})[ \t`*]{{0,80}}\|)"
)
_LINES = re.compile(
    rf"(?:(?<![\w.-])(?:[Ll]ines?(?: numbers?)?|LINES?|Zeilen?|lignes?)[ :#*`~\"'=(\[]{{1,6}}L?|(?<=[(\[`])L"
    rf"|第 ?)(?P<at>{NUMBERS})"
)
_OF = re.compile(r" (?:of|in)(?: the)?(?: file)? [`'\"*]*| ?\([`'\"*]*")
_CODE = re.compile(r"(?<!`)(`++)([^`\n]{1,200})\1")
_KIND_THEN_NAME = re.compile(
    r"\b(?:function|method|class|struct|constant|variable|interface|trait|hook|macro|Funktion|Methode|Klasse"
    r"|fonction)s? (?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*(?P<call>\(\))?)"
)
_CALL = re.compile(r"(?<![\w.`$:#>/-])(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*)\(\)(?!`)")
_NOT_A_WORD = re.compile(r"\w_\w|[a-z][A-Z]|\w(?:\.|::|#)\w")  # written like a name in code
_PATCH_MARK = re.compile(r"[+ ]|@@.{1,80}@@ ")
_LEADING = re.compile(
    r"[\s│├└─|`+*•-]*(?://+|#+|--|/\*+|<!--|;+|\d+[.)])?\s*(?:[Ff]ile:?\s)?"
)  # in front of the path to which a line belongs
_LITERALS = frozenset(("None", "True", "False", "null", "nil", "true", "false", "undefined", "self", "this"))
_FOLDER_REACH = 1_000  # characters after a folder in which bare file names may belong to it


class Stance(Enum):
    """The position that an answer takes on a name."""

    CLAIMED = "claimed"
    MENTIONED = "mentioned"  # in passing: counts if it is right, and is ignored otherwise
    REJECTED = "rejected"


@dataclass(slots=True, eq=False)
class NameMention:
    """An occurrence of a file or symbol name. A `firm` stance overrides an earlier one."""

    kind: Literal["path", "symbol"]
    name: str
    start: int
    end: int
    spans: list[Span] = field(default_factory=list)
    stance: Stance = Stance.CLAIMED
    firm: bool = False

    def set(self, stance: Stance, firm: bool = False) -> None:
        """Take a stance, unless a stronger one is set."""
        if self.firm and not firm:
            return
        if stance is Stance.MENTIONED and self.stance is Stance.REJECTED and not firm:
            return
        self.stance, self.firm = stance, firm


def code_spans(text: str) -> list[tuple[int, int, str]]:
    """Return the inline code: its range with the backticks, and its content."""
    return [(match.start(), match.end(), match[2].strip()) for match in _CODE.finditer(text)]


def path_mentions(
    text: str, is_path: Callable[[str], bool], question: str, units: list[MarkdownUnit]
) -> list[NameMention]:
    """Return the paths in order, with their lines: named after the path, or before it as in `line 12 of a.py`."""
    blocks = [unit for unit in units if unit.kind == "code"]
    urls = list(_URL.finditer(text))
    mentions = [mention for url in urls if (mention := _hosted_file(url)) is not None]
    ranges = [url.span() for url in urls]
    mentions += _plain_paths(text, is_path, question, ranges)
    mentions += _alternatives(text)
    mentions.sort(key=lambda mention: mention.start)
    _join_folders(mentions, is_path)
    _classify_code(text, mentions, blocks)
    starts = [mention.start for mention in mentions]
    for match in _LINES.finditer(text):
        following = bisect(starts, match.start())
        belongs = following < len(starts) and _OF.fullmatch(text, match.end(), starts[following])
        if belongs or following:
            mentions[following if belongs else following - 1].spans += parse_spans(match["at"])
    return mentions


def _hosted_file(url: re.Match[str]) -> NameMention | None:
    address = url[0].rstrip(".,;:!?*_~")
    match = _HOSTED.fullmatch(address)
    if match is None:
        return None
    return NameMention(
        "path", path_of(match["path"]), url.start(), url.start() + len(address), [*parse_spans(match["at"])]
    )


def _plain_paths(
    text: str, is_path: Callable[[str], bool], question: str, urls: list[tuple[int, int]]
) -> Iterator[NameMention]:
    starts = [start for start, _ in urls]
    path_in = cache(lambda word: _parse_path(word, is_path, question))
    for match in _PATH.finditer(text):
        if not match["path"]:
            continue
        before = bisect(starts, match.start())
        if before and match.start() < urls[before - 1][1]:
            continue
        word = match["path"]
        line = text[max(0, text.rfind("\n", max(0, match.start() - 500), match.start()) + 1) : match.start()]
        if word.startswith(("a/", "b/")) and line.startswith(("--- ", "+++ ", "diff --git ")):
            word = word[2:]
        path = path_in(word)
        if path:
            after = None if match["at"] else _RIGHT_AFTER.match(text, match.end())
            numbers = match["at"] or (after and (after["at"] or after["cell"]))
            yield NameMention("path", path, match.start(), match.end(), [*parse_spans(numbers)])


def _alternatives(text: str) -> Iterator[NameMention]:
    """Read `src/{a,b}.py` as two paths."""
    for match in _BRACES.finditer(text):
        for middle in match["middle"].split(","):
            path = path_of(f"{match['before']}{middle.strip()}{match['after']}")
            if path and looks_like_path(path, path):
                yield NameMention("path", path, match.start(), match.end())


def _parse_path(word: str, is_path: Callable[[str], bool], question: str) -> str:
    """Read a word of prose as a path; empty if it is not one."""
    if not 0 < len(word) <= LONGEST_NAME:
        return ""
    for form in (word, word.removeprefix("@")):  # how Claude marks a file
        path = path_of(form)
        if path and is_path(path):
            return path
    return path if path and looks_like_path(word, path) and not contains_word(path, question) else ""


def _join_folders(mentions: list[NameMention], is_path: Callable[[str], bool]) -> None:
    """Read a bare file name after a folder as a file of that folder, if that makes it a known path."""
    folder: NameMention | None = None
    for mention in mentions:
        if "/" not in mention.name and folder is not None and not is_path(mention.name):
            joined = f"{folder.name}/{mention.name}"
            if mention.start - folder.end <= _FOLDER_REACH and is_path(joined):
                mention.name = joined
        if "." not in mention.name.rpartition("/")[2]:
            folder = mention


def _classify_code(text: str, mentions: list[NameMention], blocks: list[MarkdownUnit]) -> None:
    """Treat paths in fenced code as mentioned, unless a line begins with them: grep output, comments, trees, diffs."""
    starts = [block.start for block in blocks]
    for mention in mentions:
        index = bisect(starts, mention.start) - 1
        if index < 0 or mention.start >= blocks[index].end:
            continue
        line_start = text.rfind("\n", max(0, mention.start - 500), mention.start) + 1
        if not _LEADING.fullmatch(text, line_start, mention.start):
            mention.set(Stance.MENTIONED)


def symbol_mentions(text: str, question: str, expected: Iterable[str], units: list[MarkdownUnit]) -> list[NameMention]:
    """Return the names in inline code, after words such as `function`, in calls and in declarations of fenced code,
    and every other occurrence of an expected name."""
    symbol_in, is_new_name = cache(_parse_symbol), cache(lambda name: _is_new_name(name, question))
    mentions = [NameMention("symbol", symbol_in(code), start, end) for start, end, code in code_spans(text)]
    for match in _KIND_THEN_NAME.finditer(text):
        if match["call"] or _NOT_A_WORD.search(match["name"]):
            mentions.append(NameMention("symbol", symbol_of(match["name"]), match.start("name"), match.end("name")))
    marked = sorted((mention.start, mention.end) for mention in mentions)
    for unit in units:
        if unit.kind == "code":
            mentions += _declarations(text, unit)
            continue
        for match in _CALL.finditer(text, unit.start, unit.end):  # a name written as a call needs no other mark
            before = bisect(marked, (match.start(), len(text)))
            if not before or marked[before - 1][1] <= match.start():
                mentions.append(NameMention("symbol", symbol_of(match["name"]), match.start("name"), match.end("name")))
    positions = {mention.start for mention in mentions} | {mention.start + 1 for mention in mentions}
    for want in expected:
        for start, end in occurrences(text, want):
            if start not in positions:
                mentions.append(NameMention("symbol", want, start, end, stance=Stance.MENTIONED))
    wanted_names = frozenset(expected)
    return sorted(
        (mention for mention in mentions if mention.name in wanted_names or is_new_name(mention.name)),
        key=lambda mention: mention.start,
    )


def _parse_symbol(code: str) -> str:
    """Read inline code as a symbol; empty if it is a path or not a name."""
    name = symbol_of(code)
    return "" if name and looks_like_path(code, path_of(parse_location(code)[0])) else name


def _is_new_name(name: str, question: str) -> bool:
    """Whether a name is neither a literal of a language nor in the question."""
    return (
        any(map(str.isalnum, name))
        and name not in _LITERALS
        and not contains_word(name, question)
        and not names_symbol(question, name.rpartition(".")[2])
    )


def _declarations(text: str, block: MarkdownUnit) -> Iterator[NameMention]:
    """Yield the outermost declarations in a block of code."""
    position = block.start
    for line in text[block.start : block.end].splitlines(keepends=True):
        mark = _PATCH_MARK.match(line)
        code = line[mark.end() if mark else 0 :][:LONGEST_NAME]
        if name := declared_symbol(code):
            yield NameMention("symbol", name, position, position + len(line.rstrip()))
        position += len(line)

"""Where an answer names files, lines and symbols, and the Markdown structure that they stand in."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Literal

from abreast.scorers.retrieval.listed import spans_in
from abreast.scorers.retrieval.names import (
    AT,
    LONGEST_NAME,
    NUMBERS,
    Span,
    located,
    looks_like_a_path,
    names_it,
    occurrences,
    path_of,
    stands_in,
    symbol_of,
)

Kind = Literal["heading", "item", "row", "text", "code"]
_FENCE = re.compile(r"[ \t]{0,80}(`{3,40}|~{3,40})[ \t]{0,80}([\w+#.-]{0,40})")
_HEADING = re.compile(r"[ \t]{0,80}(?:#{1,6}[ \t]|\*\*[^*\n]{1,300}\*\*:?[ \t]*$|__[^_\n]{1,300}__:?[ \t]*$)")
_ITEM = re.compile(r"[ \t]{0,200}(?:[-*+•]|\d{1,3}[.)])[ \t]")
_ROW = re.compile(r"[ \t]{0,80}\|")
_RULE = re.compile(r"[\s|:-]+")
_STRUCK = re.compile(r"~~[^~\n]{1,500}~~")


@dataclass(frozen=True, slots=True)
class Unit:
    """A heading, list item, table row, paragraph or fenced block: its characters in the text."""

    kind: Kind
    start: int
    end: int
    language: str = ""


def units_of(text: str) -> list[Unit]:
    """Split a text into units, in order; blank lines are dropped."""
    units: list[Unit] = []
    position, fence = 0, ""
    opened, language = 0, ""
    is_blank = True
    for line in text.splitlines(keepends=True):
        start, end = position, position + len(line)
        position = end
        marker = _FENCE.match(line)
        if fence:
            if marker and marker[1].startswith(fence):
                units.append(Unit("code", opened, start, language))
                fence = ""
            continue
        if marker and "`" not in line[marker.end(1) :]:
            fence, language, opened, is_blank = marker[1], marker[2].lower(), end, True
            continue
        if not line.strip():
            is_blank = True
            continue
        kind = _kind_of(line)
        last = units[-1] if units else None
        if kind == "text" and not is_blank and last is not None and last.kind in ("text", "item"):
            units[-1] = Unit(last.kind, last.start, end)
        else:
            units.append(Unit(kind, start, end))
        is_blank = False
    if fence:
        units.append(Unit("code", opened, len(text), language))
    return units


def _kind_of(line: str) -> Kind:
    if _HEADING.match(line):
        return "heading"
    if _ITEM.match(line):
        return "item"
    return "row" if _ROW.match(line) else "text"


def cells_of(text: str, row: Unit) -> list[tuple[int, str]]:
    """The cells of a table row, each with its place in the text."""
    bars = [match.start() for match in re.finditer(r"(?<!\\)\|", text[row.start : row.end])]
    return [(row.start + left + 1, text[row.start + left + 1 : row.start + right]) for left, right in pairwise(bars)]


def tables_of(text: str, units: list[Unit]) -> Iterator[list[Unit]]:
    """The rows of each table, with its header and without the rule below it."""
    rows: list[Unit] = []
    for unit in units:
        if unit.kind == "row" and (not rows or rows[-1].end == unit.start):
            rows.append(unit)
            continue
        if rows:
            yield [row for row in rows if not _RULE.fullmatch(text, row.start, row.end)]
        rows = [unit] if unit.kind == "row" else []
    if rows:
        yield [row for row in rows if not _RULE.fullmatch(text, row.start, row.end)]


def struck_out(text: str) -> list[tuple[int, int]]:
    """The ranges between `~~` marks."""
    return [match.span() for match in _STRUCK.finditer(text)]


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
    r"|fonction)s? "
    r"(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*(?P<call>\(\))?)"
)
_CALLED = re.compile(r"(?<![\w.`$:#>/-])(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*)\(\)(?!`)")
_NOT_A_WORD = re.compile(r"\w_\w|[a-z][A-Z]|\w(?:\.|::|#)\w")  # written like a name in code
_DECLARATION = re.compile(
    r"(?:[+ ]|@@.{1,80}@@ )?(?:(?:export|default|declare|pub(?:\([^)\n]{1,40}\))?|public|private|protected|internal"
    r"|static|async|abstract|final"
    r"|unsafe|sealed|data) )*(?:def|func|fn|fun|class|function|interface|struct|trait|enum|type|record|object"
    r"|module|const)\b"
)
_LEADING = re.compile(
    r"[\s│├└─|`+*•-]*(?://+|#+|--|/\*+|<!--|;+|\d+[.)])?\s*(?:[Ff]ile:?\s)?"
)  # before a path that a line is about
_DIFF = re.compile(r"(?:---|\+\+\+|diff --git).{1,500}$")
_WORDS = frozenset(
    ("None", "True", "False", "null", "nil", "true", "false", "undefined", "self", "this")
)  # of languages
_FOLDER_REACH = 1_000  # characters after a folder in which bare file names may belong to it


class Stance(Enum):
    """What an answer says of a thing it names."""

    CLAIMED = "claimed"
    MENTIONED = "mentioned"  # in passing: it counts if it is right and is not held against the answer
    REJECTED = "rejected"


@dataclass(slots=True, eq=False)
class Mention:
    """A file or a symbol at a place of the text. A `firm` stance overrides an earlier one."""

    kind: Literal["path", "symbol"]
    name: str
    start: int
    end: int
    spans: list[Span] = field(default_factory=list)
    stance: Stance = Stance.CLAIMED
    firm: bool = False

    def set(self, stance: Stance, firm: bool = False) -> None:
        """Take a stance, unless a stronger one is known."""
        if self.firm and not firm:
            return
        if stance is Stance.MENTIONED and self.stance is Stance.REJECTED and not firm:
            return
        self.stance, self.firm = stance, firm


def code_spans(text: str) -> list[tuple[int, int, str]]:
    """Inline code: where it is, with its marks, and what it says."""
    return [(match.start(), match.end(), match[2].strip()) for match in _CODE.finditer(text)]


def path_mentions(text: str, known: Callable[[str], bool], asked: str, units: list[Unit]) -> list[Mention]:
    """Paths in order with the lines said of them: after a path, before it (`line 12 of a.py`), or until the next."""
    blocks = [unit for unit in units if unit.kind == "code"]
    urls = list(_URL.finditer(text))
    mentions = [mention for url in urls if (mention := _hosted_file(url)) is not None]
    ranges = [url.span() for url in urls]
    mentions += _plain_paths(text, known, asked, ranges)
    mentions += _alternatives(text)
    mentions.sort(key=lambda mention: mention.start)
    _join_folders(mentions, known)
    _classify_code(text, mentions, blocks)
    starts = [mention.start for mention in mentions]
    for match in _LINES.finditer(text):
        following = bisect(starts, match.start())
        belongs = following < len(starts) and _OF.fullmatch(text, match.end(), starts[following])
        if belongs or following:
            mentions[following if belongs else following - 1].spans += spans_in(match["at"])
    return mentions


def _hosted_file(url: re.Match[str]) -> Mention | None:
    address = url[0].rstrip(".,;:!?*_~")
    match = _HOSTED.fullmatch(address)
    if match is None:
        return None
    return Mention("path", path_of(match["path"]), url.start(), url.start() + len(address), [*spans_in(match["at"])])


def _plain_paths(text: str, known: Callable[[str], bool], asked: str, urls: list[tuple[int, int]]) -> Iterator[Mention]:
    starts = [start for start, _ in urls]
    path_in = cache(lambda word: _path_in(word, known, asked))
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
            yield Mention("path", path, match.start(), match.end(), [*spans_in(numbers)])


def _alternatives(text: str) -> Iterator[Mention]:
    """`src/{a,b}.py` as two paths."""
    for match in _BRACES.finditer(text):
        for middle in match["middle"].split(","):
            path = path_of(f"{match['before']}{middle.strip()}{match['after']}")
            if path and looks_like_a_path(path, path):
                yield Mention("path", path, match.start(), match.end())


def _path_in(word: str, known: Callable[[str], bool], asked: str) -> str:
    """The path that a word of prose is; empty if it is none."""
    if not 0 < len(word) <= LONGEST_NAME:
        return ""
    for form in (word, word.removeprefix("@")):  # Claude's own mark of a file
        path = path_of(form)
        if path and known(path):
            return path
    return path if path and looks_like_a_path(word, path) and not stands_in(path, asked) else ""


def _join_folders(mentions: list[Mention], known: Callable[[str], bool]) -> None:
    """Read a bare file name after a folder as a file of that folder, if that makes it a known path."""
    folder: Mention | None = None
    for mention in mentions:
        if "/" not in mention.name and folder is not None and not known(mention.name):
            joined = f"{folder.name}/{mention.name}"
            if mention.start - folder.end <= _FOLDER_REACH and known(joined):
                mention.name = joined
        if "." not in mention.name.rpartition("/")[2]:
            folder = mention


def _classify_code(text: str, mentions: list[Mention], blocks: list[Unit]) -> None:
    """In fenced code, a path is claimed only where a line begins with it: a hit of grep, a comment, a tree, a diff."""
    starts = [block.start for block in blocks]
    for mention in mentions:
        index = bisect(starts, mention.start) - 1
        if index < 0 or mention.start >= blocks[index].end:
            continue
        line_start = text.rfind("\n", max(0, mention.start - 500), mention.start) + 1
        line = text[line_start : mention.start]
        if not (_LEADING.fullmatch(line) or _DIFF.match(text[line_start : line_start + 500].split("\n")[0])):
            mention.set(Stance.MENTIONED)


def symbol_mentions(text: str, asked: str, wanted: Iterable[str], units: list[Unit]) -> list[Mention]:
    """Names in inline code, names without marks after a word such as `function`, declarations in fenced code, and
    every other place where a wanted name stands."""
    symbol_in, is_news = cache(_symbol_in), cache(lambda name: _is_news(name, asked))
    mentions = [Mention("symbol", symbol_in(code), start, end) for start, end, code in code_spans(text)]
    for match in _KIND_THEN_NAME.finditer(text):
        if match["call"] or _NOT_A_WORD.search(match["name"]):
            mentions.append(Mention("symbol", symbol_of(match["name"]), match.start("name"), match.end("name")))
    marked = sorted((mention.start, mention.end) for mention in mentions)
    for unit in units:
        if unit.kind == "code":
            mentions += _declarations(text, unit)
            continue
        for match in _CALLED.finditer(text, unit.start, unit.end):  # a name written as a call needs no other mark
            before = bisect(marked, (match.start(), len(text)))
            if not before or marked[before - 1][1] <= match.start():
                mentions.append(Mention("symbol", symbol_of(match["name"]), match.start("name"), match.end("name")))
    taken = {mention.start for mention in mentions} | {mention.start + 1 for mention in mentions}
    for want in wanted:
        for start, end in occurrences(text, want):
            if start not in taken:
                mentions.append(Mention("symbol", want, start, end, stance=Stance.MENTIONED))
    wanted_names = frozenset(wanted)
    return sorted(
        (mention for mention in mentions if mention.name in wanted_names or is_news(mention.name)),
        key=lambda mention: mention.start,
    )


def _symbol_in(code: str) -> str:
    """The name that inline code is; empty if it is none, or a path."""
    name = symbol_of(code)
    return "" if name and looks_like_a_path(code, path_of(located(code)[0])) else name


def _is_news(name: str, asked: str) -> bool:
    """Whether a name is more than a word of the language or of the question."""
    return (
        any(map(str.isalnum, name))
        and name not in _WORDS
        and not stands_in(name, asked)
        and not names_it(asked, name.rpartition(".")[2])
    )


def _declarations(text: str, block: Unit) -> Iterator[Mention]:
    """What a block of code declares at its outermost level."""
    position = block.start
    for line in text[block.start : block.end].splitlines(keepends=True):
        match = _DECLARATION.match(line)
        if match:
            code = line.removeprefix("+").strip().rpartition("@@ ")[2]
            name = symbol_of(code[:LONGEST_NAME])
            if name:
                yield Mention("symbol", name, position, position + len(line.rstrip()))
        position += len(line)

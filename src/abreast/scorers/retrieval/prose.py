"""What the sentences of an answer claim: paths with their lines, and names that are marked as code."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator

from abreast.scorers.retrieval.listed import spans_in
from abreast.scorers.retrieval.names import (
    AT,
    LONGEST_NAME,
    NUMBERS,
    Place,
    located,
    looks_like_a_path,
    path_of,
    stands_in,
    symbol_of,
)

_PATH = re.compile(
    r"(?<![\w@/\\.:+$-])(?P<path>(?:[A-Za-z]:[\\/]+|[\\/]+|~/)?+(?:(?:[\w@+.$-]++|\[[\w.]++\]|\([\w.]++\))[\\/]++)*+(?:[\w@+.$-]*[\w$-])?)"
    rf"(?:{AT})?"
)
_RIGHT_AFTER = re.compile(  # `a.py`:12, "a.py": [12, 40], a.py(12), `a.py` (L12), and the next cell of a table
    rf"[`'\"*\])]{{0,4}}(?:(?::|: ?\[ ?|\(|[ ,(:]{{0,3}}L(?=\d))(?P<at>{NUMBERS})(?![\w.]?\w)"
    rf"|[ \t]{{0,80}}\|[ \t`*]{{0,80}}(?:[Ll]ines? )?L?(?P<cell>{NUMBERS})[ \t`*]{{0,80}}\|)"
)
_LINES = re.compile(
    rf"(?:(?<![\w.-])(?:[Ll]ines?(?: numbers?)?|LINES?)[ :#*`~\"'=(\[]{{1,6}}L?|(?<=[(\[`])L)(?P<at>{NUMBERS})"
)
_OF = re.compile(r" (?:of|in)(?: the)?(?: file)? [`'\"*]*| ?\([`'\"*]*")
_CODE = re.compile(r"(?<!`)(`++)([^`\n]{1,200})\1")
_WORDS = frozenset(
    ("None", "True", "False", "null", "nil", "true", "false", "undefined", "self", "this")
)  # of languages


def places_in_prose(text: str, known: Callable[[str], bool], asked: str) -> Iterator[Place]:
    """Paths, each with the lines that are said of it: right behind it, before it (`line 12 of a.py`), or anywhere until
    the next one."""
    starts, paths = [], []
    for match in _PATH.finditer(text):
        path = _path_in(match["path"], known, asked)
        if not path:
            continue
        starts.append(match.start())
        paths.append(path)
        behind = None if match["at"] else _RIGHT_AFTER.match(text, match.end())
        told = match["at"] or (behind and (behind["at"] or behind["cell"]))
        yield path, None
        yield from ((path, span) for span in spans_in(told))
    for match in _LINES.finditer(text):
        following = bisect(starts, match.start())
        belongs = following < len(starts) and _OF.fullmatch(text, match.end(), starts[following])
        if belongs or following:
            path = paths[following if belongs else following - 1]
            yield from ((path, span) for span in spans_in(match["at"]))


def _path_in(word: str, known: Callable[[str], bool], asked: str) -> str:
    """The path that a word of prose is; empty if it is none."""
    if not 0 < len(word) <= LONGEST_NAME:
        return ""
    for form in (word, word.removeprefix("@")):  # Claude's own mark of a file
        path = path_of(form)
        if path and known(path):
            return path
    return path if path and looks_like_a_path(word, path) and not stands_in(path, asked) else ""


def symbols_in_prose(text: str, asked: str) -> list[str]:
    """Names that are marked as code. Those of files are no symbols, nor are words of a language."""
    found = []
    for code in dict.fromkeys(match[2].strip() for match in _CODE.finditer(text)):
        name = symbol_of(code)
        if not name or name in _WORDS or looks_like_a_path(code, path_of(located(code)[0])):
            continue
        if not stands_in(name, asked):
            found.append(name)
    return found

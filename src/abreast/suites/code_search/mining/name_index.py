"""Find the definitions of names by syntax trees, confirmed by regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from abreast.languages import SymbolDefinition
from abreast.suites.code_search.mining.repository import CodeRepository, RepositoryFile

MOST_FILES = 40  # files with a name; more common names are skipped


@dataclass(slots=True)
class Calls:
    """The calls of one function: their lines by file, and the functions around them."""

    lines: dict[str, set[int]] = field(default_factory=dict)
    callers: set[tuple[RepositoryFile, SymbolDefinition]] = field(default_factory=set)


class NameIndex:
    """The files that have a name, and its only definition."""

    def __init__(self, repository: CodeRepository, names: Iterable[str]) -> None:
        self.repository = repository
        self.files_with = repository.files_with(names)
        self.calls: dict[str, Calls | None] = {}  # cache, by name of a function
        self._definitions: dict[str, tuple[RepositoryFile, SymbolDefinition] | None] = {}

    def load(self, names: Iterable[str]) -> None:
        """Find the files of further names, in one pass over all files."""
        missing = set(names) - self.files_with.keys()
        if missing:
            self.files_with.update(self.repository.files_with(missing))

    def sole_definition(self, name: str) -> tuple[RepositoryFile, SymbolDefinition] | None:
        """Return the only definition of a name; None if there are several, or if the two methods disagree."""
        if name not in self._definitions:
            self._definitions[name] = self._find(name)
        return self._definitions[name]

    def _find(self, name: str) -> tuple[RepositoryFile, SymbolDefinition] | None:
        files = [self.repository.file(path) for path in self.files_with.get(name, ())]
        if not 0 < len(files) <= MOST_FILES:
            return None
        defined: list[tuple[RepositoryFile, SymbolDefinition]] = []
        for file in files:
            outline = self.repository.outline(file.path)
            if outline is not None and outline.broken:
                return None
            defined += [(file, item) for item in (outline.definitions if outline else ()) if item.name == name]
        constructors = {(file.path, item.line) for file, item in defined if is_constructor(item)}
        others = [(file, item) for file, item in defined if not is_constructor(item)]
        if len(others) != 1:
            return None
        lines = {
            (file.path, line)
            for file in files
            for line in definition_lines(name, file, self.repository.text(file.path))
        }
        file, definition = others[0]
        return others[0] if lines - constructors == {(file.path, definition.line)} else None


def is_constructor(definition: SymbolDefinition) -> bool:
    return definition.container is not None and definition.container.rpartition(".")[2] == definition.name


# -- confirmation by regular expressions ------------------------------------------------------------------------------

_BEGIN = r"(?:^|[;{}])[ \t]*(?:@\w+(?:\([^)\n]*\))?[ \t]+)*"
_MODIFIERS = (
    r"(?:(?:export|default|declare|pub(?:\([^)\n]*\))?|public|private|protected|internal|static|abstract|final|sealed|"
    r"async|unsafe|extern(?:[ \t]+\"[^\"\n]*\")?|readonly|override|inline|const|data|partial|virtual|synchronized|"
    r"native|strictfp|non-sealed|cdef|cpdef|unsigned|struct)[ \t]+)*"
)
_KEYWORDS = (
    r"(?:def|class|func|fn|fun|function[ \t]*\*?|struct|enum|union|trait|@?interface|type|record|const|"
    r"static(?:[ \t]+mut)?|let(?:[ \t]+mut)?|var|val|macro_rules!|#[ \t]*define|module|mod|namespace|object|protocol|"
    r"typedef|sub|proc)"
)
_NO_DEFINITION = r"(?!(?:return|new|throw|else|await|yield|case|assert|go|defer|if|while|for|switch|do|in|of)\b)"
_TYPE = r"[\w.$]+(?:<[^\n(]*>)?(?:\[\])*"
_LONGEST_PARAMETERS = 5_000  # characters between the parentheses of a definition


def definition_lines(name: str, file: RepositoryFile, text: str) -> set[int]:
    """Return the lines, from 1, that may define a name, some of which may not."""
    if file.kind in ("config", "data"):
        return set()
    patterns = _patterns(name, file.language or file.kind)
    lines = {
        number
        for number, line in enumerate(text.split("\n"), 1)
        if name in line and any(pattern.search(line) for pattern in patterns)
    }
    if file.language in ("typescript", "java") or file.kind == "other":
        lines |= {text.count("\n", 0, start) + 1 for start in _with_body(name, text)}
    return lines


@lru_cache(1_000)
def _patterns(name: str, manner: str) -> tuple[re.Pattern[str], ...]:
    word = rf"(?P<name>(?<!\w){re.escape(name)}(?!\w))"
    patterns = [rf"{_BEGIN}{_MODIFIERS}{_KEYWORDS}[ \t]+(?:\([^)\n]*\)[ \t]*)?{word}"]
    if manner != "prose":
        patterns += [
            rf"{word}(?:[ \t]*,[ \t]*[\w.]+)*[ \t]*(?::[^=\n]*?)?:?=(?![=>~])",
            rf"{word}['\"]?[ \t]*:[ \t]*(?:async[ \t]+)?(?:function\b|\([^)\n]*\)[ \t]*=>|\w+[ \t]*=>|lambda\b)",
            rf"^[ \t]*(?:import|export|use)\b[^\n]*\bas[ \t]+{word}",
        ]
    if manner == "python":
        patterns += [rf"\bas[ \t]+{word}", rf"\bfor[ \t]+(?:\w+[ \t]*,[ \t]*)*{word}[^\n]*\bin\b"]
    if manner == "go":
        patterns += [
            rf"^[ \t]*{word}(?:\[[^\]\n]*\])?[ \t]+(?:struct|interface|func)\b",
            rf"^[ \t]+{word}\([^)\n]*\)[ \t]+[(\w*\[]",
        ]
    return tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns)


def _with_body(name: str, text: str) -> Iterator[int]:
    """Yield methods without a keyword: a name, parameters, and a body or type after them."""
    head = re.compile(
        rf"^[ \t]*(?:@\w+[ \t]+)*{_NO_DEFINITION}(?:(?:get|set)[ \t]+|\*[ \t]*)?{_MODIFIERS}(?:<[^\n(]*>[ \t]*)?"
        rf"(?:(?P<type>{_TYPE})[ \t*&]+)?(?P<name>(?<!\w){re.escape(name)}(?!\w))\??[ \t]*(?:<[^\n(]*>)?[ \t]*\(",
        re.MULTILINE,
    )
    for match in head.finditer(text):
        behind = _behind_parentheses(text, match.end())
        if behind.startswith(("{", ":", "throws")) or (behind.startswith(";") and match["type"]):
            yield match.start("name")


def _behind_parentheses(text: str, start: int) -> str:
    """Return the text after the parenthesis that was opened before `start`; empty if it is not closed."""
    depth = 1
    for at in range(start, min(len(text), start + _LONGEST_PARAMETERS)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[at + 1 : at + 200].lstrip()
    return ""

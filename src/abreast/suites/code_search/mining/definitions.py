"""Names that are defined once, and the question where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from abreast.languages import Definition
from abreast.suites.code_search.mining import textual
from abreast.suites.code_search.mining.proposal import Evidence, Proposal, Truth, slug, words_of
from abreast.suites.code_search.mining.repository import File, Repository

MOST_FILES = 40  # that hold a name; a name in more is too common to be checked

_PLAIN = {
    *("main", "setup", "teardown", "default", "execute", "process", "handler", "handle", "callback", "initialize"),
    *("constructor", "toString", "hashCode", "equals", "compareTo", "forEach", "render", "config", "configure"),
    *("Config", "Error", "Result", "Options", "Settings", "String", "Builder", "Default", "Display", "Option"),
}
_TESTS = re.compile(r"test|Test|bench|Bench|example|Example|mock|Mock|fake|Fake|dummy|Dummy|__")


@dataclass(slots=True)
class Calls:
    """The calls of one function: their lines by file, and the functions around them."""

    lines: dict[str, set[int]] = field(default_factory=dict)
    callers: set[tuple[File, Definition]] = field(default_factory=set)


class Places:
    """Where names are defined, by the syntax trees and by the text, each over all files that hold the name."""

    def __init__(self, repository: Repository, names: Iterable[str]) -> None:
        self.repository = repository
        self.holding = repository.holding(names)
        self.calls: dict[str, Calls | None] = {}  # of functions that are defined once, as far as they were looked up
        self._once: dict[str, tuple[File, Definition] | None] = {}

    def load(self, names: Iterable[str]) -> None:
        """Look up the files that hold more names, in one pass over all files."""
        missing = set(names) - self.holding.keys()
        if missing:
            self.holding.update(self.repository.holding(missing))

    def only(self, name: str) -> tuple[File, Definition] | None:
        """The one place that defines a name; None if there are others, or if the two ways do not agree."""
        if name not in self._once:
            self._once[name] = self._found(name)
        return self._once[name]

    def _found(self, name: str) -> tuple[File, Definition] | None:
        files = [self.repository.file(path) for path in self.holding.get(name, ())]
        if not 0 < len(files) <= MOST_FILES:
            return None
        defined: list[tuple[File, Definition]] = []
        for file in files:
            outline = self.repository.outline(file.path)
            if outline is not None and outline.broken:
                return None
            defined += [(file, one) for one in (outline.definitions if outline else ()) if one.name == name]
        makers = {(file.path, one.line) for file, one in defined if _is_constructor(one)}
        others = [(file, one) for file, one in defined if not _is_constructor(one)]
        if len(others) != 1:
            return None
        (file, one), *_ = others
        return (file, one) if self._textually(name, files) - makers == {(file.path, one.line)} else None

    def _textually(self, name: str, files: list[File]) -> set[tuple[str, int]]:
        return {
            (file.path, line)
            for file in files
            for line in textual.definition_lines(name, file, self.repository.text(file.path))
        }


def _is_constructor(definition: Definition) -> bool:
    return definition.container is not None and definition.container.rpartition(".")[2] == definition.name


def distinctive(definition: Definition) -> bool:
    """Whether a name is worth a question: long enough, and not what every repository has."""
    name = definition.name
    if name in _PLAIN or _TESTS.match(name) or not name.isidentifier() or _is_constructor(definition):
        return False
    if definition.kind in ("class", "interface", "type"):
        return len(name) >= 5
    return len(name) >= 7 or (len(name) >= 6 and len(words_of(name)) > 1)


def candidates(repository: Repository, files: Sequence[File]) -> list[tuple[File, Definition]]:
    """All distinctive definitions in some files."""
    found = []
    for file in files:
        outline = repository.outline(file.path)
        if outline is not None and not outline.broken:
            found += [(file, one) for one in outline.definitions if distinctive(one)]
    return found


def proposals(places: Places, order: Sequence[tuple[File, Definition]]) -> Iterator[Proposal]:
    """A case for each name that is defined once, in this order."""
    for file, definition in order:
        if places.only(definition.name) == (file, definition):
            yield _proposal(places, file, definition)


def _proposal(places: Places, file: File, definition: Definition) -> Proposal:
    truth = Truth({file.path: [definition.line]}, [definition.qualified])
    mentions = len(places.holding[definition.name])
    what = f"the {definition.kind} `{definition.name}`"
    return Proposal(
        {
            "id": slug("def", definition.qualified),
            "category": "search",
            "description": f"Find where {what} is defined.",
            "prompt": f"Where is {what} defined? Give the file, the name and the line of the definition.",
            "ground_truth": truth.written(),
        },
        "definitions",
        file.language,
        f"the only definition of this name; it stands in {mentions} {'file' if mentions == 1 else 'files'}",
        (Evidence(file.path, definition.line, places.repository.line(file.path, definition.line)),),
    )

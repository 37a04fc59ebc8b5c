"""Questions about the definition of a name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from abreast.languages import SymbolDefinition
from abreast.suites.code_search.mining.name_index import NameIndex, is_constructor
from abreast.suites.code_search.mining.proposal import Proposal, make_proposal, words_of
from abreast.suites.code_search.mining.repository import CodeRepository, RepositoryFile
from abreast.text import many

_PLAIN = {
    *("main", "setup", "teardown", "default", "execute", "process", "handler", "handle", "callback", "initialize"),
    *("constructor", "toString", "hashCode", "equals", "compareTo", "forEach", "render", "config", "configure"),
    *("Config", "Error", "Result", "Options", "Settings", "String", "Builder", "Default", "Display", "Option"),
}
_TESTS = re.compile(r"test|Test|bench|Bench|example|Example|mock|Mock|fake|Fake|dummy|Dummy|__")


def is_distinctive(definition: SymbolDefinition) -> bool:
    """Whether a name is long and unusual enough for a question."""
    name = definition.name
    if name in _PLAIN or _TESTS.match(name) or not name.isidentifier() or is_constructor(definition):
        return False
    if definition.kind in ("class", "interface", "type"):
        return len(name) >= 5
    return len(name) >= 7 or (len(name) >= 6 and len(words_of(name)) > 1)


def candidates(
    repository: CodeRepository, files: Sequence[RepositoryFile]
) -> list[tuple[RepositoryFile, SymbolDefinition]]:
    outlines = ((file, repository.outline(file.path)) for file in files)
    return [
        (file, definition)
        for file, outline in outlines
        if outline is not None and not outline.broken
        for definition in outline.definitions
        if is_distinctive(definition)
    ]


def proposals(index: NameIndex, order: Sequence[tuple[RepositoryFile, SymbolDefinition]]) -> Iterator[Proposal]:
    """Propose a case for each name with a single definition."""
    for file, definition in order:
        if index.sole_definition(definition.name) == (file, definition):
            yield _proposal(index, file, definition)


def _proposal(index: NameIndex, file: RepositoryFile, definition: SymbolDefinition) -> Proposal:
    mentions = len(index.files_with[definition.name])
    noun = f"the {definition.kind} `{definition.name}`"
    return make_proposal(
        index.repository,
        kind="definitions",
        language=file.language,
        name=("def", definition.qualified),
        category="search",
        description=f"Find where {noun} is defined.",
        prompt=f"Where is {noun} defined? Give the file, the name and the line of the definition.",
        lines={file.path: [definition.line]},
        symbols=[definition.qualified],
        why=f"the only definition of this name, which occurs in {many(mentions, 'file')}",
        locations=[(file.path, definition.line)],
    )

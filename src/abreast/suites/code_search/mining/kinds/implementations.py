"""Questions about the classes that extend or implement another one, or override a method."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from abreast.languages import BaseType, SymbolDefinition
from abreast.suites.code_search.mining.kinds.callers import is_in_reach
from abreast.suites.code_search.mining.name_index import NameIndex
from abreast.suites.code_search.mining.proposal import Proposal, make_proposal
from abreast.suites.code_search.mining.repository import RepositoryFile

FEWEST, MOST = 2, 15  # classes in an answer

Location = tuple[str, int]  # a path and a line
Class = tuple[RepositoryFile, SymbolDefinition]

# Headers of classes that extend or implement `{name}`, to confirm the syntax tree.
_BRACES = (
    r"\b(?:class|interface|enum|record)\s+(\w+)[^{{;]*?\b(?:extends|implements)\b[^{{;]*?(?<![\w$]){name}(?![\w$])"
)
_HEADERS = {
    "python": r"^[ \t]*class\s+(\w+)\s*\([^)]*?(?<!\w){name}(?!\w)",
    "rust": r"\bimpl\b[^{{;]*?(?<!\w){name}(?!\w)(?:<[^{{;]*>)?\s+for\s+(?:&(?:mut\s+)?)?(?:\w+::)*(\w+)",
    "typescript": _BRACES,
    "java": _BRACES,
}


def proposals(index: NameIndex, order: Sequence[Class]) -> Iterator[Proposal]:
    """Propose a case for each class or interface with known subclasses, and one for a method that they override."""
    for file, definition in order:
        if definition.kind not in ("class", "interface") or file.language not in _HEADERS:
            continue
        if index.sole_definition(definition.name) != (file, definition):
            continue
        derived = _find_derived(index, file, definition)
        if derived is None:
            continue
        if FEWEST <= len(derived) <= MOST:
            yield _class_proposal(index, (file, definition), derived)
        if file.language != "rust" and (overrides := _find_overrides(index, (file, definition), derived)):
            yield _method_proposal(index, (file, definition), *overrides)


def _find_derived(index: NameIndex, file: RepositoryFile, definition: SymbolDefinition) -> dict[str, Location] | None:
    """Return the location of each class that extends or implements one, also indirectly; None if uncertain."""
    result: dict[str, Location] = {}
    pending = [(file, definition)]
    while pending:
        home, base = pending.pop()
        direct = _find_directly_derived(index, home, base)
        if direct is None or len(result) > MOST:
            return None
        index.load(direct)
        for name, location in direct.items():
            if name in result:
                continue
            sole = index.sole_definition(name.rpartition(".")[2])
            if sole is None or sole[1].qualified != name or name == definition.qualified:
                return None
            result[name] = location
            pending.append(sole)
    return result


def _find_directly_derived(
    index: NameIndex, home: RepositoryFile, base: SymbolDefinition
) -> dict[str, Location] | None:
    """Return what the syntax trees and the text of all files agree on; None if they disagree."""
    pattern = re.compile(_HEADERS[home.language or ""].format(name=re.escape(base.name)), re.MULTILINE)
    result: dict[str, Location] = {}
    for path in index.files_with.get(base.name, ()):
        file, outline = index.repository.file(path), index.repository.outline(path)
        if file.kind == "other" or (outline is not None and outline.broken):
            return None
        if outline is None or file.language != home.language:
            continue
        bases = [reference for reference in outline.bases if reference.name == base.name]
        source, text = index.repository.read(path), index.repository.text(path)
        if {reference.derived.rpartition(".")[2] for reference in bases} != set(pattern.findall(text)) or _is_aliased(
            text, base
        ):
            return None
        for reference in bases:
            if reference.derived in result or not _is_reference_to(reference, base, (home, file), source, index):
                return None
            result[reference.derived] = (path, reference.line)
    return result


def _is_aliased(text: str, base: SymbolDefinition) -> bool:
    """Whether a file gives the class another name."""
    name = re.escape(base.name)
    return re.search(rf"(?<!\w){name}\s+as\s+[A-Za-z]|=\s*(?:\w+\.)*{name}\s*(?:$|;)", text, re.MULTILINE) is not None


def _is_reference_to(
    base: BaseType,
    definition: SymbolDefinition,
    files: tuple[RepositoryFile, RepositoryFile],
    source: bytes,
    index: NameIndex,
) -> bool:
    """Whether a base is this class: imported from its module, or qualified with it."""
    home, file = files
    outline = index.repository.outline(file.path)
    before = re.search(rb"([\w$]+)\s*(?:\.|::)\s*\Z", source[max(0, base.at - 100) : base.at])
    if before is not None:
        owner = before[1].decode("utf-8", "replace")
        return owner in {home.name.partition(".")[0], *home.path.split("/")[:-1], "crate", "self", "super"}
    return outline is not None and is_in_reach(definition, home, file, source, outline)


def _find_overrides(
    index: NameIndex, base: Class, derived: dict[str, Location]
) -> tuple[str, dict[str, Location]] | None:
    methods = {method.name for method in _methods(index, base[0].path, base[1].qualified)}
    methods = {name for name in methods if not name.startswith("__") and name not in ("constructor", base[1].name)}
    overrides: dict[str, dict[str, Location]] = {name: {} for name in methods}
    for owner, (path, _) in derived.items():
        for method in _methods(index, path, owner):
            if method.name in overrides:
                overrides[method.name].setdefault(method.qualified, (path, method.line))
    best = max(sorted(overrides), key=lambda name: len(overrides[name]), default=None)
    return (best, overrides[best]) if best is not None and len(overrides[best]) >= FEWEST else None


def _methods(index: NameIndex, path: str, owner: str) -> list[SymbolDefinition]:
    outline = index.repository.outline(path)
    definitions = outline.definitions if outline is not None else ()
    return [item for item in definitions if item.kind == "method" and item.container == owner]


def _class_proposal(index: NameIndex, base: Class, derived: dict[str, Location]) -> Proposal:
    file, definition = base
    if file.language == "rust":
        question = "Which types implement the trait `{name}`? Give the name of each type, and the file and line of the "
        question += "impl block."
    elif definition.kind == "interface":
        question = (
            "Which classes and interfaces implement or extend the interface `{name}`, directly or through another one? "
            "Give the name of each, and the file and line of its definition."
        )
    else:
        question = (
            "Which classes are derived from the class `{name}`, directly or through another class? "
            "Give the name of each, and the file and line of its definition."
        )
    description = f"Find what extends or implements `{definition.name}`."
    return _proposal(index, base, derived, ("impl", definition.qualified), question, description)


def _method_proposal(index: NameIndex, base: Class, method: str, derived: dict[str, Location]) -> Proposal:
    question = (
        "Which classes derived from `{name}`, directly or through another class, implement or override its method "
        f"`{method}`? Give the name of each of these methods with its class, and its file and line."
    )
    description = f"Find the overrides of `{base[1].name}.{method}`."
    return _proposal(index, base, derived, ("overrides", f"{base[1].qualified}.{method}"), question, description)


def _proposal(
    index: NameIndex, base: Class, answer: dict[str, Location], name: tuple[str, str], question: str, description: str
) -> Proposal:
    file, definition = base
    lines: dict[str, list[int]] = {}
    for path, line in sorted(answer.values()):
        lines.setdefault(path, []).append(line)
    return make_proposal(
        index.repository,
        kind="implementations",
        language=file.language,
        name=name,
        category="understand",
        description=description,
        prompt=question.format(name=definition.name),
        lines=lines,
        symbols=sorted(answer),
        why="the syntax trees and a search for class headers agree",
        locations=[(file.path, definition.line), *sorted(answer.values())],
    )

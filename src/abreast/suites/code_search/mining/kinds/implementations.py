"""Classes and interfaces that others extend or implement, and the methods that these override."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from abreast.languages import Base, Definition
from abreast.suites.code_search.mining.kinds.callers import is_in_reach
from abreast.suites.code_search.mining.occurrences import Occurrences
from abreast.suites.code_search.mining.proposal import Proposal, make_proposal
from abreast.suites.code_search.mining.repository import SourceFile

FEWEST, MOST = 2, 15  # classes in an answer

Place = tuple[str, int]  # a path and a line
Class = tuple[SourceFile, Definition]

# How the header of a class that extends or implements `{name}` begins: the second opinion on the syntax tree.
_BRACES = (
    r"\b(?:class|interface|enum|record)\s+(\w+)[^{{;]*?\b(?:extends|implements)\b[^{{;]*?(?<![\w$]){name}(?![\w$])"
)
_HEADERS = {
    "python": r"^[ \t]*class\s+(\w+)\s*\([^)]*?(?<!\w){name}(?!\w)",
    "rust": r"\bimpl\b[^{{;]*?(?<!\w){name}(?!\w)(?:<[^{{;]*>)?\s+for\s+(?:&(?:mut\s+)?)?(?:\w+::)*(\w+)",
    "typescript": _BRACES,
    "java": _BRACES,
}


def proposals(occurrences: Occurrences, order: Sequence[Class]) -> Iterator[Proposal]:
    """Propose a case for each class or interface with known subclasses, and one for a method that they override."""
    for file, definition in order:
        if definition.kind not in ("class", "interface") or file.language not in _HEADERS:
            continue
        if occurrences.only(definition.name) != (file, definition):
            continue
        derived = _derived(occurrences, file, definition)
        if derived is None:
            continue
        if FEWEST <= len(derived) <= MOST:
            yield _of_class(occurrences, (file, definition), derived)
        if file.language != "rust" and (found := _overridden(occurrences, (file, definition), derived)):
            yield _of_method(occurrences, (file, definition), *found)


def _derived(occurrences: Occurrences, file: SourceFile, definition: Definition) -> dict[str, Place] | None:
    """All that extends or implements a class, directly or not, with its place; None if that is not certain."""
    result: dict[str, Place] = {}
    pending = [(file, definition)]
    while pending:
        home, base = pending.pop()
        direct = _directly_derived(occurrences, home, base)
        if direct is None or len(result) > MOST:
            return None
        occurrences.load(direct)
        for name, place in direct.items():
            if name in result:
                continue
            only = occurrences.only(name.rpartition(".")[2])
            if only is None or only[1].qualified != name or name == definition.qualified:
                return None
            result[name] = place
            pending.append(only)
    return result


def _directly_derived(occurrences: Occurrences, home: SourceFile, base: Definition) -> dict[str, Place] | None:
    """What the syntax trees and the text of all files agree on; None if they do not."""
    pattern = re.compile(_HEADERS[home.language or ""].format(name=re.escape(base.name)), re.MULTILINE)
    result: dict[str, Place] = {}
    for path in occurrences.holding.get(base.name, ()):
        here, outline = occurrences.repository.file(path), occurrences.repository.outline(path)
        if here.kind == "other" or (outline is not None and outline.broken):
            return None
        if outline is None or here.language != home.language:
            continue
        found = [each for each in outline.bases if each.name == base.name]
        source, text = occurrences.repository.read(path), occurrences.repository.text(path)
        if {each.derived.rpartition(".")[2] for each in found} != set(pattern.findall(text)) or _is_aliased(text, base):
            return None
        for each in found:
            if each.derived in result or not _is_meant(each, base, (home, here), source, occurrences):
                return None
            result[each.derived] = (path, each.line)
    return result


def _is_aliased(text: str, base: Definition) -> bool:
    """Whether a file gives the class another name, under which it may be extended too."""
    name = re.escape(base.name)
    return re.search(rf"(?<!\w){name}\s+as\s+[A-Za-z]|=\s*(?:\w+\.)*{name}\s*(?:$|;)", text, re.MULTILINE) is not None


def _is_meant(
    base: Base,
    definition: Definition,
    files: tuple[SourceFile, SourceFile],
    source: bytes,
    occurrences: Occurrences,
) -> bool:
    """Whether the name of a base is the class: imported from there, or written with its module or package."""
    home, here = files
    outline = occurrences.repository.outline(here.path)
    before = re.search(rb"([\w$]+)\s*(?:\.|::)\s*\Z", source[max(0, base.at - 100) : base.at])
    if before is not None:
        owner = before[1].decode("utf-8", "replace")
        return owner in {home.name.partition(".")[0], *home.path.split("/")[:-1], "crate", "self", "super"}
    return outline is not None and is_in_reach(definition, home, here, source, outline)


def _overridden(
    occurrences: Occurrences, base: Class, derived: dict[str, Place]
) -> tuple[str, dict[str, Place]] | None:
    methods = {each.name for each in _methods(occurrences, base[0].path, base[1].qualified)}
    methods = {name for name in methods if not name.startswith("__") and name not in ("constructor", base[1].name)}
    places_of: dict[str, dict[str, Place]] = {name: {} for name in methods}
    for owner, (path, _) in derived.items():
        for method in _methods(occurrences, path, owner):
            if method.name in places_of:
                places_of[method.name].setdefault(method.qualified, (path, method.line))
    best = max(sorted(places_of), key=lambda name: len(places_of[name]), default=None)
    return (best, places_of[best]) if best is not None and len(places_of[best]) >= FEWEST else None


def _methods(occurrences: Occurrences, path: str, owner: str) -> list[Definition]:
    outline = occurrences.repository.outline(path)
    definitions = outline.definitions if outline is not None else ()
    return [each for each in definitions if each.kind == "method" and each.container == owner]


def _of_class(occurrences: Occurrences, base: Class, derived: dict[str, Place]) -> Proposal:
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
    return _proposal(occurrences, base, derived, ("impl", definition.qualified), question, description)


def _of_method(occurrences: Occurrences, base: Class, method: str, derived: dict[str, Place]) -> Proposal:
    question = (
        "Which classes derived from `{name}`, directly or through another class, implement or override its method "
        f"`{method}`? Give the name of each of these methods with its class, and its file and line."
    )
    description = f"Find the overrides of `{base[1].name}.{method}`."
    return _proposal(occurrences, base, derived, ("overrides", f"{base[1].qualified}.{method}"), question, description)


def _proposal(
    occurrences: Occurrences,
    base: Class,
    answer: dict[str, Place],
    name: tuple[str, str],
    question: str,
    description: str,
) -> Proposal:
    file, definition = base
    lines: dict[str, list[int]] = {}
    for path, line in sorted(answer.values()):
        lines.setdefault(path, []).append(line)
    return make_proposal(
        occurrences.repository,
        kind="implementations",
        language=file.language,
        name=name,
        category="understand",
        description=description,
        prompt=question.format(name=definition.name),
        lines=lines,
        symbols=sorted(answer),
        why="the syntax trees and a search for class headers agree",
        places=[(file.path, definition.line), *sorted(answer.values())],
    )

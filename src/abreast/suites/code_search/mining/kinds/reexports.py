"""Questions about the definition of a name that a package re-exports."""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from abreast.languages import SymbolDefinition
from abreast.suites.code_search.mining.name_index import definition_lines
from abreast.suites.code_search.mining.proposal import Proposal, make_proposal
from abreast.suites.code_search.mining.repository import CodeRepository, RepositoryFile

DEEPEST = 5  # files between a name and its definition
SHORTEST_NAME = 4  # characters

_INDEX = re.compile(r"(?:^|/)(?:__init__\.py|index\.(?:ts|tsx|js|mjs|jsx))$")
_EXPORTS = re.compile(r"^export\s+(?!type\b)\{([^}]*)\}\s*from\s*['\"](\.[^'\"\n]*)['\"]", re.MULTILINE)
_EXPORT = re.compile(r"(?:type\s+)?(?P<old>\w+)(?:\s+as\s+(?P<new>\w+))?$")
_DEFAULT = re.compile(
    r"^export\s+default\s+(?:(?:async|abstract)\s+)*(?:(?:function|class)\s*\*?\s*)?(\w+)", re.MULTILINE
)
_SUFFIXES = (".ts", ".tsx", ".js", ".jsx", ".mjs")


@dataclass(frozen=True, slots=True)
class _Export:
    """A name that a file re-exports."""

    name: str
    origin: str  # the path of the file that it comes from
    original: str  # its name there


def proposals(repository: CodeRepository, files: Sequence[RepositoryFile], random: Random) -> Iterator[Proposal]:
    """Propose a case for each re-exported name: renamed ones and long chains first."""
    exports_of = lru_cache(1_000)(lambda path: _exports(repository, path))
    targets = []
    for file in files:
        if not _INDEX.search(file.path):
            continue
        for export in exports_of(file.path).values():
            chain = _resolve(repository, exports_of, export)
            if chain is not None and len(export.name) >= SHORTEST_NAME:
                targets.append((file, export.name, *chain))
    random.shuffle(targets)
    targets.sort(key=lambda item: (item[1] == item[3].name, -item[4]))
    for file, name, home, definition, _ in targets:
        package = posixpath.basename(file.folder) if file.folder != "." else ""
        if package and _is_confirmed(repository, home, definition):
            yield _proposal(repository, file, name, (package, home, definition))


def _exports(repository: CodeRepository, path: str) -> dict[str, _Export]:
    exports = _python_imports(repository, path) if path.endswith(".py") else _script_exports(repository, path)
    return {export.name: export for export in exports}


def _python_imports(repository: CodeRepository, path: str) -> Iterator[_Export]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(repository.read(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        folder = posixpath.dirname(path)
        for _ in range(node.level - 1):
            folder = posixpath.dirname(folder)
        module = posixpath.join(folder, *(node.module or "").split("."))
        origin = _first(repository, f"{module}.py", posixpath.join(module, "__init__.py"))
        if origin is not None and origin != path:
            yield from (_Export(alias.asname or alias.name, origin, alias.name) for alias in node.names)


def _script_exports(repository: CodeRepository, path: str) -> Iterator[_Export]:
    for match in _EXPORTS.finditer(repository.text(path)):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[2]))
        stem = re.sub(r"\.[mc]?jsx?$", "", target)
        endings = [f"{stem}{suffix}" for suffix in _SUFFIXES] + [f"{stem}/index{suffix}" for suffix in _SUFFIXES]
        origin = _first(repository, target, *endings)
        for item in match[1].split(",") if origin is not None else ():
            if name := _EXPORT.match(item.strip()):
                yield _Export(name["new"] or name["old"], str(origin), name["old"])


def _first(repository: CodeRepository, *paths: str) -> str | None:
    return next((path for path in paths if repository.has(path)), None)


def _resolve(
    repository: CodeRepository, exports_of: Callable[[str], dict[str, _Export]], export: _Export
) -> tuple[RepositoryFile, SymbolDefinition, int] | None:
    """Follow a name to its definition; return it with the length of the chain, or None if uncertain."""
    for depth in range(1, DEEPEST + 1):
        file, outline = repository.file(export.origin), repository.outline(export.origin)
        if outline is None or outline.broken or not repository.may_be_asked_about(file):
            return None
        original = export.original
        if original == "default":
            names = _DEFAULT.findall(repository.text(file.path))
            original = names[0] if len(names) == 1 else ""
        definitions = [item for item in outline.definitions if item.name == original]
        if len(definitions) == 1 and definitions[0].container is None:
            return file, definitions[0], depth
        following = exports_of(export.origin).get(original)
        if definitions or following is None:
            return None
        export = following
    return None


def _is_confirmed(repository: CodeRepository, home: RepositoryFile, definition: SymbolDefinition) -> bool:
    return definition_lines(definition.name, home, repository.text(home.path)) == {definition.line}


def _proposal(
    repository: CodeRepository, index: RepositoryFile, name: str, target: tuple[str, RepositoryFile, SymbolDefinition]
) -> Proposal:
    package, home, definition = target
    lines = repository.text(index.path).split("\n")
    exported = next(number for number, line in enumerate(lines, 1) if re.search(rf"\b{name}\b", line))
    return make_proposal(
        repository,
        kind="reexports",
        language=home.language,
        name=("reexport", f"{package}.{name}"),
        category="navigate",
        description=f"Find where `{name}`, which `{package}` exports, is defined.",
        prompt=f"Code outside of the package in the folder `{package}` imports `{name}` from the package, which "
        "only hands it on. Where is it defined? Give the file, the line and the name that it has there.",
        lines={home.path: [definition.line]},
        symbols=[definition.qualified],
        why="the imports lead to the one definition of the name in that file",
        locations=[(index.path, exported), (home.path, definition.line)],
    )

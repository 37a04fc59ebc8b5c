"""The outline of a source file: its definitions, and how it uses every other name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from abreast.languages import syntax
from abreast.languages.grammars import grammar_of, language_of
from abreast.languages.syntax import Kind

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_SOURCE_BYTES = 5_000_000  # a larger file is not parsed and counts as broken


@dataclass(frozen=True, slots=True)
class SymbolDefinition:
    """A name and its definition. Structs and enums of Go, Rust and TypeScript are types, traits are interfaces. `line`
    and `at` (a byte offset) are those of the name."""

    name: str
    kind: Kind
    line: int
    end_line: int
    container: str | None = None  # the class, impl or receiver
    at: int = 0

    @property
    def qualified(self) -> str:
        """The name with its container, such as `Store.get`."""
        return f"{self.container}.{self.name}" if self.container else self.name


@dataclass(frozen=True, slots=True)
class SymbolReference:
    """A use of a name: a call, an import or re-export, or a mention. `inside` is the qualified name of the innermost
    enclosing definition, `at` the byte offset."""

    name: str
    line: int
    kind: Literal["call", "import", "name"]
    inside: str | None = None
    at: int = 0


@dataclass(frozen=True, slots=True)
class BaseType:
    """A class, interface or trait that a definition extends or implements. `derived` is the qualified name of that
    definition, `line` that of its name or `impl`; `at` is the byte offset of the base's name."""

    name: str
    derived: str
    line: int
    at: int


@dataclass(frozen=True, slots=True)
class Outline:
    """The definitions and references in a file, in its order. `broken` means that the parse had errors; `quoted` are
    the byte ranges of comments and strings."""

    language: str
    definitions: tuple[SymbolDefinition, ...]
    references: tuple[SymbolReference, ...]
    broken: bool
    quoted: tuple[tuple[int, int], ...] = ()
    bases: tuple[BaseType, ...] = ()


@dataclass(frozen=True, slots=True)
class _Scope:
    """An enclosing definition or impl: where it ends, its qualified name, and whether it can have methods."""

    end: int
    name: str
    has_methods: bool
    is_definition: bool = True  # False for an impl


def outline(path: str | PurePath, source: bytes) -> Outline | None:
    """Return the outline of a source file; None if its language is not supported. Accepts any bytes."""
    language = language_of(path)
    if language is None:
        return None
    grammar = grammar_of(path)
    if len(source) > MAX_SOURCE_BYTES:
        return Outline(language, (), (), broken=True)
    from tree_sitter import Parser

    tree = Parser(grammar).parse(source)
    reader = _OutlineReader(language, source)
    for node, depth in _walk(tree.root_node):
        reader.visit(node, depth)
    return Outline(
        language=language,
        definitions=tuple(reader.definitions),
        references=tuple(reader.references),
        broken=tree.root_node.has_error,
        quoted=tuple(reader.quoted),
        bases=tuple(reader.bases),
    )


def _walk(root: Node) -> Iterator[tuple[Node, int]]:
    """Yield all nodes, parents first. Not recursive, since files may be nested arbitrarily deeply."""
    cursor, depth = root.walk(), 0  # cursor.depth is slower for deeper nodes
    while True:
        node = cursor.node
        if node is not None:
            yield node, depth
        if cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            depth -= 1


class _OutlineReader:
    def __init__(self, language: str, source: bytes) -> None:
        self.definitions: list[SymbolDefinition] = []
        self.references: list[SymbolReference] = []
        self.quoted: list[tuple[int, int]] = []
        self.bases: list[BaseType] = []
        self._language = language
        self._source = source
        self._nodes = syntax.NODES[language]
        self._scopes: list[_Scope] = []
        self._definition_starts: set[int] = set()
        self._call_starts: set[int] = set()
        self._imported_until = 0

    def visit(self, node: Node, depth: int) -> None:
        kind = node.type
        if (kind not in self._nodes and not kind.endswith(syntax.NAMES)) or not node.is_named:
            return
        start = node.start_byte
        while self._scopes and self._scopes[-1].end <= start:
            self._scopes.pop()
        if syntax.is_quoted(node) and not (self.quoted and start < self.quoted[-1][1]):
            self.quoted.append((start, node.end_byte))
        if syntax.is_import(node):
            self._imported_until = node.end_byte
        callee = syntax.called_name(self._language, node)
        if callee is not None:
            self._call_starts.add(callee.start_byte)
        if syntax.is_name(node):
            self._add_reference(node, start)
        else:
            self._add_definition(node, depth)

    def _add_definition(self, node: Node, depth: int) -> None:
        owner = syntax.owner_of(self._language, node)
        definition = syntax.definition_of(self._language, node, depth)
        if definition is None:
            if owner is not None:  # an impl
                self._scopes.append(_Scope(node.end_byte, self._text(owner), has_methods=True, is_definition=False))
                self._add_bases(node, self._text(owner), node.start_point[0] + 1)
            return
        kind, names = definition
        container = self._text(owner) if owner is not None else self._container()
        if kind == "function" and container is not None:
            kind = "method"
        for name in names:
            if text := self._text(name):
                line, end = name.start_point[0] + 1, node.end_point[0] + 1
                self._definition_starts.add(name.start_byte)
                symbol = SymbolDefinition(
                    name=text, kind=kind, line=line, end_line=end, container=container, at=name.start_byte
                )
                self.definitions.append(symbol)
                if kind in syntax.OWNER_KINDS:
                    self._add_bases(node, symbol.qualified, line)
                if kind != "constant":
                    self._scopes.append(_Scope(node.end_byte, symbol.qualified, kind in syntax.OWNER_KINDS))

    def _add_bases(self, node: Node, derived: str, line: int) -> None:
        for name in syntax.bases_of(self._language, node):
            self.bases.append(BaseType(self._text(name), derived, line, name.start_byte))

    def _add_reference(self, node: Node, start: int) -> None:
        text = self._text(node)
        if start in self._definition_starts or not text:
            return
        kind: Literal["call", "import", "name"] = "name"
        if start < self._imported_until:
            kind = "import"
        elif start in self._call_starts:
            kind = "call"
        self.references.append(SymbolReference(text, node.start_point[0] + 1, kind, self._enclosing_name(), start))

    def _container(self) -> str | None:
        return self._scopes[-1].name if self._scopes and self._scopes[-1].has_methods else None

    def _enclosing_name(self) -> str | None:
        return next((scope.name for scope in reversed(self._scopes) if scope.is_definition), None)

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")

"""A source file in outline: its definitions, and every name in it with what is done to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

from abreast.languages import defining
from abreast.languages.defining import Kind
from abreast.languages.grammars import grammar_of, language_of

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_BYTES = 5_000_000  # of a file; a larger one is not read, and called broken


@dataclass(frozen=True, slots=True)
class Definition:
    """A name and the place that defines it. Structs and enums of Go, Rust and TypeScript are types, traits are
    interfaces; `line` is the one of the name. `at` is where the name begins, in bytes."""

    name: str
    kind: Kind
    line: int
    end_line: int
    container: str | None = None  # the class, impl or receiver
    at: int = 0

    @property
    def qualified(self) -> str:
        """`Store.get`."""
        return f"{self.container}.{self.name}" if self.container else self.name


@dataclass(frozen=True, slots=True)
class Reference:
    """A name where it is not defined: called, imported (or exported again), or only named. `inside` is the qualified
    name of the innermost function or class around it, `at` where it begins, in bytes."""

    name: str
    line: int
    kind: Literal["call", "import", "name"]
    inside: str | None = None
    at: int = 0


@dataclass(frozen=True, slots=True)
class Base:
    """A class, interface or trait that a definition extends or implements. `derived` is the qualified name of that
    definition, `line` the one of its name or of its `impl`; `at` is where the name of the base begins, in bytes."""

    name: str
    derived: str
    line: int
    at: int


@dataclass(frozen=True, slots=True)
class Outline:
    """What a file defines and refers to, in the order of the file. `broken` says that the parse had errors; `quoted`
    are the comments and strings, from byte to byte."""

    language: str
    definitions: tuple[Definition, ...]
    references: tuple[Reference, ...]
    broken: bool
    quoted: tuple[tuple[int, int], ...] = ()
    bases: tuple[Base, ...] = ()


@dataclass(frozen=True, slots=True)
class _Scope:
    """A definition that is open: until which byte, its qualified name, and whether it can have methods."""

    end: int
    name: str
    holds: bool
    is_definition: bool = True


def outline(path: str | PurePath, source: bytes) -> Outline | None:
    """The outline of a source file; None if it has no language of ours. Any bytes will do."""
    language = language_of(path)
    if language is None:
        return None
    grammar = grammar_of(path)
    if len(source) > MOST_BYTES:
        return Outline(language, (), (), broken=True)
    from tree_sitter import Parser

    tree = Parser(grammar).parse(source)
    reading = _Reading(language, source)
    for node, depth in _walk(tree.root_node):
        reading.visit(node, depth)
    return Outline(
        language=language,
        definitions=tuple(reading.definitions),
        references=tuple(reading.references),
        broken=tree.root_node.has_error,
        quoted=tuple(reading.quoted),
        bases=tuple(reading.bases),
    )


def _walk(root: Node) -> Iterator[tuple[Node, int]]:
    """All nodes, parents first, without recursion: a file may nest as deeply as it likes."""
    cursor, depth = root.walk(), 0  # its own depth takes longer the deeper it is
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


class _Reading:
    """What is known of a file while its nodes pass by."""

    def __init__(self, language: str, source: bytes) -> None:
        self.definitions: list[Definition] = []
        self.references: list[Reference] = []
        self.quoted: list[tuple[int, int]] = []
        self.bases: list[Base] = []
        self._language = language
        self._source = source
        self._nodes = defining.NODES[language]
        self._scopes: list[_Scope] = []
        self._named: set[int] = set()  # where the names of definitions are
        self._called: set[int] = set()
        self._imported_until = 0

    def visit(self, node: Node, depth: int) -> None:
        kind = node.type
        if (kind not in self._nodes and not kind.endswith(defining.NAMES)) or not node.is_named:
            return
        start = node.start_byte
        while self._scopes and self._scopes[-1].end <= start:
            self._scopes.pop()
        if defining.quotes(node) and not (self.quoted and start < self.quoted[-1][1]):
            self.quoted.append((start, node.end_byte))
        if defining.imports(node):
            self._imported_until = node.end_byte
        target = defining.called_by(self._language, node)
        if target is not None:
            self._called.add(target.start_byte)
        if defining.is_name(node):
            self._refer(node, start)
        else:
            self._define(node, depth)

    def _define(self, node: Node, depth: int) -> None:
        holder = defining.holder_of(self._language, node)
        found = defining.defined_by(self._language, node, depth)
        if found is None:
            if holder is not None:  # an impl
                self._scopes.append(_Scope(node.end_byte, self._text(holder), holds=True, is_definition=False))
                self._derive(node, self._text(holder), node.start_point[0] + 1)
            return
        kind, names = found
        container = self._text(holder) if holder is not None else self._container()
        if kind == "function" and container is not None:
            kind = "method"
        for name in names:
            if text := self._text(name):
                line, end = name.start_point[0] + 1, node.end_point[0] + 1
                self._named.add(name.start_byte)
                definition = Definition(
                    name=text, kind=kind, line=line, end_line=end, container=container, at=name.start_byte
                )
                self.definitions.append(definition)
                if kind in defining.HOLDERS:
                    self._derive(node, definition.qualified, line)
                if kind != "constant":
                    self._scopes.append(_Scope(node.end_byte, definition.qualified, kind in defining.HOLDERS))

    def _derive(self, node: Node, derived: str, line: int) -> None:
        for name in defining.bases_of(self._language, node):
            self.bases.append(Base(self._text(name), derived, line, name.start_byte))

    def _refer(self, node: Node, start: int) -> None:
        text = self._text(node)
        if start in self._named or not text:
            return
        is_imported = start < self._imported_until
        kind: Literal["call", "import", "name"] = (
            "import" if is_imported else "call" if start in self._called else "name"
        )
        self.references.append(Reference(text, node.start_point[0] + 1, kind, self._inside(), start))

    def _container(self) -> str | None:
        return self._scopes[-1].name if self._scopes and self._scopes[-1].holds else None

    def _inside(self) -> str | None:
        return next((scope.name for scope in reversed(self._scopes) if scope.is_definition), None)

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "replace")

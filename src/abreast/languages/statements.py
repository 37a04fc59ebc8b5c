"""Split source code into statements, independent of layout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from abreast.errors import BadInput
from abreast.languages.grammars import grammar_of, language_of
from abreast.languages.outline import MAX_SOURCE_BYTES

if TYPE_CHECKING:
    from tree_sitter import Node

Files = Iterable[tuple[str, bytes]]
"""Contents by name."""

_MAX_PHRASE_WORDS = 16  # words; items of a longer list count as statements
_MAX_DEPTH = 500  # deeper nodes are one token
_MAX_SCOPES = 4
_MAX_NAME_LENGTH = 200
_COMMENTS = ("comment", "line_continuation")
_BLOCKS = ("block", "body", "declaration_list", "statement_list", "spec_list", "variant_list", "jsx_element")
_CLOSING = (")", "]", "}", ">", "|")
_BRACKETS = frozenset("()[]{},;")  # tokens that are never statements by themselves
_QUOTES = ("string_start", "string_end", "'")
_ATOMIC = ("string_content",)  # escapes in it are nodes, the text between them is not
_WORD = re.compile(rb"\w+")


class Statement(NamedTuple):
    """A simple statement, the header of a compound one, an item of a long list or a line of a long string.

    `text` has its tokens separated by spaces, `names` its identifiers, `scope` the names of enclosing definitions.
    """

    text: str
    names: frozenset[str] = frozenset()
    scope: tuple[str, ...] = ()


Statements = Counter[Statement]


class Unit(NamedTuple):
    """A top-level node of a file, with the source of the file."""

    node: Node
    source: bytes


_UnitsByKey = dict[tuple[str, str, bytes], list[Unit]]


def differing_statements(versions: Iterable[Files]) -> tuple[list[Statements], int] | None:
    """Return the statements of each version of some files except for units that all versions share, and the number of
    words in these.

    A unit is a top-level definition or statement. Comments, line breaks, semicolons, trailing commas and the kind of
    quotes are ignored. None if a file has no supported language, is too large or does not parse, or if tree-sitter is
    not installed. Takes linear time, and little for shared units.
    """
    parsed = [_parse(files) for files in versions]
    all_units = [units for units in parsed if units is not None]
    if len(all_units) < len(parsed):
        return None
    shared = {key: min(len(units.get(key, ())) for units in all_units) for key in all_units[0]}
    words = sum(count * len(_WORD.findall(key[2])) for key, count in shared.items())
    cache: dict[tuple[str, str, bytes], Statements] = {}
    differing = []
    for version in all_units:
        statements: Statements = Counter()
        for key, units in version.items():
            if count := len(units) - shared.get(key, 0):
                if key not in cache:
                    cache[key] = Counter(_statements(units[0]))
                statements.update({statement: count * times for statement, times in cache[key].items()})
        differing.append(statements)
    return differing, words


def _parse(files: Files) -> _UnitsByKey | None:
    units: _UnitsByKey = {}
    for path, source in files:
        language = language_of(path)
        if language is None or len(source) > MAX_SOURCE_BYTES:
            return None
        try:
            grammar = grammar_of(path)
        except BadInput:
            return None
        from tree_sitter import Parser

        root = Parser(grammar).parse(source).root_node
        if root.has_error:
            return None
        for node in _children(root):
            key = (language, node.type, source[node.start_byte : node.end_byte])
            units.setdefault(key, []).append(Unit(node, source))
    return units


def _statements(unit: Unit) -> Iterator[Statement]:
    """Yield the statements of a unit. Not recursive, since source code may be nested arbitrarily deeply."""
    tokens: list[str] = []
    names: set[str] = set()
    scope: tuple[str, ...] = ()
    for token, is_name, token_scope in _tokens(unit):
        if token is None or token_scope != scope:
            if any(part not in _BRACKETS for part in tokens):
                yield Statement(" ".join(tokens), frozenset(names), scope)
            tokens, names, scope = [], set(), token_scope
        if token:
            tokens.append(token)
            if is_name:
                names.add(token)
    if any(part not in _BRACKETS for part in tokens):
        yield Statement(" ".join(tokens), frozenset(names), scope)


_Token = tuple[str | None, bool, tuple[str, ...]]
"""A token, whether it is a name, and its scope; None ends a statement."""


def _tokens(unit: Unit) -> Iterator[_Token]:
    source = unit.source
    stack: list[tuple[Iterator[Node], str, tuple[str, ...], bool]] = [(iter([unit.node]), "", (), False)]
    read = unit.node.start_byte
    while stack:
        inner, kind, scope, is_list = stack[-1]
        node = next(inner, None)
        if node is None:
            stack.pop()
            if is_list:
                yield None, False, stack[-1][2] if stack else ()
            continue
        start, end, own = node.start_byte, node.end_byte, node.type
        if start > read and ("string" in kind or "literal" in kind) and (between := source[read:start].strip()):
            yield _decode(between), False, scope  # text without a node in the grammar
        if is_list:
            yield None, False, scope
        if node.child_count and own not in _ATOMIC and len(stack) < _MAX_DEPTH:
            children = _children(node)
            if own.endswith(_BLOCKS):
                stack.append((iter(children), own, _block_scope(node, scope, source), True))
            else:
                stack.append((iter(children), own, scope, _is_long_list(node, children, source)))
            read = max(read, start)
            continue
        read = max(read, end)
        for number, line in enumerate(_lines(own, source[start:end])):
            if number:
                yield None, False, scope
            yield line, "identifier" in own, scope


def _children(node: Node) -> list[Node]:
    """Return the children of a node without comments and trailing commas."""
    children = [child for child in node.children if not child.type.endswith(_COMMENTS)]
    next_types = [*(child.type for child in children[1:]), ")"]
    pairs = zip(children, next_types, strict=True) if children else ()
    return [child for child, following in pairs if child.type != "," or following not in _CLOSING]


def _is_long_list(node: Node, children: list[Node], source: bytes) -> bool:
    if len(children) < 3 or not any(child.type == "," for child in children):
        return False
    words = _WORD.finditer(source, node.start_byte, node.end_byte)
    return any(count > _MAX_PHRASE_WORDS for count, _ in enumerate(words, 1))


def _block_scope(block: Node, scope: tuple[str, ...], source: bytes) -> tuple[str, ...]:
    """Return the scope inside a block: the names of the enclosing definitions."""
    parent = block.parent
    if parent is None:
        return scope
    name = parent.child_by_field_name("type" if parent.type == "impl_item" else "name")
    receiver = parent.child_by_field_name("receiver")
    names = [
        _decode(b"".join(source[node.start_byte : node.end_byte][:_MAX_NAME_LENGTH].split()))
        for node in (receiver, name)
        if node is not None
    ]
    return (*scope, *names)[-_MAX_SCOPES:]


def _lines(kind: str, text: bytes) -> list[str]:
    """Return the lines of a token. Only strings have several; their indentation does not count."""
    if kind == ";":
        return []
    if kind in _QUOTES:
        return [_decode(text.replace(b"'", b'"'))]
    if kind == "jsx_text" or not text.strip():
        return [" ".join(_decode(text).split())]
    return [_decode(line.strip() if b"\n" in text else line) for line in text.split(b"\n")]


def _decode(text: bytes) -> str:
    return text.decode("utf-8", "replace")

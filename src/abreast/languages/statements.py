"""Source code as a list of statements, whatever its layout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from abreast.errors import BadInput
from abreast.languages.grammars import grammar_of, language_of
from abreast.languages.outline import MOST_BYTES

if TYPE_CHECKING:
    from tree_sitter import Node

Files = Iterable[tuple[str, bytes]]
"""Names and contents."""

_LONGEST_PHRASE = 16  # words; a longer list is read item by item
_DEEPEST = 500  # nested nodes; anything deeper is one token
_MOST_SCOPES = 4
_LONGEST_NAME = 200
_COMMENTS = ("comment", "line_continuation")
_BLOCKS = ("block", "body", "declaration_list", "statement_list", "spec_list", "variant_list", "jsx_element")
_CLOSING = (")", "]", "}", ">", "|")
_BRACKETS = frozenset("()[]{},;")  # no statement of their own
_QUOTES = ("string_start", "string_end", "'")
_WHOLE = ("string_content",)  # its escapes are nodes, the text between them is not
_WORD = re.compile(rb"\w+")


class Statement(NamedTuple):
    """A simple statement, the header of a compound one, an item of a long list or a line of a long string.

    `text` has a space between tokens, `names` are its identifiers, `scope` are the names of the definitions around it.
    """

    text: str
    names: frozenset[str] = frozenset()
    scope: tuple[str, ...] = ()


Statements = Counter[Statement]


class Unit(NamedTuple):
    """A node at the top level of a file, with the source that it is part of."""

    node: Node
    source: bytes


_Units = dict[tuple[str, str, bytes], list[Unit]]


def differing_statements(versions: Iterable[Files]) -> tuple[list[Statements], int] | None:
    """The statements of each version of some files without the units that all versions share, and the words of these.

    A unit is a definition or statement at the top level. Comments, line breaks, semicolons, trailing commas and the
    kind of quotes are not part of a statement. None if a file has no known language, is too large or does not parse, or
    if tree-sitter is not installed. Takes time linear in the size of the files, and little for units that all share.
    """
    parsed = [_parse(files) for files in versions]
    known = [units for units in parsed if units is not None]
    if len(known) < len(parsed):
        return None
    shared = {key: min(len(units.get(key, ())) for units in known) for key in known[0]}
    words = sum(count * len(_WORD.findall(key[2])) for key, count in shared.items())
    memory: dict[tuple[str, str, bytes], Statements] = {}
    found = []
    for units in known:
        statements: Statements = Counter()
        for key, same in units.items():
            if count := len(same) - shared.get(key, 0):
                if key not in memory:
                    memory[key] = Counter(_statements(same[0]))
                statements.update({statement: count * times for statement, times in memory[key].items()})
        found.append(statements)
    return found, words


def _parse(files: Files) -> _Units | None:
    units: _Units = {}
    for path, source in files:
        language = language_of(path)
        if language is None or len(source) > MOST_BYTES:
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
    """The statements of a unit, without recursion: source code may be nested as deeply as it likes."""
    tokens: list[str] = []
    names: set[str] = set()
    scope: tuple[str, ...] = ()
    for token, is_name, around in _tokens(unit):
        if token is None or around != scope:
            if any(part not in _BRACKETS for part in tokens):
                yield Statement(" ".join(tokens), frozenset(names), scope)
            tokens, names, scope = [], set(), around
        if token:
            tokens.append(token)
            if is_name:
                names.add(token)
    if any(part not in _BRACKETS for part in tokens):
        yield Statement(" ".join(tokens), frozenset(names), scope)


_Token = tuple[str | None, bool, tuple[str, ...]]
"""A token, whether it is a name, and the definitions around it; None ends a statement."""


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
            yield _decoded(between), False, scope  # text that the grammar has no node for
        if is_list:
            yield None, False, scope
        if node.child_count and own not in _WHOLE and len(stack) < _DEEPEST:
            children = _children(node)
            if own.endswith(_BLOCKS):
                stack.append((iter(children), own, _scope_in(node, scope, source), True))
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
    """The nodes in a node without comments and trailing commas."""
    children = [child for child in node.children if not child.type.endswith(_COMMENTS)]
    following = [*(child.type for child in children[1:]), ")"]
    pairs = zip(children, following, strict=True) if children else ()
    return [child for child, after in pairs if child.type != "," or after not in _CLOSING]


def _is_long_list(node: Node, children: list[Node], source: bytes) -> bool:
    if len(children) < 3 or not any(child.type == "," for child in children):
        return False
    words = _WORD.finditer(source, node.start_byte, node.end_byte)
    return any(count > _LONGEST_PHRASE for count, _ in enumerate(words, 1))


def _scope_in(block: Node, scope: tuple[str, ...], source: bytes) -> tuple[str, ...]:
    """The names of the definitions around what is in a block."""
    parent = block.parent
    if parent is None:
        return scope
    named = parent.child_by_field_name("type" if parent.type == "impl_item" else "name")
    receiver = parent.child_by_field_name("receiver")
    names = [
        _decoded(b"".join(source[each.start_byte : each.end_byte][:_LONGEST_NAME].split()))
        for each in (receiver, named)
        if each is not None
    ]
    return (*scope, *names)[-_MOST_SCOPES:]


def _lines(kind: str, text: bytes) -> list[str]:
    """The lines of a token; only strings have several, whose margin does not count."""
    if kind == ";":
        return []
    if kind in _QUOTES:
        return [_decoded(text.replace(b"'", b'"'))]
    if kind == "jsx_text" or not text.strip():
        return [" ".join(_decoded(text).split())]
    return [_decoded(line.strip() if b"\n" in text else line) for line in text.split(b"\n")]


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")

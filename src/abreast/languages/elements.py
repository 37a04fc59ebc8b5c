"""What a change adds to source files and what it takes away, in elements of their syntax."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from abreast.errors import BadInput
from abreast.languages.grammars import grammar_of, language_of
from abreast.languages.outline import MOST_BYTES

if TYPE_CHECKING:
    from tree_sitter import Node

Element = tuple[object, ...]
Elements = Counter[Element]
Files = Iterable[tuple[str, bytes]]
"""Names and contents."""

LONGEST_PHRASE = 24  # words of a piece of syntax that is compared as a whole
_LONGEST_NEIGHBOUR = 200  # bytes of what stands before a phrase and tells its place
_MOST_NAMES = 4  # of definitions around a phrase
_PUNCTUATION = frozenset(b"( ) [ ] { } , ; : . \" ' `".split())
_CLOSING = (")", "]", "}", ">", "|")
_PASSED_OVER = ("comment", "line_continuation")
_WHOLE = ("string_content",)  # its escapes are nodes, the words between them are not
_QUOTES = ("string_start", "string_end", "'")


def edits(before: Files, after: Files) -> tuple[Elements, Elements] | None:
    """What is added and what is removed between two states of some files; None if one of them has no language of ours
    or is too large, or if there is no tree-sitter.

    An element is a name or literal with the kinds of syntax around it, a phrase (a piece of syntax of up to 24 words)
    whatever its layout, or the place of a phrase: the definitions around it and what stands before it. Comments, line
    breaks, semicolons, trailing commas and the kind of quotes are no elements.
    """
    old, new = _units(before), _units(after)
    if old is None or new is None:
        return None
    there, gone = _only(new, old), _only(old, new)
    return there - gone, gone - there


@dataclass(slots=True)
class _Unit:
    """A piece of a file that has all of its syntax: what stands at its top level."""

    node: Node
    source: bytes
    behind: bytes  # what stands before it
    count: int = 1


_Units = dict[tuple[object, ...], _Unit]


def _units(files: Files) -> _Units | None:
    found: _Units = {}
    for path, source in files:
        language = language_of(path)
        if language is None or len(source) > MOST_BYTES:
            return None
        try:
            grammar = grammar_of(path)
        except BadInput:
            return None
        from tree_sitter import Parser

        behind = b""
        for node, _ in _children(Parser(grammar).parse(source).root_node):
            key = (language, node.type, source[node.start_byte : node.end_byte], behind)
            if key in found:
                found[key].count += 1
            else:
                found[key] = _Unit(node, source, behind)
            behind = _neighbour(node, source)
    return found


def _only(these: _Units, others: _Units) -> Elements:
    """The elements of those units that the others do not have: the rest of a large file is not looked at."""
    found: Elements = Counter()
    for key, unit in these.items():
        count = unit.count - (others[key].count if key in others else 0)
        if count > 0:
            for element in _elements(unit):
                found[element] += count
    return found


@dataclass(slots=True)
class _Open:
    """A node while what is in it passes by: where its words begin, and the phrases directly in it."""

    node: Node
    children: Iterator[tuple[Node, bytes]]
    first: int
    kinds: tuple[str, ...]
    inside: tuple[bytes, ...]
    behind: bytes
    phrases: list[tuple[bytes, Element]] = field(default_factory=list)


def _elements(unit: _Unit) -> Iterator[Element]:
    """All elements of a unit, without recursion: a file may nest as deeply as it likes."""
    source, words, read = unit.source, list[bytes](), unit.node.start_byte
    outermost = _Open(unit.node, iter([(unit.node, unit.behind)]), 0, (), (), b"")
    stack = [outermost]
    while stack:
        top = stack[-1]
        step = next(top.children, None)
        if step is None:
            stack.pop()
            yield from _closed(top, stack[-1] if stack else None, words)
            continue
        node, behind = step
        if node.start_byte > read and (between := source[read : node.start_byte].strip()) and _is_text(top.node):
            words.append(between)  # what the grammar has no node for
        if node.child_count and node.type not in _WHOLE:
            kinds = (node.type, *top.kinds[:2])
            stack.append(_Open(node, _neighbours(node, source), len(words), kinds, _around(node, top, source), behind))
            read = max(read, node.start_byte)
            continue
        read = max(read, node.end_byte)
        word = _word(node, source)
        if not word:
            continue
        words.append(word)
        if word not in _PUNCTUATION:
            top.phrases.append((behind, (node.type, word)))
            if node.is_named:
                yield (node.type, word, *top.kinds)


def _closed(ended: _Open, around: _Open | None, words: list[bytes]) -> Iterator[Element]:
    """What a node is as a whole; one that is too large for a phrase tells where the phrases in it are."""
    count = len(words) - ended.first
    if around is None or count > LONGEST_PHRASE:
        for behind, phrase in ended.phrases:
            yield ("place", ended.inside, behind, phrase)
    elif count > 1:
        phrase = (ended.node.type, b" ".join(words[ended.first :]))
        yield phrase
        around.phrases.append((ended.behind, phrase))
    else:
        around.phrases += [(ended.behind, phrase) for _, phrase in ended.phrases]


def _children(node: Node) -> Iterator[tuple[Node, Node | None]]:
    """The nodes in a node that count, each with the one after it."""
    children = [child for child in node.children if not child.type.endswith(_PASSED_OVER)]
    for index, child in enumerate(children):
        behind = children[index + 1] if index + 1 < len(children) else None
        if child.type == "," and (behind is None or behind.type in _CLOSING):
            continue
        yield child, behind


def _neighbours(node: Node, source: bytes) -> Iterator[tuple[Node, bytes]]:
    """The nodes in a node, each with what stands before it."""
    behind = b""
    for child, _ in _children(node):
        yield child, behind
        if child.is_named:
            behind = _neighbour(child, source)


def _neighbour(node: Node, source: bytes) -> bytes:
    start, end = node.start_byte, node.end_byte
    return b"".join(source[start:end].split()) if end - start <= _LONGEST_NEIGHBOUR else node.type.encode()


def _around(node: Node, top: _Open, source: bytes) -> tuple[bytes, ...]:
    """The names of the definitions around what is in a node."""
    if node.end_byte - node.start_byte <= LONGEST_PHRASE:
        return top.inside
    named = node.child_by_field_name("name")
    if named is None and node.type == "impl_item":
        named = node.child_by_field_name("type")
    if named is None:
        return top.inside
    holder = node.child_by_field_name("receiver")
    names = [_neighbour(each, source) for each in (holder, named) if each is not None]
    return (*top.inside, *names)[-_MOST_NAMES:]


def _is_text(node: Node) -> bool:
    return "string" in node.type or "literal" in node.type or node.type == "ERROR"


def _word(node: Node, source: bytes) -> bytes:
    text = source[node.start_byte : node.end_byte]
    if node.type in _QUOTES:
        return text.replace(b"'", b'"')
    if node.type == ";":
        return b""
    return b" ".join(text.split()) if node.type == "jsx_text" else text if text.strip() else b""

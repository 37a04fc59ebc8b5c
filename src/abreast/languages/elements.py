"""What a change adds to source files and what it takes away, in elements of their syntax."""

from __future__ import annotations

import re
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

LONGEST_PHRASE = 16  # words of a piece of syntax that is compared as a whole
_DEEPEST = 500  # nodes in nodes; what is deeper is taken as one word
_LONGEST_SUMMARY = 200  # bytes of what stands before another and tells its place
_MOST_NAMES = 4  # of definitions around a phrase
_PUNCTUATION = frozenset(b"( ) [ ] { } , ; : . \" ' `".split())
_CLOSING = (")", "]", "}", ">", "|")
_PASSED_OVER = ("comment", "line_continuation")
_BLOCKS = ("block", "body", "declaration_list")  # they hold statements, so that they are no phrase
_HOLDING = ("body", "consequence", "declaration", "definition")  # fields of what holds more
_WHOLE = ("string_content",)  # its escapes are nodes, the words between them are not
_QUOTES = ("string_start", "string_end", "'")


def edits(before: Files, *after: Files) -> list[tuple[Elements, Elements]] | None:
    """What is added and what is removed from one state of some files to each of the others; None if a file has no
    language of ours or is too large, or if there is no tree-sitter.

    An element is a name or literal with the kinds of syntax around it, a phrase (a piece of syntax of up to 16 words
    that holds no block) whatever its layout, or the place of a phrase: the definitions around it and what stands before
    it. Comments, line breaks, semicolons, trailing commas, the kind of quotes and the margin of a text of several lines
    are no elements.
    """
    states = [_read(files) for files in (before, *after)]
    known = [state for state in states if state is not None]
    if len(known) < len(states):
        return None
    memory: dict[_Key, list[Element]] = {}
    found = []
    for state in known[1:]:
        there, gone = _only(state, known[0], memory), _only(known[0], state, memory)
        found.append((there - gone, gone - there))
    return found


_Key = tuple[str, str, bytes]


@dataclass(slots=True)
class _State:
    """Files in units: what stands at their top level, how often each is there, and where."""

    counts: Counter[_Key] = field(default_factory=Counter)
    nodes: dict[_Key, tuple[Node, bytes]] = field(default_factory=dict)
    places: Elements = field(default_factory=Counter)


def _read(files: Files) -> _State | None:
    state = _State()
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
        for node, kind in _inner(Parser(grammar).parse(source).root_node):
            key = (language, kind, source[node.start_byte : node.end_byte])
            state.counts[key] += 1
            state.nodes.setdefault(key, (node, source))
            here = _summary(node, source)
            state.places["place", (), behind, here] += 1
            behind = here
    return state


def _only(these: _State, others: _State, memory: dict[_Key, list[Element]]) -> Elements:
    """The elements of those units that the others do not have: the rest of a large file is not looked at."""
    found = these.places - others.places
    for key, count in (these.counts - others.counts).items():
        if key not in memory:
            memory[key] = list(_elements(*these.nodes[key]))
        if count == 1:
            found.update(memory[key])
        else:
            found.update({element: times * count for element, times in Counter(memory[key]).items()})
    return found


@dataclass(slots=True)
class _Open:
    """A node while what is in it passes by: where its words begin, and the phrases directly in it."""

    inner: Iterator[tuple[Node, str]]
    first: int
    kinds: tuple[str, ...]
    inside: tuple[bytes, ...]
    is_large: bool
    phrases: list[Element] = field(default_factory=list)


def _elements(unit: Node, source: bytes) -> Iterator[Element]:
    """All elements of a unit, without recursion: a file may nest as deeply as it likes."""
    words, read = list[bytes](), unit.start_byte
    stack = [_Open(iter([(unit, unit.type)]), 0, (), (), is_large=True)]
    while stack:
        top = stack[-1]
        step = next(top.inner, None)
        if step is None:
            stack.pop()
            if stack:
                yield from _closed(top, stack[-1], words)
            continue
        node, kind = step
        start, end = node.start_byte, node.end_byte
        if start > read and _is_text(top.kinds) and (between := source[read:start].strip()):
            words.append(between)  # what the grammar has no node for
        if node.child_count and kind not in _WHOLE and len(stack) < _DEEPEST:
            kinds, is_large = (kind, *top.kinds[:2]), kind.endswith(_BLOCKS)
            inside = _around(node, kind, top.inside, source) if end - start > LONGEST_PHRASE else top.inside
            stack.append(_Open(iter(_inner(node)), len(words), kinds, inside, is_large))
            read = max(read, start)
            continue
        read = max(read, end)
        word = _word(node, kind, source[start:end])
        if not word:
            continue
        words.append(word)
        if word not in _PUNCTUATION:
            top.phrases.append((kind, word))
            if node.is_named:
                yield (kind, word, *top.kinds)


def _closed(ended: _Open, around: _Open, words: list[bytes]) -> Iterator[Element]:
    """What a node is as a whole; one that is no phrase tells where the phrases in it are."""
    kind, count = ended.kinds[0], len(words) - ended.first
    if ended.is_large or count > LONGEST_PHRASE:
        around.is_large = True
        around.phrases.append((kind, *ended.inside[-1:]))
        for before, phrase in zip([(), *ended.phrases], ended.phrases, strict=False):
            yield ("place", ended.inside, before, phrase)
    elif count > 1:
        phrase = (kind, b" ".join(words[ended.first :]))
        yield phrase
        around.phrases.append(phrase)
    else:
        around.phrases += ended.phrases


def _inner(node: Node) -> list[tuple[Node, str]]:
    """The nodes in a node that count, each with its kind."""
    children = [(child, kind) for child in node.children if not (kind := child.type).endswith(_PASSED_OVER)]
    behind = [*(kind for _, kind in children[1:]), ")"]
    return [each for each, after in zip(children, behind, strict=False) if each[1] != "," or after not in _CLOSING]


def _summary(node: Node, source: bytes) -> bytes:
    """What a unit is for those beside it: its text without layout, or if it holds more its kind and name."""
    start, end = node.start_byte, node.end_byte
    holds = next(filter(None, map(node.child_by_field_name, _HOLDING)), None)
    if holds is None and end - start <= _LONGEST_SUMMARY:
        text = b"".join(source[start:end].split()).replace(b"'", b'"').rstrip(b";")
        return re.sub(rb",(?=[)\]}])", b"", text)
    named = node.child_by_field_name("name") or (holds and holds.child_by_field_name("name"))
    return b" ".join([node.type.encode(), _text(named, source)])


def _text(node: Node | None, source: bytes) -> bytes:
    """The beginning of a node's text without its white space."""
    return b"" if node is None else b"".join(source[node.start_byte : node.end_byte][:_LONGEST_SUMMARY].split())


def _around(node: Node, kind: str, inside: tuple[bytes, ...], source: bytes) -> tuple[bytes, ...]:
    """The names of the definitions around what is in a node."""
    named = node.child_by_field_name("type" if kind == "impl_item" else "name")
    if named is None:
        return inside
    holder = node.child_by_field_name("receiver")
    names = [_text(each, source) for each in (holder, named) if each is not None]
    return (*inside, *names)[-_MOST_NAMES:]


def _is_text(kinds: tuple[str, ...]) -> bool:
    return bool(kinds) and ("string" in kinds[0] or "literal" in kinds[0] or kinds[0] == "ERROR")


def _word(node: Node, kind: str, text: bytes) -> bytes:
    if kind in _QUOTES:
        return text.replace(b"'", b'"')
    if kind == ";":
        return b""
    is_levelled = kind == "jsx_text" or (kind not in _WHOLE and node.child_count)
    if is_levelled or not text.strip():
        return b" ".join(text.split())
    return b"\n".join(map(bytes.strip, text.split(b"\n"))) if b"\n" in text else text

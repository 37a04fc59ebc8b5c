"""The texts of a trial, which may be large: the page contains their beginnings, and loads more on demand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from abreast.errors import BadInput
from abreast.store import Store
from abreast.store.queries.details import TEXTS, TextPiece
from abreast.text import printable
from abreast.view.reading import StoreReader

FIRST = 16_000  # bytes on the page itself
PIECE = 250_000  # bytes that are read on demand
DOWNLOADED = 4_000_000  # bytes read at a time for a file
FORMATTED = 64_000  # bytes; shorter JSON is indented
ARTIFACT = "artifact:"  # prefix of the name of an artifact's text


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text. `next` is the byte at which the rest begins, None at the end."""

    name: str
    text: str
    size: int
    next: int | None = None


def read_piece(store: Store, run_id: int, position: int, name: str, start: int, most: int) -> TextPiece | None:
    """Read bytes of a text or an artifact as stored; None if there is no such text."""
    if name in TEXTS:
        return store.queries.trial_text(run_id, position, name, start, most)
    if name.startswith(ARTIFACT):
        return store.queries.artifact_piece(run_id, position, name.removeprefix(ARTIFACT), start, most)
    raise BadInput(f"a trial has no text {printable(name[:60])!r}", f"it has {', '.join(TEXTS)}")


def read_part(store: Store, run_id: int, position: int, name: str, start: int, most: int) -> TextPart | None:
    """Read a part of a text that ends between two characters."""
    piece = read_piece(store, run_id, position, name, start, most)
    if piece is None:
        return None
    end = start + len(piece.content)
    content = piece.content if end >= piece.size else piece.content[: _boundary(piece.content)]
    text = content.decode(errors="replace")
    following = start + len(content)
    return TextPart(name, text, piece.size, following if content and following < piece.size else None)


def _boundary(content: bytes) -> int:
    """Return where a last, possibly incomplete, character begins; UTF-8 has at most four bytes per character.

    >>> _boundary("aé".encode()[:2]), _boundary(b"ab")
    (1, 1)
    """
    at = len(content) - 1
    while at > 0 and len(content) - at < 4 and content[at] & 0xC0 == 0x80:
        at -= 1
    return max(0, at)


def read_first(store: Store, run_id: int, position: int, name: str) -> TextPart | None:
    """Read the beginning of a text; short JSON is indented, and a JSON string is unquoted."""
    if name not in ("expected", "data"):
        return read_part(store, run_id, position, name, 0, FIRST)
    part = read_part(store, run_id, position, name, 0, FORMATTED)
    if part is None or part.next is not None:
        return part
    try:
        value = json.loads(part.text)
        words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return part
    return None if value is None else TextPart(name, words, part.size)


async def stream(reader: StoreReader, run_id: int, position: int, name: str) -> AsyncIterator[bytes]:
    """Yield a text exactly as stored."""
    start = 0
    while True:
        piece = await reader.read(read_piece, run_id, position, name, start, DOWNLOADED)
        if piece is None or not piece.content:
            return
        yield piece.content
        start += len(piece.content)
        if start >= piece.size:
            return

"""How much a page may hold, and how much of it a text takes."""

from __future__ import annotations

from markupsafe import escape

from abreast.text import printable


class Room:
    """So much is left, of bytes or of anything else; who finds too little takes nothing."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.used_up = False

    def takes(self, needed: int) -> bool:
        if needed > self.left:
            self.used_up = True
            return False
        self.left -= needed
        return True


def size(text: str) -> int:
    """How many bytes a text takes on the page."""
    return len(str(escape(printable(text))).encode())


def cut(text: str, most: int) -> str:
    """A text, or its beginning and how long it is.

    >>> cut("short", 10), cut("x" * 2000, 3)
    ('short', 'xxx … (2,000 characters in all)')
    """
    return text if len(text) <= most else f"{text[:most]} … ({len(text):,} characters in all)"

"""Sizes of foreign values, and excerpts of text that is too large.

SQLite refuses rows above 1 GB, and a row holds a prompt, an answer and a raw response.
"""

from __future__ import annotations

from typing import Any

ANSWER_SIZE = 64_000_000  # bytes; the default of `limits: answer_size`
LARGEST_ANSWER_SIZE = 200_000_000
EXCERPT = 1_000_000  # characters of an excerpt
_CONTAINERS = (dict, list, tuple, set, frozenset)


def text_size(text: str) -> int:
    """Size of a text in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def value_size(value: Any) -> int:
    """The approximate size of a value as JSON, in bytes; objects of other classes count as 8.

    >>> value_size({"answer": "abc", "pages": [1, 2]})
    30
    """
    size, pending, visited = 0, [value], set[int]()
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            size += text_size(item)
        elif isinstance(item, (bytes, bytearray)):
            size += len(item)
        elif isinstance(item, _CONTAINERS):
            if id(item) not in visited:
                visited.add(id(item))
                pending += [*item, *item.values()] if isinstance(item, dict) else item
        else:
            size += 8
    return size


def excerpt(text: str, most: int = EXCERPT, hint: str = "") -> str:
    """The text, or the head and tail of one with more than `most` characters.

    >>> excerpt("a" * 50 + "z" * 50, 10)
    'aaaaa\\n… 90 characters left out …\\nzzzzz'
    """
    if len(text) <= most:
        return text
    head, tail = text[: most - most // 2], text[len(text) - most // 2 :]
    return f"{head}\n… {len(text) - most:,} characters left out{hint} …\n{tail}"


def megabytes(size: int) -> str:
    """
    >>> megabytes(64_000_000), megabytes(71_340_000), megabytes(2_000)
    ('64 MB', '71.3 MB', '0.002 MB')
    """
    return f"{size / 1e6:.3g} MB"

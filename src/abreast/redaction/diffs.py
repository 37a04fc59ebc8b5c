"""Secrets in binary files of a diff: git writes these compressed, so that a search in the text finds nothing."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable

LARGEST_CONTENT = 64_000_000  # bytes; what is larger cannot be searched and is left out
_MARK = "GIT binary patch\n"
_PATCH = re.compile(r"^GIT binary patch\n((?:(?:literal|delta) \d+\n(?:[A-Za-z][^\n]+\n)*\n?)+)", re.MULTILINE)
_PART = re.compile(r"(?:literal|delta) (\d+)\n((?:[A-Za-z][^\n]+\n)*)")


def redact_binary_patches(diff: str, find: Callable[[bytes], str | None]) -> str:
    """Leave out the content of binary files in which `find` names a secret."""
    return _PATCH.sub(lambda patch: _redact_patch(patch, find), diff) if _MARK in diff else diff


def _redact_patch(patch: re.Match[str], find: Callable[[bytes], str | None]) -> str:
    for part in _PART.finditer(patch[1]):
        content = _content(int(part[1]), part[2])
        name = "unreadable" if content is None else find(content)
        if name is not None:
            return f"Binary content left out: [{name}]\n"
    return patch[0]


def _content(size: int, lines: str) -> bytes | None:
    """Decode the lines of one part; None if they are damaged, cut off or too large."""
    if size > LARGEST_CONTENT:
        return None
    try:
        packed = b"".join(_line(line) for line in lines.splitlines())
        content = zlib.decompressobj().decompress(packed, LARGEST_CONTENT)
    except (ValueError, zlib.error):
        return None
    return content if len(content) >= size else None


def _line(line: str) -> bytes:
    """One line: a letter for the number of bytes, then base 85."""
    length = ord(line[0]) - (ord("A") - 1 if line[0] <= "Z" else ord("a") - 27)
    return base64.b85decode(line[1:])[:length]

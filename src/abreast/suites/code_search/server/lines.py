"""What a model is shown: lines that are not too long, and not too many of them."""

from __future__ import annotations

from collections.abc import Iterable

WIDEST = 240  # characters of a source line
MOST_TEXT = 40_000  # characters of an answer
_BEFORE = 80  # of a long line that stand before the hit


def cut(line: str, start: int = 0) -> str:
    """A source line; of a long one the part around `start`, where the hit begins."""
    line = line.rstrip().replace("\0", "\\0")
    if len(line) <= WIDEST:
        return line
    first = max(0, min(start - _BEFORE, len(line) - WIDEST))
    end = first + WIDEST
    return ("…" if first else "") + line[first:end] + ("…" if end < len(line) else "")


def plain(path: str) -> str:
    """A path as it is shown: on one line, and in characters that can be sent."""
    return path.encode("utf-8", "replace").decode().replace("\n", "\\n").replace("\r", "\\r")


def source_lines(content: bytes) -> list[str]:
    """The lines of a file; only a line feed ends one, as in git and in editors."""
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def fitting(blocks: Iterable[str]) -> list[str]:
    """As many of the blocks, from the first, as an answer holds."""
    found: list[str] = []
    size = 0
    for block in blocks:
        size += len(block) + 1
        if found and size > MOST_TEXT:
            break
        found.append(block)
    return found


def counted(number: int, one: str, many: str = "") -> str:
    """`1 hit`, `2,000 hits`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"

"""Texts in which a secret does not stand in one piece: unusual JSON escapes, and Base64 in lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache

SHORTEST_LINE = 60  # characters; Base64 is wrapped at 60, 64, 72 or 76
LINE_BREAK = r"(?:(?:[\r\n]|(?<!\\)\\+[rn])+[ \t]*[+-]?)"  # as it is, in JSON, indented, in a diff
_CHARACTER = r"u[0-9a-fA-F]{4}(?:(?<=u[dD][89abAB]..)\\+u[dD][c-fC-F][0-9a-fA-F]{2})?"  # may be a surrogate pair
_ESCAPE = re.compile(rf"\\{_CHARACTER}")
_NESTED_ESCAPE = re.compile(rf"(?<!\\)\\+{_CHARACTER}")  # JSON in JSON
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_BREAKS = (re.compile(LINE_BREAK.removesuffix("[+-]?)") + ")"), re.compile(LINE_BREAK))


def decode_escapes(text: str) -> Iterator[str]:
    r"""Yield a text with each escape as `json.dumps(ensure_ascii=False)` writes that character.

    >>> print(*decode_escapes(r"a\u002Bb \u0022c\u0022"))
    a+b \"c\"
    """
    if "\\" in text and "\\u" in text:  # the search for one character is much faster
        for pattern in (_ESCAPE, _NESTED_ESCAPE) if "\\\\u" in text else (_ESCAPE,):
            yield pattern.sub(lambda escape: _decode(escape[0]), text)


@lru_cache(maxsize=1_024)
def _decode(escape: str) -> str:
    codes = re.sub(r"\\+", r"\\", escape)
    character = json.loads(f'"{codes}"')
    return escape if "\ud800" <= character <= "\udfff" else _ENCODER.encode(character)[1:-1]  # half a pair stays


def unwrap(text: str) -> Iterator[str]:
    """Yield a text that may contain Base64 in lines with these lines joined."""
    if _is_wrapped(text):
        yield from (pattern.sub("", text) for pattern in _BREAKS)


def _is_wrapped(text: str) -> bool:
    """Check for a line that ends with many characters without a space."""
    for line_break in ("\n", "\\n"):
        if line_break in text:
            lines = text.split(line_break)
            if max(map(len, lines)) >= SHORTEST_LINE and any(
                len(line) >= SHORTEST_LINE and " " not in line[-SHORTEST_LINE:] for line in lines[:-1]
            ):
                return True
    return False

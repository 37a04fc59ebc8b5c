"""The forms in which a secret can occur in a text: literal, escaped, percent-encoded, Base64."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import quote, quote_plus

SHORTEST_LINE = 60  # characters; Base64 is wrapped at 60, 64, 72 or 76
LINE_BREAK = r"(?:(?:[\r\n]|(?<!\\)\\+[rn])+[ \t]*[+-]?)"  # literal, in JSON, indented, in a diff
_CHARACTER = r"u[0-9a-fA-F]{4}(?:(?<=u[dD][89abAB]..)\\+u[dD][c-fC-F][0-9a-fA-F]{2})?"  # possibly a surrogate pair
_ESCAPE = re.compile(rf"\\{_CHARACTER}")
_NESTED_ESCAPE = re.compile(rf"(?<!\\)\\+{_CHARACTER}")  # JSON in JSON
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_BREAKS = (re.compile(LINE_BREAK.removesuffix("[+-]?)") + ")"), re.compile(LINE_BREAK))


def decode_escapes(text: str) -> Iterator[str]:
    r"""Yield a text with its escapes normalised, as `json.dumps(ensure_ascii=False)` writes the characters.

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
    is_half_pair = "\ud800" <= character <= "\udfff"
    return escape if is_half_pair else _ENCODER.encode(character)[1:-1]


def unwrap(text: str) -> Iterator[str]:
    """Yield a text with its lines joined if it may contain wrapped Base64."""
    if _is_wrapped(text):
        yield from (pattern.sub("", text) for pattern in _BREAKS)


def _is_wrapped(text: str) -> bool:
    """Whether a line ends with many characters without a space."""
    for line_break in ("\n", "\\n"):
        if line_break in text:
            lines = text.split(line_break)
            if max(map(len, lines)) >= SHORTEST_LINE and any(
                len(line) >= SHORTEST_LINE and " " not in line[-SHORTEST_LINE:] for line in lines[:-1]
            ):
                return True
    return False


_URL_SAFE = str.maketrans("+/", "-_")
_DROPPED_CHARACTERS = (0, 2, 3)  # Base64 characters that also depend on preceding bytes, by their number modulo 3


def text_forms(value: str) -> set[str]:
    """All forms of a value except Base64."""
    escaped = [json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    escaped += [json.dumps(text)[1:-1] for text in escaped]  # JSON in JSON
    escaped += [text.replace("/", "\\/") for text in escaped]
    encoded = [quote(value, safe="", errors="replace"), quote(value, errors="replace")]
    encoded += [quote_plus(value, errors="replace"), *(_lowercase_percent(text) for text in encoded)]
    return {value, *escaped, *encoded}


def base64_forms(value: str) -> set[str]:
    """The Base64 characters that depend on the value alone, for each position in the encoded bytes.

    >>> sorted(len(form) for form in base64_forms("sk-12345678"))
    [14, 14, 14]
    """
    forms = set()
    content = value.encode("utf-8", "replace")
    for before, dropped in enumerate(_DROPPED_CHARACTERS):
        encoded = base64.b64encode(b"\0" * before + content).decode("ascii")
        form = encoded[dropped : 8 * (before + len(content)) // 6]
        forms |= {form, form.translate(_URL_SAFE)}
    return forms


def byte_forms(value: str) -> list[bytes]:
    """The forms in files: every text form in UTF-8, the value itself also in UTF-16."""
    forms = {form.encode("utf-8", "replace") for form in (*text_forms(value), *base64_forms(value))}
    return [*forms, value.encode("utf-16-le", "replace"), value.encode("utf-16-be", "replace")]


def _lowercase_percent(text: str) -> str:
    head, *rest = text.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])

"""The forms in which a secret can occur in a text: as it is, escaped, percent-encoded, Base64."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

_DROPPED_FIRST = (0, 2, 3)  # Base64 characters that also depend on what stands before, by bytes before


def text_forms(value: str) -> set[str]:
    """All forms of a value except Base64."""
    escaped = [json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    escaped += [json.dumps(text)[1:-1] for text in escaped]  # JSON in JSON
    escaped += [text.replace("/", "\\/") for text in escaped]
    encoded = [quote(value, safe="", errors="replace"), quote(value, errors="replace")]
    encoded += [quote_plus(value, errors="replace"), *(_lowered(text) for text in encoded)]
    return {value, *escaped, *encoded}


def base64_forms(value: str) -> set[str]:
    """The Base64 characters that depend on the value alone, for each position in the encoded bytes.

    >>> sorted(len(form) for form in base64_forms("sk-12345678"))
    [14, 14, 14]
    """
    return {form for content in _contents(value) for form in (content, content.translate(_URL_SAFE))}


_URL_SAFE = str.maketrans("+/", "-_")


def _contents(value: str) -> Iterator[str]:
    content = value.encode("utf-8", "replace")
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + content).decode("ascii")
        bits = 8 * (before + len(content))
        yield encoded[_DROPPED_FIRST[before] : bits // 6]


def byte_forms(value: str) -> list[bytes]:
    """The forms in files: every text form in UTF-8, the value itself also in UTF-16."""
    forms = {form.encode("utf-8", "replace") for form in (*text_forms(value), *base64_forms(value))}
    return [*forms, value.encode("utf-16-le", "replace"), value.encode("utf-16-be", "replace")]


def _lowered(text: str) -> str:
    """Percent-encoding with lower-case digits."""
    head, *rest = text.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])

"""Redact texts in the format of keys, such as `ghp_...`, with rules of gitleaks."""

from __future__ import annotations

import json
import re
from functools import cache, partial
from typing import NamedTuple


class KeyFormat(NamedTuple):
    """A key format. Its pattern is only tried on texts that contain a keyword."""

    id: str
    pattern: str
    keywords: tuple[bytes, ...]


SHORTEST_KEY = 16
_PRIVATE_KEY = b"-----begin"
_FOLD = bytes(ord(chr(byte).lower()) if re.match(r"[\w.~/=%-]", chr(byte), re.ASCII) else 32 for byte in range(256))


def redact_patterns(text: str) -> str:
    """Replace texts in the format of a key.

    >>> redact_patterns("token ghp_0123456789abcdefghijABCDEFGHIJ012345 expired")
    'token [redacted github-pat] expired'
    """
    tokens = _long_tokens(text)
    for rule in _rules() if tokens else ():
        if any(keyword in tokens for keyword in rule.keywords):
            text = _compiled(rule.pattern).sub(partial(_replacement, rule.id), text)
    return text


def _long_tokens(text: str) -> bytes:
    """The lower-case words of a text that are long enough to be keys: much less text to search for keywords."""
    folded = text.encode("utf-8", "replace").translate(_FOLD)
    words = [word for word in folded.split() if len(word) >= SHORTEST_KEY]
    if _PRIVATE_KEY in folded:
        words.append(_PRIVATE_KEY)
    return b" ".join(words)


def _replacement(rule: str, match: re.Match[str]) -> str:
    """Keep the text around a key, and the line breaks and signs of a long key, since a diff counts its lines."""
    key = match[1] if match.re.groups and match[1] else match[0]
    signs = (re.match("[+ -]?", line) for line in key.split("\n")[1:])
    label = f"[redacted {rule}]"
    return match[0].replace(key, "\n".join([label, *(f"{sign[0] if sign else ''}{label}" for sign in signs)]), 1)


@cache
def _rules() -> tuple[KeyFormat, ...]:
    from importlib import resources

    content = json.loads(resources.files("abreast.redaction").joinpath("gitleaks.json").read_text("utf-8"))
    return tuple(
        KeyFormat(rule["id"], rule["pattern"], tuple(word.encode() for word in rule["keywords"]))
        for rule in content["rules"]
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)

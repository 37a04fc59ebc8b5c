"""Formats of keys that providers issue, such as `ghp_...`: rules of gitleaks, for errors, logs, diffs and artifacts."""

from __future__ import annotations

import json
import re
from functools import cache, partial
from typing import NamedTuple


class KeyFormat(NamedTuple):
    """One format. The pattern is only tried on texts that contain a keyword."""

    id: str
    pattern: str
    keywords: tuple[bytes, ...]


SHORTEST_KEY = 16
_PRIVATE_KEY = b"-----begin"
_FOLD = bytes(ord(chr(byte).lower()) if re.match(r"[\w.~/=%-]", chr(byte), re.ASCII) else 32 for byte in range(256))


def redact_patterns(text: str) -> str:
    """Replace whatever has the format of a key.

    >>> redact_patterns("token ghp_0123456789abcdefghijABCDEFGHIJ012345 expired")
    'token [redacted github-pat] expired'
    """
    tokens = _long_tokens(text)
    for rule in _rules() if tokens else ():
        if any(keyword in tokens for keyword in rule.keywords):
            text = _compiled(rule.pattern).sub(partial(_replacement, rule.id), text)
    return text


def _long_tokens(text: str) -> bytes:
    """The words of a text, in lower case, that are long enough to be keys: much less to search for keywords."""
    folded = text.encode("utf-8", "replace").translate(_FOLD)
    words = [word for word in folded.split() if len(word) >= SHORTEST_KEY]
    if _PRIVATE_KEY in folded:
        words.append(_PRIVATE_KEY)
    return b" ".join(words)


def _replacement(rule: str, match: re.Match[str]) -> str:
    """Keep what surrounds the key, and the line breaks and signs of a long one: a diff counts its lines."""
    key = match[1] if match.re.groups and match[1] else match[0]
    signs = (re.match("[+ -]?", line) for line in key.split("\n")[1:])
    label = f"[redacted {rule}]"
    return match[0].replace(key, "\n".join([label, *(f"{sign[0] if sign else ''}{label}" for sign in signs)]), 1)


@cache
def _rules() -> tuple[KeyFormat, ...]:
    from importlib import resources

    content = json.loads(resources.files("abreast.redaction").joinpath("gitleaks.json").read_text("utf-8"))
    return tuple(KeyFormat(rule["id"], rule["pattern"], _encoded(rule["keywords"])) for rule in content["rules"])


def _encoded(words: list[str]) -> tuple[bytes, ...]:
    return tuple(word.encode() for word in words)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)

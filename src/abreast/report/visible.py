"""Text of anybody, made visible: what would command a page, hide, or turn the reading direction is shown instead."""

from __future__ import annotations

import re

# Control characters but tab and line break, signs that turn the direction or take no room, what no file can hold.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""The same text without anything that works in secret.

    >>> visible("a\x00b\x1b[31m"), visible("user\u202etxt.exe"), visible("plain\n\ttext")
    ('a␀b␛[31m', 'user‹U+202E›txt.exe', 'plain\n\ttext')
    """
    return _HIDDEN.sub(_shown, text) if _HIDDEN.search(text) else text


def _shown(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found.string[found.start() : found.end() + 1] == "\r\n":
        return ""
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return "\ufffd" if code >= 0xD800 and code != 0xFEFF else f"‹U+{code:04X}›"

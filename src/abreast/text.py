"""Foreign text: made valid Unicode, printable on a terminal or page, and exact in JSON."""

from __future__ import annotations

import json
import math
import re
import time
from typing import Any

# Characters that control a terminal or browser, are invisible or reorder text: control characters except tab and line
# feed, bidirectional controls, zero-width and blank-looking characters (but not the joiners that scripts and emoji
# need), language tags, noncharacters and surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
_SURROGATE = re.compile("\\\\u[dD][89a-fA-F]|[\ud800-\udfff]")  # in JSON


def printable(text: str) -> str:
    r"""Replace characters that control a terminal or browser, are invisible or reorder text.

    >>> printable("a\x00b\x1b[31m"), printable("user\u202etxt.exe"), printable("plain\n\ttext")
    ('a␀b␛[31m', 'user‹U+202E›txt.exe', 'plain\n\ttext')
    """
    if (text.isascii() and text.isprintable()) or not _UNPRINTABLE.search(text):  # the fast path for most text
        return text
    return _UNPRINTABLE.sub(_symbol, text)


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x0D and match.string.startswith("\n", match.end()):
        return ""
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return "\ufffd" if 0xD800 <= code <= 0xDFFF or code in (0xFFFE, 0xFFFF) else f"‹U+{code:04X}›"


def storable(text: str) -> str:
    r"""Replace lone surrogates, which UTF-8 and databases cannot store.

    >>> storable("a\ud800")
    'a?'
    """
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()


def parse_json(content: str | bytes) -> Any:
    r"""Parse foreign JSON, replacing lone surrogates in its escapes.

    >>> parse_json(r'{"error": "bad \ud800, good \ud83d\ude00"}')
    {'error': 'bad ?, good 😀'}
    """
    text = content if isinstance(content, str) else content.decode(json.detect_encoding(content), "replace")
    value = json.loads(text)
    return json.loads(storable(json.dumps(value, ensure_ascii=False))) if _SURROGATE.search(text) else value


def dump_json(value: Any, **options: Any) -> str:
    r"""Write JSON with unprintable characters escaped, which is safe on a terminal and the same data.

    >>> dump_json({"a": "ä \x9b31m \u202e"})
    '{"a": "ä \\u009b31m \\u202e"}'
    """
    return _UNPRINTABLE.sub(lambda match: json.dumps(match[0])[1:-1], json.dumps(value, ensure_ascii=False, **options))


def moment(at: float | None) -> str | None:
    """Format a timestamp as sortable text.

    >>> moment(0.0), moment(None)
    ('1970-01-01T00:00:00Z', None)
    """
    return None if at is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def many(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun.

    >>> many(1, "win"), many(1_200, "case"), many(2, "loss", "losses")
    ('1 win', '1,200 cases', '2 losses')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def dollars(amount: float) -> str:
    """Format dollars with cents, or with two significant digits if the amount is small.

    >>> dollars(12.4), dollars(0.0), dollars(0.00123)
    ('$12.40', '$0.00', '$0.0012')
    """
    if amount >= 0.1 or amount <= 0:
        return f"${amount:,.2f}"
    digits = min(9, 1 - math.floor(math.log10(amount)))
    cents, rest = f"{amount:.{digits}f}"[:4], f"{amount:.{digits}f}"[4:]
    return f"${cents}{rest.rstrip('0')}"

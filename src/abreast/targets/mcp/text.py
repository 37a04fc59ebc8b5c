"""Untrusted text of servers, without terminal commands, invisible characters and changes of direction."""

from __future__ import annotations

import re

LONGEST_LINE = 200

_SEQUENCES = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-_])")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_HIDDEN = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\uffff\ud800-\udfff]")


def plain_text(text: str, most: int) -> str:
    r"""Remove escape sequences, control characters and invisible characters.

    >>> plain_text("a\x1b[31mred\x1b[0m\x00b\r\nc\u202ed", 100)
    'ared b\ncd'
    """
    text = _SEQUENCES.sub("", text[: 4 * most].replace("\r\n", "\n"))
    return _HIDDEN.sub("", _CONTROLS.sub(" ", text))[:most]


def first_line(text: str, most: int = LONGEST_LINE) -> str:
    r"""Return the first line that is not empty, shortened.

    >>> first_line("\n  one\ttwo \nthree"), first_line("x" * 9, 5)
    ('one two', 'xxxx…')
    """
    lines = (" ".join(line.split()) for line in plain_text(text, 4 * most + 100).splitlines())
    first = next(filter(None, lines), "")
    return first if len(first) <= most else first[: most - 1] + "…"


def error_line(text: str) -> str:
    r"""Return the last line with an error; without one the last line.

    >>> error_line("Traceback\n  File x\nKeyError: 'a'\n")
    "KeyError: 'a'"
    >>> error_line("Error: no such module\n    at x\n\nNode.js v20.1.0\n")
    'Error: no such module'
    """
    lines = [shortened for line in text.splitlines() if (shortened := first_line(line))]
    errors = [line for line in lines if re.search(r"error\b|exception\b|fatal\b|panic\b", line, re.IGNORECASE)]
    return (errors or lines or [""])[-1]

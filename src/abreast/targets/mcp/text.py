"""Text of servers, which may be anybody's: without anything that commands a terminal, hides or turns direction."""

from __future__ import annotations

import re

LONGEST_LINE = 200

_SEQUENCES = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-_])")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_HIDDEN = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\uffff\ud800-\udfff]")


def plain_text(text: str, most: int) -> str:
    r"""The same in lines, without what works in secret.

    >>> plain("a\x1b[31mred\x1b[0m\x00b\r\nc\u202ed", 100)
    'ared b\ncd'
    """
    text = _SEQUENCES.sub("", text[: 4 * most].replace("\r\n", "\n"))
    return _HIDDEN.sub("", _CONTROLS.sub(" ", text))[:most]


def first_line(text: str, most: int = LONGEST_LINE) -> str:
    r"""Its first line that says something, cut.

    >>> line("\n  one\ttwo \nthree"), line("x" * 9, 5)
    ('one two', 'xxxx…')
    """
    lines = (" ".join(each.split()) for each in plain_text(text, 4 * most + 100).splitlines())
    first = next((each for each in lines if each), "")
    return first if len(first) <= most else first[: most - 1] + "…"


def error_line(text: str) -> str:
    r"""The line of what a program said last that tells most: an error if there is one, else its last words.

    >>> telling("Traceback\n  File x\nKeyError: 'a'\n"), telling("Error: no such module\n    at x\n\nNode.js v20.1.0\n")
    ("KeyError: 'a'", 'Error: no such module')
    """
    lines = [found for each in text.splitlines() if (found := first_line(each))]
    errors = [each for each in lines if re.search(r"error\b|exception\b|fatal\b|panic\b", each, re.IGNORECASE)]
    return (errors or lines or [""])[-1]

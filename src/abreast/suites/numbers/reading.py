"""What of an answer is the answer: the part of the form, positions in any dress, a count that is spelled out."""

from __future__ import annotations

import re
from typing import Any

from abreast.model import Answer
from abreast.scorers.jsontext import answers_in, find_object
from abreast.scorers.marker import marker_ends

_ANSWER_LINE = re.compile(  # "Answer: 5", "**Answer:** 5", "1. Answer: 5", and "# Answer" above it
    r"^[ \t>#*_-]{0,8}(?:\d[.)][ \t*_]{0,4})?(?:final\s)?answer[ \t*_`]{0,6}(?:[:=]|$)", re.IGNORECASE | re.MULTILINE
)
_OTHER_PARTS = re.compile(  # where the next part of the form begins, on a line of its own or not
    r"""(?:\n[\s>#*_-]{0,8}(?:\d[.)][ \t*_]{0,4})?|[\s,;|.*_#(-]{1,8})
        (?:confidence|reasoning|reason|explanation)\b (?:[\s*_]{0,6}[:=]|[ \t*_]{0,6}$)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_MARKUP = " \t\n*_`#"
_LISTED = re.compile(r"\[[\d\s,]*\]")
_ASIDE = re.compile(  # what is no position: a value behind one, in brackets or after a colon; the number of a line
    r"\([^()]{0,200}\)|(?<=\d)\s?[:=→]\s?-?\d+(?:\.\d+)?|^[ \t]*\d{1,2}[.)][ \t]+(?=\W{0,3}\d)", re.MULTILINE
)
_POSITION = r"(?<![\w.])(\d{1,9})(?:\.0{1,9}|st|nd|rd|th)?(?!\w|\.\d)"
_WHOLE = re.compile(_POSITION)
_FIRST_LIST = re.compile(
    rf"\W{{0,9}}(?:(?:index|position)s?\s)?{_POSITION}"
    rf"(?:(?:[\s,;&#*`_-]|\band\b|\bindex\b|\bposition\b){{1,9}}{_POSITION})*",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\s{1,3}(?:(?!is\b|are\b)\w+\s)?(?:anomal|outlier|spike|drop|dip|level|shift|point|event|position)", re.IGNORECASE
)
_AT = re.compile(r"\b(?:at|positions?|index|indexes|indices|locations?)\b", re.IGNORECASE)
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SPELLED = re.compile(
    rf"(?:answer:\s{{0,3}})?(?:there\s(?:is|are)\s)?(no|none|{'|'.join(_NUMBERS)})\b(?!.*\d)", re.IGNORECASE | re.DOTALL
)


def answer_part(text: str) -> str:
    """The last "Answer:" and what stands after it, up to the next part of the form; all of it if there is none. What
    the reasoning says of "the answer" counts only if no line begins with it.

    >>> answer_part("**Reasoning:** 5 > 3\\n**Answer:** B\\n**Confidence:** 90 %")
    'Answer: B'
    """
    if answers_in(find_object(text)):
        return text  # which the scorers read by its keys
    ends = [match.end() for match in _ANSWER_LINE.finditer(text)] or marker_ends(text)
    if not ends:
        return text
    rest = text[ends[-1] :]
    other = _OTHER_PARTS.search(rest)
    part = (rest[: other.start()] if other else rest).strip(_MARKUP)
    if part.startswith("<") and part.endswith(">"):
        part = part[1:-1].strip(_MARKUP)  # as the form has it
    return f"Answer: {part}" if part else text


def in_digits(text: str) -> str:
    """A count that is spelled out, as digits.

    >>> in_digits("Answer: There are no anomalies"), in_digits("Answer: Three, at 12, 45 and 80")
    ('Answer: 0', 'Answer: Three, at 12, 45 and 80')
    """
    spelled = _SPELLED.match(text.strip())
    if spelled is None:
        return text
    word = spelled.group(1).casefold()
    return f"Answer: {_NUMBERS.index(word) if word in _NUMBERS else 0}"


def positions(answer: Answer) -> list[int]:
    """The whole numbers that are given as positions, in any order and any dress.

    >>> positions(Answer("3 anomalies, at 80, **12** (value 99.5) and 45"))
    [12, 45, 80]
    """
    named = answers_in(find_object(answer.text)) if answer.value is None else [answer.value]
    value: Any = named[0] if named else answer.text
    if isinstance(value, list | tuple):
        return sorted({int(each) for each in value if isinstance(each, int | float) and float(each).is_integer()})
    text = str(value)
    if listed := _LISTED.search(text):
        return sorted({int(each) for each in re.findall(r"\d{1,9}", listed.group())})
    text = _ASIDE.sub(" ", text.removeprefix("Answer:"))
    first = _FIRST_LIST.match(text)
    if first and (len(_WHOLE.findall(first.group())) > 1 or not _COUNTED.match(text, first.end())):
        text = first.group()  # what follows is about them
    elif at := _AT.search(text):
        text = text[at.end() :]
    return sorted({int(each) for each in _WHOLE.findall(text)})

"""What the fake provider does with one request, and how that is written in words.

>>> directives('Sum it. [[fake: status=429 retry-after=1 times=2]]')
(Reply(say=None, kind='error', status=429, retry_after=1.0, times=2),)
>>> directives('[[fake: tool=Bash args={"command": "ls"} then="done"]]')[0].then
'done'
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from abreast.errors import BadInput, suggestion

Kind = Literal["answer", "error", "too-long", "hang", "drop", "empty", "refusal", "cut", "tool"]
OPENING = "[[fake:"
_KINDS = ("too-long", "hang", "drop", "empty", "refusal", "cut")
_WORD = re.compile(r"[A-Za-z][\w-]*")
_BARE = re.compile(r"(?:(?!\]\])\S)+")
_SPACE = re.compile(r"[\s,]*")
_DECODE = json.JSONDecoder(strict=False).raw_decode


@dataclass(frozen=True, slots=True, repr=False)
class Reply:
    """One step of a script.

    `kind` is what happens: an answer in text, an `error` with a `status`, `too-long` (400), `hang` (nothing, until the
    client goes), `drop` (the connection ends without a response), `empty` content, a `refusal`, a text that is `cut` at
    the limit of tokens, or a call of a `tool`. `times` is how often, for a tool how often in a row; then the next step
    follows. After a tool the answer is `then`, else the text of the tool's result. Tokens stand in the provider's
    own fields as they are given here.

    >>> Reply("forty-two"), Reply(status=529), Reply(tool="Bash", args={"command": "ls"})
    (Reply(say='forty-two'), Reply(say=None, kind='error', status=529), Reply(say=None, kind='tool', tool='Bash', \
args={'command': 'ls'}))
    """

    say: str | None = None
    kind: Kind = "answer"
    status: int = 200
    retry_after: float | None = None
    times: int | None = None
    latency: float | None = None
    tool: str = ""
    args: Any = field(default_factory=dict)
    then: str | None = None
    input: int | None = None
    output: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None

    def __post_init__(self) -> None:
        if self.tool:
            object.__setattr__(self, "kind", "tool")
        elif self.status >= 400 and self.kind == "answer":
            object.__setattr__(self, "kind", "error")

    def __repr__(self) -> str:
        told = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if _is_told(self, each.name)]
        return f"Reply({', '.join(told)})"


def _is_told(reply: Reply, name: str) -> bool:
    usual = {"kind": "answer", "status": 200, "tool": "", "args": {}}
    return name == "say" or getattr(reply, name) != usual.get(name)


def directives(text: str) -> tuple[Reply, ...]:
    """The replies that a prompt itself asks for, in order; BadInput if one cannot be read."""
    found, at = [], text.find(OPENING)
    while at >= 0:
        words, at = _words(text, at + len(OPENING))
        found.append(reply_of(words, "fake directive"))
        at = text.find(OPENING, at)
    return tuple(found)


def _words(text: str, at: int) -> tuple[dict[str, Any], int]:
    """The words of a directive with their values, and where it ends."""
    words: dict[str, Any] = {}
    while True:
        at = _end(_SPACE, text, at)
        if text.startswith("]]", at):
            return words, at + 2
        name = _WORD.match(text, at)
        if name is None:
            raise BadInput(f"fake directive: it cannot be read from {text[at : at + 20]!r} on; it ends with ]]")
        at = name.end()
        words[name[0]], at = _value(text, at + 1) if text.startswith("=", at) else (True, at)


def _value(text: str, at: int) -> tuple[Any, int]:
    """A JSON value, text in single quotes, or the characters until a space."""
    if text.startswith(("{", '"', "["), at) and not text.startswith("]]", at):
        try:
            return _DECODE(text, at)
        except ValueError as error:
            raise BadInput(f"fake directive: {text[at : at + 40]!r} is no JSON: {error}") from None
    if text.startswith("'", at) and (end := text.find("'", at + 1)) > 0:
        return text[at + 1 : end], end + 1
    end = _end(_BARE, text, at)
    return text[at:end], end


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def reply_of(words: Mapping[str, Any], where: str) -> Reply:
    """A reply from its words, those of a directive or of an object in a script file.

    >>> reply_of({"hang": True}, "here").kind
    'hang'
    """
    told: dict[str, Any] = {}
    kinds = [word for word in words if word.replace("_", "-") in _KINDS or word in ("status", "tool")]
    if len(kinds) > 1:
        raise BadInput(f"{where}: {kinds[0]} and {kinds[1]} cannot be in one reply; write two, in their order")
    for word, value in words.items():
        name = word.replace("_", "-")
        if name in _KINDS:
            if value is not True:
                raise BadInput(f"{where}: {name} stands alone, got {value!r}")
            told["kind"] = name
        elif name in _VALUES:
            told[name.replace("-", "_")] = _VALUES[name](value, f"{where}: {name}")
        else:
            raise BadInput(f'{where}: unknown word "{word}"{suggestion(name, [*_VALUES, *_KINDS])}')
    for word, needed in (("retry_after", "status"), ("args", "tool"), ("then", "tool")):
        if word in told and needed not in told:
            raise BadInput(f"{where}: {word.replace('_', '-')} needs {needed}=")
    return Reply(**told)


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadInput(f'{where} must be text such as {where.rpartition(" ")[2]}="...", got {value!r}')
    return str(value)


def _seconds(value: Any, where: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise BadInput(f"{where} must be a number of seconds, got {value!r}")
    return number


def _whole(value: Any, where: str) -> int:
    try:
        number = -1 if isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise BadInput(f"{where} must be a whole number, got {value!r}")
    return number


def _status(value: Any, where: str) -> int:
    number = _whole(value, where)
    if not 400 <= number <= 599:
        raise BadInput(f"{where} must be an error between 400 and 599, got {value!r}")
    return number


def _arguments(value: Any, where: str) -> Any:
    if not isinstance(value, dict | str):
        raise BadInput(f'{where} must be a JSON object such as {{"path": "a.txt"}}, or text for a free-form tool')
    return value


_VALUES: dict[str, Callable[[Any, str], Any]] = {
    "say": _text,
    "status": _status,
    "retry-after": _seconds,
    "times": _whole,
    "latency": _seconds,
    "tool": _text,
    "args": _arguments,
    "then": _text,
    "input": _whole,
    "output": _whole,
    "cached": _whole,
    "cache-write": _whole,
    "reasoning": _whole,
}

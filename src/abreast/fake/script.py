"""Replies of the fake provider: by the prompt's own directives, else by the first rule that matches."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from abreast.errors import BadInput, suggestion
from abreast.fake.api_format import ChatRequest

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
        usual = asdict(Reply())
        settings = {name: value for name, value in asdict(self).items() if name == "say" or value != usual[name]}
        return f"Reply({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


def directives(text: str) -> tuple[Reply, ...]:
    """The replies that a prompt itself asks for, in order; BadInput if one cannot be read.

    >>> directives('Sum it. [[fake: status=429 retry-after=1 times=2]]')
    (Reply(say=None, kind='error', status=429, retry_after=1.0, times=2),)
    >>> directives('[[fake: tool=Bash args={"command": "ls"} then="done"]]')[0].then
    'done'
    """
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
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text
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
    bare = _BARE.match(text, at)
    return (bare[0], bare.end()) if bare else ("", at)


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


Convert = Callable[[Any, str], Any]  # a checked value; the second argument begins the message of an error


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadInput(f'{where} must be text such as {where.rpartition(" ")[2]}="...", got {value!r}')
    return str(value)


def _number(kind: type[int] | type[float], expects: str, least: int = 0, most: float = math.inf) -> Convert:
    def convert(value: Any, where: str) -> Any:
        is_other = isinstance(value, bool) or (kind is int and isinstance(value, float))
        try:
            number = math.nan if is_other else kind(value)
        except (TypeError, ValueError):
            number = math.nan
        if not least <= number <= most or number == math.inf:
            raise BadInput(f"{where} must be {expects}, got {value!r}")
        return number

    return convert


def _arguments(value: Any, where: str) -> Any:
    if not isinstance(value, dict | str):
        raise BadInput(f'{where} must be a JSON object such as {{"path": "a.txt"}}, or text for a free-form tool')
    return value


_TOKENS = ("input", "output", "cached", "cache-write", "reasoning")
_VALUES: dict[str, Convert] = {
    **dict.fromkeys(("say", "tool", "then"), _text),
    "status": _number(int, "an error between 400 and 599", 400, 599),
    **dict.fromkeys(("retry-after", "latency"), _number(float, "a number of seconds")),
    "args": _arguments,
    **dict.fromkeys(("times", *_TOKENS), _number(int, "a whole number")),
}

MOST_COUNTED = 10_000  # prompts whose `times` are remembered
SETTINGS = ("rules", "answers", "latency", "capacity", "keys", "rate")


@dataclass(frozen=True)
class Rule:
    """Replies to prompts that match a regular expression: each request takes the next one, and the last one repeats.

    A call of a tool belongs to its conversation: every conversation begins with the first tool and goes on from there.

    >>> Rule("flaky", [Reply(status=429), "fine now"]).replies
    (Reply(say=None, kind='error', status=429, times=1), Reply(say='fine now'))
    """

    match: str
    replies: Sequence[Reply | str]

    def __post_init__(self) -> None:
        try:
            re.compile(self.match)
        except re.error as error:
            raise BadInput(f"match {self.match!r} is no regular expression: {error}") from None
        if isinstance(self.replies, str) or not self.replies:
            raise BadInput(f'the rule for {self.match!r} needs a list of replies, such as ["yes"]')
        given = [Reply(each) if isinstance(each, str) else each for each in self.replies]
        for at, each in enumerate(given[:-1]):
            if each.times is None and each.kind != "tool":
                given[at] = replace(each, times=1)
        object.__setattr__(self, "replies", tuple(given))

    @property
    def steps(self) -> tuple[Reply, ...]:
        return self.replies  # type: ignore[return-value]  # made so when it was built


class Script:
    """What the provider answers, and how often it did already."""

    def __init__(self, rules: Iterable[Rule] = (), answers: Mapping[str, str] | None = None) -> None:
        self._rules = [(re.compile(rule.match, re.S), rule.steps) for rule in rules]
        self._answers = sorted((answers or {}).items(), key=lambda item: len(item[0]), reverse=True)
        self._used: dict[tuple[Any, ...], int] = {}

    def choose(self, asked: ChatRequest, model: str) -> Reply:
        """The reply to this request, which takes it."""
        if OPENING in asked.text:
            return self._next(directives(asked.text), asked, (model, asked.text))
        for number, (pattern, steps) in enumerate(self._rules):
            if pattern.search(asked.text):
                return self._next(steps, asked, (number,))
        return self._next((), asked, ())

    def _next(self, steps: tuple[Reply, ...], asked: ChatRequest, whose: tuple[Any, ...]) -> Reply:
        """The first step that is not done: a tool is once it was called, others after their `times`."""
        calls, then = asked.calls, asked.result
        for at, step in enumerate(steps):
            if step.kind == "tool":
                calls -= step.times or 1
                if calls < 0:
                    return step
                then = asked.result if step.then is None else step.then
            elif step.times is None or self._take((*whose, at), step.times):
                return step if step.say is not None else replace(step, say=self._said(step, asked, then))
        return Reply(self._said(Reply(), asked, then))

    def _take(self, key: tuple[Any, ...], times: int) -> bool:
        used = self._used.get(key, 0)
        if used < times:
            self._used[key] = used + 1
            if len(self._used) > MOST_COUNTED:
                del self._used[next(iter(self._used))]
        return used < times

    def _said(self, step: Reply, asked: ChatRequest, then: str | None) -> str | None:
        """What follows a tool; else the answer for the longest part of the prompt, which may be all of it."""
        if step.kind not in ("answer", "cut"):
            return None
        if then is not None:
            return then
        made_up = f"fake answer {zlib.crc32(asked.text.encode('utf-8', 'replace')):08x}"
        return next((answer for part, answer in self._answers if part in asked.text), made_up)


def read_script(path: Path) -> dict[str, Any]:
    """The settings of a provider from a JSON file; BadInput names the place that is wrong."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: this is no text in UTF-8") from None
    except ValueError as error:
        raise BadInput(f"{path}: this is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise BadInput(f'{path}: a script is an object such as {{"answers": {{"2 + 2": "4"}}}}, got {told!r:.60}')
    for key in told:
        if key not in SETTINGS:
            raise BadInput(f'{path}: unknown key "{key}"{suggestion(key, SETTINGS)}')
    answers = told.get("answers", {})
    if not isinstance(answers, dict) or not all(isinstance(text, str) for text in answers.values()):
        raise BadInput(f"{path}: answers must map parts of prompts to texts, got {answers!r:.60}")
    return {**told, "answers": answers, "rules": _rules(told.get("rules", []), str(path))}


def _rules(told: Any, where: str) -> list[Rule]:
    if not isinstance(told, list):
        raise BadInput(f"{where}: rules must be a list, got {told!r:.60}")
    return [_rule(each, f"{where}: rules[{at}]") for at, each in enumerate(told)]


def _rule(told: Any, where: str) -> Rule:
    if not isinstance(told, dict) or set(told) != {"match", "replies"} or not isinstance(told["match"], str):
        raise BadInput(f'{where} must be such as {{"match": "flaky", "replies": ["yes"]}}, got {told!r:.60}')
    if not isinstance(told["replies"], list):
        raise BadInput(f'{where}: replies must be a list such as ["yes"], got {told["replies"]!r:.60}')
    replies = [_reply(each, f"{where}.replies[{at}]") for at, each in enumerate(told["replies"])]
    try:
        return Rule(told["match"], replies)
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}") from None


def _reply(told: Any, where: str) -> Reply:
    if isinstance(told, str):
        return Reply(told)
    if not isinstance(told, dict):
        raise BadInput(f'{where} must be a text or an object such as {{"status": 429}}, got {told!r:.60}')
    return reply_of(told, where)

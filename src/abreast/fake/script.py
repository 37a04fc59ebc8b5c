"""Replies of the fake provider: by directives in the prompt, else by the first rule that matches."""

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

    `kind` is an answer in text, an `error` with a `status`, `too-long` (400), `hang` (no response until the client
    disconnects), `drop` (the connection closes without a response), `empty` content, a `refusal`, a text that is `cut`
    at the token limit, or a call of a `tool`. The next step follows after `times` uses, or after that many calls of a
    tool in a row. After a tool the answer is `then`, else the text of the tool's result. Token counts are sent as set.

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
        defaults = asdict(Reply())
        settings = {name: value for name, value in asdict(self).items() if name == "say" or value != defaults[name]}
        return f"Reply({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


def directives(text: str) -> tuple[Reply, ...]:
    """Parse the replies that a prompt asks for. Raises BadInput.

    >>> directives('Sum it. [[fake: status=429 retry-after=1 times=2]]')
    (Reply(say=None, kind='error', status=429, retry_after=1.0, times=2),)
    >>> directives('[[fake: tool=Bash args={"command": "ls"} then="done"]]')[0].then
    'done'
    """
    replies, start = [], text.find(OPENING)
    while start >= 0:
        words, end = _parse_words(text, start + len(OPENING))
        replies.append(parse_reply(words, "fake directive"))
        start = text.find(OPENING, end)
    return tuple(replies)


def _parse_words(text: str, at: int) -> tuple[dict[str, Any], int]:
    """Return the words of a directive with their values, and the end of the directive."""
    words: dict[str, Any] = {}
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text
        if text.startswith("]]", at):
            return words, at + 2
        name = _WORD.match(text, at)
        if name is None:
            raise BadInput(f"fake directive: invalid from {text[at : at + 20]!r} on; directives end with ]]")
        at = name.end()
        words[name[0]], at = _parse_value(text, at + 1) if text.startswith("=", at) else (True, at)


def _parse_value(text: str, at: int) -> tuple[Any, int]:
    """Return a JSON value, text in single quotes, or the characters up to a space."""
    if text.startswith(("{", '"', "["), at) and not text.startswith("]]", at):
        try:
            return _DECODE(text, at)
        except ValueError as error:
            raise BadInput(f"fake directive: invalid JSON {text[at : at + 40]!r}: {error}") from None
    if text.startswith("'", at) and (end := text.find("'", at + 1)) > 0:
        return text[at + 1 : end], end + 1
    bare = _BARE.match(text, at)
    return (bare[0], bare.end()) if bare else ("", at)


def parse_reply(words: Mapping[str, Any], where: str) -> Reply:
    """Build a reply from the words of a directive or of an object in a script file.

    >>> parse_reply({"hang": True}, "script").kind
    'hang'
    """
    fields: dict[str, Any] = {}
    kinds = [word for word in words if word.replace("_", "-") in _KINDS or word in ("status", "tool")]
    if len(kinds) > 1:
        raise BadInput(f"{where}: {kinds[0]} and {kinds[1]} cannot be in one reply; write two replies, in order")
    for word, value in words.items():
        name = word.replace("_", "-")
        if name in _KINDS:
            if value is not True:
                raise BadInput(f"{where}: {name} takes no value, got {value!r}")
            fields["kind"] = name
        elif name in _CONVERTERS:
            fields[name.replace("-", "_")] = _CONVERTERS[name](value, f"{where}: {name}")
        else:
            raise BadInput(f'{where}: unknown word "{word}"{suggestion(name, [*_CONVERTERS, *_KINDS])}')
    for word, required in (("retry_after", "status"), ("args", "tool"), ("then", "tool")):
        if word in fields and required not in fields:
            raise BadInput(f"{where}: {word.replace('_', '-')} needs {required}=")
    return Reply(**fields)


Converter = Callable[[Any, str], Any]  # checks a value; the second argument begins the error message


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadInput(f'{where} must be text such as {where.rpartition(" ")[2]}="...", got {value!r}')
    return str(value)


def _number(kind: type[int] | type[float], expects: str, least: int = 0, most: float = math.inf) -> Converter:
    def convert(value: Any, where: str) -> Any:
        is_wrong_type = isinstance(value, bool) or (kind is int and isinstance(value, float))
        try:
            number = math.nan if is_wrong_type else kind(value)
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
_CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys(("say", "tool", "then"), _text),
    "status": _number(int, "an error status from 400 to 599", 400, 599),
    **dict.fromkeys(("retry-after", "latency"), _number(float, "a number of seconds")),
    "args": _arguments,
    **dict.fromkeys(("times", *_TOKENS), _number(int, "an integer")),
}

MOST_COUNTED = 10_000  # prompts whose `times` are remembered
SETTINGS = ("rules", "answers", "latency", "capacity", "keys", "rate")


@dataclass(frozen=True)
class Rule:
    """Replies to prompts that match a regular expression: each request takes the next one; the last one repeats.

    Tool calls are counted per conversation: each conversation begins with the first tool.

    >>> Rule("flaky", [Reply(status=429), "fine now"]).replies
    (Reply(say=None, kind='error', status=429, times=1), Reply(say='fine now'))
    """

    match: str
    replies: Sequence[Reply | str]

    def __post_init__(self) -> None:
        try:
            re.compile(self.match)
        except re.error as error:
            raise BadInput(f"match {self.match!r} is not a valid regular expression: {error}") from None
        if isinstance(self.replies, str) or not self.replies:
            raise BadInput(f'the rule for {self.match!r} needs a list of replies, such as ["yes"]')
        replies = [Reply(reply) if isinstance(reply, str) else reply for reply in self.replies]
        for index, reply in enumerate(replies[:-1]):
            if reply.times is None and reply.kind != "tool":
                replies[index] = replace(reply, times=1)
        object.__setattr__(self, "replies", tuple(replies))

    @property
    def steps(self) -> tuple[Reply, ...]:
        return self.replies  # type: ignore[return-value]  # by __post_init__


class Script:
    """Chooses replies and counts how often each was used."""

    def __init__(self, rules: Iterable[Rule] = (), answers: Mapping[str, str] | None = None) -> None:
        self._rules = [(re.compile(rule.match, re.S), rule.steps) for rule in rules]
        self._answers = sorted((answers or {}).items(), key=lambda item: len(item[0]), reverse=True)
        self._uses: dict[tuple[Any, ...], int] = {}

    def choose(self, request: ChatRequest, model: str) -> Reply:
        """Take the reply to this request."""
        if OPENING in request.text:
            return self._next(directives(request.text), request, (model, request.text))
        for number, (pattern, steps) in enumerate(self._rules):
            if pattern.search(request.text):
                return self._next(steps, request, (number,))
        return self._next((), request, ())

    def _next(self, steps: tuple[Reply, ...], request: ChatRequest, key: tuple[Any, ...]) -> Reply:
        """Return the first unfinished step. A tool is finished once called, other steps after their `times`."""
        calls, then = request.calls, request.result
        for index, step in enumerate(steps):
            if step.kind == "tool":
                calls -= step.times or 1
                if calls < 0:
                    return step
                then = request.result if step.then is None else step.then
            elif step.times is None or self._take((*key, index), step.times):
                return step if step.say is not None else replace(step, say=self._text(step, request, then))
        return Reply(self._text(Reply(), request, then))

    def _take(self, key: tuple[Any, ...], times: int) -> bool:
        uses = self._uses.get(key, 0)
        if uses < times:
            self._uses[key] = uses + 1
            if len(self._uses) > MOST_COUNTED:
                del self._uses[next(iter(self._uses))]
        return uses < times

    def _text(self, step: Reply, request: ChatRequest, then: str | None) -> str | None:
        """Return the text after a tool; else the answer for the longest part of the prompt."""
        if step.kind not in ("answer", "cut"):
            return None
        if then is not None:
            return then
        default = f"fake answer {zlib.crc32(request.text.encode('utf-8', 'replace')):08x}"
        return next((answer for part, answer in self._answers if part in request.text), default)


def read_script(path: Path) -> dict[str, Any]:
    """Read the settings of a provider from a JSON file. Raises BadInput."""
    try:
        script = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not valid UTF-8") from None
    except ValueError as error:
        raise BadInput(f"{path}: invalid JSON: {error}") from None
    if not isinstance(script, dict):
        raise BadInput(f'{path}: a script is an object such as {{"answers": {{"2 + 2": "4"}}}}, got {script!r:.60}')
    for key in script:
        if key not in SETTINGS:
            raise BadInput(f'{path}: unknown key "{key}"{suggestion(key, SETTINGS)}')
    answers, rules = script.get("answers", {}), script.get("rules", [])
    if not isinstance(answers, dict) or not all(isinstance(text, str) for text in answers.values()):
        raise BadInput(f"{path}: answers must map parts of prompts to texts, got {answers!r:.60}")
    if not isinstance(rules, list):
        raise BadInput(f"{path}: rules must be a list, got {rules!r:.60}")
    parsed = [_parse_rule(rule, f"{path}: rules[{index}]") for index, rule in enumerate(rules)]
    return {**script, "answers": answers, "rules": parsed}


def _parse_rule(rule: Any, where: str) -> Rule:
    if not isinstance(rule, dict) or set(rule) != {"match", "replies"} or not isinstance(rule["match"], str):
        raise BadInput(f'{where} must be such as {{"match": "flaky", "replies": ["yes"]}}, got {rule!r:.60}')
    if not isinstance(rule["replies"], list):
        raise BadInput(f'{where}: replies must be a list such as ["yes"], got {rule["replies"]!r:.60}')
    replies: list[Reply | str] = []
    for index, reply in enumerate(rule["replies"]):
        place = f"{where}.replies[{index}]"
        if not isinstance(reply, str | dict):
            raise BadInput(f'{place} must be a text or an object such as {{"status": 429}}, got {reply!r:.60}')
        replies.append(reply if isinstance(reply, str) else parse_reply(reply, place))
    try:
        return Rule(rule["match"], replies)
    except BadInput as error:
        raise BadInput(f"{where}: {error.message}") from None

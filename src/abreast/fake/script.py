"""Which reply a request gets: the prompt's own directives, else the first rule that matches, else an answer."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.fake.conversation import Conversation
from abreast.fake.reply import OPENING, Reply, directives, reply_of

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
        self._answers = dict(answers or {})
        self._longest_first = sorted(self._answers, key=len, reverse=True)
        self._used: dict[tuple[Any, ...], int] = {}

    def choose(self, asked: Conversation, model: str) -> Reply:
        """The reply to this request, which takes it."""
        if OPENING in asked.text:
            return self._next(directives(asked.text), asked, (model, asked.text))
        for number, (pattern, steps) in enumerate(self._rules):
            if pattern.search(asked.text):
                return self._next(steps, asked, (number,))
        return self._next((), asked, ())

    def _next(self, steps: tuple[Reply, ...], asked: Conversation, whose: tuple[Any, ...]) -> Reply:
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

    def _said(self, step: Reply, asked: Conversation, then: str | None) -> str | None:
        if step.kind not in ("answer", "cut"):
            return None
        return self._answer(asked.text) if then is None else then

    def _answer(self, text: str) -> str:
        """From the answers: the one for exactly this text, else the one for the longest part of it."""
        known = self._answers.get(text)
        if known is not None:
            return known
        part = next((part for part in self._longest_first if part in text), None)
        return f"fake answer {zlib.crc32(text.encode('utf-8', 'replace')):08x}" if part is None else self._answers[part]


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

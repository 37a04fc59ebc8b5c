"""What the forms of all providers share: reading a conversation, and writing an answer, its ids and its events."""

from __future__ import annotations

import itertools
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

# Agent CLIs put notes of their own among the messages of the user; nobody wrote those.
_NOTES = ("system-reminder", "environment_context", "user_instructions", "turn_aborted", "local-command-caveat")
_NOTE = re.compile(rf"<({'|'.join(_NOTES)})>.*?</\1>", re.S)
# What they say on their own after an answer that is empty, refused or cut.
_URGES = (
    "[Your previous response had no visible output",
    "Your response above was stopped by",
    "Output token limit hit. Resume directly",
    "[Request interrupted by",
)
_TEXTS = ("text", "input_text", "output_text")
CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Conversation:
    """The last text that a user wrote, the tools called since, the text of the last tool's result, and the size."""

    text: str
    calls: int = 0
    result: str | None = None
    characters: int = 0

    @property
    def tokens(self) -> int:
        return max(1, self.characters // CHARACTERS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens by class, each as its provider's own field says it."""

    input: int
    output: int
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Made:
    """An answer before it has a provider's form. `calls` is the name of a tool, `args` what it is called with."""

    text: str
    ending: str  # end, tool, cut, refusal
    usage: Usage
    calls: str = ""
    args: Any = None


def written(content: Any) -> str:
    """What a user wrote of a message's content, without the notes of agent CLIs; nothing if nobody wrote any of it.

    >>> written("<system-reminder>Be brief.</system-reminder> What is 2 + 2?")
    'What is 2 + 2?'
    """
    parts = (_without_notes(text) for text in texts(content))
    return "\n".join(part for part in parts if part)


def _without_notes(text: str) -> str:
    text = (_NOTE.sub("", text) if "</" in text else text).strip()
    return "" if text.startswith(_URGES) else text


def joined(content: Any) -> str:
    return "\n".join(texts(content))


def texts(content: Any) -> list[str]:
    """The texts of a message's content, which is text or a list of parts."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if _has_text(part)] if isinstance(content, list) else []


def _has_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _TEXTS and isinstance(part.get("text"), str)


def characters(values: Iterable[Any]) -> int:
    """The characters of all texts in there, however deep."""
    total = 0
    for value in values:
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, dict):
            total += characters(value.values())
        elif isinstance(value, list):
            total += characters(value)
    return total


REFUSAL = "I can't help with that."
PIECE = 24  # characters of a piece of streamed text
_prefix, _number = secrets.token_hex(6), itertools.count(1)


class Form(Protocol):
    """One provider's form of asking and answering. `problem` says what is wrong with a body, None if nothing is."""

    manner: str  # anthropic or openai

    def problem(self, body: Mapping[str, Any]) -> str | None: ...
    def read(self, body: Mapping[str, Any]) -> Conversation: ...
    def whole(self, body: Mapping[str, Any], made: Made) -> dict[str, Any]: ...
    def events(self, body: Mapping[str, Any], made: Made) -> Iterator[bytes]: ...


def name(prefix: str) -> str:
    """An id that no other response has.

    >>> name("msg_") != name("msg_")
    True
    """
    return f"{prefix}{_prefix}{next(_number):012x}"


dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def event(kind: str, value: Mapping[str, Any]) -> bytes:
    """One server-sent event with a name."""
    return f"event: {kind}\ndata: {dumps({'type': kind, **value})}\n\n".encode("utf-8", "replace")


def pieces(text: str) -> Iterator[str]:
    """The text in the pieces in which it is streamed."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def arguments(args: Any) -> str:
    return args if isinstance(args, str) else dumps(args)

"""What the forms of all providers share: reading a conversation, and writing an answer, its ids and its events."""

from __future__ import annotations

import itertools
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
class ChatRequest:
    """The last text that a user wrote, the tools called since, the text of the last tool's result, and the size."""

    text: str
    calls: int = 0
    result: str | None = None
    characters: int = 0

    @property
    def tokens(self) -> int:
        return max(1, self.characters // CHARACTERS_PER_TOKEN)


def read_conversation(
    items: Sequence[Any], classify: Callable[[Any], tuple[int, str | None, str]], size: int, before: ChatRequest
) -> ChatRequest:
    """The conversation since the last words of a user, or since `before` if none of the items has any.

    `classify` gives the number of tool calls in an item, the text of a tool's result, and the text of a user.
    """
    calls, result = 0, None
    for item in reversed(items):
        called, output, text = classify(item)
        calls += called
        result = output if result is None else result
        if text:
            return ChatRequest(text, calls, result if calls else None, size)
    result = before.result if result is None else result
    return ChatRequest(before.text, calls + before.calls, result, size + before.characters)


@dataclass(frozen=True, slots=True)
class FakeAnswer:
    """An answer before it has a provider's form, and its tokens. `tool` is the name of a tool to call, `args` its arguments."""

    text: str
    ending: str  # end, tool, cut, refusal
    tool: str
    args: Any
    input: int
    output: int
    cached: int
    cache_write: int
    reasoning: int


def user_text(content: Any) -> str:
    """What a user wrote of a message's content, without the notes of agent CLIs; nothing if nobody wrote any of it.

    >>> written("<system-reminder>Be brief.</system-reminder> What is 2 + 2?")
    'What is 2 + 2?'
    """
    parts = (_NOTE.sub("", text).strip() for text in texts(content))
    return "\n".join(part for part in parts if part and not part.startswith(_URGES))


def joined_text(content: Any) -> str:
    return "\n".join(texts(content))


def texts(content: Any) -> list[str]:
    """The texts of a message's content, which is text or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return [part["text"] for part in parts if part.get("type") in _TEXTS and isinstance(part.get("text"), str)]


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


class ApiFormat(Protocol):
    """One provider's form of asking and answering. `problem` says what is wrong with a body, None if nothing is."""

    provider: str  # anthropic or openai

    def problem(self, body: Mapping[str, Any]) -> str | None: ...
    def read(self, body: Mapping[str, Any]) -> ChatRequest: ...
    def response(self, body: Mapping[str, Any], made: FakeAnswer) -> dict[str, Any]: ...
    def events(self, body: Mapping[str, Any], made: FakeAnswer) -> Iterator[bytes]: ...


def new_id(prefix: str) -> str:
    """An id that no other response has.

    >>> name("msg_") != name("msg_")
    True
    """
    return f"{prefix}{_prefix}{next(_number):012x}"


dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def event(kind: str, value: Mapping[str, Any]) -> bytes:
    """One server-sent event with a name."""
    return f"event: {kind}\ndata: {dumps({'type': kind, **value})}\n\n".encode("utf-8", "replace")


def chunks(text: str) -> Iterator[str]:
    """The text in the pieces in which it is streamed."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def arguments_text(args: Any) -> str:
    return args if isinstance(args, str) else dumps(args)

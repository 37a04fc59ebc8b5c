"""Common parts of all API formats: reading conversations, and writing answers with their ids and events."""

from __future__ import annotations

import itertools
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# Agent CLIs add these notes to the messages of the user.
_NOTES = ("system-reminder", "environment_context", "user_instructions", "turn_aborted", "local-command-caveat")
_NOTE = re.compile(rf"<({'|'.join(_NOTES)})>.*?</\1>", re.S)
# Agent CLIs send these by themselves after an answer that is empty, refused or cut.
_CONTINUATIONS = (
    "[Your previous response had no visible output",
    "Your response above was stopped by",
    "Output token limit hit. Resume directly",
    "[Request interrupted by",
)
_TEXTS = ("text", "input_text", "output_text")
CHARACTERS_PER_TOKEN = 4
CHUNK = 24  # characters of a streamed piece of text
_prefix, _number = secrets.token_hex(6), itertools.count(1)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The last text of a user, the number of tool calls since, the last tool result, and the size of everything."""

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
    """Read a conversation from the last text of a user on, or from `before` if there is none among the items.

    `classify` returns the number of tool calls in an item, the text of a tool result, and the text of a user.
    """
    calls, result = 0, None
    for item in reversed(items):
        item_calls, output, text = classify(item)
        calls += item_calls
        result = output if result is None else result
        if text:
            return ChatRequest(text, calls, result if calls else None, size)
    result = before.result if result is None else result
    return ChatRequest(before.text, calls + before.calls, result, size + before.characters)


@dataclass(frozen=True, slots=True)
class FakeAnswer:
    """An answer and its tokens, before it is put into an API format. `tool` is the name of the tool to call."""

    text: str
    ending: str  # end, tool, cut, refusal
    tool: str
    args: Any
    input: int
    output: int
    cached: int
    cache_write: int
    reasoning: int


class ApiFormat(Protocol):
    """One API of a provider. `problem` returns the fault of a request body, or None."""

    provider: str  # anthropic or openai

    def problem(self, body: Mapping[str, Any]) -> str | None: ...
    def read(self, body: Mapping[str, Any]) -> ChatRequest: ...
    def response(self, body: Mapping[str, Any], answer: FakeAnswer) -> dict[str, Any]: ...
    def events(self, body: Mapping[str, Any], answer: FakeAnswer) -> Iterator[bytes]: ...


def user_text(content: Any) -> str:
    """Return the text that a user wrote, without the notes of agent CLIs.

    >>> user_text("<system-reminder>Be brief.</system-reminder> What is 2 + 2?")
    'What is 2 + 2?'
    """
    parts = (_NOTE.sub("", text).strip() for text in texts(content))
    return "\n".join(part for part in parts if part and not part.startswith(_CONTINUATIONS))


def joined_text(content: Any) -> str:
    return "\n".join(texts(content))


def texts(content: Any) -> list[str]:
    """Return the texts in the content of a message: text or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return [part["text"] for part in parts if part.get("type") in _TEXTS and isinstance(part.get("text"), str)]


def characters(values: Iterable[Any]) -> int:
    """Count the characters of all texts in nested values."""
    total = 0
    for value in values:
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, dict):
            total += characters(value.values())
        elif isinstance(value, list):
            total += characters(value)
    return total


def new_id(prefix: str) -> str:
    """Return a unique id.

    >>> new_id("msg_") != new_id("msg_")
    True
    """
    return f"{prefix}{_prefix}{next(_number):012x}"


dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def event(kind: str, value: Mapping[str, Any]) -> bytes:
    """Return a server-sent event."""
    return f"event: {kind}\ndata: {dumps({'type': kind, **value})}\n\n".encode("utf-8", "replace")


def chunks(text: str) -> Iterator[str]:
    return (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))


def arguments_text(args: Any) -> str:
    return args if isinstance(args, str) else dumps(args)

"""What the forms of the two providers have in common: a form reads requests of one path and writes its responses."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from abreast.fake.conversation import Conversation, Made

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

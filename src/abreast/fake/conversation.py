"""What a request says, whichever provider's form it has: the last words of a person, and what happened since."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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

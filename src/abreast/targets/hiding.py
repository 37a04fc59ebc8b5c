"""Keys that an agent can read do not get into the store by what it says, prints and changes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from abreast.model import Answer
from abreast.targets.mcp.references import is_secret

SHORTEST_KEY, LONG_KEY = 8, 20  # characters: what is shorter, or a mere word, is found in any text
SHORTEST_PART = 4


class Secrets:
    """Values of the environment that are keys by their names: an agent can read them, and its words are stored.

    >>> Secrets({"MY_API_KEY": "sk-12345678", "HOME": "/home/somebody"}).hidden("it is sk-12345678 in /home/somebody")
    'it is [MY_API_KEY] in /home/somebody'
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        found: dict[str, str] = {}
        for name, value in environment.items():
            if is_secret(name):
                lines = [line.strip() for line in value.splitlines()]  # of a certificate each is one
                found |= {part: name for part in (value, json.dumps(value)[1:-1], *lines) if _is_unlikely(part)}
        self._names = dict(sorted(found.items(), key=lambda pair: -len(pair[0])))  # one may begin with another

    def hidden(self, text: str) -> str:
        for value, name in self._names.items():
            if value in text:
                text = text.replace(value, f"[{name}]")
        return text

    def hidden_end(self, text: str) -> str:
        """The same of a message that was cut: it may end in the middle of one."""
        text = self.hidden(text)
        for value, name in self._names.items():
            for length in range(min(len(value), len(text)), SHORTEST_PART, -1):
                if text.endswith(value[:length]):
                    return f"{text[:-length]}[{name}]"
        return text

    def found_in(self, content: bytes) -> str | None:
        """The name of a key that is in it."""
        return next((name for value, name in self._names.items() if value.encode(errors="replace") in content), None)

    def out_of(self, answer: Answer) -> Answer:
        return replace(
            answer,
            text=self.hidden(answer.text),
            value=self._in(answer.value),
            data=self._in(dict(answer.data)),
            raw_response=None if answer.raw_response is None else self.hidden(answer.raw_response),
            artifacts={name: self.hidden(text) for name, text in answer.artifacts.items()},
        )

    def _in(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.hidden(value)
        if isinstance(value, Mapping):
            return {self._in(key): self._in(item) for key, item in value.items()}
        return [self._in(item) for item in value] if isinstance(value, list | tuple) else value


def _is_unlikely(value: str) -> bool:
    """Whether an answer does not have it by chance: `password` is a word.

    >>> _is_unlikely("sk-12345678"), _is_unlikely("password"), _is_unlikely("x1")
    (True, False, False)
    """
    mixed = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    return len(value) >= SHORTEST_KEY and (mixed or len(value) >= LONG_KEY)

"""The turns of a conversation, and their texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from abreast.targets.untrusted_json import mappings, parsed

LONGEST = 6_000  # characters of each text of a turn
IMAGE = "(an image)"


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn: `kind` is `message`, `thought`, `call` (of a tool, with its result), `note` or `error`."""

    kind: str
    role: str = "assistant"
    text: str = ""
    tool: str = ""
    result: str | None = None  # None: unknown
    is_failed: bool = False
    detail: str = ""  # such as an exit code
    id: str = ""

    @property
    def summary(self) -> str:
        """The beginning of a call's arguments, on one line."""
        value = parsed(self.text)
        if isinstance(value, Mapping):
            texts = [part for part in value.values() if isinstance(part, str) and part.strip()]
            return " ".join(next(iter(texts), "").split())[:120]
        return " ".join(self.text.split())[:120]


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text):,} characters in all)"


def readable(value: Any) -> str:
    """Convert a value to text: itself, the texts of a list of parts, or JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return cut(value)
    parts = mappings(value)
    if parts and all(isinstance(part.get("type"), str) for part in parts):
        return cut("\n".join(_part_text(part) for part in parts))
    return cut(json.dumps(value, ensure_ascii=False, indent=2))


def _part_text(part: Mapping[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return IMAGE if "image" in str(part["type"]) else json.dumps(part, ensure_ascii=False)


class TurnList:
    """Turns; adds the results of calls to the turns of the calls."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._open: dict[str, Turn] = {}

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
        if turn.kind == "call" and turn.id:
            self._open[turn.id] = turn

    def add_call(self, tool: object, arguments: Any, call_id: object, role: str = "assistant") -> None:
        self.add(Turn(kind="call", role=role, tool=str(tool), text=arguments_text(arguments), id=str(call_id or "")))

    def finish(self, call: object, result: Any, is_failed: bool = False) -> None:
        turn = self._open.pop(str(call), None)
        if turn is None:
            turn = Turn(kind="call", tool="tool")
            self.turns.append(turn)
        turn.result, turn.is_failed = readable(result), is_failed


def arguments_text(value: Any) -> str:
    """Format the arguments of a call, one per line."""
    if isinstance(value, str) and isinstance(fields := parsed(value), Mapping):
        value = fields
    return readable(value)

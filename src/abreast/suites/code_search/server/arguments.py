"""What a tool takes: its schema for the model, and what the model gave checked against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONGEST = 4_000  # characters of a text that a model gives


class Refused(Exception):
    """Why a tool does not do what it is asked, in a sentence that says what to do instead."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument: `kind` is text, flag or count. What has no default must be given."""

    name: str
    kind: str
    description: str
    default: Any = None
    required: bool = False
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": _TYPES[self.kind], "description": self.description}
        if self.default is not None:
            found["default"] = self.default
        if self.kind == "count":
            found |= {"minimum": self.least, "maximum": self.most}
        return found | ({"enum": list(self.choices)} if self.choices else {})

    def taken(self, value: Any) -> Any:
        """The value; a number or a flag may come as a text, as some models write them."""
        if value is None and not self.required:
            return self.default
        taken = _TAKEN[self.kind](value)
        if taken is None or (self.choices and taken not in self.choices):
            raise Refused(f"{self.name}: {shown(value)} is not possible. Give {self._wanted()}.")
        return min(max(taken, self.least), self.most) if self.kind == "count" else taken

    def _wanted(self) -> str:
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind == "count":
            return f"a whole number from {self.least} to {self.most}"
        return {"text": f"a text of 1 to {LONGEST:,} characters", "flag": "true or false"}[self.kind]


def schema(parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {parameter.name: parameter.schema() for parameter in parameters},
        "required": [parameter.name for parameter in parameters if parameter.required],
        "additionalProperties": False,
    }


def taken(parameters: tuple[Parameter, ...], given: Any) -> dict[str, Any]:
    """The arguments by name, all of them, or a refusal that says how they are written."""
    known = {parameter.name: parameter for parameter in parameters}
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise Refused(f"The arguments must be an object with {', '.join(known)}.")
    for name in given:
        if name not in known:
            raise Refused(f"There is no argument {shown(name)}. There are: {', '.join(known)}.")
    for parameter in parameters:
        if parameter.required and given.get(parameter.name) is None:
            raise Refused(f"The argument {parameter.name} is missing: {parameter.description}")
    return {name: parameter.taken(given.get(name)) for name, parameter in known.items()}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= LONGEST else None


def _flag(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def shown(value: Any) -> str:
    """A value as it is quoted in a sentence, so far as it can be sent."""
    text = repr(value).encode("utf-8", "replace").decode()
    return text if len(text) <= 100 else text[:100] + "…"


_TYPES = {"text": "string", "flag": "boolean", "count": "integer"}
_TAKEN: Mapping[str, Any] = {"text": _text, "flag": _flag, "count": _count}

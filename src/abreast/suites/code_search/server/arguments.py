"""MCP tools: the schema of their parameters, and the validation of arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST = 4_000  # characters of a text argument
_SURROGATE = re.compile("[\ud800-\udfff]")


class ToolError(Exception):
    """A tool call that cannot be served; the message tells the model what to do instead."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; `kind` is text, flag or count."""

    name: str
    kind: str
    description: str
    default: Any = None
    required: bool = False
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": _TYPES[self.kind], "description": self.description}
        if self.default is not None:
            schema["default"] = self.default
        if self.kind == "count":
            schema |= {"minimum": self.least, "maximum": self.most}
        return schema | ({"enum": list(self.choices)} if self.choices else {})

    def parse(self, value: Any) -> Any:
        """Validate a value; numbers and flags may be strings, as some models write them."""
        if value is None and not self.required:
            return self.default
        parsed = _PARSERS[self.kind](value)
        if parsed is None or (self.choices and parsed not in self.choices):
            raise ToolError(f"{self.name}: invalid value {quote_value(value)}. Use {self._expected()}.")
        return min(max(parsed, self.least), self.most) if self.kind == "count" else parsed

    def _expected(self) -> str:
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return {
            "count": f"an integer from {self.least} to {self.most}",
            "text": f"text of 1 to {LONGEST:,} characters, without lone surrogates",
            "flag": "true or false",
        }[self.kind]


def _parse_text(value: Any) -> str | None:
    """Accept what UTF-8 can encode: no tool has to handle the lone surrogates that JSON allows."""
    is_text = isinstance(value, str) and 0 < len(value) <= LONGEST and not _SURROGATE.search(value)
    return value if is_text else None


def _parse_flag(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _parse_count(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


_TYPES = {"text": "string", "flag": "boolean", "count": "integer"}
_PARSERS: Mapping[str, Any] = {"text": _parse_text, "flag": _parse_flag, "count": _parse_count}


def quote_value(value: Any) -> str:
    """Quote a value for a message, shortened and without lone surrogates."""
    text = repr(value).encode("utf-8", "replace").decode()
    return text if len(text) <= 100 else text[:100] + "…"


@dataclass(frozen=True, slots=True)
class ServerTool:
    name: str
    title: str
    purpose: str  # a verb phrase
    description: str
    parameters: tuple[Parameter, ...]
    function: Callable[..., str]

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": {parameter.name: parameter.schema() for parameter in self.parameters},
                "required": [parameter.name for parameter in self.parameters if parameter.required],
                "additionalProperties": False,
            },
            "annotations": {"title": self.title, "readOnlyHint": True, "openWorldHint": False},
        }

    def call(self, arguments: Any) -> str:
        """Validate the arguments and call the tool."""
        parameters = {parameter.name: parameter for parameter in self.parameters}
        values = {} if arguments is None else arguments
        if not isinstance(values, Mapping):
            raise ToolError(f"The arguments must be an object with {', '.join(parameters)}.")
        for name in values:
            if name not in parameters:
                raise ToolError(f"There is no argument {quote_value(name)}. There are: {', '.join(parameters)}.")
        for name, parameter in parameters.items():
            if parameter.required and values.get(name) is None:
                raise ToolError(f"The argument {name} is missing: {parameter.description}")
        return self.function(**{name: parameter.parse(values.get(name)) for name, parameter in parameters.items()})

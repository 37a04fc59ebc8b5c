"""Output of own commands: text, or JSON with paths such as `result.text`; and of auggie and cursor-agent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from abreast.errors import TooBig
from abreast.model import Usage
from abreast.sizes import EXCERPT, megabytes
from abreast.targets.agents.presets.agent_output import (
    EMPTY,
    LONGEST_JSON,
    AgentOutput,
    Reader,
    error_from_message,
    json_document,
    json_objects,
)
from abreast.targets.api import anthropic, openai
from abreast.targets.processes import process
from abreast.targets.untrusted_json import count, dollars, mapping

_MISSING = object()


@dataclass(frozen=True, slots=True)
class WholeText:
    """Takes the complete output as the answer."""

    most: int  # bytes

    def read(self, out: Path, err: Path) -> AgentOutput:
        size = _size(out)
        if size > self.most:
            return _too_big(out, size, self.most)
        printed = process.content(out, self.most)
        return AgentOutput(printed.strip(), raw=printed if size <= process.RAW_SIZE else None)


@dataclass(frozen=True, slots=True)
class JsonPaths:
    """Paths of the answer, the tokens and the cost in a JSON document, or in lines of JSON."""

    answer: str
    usage: str | None = None
    cost: str | None = None
    most: int = LONGEST_JSON  # bytes

    def of_document(self, out: Path, err: Path) -> AgentOutput:
        value, size = json_document(out, self.most), _size(out)
        if value is None and size > self.most:
            return _too_big(out, size, self.most)
        if value is None:
            return AgentOutput(missing_reason=f"the output is not valid JSON: {process.tail(out, 200) or 'nothing'}")
        return self._read([value], "output")

    def of_lines(self, out: Path, err: Path) -> AgentOutput:
        return self._read(json_objects(out, self.most), "lines of the output")

    def _read(self, values: Iterable[Any], where: str) -> AgentOutput:
        output = AgentOutput(missing_reason=f'no "{self.answer}" in the {where}')
        for value in values:
            self._add(output, value)
        return output

    def _add(self, output: AgentOutput, value: Any) -> None:
        answer = value_at(value, self.answer)
        if answer is not _MISSING and answer is not None:
            output.text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            output.value = None if isinstance(answer, str) else answer
            output.missing_reason = EMPTY
        if self.usage and isinstance(usage := value_at(value, self.usage), Mapping):
            output.usage = usage_of(usage)
        if self.cost and (cost := dollars(value_at(value, self.cost))) is not None:
            output.cost_usd = cost


def _size(out: Path) -> int:
    try:
        return out.lstat().st_size
    except OSError:
        return 0


def _too_big(out: Path, size: int, most: int) -> AgentOutput:
    error = TooBig.of(f"the output has {megabytes(size)}", most)
    return AgentOutput(process.content(out, min(most, EXCERPT)).strip(), error=error)


def value_at(value: Any, path: str) -> Any:
    """Return the value at a dotted path; a number is an index of a list.

    >>> value_at({"choices": [{"text": "yes"}]}, "choices.0.text"), value_at([1, 2], "-1")
    ('yes', 2)
    """
    for name in path.split("."):
        if isinstance(value, Mapping) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.removeprefix("-").isdecimal() and -len(value) <= int(name) < len(value):
            value = value[int(name)]
        else:
            return _MISSING
    return value


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Read token counts by OpenAI's names, Anthropic's, or ours.

    >>> usage_of({"input_tokens": 5, "output_tokens": 2, "cache_read_tokens": 9}).cache_read_tokens
    9
    """
    if "prompt_tokens" in usage or isinstance(usage.get("input_tokens_details"), Mapping):
        return openai.usage_of(usage)
    names = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    return replace(anthropic.usage_of(usage), **{name: count(usage[name]) for name in names if name in usage})


AUGGIE_LOGIN = "run `auggie login` once, or: export AUGMENT_SESSION_AUTH=..."
CURSOR_LOGIN = "run `cursor-agent login` once, or: export CURSOR_API_KEY=..."


def _read(login: str, out: Path, err: Path) -> AgentOutput:
    value = mapping(json_document(out))
    result = value.get("result")
    output = AgentOutput(
        text=result if isinstance(result, str) else None,
        usage=usage_of(mapping(value.get("usage"))),
        cost_usd=dollars(value.get("total_cost_usd")),
        model=value["model"] if isinstance(value.get("model"), str) else None,
        turns=count(value.get("num_turns")),
    )
    if value.get("is_error"):
        output.error = error_from_message(str(result or value.get("error") or value.get("subtype") or ""), login)
    return output


read_auggie: Reader = partial(_read, AUGGIE_LOGIN)
read_cursor: Reader = partial(_read, CURSOR_LOGIN)

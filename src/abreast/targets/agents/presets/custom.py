"""Output of one's own commands: text, or JSON with paths such as `result.text`; and of auggie and cursor-agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from abreast.errors import TooBig
from abreast.model import Usage
from abreast.sizes import EXCERPT, megabytes
from abreast.targets.agents.presets.agent_output import (
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
    """All that was printed is the answer."""

    most: int  # bytes

    def read(self, out: Path, err: Path) -> AgentOutput:
        size = _size(out)
        if size > self.most:
            return _too_big(out, size, self.most)
        output = process.content(out, self.most)
        return AgentOutput(output.strip(), raw=output if size <= process.RAW_SIZE else None)


@dataclass(frozen=True, slots=True)
class JsonPaths:
    """Where in a JSON document, or in the lines of one, the answer stands, and the tokens, and the cost."""

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
        said = AgentOutput()
        self._take(said, value)
        return self._checked(said, "output")

    def of_lines(self, out: Path, err: Path) -> AgentOutput:
        said = AgentOutput()
        for told in json_objects(out, self.most):
            self._take(said, told)
        return self._checked(said, "lines of the output")

    def _take(self, said: AgentOutput, told: Any) -> None:
        answer = at(told, self.answer)
        if answer is not _MISSING and answer is not None:
            said.text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            said.value = None if isinstance(answer, str) else answer
        if self.usage and isinstance(used := at(told, self.usage), Mapping):
            said.usage = usage_of(used)
        if self.cost and (cost := dollars(at(told, self.cost))) is not None:
            said.cost_usd = cost

    def _checked(self, said: AgentOutput, where: str) -> AgentOutput:
        if said.text is None:
            said.missing_reason = f'no "{self.answer}" in the {where}'
        return said


def _size(out: Path) -> int:
    try:
        return out.lstat().st_size
    except OSError:
        return 0


def _too_big(out: Path, size: int, most: int) -> AgentOutput:
    problem = TooBig.of(f"the output has {megabytes(size)}", most)
    return AgentOutput(process.content(out, min(most, EXCERPT)).strip(), error=problem)


def at(told: Any, path: str) -> Any:
    """What stands at a dotted path; a number is a place in a list.

    >>> at({"choices": [{"text": "yes"}]}, "choices.0.text"), at([1, 2], "-1")
    ('yes', 2)
    """
    for name in path.split("."):
        if isinstance(told, Mapping) and name in told:
            told = told[name]
        elif isinstance(told, list) and name.removeprefix("-").isdecimal() and -len(told) <= int(name) < len(told):
            told = told[int(name)]
        else:
            return _MISSING
    return told


def usage_of(told: Mapping[str, Any]) -> Usage:
    """Tokens in OpenAI's words, in Anthropic's, or in ours.

    >>> usage_of({"input_tokens": 5, "output_tokens": 2, "cache_read_tokens": 9}).cache_read_tokens
    9
    """
    if "prompt_tokens" in told or isinstance(told.get("input_tokens_details"), Mapping):
        return openai.usage_of(told)
    names = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    return replace(anthropic.usage_of(told), **{name: count(told[name]) for name in names if name in told})


AUGGIE_LOGIN = "run `auggie login` once, or: export AUGMENT_SESSION_AUTH=..."
CURSOR_LOGIN = "run `cursor-agent login` once, or: export CURSOR_API_KEY=..."


def _read(login: str, out: Path, err: Path) -> AgentOutput:
    told = mapping(json_document(out))
    result = told.get("result")
    said = AgentOutput(
        text=result if isinstance(result, str) else None,
        usage=usage_of(mapping(told.get("usage"))),
        cost_usd=dollars(told.get("total_cost_usd")),
        model=told["model"] if isinstance(told.get("model"), str) else None,
        turns=count(told.get("num_turns")),
    )
    if told.get("is_error"):
        said.error = error_from_message(str(result or told.get("error") or told.get("subtype") or ""), login)
    return said


read_auggie: Reader = partial(_read, AUGGIE_LOGIN)
read_cursor: Reader = partial(_read, CURSOR_LOGIN)

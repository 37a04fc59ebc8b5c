"""Agents by product name, preset or command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast.errors import BadInput, did_you_mean
from abreast.targets.agents.presets import PRESETS

PRODUCTS = {  # presets by the name of the product
    "Claude Code": "claude-code",
    "Codex CLI": "codex",
    "Gemini CLI": "gemini",
    "Qwen Code": "qwen",
    "OpenCode": "opencode",
    "Augment CLI": "auggie",
    "Aider": "aider",
    "Cursor CLI": "cursor-agent",
}

_ALIASES = {"claude": "claude-code", "augment": "auggie", "cursor": "cursor-agent", "openaicodex": "codex"}
_VARIABLES = {  # environment variables by placeholder of a command template
    "prompt": "ABREAST_PROMPT_FILE",
    "cwd": "ABREAST_WORKSPACE",
    "model": "ABREAST_MODEL",
    "runs_dir": "TMPDIR",
}
HOW = f'use one of {", ".join(PRODUCTS)}; or any program: `--agent NAME="COMMAND"`, or `agent_config`'


@dataclass(frozen=True, slots=True)
class AgentVariant:
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = None


def preset_of(name: str) -> str | None:
    """Return the preset of an agent's name; None if there is none.

    >>> preset_of("Claude Code"), preset_of("augment-cli"), preset_of("codex"), preset_of("Cloud Code")
    ('claude-code', 'auggie', 'codex', None)
    """
    plain = _plain(name)
    presets = {_plain(name): preset for name, preset in [*PRODUCTS.items(), *zip(PRESETS, PRESETS, strict=True)]}
    return presets.get(plain) or (presets | _ALIASES).get(plain.removesuffix("cli")) or presets.get(f"{plain}cli")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def preset_agent(where: str, name: str, **params: Any) -> AgentVariant:
    """Return an agent with a preset; parameters that are None are omitted."""
    preset = preset_of(name)
    if preset is None:
        raise BadInput(f'{where}: no agent "{name}"{did_you_mean(name, [*PRODUCTS, *PRESETS])}', HOW)
    return AgentVariant(name, {"preset": preset, **{key: value for key, value in params.items() if value is not None}})


def named_agent(text: str) -> AgentVariant:
    """Parse `claude-code`, or with a model `claude-code:opus`."""
    name, _, model = text.partition(":")
    return AgentVariant(text, preset_agent("--agents", name.strip(), model=model.strip() or None).params)


def own_agent(text: str) -> AgentVariant:
    """Parse `NAME=COMMAND`; the command is split into words as by a shell, but runs without one."""
    name, equals, command = text.partition("=")
    how = 'write NAME="PROGRAM ARGUMENTS"; {prompt_file} is replaced, else the prompt is on standard input'
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(f"--agent {text}: {str(error).lower()}", how) from None
    if not equals or not name.strip() or not words:
        raise BadInput(f"--agent {text}: must be NAME=COMMAND", how)
    return AgentVariant(name.strip(), {"command": words})


def from_template(where: str, template: str) -> dict[str, Any]:
    """Return the parameters of a shell command such as `cat "{prompt}" | claude -p`; values are passed as variables
    only."""
    text, at, inside = "", 0, [""]
    while at < len(template):
        quote = inside[-1] if inside[-1] in _SIGNS else ""
        if match := _PLACEHOLDER.match(template, at):
            part = _variable(where, match[1], quote)
        elif match := _SIGNS[quote].match(template, at):
            part = match[0]
            _enter_or_leave(inside, part)
        else:
            part = template[at]
        text += part
        at = match.end() if match else at + 1
    return {"command": text, "shell": True}


_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SIGNS = {  # signs that a shell interprets, by the enclosing quotes
    "": re.compile(r"""\\.|[()"'`]|(?<![^\s;&|()])#[^\n]*""", re.S),
    '"': re.compile(r'\\.|\$\(|["`]', re.S),
    "'": re.compile("'"),
}
_ENDS = {"(": ")", "$(": ")"}  # all others end as they begin


def _enter_or_leave(inside: list[str], sign: str) -> None:
    """Track the open quotes, brackets and command substitutions, outermost first."""
    if sign == _ENDS.get(inside[-1], inside[-1]):
        inside.pop()
    elif sign in ("(", "$(", "`", *_SIGNS):
        inside.append(sign)


def _variable(where: str, name: str, quote: str) -> str:
    """Return a reference to a variable, quoted for its context."""
    if name not in _VARIABLES:
        message = f"{where}: unknown placeholder {{{name}}}{did_you_mean(name, _VARIABLES)}"
        raise BadInput(message, "use {prompt}, {cwd} or {model}")
    variable = _VARIABLES[name]
    return {"": f'"${variable}"', '"': f"${{{variable}}}", "'": f"'\"${variable}\"'"}[quote]


def target_of(where: str, model: str) -> dict[str, Any]:
    """Return the target of a model: `claude-...` is Anthropic's, `gpt-...` OpenAI's; others need a prefix:
    `openai:qwen3`."""
    target, colon, name = model.partition(":")
    if colon and name and target in ("anthropic", "openai"):
        return {"target": target, "model": name}
    if model.startswith("claude"):
        return {"target": "anthropic", "model": model}
    if model.startswith(("gpt", "o1", "o3", "o4", "chatgpt")):
        return {"target": "openai", "model": model}
    raise BadInput(f'{where} "{model}": unknown provider', f"write anthropic:{model} or openai:{model}")

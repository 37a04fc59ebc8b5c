"""Agents by the names that people call them, and by commands of their own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast.errors import BadInput, did_you_mean, suggestion
from abreast.targets.agents.presets import PRESETS

# What each preset is called by its makers.
CALLED = {
    "Claude Code": "claude-code",
    "Codex CLI": "codex",
    "Gemini CLI": "gemini",
    "Qwen Code": "qwen",
    "OpenCode": "opencode",
    "Augment CLI": "auggie",
    "Aider": "aider",
    "Cursor CLI": "cursor-agent",
}

_PLAIN = {"claude": "claude-code", "augment": "auggie", "cursor": "cursor-agent", "openaicodex": "codex"}
_MEANT = {"prompt": "PROMPT_FILE", "cwd": "WORKSPACE", "model": "MODEL"}  # what a command template may name
HOW = f'known: {", ".join(CALLED)}; any other program by a command: --agent NAME="COMMAND", or agent_config'


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = None


def preset_of(name: str) -> str | None:
    """The preset that a name means; None if it means none.

    >>> preset_of("Claude Code"), preset_of("augment-cli"), preset_of("codex"), preset_of("Cloud Code")
    ('claude-code', 'auggie', 'codex', None)
    """
    plain = _plain(name)
    known = {_plain(called): preset for called, preset in CALLED.items()} | {
        _plain(preset): preset for preset in PRESETS
    }
    return known.get(plain) or (known | _PLAIN).get(plain.removesuffix("cli")) or known.get(f"{plain}cli")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def known_agent(where: str, name: str, **params: Any) -> Agent:
    """The agent of a known name, with parameters of its own; None among them are left out."""
    preset = preset_of(name)
    if preset is None:
        raise BadInput(f'{where}: no agent "{name}"{did_you_mean(name, [*CALLED, *PRESETS])}', HOW)
    return Agent(name, {"preset": preset, **{key: value for key, value in params.items() if value is not None}})


def named_agent(text: str) -> Agent:
    """`claude-code`, or with a model `claude-code:opus`."""
    name, _, model = text.partition(":")
    return Agent(text, known_agent("--agents", name.strip(), model=model.strip() or None).params)


def own_agent(text: str) -> Agent:
    """`NAME=COMMAND`, whose words are split as a shell would, and run without one."""
    name, equals, command = text.partition("=")
    how = 'write NAME="PROGRAM ARGUMENTS", with {prompt_file} where the prompt goes; else it is on standard input'
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(f"--agent {text}: {str(error).lower()}", how) from None
    if not equals or not name.strip() or not words:
        raise BadInput(f"--agent {text}: must be NAME=COMMAND", how)
    return Agent(name.strip(), {"command": words})


def from_template(where: str, template: str) -> dict[str, Any]:
    """The parameters of a command for the shell: `cat "{prompt}" | claude -p`; values reach it as variables only."""
    text, at, inside = "", 0, [""]
    while at < len(template):
        quote = inside[-1] if inside[-1] in _SIGNS else ""
        if found := _PLACEHOLDER.match(template, at):
            part = _variable(where, found[1], quote)
        elif found := _SIGNS[quote].match(template, at):
            part = found[0]
            _enter_or_leave(inside, part)
        else:
            part = template[at]
        text += part
        at = found.end() if found else at + 1
    return {"command": text, "shell": True}


_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SIGNS = {  # by the quotes one is in: what changes how a shell reads on
    "": re.compile(r"""\\.|[()"'`]|(?<![^\s;&|()])#[^\n]*""", re.S),
    '"': re.compile(r'\\.|\$\(|["`]', re.S),
    "'": re.compile("'"),
}
_ENDS = {"(": ")", "$(": ")"}  # all others end as they begin


def _enter_or_leave(inside: list[str], sign: str) -> None:
    """Keep what a shell is inside of, outermost first: quotes, brackets, and commands whose output is put there."""
    if sign == _ENDS.get(inside[-1], inside[-1]):
        inside.pop()
    elif sign in ("(", "$(", "`", *_SIGNS):
        inside.append(sign)


def _variable(where: str, name: str, quote: str) -> str:
    """A variable, in quotes wherever it stands."""
    if name == "runs_dir":
        meant = "TMPDIR"
    elif name in _MEANT:
        meant = f"ABREAST_{_MEANT[name]}"
    else:
        near = suggestion(name, [*_MEANT, "runs_dir"])
        raise BadInput(f"{where}: nothing is known to put for {{{name}}}{near}", "write {prompt}, {cwd} or {model}")
    return {"": f'"${meant}"', '"': f"${{{meant}}}", "'": f"'\"${meant}\"'"}[quote]


def target_of(where: str, model: str) -> dict[str, Any]:
    """`claude-...` is asked at Anthropic's API, `gpt-...` at OpenAI's; others say whose they are: `openai:qwen3`."""
    target, colon, name = model.partition(":")
    if colon and name and target in ("anthropic", "openai"):
        return {"target": target, "model": name}
    if model.startswith("claude"):
        return {"target": "anthropic", "model": model}
    if model.startswith(("gpt", "o1", "o3", "o4", "chatgpt")):
        return {"target": "openai", "model": model}
    raise BadInput(f'{where} "{model}": whose model is it?', f"write anthropic:{model} or openai:{model}")

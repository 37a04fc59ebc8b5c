"""Command lines from a list of words, a preset or the text of a shell, with placeholders such as {prompt}."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.targets.agents.presets import PRESETS, Preset
from abreast.text import dump_json

PLACEHOLDERS = ("prompt", "prompt_file", "workspace", "model", "folder")
_BRACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELL_KEYWORDS = ("if", "then", "else", "elif", "while", "until", "do", "!", "{")
_BUILT_IN = (
    *("fi", "done", "esac", "case", "for", "cd", "exit", "export", "set", "unset", "test", "true", "false", "echo"),
    *("printf", "read", "return", "shift", "trap", "ulimit", "umask", "wait", "exec", "eval", "command", "local"),
)


def words_of_list(where: str, command: Any) -> list[str]:
    if command is None:
        fix = f"set command: to a list of words, or preset: {' | '.join(PRESETS)}"
        raise BadInput(f"{where}: no command", fix)
    if isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        fix = f"write command: {dump_json(words)}, or add shell: true"
        raise BadInput(f"{where}: command must be a list of words, got {command!r}", fix)
    return list(command)


def words_of_preset(where: str, command: Any, preset: Preset, has_model: bool, further: list[str]) -> list[str]:
    if command is not None and not isinstance(command, str):
        message = f"{where}: with preset:, command must be the name or path of the program, got {command!r}"
        raise BadInput(message, "write the other words as args:")
    program = _literal(command) if command else preset.program
    return [program, *preset.words, *(preset.model if has_model else ()), *further, *preset.last]


def words_of_shell(where: str, command: Any, preset: Preset | None) -> list[str]:
    """The words that run a text in a shell. Values are passed by variables, and further words as arguments."""
    if preset is not None or not isinstance(command, str):
        fix = 'write command: "my-agent < $ABREAST_PROMPT_FILE | tail -1", or remove shell:'
        raise BadInput(f"{where}: shell: true requires a command that is one text", fix)
    for name in PLACEHOLDERS:
        if f"{{{name}}}" in command:
            instead = variable_name("prompt_file" if name == "prompt" else name)
            message = f"{where}: command: {{{name}}} is not available in the text of a shell"
            raise BadInput(message, f"write ${instead}")
    return ["/bin/sh", "-c", _literal(command), "sh"]


def placeholders(where: str, word: str) -> set[str]:
    """The placeholders in a word; doubled braces are literal ones."""
    names = set()
    for brace in _BRACE.finditer(word):
        if brace[0] in ("{{", "}}"):
            continue
        if brace[1] not in PLACEHOLDERS:
            hint = suggestion(brace[1], PLACEHOLDERS) if brace[1] else ""
            available = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise BadInput(
                f"{where}: command: unknown placeholder {brace[0]}{hint if 'mean' in hint else ''} in {word!r:.80}",
                f"use {available}; write literal braces as {{{{ and }}}}",
            )
        names.add(brace[1])
    return names


def fill(word: str, values: Mapping[str, str]) -> str:
    return _BRACE.sub(lambda brace: values.get(brace[1], "") if brace[1] is not None else brace[0][0], word)


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def variable_name(name: str) -> str:
    return f"ABREAST_{name.upper()}"


def is_plain_name(word: str) -> bool:
    return not word.startswith(("-", "{", os.sep)) and "\0" not in word and len(word) < 200 and "{" not in word


def programs_of(text: str) -> list[str]:
    """The programs in a shell text that can be recognized without running it.

    >>> programs_of('cat "$X" | LANG=C claude -p && if true; then exit 1; fi; ./own "$Y"')
    ['cat', 'claude']
    """
    try:
        words = list(shlex.shlex(text, posix=True, punctuation_chars=True))
    except ValueError:
        return []
    programs: dict[str, None] = {}
    begins = True
    for word in words:
        if set(word) <= set("|&;()"):
            begins = True
        elif begins and not _ASSIGNMENT.match(word):
            begins = word in _SHELL_KEYWORDS
            if re.fullmatch(r"[A-Za-z][\w.+-]*", word) and word not in (*_SHELL_KEYWORDS, *_BUILT_IN):
                programs[word] = None
    return list(programs)

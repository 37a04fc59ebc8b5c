"""`abreast completion`: shell completion, generated from the parsers themselves."""

from __future__ import annotations

import argparse
import re

from abreast import suites
from abreast.cli import COMMANDS, parser_of
from abreast.output import echo

EPILOG = """bash:  source <(abreast completion bash)
zsh:   source <(abreast completion zsh)
fish:  abreast completion fish | source"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def main(args: argparse.Namespace) -> int:
    flags = {name: _flags(name) for name in COMMANDS}
    plain = [name for name in suites.names() if re.fullmatch(r"\w[\w.-]*", name, re.ASCII)]
    echo({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](flags, plain))
    return 0


def _flags(name: str) -> list[str]:
    actions = parser_of(name)._actions
    return sorted(flag for action in actions for flag in action.option_strings if flag.startswith("--"))


def _bash(flags: dict[str, list[str]], suite_names: list[str]) -> str:
    """A script that only compares words. `compgen -W` would expand `$(...)` in the names of files.

    Where no word matches, `-o default` leaves file names to readline, which quotes them.
    """
    cases = "\n".join(f'    {name}) _abreast_offer "$word" {" ".join(options)} ;;' for name, options in flags.items())
    return f"""_abreast_offer() {{
  local word="$1" candidate
  shift
  for candidate in "$@"; do
    if [[ "$candidate" == "$word"* ]]; then COMPREPLY+=("$candidate"); fi
  done
}}
_abreast() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" file
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    _abreast_offer "$word" {" ".join(flags)}
  elif [[ "$word" == -* ]]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  else
    case "${{COMP_WORDS[1]}}" in
    run|check|aa) _abreast_offer "$word" {" ".join(suite_names)} ;;
    esac
    if [ "${{#COMPREPLY[@]}}" -gt 0 ] && type compopt >/dev/null 2>&1; then
      compopt -o filenames 2>/dev/null  # readline quotes them
      for file in "$word"*; do
        if [ -e "$file" ]; then COMPREPLY+=("$file"); fi
      done
    fi
  fi
}}
complete -o default -F _abreast abreast"""


def _zsh(flags: dict[str, list[str]], suite_names: list[str]) -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(flags, suite_names)}"


def _fish(flags: dict[str, list[str]], suite_names: list[str]) -> str:
    lines = [
        f"complete -c abreast -n __fish_use_subcommand -f -a {name} -d '{COMMANDS[name].replace(chr(39), '')}'"
        for name in flags
    ]
    lines += [
        f"complete -c abreast -n '__fish_seen_subcommand_from {name}' -l {option[2:]}"
        for name, options in flags.items()
        for option in options
    ]
    lines += [
        f"complete -c abreast -n '__fish_seen_subcommand_from run check aa' -a {name} -d suite" for name in suite_names
    ]
    return "\n".join(lines)

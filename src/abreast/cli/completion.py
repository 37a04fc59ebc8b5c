"""`abreast completion`: shell completion, generated from the parsers themselves."""

from __future__ import annotations

import argparse

from abreast import suites
from abreast.cli import COMMANDS, parser_of

EPILOG = """bash:  source <(abreast completion bash)
zsh:   source <(abreast completion zsh)
fish:  abreast completion fish | source"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def main(args: argparse.Namespace) -> int:
    flags = {name: _flags(name) for name in COMMANDS}
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](flags))
    return 0


def _flags(name: str) -> list[str]:
    actions = parser_of(name)._actions
    return sorted(flag for action in actions for flag in action.option_strings if flag.startswith("--"))


def _bash(flags: dict[str, list[str]]) -> str:
    cases = "\n".join(f'    {name}) words="{" ".join(options)}" ;;' for name, options in flags.items())
    return f"""_abreast() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{" ".join(flags)}"
  elif [[ "$word" == -* ]]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  else
    case "${{COMP_WORDS[1]}}" in
    run|check|aa) words="{" ".join(suites.names())} $(compgen -f -- "$word")"; compopt -o filenames 2>/dev/null ;;
    esac
  fi
  COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _abreast abreast"""


def _zsh(flags: dict[str, list[str]]) -> str:
    return f"autoload -U +X bashcompinit && bashcompinit\n{_bash(flags)}"


def _fish(flags: dict[str, list[str]]) -> str:
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
        f"complete -c abreast -n '__fish_seen_subcommand_from run check aa' -a {name} -d suite"
        for name in suites.names()
    ]
    return "\n".join(lines)

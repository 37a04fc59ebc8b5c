"""`abreast init`, `suites`, `spec-schema` and `completion`: getting started."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from pathlib import Path

from abreast.cli import COMMANDS, parser_of
from abreast.cli.command import argument, command
from abreast.output import echo, listings, say_problem
from abreast.store.runs.controls import ACTIONS
from abreast.suites.starters import KINDS, next_step, write_starter


@command(
    "init",
    argument("kind", choices=KINDS, nargs="?", default="function", help="what to compare (default: function)"),
    argument("--folder", metavar="DIR", default=".", help="where to write it (default: this folder)"),
)
def init(args: argparse.Namespace) -> None:
    echo(f"wrote {', '.join(write_starter(args.kind, Path(args.folder)))}")
    echo(f"next: {next_step(args.kind, Path(args.folder))}")


@command(
    "suites",
    "--json",
    epilog="""`abreast run NAME` runs a suite; `abreast run NAME --help` lists its flags.
Packages provide suites as entry points of the group abreast.suites.""",
)
def list_suites(args: argparse.Namespace) -> None:
    from abreast import suites

    installed = suites.summaries()
    if args.json:
        listings.show_json([asdict(suite) for suite in installed])
        return
    rows = [{"name": suite.name, "summary": suite.summary, "package": suite.package} for suite in installed]
    listings.show(rows, False, "no suites are installed")
    for suite in installed:
        if suite.problem:
            say_problem("warning", suite.problem)


@command("spec-schema", epilog="in YAML editors: # yaml-language-server: $schema=abreast.schema.json")
def print_schema(_args: argparse.Namespace) -> None:
    from abreast.spec.schema import json_schema

    echo(json.dumps(json_schema(), indent=2))


@command(
    "completion",
    argument("shell", choices=("bash", "zsh", "fish")),
    epilog="""bash:  source <(abreast completion bash)
zsh:   source <(abreast completion zsh)
fish:  abreast completion fish | source""",
)
def print_completion(args: argparse.Namespace) -> None:
    from abreast import suites

    flags = {name: _flags(name) for name in COMMANDS}
    suite_names = [name for name in suites.names() if re.fullmatch(r"\w[\w.-]*", name, re.ASCII)]
    echo({"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](flags, suite_names))


def _flags(name: str) -> list[str]:
    actions = parser_of(name)._actions
    return sorted(flag for action in actions for flag in action.option_strings if flag.startswith("--"))


def _bash(flags: dict[str, list[str]], suite_names: list[str]) -> str:
    """A script that only compares words: `compgen -W` would expand `$(...)` in file names.

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
    ctl) _abreast_offer "$word" {" ".join(ACTIONS)} ;;
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
    lines += [f"complete -c abreast -n '__fish_seen_subcommand_from ctl' -f -a {action}" for action in ACTIONS]
    return "\n".join(lines)

"""The front door. It holds no logic; a command is loaded only when it is called."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from abreast import __version__
from abreast.errors import AbreastError, BadInput, suggestion
from abreast.output import echo, protect, say, write_error
from abreast.signals import interrupting

if TYPE_CHECKING:
    from abreast.cli.command import Command
    from abreast.suites import Suite

_WITH_SPEC = ("run", "check", "aa")
_EXECUTING = ("run", "resume", "aa", "demo")  # they turn the garbage collector on when trials start
_WITH_OUTCOME = ("run", "resume", "aa", "compare")  # their exit code is a verdict, also if its text cannot be written
COMMANDS = {
    "run": "preflight, execute, verdict",
    "check": "preflight only: nothing is executed",
    "resume": "go on where a run stopped",
    "report": "the report of a run",
    "compare": "runs against each other, paired by case",
    "label": "label a blind sample of judged answers by hand, to correct the verdict",
    "rescore": "new or changed scorers on stored answers; nothing is run again",
    "validate": "look for what makes a result untrustworthy",
    "aa": "self-test: the baseline against itself must find nothing",
    "runs": "the runs in a store",
    "tag": "give a run a label, such as a version",
    "history": "an experiment over its labelled runs, with a verdict from each to the next",
    "show": "one run, or one case of it with all answers",
    "logs": "prompts, answers, errors and attempts of single trials",
    "ls": "the tables of a store, or the values of a column",
    "head": "the first rows of a table",
    "tail": "the last rows of a table",
    "columns": "the columns of a table, with their types",
    "stats": "the columns of a table in figures; its best and its worst rows",
    "plot": "columns of a table as a picture in the terminal",
    "sql": "ask the store in its own SQL",
    "export": "rows as CSV, parquet or JSON lines",
    "copy": "a store, or tables of it, into another store",
    "merge": "several stores into one; nothing is lost, nothing doubled",
    "delete": "remove runs, or what a tracker wrote, with everything that is theirs",
    "rename": "another name for a parameter or returned field of stored rows",
    "set": "write a value into a column of tracked rows",
    "assets": "objects that trackers keep beside a store: list, export or delete them",
    "cache": "what can be reused; clear it",
    "clean": "remove processes and folders that killed runs left behind",
    "suites": "experiments that packages bring along, run by their name",
    "cases": "the cases of an experiment: list them; new ones for code-search and coding-agents",
    "init": "write a small experiment to start from",
    "demo": "a simulated experiment, from cases to verdict",
    "spec-schema": "the JSON Schema of spec files",
    "completion": "shell completion for bash, zsh or fish",
}

_MODULES = {  # of `abreast.cli.commands`, with the commands that each declares
    "run": ("run", "check", "resume", "aa", "demo"),
    "rescore": ("rescore",),
    "label": ("label",),
    "cases": ("cases",),
    "start": ("init", "suites", "spec-schema", "completion"),
    "report": ("report", "compare", "validate"),
    "runs": ("runs", "tag", "history"),
    "trials": ("show", "logs"),
    "tables": ("ls", "head", "tail", "columns", "stats", "plot"),
    "rows": ("sql", "export", "set", "rename"),
    "stores": ("copy", "merge", "delete"),
    "caches": ("cache", "assets", "clean"),
}

EXIT_CODES = """exit codes: 0 done · 1 a requirement is not met · 2 bad input or spec · 3 incomplete, can be resumed ·
            4 preflight refused · 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None:
        _pause_collector()
    protect()
    words = list(sys.argv[1:] if arguments is None else arguments)
    code = _run(words)
    problem = write_error()
    if not problem:
        return code
    keeps_code = words[0] in _WITH_OUTCOME if words else False
    say(f"{'warning' if keeps_code else 'error'}: cannot write to standard output: {problem}")
    return code if keeps_code else code or BadInput.exit_code


_is_collector_paused = False


def _pause_collector() -> None:
    """Turn the garbage collector off until trials start: it would search the modules being loaded again and again. Only
    for a process that is nothing but this command."""
    global _is_collector_paused
    atexit.register(gc.freeze)  # else Python searches all objects for cycles before it frees them
    _is_collector_paused = gc.isenabled()
    gc.disable()


def resume_collector() -> None:
    """Turn the garbage collector on again; what was loaded meanwhile stays, and is never searched."""
    global _is_collector_paused
    if _is_collector_paused:
        _is_collector_paused = False
        gc.freeze()
        gc.enable()


def _run(words: list[str]) -> int:
    """The exit code of a command, after a message if it failed."""
    traceback = "--debug-traceback" in words
    words = [word for word in words if word != "--debug-traceback"]
    try:
        with interrupting():
            return _dispatch(words)
    except AbreastError as error:
        if traceback:
            raise
        _say_redacted(f"error: {error.message}")
        if error.fix:
            _say_redacted(f"       {error.fix}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except SystemExit as end:  # --help
        return end.code if isinstance(end.code, int) else 0
    except Exception as error:
        if traceback:
            raise
        _report_unexpected(error)
        return 2


def _say_redacted(text: str, longest: int | None = None) -> None:
    """Print a message about an error, which may quote what the user wrote or a file contains."""
    from abreast.output.listings import cut
    from abreast.redaction import redact_log

    text = redact_log(text)
    say(text if longest is None else cut(text, longest))


def _check_encoding(words: list[str]) -> None:
    """Refuse what no shell can pass, but a program that calls `main` can."""
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError:
            raise BadInput(f"argument {word[:60]!r}: not valid Unicode") from None


def _report_unexpected(error: Exception) -> None:
    if isinstance(error, OSError):  # such as a name that is too long for a file
        file = "" if error.filename is None else f": {error.filename}"
        _say_redacted(f"error: {error.strerror or error}{file}", 300)
        return
    _say_redacted(f"error: unexpected {type(error).__name__}: {error}")
    say("       the store is damaged, or this is a bug; --debug-traceback shows where")


def _dispatch(words: list[str]) -> int:
    _check_encoding(words)
    if not words or words[0] in ("-h", "--help", "help"):
        echo(overview())
        return 0
    if words[0] in ("-V", "--version"):
        echo(f"abreast {__version__}")
        return 0
    name = words[0]
    if name not in COMMANDS:
        _say_redacted(f'error: no command "{name}"{suggestion(name, COMMANDS)}')
        return 2
    words = _with_optional_values(name, words[1:])
    suite = _suite_in(name, words)
    parser = parser_of(name, suite)
    try:  # intermixed parsing forgets a `--` before a name such as -rf
        parsed = parser.parse_args(words) if "--" in words else parser.parse_intermixed_args(words)
    except BadInput as error:
        if suite is not None or name not in _WITH_SPEC:
            raise
        from abreast.cli.spec_argument import misspelt

        raise misspelt(words) or error from None
    parsed.suite = suite
    if name not in _EXECUTING:
        resume_collector()
    return _declared(name).main(parsed) or 0


def _suite_in(name: str, words: list[str]) -> Suite | None:
    """The suite that SPEC names, if this command has a SPEC."""
    if name not in _WITH_SPEC:
        return None
    from abreast.cli.spec_argument import suite_in, suite_of_file

    def parser(suite: Suite | None) -> argparse.ArgumentParser:
        return parser_of(name, suite)

    return suite_in(words, parser) or suite_of_file(words, parser)


def overview() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {what}" for name, what in COMMANDS.items())
    return f"""abreast: run LLM and agent benchmarks side by side, and know which one is better

usage: abreast COMMAND ...

{commands}

abreast COMMAND --help tells more; abreast demo shows it.
{EXIT_CODES}"""


class Parser(argparse.ArgumentParser):
    """One line about what is wrong, not a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{self.prog}: {message}", f"{self.prog} --help")

    def _print_message(self, message: str, file: object = None) -> None:
        echo(message.removesuffix("\n"))  # --help


def _declared(name: str) -> Command:
    from abreast.cli.command import DECLARED

    import_module(f"abreast.cli.commands.{next(module for module, names in _MODULES.items() if name in names)}")
    return DECLARED[name]


def parser_of(name: str, suite: Suite | None = None) -> argparse.ArgumentParser:
    """The parser of one command; with a suite, the one of that command for this suite."""
    command = _declared(name)
    parser = Parser(
        prog=f"abreast {name}",
        description=COMMANDS[name][0].upper() + COMMANDS[name][1:] + ".",
        epilog=command.epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    if suite is not None:
        _turn_to(parser, suite)
    return parser


def _turn_to(parser: argparse.ArgumentParser, suite: Suite) -> None:
    """What `abreast run NAME` takes: all that `abreast run` does, and what the suite adds."""
    from abreast import suites

    parser.prog += f" {suite.name}"
    parser.description = suite.summary
    parser.epilog = "\n\n".join(filter(None, [parser.epilog, suites.epilog(suite)])) or None
    for action in parser._actions:
        if action.dest == "spec":
            action.help = argparse.SUPPRESS  # stands before the flags already
    suites.add_arguments(suite, parser)


# Flags that may stand alone, with the value they have then; a following word is a value only if it matches.
_OPTIONAL = {
    "--parallel": ("variants", r"auto|-?\d+"),
    "-j": ("variants", r"auto|-?\d+"),
    "--debug": ("10", r"-?\d+"),
    "--lock": ("", r".+\.lock\.json"),
}


def _with_optional_values(name: str, words: list[str]) -> list[str]:
    """`--parallel spec.yaml` becomes `--parallel=variants spec.yaml`; `--parallel 4` becomes `--parallel=4`."""
    if name not in ("run", "check", "resume", "aa", "demo"):
        return words
    joined: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            return joined + words[index:]
        if word in _OPTIONAL:
            default, values = _OPTIONAL[word]
            following = words[index + 1] if index + 1 < len(words) else ""
            takes = re.fullmatch(values, following) is not None
            joined.append(f"{word}={following if takes else default}")
            index += 2 if takes else 1
        else:
            joined.append(word)
            index += 1
    return joined

"""The command line. It contains no logic; a command is loaded only when it is called."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from abreast import __version__
from abreast.errors import AbreastError, BadInput, did_you_mean, suggestion
from abreast.output import echo, protect, say, say_problem, write_error
from abreast.signals import interrupting

if TYPE_CHECKING:
    from abreast.cli.command import CommandDefinition
    from abreast.suites import Suite

_WITH_SPEC = ("run", "check", "aa")
_EXECUTING = ("run", "resume", "aa", "demo")  # these turn the garbage collector on when trials start
_WITH_OUTCOME = ("run", "resume", "aa", "compare")  # these keep their exit code even if the text cannot be written
GROUPS = {  # module of `abreast.cli.commands` and summary of each command
    "Run experiments": {
        "run": ("run", "run the checks, execute the trials and print the verdict"),
        "check": ("run", "run the checks only; nothing is executed"),
        "resume": ("run", "continue a run that stopped"),
        "ctl": ("control", "pause, resume or stop a run that is being executed, or change its limits"),
        "init": ("start", "write a small experiment to start from"),
        "demo": ("run", "run a simulated experiment, from cases to verdict"),
        "suites": ("start", "list the experiments that packages provide, run by name"),
        "cases": ("cases", "list the cases of an experiment, or make new ones for code-search and coding-agents"),
    },
    "Read results": {
        "report": ("report", "print or write the report of a run"),
        "view": ("view", "open a live page of runs, results and answers in the browser"),
        "compare": ("report", "compare runs with each other, paired by case"),
        "show": ("trials", "show one run, or one of its cases with all answers"),
        "logs": ("trials", "show prompts, answers, errors and attempts of single trials"),
        "runs": ("runs", "list the runs of a store"),
        "history": ("runs", "show an experiment over its labelled runs, with a verdict from each to the next"),
        "tag": ("runs", "give a run a label, such as a version"),
    },
    "Check results and correct scores": {
        "validate": ("report", "look for what makes a result untrustworthy"),
        "aa": ("run", "self-test: compare the baseline with itself, which must show no difference"),
        "rescore": ("rescore", "apply new or changed scorers to stored answers; nothing is run again"),
        "label": ("label", "label a blind sample of judged answers by hand, to correct the verdict"),
    },
    "Exchange results with other tools": {
        "import": ("imports", "keep the logs of other tools as runs: Inspect, JUnit, CSV and others"),
    },
    "Query tables": {
        "sql": ("rows", "query the store in its own SQL"),
        "export": ("rows", "export rows as CSV, parquet or JSON lines"),
        "head": ("tables", "print the first rows of a table"),
        "tail": ("tables", "print the last rows of a table"),
        "ls": ("tables", "list the tables of a store, or the values of a column"),
        "columns": ("tables", "list the columns of a table, with their types"),
        "stats": ("tables", "print summary statistics per column, or the rows with the highest or lowest values"),
        "plot": ("tables", "plot columns of a table in the terminal"),
    },
    "Manage stores": {
        "copy": ("stores", "copy a store, or tables of it, into another store"),
        "merge": ("stores", "merge stores without losing or duplicating rows"),
        "delete": ("stores", "delete runs, or the rows of a tracker"),
        "rename": ("rows", "rename a parameter or returned field of stored rows"),
        "set": ("rows", "set the value of a column in tracked rows"),
        "cache": ("caches", "show or clear what can be reused"),
        "assets": ("caches", "list, export or delete objects that trackers store next to the rows"),
        "clean": ("caches", "remove processes and folders that killed runs left behind"),
    },
    "Use several machines": {
        "cluster": ("cluster", "start, show or end Ray nodes on this machine, for trying out a cluster"),
    },
    "Set up editors and shells": {
        "spec-schema": ("start", "print the JSON Schema of spec files"),
        "completion": ("start", "print shell completion for bash, zsh or fish"),
    },
}
_MODULES = {name: module for commands in GROUPS.values() for name, (module, _) in commands.items()}
COMMANDS = {name: summary for commands in GROUPS.values() for name, (_, summary) in commands.items()}

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
    say_problem("warning" if keeps_code else "error", f"cannot write to standard output: {problem}")
    return code if keeps_code else code or BadInput.exit_code


_is_collector_paused = False


def _pause_collector() -> None:
    """Turn the garbage collector off until trials start: it would scan the modules being loaded over and over.

    Only in a process that runs nothing but this command.
    """
    global _is_collector_paused
    atexit.register(_skip_last_collection)
    _is_collector_paused = gc.isenabled()
    gc.disable()


def _skip_last_collection() -> None:
    """Skip the search for cycles at exit, except with DuckDB, which would print the objects that were not freed."""
    (gc.unfreeze if "duckdb" in sys.modules else gc.freeze)()


def resume_collector() -> None:
    """Turn the garbage collector on again, without scanning what was loaded meanwhile."""
    global _is_collector_paused
    if _is_collector_paused:
        _is_collector_paused = False
        gc.freeze()
        gc.enable()


def _run(words: list[str]) -> int:
    """Run a command, print a message if it fails, and return the exit code."""
    traceback = "--debug-traceback" in words
    words = [word for word in words if word != "--debug-traceback"]
    try:
        with interrupting():
            return _dispatch(words)
    except AbreastError as error:
        if traceback:
            raise
        _say_error(error.message, error.fix)
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


def _say_error(message: str, fix: str = "", longest: int | None = None) -> None:
    """Print an error, with secrets redacted: it may quote an argument or the content of a file."""
    from abreast.output.listings import cut
    from abreast.redaction import redact_log
    from abreast.store.address import without_password

    message, fix = (
        redact_log(re.sub(r"[^\s\"'`]+://[^\s\"'`]+", lambda url: without_password(url[0]), text))
        for text in (message, fix)
    )
    say_problem("error", message if longest is None else cut(message, longest), fix)


def _check_encoding(words: list[str]) -> None:
    """Refuse arguments that no shell can pass, but a program that calls `main` can."""
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError:
            raise BadInput(f"argument {word[:60]!r}: not valid Unicode") from None


def _report_unexpected(error: Exception) -> None:
    if isinstance(error, OSError):  # such as a file name that is too long
        file = "" if error.filename is None else f": {error.filename}"
        _say_error(f"{error.strerror or error}{file}", longest=300)
    else:
        fix = "the store is damaged, or this is a bug; add --debug-traceback to see where"
        _say_error(f"unexpected {type(error).__name__}: {error}", fix)


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
        _say_error(f'no command "{name}"{suggestion(name, COMMANDS)}', "run `abreast --help` to list the commands")
        return 2
    words = _with_optional_values(name, words[1:])
    suite = _suite_in(name, words)
    parser = parser_of(name, suite)
    try:  # intermixed parsing drops a `--` before a name such as -rf
        parsed = parser.parse_args(words) if "--" in words else parser.parse_intermixed_args(words)
    except BadInput as error:
        if suite is not None or name not in _WITH_SPEC:
            raise
        from abreast.cli.spec_argument import misspelt_suite

        raise misspelt_suite(words) or error from None
    parsed.suite = suite
    if name not in _EXECUTING:
        resume_collector()
    return _declared(name).main(parsed) or 0


def _suite_in(name: str, words: list[str]) -> Suite | None:
    """The suite that the SPEC argument names, if the command has one."""
    if name not in _WITH_SPEC:
        return None
    from abreast.cli.spec_argument import suite_by_name, suite_of_file

    parser_with = partial(parser_of, name)
    return suite_by_name(words, parser_with) or suite_of_file(words, parser_with)


def overview() -> str:
    width = max(map(len, COMMANDS))
    groups = (
        "\n".join([f"{title}:", *(f"  {name:<{width}}  {summary}" for name, (_, summary) in commands.items())])
        for title, commands in GROUPS.items()
    )
    return "\n\n".join(
        [
            "abreast: run LLM and agent benchmarks side by side, and know which one is better",
            "usage: abreast COMMAND ...",
            *groups,
            f"Run `abreast COMMAND --help` for the flags of a command; `abreast demo` shows an example.\n{EXIT_CODES}",
        ]
    )


_UNRECOGNIZED = "unrecognized arguments: "  # the prefix in argparse's message


class Parser(argparse.ArgumentParser):
    """Reports a wrong argument in one line, not with a page of usage."""

    def error(self, message: str) -> NoReturn:
        words = message.removeprefix(_UNRECOGNIZED).split() if message.startswith(_UNRECOGNIZED) else []
        flag = next((word.partition("=")[0] for word in words if word.startswith("--")), "")
        near = did_you_mean(flag, self._option_string_actions)
        raise BadInput(f"{self.prog}: {message}{near}", f"run `{self.prog} --help` to see its arguments")

    def _print_message(self, message: str, file: object = None) -> None:
        echo(message.removesuffix("\n"))  # --help


def _declared(name: str) -> CommandDefinition:
    from abreast.cli.command import DECLARED

    import_module(f"abreast.cli.commands.{_MODULES[name]}")
    return DECLARED[name]


def parser_of(name: str, suite: Suite | None = None) -> argparse.ArgumentParser:
    """The parser of a command; with a suite, including the flags of that suite."""
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
        _add_suite(parser, suite)
    return parser


def _add_suite(parser: argparse.ArgumentParser, suite: Suite) -> None:
    """Make this the parser of `abreast run SUITE`: the same flags plus those of the suite."""
    from abreast import suites

    parser.prog += f" {suite.name}"
    parser.description = suite.summary
    parser.epilog = "\n\n".join(filter(None, [parser.epilog, suites.epilog(suite)])) or None
    for action in parser._actions:
        if action.dest == "spec":
            action.help = argparse.SUPPRESS  # it is part of `prog`
    suites.add_arguments(suite, parser)


# Flags with an optional value: the default, and the pattern that the next word must match to be taken as the value.
_OPTIONAL = {
    "--parallel": ("variants", r"auto|-?\d+"),
    "-j": ("variants", r"auto|-?\d+"),
    "--debug": ("10", r"-?\d+"),
    "--lock": ("", r".+\.lock\.json"),
}


def _with_optional_values(name: str, words: list[str]) -> list[str]:
    """`--parallel spec.yaml` becomes `--parallel=variants spec.yaml`; `--parallel 4` becomes `--parallel=4`."""
    if name not in (*_EXECUTING, "check"):
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

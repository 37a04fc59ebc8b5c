"""The SPEC argument: a spec file, or the name of a suite."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abreast import suites
from abreast.errors import BadInput, did_you_mean
from abreast.suites import Suite

if TYPE_CHECKING:
    from abreast.experiment.facade import Experiment

_SPEC_SUFFIXES = (".yaml", ".yml", ".toml", ".json")  # a word that ends like this is a file, never a suite
HELP = "a spec file (YAML, TOML or JSON), or the name of a suite (`abreast suites` lists them)"
LIST_SUITES = "run `abreast suites` to list the suites"
ParserFactory = Callable[[Suite | None], argparse.ArgumentParser]


def suite_by_name(words: Sequence[str], parser_with: ParserFactory) -> Suite | None:
    """Return the suite whose name is the SPEC argument, or None. The words are parsed with the flags of that suite."""
    candidates = [word for word in words if not word.startswith("-") and not word.endswith(_SPEC_SUFFIXES)]
    for name in suites.names() if candidates else ():
        if name not in candidates:
            continue
        try:
            suite = suites.load(name)
            parser = parser_with(suite)
        except BadInput:  # matters only if SPEC is this suite
            if _spec(parser_with(None), words) == name:
                raise
            continue
        if _spec(parser, words) == name:
            return suite
    return None


def suite_of_file(words: Sequence[str], parser_with: ParserFactory) -> Suite | None:
    """Return the suite that reads the JSON file in the SPEC argument; None if no suite does."""
    for word in dict.fromkeys(words):
        if word.endswith(".json") and not word.startswith("-"):
            suite = suites.reader_of(Path(word))
            if suite is not None and _spec(parser_with(suite), words) == word:
                return suite
    return None


def _spec(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """Return the SPEC argument, even if other arguments are wrong."""
    for action in parser._actions:
        action.type = action.choices = None
        action.required = action.dest == "spec"
    for group in parser._mutually_exclusive_groups:
        group.required = False
    try:
        parsed, _ = parser.parse_known_intermixed_args([word for word in words if word not in ("-h", "--help")])
    except BadInput:
        return None
    spec: str | None = parsed.spec
    return spec


def experiment_of(args: argparse.Namespace) -> Experiment:
    """Return the experiment to run. Call this before reading `args`, because a suite may change them."""
    from abreast.experiment.facade import Experiment

    if args.suite is not None:
        return suites.experiment_of(args.suite, args)
    try:
        return Experiment.load(Path(args.spec))
    except BadInput as error:
        if isinstance(error.__context__, FileNotFoundError) and _may_be_a_name(args.spec):
            raise _no_such_spec(error) from None
        raise


def experiment_in(path: Path) -> Experiment:
    """The experiment in a spec file, or in a settings file of a suite."""
    from abreast.cli import parser_of
    from abreast.experiment.facade import Experiment

    suite = suites.reader_of(path)
    if suite is None:
        return Experiment.load(path)
    return suites.experiment_of(suite, parser_of("run", suite).parse_args([str(path)]))


def misspelt_suite(words: Sequence[str]) -> BadInput | None:
    """Return an error if a suite name seems misspelt, else None.

    Without it, the user would read only that the flags of that suite are unrecognized.
    """
    word = next((word for word in words if not word.startswith("-")), "")
    near = did_you_mean(word, suites.names()) if _may_be_a_name(word) and not Path(word).exists() else ""
    return BadInput(f"{word}: no such file{near}", LIST_SUITES) if near else None


def _may_be_a_name(word: str) -> bool:
    return Path(word).name == word and not Path(word).suffix


def _no_such_spec(error: BadInput) -> BadInput:
    """Return the error for a missing file, which may be a misspelt suite name."""
    names = suites.names()
    word, problem, _ = error.message.partition(": no such file")
    if near := did_you_mean(word, names):
        return BadInput(f"{word}{problem}{near}", LIST_SUITES)
    return BadInput(error.message, f"name a spec file, or a suite: {', '.join(names)}" if names else error.fix)

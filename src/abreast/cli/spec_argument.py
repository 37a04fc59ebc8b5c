"""What SPEC means: a file, or a suite by its name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abreast import suites
from abreast.errors import BadInput, suggestion
from abreast.suites import Suite

if TYPE_CHECKING:
    from abreast.experiment.facade import Experiment

_SPEC_SUFFIXES = (".yaml", ".yml", ".toml", ".json")  # of files, never of suites
HELP = "a spec file (YAML, TOML or JSON), or the name of a suite: abreast suites"


def suite_in(words: Sequence[str], parser_with: Callable[[Suite | None], argparse.ArgumentParser]) -> Suite | None:
    """The suite whose name stands where SPEC does, as the flags of that suite have it; None if there is none."""
    named = [word for word in words if not word.startswith("-") and not word.endswith(_SPEC_SUFFIXES)]
    for name in suites.names() if named else ():
        if name not in named:
            continue
        try:
            suite = suites.load(name)
            parser = parser_with(suite)
        except BadInput:  # is said only if it is the one that is meant
            if _spec(parser_with(None), words) == name:
                raise
            continue
        if _spec(parser, words) == name:
            return suite
    return None


def suite_of_file(words: Sequence[str], parser_with: Callable[[Suite | None], argparse.ArgumentParser]) -> Suite | None:
    """The suite that takes the file that stands where SPEC does, instead of its flags; None if there is none."""
    for word in dict.fromkeys(words):
        if word.endswith(".json") and not word.startswith("-"):
            suite = suites.reader_of(Path(word))
            if suite is not None and _spec(parser_with(suite), words) == word:
                return suite
    return None


def _spec(parser: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """The word for SPEC, whatever is wrong with the others."""
    for action in parser._actions:
        action.type = action.choices = None
        action.required = action.dest == "spec"
    for group in parser._mutually_exclusive_groups:
        group.required = False
    try:
        parsed, _ = parser.parse_known_intermixed_args([word for word in words if word not in ("-h", "--help")])
    except BadInput:
        return None
    word: str | None = parsed.spec
    return word


def experiment_of(args: argparse.Namespace) -> Experiment:
    """The experiment that is meant. Options are read after it: a suite may change them."""
    from abreast.experiment.facade import Experiment

    if args.suite is not None:
        return suites.experiment_of(args.suite, args)
    try:
        return Experiment.load(Path(args.spec))
    except BadInput as error:
        if isinstance(error.__context__, FileNotFoundError) and _may_be_a_name(args.spec):
            raise _no_such(error) from None
        raise


def experiment_in(path: Path) -> Experiment:
    """The experiment that a file describes by itself: a spec, or what a suite takes instead of its flags."""
    from abreast.cli import parser_of
    from abreast.experiment.facade import Experiment

    suite = suites.reader_of(path)
    if suite is None:
        return Experiment.load(path)
    parsed = parser_of("run", suite).parse_args([str(path)])
    return suites.experiment_of(suite, parsed)


def misspelt(words: Sequence[str]) -> BadInput | None:
    """Whose flags are not known, if the first word is nearly the name of a suite: it has them."""
    word = next((word for word in words if not word.startswith("-")), "")
    near = suggestion(word, suites.names()) if _may_be_a_name(word) and not Path(word).exists() else ""
    said = f"{word}: no such file{near}"
    return BadInput(said, "abreast suites lists the suites") if "did you mean" in near else None


def _may_be_a_name(word: str) -> bool:
    return Path(word).name == word and not Path(word).suffix


def _no_such(error: BadInput) -> BadInput:
    """No file is called so; a suite may have been meant."""
    known = suites.names()
    word, said, _ = error.message.partition(": no such file")
    near = suggestion(word, known)
    if "did you mean" in near:
        return BadInput(f"{word}{said}{near}", "abreast suites lists the suites")
    return BadInput(error.message, f"name a spec file, or a suite: {', '.join(known)}" if known else error.fix)

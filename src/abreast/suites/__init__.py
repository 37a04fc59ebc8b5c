"""Suites: experiments that ship with a package, run by their name: `abreast run NAME`.

A package brings one by an entry point of the group `abreast.suites`, and so do we. It loads to a `Suite`, or to a
module or an object of another class that has a name, a summary, `arguments` and `experiment`; what else it lacks has
the defaults of `Suite`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput, suggestion
from abreast.plugins import Plugin, completed, find_plugin, is_async, plugin_names
from abreast.report.sections import SuiteReport

if TYPE_CHECKING:
    from abreast.experiment.facade import Experiment

LARGEST_FILE = 16_000_000  # bytes of settings


class CaseMaker:
    """What `abreast cases new NAME` does for a suite."""

    summary: str  # what it makes, in one line of the help
    details: str  # and in a paragraph
    default_output: str  # where cases go without --output, for the help

    def arguments(self, group: argparse._ArgumentGroup) -> None:
        """Add flags of its own. `--repo`, `--output`, `--yes` and `--json` are there already."""

    def make(self, args: argparse.Namespace) -> int:
        """Make cases; the exit code."""
        raise NotImplementedError


class Suite(SuiteReport):
    """An experiment by name. Its part of a report is declared in `SuiteReport`."""

    name: str  # what is typed; the same as the name of its entry point
    summary: str  # one line: the question that it answers
    epilog: str = ""  # below its flags in `--help`
    case_maker: CaseMaker | None = None

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its own flags, behind those that every run has; `set_defaults` changes what those are."""

    def experiment(self, args: argparse.Namespace) -> Experiment:
        """The experiment that these flags ask for. It may change them: `args.parallel` is read after it."""
        raise NotImplementedError

    def reads(self, data: Any) -> bool:
        """Whether it takes a JSON file with this content as SPEC, instead of flags (then in `args.spec`)."""
        return False

    def when_refused(self, args: argparse.Namespace) -> str:
        """A sentence for users who cannot use a target, such as how to try it without one."""
        return ""

    def flags_of_list(self, args: argparse.Namespace) -> list[str] | None:
        """Words behind `abreast run NAME` for the cases that `abreast cases list NAME` lists, from its flags `--cases`,
        `--category`, `--commit` and `--repo`; None if it takes none of them.
        """
        return None


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of `abreast suites`. Of one that cannot be loaded, `problem` says why."""

    name: str
    summary: str | None
    package: str | None
    problem: str | None


def names() -> list[str]:
    """The names of all suites; nothing is loaded."""
    return plugin_names("suite")


def listed() -> list[Listed]:
    """All suites, those that cannot be loaded too."""
    return [_summarise(name) for name in names()]


def _summarise(name: str) -> Listed:
    try:
        plugin = _plugin(name)
        package = plugin.point.dist.name if plugin.point.dist else None
    except BadInput as error:
        return Listed(name, None, None, error.message)
    try:
        return Listed(name, load(name).summary, package, None)
    except BadInput as error:
        return Listed(name, None, package, error.message)


def load(name: str) -> Suite:
    """The suite of this name."""
    plugin = _plugin(name)
    loaded = plugin.load()
    plugin.call("reading its attributes", _check, plugin, loaded)
    return completed(loaded, Suite)


def case_makers() -> dict[str, CaseMaker]:
    """How new cases are made, by the name of the suite; one that cannot be loaded makes none."""
    found = {}
    for name in names():
        with contextlib.suppress(BadInput):
            if (maker := load(name).case_maker) is not None:
                found[name] = maker
    return found


def _plugin(name: str) -> Plugin:
    plugin = find_plugin("suite", name)
    if plugin is None:
        raise BadInput(f'no suite "{name}"{suggestion(name, names())}', "abreast suites lists those that are installed")
    return plugin


def _check(plugin: Plugin, suite: Any) -> None:
    if isinstance(suite, type):
        plugin.refuse("its entry point must be a module or an object, such as SUITE = MySuite()", suite)
    missing = [part for part in ("name", "summary", "arguments", "experiment") if not hasattr(suite, part)]
    if missing:
        raise plugin.error(f"it has no {' and no '.join(missing)}")
    if suite.name != plugin.point.name:
        raise plugin.error(f'it calls itself "{suite.name}"')
    if not isinstance(suite.summary, str):
        plugin.refuse("its summary must be text", suite.summary)
    for method, names in (("arguments", ("parser",)), ("experiment", ("args",))):
        function = getattr(suite, method)
        if not callable(function) or is_async(function):
            plugin.refuse(f"{method} must be a plain function", function)
        plugin.check_call(f"{method} is a function of a suite", function, names)


def reader_of(path: Path) -> Suite | None:
    """The suite that takes this file instead of flags; None if none does, or the file is none that can be read."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:
            return None
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or "cases" in data:
        return None
    for name in names():
        with contextlib.suppress(BadInput):
            suite = load(name)
            if _plugin(name).call("reads(data)", suite.reads, data):
                return suite
    return None


def add_arguments(suite: Suite, parser: argparse.ArgumentParser) -> None:
    """Its flags, behind those that are there."""
    _plugin(suite.name).call("arguments(parser)", suite.arguments, parser)


def epilog(suite: Suite) -> str:
    """What it says below its flags."""
    return str(suite.epilog or "")


def experiment_of(suite: Suite, args: argparse.Namespace) -> Experiment:
    """The experiment that was asked for; it knows whose it is."""
    from abreast.experiment.facade import Experiment  # late: `--help` needs the flags, and nothing else

    plugin = _plugin(suite.name)
    made = plugin.call("experiment(args)", suite.experiment, args)
    if not isinstance(made, Experiment):
        plugin.refuse("experiment(args) must return an abreast.Experiment", made)
    spec = made.spec.model_copy(update={"suite": suite.name})
    return Experiment.of(spec, made.base, made.origin, made.notes)


def advice(suite: Suite, args: argparse.Namespace) -> str:
    """What it says to somebody who cannot use a target; empty if nothing."""
    return str(_plugin(suite.name).call("when_refused(args)", suite.when_refused, args) or "")

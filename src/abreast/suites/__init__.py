"""Suites: experiments that ship with a package and run by name: `abreast run NAME`.

A package provides a suite through an entry point in the group `abreast.suites`, as this one does. It loads to a
`Suite`, or to a module or other object with a name, a summary, `arguments` and `experiment`; missing members default to
those of `Suite`.
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

LARGEST_FILE = 16_000_000  # bytes of a settings file


class CaseMaker:
    """The command `abreast cases new NAME` of a suite."""

    summary: str  # one line of help
    details: str  # one paragraph of help
    default_output: str  # the file written without --output, for the help

    def arguments(self, group: argparse._ArgumentGroup) -> None:
        """Add flags. `--repo`, `--output`, `--yes` and `--json` already exist."""

    def make(self, args: argparse.Namespace) -> int:
        """Make cases and return the exit code."""
        raise NotImplementedError


class Suite(SuiteReport):
    """An experiment that runs by name. `SuiteReport` declares its part of a report."""

    name: str  # also the name of its entry point
    summary: str  # the question that it answers, in one line
    epilog: str = ""  # below the flags in `--help`
    case_maker: CaseMaker | None = None

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add flags after those of every run; `set_defaults` changes the defaults of those."""

    def experiment(self, args: argparse.Namespace) -> Experiment:
        """Build the experiment from the flags. It may change them: `args.parallel` is read afterwards."""
        raise NotImplementedError

    def reads(self, data: Any) -> bool:
        """Whether a JSON file with this content is a spec of this suite; its path is then in `args.spec`."""
        return False

    def when_refused(self, args: argparse.Namespace) -> str:
        """Return a hint for users who cannot use a target, such as how to try the suite without one."""
        return ""

    def flags_of_list(self, args: argparse.Namespace) -> list[str] | None:
        """Return the arguments of `abreast run NAME` that select what `abreast cases list NAME` lists, derived from its
        flags `--cases`, `--category`, `--commit` and `--repo`; None if the suite supports none of them.
        """
        return None


@dataclass(frozen=True, slots=True)
class SuiteSummary:
    """One line of `abreast suites`; `problem` says why a suite cannot be loaded."""

    name: str
    summary: str | None
    package: str | None
    problem: str | None


def names() -> list[str]:
    """Return the names of all suites, without loading them."""
    return plugin_names("suite")


def summaries() -> list[SuiteSummary]:
    """Return all suites, including those that cannot be loaded."""
    return [_summarise(name) for name in names()]


def _summarise(name: str) -> SuiteSummary:
    try:
        plugin = _plugin(name)
        package = plugin.point.dist.name if plugin.point.dist else None
    except BadInput as error:
        return SuiteSummary(name, None, None, error.message)
    try:
        return SuiteSummary(name, load(name).summary, package, None)
    except BadInput as error:
        return SuiteSummary(name, None, package, error.message)


def load(name: str) -> Suite:
    plugin = _plugin(name)
    loaded = plugin.load()
    plugin.call("reading its attributes", _check, plugin, loaded)
    return completed(loaded, Suite)


def case_makers() -> dict[str, CaseMaker]:
    """Return the case makers of all suites that can be loaded, by name."""
    makers = {}
    for name in names():
        with contextlib.suppress(BadInput):
            if (maker := load(name).case_maker) is not None:
                makers[name] = maker
    return makers


def _plugin(name: str) -> Plugin:
    plugin = find_plugin("suite", name)
    if plugin is None:
        raise BadInput(
            f'no suite "{name}"{suggestion(name, names())}', "run `abreast suites` to list the installed ones"
        )
    return plugin


def _check(plugin: Plugin, suite: Any) -> None:
    if isinstance(suite, type):
        plugin.refuse("the entry point must be a module or an object, such as SUITE = MySuite()", suite)
    missing = [part for part in ("name", "summary", "arguments", "experiment") if not hasattr(suite, part)]
    if missing:
        raise plugin.error(f"it has no {' and no '.join(missing)}")
    if suite.name != plugin.point.name:
        raise plugin.error(f'it calls itself "{suite.name}"')
    if not isinstance(suite.summary, str):
        plugin.refuse("summary must be text", suite.summary)
    for method, names in (("arguments", ("parser",)), ("experiment", ("args",))):
        function = getattr(suite, method)
        if not callable(function) or is_async(function):
            plugin.refuse(f"{method} must be a plain function", function)
        plugin.check_call(f"{method} is a function of a suite", function, names)


def reader_of(path: Path) -> Suite | None:
    """Return the suite whose settings are in this file; None if there is none or the file cannot be read."""
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
    _plugin(suite.name).call("arguments(parser)", suite.arguments, parser)


def epilog(suite: Suite) -> str:
    return str(suite.epilog or "")


def experiment_of(suite: Suite, args: argparse.Namespace) -> Experiment:
    """Return the experiment of a suite, labelled with its name."""
    from abreast.experiment.facade import Experiment  # late: `--help` needs only the flags

    plugin = _plugin(suite.name)
    experiment = plugin.call("experiment(args)", suite.experiment, args)
    if not isinstance(experiment, Experiment):
        plugin.refuse("experiment(args) must return an abreast.Experiment", experiment)
    spec = experiment.spec.model_copy(update={"suite": suite.name})
    return Experiment.of(spec, experiment.base, experiment.origin, experiment.notes)


def advice(suite: Suite, args: argparse.Namespace) -> str:
    """Return the hint for users who cannot use a target; empty if there is none."""
    return str(_plugin(suite.name).call("when_refused(args)", suite.when_refused, args) or "")

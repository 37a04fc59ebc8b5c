"""pytest plugin: files `*.abreast.yaml` are tests, and the fixture `abreast_run` executes experiments.

This module is outside the package, so that pytest loads nothing of abreast before a test needs it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from abreast import Experiment, Result

ENDINGS = (".abreast.yaml", ".abreast.yml")
DEFAULT = ("worse",)  # requirement of a file without any


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return ExperimentFile.from_parent(parent, path=file_path) if file_path.name.endswith(ENDINGS) else None


class RequirementsNotMet(AssertionError):
    """The message contains the unmet requirements, the verdict, and what to do."""


class ExperimentFile(pytest.File):
    """An experiment, which is a single test, so that one xdist worker executes all of it."""

    def collect(self) -> Iterator[pytest.Item]:
        yield ExperimentItem.from_parent(self, name=self.path.name.partition(".abreast.")[0])


class ExperimentItem(pytest.Item):
    def runtest(self) -> None:
        from abreast import Experiment

        experiment = Experiment.load(self.path)
        with _locked(self.path):
            result = experiment.run(refuse_costly=True)
        self.user_properties += [("abreast_run", result.run), ("abreast_verdict", result.verdict.word)]
        has_several = len(result.analysis.variants) > 1
        _require(result, experiment.spec.fail_if or (DEFAULT if has_several else ()))
        self.add_report_section("call", "abreast", str(result.verdict))  # shown by `pytest -rA`

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from abreast.errors import AbreastError

        error = excinfo.value
        if isinstance(error, RequirementsNotMet):
            return str(error)
        if isinstance(error, AbreastError):
            return f"error: {error.message}" + (f"\nhelp: {error.fix}" if error.fix else "")
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        return self.path, None, f"experiment: {self.name}"


RunExperiment = Callable[..., "Result"]


@pytest.fixture
def abreast_run(request: pytest.FixtureRequest) -> RunExperiment:
    """Execute an experiment, and fail unless it has a result and meets its requirements.

    Takes an `Experiment`, or a spec file relative to the folder of the test. Keyword arguments are those of
    `Experiment.run`, and `fail_if`, requirements such as `["worse", "errors > 2%"]` in addition to those of the spec.
    """

    def run(experiment: Experiment | str | os.PathLike[str], fail_if: Sequence[str] = (), **options: Any) -> Result:
        __tracebackhide__ = True
        from abreast import Experiment
        from abreast.experiment.setup import changed_spec

        if not isinstance(experiment, Experiment):
            experiment = Experiment.load(request.path.parent / experiment)
        if fail_if:
            own = [fail_if] if isinstance(fail_if, str) else fail_if
            spec = changed_spec(experiment.spec, {"fail_if": [*experiment.spec.fail_if, *own]}, "fail_if")
            experiment = Experiment.of(spec, experiment.base, experiment.origin, experiment.notes)
        options = {"refuse_costly": True, **options}
        with _locked(experiment.origin or request.path):
            result = experiment.run(**options)
        _require(result, experiment.spec.fail_if)
        request.node.add_report_section("call", "abreast", str(result.verdict))
        return result

    return run


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait while another worker of xdist executes the experiment of this file: only one run of it can be active."""
    with path.open("rb") as file:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _require(result: Result, requirements: Iterable[str]) -> None:
    __tracebackhide__ = True
    from abreast.analyse.decision import gates
    from abreast.experiment.ending import ending_lines, exit_code
    from abreast.store.address import display_address

    unmet = gates.failures(gates.requirements(list(requirements)), result.analysis)
    if unmet or exit_code(result):
        lines = [f"requirement not met: {line}" for line in unmet]
        where = f" --store {shlex.quote(display_address(str(result.store)))}"
        ending = [line.strip() for line in ending_lines(result, "run", where)]
        raise RequirementsNotMet("\n".join([*lines, str(result.verdict), *ending]))

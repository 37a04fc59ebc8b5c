"""The public `Experiment`, with `check`, `run`, `arun` and `report`."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput
from abreast.experiment.execution import RunExecution
from abreast.experiment.launch import in_thread, observed, run_in_thread, run_on_loop, warn_without_result
from abreast.experiment.options import Options, accepts
from abreast.experiment.preparation import Prepared, prepare
from abreast.experiment.result import Result
from abreast.experiment.setup import build_setup, changed_spec, store_path
from abreast.experiment.stored import reopened
from abreast.spec.load import load_spec, validated
from abreast.spec.schema import Limits, Spec
from abreast.store import Store, open_store
from abreast.targets.processes.cleanup import clean
from abreast.targets.processes.orphans import marked

if TYPE_CHECKING:
    from abreast.model import Executor, Variant
    from abreast.preflight.finding import Finding
    from abreast.stats import Weight


class Experiment:
    """Cases × variants × repeats, with scorers, limits and a store.

    Examples:
        >>> experiment = Experiment(
        ...     name="greeting",
        ...     cases=[{"id": "hello", "input": "Say hello", "expected": "hello"}],
        ...     variants={"loud": {"accuracy": 1.0}},
        ...     target="simulated",
        ...     scorers=["exact"],
        ... )
        >>> [variant.name for variant in experiment.variants]
        ['loud']
    """

    def __init__(
        self,
        *,
        cases: Any,
        name: str = "experiment",
        variants: Mapping[str, Any] | Sequence[Any] | None = None,
        target: str | Callable[..., Any] | None = None,
        executor: Executor = "auto",
        scorers: Sequence[Any] = (),
        baseline: str | None = None,
        repeats: int = 1,
        grid: Mapping[str, Sequence[Any]] | None = None,
        params: Mapping[str, Any] | None = None,
        primary: str | None = None,
        prices: Mapping[str, Any] | None = None,
        expects: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | Limits | None = None,
        engine: str | Mapping[str, Any] = "local",
        store: str | Path | None = None,
        seed: int = 0,
        description: str = "",
        fail_if: Sequence[str] = (),
        until_decided: bool = False,
        margin: float | None = None,
        weight: Weight = "case",
        min_cases: int = 30,
        suite: str | None = None,
        case_noun: str = "case",
        output: str | None = None,
        base: Path | str = ".",
    ) -> None:
        settings = {key: value for key, value in locals().items() if key not in ("self", "base")}
        settings |= {
            "variants": list(variants) if isinstance(variants, tuple) else variants,
            "scorers": list(scorers) if isinstance(scorers, tuple) else scorers,
            "grid": {key: list(values) for key, values in grid.items()} if isinstance(grid, Mapping) else grid,
            "params": {} if params is None else params,
            "fail_if": list(fail_if) if isinstance(fail_if, tuple) else fail_if,
            "limits": limits or {},
            "prices": {} if prices is None else prices,
            "expects": {} if expects is None else expects,
            "store": None if store is None else str(store),
        }
        self.spec: Spec = validated(settings, "Experiment")
        self.base = Path(base)
        self.origin: Path | None = None
        self.notes: tuple[str, ...] = ()  # notes of a suite, reported before a run

    @classmethod
    def load(cls, path: str | Path) -> Experiment:
        """Load a spec file. Files it names are relative to its folder."""
        return cls.of(load_spec(Path(path)), Path(path).resolve().parent, Path(path))

    @classmethod
    def of(cls, spec: Spec, base: Path, origin: Path | None = None, notes: tuple[str, ...] = ()) -> Experiment:
        experiment = cls.__new__(cls)
        experiment.spec, experiment.base, experiment.origin, experiment.notes = spec, base, origin, notes
        return experiment

    @classmethod
    def reopen(cls, store: Store, run: str | None = None) -> tuple[Experiment, Options]:
        """Return the experiment of an incomplete run (default: the last one), and the options of its start."""
        spec, base, origin, options = reopened(store, run)
        return cls.of(spec, base, origin), Options(store=store.address, **options)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants with defaults filled in."""
        return self.spec.all_variants()

    @accepts(Options, try_tests=0, online=False)
    def check(self, options: Options) -> list[Finding]:
        """Run the checks that `run` makes first; nothing is executed or written."""
        with closing(self.prepare(options)) as prepared:
            return prepared.findings

    @accepts(Options)
    def run(self, options: Options) -> Result:
        """Execute the missing trials and analyse the run.

        Inside a running event loop it executes in a thread and blocks the loop, which `arun` does not.
        """
        _refuse_worker()
        with closing(self.prepare(options)) as prepared, observed(prepared) as listeners:
            prepared.refuse_if_failed()
            execution = RunExecution(prepared, listeners)
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                result = asyncio.run(execution.run())
            else:
                result = run_in_thread(execution)
        self._conclude(result)
        if result.stopped == "interrupted":  # finished trials are stored; interrupt the script as well
            raise KeyboardInterrupt
        return result

    @accepts(Options)
    async def arun(self, options: Options) -> Result:
        """Like `run`, for users with their own event loop, as in a notebook: `await experiment.arun()`.

        Async targets run on the caller's loop, others in threads. If the awaiting task is cancelled, trials in flight
        are cancelled, finished ones are stored, and the next `run` or `arun` continues from there.
        """
        _refuse_worker()
        prepared = await in_thread(lambda: self.prepare(options), abandon=Prepared.close)
        with closing(prepared), observed(prepared) as listeners:
            prepared.refuse_if_failed()
            result = await run_on_loop(RunExecution(prepared, listeners, owns_loop=False))
        await in_thread(lambda: self._conclude(result))
        return result

    def _conclude(self, result: Result) -> None:
        """Write the result files of the suite, and warn if the run has no result."""
        if self.spec.output is not None:
            result.write_files()
        warn_without_result(result)

    def report(self, run: str = "latest", format: str = "terminal", all_pairs: bool = False) -> str:
        """Return the report of a stored run as text; `format` is terminal, markdown, json, csv, junit or html."""
        from abreast.analyse.run import analyse  # late: most runs are read, not printed
        from abreast.report.formats import catalogue

        with open_store(self.store_path) as store:
            return catalogue.text(catalogue.ReportRequest(analyse(store, run, all_pairs)), format)

    def against_itself(self) -> Experiment:
        """Return an experiment that compares the baseline with itself, which must show no difference."""
        variants = self.spec.all_variants()
        name = self.spec.baseline_of(variants)
        baseline = next(variant for variant in variants if variant.name == name)
        twins = [baseline, replace(baseline, name=f"{name} again")]
        own = self.spec.limits.variants.get(name)
        limits = {"variants": {twin.name: own for twin in twins} if own else {}}
        changes: dict[str, Any] = {
            "name": f"{self.spec.name} (A/A)",
            "limits": self.spec.limits.model_copy(update=limits),
            "variants": twins,
            "grid": None,
            "baseline": name,
            "params": {},
            "output": None,
            "fail_if": [],
        }
        return Experiment.of(changed_spec(self.spec, changes, "A/A"), self.base, self.origin, self.notes)

    def prepare(self, options: Options) -> Prepared:
        """Build everything that a run needs, and run the checks."""
        cleanup = clean()
        with marked(reaps=False):
            setup = build_setup(self, options, cleanup)
            try:
                return prepare(setup)
            except BaseException:
                setup.plan.cases.close()
                raise

    @property
    def store_path(self) -> str | Path:
        """Path or address of the store."""
        return store_path(self.spec, self.base)


def _refuse_worker() -> None:
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker imports the script
        raise BadInput(
            "a worker process imported the script that starts the run",
            'put the call of .run() under `if __name__ == "__main__":`',
        )

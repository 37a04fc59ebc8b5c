"""The public façade: `Experiment(...).check()`, `.run()`, `.report()`."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from abreast.code.reference import add_to_path
from abreast.errors import BadInput, suggestion
from abreast.experiment.judges import seat
from abreast.experiment.launch import in_thread, observed, run_in_thread, run_on_loop, warn_if_useless
from abreast.experiment.options import Options, RunOptions, choose, with_options
from abreast.experiment.prepared import Prepared
from abreast.experiment.result import Result
from abreast.experiment.stored import reopened
from abreast.plan.chains import chains_of
from abreast.plan.keys import variant_digest
from abreast.plan.plan import Plan
from abreast.plan.workspace_state import Carrying
from abreast.spec.cases import Selection, load_cases
from abreast.spec.load import load_spec, validated
from abreast.spec.schema import LEAST_CASES, Limits, Spec
from abreast.spec.scorers import build_scorers, check_expected, checks_of, primary_column
from abreast.spec.values import shown_path
from abreast.store import Store, open_store
from abreast.store.address import DEFAULT as DEFAULT_STORE
from abreast.store.address import named_store
from abreast.targets import Target, build
from abreast.targets.processes.cleanup import Cleanup, clean
from abreast.targets.processes.orphans import marked

if TYPE_CHECKING:
    from abreast.model import Check, Executor, Variant
    from abreast.preflight.finding import Finding
    from abreast.stats import Weight


class Experiment:
    """Cases × variants × repeats, with scorers, limits and a store.

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
        store: str | Path | None = None,
        seed: int = 0,
        description: str = "",
        until_decided: bool = False,
        margin: float | None = None,
        weight: Weight = "case",
        min_cases: int = 30,
        suite: str | None = None,
        case_noun: str = "case",
        output: str | None = None,
        base: Path | str = ".",
    ) -> None:
        given: dict[str, Any] = {
            "name": name,
            "cases": cases,
            "variants": list(variants) if isinstance(variants, tuple) else variants,
            "target": target,
            "executor": executor,
            "scorers": list(scorers) if isinstance(scorers, tuple) else scorers,
            "baseline": baseline,
            "repeats": repeats,
            "grid": {key: list(values) for key, values in grid.items()} if isinstance(grid, Mapping) else grid,
            "params": {} if params is None else params,
            "primary": primary,
            "limits": limits or {},
            "prices": {} if prices is None else prices,
            "expects": {} if expects is None else expects,
            "store": None if store is None else str(store),
            "seed": seed,
            "description": description,
            "until_decided": until_decided,
            "margin": margin,
            "weight": weight,
            "min_cases": min_cases,
            "suite": suite,
            "case_noun": case_noun,
            "output": output,
        }
        self.spec: Spec = validated(given, "Experiment")
        self.base = Path(base)
        self.origin: Path | None = None
        self.notes: tuple[str, ...] = ()  # what a suite wants to be known before a run

    @classmethod
    def load(cls, path: str | Path) -> Experiment:
        """The experiment in a spec file. What it names is looked for beside it."""
        return cls.of(load_spec(Path(path)), Path(path).resolve().parent, Path(path))

    @classmethod
    def of(cls, spec: Spec, base: Path, origin: Path | None = None, notes: tuple[str, ...] = ()) -> Experiment:
        experiment = cls.__new__(cls)
        experiment.spec, experiment.base, experiment.origin, experiment.notes = spec, base, origin, notes
        return experiment

    @classmethod
    def reopen(cls, store: Store, run: str | None = None) -> tuple[Experiment, Options]:
        """The experiment of a run that is not complete (the last one if none is named), and how it was started."""
        spec, base, origin, options = reopened(store, run)
        return cls.of(spec, base, origin), Options(store=store.path, **options)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The contenders, defaults filled in."""
        return self.spec.all_variants()

    @with_options
    def check(self, **options: Unpack[RunOptions]) -> list[Finding]:
        """The checks that `run` makes first; nothing is executed and nothing is written."""
        chosen = choose(Options(try_tests=0, online=False), options)
        with closing(self.prepare(chosen)) as prepared:
            return prepared.findings

    @with_options
    def run(self, options: Options | None = None, **overrides: Unpack[RunOptions]) -> Result:
        """Execute what is missing and analyse the whole. Inside a running event loop, in a thread of its own: the loop
        stands still meanwhile, which `arun` avoids."""
        _refuse_worker()
        with closing(self.prepare(choose(options, overrides))) as prepared, observed(prepared):
            prepared.refuse_if_failed()
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                result = asyncio.run(prepared.execute())
            else:
                result = run_in_thread(prepared)
        self._conclude(result)
        if result.stopped == "interrupted":  # what is done is stored; the script that called is interrupted too
            raise KeyboardInterrupt
        return result

    @with_options
    async def arun(self, options: Options | None = None, **overrides: Unpack[RunOptions]) -> Result:
        """The same as `run` for users who own the loop: `await experiment.arun()`, also in a notebook.

        Async targets run on the caller's loop, others in threads. If the awaiting task is cancelled, what is in flight
        is cancelled, what is finished is stored, and the next `run` or `arun` goes on from there.
        """
        _refuse_worker()
        chosen = choose(options, overrides)
        prepared = await in_thread(lambda: self.prepare(chosen), abandon=Prepared.close)
        with closing(prepared), observed(prepared):
            prepared.refuse_if_failed()
            result = await run_on_loop(prepared)
        await in_thread(lambda: self._conclude(result))
        return result

    def _conclude(self, result: Result) -> None:
        """Write the files of the suite, and warn if the run says nothing."""
        if self.spec.output is not None:
            result.write_files()
        warn_if_useless(result)

    def report(self, run: str = "latest", format: str = "terminal", all_pairs: bool = False) -> str:
        """The report of a stored run as text: terminal, markdown, json, csv, junit or html."""
        from abreast.analyse.run import analyse  # late: most runs are read, not printed
        from abreast.report.formats import catalogue

        with open_store(self._store_path(None)) as store:
            return catalogue.text(catalogue.ReportRequest(analyse(store, run, all_pairs)), format)

    def against_itself(self) -> Experiment:
        """The baseline under two names: an experiment that must find nothing."""
        variants = self.spec.all_variants()
        name = self.spec.baseline_of(variants)
        one = next(variant for variant in variants if variant.name == name)
        twins = [one, replace(one, name=f"{name} again")]
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
        }
        given = {**{key: getattr(self.spec, key) for key in Spec.model_fields}, **changes}
        return Experiment.of(validated(given, "A/A"), self.base, self.origin, self.notes)

    def prepare(self, options: Options) -> Prepared:
        """From the spec to a plan with everything found out that can be without executing."""
        cleanup = clean()
        with marked(reaps=False):
            return self._prepare(options, cleanup)

    def _prepare(self, options: Options, cleanup: Cleanup) -> Prepared:
        add_to_path(self.base)
        spec = _overridden(self.spec, options)
        variants = _selected(spec.all_variants(), options.variant)
        baseline = variants[0].name if options.variant and spec.baseline not in options.variant else None
        baseline = baseline or spec.baseline_of(variants)
        with self._placed():
            scorers = build_scorers(spec, self.base)
            checks = checks_of(scorers)
            shared = {
                "base": self.base,
                "store": None if "://" in str(self._store_path(options.store)) else self._store_path(options.store),
                "prices": spec.prices,
                "answer_size": spec.limits.answer_bytes,
                "keep_workspaces": options.keep_workspaces,
                "checks": checks,
                "carrying": (carrying := Carrying()),
            }
            targets = [build(variant, spec.seed, shared) for variant in variants]
        _refuse_checks(checks, variants, targets)
        primary = primary_column(spec, scorers)
        cases = load_cases(spec.cases, self.base, _selection(options))
        try:
            check_expected(cases, scorers)
            digests = [variant_digest(variant, target) for variant, target in zip(variants, targets, strict=True)]
            sees, before = [target.sees for target in targets], chains_of(cases, targets)
            _refuse_early_stop(spec, before is not None)
            plan = Plan(cases, variants, digests, spec.repeats, spec.seed, sees, before)
            store = open_store(self._store_path(options.store))
            store.anchor()
            names = [variant.name for variant in variants]
            with self._placed():
                unchecked = {**shared, "checks": []}  # of judges nothing is tested
                panel = seat(scorers, names, digests, baseline, spec.seed, unchecked, alone=options.fresh)
            return Prepared(
                *(spec, self.base, self.origin, options, plan, targets, scorers, primary, baseline, store, panel),
                notes=self.notes,
                carrying=carrying,
                cleanup=cleanup,
            )
        except BaseException:
            cases.close()
            raise

    @contextmanager
    def _placed(self) -> Iterator[None]:
        """Messages about what the spec names begin with its file."""
        try:
            yield
        except BadInput as error:
            if self.origin is None:
                raise
            raise BadInput(f"{shown_path(self.origin)}: {error.message}", error.fix) from error

    @property
    def store_path(self) -> str | Path:
        """Where its rows go."""
        return self._store_path(None)

    def _store_path(self, override: str | Path | None) -> str | Path:
        own = self.spec.store
        beside = own if own is None or "://" in own else self.base / own
        address = named_store(override, beside)
        return self.base / DEFAULT_STORE if address is None else str(address)


def _refuse_worker() -> None:
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # a worker imports the script
        raise BadInput(
            "a worker process imported the script that starts the run",
            'put the call of .run() under: if __name__ == "__main__":',
        )


def _refuse_early_stop(spec: Spec, chained: bool) -> None:
    """A decision on the way needs cases that say something on their own, of variants that keep together."""
    if spec.until_decided and spec.limits.turns:
        raise BadInput(
            "until_decided and limits.turns: a decision on the way needs variants that keep together",
            "leave one of them out",
        )
    if spec.until_decided and chained:
        raise BadInput(
            "until_decided: cases that begin with what others left are one chain, of which no part decides",
            "leave it out",
        )


def _refuse_checks(checks: Sequence[Check], variants: Sequence[Variant], targets: Sequence[Target]) -> None:
    """What is run in a workspace needs one: agents have it."""
    for variant, target in zip(variants, targets, strict=True):
        if checks and not target.has_workspace:
            raise BadInput(
                f'scorer "{checks[0].name}": {target.name} (variant "{variant.name}") has no workspace to run it in',
                "use target: claude-code or target: command, or another scorer",
            )


def _overridden(spec: Spec, options: Options) -> Spec:
    limits = spec.as_written("limits")
    if options.parallel is not None or options.trial_parallelism is not None:
        limits["parallel"] = options.parallel
    if options.trial_parallelism is not None:
        limits["trial_parallelism"] = options.trial_parallelism
    if options.budget_usd is not None:
        if not 0 < options.budget_usd < math.inf:
            raise BadInput(f"--budget {options.budget_usd}: must be dollars above 0")
        limits["budget_usd"] = float(options.budget_usd)
    if options.quota is not None:
        limits["quota"] = options.quota
    if options.free_cores is not None:
        limits["free_cores"] = options.free_cores
    if options.allow_failing:
        limits["allow_failing"] = True
    changes: dict[str, Any] = {"limits": limits}
    for key in ("repeats", "seed"):
        value = getattr(options, key)
        if value is not None:
            if value < (key == "repeats"):
                raise BadInput(f"--{key} {value}: must be a whole number of at least {int(key == 'repeats')}")
            changes[key] = value
    changes |= _stopping(options)
    return validated({**{key: getattr(spec, key) for key in Spec.model_fields}, **changes}, "options")


def _stopping(options: Options) -> dict[str, Any]:
    margin, least = options.margin, options.min_cases
    if margin is not None and not 0 < margin < 1:
        raise BadInput(f"--margin {margin:g}: must be a number above 0 and below 1", "--margin 0.05 is five points")
    if least is not None and least < LEAST_CASES:
        raise BadInput(f"--min-cases {least}: must be a whole number of at least {LEAST_CASES}")
    given = {"until_decided": options.until_decided, "margin": margin, "min_cases": least}
    return {key: value for key, value in given.items() if value is not None}


def _selected(variants: tuple[Variant, ...], names: tuple[str, ...]) -> tuple[Variant, ...]:
    known = [variant.name for variant in variants]
    for name in names:
        if name not in known:
            raise BadInput(f"--variant {name}: no such variant{suggestion(name, known)}")
    return tuple(variant for variant in variants if not names or variant.name in names)


def _selection(options: Options) -> Selection:
    limits = [number for number in (options.limit, options.debug) if number is not None]
    for number in limits:
        if number < 1:
            raise BadInput(f"a limit of {number} cases leaves none", "write 1 or more")
    return Selection(tuple(options.case), dict(options.tag), min(limits) if limits else None)

"""The suite at the command line and its configuration: the experiment that a run of the suite is."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput, suggestion
from abreast.experiment.facade import Experiment
from abreast.spec.schema import quota_window
from abreast.suites import Suite
from abreast.suites.numbers import conditions
from abreast.suites.numbers.cases import QUICK, SEED, SMALLEST, TRIALS, checked
from abreast.suites.numbers.dataset.tasks import TASKS
from abreast.suites.numbers.scoring import COLUMNS

NAME = "numbers"
VARIANTS = ("baseline", "treatment", "semantic-frame-full", "summary-statistics")
BASELINE, TREATMENT, FULL, SUMMARY = VARIANTS
SKIP_ABOVE = 5000  # points, of raw numbers
MOST_TRIALS = 10_000  # of a task: beyond it their series alone take minutes and gigabytes
CLI_SIZE = 1000  # points, on the Claude Code CLI
MOCK = {BASELINE: 0.70, TREATMENT: 0.95, FULL: 0.95, SUMMARY: 0.90}  # share of right answers where it can know
MODELS = {"haiku": "claude-haiku-5-5", "sonnet": "claude-sonnet-5-5", "opus": "claude-opus-5-5"}
MAX_TOKENS = 4096  # of a reply: room to calculate before the final lines
CLI_NOTE = (
    "the Claude Code CLI takes no temperature (each backend uses the provider's default) and adds lines to the system "
    "prompt; otherwise requests are the same as with --backend api"
)
INSTALL = 'pip install "abreast[numbers]"'
_HERE = "python:abreast.suites.numbers"
KNOWS = f"{_HERE}.answerable:is_answerable"


class BackendType(StrEnum):
    """Who is asked: a model's API, the Claude Code CLI, or the simulator."""

    API = "api"
    CLAUDE_CODE = "claude-code"
    MOCK = "mock"


# What a call takes where no earlier one tells: seconds as the suite's users measured, tokens for a short calculation.
EXPECTS: dict[BackendType, dict[str, float]] = {
    BackendType.API: {"seconds": 3.5, "output_tokens": 300},
    BackendType.CLAUDE_CODE: {"seconds": 5.5, "output_tokens": 300},
}


@dataclass(slots=True)
class BenchmarkConfig:
    """All that can be set; what is left out is as documented.

    >>> BenchmarkConfig.quick_mode().n_trials
    5
    """

    n_trials: int = TRIALS
    tasks: list[str] = field(default_factory=list)  # all six if none is named
    variants: list[str] = field(default_factory=lambda: [BASELINE, TREATMENT])
    model: str = "sonnet"
    parallel_workers: int = 1  # from 2 on: the conditions of a trial at the same time
    trial_parallelism: int = 1
    max_data_size: int | None = None
    skip_baseline_above: int | None = None
    transform: str | None = None  # python:module:function, instead of semantic-frame
    timeout: float | None = None  # seconds of one call
    quota: str | None = None  # calls in a time, such as 200/5h, max-5x or max-20x
    robustness: bool = False
    series: list[str] = field(default_factory=list)
    labels: str | None = None
    seed: int = SEED
    store: str | Path | None = None
    mock_accuracy: dict[str, float] = field(default_factory=lambda: dict(MOCK))
    mock_latency: float = 0.0

    @classmethod
    def quick_mode(cls) -> BenchmarkConfig:
        """Five trials a task instead of thirty."""
        return cls(n_trials=QUICK)

    @classmethod
    def full_mode(cls) -> BenchmarkConfig:
        return cls()


def experiment(config: BenchmarkConfig, backend: BackendType | str, base: Path | None = None) -> Experiment:
    """The experiment that a configuration describes. Its rows go into the store beside `base`, the working folder."""
    if backend not in list(BackendType):
        raise BadInput(f"backend {backend}: no such backend{suggestion(str(backend), list(BackendType))}")
    backend = BackendType(backend)
    _check(config)
    limits = {"timeout": None if config.timeout is None else float(config.timeout), "quota": config.quota}
    arguments = {
        "trials": config.n_trials,
        "tasks": checked(config.tasks),
        "seed": config.seed,
        "max_data_size": largest(config, backend),
        "robustness": config.robustness or None,
        "series": [str(Path(path).absolute()) for path in config.series] or None,
        "labels": str(Path(config.labels).absolute()) if config.labels else None,
    }
    made = Experiment(
        name=f"{NAME}-robustness" if config.robustness else NAME,
        description="does a data transform help a model read numbers?",
        suite=NAME,
        cases={"from": f"{_HERE}.cases:cases"} | {key: value for key, value in arguments.items() if value is not None},
        variants={name: _variant(name, config, backend) for name in config.variants},
        baseline=config.variants[0],
        scorers=[{f"{_HERE}.scoring:score": {"name": NAME, "columns": list(COLUMNS)}}],
        expects=EXPECTS.get(backend),
        limits={name: value for name, value in limits.items() if value is not None},
        store=config.store,
        seed=config.seed,
        base=base or Path.cwd(),
    )
    made.notes = (CLI_NOTE,) if backend == BackendType.CLAUDE_CODE else ()
    return made


def largest(config: BenchmarkConfig, backend: BackendType) -> int | None:
    """The longest series: on the CLI 1,000 points, unless it is said from where on raw numbers are skipped."""
    if config.max_data_size is None and backend == BackendType.CLAUDE_CODE and config.skip_baseline_above is None:
        return CLI_SIZE
    return config.max_data_size


def _check(config: BenchmarkConfig) -> None:
    for what, number, least in (
        ("--trials", config.n_trials, 1),
        ("--max-data-size", config.max_data_size, SMALLEST),
        ("--skip-baseline-above", config.skip_baseline_above, 1),
    ):
        if number is not None and (type(number) is not int or number < least):
            raise BadInput(f"{what} {number}: must be a whole number of at least {least}")
    if config.n_trials > MOST_TRIALS:
        raise BadInput(f"--trials {config.n_trials}: at most {MOST_TRIALS:,} of each task")
    if config.quota is not None:
        try:
            quota_window(config.quota)
        except ValueError as error:
            raise BadInput(f"--quota {config.quota}: {error}") from None
    if config.timeout is not None and not config.timeout > 0:
        raise BadInput(f"--timeout {config.timeout:g}: must be seconds above 0")
    for name in config.variants:
        if name not in VARIANTS:
            raise BadInput(f"--variant {name}: no such variant{suggestion(name, VARIANTS)}")
    if not config.variants:
        raise BadInput("no variant is left", f"name one of {', '.join(VARIANTS)}")
    if config.transform is not None and not config.transform.startswith("python:"):
        raise BadInput(f"--transform {config.transform}: is no function", "write --transform python:module:function")
    packaged = [name for name in config.variants if _is_package(name, config)]
    if packaged and conditions.package_version() is None:
        name = TREATMENT if TREATMENT in packaged else f"variant {FULL}"
        raise BadInput(
            f"the {name} is the package {conditions.PACKAGE}, which is not installed",
            f"{INSTALL}; or --variant {BASELINE} --variant {SUMMARY}; or --transform python:module:function",
        )


def _variant(name: str, config: BenchmarkConfig, backend: BackendType) -> dict[str, Any]:
    version = f"{conditions.PACKAGE} {conditions.package_version()}"
    shown: dict[str, Any] = {"prompt": conditions.PROMPT, "transform": _transform(name, config)}
    shown |= {"version": version} if _is_package(name, config) else {}
    if backend == BackendType.MOCK:
        slow = {"latency": config.mock_latency} if config.mock_latency else {}
        accuracy = config.mock_accuracy.get(name, MOCK[name])
        return {"target": "simulated", "accuracy": accuracy, "knows": KNOWS, **slow, **shown}
    return {**target_settings(backend, config.model), "system": conditions.SYSTEM, **shown}


def target_settings(backend: BackendType, model: str) -> dict[str, Any]:
    """The target of a backend, set up so that each sends the same request: the CLI would ask for thinking."""
    if backend == BackendType.MOCK:
        return {"target": "simulated"}
    if backend == BackendType.CLAUDE_CODE:
        variables = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(MAX_TOKENS), "CLAUDE_CODE_DISABLE_THINKING": "1"}
        return {"target": "claude-code", "model": model, "effort": "high", "env": variables}
    return {"target": "anthropic", "model": MODELS.get(model, model), "max_tokens": MAX_TOKENS}


def _is_package(name: str, config: BenchmarkConfig) -> bool:
    return name == FULL or (name == TREATMENT and config.transform is None)


def _transform(name: str, config: BenchmarkConfig) -> str | dict[str, Any]:
    if name == BASELINE:
        above = SKIP_ABOVE if config.skip_baseline_above is None else config.skip_baseline_above
        return {"from": f"{_HERE}.conditions:raw", "skip_above": above}
    if name == SUMMARY:
        return f"{_HERE}.conditions:summary_statistics"
    if name == FULL:
        return f"{_HERE}.conditions:semantic_frame_full"
    if config.transform is not None:
        return {"from": f"{_HERE}.conditions:described", "by": config.transform}
    return f"{_HERE}.conditions:semantic_frame"


if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.experiment.facade import Experiment
    from abreast.report.sections import Section

_SAME_NAMES = (  # of flags and of the configuration
    *("model", "max_data_size", "skip_baseline_above", "transform", "timeout", "quota", "robustness", "series"),
    "labels",
)


class Numbers(Suite):
    """`abreast run numbers`."""

    name = NAME
    summary = "does a data transform help a model read numbers?"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument_group("of the suite numbers").add_argument
        add(
            "--backend",
            choices=[each.value for each in BackendType],
            help="who is asked: the API (default), the Claude Code CLI, or the simulator",
        )
        add("--mock", action="store_true", help="the same as --backend mock: nothing is called, nothing is paid")
        add("--model", metavar="M", default="sonnet", help=f"{', '.join(MODELS)}, or a full name (sonnet)")
        add("--task", metavar="NAME", action="append", default=[], help=f"only {', '.join(TASKS)}; repeatable")
        add("--trials", metavar="N", type=int, help=f"series and queries of each task ({TRIALS}; with --quick {QUICK})")
        add("--quick", action="store_true", help=f"{QUICK} trials a task")
        add(
            "--transform",
            metavar="REF",
            help="the treatment: python:module:function, from numbers to text; semantic-frame if left out",
        )
        add(
            "--max-data-size",
            metavar="N",
            type=int,
            help=f"points of the longest series, at least {SMALLEST} (on the CLI {CLI_SIZE:,}, unless "
            "--skip-baseline-above is given)",
        )
        add(
            "--skip-baseline-above",
            metavar="N",
            type=int,
            help=f"raw numbers of longer series are skipped ({SKIP_ABOVE:,})",
        )
        add("--timeout", metavar="S", type=float, help="seconds of one call (180, and 10 for 1,000 characters)")
        add("--robustness", action="store_true", help=f"each case also perturbed in eight ways ({QUICK} trials a task)")
        add(
            "--series",
            metavar="PATH",
            action="append",
            default=[],
            help="windows of recordings (timestamp,value) instead of generated series; repeatable",
        )
        add("--labels", metavar="FILE", help="JSON that marks the anomalies in them")
        add("--no-viz", dest="no_pictures", action="store_true", help="the same as --no-pictures")

    def experiment(self, args: argparse.Namespace) -> Experiment:
        if args.mock and args.backend not in (None, BackendType.MOCK.value):
            raise BadInput(f"--mock and --backend {args.backend}", "keep one of them")
        backend = BackendType.MOCK if args.mock else BackendType(args.backend or BackendType.API)
        return experiment(self._config(args), backend)

    def _config(self, args: argparse.Namespace) -> BenchmarkConfig:
        trials = QUICK if args.quick or args.robustness else TRIALS
        config = BenchmarkConfig(
            n_trials=trials if args.trials is None else args.trials,
            tasks=args.task,
            variants=_variants(args),
            **{name: getattr(args, name) for name in _SAME_NAMES},
        )
        if args.seed is not None:
            config.seed = args.seed
        return config

    def when_refused(self, args: argparse.Namespace) -> str:
        return f"without a model: abreast run {NAME} --mock"

    def sections(self, analysis: Analysis) -> list[Section]:
        from abreast.suites.numbers.report.sections import sections

        return sections(analysis)


def _variants(args: argparse.Namespace) -> list[str]:
    """The two conditions and those that are only ever added to them; or exactly those that are named."""
    named, args.variant = args.variant, []
    if set(named) <= {FULL, SUMMARY}:
        named = [BASELINE, TREATMENT, *named]
    known = [name for name in VARIANTS if name in named]
    unknown = [name for name in named if name not in VARIANTS]
    return known + unknown


SUITE = Numbers()

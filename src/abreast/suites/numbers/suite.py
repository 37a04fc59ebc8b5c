"""The suite on the command line, its configuration, and its experiment."""

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

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.report.sections import Section

NAME = "numbers"
VARIANTS = ("baseline", "treatment", "semantic-frame-full", "summary-statistics")
BASELINE, TREATMENT, FULL, SUMMARY = VARIANTS
SKIP_ABOVE = 5000  # points of raw numbers
MOST_TRIALS = 10_000  # per task; more would take minutes and gigabytes to generate
CLI_SIZE = 1000  # points, on the Claude Code CLI
MOCK = {BASELINE: 0.70, TREATMENT: 0.95, FULL: 0.95, SUMMARY: 0.90}  # accuracy on answerable cases
MODELS = {"haiku": "claude-haiku-5-5", "sonnet": "claude-sonnet-5-5", "opus": "claude-opus-5-5"}
MAX_TOKENS = 4096  # leaves room to calculate before the final lines
CLI_NOTE = (
    "the Claude Code CLI takes no temperature (each backend uses the provider's default) and adds lines to the system "
    "prompt; otherwise requests are the same as with --backend api"
)
INSTALL = 'pip install "abreast[numbers]"'
_REF = "python:abreast.suites.numbers"
KNOWS = f"{_REF}.answerable:is_answerable"


class BackendType(StrEnum):
    """A model's API, the Claude Code CLI, or the simulator."""

    API = "api"
    CLAUDE_CODE = "claude-code"
    MOCK = "mock"


# The use of a call, for estimates without earlier calls.
EXPECTS: dict[BackendType, dict[str, float]] = {
    BackendType.API: {"seconds": 3.5, "output_tokens": 300},
    BackendType.CLAUDE_CODE: {"seconds": 5.5, "output_tokens": 300},
}


@dataclass(slots=True)
class BenchmarkConfig:
    """All settings with their defaults.

    >>> BenchmarkConfig.quick_mode().n_trials
    5
    """

    n_trials: int = TRIALS
    tasks: list[str] = field(default_factory=list)  # default: all six
    variants: list[str] = field(default_factory=lambda: [BASELINE, TREATMENT])
    model: str = "sonnet"
    parallel_workers: int = 1  # 2 or more: run the conditions of a trial in parallel
    trial_parallelism: int = 1
    max_data_size: int | None = None
    skip_baseline_above: int | None = None
    transform: str | None = None  # python:module:function instead of semantic-frame
    timeout: float | None = None  # seconds of one call
    quota: str | None = None  # such as 200/5h, max-5x or max-20x
    robustness: bool = False
    series: list[str] = field(default_factory=list)
    labels: str | None = None
    seed: int = SEED
    store: str | Path | None = None
    mock_accuracy: dict[str, float] = field(default_factory=lambda: dict(MOCK))
    mock_latency: float = 0.0

    @classmethod
    def quick_mode(cls) -> BenchmarkConfig:
        """Five trials per task instead of thirty."""
        return cls(n_trials=QUICK)

    @classmethod
    def full_mode(cls) -> BenchmarkConfig:
        return cls()


def experiment(config: BenchmarkConfig, backend: BackendType | str, base: Path | None = None) -> Experiment:
    """Build the experiment. Paths and the store are relative to `base`, by default the working folder."""
    if backend not in list(BackendType):
        raise BadInput(f"no backend {backend}{suggestion(str(backend), list(BackendType))}")
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
    result = Experiment(
        name=f"{NAME}-robustness" if config.robustness else NAME,
        description="does a data transform help a model read numbers?",
        suite=NAME,
        cases={"from": f"{_REF}.cases:cases"} | {key: value for key, value in arguments.items() if value is not None},
        variants={name: _variant(name, config, backend) for name in config.variants},
        baseline=config.variants[0],
        scorers=[{f"{_REF}.scoring:score": {"name": NAME, "columns": list(COLUMNS)}}],
        expects=EXPECTS.get(backend),
        limits={name: value for name, value in limits.items() if value is not None},
        store=config.store,
        seed=config.seed,
        base=base or Path.cwd(),
    )
    result.notes = (CLI_NOTE,) if backend == BackendType.CLAUDE_CODE else ()
    return result


def largest(config: BenchmarkConfig, backend: BackendType) -> int | None:
    """Return the longest series: on the CLI 1,000 points, unless `skip_baseline_above` is set."""
    if config.max_data_size is None and backend == BackendType.CLAUDE_CODE and config.skip_baseline_above is None:
        return CLI_SIZE
    return config.max_data_size


def _check(config: BenchmarkConfig) -> None:
    for flag, number, least in (
        ("--trials", config.n_trials, 1),
        ("--max-data-size", config.max_data_size, SMALLEST),
        ("--skip-baseline-above", config.skip_baseline_above, 1),
    ):
        if number is not None and (type(number) is not int or number < least):
            raise BadInput(f"{flag} {number}: must be a whole number of at least {least}")
    if config.n_trials > MOST_TRIALS:
        raise BadInput(f"--trials {config.n_trials}: at most {MOST_TRIALS:,} per task")
    if config.quota is not None:
        try:
            quota_window(config.quota)
        except ValueError as error:
            raise BadInput(f"--quota {config.quota}: {error}") from None
    if config.timeout is not None and not config.timeout > 0:
        raise BadInput(f"--timeout {config.timeout:g}: must be more than 0 seconds")
    for name in config.variants:
        if name not in VARIANTS:
            raise BadInput(f"--variant {name}: no such variant{suggestion(name, VARIANTS)}")
    if not config.variants:
        raise BadInput("no variants", f"use some of {', '.join(VARIANTS)}")
    if config.transform is not None and not config.transform.startswith("python:"):
        raise BadInput(f"--transform {config.transform}: not a function", "write --transform python:module:function")
    packaged = [name for name in config.variants if _is_package(name, config)]
    if packaged and conditions.package_version() is None:
        name = TREATMENT if TREATMENT in packaged else f"variant {FULL}"
        raise BadInput(
            f"the {name} needs the package {conditions.PACKAGE}, which is not installed",
            f"run `{INSTALL}`; or use --variant {BASELINE} --variant {SUMMARY}, or --transform python:module:function",
        )


def _variant(name: str, config: BenchmarkConfig, backend: BackendType) -> dict[str, Any]:
    version = f"{conditions.PACKAGE} {conditions.package_version()}"
    request: dict[str, Any] = {"prompt": conditions.PROMPT, "transform": _transform(name, config)}
    request |= {"version": version} if _is_package(name, config) else {}
    if backend == BackendType.MOCK:
        latency = {"latency": config.mock_latency} if config.mock_latency else {}
        accuracy = config.mock_accuracy.get(name, MOCK[name])
        return {"target": "simulated", "accuracy": accuracy, "knows": KNOWS, **latency, **request}
    return {**target_settings(backend, config.model), "system": conditions.SYSTEM, **request}


def target_settings(backend: BackendType, model: str) -> dict[str, Any]:
    """Return the target of a backend; all send the same request, so the CLI's thinking is off."""
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
        return {"from": f"{_REF}.conditions:raw", "skip_above": above}
    if name == SUMMARY:
        return f"{_REF}.conditions:summary_statistics"
    if name == FULL:
        return f"{_REF}.conditions:semantic_frame_full"
    if config.transform is not None:
        return {"from": f"{_REF}.conditions:described", "by": config.transform}
    return f"{_REF}.conditions:semantic_frame"


_FLAGS = (  # with the same names in the configuration
    *("model", "max_data_size", "skip_baseline_above", "transform", "timeout", "quota", "robustness", "series"),
    "labels",
)


class Numbers(Suite):
    name = NAME
    summary = "does a data transform help a model read numbers?"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument_group("suite numbers").add_argument
        repeatable: dict[str, Any] = {"action": "append", "default": []}
        backends = [backend.value for backend in BackendType]
        add("--backend", choices=backends, help="the API (default), the Claude Code CLI, or the simulator")
        add("--mock", action="store_true", help="same as --backend mock: no calls, no cost")
        add("--model", metavar="M", default="sonnet", help=f"{', '.join(MODELS)}, or a full model name (sonnet)")
        add("--task", metavar="NAME", **repeatable, help=f"only {', '.join(TASKS)}; repeatable")
        add("--trials", metavar="N", type=int, help=f"cases per task ({TRIALS}; with --quick {QUICK})")
        add("--quick", action="store_true", help=f"{QUICK} cases per task")
        transform = "the treatment, from numbers to text: python:module:function (semantic-frame)"
        add("--transform", metavar="REF", help=transform)
        largest = f"at least {SMALLEST} (on the CLI {CLI_SIZE:,}, unless --skip-baseline-above is set)"
        add("--max-data-size", metavar="N", type=int, help=f"points of the longest series, {largest}")
        above = f"skip raw numbers of longer series ({SKIP_ABOVE:,})"
        add("--skip-baseline-above", metavar="N", type=int, help=above)
        timeout = "timeout of one call in seconds (180, plus 10 per 1,000 characters)"
        add("--timeout", metavar="S", type=float, help=timeout)
        perturb = f"also perturb each case in eight ways ({QUICK} cases per task)"
        add("--robustness", action="store_true", help=perturb)
        series = "use recordings (CSV with timestamp,value) instead of generated series; repeatable"
        add("--series", metavar="PATH", **repeatable, help=series)
        add("--labels", metavar="FILE", help="JSON file that marks the anomalies in the recordings")
        add("--no-viz", dest="no_pictures", action="store_true", help="same as --no-pictures")

    def experiment(self, args: argparse.Namespace) -> Experiment:
        if args.mock and args.backend not in (None, BackendType.MOCK.value):
            raise BadInput(f"--mock cannot be combined with --backend {args.backend}", "keep one of them")
        backend = BackendType.MOCK if args.mock else BackendType(args.backend or BackendType.API)
        return experiment(self._config(args), backend)

    def _config(self, args: argparse.Namespace) -> BenchmarkConfig:
        trials = QUICK if args.quick or args.robustness else TRIALS
        config = BenchmarkConfig(
            n_trials=trials if args.trials is None else args.trials,
            tasks=args.task,
            variants=_variants(args),
            **{name: getattr(args, name) for name in _FLAGS},
        )
        if args.seed is not None:
            config.seed = args.seed
        return config

    def when_refused(self, args: argparse.Namespace) -> str:
        return f"to try it without a model, run: abreast run {NAME} --mock"

    def sections(self, analysis: Analysis) -> list[Section]:
        from abreast.suites.numbers.report.sections import sections

        return sections(analysis)


def _variants(args: argparse.Namespace) -> list[str]:
    """Return the two main conditions plus any additional ones, or exactly those that are named."""
    names, args.variant = args.variant, []
    if set(names) <= {FULL, SUMMARY}:
        names = [BASELINE, TREATMENT, *names]
    return [name for name in VARIANTS if name in names] + [name for name in names if name not in VARIANTS]


SUITE = Numbers()

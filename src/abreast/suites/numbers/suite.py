"""The suite at the command line: its flags, its experiment, its sections of the report."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from abreast.errors import BadInput
from abreast.suites import Suite
from abreast.suites.numbers.cases import QUICK, SMALLEST, TRIALS
from abreast.suites.numbers.config import (
    BASELINE,
    CLI_SIZE,
    FULL,
    MODELS,
    NAME,
    SKIP_ABOVE,
    SUMMARY,
    TREATMENT,
    VARIANTS,
    BackendType,
    BenchmarkConfig,
    experiment,
)
from abreast.suites.numbers.dataset.tasks import TASKS

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

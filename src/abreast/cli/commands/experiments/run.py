"""`abreast run`: preflight, execute, verdict."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from abreast.cli import spec_argument
from abreast.errors import BadInput

if TYPE_CHECKING:
    from abreast.experiment.options import Options

EPILOG = """parallelism:
  --parallel              the variants of a block at the same time
  --parallel N            at most N trials in flight;  --parallel auto  finds the most the target takes
  --trial-parallelism N   N blocks in flight; with a bare --parallel, N × variants trials"""


def arguments(parser: argparse.ArgumentParser) -> None:
    spec_argument.argument(parser)
    add_options(parser)
    add_lock(parser)


def add_lock(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lock",
        metavar="FILE",
        help="before the first run, write the plan to FILE (default: experiment.lock.json beside experiment.yaml); "
        "if the file exists, say whether this run keeps to it",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """What `run`, `check`, `resume` and `aa` have in common."""
    add = parser.add_argument
    add("-j", "--parallel", metavar="N|auto", help="trials in flight (see below)")
    add("--trial-parallelism", metavar="N", type=int, help="blocks in flight")
    add("--repeats", metavar="N", type=int, help="repeats of every case")
    add("--limit", metavar="N", type=int, help="the first N cases")
    add("--case", metavar="ID", action="append", default=[], help="only this case; repeatable")
    add("--tag", metavar="KEY=VALUE", action="append", default=[], help="only cases with this tag; repeatable")
    add("--variant", metavar="NAME", action="append", default=[], help="only this variant; repeatable")
    add("--until-decided", action="store_true", default=None, help="stop as soon as every comparison is decided")
    add("--margin", metavar="X", type=float, help="the smallest difference in score that matters, such as 0.05")
    add("--min-cases", metavar="N", type=int, help="cases to compare before anything is decided early (30)")
    add("--debug", metavar="N", type=int, help="the first N cases (10), in a run marked as debug")
    add("--fresh", action="store_true", help="execute everything again; reuse nothing")
    add("--retry-failed", action="store_true", help="execute the variants' own failures again; the report says so")
    add("--allow-failing", action="store_true", help="continue although a variant fails in nearly every trial")
    add("--budget", metavar="USD", type=float, help="dollars this run may spend, instead of the spec's budget_usd")
    add("--quota", metavar="Q", help="calls in a time that the account has: 200/5h, or the plan, max-5x or max-20x")
    add("--free-cores", metavar="N", type=float, help="cores to leave to others, instead of the spec's free_cores (1)")
    add("--on-quota", choices=("wait", "stop"), help="what to do when a quota is used up (wait)")
    add("--engine", metavar="NAME", help="where trials execute: local (default), or an engine that a package adds")
    add("--seed", metavar="N", type=int, help="of the order, and of the simulator")
    add("--store", metavar="S", help="where rows go; else the spec's store, else $ABREAST_STORE, else results.db")
    add("--label", metavar="TEXT", help="a label for the run")
    requests = "one rendered request per variant, the plan and the estimate; nothing is sent"
    add("--dry-run", action="store_true", help=requests)
    add("--yes", action="store_true", help="go on without being asked: about cost, changes, additions")
    add("--strict", action="store_true", help="warnings are failures")
    add("--force", action="store_true", help="go on although a check failed")
    add("--keep-workspaces", action="store_true", help="leave the folders of failed trials where they are")
    add("--quiet", action="store_true", help="no progress and no checks, only the result")
    verbose = "a line for each start, end and event (check: everything inspected)"
    add("-v", "--verbose", action="store_true", help=verbose)
    add("--events", metavar="FILE", help="everything that happens, as JSON lines")
    add("--fail-if", metavar="EXPR", action="append", default=[], help='exit 1 if it holds: worse, "score < 0.8", ...')
    add("--output", metavar="DIR", help="where the report and files of results go, instead of beside the store")
    formats = "of the report: html (default), json, ..., all; repeatable"
    add("--format", metavar="F", action="append", default=[], help=formats)
    add("--no-pictures", action="store_true", help="a page without pictures, and no picture files")
    add("--no-artifacts", action="store_true", help="a page alone, without files beside it of what trials left")
    add("--json", action="store_true", help="the result as a list with one object on standard output")
    parser.set_defaults(lock=None)  # commands with `add_lock` take it


def main(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_experiment

    return run_experiment(spec_argument.experiment_of(args), args)


# Flags whose value is the option of the same name.
_SAME_NAME = (
    *("trial_parallelism", "repeats", "seed", "store", "limit", "debug", "allow_failing", "quota", "free_cores"),
    *("on_quota", "until_decided", "margin", "min_cases", "fresh", "retry_failed", "label", "strict", "force"),
    *("keep_workspaces", "engine"),
)


def options_of(args: argparse.Namespace, started: Options | None = None) -> Options:
    """The overrides on the command line, on top of those a run was started with."""
    from abreast.experiment.options import Options

    given = {
        **{name: value for name, value in vars(args).items() if name in _SAME_NAME},
        "parallel": _parallel(args.parallel),
        "case": tuple(args.case),
        "tag": _tags(args.tag),
        "variant": tuple(args.variant),
        "budget_usd": args.budget,
        "lock": True if args.lock == "" else args.lock,
        "try_tests": 0 if args.dry_run else None,
        "try_setup": False if args.dry_run else None,
        "online": False if args.dry_run or args.force else None,
    }
    return replace(started or Options(), **{key: value for key, value in given.items() if value not in (None, (), {})})


def _parallel(word: str | None) -> int | str | None:
    if word in (None, "auto", "variants"):
        return word
    try:
        return int(word or "")
    except ValueError:
        raise BadInput(f"--parallel {word}: must be a whole number or auto") from None


def _tags(texts: list[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadInput(f"--tag {text}: must be KEY=VALUE", "such as --tag category=easy")
        if key in tags:
            raise BadInput(f"--tag {key} is given twice", "cases must have all tags; ask for one value of each")
        tags[key] = value
    return tags

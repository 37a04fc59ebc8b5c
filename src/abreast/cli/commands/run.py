"""`abreast run`, `check`, `resume`, `aa` and `demo`: the commands that prepare or execute a run."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import spec_argument, store_argument
from abreast.cli.command import SHARED, argument, command, flag
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import listings, say

if TYPE_CHECKING:
    from abreast.experiment.options import Options

EPILOG = """parallelism:
  --parallel              the variants of a block at the same time
  --parallel N            at most N trials in flight;  --parallel auto  finds the most the target takes
  --trial-parallelism N   N blocks in flight; with a bare --parallel, N × variants trials"""
SPEC = argument("spec", metavar="SPEC", help=spec_argument.HELP)
LOCK = argument(
    "--lock",
    metavar="FILE",
    help="before the first run, write the plan to FILE (default: experiment.lock.json beside experiment.yaml); "
    "if the file exists, say whether this run keeps to it",
)
FIXED = ("case", "tag", "variant", "limit", "debug", "fresh", "seed", "repeats", "margin")  # when a run begins


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
    add("--fail-if", **SHARED["--fail-if"][1])
    add("--output", metavar="DIR", help="where the report and files of results go, instead of beside the store")
    formats = "of the report: html (default), json, ..., all; repeatable"
    add("--format", metavar="F", action="append", default=[], help=formats)
    add("--no-pictures", **SHARED["--no-pictures"][1])
    add("--no-artifacts", **SHARED["--no-artifacts"][1])
    add("--json", action="store_true", help="the result as a list with one object on standard output")
    parser.set_defaults(lock=None)  # commands with LOCK take it


@command("run", SPEC, add_options, LOCK, epilog=EPILOG)
def run(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_experiment

    return run_experiment(spec_argument.experiment_of(args), args)


@command(
    "check",
    SPEC,
    add_options,
    LOCK,
    flag(
        "--try-tests",
        "run the tests of the cases on what agents begin with, and in what people did: do they say anything?",
    ),
    flag("--online", "ask the providers whether they answer; nothing is billed"),
)
def check(args: argparse.Namespace) -> None:
    from abreast.cli.execution import refuse_if_failed, review

    experiment = spec_argument.experiment_of(args)
    options = replace(options_of(args), try_tests=sys.maxsize if args.try_tests else 0, online=args.online)
    with closing(experiment.prepare(options)) as prepared:
        if args.json:
            numbers = asdict(prepared.estimate)
            rows = [asdict(finding) for finding in prepared.findings]
            for row in rows:
                del row["aside"]  # is about what `run` says
            listings.show_json([{**row, **(numbers if row["check"] == "estimate" else {})} for row in rows])
        else:
            review(prepared, args.verbose)
        refuse_if_failed(prepared, args)


@command(
    "resume",
    argument(
        "run",
        metavar="RUN",
        nargs="?",
        help="its name or label (required for runs that stopped early), or its spec file or suite; "
        "default: the last incomplete run",
    ),
    add_options,
)
def resume(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_experiment
    from abreast.experiment.facade import Experiment
    from abreast.experiment.stored import edited_since

    for name in FIXED:
        if getattr(args, name):
            raise BadInput(f"--{name}: a run goes on as it was started", "abreast run SPEC starts one that differs")
    address = args.store
    if address is None and args.run is not None and Path(args.run).is_file():
        address = str(spec_argument.experiment_in(Path(args.run)).store_path)
    with store_argument.find_store(address) as store:
        experiment, started = Experiment.reopen(store, args.run)
        edited = edited_since(store.run(started.resume or "latest"))
        if edited is not None and not args.quiet:
            spec = shlex.quote(relative_path(edited))
            say(f"  {spec} was edited since: {started.resume} goes on with the spec it was started with")
            say(f"       abreast run {spec} executes the edited one")
    return run_experiment(experiment, args, started)


def _without_lock(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(lock=False)


@command("aa", SPEC, add_options, _without_lock)  # twins of the baseline follow no plan
def run_twins(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_against_itself

    return run_against_itself(spec_argument.experiment_of(args), args)


@command("demo", argument("--folder", metavar="DIR", default="demo", help="where it is written (demo)"), add_options)
def demo(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_experiment
    from abreast.experiment.facade import Experiment
    from abreast.suites.starters import write_starter

    folder = Path(args.folder)
    write_starter("demo", folder, again=True)
    if args.parallel is None and args.trial_parallelism is None:
        args.parallel = "16"
    args.fresh = True  # a demo that reuses yesterday's answers shows nothing
    return run_experiment(Experiment.load(folder / "experiment.yaml"), args)


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

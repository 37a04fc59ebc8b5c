"""`abreast run`, `check`, `resume`, `aa` and `demo`: the commands that prepare or execute a run."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.analyse.decision import gates
from abreast.cli import spec_argument, store_argument
from abreast.cli.command import SHARED, argument, command, flag
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import echo, listings, say_problem

if TYPE_CHECKING:
    from abreast.experiment.options import Options

EPILOG = """parallelism:
  --parallel              the variants of a block at the same time
  --parallel N            at most N trials in flight;  --parallel auto  finds the maximum the target supports
  --trial-parallelism N   N blocks in flight; with a bare --parallel, N × variants trials"""
SPEC = argument("spec", metavar="SPEC", help=spec_argument.HELP)
LOCK = argument(
    "--lock",
    metavar="FILE",
    help="before the first run, write the plan to FILE (default: experiment.lock.json next to experiment.yaml); "
    "if the file exists, report whether this run follows it",
)
VIEW = flag("--view", "open a live page of the run in the browser")
FIXED = (
    "map",
    "case",
    "tag",
    "variant",
    "limit",
    "debug",
    "fresh",
    "seed",
    "repeats",
    "margin",
)  # once a run has begun


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `run`, `check`, `resume`, `aa` and `demo` share."""
    add = parser.add_argument
    add("-j", "--parallel", metavar="N|auto", help="trials in flight (see below)")
    add("--trial-parallelism", metavar="N", type=int, help="blocks in flight")
    add("--repeats", metavar="N", type=int, help="repeats of every case")
    columns = "take a field of the cases from a column: input=question, expected=answer:number; repeatable"
    add("--map", metavar="FIELD=COLUMN", action="append", default=[], help=columns)
    add("--limit", metavar="N", type=int, help="the first N cases")
    add("--case", metavar="ID", action="append", default=[], help="only this case; repeatable")
    add("--tag", metavar="KEY=VALUE", action="append", default=[], help="only cases with this tag; repeatable")
    add("--variant", metavar="NAME", action="append", default=[], help="only this variant; repeatable")
    add("--until-decided", action="store_true", default=None, help="stop as soon as every comparison is decided")
    add("--margin", metavar="X", type=float, help="the smallest difference in score that matters, such as 0.05")
    add("--min-cases", metavar="N", type=int, help="cases to compare before an early decision (default: 30)")
    add("--debug", metavar="N", type=int, help="the first N cases (default: 10), in a run marked as debug")
    add("--fresh", action="store_true", help="execute everything again; reuse nothing")
    add("--retry-failed", action="store_true", help="execute the variants' own failures again; the report says so")
    add("--allow-failing", action="store_true", help="continue although a variant fails in nearly every trial")
    add("--budget", metavar="USD", type=float, help="dollars this run may spend, instead of the spec's budget_usd")
    add("--quota", metavar="Q", help="calls the account may make in a time, such as 200/5h, or a plan: max-5x, max-20x")
    add("--free-cores", metavar="N", type=float, help="cores to leave free, instead of the spec's free_cores (1)")
    add("--on-quota", choices=("wait", "stop"), help="what to do when a quota is used up (default: wait)")
    add("--engine", metavar="NAME", help="where trials execute: local (default), ray, or the engine of a package")
    add("--address", metavar="A", help="the Ray cluster: auto (default), HOST:PORT or ray://HOST:PORT")
    add("--seed", metavar="N", type=int, help="seed for case order and the simulator")
    add("--store", metavar="S", help="the store (default: the spec's store, else $ABREAST_STORE, else results.db)")
    add("--label", metavar="TEXT", help="a label for the run")
    requests = "print one rendered request per variant, the plan and the estimate; send nothing"
    add("--dry-run", action="store_true", help=requests)
    add("--yes", action="store_true", help="do not ask to confirm cost, changes or additions")
    add("--strict", action="store_true", help="treat warnings as failures")
    add("--force", action="store_true", help="continue although a check failed")
    add("--keep-workspaces", action="store_true", help="keep the folders of failed trials")
    add("-q", "--quiet", action="store_true", help="print only the result, no progress and no checks")
    verbose = "print a line for each start, end and event (check: show everything inspected)"
    add("-v", "--verbose", action="store_true", help=verbose)
    add("--events", metavar="FILE", help="write all events to FILE as JSON lines")
    add("--fail-if", **SHARED["--fail-if"][1])
    add("--on-inconclusive", **SHARED["--on-inconclusive"][1])
    add("--output", metavar="DIR", help="write the report and result files to DIR instead of next to the store")
    formats = "format of the report: html (default), json, ..., all; github writes the job summary; repeatable"
    add("--format", metavar="F", action="append", default=[], help=formats)
    add("--no-pictures", **SHARED["--no-pictures"][1])
    add("--no-artifacts", **SHARED["--no-artifacts"][1])
    add("--json", action="store_true", help="print the result as a JSON list with one object on standard output")
    parser.set_defaults(lock=None, view=False)  # overridden by LOCK and VIEW


@command("run", SPEC, add_options, LOCK, VIEW, epilog=EPILOG)
def run(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_experiment

    return run_experiment(spec_argument.experiment_of(args), args)


@command(
    "check",
    SPEC,
    add_options,
    LOCK,
    flag("--try-tests", "run the tests of the cases on the code that agents start from and on the reference solution"),
    flag("--online", "check that the providers respond; nothing is billed"),
)
def check(args: argparse.Namespace) -> None:
    from abreast.cli.execution import prepare, print_all_findings, refuse_if_failed, refuse_unknown_variants

    experiment = spec_argument.experiment_of(args)
    required = gates.requirements(args.fail_if, args.on_inconclusive)
    options = replace(options_of(args), try_tests=sys.maxsize if args.try_tests else 0, online=args.online)
    with closing(prepare(experiment, options, args)) as prepared:
        refuse_unknown_variants(required, prepared)
        if args.json:
            numbers = asdict(prepared.estimate)
            rows = [asdict(finding) for finding in prepared.findings]
            for row in rows:
                del row["is_check_only"]  # only `run` uses it
            listings.show_json([{**row, **(numbers if row["check"] == "estimate" else {})} for row in rows])
        else:
            print_all_findings(prepared, args.verbose)
        refuse_if_failed(prepared, args)


@command(
    "resume",
    argument(
        "run",
        metavar="RUN",
        nargs="?",
        help="name or label (required for runs that stopped early), spec file or suite "
        "(default: the last incomplete run)",
    ),
    add_options,
    VIEW,
)
def resume(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_experiment
    from abreast.experiment.facade import Experiment
    from abreast.experiment.stored import edited_since

    for name in FIXED:
        if getattr(args, name):
            raise BadInput(f"--{name} cannot change in a started run", "run `abreast run SPEC` to start another")
    address = args.store
    if address is None and args.run is not None and Path(args.run).is_file():
        address = str(spec_argument.experiment_in(Path(args.run)).store_path)
    with store_argument.find_store(address) as store:
        experiment, started = Experiment.reopen(store, args.run)
        edited = edited_since(store.run(started.resume or "latest"))
        if edited is not None and not args.quiet:
            spec = shlex.quote(relative_path(edited))
            message = f"{spec} was edited; {started.resume} continues with the spec it was started with"
            say_problem("note", message, f"run `abreast run {spec}` to execute the edited spec")
    return run_experiment(experiment, args, started)


@command("aa", SPEC, add_options, lambda parser: parser.set_defaults(lock=False))  # a self-test follows no plan
def run_self_test(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_against_itself

    return run_against_itself(spec_argument.experiment_of(args), args)


@command(
    "demo",
    argument("--folder", metavar="DIR", default="demo", help="where to write the example (default: demo)"),
    add_options,
    VIEW,
)
def demo(args: argparse.Namespace) -> int:
    from abreast.cli.execution import run_experiment
    from abreast.experiment.facade import Experiment
    from abreast.suites.starters import write_starter

    folder = Path(args.folder)
    write_starter("demo", folder, again=True)
    if args.parallel is None and args.trial_parallelism is None:
        args.parallel = "16"
    args.fresh = True  # a demo that reuses answers shows nothing
    code = run_experiment(Experiment.load(folder / "experiment.yaml"), args)
    if not (args.quiet or args.json or args.dry_run):
        echo(f"  page     abreast view {shlex.quote(args.store or relative_path(folder / 'results.db'))}")
    return code


# Flags whose value is the option of the same name.
_SAME_NAME = (
    *("trial_parallelism", "repeats", "seed", "store", "limit", "debug", "allow_failing", "quota", "free_cores"),
    *("on_quota", "until_decided", "margin", "min_cases", "fresh", "retry_failed", "label", "strict", "force"),
    *("keep_workspaces", "engine", "address"),
)


def options_of(args: argparse.Namespace, started: Options | None = None) -> Options:
    """Return the options of the command line, added to those of the start of the run."""
    from abreast.experiment.options import Options
    from abreast.spec.case_columns import parse_assignments

    values = {
        **{name: value for name, value in vars(args).items() if name in _SAME_NAME},
        "parallel": _parallel(args.parallel),
        "case": tuple(args.case),
        "tag": _tags(args.tag),
        "columns": parse_assignments(args.map),
        "variant": tuple(args.variant),
        "budget_usd": args.budget,
        "lock": True if args.lock == "" else args.lock,
        "try_tests": 0 if args.dry_run else None,
        "try_setup": False if args.dry_run else None,
        "online": False if args.dry_run or args.force else None,
    }
    return replace(started or Options(), **{key: value for key, value in values.items() if value not in (None, (), {})})


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
            raise BadInput(f"--tag {text}: must be KEY=VALUE", "use --tag category=easy")
        if key in tags:
            raise BadInput(f"--tag {key}: more than one value", "use one value per tag; cases must match all of them")
        tags[key] = value
    return tags

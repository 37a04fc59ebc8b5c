"""`abreast cases`: list the cases of an experiment, or make new ones for suites that support it."""

from __future__ import annotations

import argparse
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.cli import parser_of, spec_argument
from abreast.cli.command import SHARED, argument, command
from abreast.errors import BadInput, PluginError, suggestion
from abreast.filenames import relative_path
from abreast.output import listings, reserved_for_json, say
from abreast.text import many

if TYPE_CHECKING:
    from abreast.experiment.facade import Experiment
    from abreast.suites import Suite

DEFAULT = "code-search"
LIST_FLAGS = ("cases", "category", "commit")
NEW_FLAGS = ("output", "yes")


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `new` that suites define, and the epilog."""
    from abreast import suites

    makers = suites.case_makers()
    outputs = "; ".join(f"{name}: {maker.default_output}" for name, maker in makers.items())
    parser.add_argument("--output", metavar="FILE", type=Path, help=f"new: the file to write cases to ({outputs})")
    parser.add_argument("--yes", action="store_true", help="new: accept all cases; replace the tasks of a file")
    parser.add_argument("--json", **SHARED["--json"][1])
    takers = dict.fromkeys(LIST_FLAGS, ("list",)) | dict.fromkeys(NEW_FLAGS, tuple(f"new {name}" for name in makers))
    for name, maker in makers.items():
        group = parser.add_argument_group(f"flags of `new {name}`")
        try:
            maker.arguments(group)
        except (argparse.ArgumentError, TypeError, ValueError) as error:
            raise PluginError(
                f'suite "{name}": its case_maker cannot add its flags: {error}', "uninstall it"
            ) from error
        for action in group._group_actions:
            takers[action.dest] = (*takers.get(action.dest, ()), f"new {name}")
    defaults = {flag: parser.get_default(flag) for flag in takers}
    parser.set_defaults(makers=makers, takers=takers, defaults=defaults)
    rows = {"list": f"the cases of a spec or a suite; for {DEFAULT}, selected by --cases, --repo and --category"}
    rows |= {f"new [{name}]" if name == DEFAULT else f"new {name}": maker.summary for name, maker in makers.items()}
    details = (f"new {name}: {maker.details}" for name, maker in makers.items())
    width = max(map(len, rows))
    parser.epilog = "\n\n".join(["\n".join(f"  {row:<{width}}  {text}" for row, text in rows.items()), *details])


@command(
    "cases",
    argument("action", choices=("list", "new")),
    argument("spec", metavar="SPEC", nargs="?", default=DEFAULT, help=f"a spec or a suite (default: {DEFAULT})"),
    argument("--cases", metavar="PATH", nargs="+", action="extend", help="list: folders of case files, or files"),
    argument("--category", metavar="A,B", action="append", help="list: only these; repeatable"),
    argument("--commit", metavar="REV", help="list: check cases against this commit (default: HEAD)"),
    argument("--repo", metavar="PATH", help="the repository (default: this folder); new coding-agents takes a URL too"),
    _add_arguments,
)
def make_or_list(args: argparse.Namespace) -> int:
    if args.action == "new" and args.spec not in args.makers:
        raise BadInput(f'abreast cases new: cannot make cases for "{args.spec}"{suggestion(args.spec, args.makers)}')
    _refuse_flags(args, "list" if args.action == "list" else f"new {args.spec}")
    code: int = _list(args) if args.action == "list" else args.makers[args.spec].make(args)
    return code


def _refuse_flags(args: argparse.Namespace, action: str) -> None:
    """Refuse flags that would have no effect."""
    for flag, takers in args.takers.items():
        if action not in takers and getattr(args, flag) != args.defaults[flag]:
            commands = " or ".join(f"abreast cases {taker}" for taker in takers)
            raise BadInput(f"abreast cases {action}: --{flag} is for {commands}", "omit it")


def _list(args: argparse.Namespace) -> int:
    """Print all cases in the order of the files. JSON includes the expected answers."""
    from abreast.spec.cases import load_cases

    experiment = _experiment(args)
    with reserved_for_json(args.json), closing(load_cases(experiment.spec.cases, experiment.base)) as table:
        cases = [table[index] for index in range(len(table))]
    tags = sorted(table.tag_keys)
    rows = [
        {
            "id": case.id,
            **{key: case.tags.get(key) for key in tags},
            "question": case.input if args.json else _prompt_of(case.input),
            **({"expected": case.expected} if args.json else {}),
        }
        for case in cases
    ]
    listings.show(rows, args.json, "no cases")
    files = experiment.spec.cases.get("files", []) if isinstance(experiment.spec.cases, dict) else []
    if not args.json:
        where = f" in {', '.join(relative_path(Path(file)) for file in files)}" if files else ""
        say(f"{many(len(cases), 'case')}{where}")
    return 0


def _prompt_of(value: Any) -> Any:
    """The task or prompt in a mapping; any other input as it is."""
    return next((value[key] for key in ("task", "prompt") if key in value), value) if isinstance(value, dict) else value


def _experiment(args: argparse.Namespace) -> Experiment:
    """Build the experiment as `abreast run` does, with the flags that select cases if the suite supports them."""
    from abreast import suites

    suite: Suite | None = suites.load(args.spec) if args.spec in suites.names() else None
    flags = suite.flags_of_list(args) if suite is not None else None
    if flags is None and (args.cases or args.category or args.repo or args.commit):
        message = f"--cases, --category, --commit and --repo are for {DEFAULT}"
        raise BadInput(f"abreast cases list {args.spec}: {message}", "omit them")
    words = [args.spec, *(flags or ())]
    if suite is None:
        suite = spec_argument.suite_of_file(words, partial(parser_of, "run"))
    parsed = parser_of("run", suite).parse_args(words)
    parsed.suite = suite
    return spec_argument.experiment_of(parsed)

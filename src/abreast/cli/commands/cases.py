"""`abreast cases`: the cases of an experiment; new ones for the suites that have something to make them of."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.cli import parser_of, spec_argument
from abreast.cli.command import SHARED, argument, command
from abreast.errors import BadInput, PluginError, suggestion
from abreast.filenames import relative_path
from abreast.output import listings, say
from abreast.text import many

if TYPE_CHECKING:
    from abreast.experiment.facade import Experiment
    from abreast.suites import Suite

DEFAULT = "code-search"
OF_LIST = ("cases", "category", "commit")  # flags of `list` alone
OF_NEW = ("output", "yes")  # flags of every `new`


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `new`, which suites bring along, and the text below the help."""
    from abreast import suites

    makers = suites.case_makers()
    outputs = "; ".join(f"{name}: {maker.default_output}" for name, maker in makers.items())
    parser.add_argument("--output", metavar="FILE", type=Path, help=f"of new: where cases go ({outputs})")
    parser.add_argument("--yes", action="store_true", help="of new: accept all cases; replace the tasks of a file")
    parser.add_argument("--json", **SHARED["--json"][1])
    taken_by = dict.fromkeys(OF_LIST, ("list",)) | dict.fromkeys(OF_NEW, tuple(f"new {name}" for name in makers))
    for name, maker in makers.items():
        group = parser.add_argument_group(f"of new {name}")
        try:
            maker.arguments(group)
        except (argparse.ArgumentError, TypeError, ValueError) as error:
            raise PluginError(
                f'suite "{name}": its case_maker cannot add its flags: {error}', "uninstall it"
            ) from error
        for action in group._group_actions:
            taken_by[action.dest] = (*taken_by.get(action.dest, ()), f"new {name}")
    defaults = {flag: parser.get_default(flag) for flag in taken_by}
    parser.set_defaults(makers=makers, taken_by=taken_by, defaults=defaults)
    rows = {"list": f"the cases of a spec or a suite; of {DEFAULT}, as --cases, --repo and --category choose them"}
    rows |= {f"new [{name}]" if name == DEFAULT else f"new {name}": maker.summary for name, maker in makers.items()}
    details = (f"new {name}: {maker.details}" for name, maker in makers.items())
    width = max(map(len, rows))
    parser.epilog = "\n\n".join(["\n".join(f"  {row:<{width}}  {text}" for row, text in rows.items()), *details])


@command(
    "cases",
    argument("what", choices=("list", "new")),
    argument("spec", metavar="SPEC", nargs="?", default=DEFAULT, help=f"a spec or a suite ({DEFAULT})"),
    argument("--cases", metavar="PATH", nargs="+", action="extend", help="of list: folders of case files, or files"),
    argument("--category", metavar="A,B", action="append", help="of list: only these; repeatable"),
    argument("--commit", metavar="REV", help="of list: the commit that cases are checked against (HEAD)"),
    argument("--repo", metavar="PATH", help="the repository (this folder); new coding-agents: or an address"),
    _add_arguments,
)
def make_or_list(args: argparse.Namespace) -> int:
    if args.what == "new" and args.spec not in args.makers:
        near = suggestion(args.spec, args.makers)
        raise BadInput(f'abreast cases new: there are none to be made for "{args.spec}"{near}')
    _refuse_flags(args, "list" if args.what == "list" else f"new {args.spec}")
    code: int = _list(args) if args.what == "list" else args.makers[args.spec].make(args)
    return code


def _refuse_flags(args: argparse.Namespace, asked: str) -> None:
    """Refuse flags that would do nothing."""
    for flag, takers in args.taken_by.items():
        if asked not in takers and getattr(args, flag) != args.defaults[flag]:
            meant = " or ".join(f"abreast cases {taker}" for taker in takers)
            raise BadInput(f"abreast cases {asked}: --{flag} is for {meant}", "leave it out")


def _list(args: argparse.Namespace) -> int:
    """Every case in the order of the files; for programs with the truth."""
    from abreast.spec.cases import load_cases

    experiment = _experiment(args)
    table = load_cases(experiment.spec.cases, experiment.base)
    try:
        cases = [table[index] for index in range(len(table))]
    finally:
        table.close()
    tags = sorted(table.tag_keys)
    rows = [
        {
            "id": case.id,
            **{key: case.tags.get(key) for key in tags},
            "question": case.input if args.json else _words(case.input),
            **({"expected": case.expected} if args.json else {}),
        }
        for case in cases
    ]
    listings.show(rows, args.json, "there are no cases")
    files = experiment.spec.cases.get("files", []) if isinstance(experiment.spec.cases, dict) else []
    if not args.json:
        where = f" in {', '.join(relative_path(Path(file)) for file in files)}" if files else ""
        say(f"{many(len(cases), 'case')}{where}")
    return 0


def _words(value: Any) -> Any:
    """What is asked in words, of an input that has them under a name."""
    return next((value[key] for key in ("task", "prompt") if key in value), value) if isinstance(value, dict) else value


def _experiment(args: argparse.Namespace) -> Experiment:
    """What SPEC means, as `abreast run` reads it, with the flags that choose cases if the suite takes them."""
    from abreast import suites

    suite: Suite | None = suites.load(args.spec) if args.spec in suites.names() else None
    flags = suite.flags_of_list(args) if suite is not None else None
    if flags is None and (args.cases or args.category or args.repo or args.commit):
        message = f"--cases, --category, --commit and --repo are for {DEFAULT}"
        raise BadInput(f"abreast cases list {args.spec}: {message}", "leave them out")
    words = [args.spec, *(flags or ())]
    if suite is None:
        suite = spec_argument.suite_of_file(words, lambda suite: parser_of("run", suite))
    parsed = parser_of("run", suite).parse_args(words)
    parsed.suite = suite
    return spec_argument.experiment_of(parsed)

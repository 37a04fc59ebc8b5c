"""`abreast cases`: the cases of an experiment; new ones for the suites that have something to make them of."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.cli import listings, new_cases, new_tasks, store_argument
from abreast.errors import BadInput, suggestion
from abreast.output import say

if TYPE_CHECKING:
    from abreast.experiment.facade import Experiment
    from abreast.suites import Suite

NAME = "code-search"
NEW = {NAME: new_cases, "coding-agents": new_tasks}
EPILOG = """\
  list               the cases of a spec or a suite; of code-search, as --cases, --repo and --category choose them
  new [code-search]  propose cases from a repository, each with its truth and the lines it rests on
  new coding-agents  write the tasks of merged pull requests into a file, for abreast run coding-agents --tasks FILE

new code-search: on a terminal every proposal is shown: y accepts it, n rejects it for good, q stops; what was accepted
is kept. Elsewhere the proposals are written to standard output, a case a line, and no file is touched; --yes accepts
them all. The same seed proposes the same cases of the same repository. Needs: pip install "abreast[code]".

new coding-agents: tasks are the messages of pull requests without what would reveal the change; with --model a model
that sees the change writes them. What the file has already is kept and not asked again, edited or not; a file with
other tasks is left alone, unless --yes replaces them."""

_TAKEN_BY = {
    **dict.fromkeys(("cases", "category", "commit"), ("list",)),
    **dict.fromkeys(("limit", "seed", "kind", "language"), (f"new {NAME}",)),
    **dict.fromkeys(("last", "commits", "branch", "model"), ("new coding-agents",)),
    **dict.fromkeys(("output", "yes"), tuple(f"new {name}" for name in NEW)),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("list", "new"))
    parser.add_argument("spec", metavar="SPEC", nargs="?", default=NAME, help=f"a spec or a suite ({NAME})")
    parser.add_argument(
        "--cases", metavar="PATH", nargs="+", action="extend", help="of list: folders of case files, or files"
    )
    parser.add_argument("--category", metavar="A,B", action="append", help="of list: only these; repeatable")
    parser.add_argument("--commit", metavar="REV", help="of list: the commit that cases are checked against (HEAD)")
    parser.add_argument("--repo", metavar="PATH", help="the repository (this folder); new coding-agents: or an address")
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="of new: accepted cases go here (mined.jsonl beside those of REPO, or in REPO/.abreast/cases), or tasks "
        f"({new_tasks.FILE})",
    )
    parser.add_argument("--yes", action="store_true", help="of new: accept all cases; replace the tasks of a file")
    listings.argument(parser)
    for name, module in NEW.items():
        module.arguments(parser.add_argument_group(f"of new {name}"))


def main(args: argparse.Namespace) -> int:
    if args.what == "new" and args.spec not in NEW:
        near = suggestion(args.spec, NEW)
        raise BadInput(f'abreast cases new: there are none to be made for "{args.spec}"{near}')
    _refuse_flags(args, "list" if args.what == "list" else f"new {args.spec}")
    return _list(args) if args.what == "list" else NEW[args.spec].main(args)


def _refuse_flags(args: argparse.Namespace, asked: str) -> None:
    """They would do nothing, and nobody would know."""
    for flag, takers in _TAKEN_BY.items():
        if asked not in takers and getattr(args, flag) not in (None, False):
            meant = " or ".join(f"abreast cases {taker}" for taker in takers)
            raise BadInput(f"abreast cases {asked}: --{flag} is for {meant}", "leave it out")


def _list(args: argparse.Namespace) -> int:
    """Every case in the order of the files; for programs with the truth."""
    from abreast.report.words.verdict_sentence import many
    from abreast.spec.cases import load_cases

    experiment = _experiment(args)
    table = load_cases(experiment.spec.cases, experiment.base)
    try:
        found = [table[index] for index in range(len(table))]
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
        for case in found
    ]
    listings.show(rows, args.json, "there are no cases")
    files = experiment.spec.cases.get("files", []) if isinstance(experiment.spec.cases, dict) else []
    if not args.json:
        where = f" in {', '.join(store_argument.shown(Path(file)) for file in files)}" if files else ""
        say(f"{many(len(found), 'case')}{where}")
    return 0


def _words(value: Any) -> Any:
    """What is asked in words, of an input that has them under a name."""
    return next((value[key] for key in ("task", "prompt") if key in value), value) if isinstance(value, dict) else value


def _experiment(args: argparse.Namespace) -> Experiment:
    """What SPEC means, as `abreast run` reads it; of code-search with the flags that choose cases."""
    from abreast import suites
    from abreast.cli import parser_of, spec_argument

    words = [args.spec]
    if args.spec == NAME:
        words += ["--repo", args.repo or ".", "--mock"]  # no agent is needed to read cases
        words += ["--cases", *args.cases] if args.cases else []
        words += ["--commit", args.commit] if args.commit else []
        words += [word for text in args.category or () for word in ("--category", text)]
    elif args.cases or args.category or args.repo or args.commit:
        told = f"--cases, --category, --commit and --repo are for {NAME}"
        raise BadInput(f"abreast cases list {args.spec}: {told}", "leave them out")
    if args.spec in suites.names():
        suite: Suite | None = suites.load(args.spec)
    else:
        suite = spec_argument.suite_of_file(words, lambda suite: parser_of("run", suite))
    parsed = parser_of("run", suite).parse_args(words)
    parsed.suite = suite
    return spec_argument.experiment_of(parsed)

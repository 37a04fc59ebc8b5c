"""`abreast cases`: the cases of an experiment; new ones for code search."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import stores, tables
from abreast.errors import BadInput

if TYPE_CHECKING:
    from abreast.experiment import Experiment
    from abreast.suites.code_search.mining import Proposal

NAME = "code-search"
EPILOG = """  list     the cases of a spec or a suite; of code-search, those that --cases, --repo and --category choose
  new      propose cases from a repository, each with its truth and the lines it rests on

On a terminal every proposal is shown: y accepts it, n rejects it for good, q stops; what was accepted is kept.
Elsewhere the proposals are written to standard output, a case a line, and no file is touched; --yes accepts them all.
The same seed proposes the same cases of the same repository. Needs: pip install "abreast[code]"."""


def arguments(parser: argparse.ArgumentParser) -> None:
    from abreast.languages import LANGUAGES
    from abreast.suites.code_search.mining import KINDS, LIMIT

    parser.add_argument("what", choices=tuple(_WHAT))
    parser.add_argument("spec", metavar="SPEC", nargs="?", default=NAME, help=f"of list: a spec or a suite ({NAME})")
    parser.add_argument("--cases", metavar="PATH", help="of list: a folder of case files, or one")
    parser.add_argument(
        "--category", metavar="A,B", action="append", default=[], help="of list: only these; repeatable"
    )
    parser.add_argument("--repo", metavar="PATH", type=Path, default=Path(), help="the repository (this folder)")
    parser.add_argument(
        "--output",
        metavar="FILE",
        type=Path,
        help="accepted cases go here (mined.jsonl beside those of REPO, or in REPO/.abreast/cases)",
    )
    parser.add_argument("--limit", metavar="N", type=int, default=LIMIT, help=f"so many at most ({LIMIT})")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="another choice of cases (0)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only these questions (all; may be repeated)")
    parser.add_argument(
        "--language", choices=LANGUAGES, action="append", help="only code in these languages (all; may be repeated)"
    )
    parser.add_argument("--yes", action="store_true", help="accept all of them")
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    return _WHAT[args.what](args)


def _refuse_flags_of_new(args: argparse.Namespace) -> None:
    """They would choose nothing, and nobody would know."""
    from abreast.suites.code_search.mining import LIMIT

    unsaid = {"output": None, "limit": LIMIT, "seed": 0, "kind": None, "language": None, "yes": False}
    for flag, value in unsaid.items():
        if getattr(args, flag) != value:
            raise BadInput(f"abreast cases list: --{flag} is for abreast cases new", "leave it out")


def _list(args: argparse.Namespace) -> int:
    """Every case in the order of the files; for programs with the truth."""
    from abreast.spec.cases import load_cases

    _refuse_flags_of_new(args)
    experiment = _experiment(args)
    table = load_cases(experiment.spec.cases, experiment.base)
    try:
        found = [table[index] for index in range(len(table))]
    finally:
        table.close()
    tags = sorted(table.tag_keys)
    rows = [{"id": case.id, **{key: case.tags.get(key) for key in tags}, "question": case.input} for case in found]
    if args.json:
        rows = [{**row, "expected": case.expected} for row, case in zip(rows, found, strict=True)]
    tables.show(rows, args.json, "there are no cases")
    files = experiment.spec.cases.get("files", []) if isinstance(experiment.spec.cases, dict) else []
    if not args.json:
        where = f" in {', '.join(stores.shown(Path(file)) for file in files)}" if files else ""
        print(f"{_many(len(found))}{where}", file=sys.stderr)
    return 0


def _experiment(args: argparse.Namespace) -> Experiment:
    """What SPEC means, as `abreast run` reads it; of code-search with the flags that choose cases."""
    from abreast import suites
    from abreast.cli import parser_of, spec_or_suite

    words = [args.spec]
    if args.spec == NAME:
        words += ["--repo", str(args.repo), "--mock"]  # no agent is needed to read cases
        words += ["--cases", args.cases] if args.cases else []
        words += [word for text in args.category for word in ("--category", text)]
    elif args.cases or args.category:
        raise BadInput(f"abreast cases list {args.spec}: --cases and --category are for {NAME}", "leave them out")
    suite = suites.load(args.spec) if args.spec in suites.names() else None
    parsed = parser_of("run", suite).parse_args(words)
    parsed.suite = suite
    return spec_or_suite.experiment_of(parsed)


def _new(args: argparse.Namespace) -> int:
    from abreast.suites.code_search import finding, mining
    from abreast.suites.code_search.mining import casefile

    if args.spec != NAME or args.cases or args.category:
        raise BadInput("abreast cases new: takes no SPEC, --cases or --category", "abreast cases new --repo PATH")
    repo = args.repo.expanduser().absolute()
    output = (args.output or finding.folder_of(repo) / casefile.MINED).expanduser().absolute()
    if output.exists() and not output.is_file():
        what = "is a folder" if output.is_dir() else "is no file that cases can be kept in"
        raise BadInput(f"--output {args.output}: {what}", "name a file that ends in .jsonl")
    found = mining.propose(
        repo,
        limit=args.limit,
        seed=args.seed,
        kinds=args.kind or mining.KINDS,
        languages=args.language or (),
        known=casefile.known(output),
    )
    _warn_of_changes(repo, found)
    if not found and not args.json:
        print(_nothing(args), file=sys.stderr)
        return 0
    if args.yes and found:
        casefile.append(output, [casefile.as_line(one.case) for one in found])
    if args.json:
        rows = [{**one.case, "why": one.why, "evidence": list(map(str, one.evidence))} for one in found]
        tables.show(rows, True, "")
    elif args.yes:
        print(f"accepted {_many(len(found))}: {stores.shown(output)}")
    elif sys.stdin is not None and sys.stdin.isatty():
        return _ask(found, output)
    else:
        for one in found:
            print(casefile.as_line(one.case))
        command = shlex.join(["abreast", "cases", "new", "--repo", str(args.repo), "--yes"])
        again = f"{command} writes them to {stores.shown(output)}; on a terminal each is asked about"
        print(f"{_many(len(found))} proposed, none written: {again}", file=sys.stderr)
    return 0


_WHAT = {"list": _list, "new": _new}


def _nothing(args: argparse.Namespace) -> str:
    narrowed = " of these kinds and languages" if args.kind or args.language else ""
    return (
        f"nothing to propose{narrowed}: no name that is defined once, called in few places or set in one file, and not "
        "known or rejected already"
    )


def _many(count: int) -> str:
    return f"{count:,} {'case' if count == 1 else 'cases'}"


def _warn_of_changes(repo: Path, found: list[Proposal]) -> None:
    """A trial works on the commit: what a case says of a changed file may not be so there."""
    from abreast.plan import git

    state = git.state(repo) if found else None
    named = {(repo / path).resolve() for one in found for path in one.case["ground_truth"]["files"]}
    changed = sorted(path for path in (state.changed or () if state else ()) if path.resolve() in named)
    if changed:
        shown = ", ".join(path.name for path in changed[:3]) + (" and more" if len(changed) > 3 else "")
        print(
            tables.printable(f"warning: {shown} changed since the commit, which is what agents will see: commit first"),
            file=sys.stderr,
        )


# -- a person decides ------------------------------------------------------------------------------------------------


def _ask(found: list[Proposal], output: Path) -> int:
    """Show one after another. Each answer is on disk before the next question."""
    from abreast.suites.code_search.mining import casefile

    accepted = rejected = 0
    code = 0
    try:
        for number, one in enumerate(found, 1):
            _show(one, f"{number}/{len(found)}")
            answer = _answer()
            if answer == "q":
                break
            line = casefile.as_line(one.case) if answer == "y" else f"{casefile.REJECTED}{one.id}"
            casefile.append(output, [line])
            accepted, rejected = accepted + (answer == "y"), rejected + (answer == "n")
    except KeyboardInterrupt:
        print(file=sys.stderr)
        code = 130
    where = f": {stores.shown(output)}" if accepted or rejected else ""
    print(f"accepted {_many(accepted)}, rejected {rejected:,}{where}")
    return code


def _show(one: Proposal, position: str) -> None:
    truth = one.case["ground_truth"]
    head = f"{position}  {one.id}  ({one.case['category']}, {one.case['difficulty']})"
    lines = [head, f"  question  {one.case['prompt']}", f"  files     {', '.join(truth['files'])}"]
    lines += [f"  symbols   {', '.join(truth['symbols'])}"] if truth.get("symbols") else []
    lines += [f"  because   {one.why}", *(f"    {evidence}" for evidence in one.evidence)]
    for line in lines:
        print(tables.printable(line).replace("\n", " "), file=sys.stderr)


def _answer() -> str:
    """y, n or q; the end of the input is q."""
    while True:
        print("accept? [y/n/q] ", end="", file=sys.stderr, flush=True)
        try:
            said = sys.stdin.readline()
        except UnicodeDecodeError:
            continue
        word = {"yes": "y", "no": "n", "quit": "q"}.get(said.strip().lower(), said.strip().lower())
        if not said or word in ("y", "n", "q"):
            return word if said else "q"
        print("y accepts, n rejects, q stops", file=sys.stderr)

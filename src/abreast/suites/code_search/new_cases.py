"""`abreast cases new code-search`: proposals from a repository, which a person accepts or rejects."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import echo, emit, is_interactive, listings, read_answer, say
from abreast.suites import CaseMaker
from abreast.text import many

if TYPE_CHECKING:
    from abreast.suites.code_search.mining import Proposal


class NewCases(CaseMaker):
    summary = "propose cases from a repository, each with its truth and the lines it rests on"
    details = """\
on a terminal every proposal is shown: y accepts it, n rejects it for good, q stops; what was accepted
is kept. Elsewhere the proposals are written to standard output, a case a line, and no file is touched; --yes accepts
them all. The same seed proposes the same cases of the same repository. Needs: pip install "abreast[code]"."""
    default_output = "mined.jsonl beside those of REPO, or in REPO/.abreast/cases"

    def arguments(self, group: argparse._ArgumentGroup) -> None:
        from abreast.languages import LANGUAGES
        from abreast.suites.code_search.mining import KINDS, LIMIT

        add = group.add_argument
        add("--limit", metavar="N", type=int, help=f"so many at most ({LIMIT})")
        add("--seed", metavar="N", type=int, help="another choice of cases (0)")
        add("--kind", choices=KINDS, action="append", help="only these questions (all; may be repeated)")
        add(
            "--language", choices=LANGUAGES, action="append", help="only code in these languages (all; may be repeated)"
        )

    def make(self, args: argparse.Namespace) -> int:
        from abreast.suites.code_search import finding, mining
        from abreast.suites.code_search.mining import casefile

        repo = Path(args.repo or ".").expanduser().absolute()
        output = (args.output or finding.folder_of(repo) / casefile.MINED).expanduser().absolute()
        if output.exists() and not output.is_file():
            what = "is a folder" if output.is_dir() else "is no file that cases can be kept in"
            raise BadInput(f"--output {args.output}: {what}", "name a file that ends in .jsonl")
        proposals = mining.propose(
            repo,
            limit=mining.LIMIT if args.limit is None else args.limit,
            seed=args.seed or 0,
            kinds=args.kind or mining.KINDS,
            languages=args.language or (),
            known=casefile.known_cases(output),
        )
        _warn_of_changes(repo, proposals)
        if not proposals and not args.json:
            say(_nothing(args))
            return 0
        if args.yes and proposals:
            casefile.append(output, [casefile.as_line(proposal.case) for proposal in proposals])
        if args.json:
            rows = [{**proposal.case, "why": proposal.why, "evidence": proposal.evidence} for proposal in proposals]
            listings.show_json(rows)
        elif args.yes:
            echo(f"accepted {many(len(proposals), 'case')}: {relative_path(output)}")
        elif is_interactive():
            return _ask(proposals, output)
        else:
            for proposal in proposals:
                emit(casefile.as_line(proposal.case) + "\n")
            command = shlex.join(["abreast", "cases", "new", "--repo", args.repo or ".", "--yes"])
            again = f"{command} writes them to {relative_path(output)}; on a terminal each is asked about"
            say(f"{many(len(proposals), 'case')} proposed, none written: {again}")
        return 0


def _nothing(args: argparse.Namespace) -> str:
    narrowed = " of these kinds and languages" if args.kind or args.language else ""
    return f"nothing to propose{narrowed}: no question with a certain answer that is not known or rejected already"


def _warn_of_changes(repo: Path, proposals: list[Proposal]) -> None:
    """A trial works on the commit: what a case says of a changed file may not be so there."""
    from abreast.plan import git

    state = git.state(repo) if proposals else None
    named = {(repo / path).resolve() for proposal in proposals for path in proposal.case["ground_truth"]["files"]}
    changed = sorted(path for path in (state.changed or () if state else ()) if path.resolve() in named)
    if changed:
        shown = ", ".join(path.name for path in changed[:3]) + (" and more" if len(changed) > 3 else "")
        say(f"warning: {shown} changed since the commit, which is what agents will see: commit first")


# -- a person decides ------------------------------------------------------------------------------------------------


def _ask(proposals: list[Proposal], output: Path) -> int:
    """Show one after another. Each answer is on disk before the next question."""
    from abreast.suites.code_search.mining import casefile

    accepted = rejected = 0
    code = 0
    try:
        for number, proposal in enumerate(proposals, 1):
            _show(proposal, f"{number}/{len(proposals)}")
            answer = _answer()
            if answer == "q":
                break
            line = casefile.as_line(proposal.case) if answer == "y" else f"{casefile.REJECTED}{proposal.id}"
            casefile.append(output, [line])
            accepted, rejected = accepted + (answer == "y"), rejected + (answer == "n")
    except KeyboardInterrupt:
        say()
        code = 130
    where = f": {relative_path(output)}" if accepted or rejected else ""
    echo(f"accepted {many(accepted, 'case')}, rejected {rejected:,}{where}")
    return code


def _show(proposal: Proposal, position: str) -> None:
    truth = proposal.case["ground_truth"]
    measured = f"{proposal.case['difficulty']}: git grep scores {proposal.case['tags']['grep_f1']}"
    head = f"{position}  {proposal.id}  ({proposal.case['category']}, {measured})"
    lines = [head, f"  question  {proposal.case['prompt']}", f"  files     {', '.join(truth['files'])}"]
    lines += [f"  symbols   {', '.join(truth['symbols'])}"] if truth.get("symbols") else []
    lines += [f"  because   {proposal.why}", *(f"    {evidence}" for evidence in proposal.evidence)]
    for line in lines:
        say(line.replace("\n", " "))


def _answer() -> str:
    """y, n or q; the end of the input is q."""
    while True:
        line = read_answer("accept? [y/n/q] ")
        word = {"yes": "y", "no": "n", "quit": "q"}.get(line.strip().lower(), line.strip().lower())
        if not line or word in ("y", "n", "q"):
            return word or "q"
        say("y accepts, n rejects, q stops")

"""`abreast cases new code-search`: propose cases from a repository, for a person to accept or reject."""

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
    summary = "propose cases from a repository, each with its ground truth and evidence"
    details = """\
on a terminal, each proposal is shown: y accepts it, n rejects it for good, q quits and keeps what was
accepted. Without a terminal, proposals are written to standard output, one per line, and no file is changed. --yes
accepts them all. The same seed proposes the same cases. Needs: pip install "abreast[code]"."""
    default_output = "mined.jsonl next to those of REPO, or in REPO/.abreast/cases"

    def arguments(self, group: argparse._ArgumentGroup) -> None:
        from abreast.languages import LANGUAGES
        from abreast.suites.code_search.mining import KINDS, LIMIT

        add = group.add_argument
        add("--limit", metavar="N", type=int, help=f"propose at most N cases ({LIMIT})")
        add("--seed", metavar="N", type=int, help="seed of the selection (0)")
        add("--kind", choices=KINDS, action="append", help="only this kind of question; repeatable")
        add("--language", choices=LANGUAGES, action="append", help="only code in this language; repeatable")

    def make(self, args: argparse.Namespace) -> int:
        from abreast.suites.code_search import finding, mining
        from abreast.suites.code_search.mining import casefile

        repo = Path(args.repo or ".").expanduser().absolute()
        output = (args.output or finding.case_folder(repo) / casefile.MINED).expanduser().absolute()
        if output.exists() and not output.is_file():
            problem = "is a folder" if output.is_dir() else "not a regular file"
            raise BadInput(f"--output {args.output}: {problem}", "use a file that ends in .jsonl")
        proposals = mining.propose(
            repo,
            limit=mining.LIMIT if args.limit is None else args.limit,
            seed=args.seed or 0,
            kinds=args.kind or mining.KINDS,
            languages=args.language or (),
            excluded=casefile.known_cases(output),
        )
        _warn_of_changes(repo, proposals)
        if not proposals and not args.json:
            say(_explain_nothing(args))
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
            hint = f"to accept them all into {relative_path(output)}, run `{command}`"
            say(f"{many(len(proposals), 'case')} proposed, none saved; {hint}")
        return 0


def _explain_nothing(args: argparse.Namespace) -> str:
    filters = " of these kinds and languages" if args.kind or args.language else ""
    return f"nothing to propose{filters}: no new question has a certain answer"


def _warn_of_changes(repo: Path, proposals: list[Proposal]) -> None:
    """Warn of uncommitted changes to files in the truth: trials work on the commit."""
    from abreast.plan import git

    state = git.state(repo) if proposals else None
    paths = {(repo / path).resolve() for proposal in proposals for path in proposal.case["ground_truth"]["files"]}
    changed = sorted(path for path in (state.changed or () if state else ()) if path.resolve() in paths)
    if changed:
        names = ", ".join(path.name for path in changed[:3]) + (" and more" if len(changed) > 3 else "")
        say(f"warning: uncommitted changes in {names}; agents will see the commit, so commit first")


# -- interaction ------------------------------------------------------------------------------------------------------


def _ask(proposals: list[Proposal], output: Path) -> int:
    """Show the proposals in turn. Each answer is saved before the next question."""
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
    """Read y, n or q; the end of the input is q."""
    while True:
        line = read_answer("accept? [y/n/q] ")
        word = {"yes": "y", "no": "n", "quit": "q"}.get(line.strip().lower(), line.strip().lower())
        if not line or word in ("y", "n", "q"):
            return word or "q"
        say("y accepts, n rejects, q quits")

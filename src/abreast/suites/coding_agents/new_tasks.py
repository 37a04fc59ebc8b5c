"""`abreast cases new coding-agents`: the tasks of pull requests, in a file."""

from __future__ import annotations

import argparse
import itertools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import echo, listings, say
from abreast.suites import CaseMaker
from abreast.text import many

if TYPE_CHECKING:
    from abreast.suites.coding_agents.history import Draft

FILE = "tasks.jsonl"
LAST = 10
MOST_LEFT_OUT = 20  # that are told one by one


class NewTasks(CaseMaker):
    summary = "write the tasks of merged pull requests into a file, for abreast run coding-agents --tasks FILE"
    details = """\
tasks are the messages of pull requests without what would reveal the change; with --model a model
that sees the change writes them. What the file has already is kept and not asked again, edited or not; a file with
other tasks is left alone, unless --yes replaces them."""
    default_output = FILE

    def arguments(self, group: argparse._ArgumentGroup) -> None:
        add = group.add_argument
        add("--last", metavar="N", type=int, help=f"the last N merged pull requests ({LAST})")
        add("--commits", metavar="A,B..C", action="append", help="these instead of the last ones; repeatable")
        add("--branch", metavar="B", help="whose history is read (what is checked out)")
        model = "a model that sees the change writes the tasks: claude-..., gpt-..., openai:MODEL"
        add("--model", metavar="M", help=model)

    def make(self, args: argparse.Namespace) -> int:
        from abreast.suites.coding_agents import repository
        from abreast.suites.coding_agents.history import Draft

        if args.last is not None and args.last < 1:
            raise BadInput(f"--last {args.last}: must be a whole number of at least 1")
        commits = [one.strip() for text in args.commits or () for one in text.split(",") if one.strip()]
        if commits and args.last is not None:
            raise BadInput("--commits and --last are both given", "keep one of them")
        draft = Draft.open(
            repository.local(args.repo or ".", Path.cwd(), repository.STAGE),
            Path(args.output or FILE).expanduser(),
            last=args.last or LAST,
            branch=args.branch or "HEAD",
            commits=commits,
            model=args.model,
            may_replace=args.yes,
        )
        total, before = len(draft.chosen), len(draft.entries())
        numbers = itertools.count(before + 1)
        try:
            draft.write(lambda entry: _say(f"{next(numbers)}/{total}  {entry.id}  {entry.title}"))
        except KeyboardInterrupt:
            written = f"{len(draft.entries()):,} of {total:,} tasks are in {relative_path(draft.path)}"
            _say(f"interrupted: {written}; the same command goes on")
            return 130
        finally:
            _report(draft)
        entries = draft.entries()
        if args.json:
            listings.show_json([entry.told() for entry in entries])
            return 0
        kept = f" ({before:,} of them were there before)" if before else ""
        echo(f"{many(len(entries), 'task')}{kept}: {relative_path(draft.path)}")
        words = ["--repo", args.repo or ".", "--tasks", str(args.output or FILE)]
        _say(f"read them, then: abreast run coding-agents --agents claude-code,codex {shlex.join(words)}")
        return 0


def _report(draft: Draft) -> None:
    """Say what matters however it ended: warnings, what is left out, and what was spent."""
    for warning in draft.warnings:
        _say(f"warning: {warning}")
    for item in draft.left_out[-MOST_LEFT_OUT:]:
        _say(f'left out: {item.commit[:12]} "{item.title}" {item.reason}')
    if len(draft.left_out) > MOST_LEFT_OUT:
        _say(f"left out besides: {many(len(draft.left_out) - MOST_LEFT_OUT, 'older commit')}")
    if draft.model is not None and draft.model.spent.requests:
        _say(draft.model.told())


def _say(text: str) -> None:
    say(" ".join(text.split()))

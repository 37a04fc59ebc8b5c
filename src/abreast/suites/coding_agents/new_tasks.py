"""`abreast cases new coding-agents`: write the tasks of pull requests to a file."""

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
    from abreast.suites.coding_agents.history import TaskWriter

FILE = "tasks.jsonl"
LAST = 10
MOST_LISTED = 20  # excluded commits


class NewTasks(CaseMaker):
    summary = "write the tasks of merged pull requests to a file, for abreast run coding-agents --tasks FILE"
    details = """\
tasks are the messages of pull requests without what would reveal the change; with --model, a model
that sees the change writes them. Tasks that are already in the file are kept, edited or not; a file with other tasks is
only overwritten with --yes."""
    default_output = FILE

    def arguments(self, group: argparse._ArgumentGroup) -> None:
        add = group.add_argument
        add("--last", metavar="N", type=int, help=f"use the last N merged pull requests ({LAST})")
        add(
            "--commits",
            metavar="A,B..C",
            action="append",
            help="use these commits instead of the last ones; repeatable",
        )
        add("--branch", metavar="B", help="read the history of this branch (the one checked out)")
        model = "let a model that sees the change write the tasks: claude-..., gpt-..., openai:MODEL"
        add("--model", metavar="M", help=model)

    def make(self, args: argparse.Namespace) -> int:
        from abreast.suites.coding_agents import repository
        from abreast.suites.coding_agents.history import TaskWriter

        if args.last is not None and args.last < 1:
            raise BadInput(f"--last {args.last}: must be a whole number of at least 1")
        commits = [name.strip() for text in args.commits or () for name in text.split(",") if name.strip()]
        if commits and args.last is not None:
            raise BadInput("--commits and --last cannot be combined", "keep one of them")
        writer = TaskWriter.open(
            repository.local(args.repo or ".", Path.cwd(), repository.STAGE),
            Path(args.output or FILE).expanduser(),
            last=args.last or LAST,
            branch=args.branch or "HEAD",
            commits=commits,
            model=args.model,
            may_replace=args.yes,
        )
        total, before = len(writer.chosen), len(writer.entries())
        numbers = itertools.count(before + 1)
        try:
            writer.write(lambda entry: _say(f"{next(numbers)}/{total}  {entry.id}  {entry.title}"))
        except KeyboardInterrupt:
            progress = f"{len(writer.entries()):,} of {total:,} tasks written to {relative_path(writer.path)}"
            _say(f"interrupted: {progress}; run the same command to continue")
            return 130
        finally:
            _report(writer)
        entries = writer.entries()
        if args.json:
            listings.show_json([entry.as_dict() for entry in entries])
            return 0
        note = f" ({before:,} kept)" if before else ""
        echo(f"{many(len(entries), 'task')}{note}: {relative_path(writer.path)}")
        words = ["--repo", args.repo or ".", "--tasks", str(args.output or FILE)]
        _say(f"review them, then run: abreast run coding-agents --agents claude-code,codex {shlex.join(words)}")
        return 0


def _report(writer: TaskWriter) -> None:
    """Print warnings, exclusions and cost."""
    for warning in writer.warnings:
        _say(f"warning: {warning}")
    for item in writer.exclusions[-MOST_LISTED:]:
        _say(f'left out: {item.commit[:12]} "{item.title}" {item.reason}')
    if len(writer.exclusions) > MOST_LISTED:
        _say(f"left out: {many(len(writer.exclusions) - MOST_LISTED, 'older commit')}")
    if writer.model is not None and writer.model.spending.requests:
        _say(writer.model.spending_in_words())


def _say(text: str) -> None:
    say(" ".join(text.split()))

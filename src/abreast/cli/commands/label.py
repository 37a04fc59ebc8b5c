"""`abreast label`: people label a blind random sample of the answers that a judge scored."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.cli.command import argument, command, flag
from abreast.errors import BadInput
from abreast.output import echo, is_interactive, listings, read_answer

if TYPE_CHECKING:
    from abreast.experiment.labels.labelling import LabelBlock, Labelling, LabelProgress, LabelQuestion
    from abreast.store import Store


def _positive(word: str) -> int:
    if not word.isascii() or not word.isdecimal() or not int(word):
        raise argparse.ArgumentTypeError(f'"{word}" is not a number of cases')
    return int(word)


@command(
    "label",
    argument("run", metavar="RUN", nargs="?", default="latest", help="name of the run (default: latest)"),
    argument("--sample", metavar="N", type=_positive, help="cases to label (default: 60, or the recorded number)"),
    argument("--seed", metavar="N", type=int, help="seed of the sample (default: the run's seed)"),
    argument("--scorer", metavar="NAME", help="the judged score to label (default: the primary score)"),
    argument("--by", metavar="NAME", help="who labels (default: your account name)"),
    argument("--export", metavar="FILE.csv", help="write the sample as a sheet to fill in"),
    argument("--import", metavar="FILE.csv", dest="imported", help="store the labels of a filled-in sheet"),
    "--store",
    flag("--json", "print progress as JSON and ask nothing"),
    epilog="""Variants and the judge's scores are hidden, and the answers to a case are shown in random order.
keys: a number on the judge's scale (in pairs 1, 2 or t for a tie) · s skip · u undo · q quit
Labels are stored as you type them; run the command again to continue. The sample is random, with a recorded seed;
a larger --sample keeps existing labels. With 20 or more labelled cases the verdict is corrected.""",
)
def label(args: argparse.Namespace) -> int:
    from abreast.experiment.control import account_name
    from abreast.experiment.labels.labelling import Labelling
    from abreast.experiment.labels.sheet import read_sheet, write_sheet

    if args.export and args.imported:
        raise BadInput("label: --export and --import exclude each other", "import the filled-in sheet first")
    asks = not (args.export or args.imported or args.json)
    if asks and not is_interactive():
        raise BadInput(
            "label: standard input is not a terminal",
            f"run `abreast label {args.run} --export labels.csv`, fill it in, then use --import labels.csv",
        )
    with store_argument.find_store(args.store) as store:
        labelling = Labelling.open(
            store, args.run, by=args.by or account_name(), scorer=args.scorer, sample=args.sample, seed=args.seed
        )
        if args.export:
            rows = write_sheet(labelling, Path(args.export))
            command = f"abreast label {labelling.run} --import {args.export}{store_argument.option(store)}"
            if not args.json:
                echo(f"{args.export}: {rows:,} answers to label; fill in the last column, then: {command}")
        elif args.imported:
            changed = read_sheet(labelling, Path(args.imported))
            labelling.finish()
            if not args.json:
                echo(f"{labelling.run}: {changed:,} labels imported" if changed else f"{labelling.run}: no new labels")
        code = _ask_all(labelling) if asks else 0
        if asks:
            labelling.finish()
        progress = labelling.progress()
        if args.json:
            fields = ("run", "scorer", "seed", "sample", "labelled", "skipped", "left")
            listings.show_json([{name: getattr(progress, name) for name in fields}])
        elif not args.export:
            _conclude(progress, store)
    return code


# -- on a terminal -----------------------------------------------------------------------------------------------------


def _ask_all(labelling: Labelling) -> int:
    """Ask for every missing label; return the exit code."""
    answered: list[LabelQuestion] = []
    block = None
    try:
        while (question := next(labelling.pending(), None)) is not None:
            if block is not question.block:
                block = question.block
                _show(labelling, block)
            line = read_answer(_prompt(labelling, question))
            word = line.strip().lower()
            if not line or word in ("q", "quit"):
                return 0
            if word in ("u", "undo"):
                if answered:
                    labelling.withdraw(answered.pop())
                else:
                    echo("  nothing to undo in this session")
                continue
            try:
                labelling.record([(question, labelling.parse(question, word))])
            except ValueError:
                echo(f"  type {labelling.expects}, or s (skip), u (undo), q (quit)")
                continue
            answered.append(question)
    except KeyboardInterrupt:
        echo()
        return 130
    return 0


def _show(labelling: Labelling, block: LabelBlock) -> None:
    repeat = f" · repeat {block.repeat + 1}" if block.repeat else ""
    echo(f"\n=== case {block.number} of {labelling.progress().sample}{repeat}")
    parts = [("task", block.task), ("expected answer", block.expected)]
    parts += [(f"answer {number}", answer.text) for number, answer in enumerate(block.answers, 1)]
    for title, text in parts:
        if text:
            echo(f"--- {title}\n{text}")
    for dimension in labelling.dimensions:
        echo(f"--- {dimension}: {labelling.judge.rubric[dimension]}")


def _prompt(labelling: Labelling, question: LabelQuestion) -> str:
    of_dimension = f"{question.dimension}, " if len(labelling.dimensions) > 1 else ""
    if labelling.judge.pairwise:
        return f"{of_dimension}which answer is better? 1, 2 or t (tie): "
    low, high = labelling.judge.scale
    return f"{of_dimension}answer {question.answer_number}, {low:g} (worst) … {high:g} (best): "


# -- at the end --------------------------------------------------------------------------------------------------------


def _conclude(progress: LabelProgress, store: Store) -> None:
    """Print the progress, and the verdict once the sample is complete: an earlier look would bias it."""
    from abreast.analyse.run import analyse
    from abreast.cli.reports import write_reports, write_results
    from abreast.report.words.verdict_sentence import verdict_lines

    where = store_argument.option(store)
    skipped = f", {progress.skipped:,} skipped" if progress.skipped else ""
    echo(f"{progress.run}: {progress.labelled:,} of {progress.sample:,} cases labelled{skipped} (seed {progress.seed})")
    if progress.left:
        echo(f"  to continue: abreast label {progress.run}{where}")
        return
    analysis = analyse(store, progress.run)
    write_reports(analysis)
    write_results(analysis)
    for line in verdict_lines(analysis):
        echo(f"  {line}")
    echo(f"  report: abreast report {progress.run}{where}")

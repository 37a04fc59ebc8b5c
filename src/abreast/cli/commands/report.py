"""`abreast report`, `compare` and `validate`: what runs came to."""

from __future__ import annotations

import argparse
import contextlib
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.cli.command import TABLE, argument, command, flag
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import console, echo, emit, emit_json, listings, while_read
from abreast.text import many, printable

if TYPE_CHECKING:
    from abreast.store import Store


@command(
    "report",
    "run",
    argument("--format", metavar="F", action="append", default=[], help="of the report (see below); repeatable"),
    argument("--output", metavar="DIR", help="where files go, instead of runs/RUN beside the store"),
    flag("--all-pairs", "compare each variant with each, not only with the baseline"),
    flag("--no-trials", "leave single trials out of json and junit"),
    "--no-pictures --no-artifacts",
    flag("--no-escape-formulas", "leave texts in csv as they are, even =, +, -, @ formulas"),
    "--fail-if --store --json",
    epilog="""formats:
  terminal, markdown, json, csv, junit   go to standard output, or with --output DIR to a file in it
  html, svg, png, all                    go to files in runs/RUN beside the store, or in DIR
Several, separated by commas, go to files. A file that is there already is never overwritten.""",
)
def report(args: argparse.Namespace) -> int:
    from abreast.analyse.decision import gates
    from abreast.analyse.run import analyse
    from abreast.cli.reports import results_line, tell_unmet, write_results
    from abreast.report import folder
    from abreast.report.formats import catalogue, json_report
    from abreast.report.formats.terminal import render

    pictures = not args.no_pictures
    forms, required = catalogue.parse_names(args.format, pictures), [gates.read(text) for text in args.fail_if]
    with store_argument.find_store(args.store) as store:
        analysis = analyse(store, args.run, args.all_pairs)
        unmet = gates.failures(required, analysis)
        request = catalogue.ReportRequest(
            analysis,
            trials=not args.no_trials,
            unmet=unmet,
            pictures=pictures,
            artifacts=not args.no_artifacts,
            escape_formulas=not args.no_escape_formulas,
        )
        if args.json:
            listings.show_json([json_report.report(analysis)])
        elif forms in ([], ["terminal"]) and not args.output:
            console().print(render(analysis, store_argument.option(store)), crop=False)
            for line in results_line(write_results(analysis, None, pictures)):
                echo(line)
            echo(f"  run      {analysis.run['run']} ({analysis.run['experiment']}, {analysis.run['status']})")
        elif len(forms) == 1 and catalogue.load(forms[0]).is_printed and not args.output:
            for piece in while_read(catalogue.pieces(request, forms[0])):
                emit(piece)
        else:
            target = Path(args.output) if args.output else folder.home(store, analysis.run["run"])
            try:
                written = catalogue.write(request, forms or ["html"], target)
            except OSError as error:
                raise BadInput(f"{target}: the report cannot be written there ({error.strerror})") from None
            for path in (*written, *write_results(analysis, args.output, pictures)):
                echo(relative_path(path))
    return tell_unmet(unmet)


@command(
    "compare",
    argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help="two or more, by name or label; the first is the baseline (default: previous latest)",
    ),
    "--variant",
    argument(
        "--margin", metavar="X", type=float, default=0.0, help="the smallest difference that matters, such as 0.05"
    ),
    argument("--format", choices=("terminal", "markdown", "json", "junit"), default="terminal"),
    argument(
        "--fail-if", metavar="EXPR", action="append", default=[], help='exit 1 if it holds: worse, "cost > +10%%", ...'
    ),
    argument(
        "--store",
        metavar="S",
        action="append",
        default=[],
        help="where the runs are; repeatable, each is looked for in all",
    ),
    "--json",
    epilog="""The first run is the one the others are compared with, variant by variant of the same name.
RUN:VARIANT names one, so that two of different names can be compared:
  abreast compare brave-otter-4821:short quiet-heron-0217:brief
Answers that one run reused from the other are set aside. If nothing remains to be compared, the exit code is 1.""",
)
def compare_runs(args: argparse.Namespace) -> int:
    from abreast.analyse.compare import compare
    from abreast.analyse.decision import gates
    from abreast.cli.reports import tell_unmet
    from abreast.report.words import run_comparison

    if not 0 <= args.margin <= 1:
        raise BadInput(f"--margin {args.margin:g}: must lie between 0 and 1", "5 points are 0.05")
    required = [gates.read(text) for text in args.fail_if]
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(store_argument.find_store(address)) for address in args.store or [None]]
        items = compare(stores, args.runs or ["previous", "latest"], args.variant, args.margin)
    unmet = gates.unmet_across(required, items)
    if args.json:
        listings.show_json([run_comparison.as_objects(items)])
    elif args.format == "json":
        emit_json(run_comparison.as_objects(items), allow_nan=False, indent=1)
    elif args.format == "junit":
        emit(run_comparison.as_junit(items, unmet))
    elif args.format == "markdown":
        echo(run_comparison.as_markdown(items).removesuffix("\n"))
    else:
        for line in run_comparison.text(items):
            echo(line)
    return tell_unmet(unmet) or int(not any(item.is_compared for item in items))


@command(
    "validate",
    "run",
    argument("--table", metavar="T", help="what trackers wrote into this table"),
    "--store --json",
    epilog="""Exit code 1 if a finding is serious; notes alone exit 0. Rows of trackers are validated too:
  abreast validate --table metrics
  abreast validate brave-otter-4821          a track_id, in predictions or --table""",
)
def validate_result(args: argparse.Namespace) -> int:
    from abreast.analyse.validate import validate, validate_table
    from abreast.report.words.verdict_sentence import SIMULATED

    with store_argument.find_store(args.store) as store:
        table, track_id = _tracked(store, args.run, args.table)
        result = validate(store, args.run) if table is None else validate_table(store, table, track_id)
    code = int(result.serious > 0)
    if args.json:
        listings.show_json([asdict(finding) for finding in result.findings])
        return code
    if result.run["simulated"]:
        echo(SIMULATED)
    for finding in result.findings:
        echo(f"{finding.level}: {finding.check}: {_line(finding.message)}")
        echo(f"    {_line(finding.fix)}")
        if finding.ids:
            ids = ", ".join(_line(name)[: listings.CELL] for name in finding.ids)
            more = f" and {finding.count - len(finding.ids):,} more" if finding.count > len(finding.ids) else ""
            echo(f"    {finding.concerns}: {ids}{more}")
    trials = many(result.trials, result.noun)
    if result.findings:
        notes = len(result.findings) - result.serious
        echo(f"{result.run['run']}: {result.serious} serious, {many(notes, 'note')} in {trials}")
    else:
        message = f"{result.run['run']}: nothing found in {trials}: looked for {', '.join(result.looked_for)}"
        echo(textwrap.fill(message, width=100, subsequent_indent="    ", break_long_words=False))
    return code


def _tracked(store: Store, run: str, table: str | None) -> tuple[str | None, str | None]:
    """The table and the track_id, if what is meant are rows of trackers; a store without runs has no other."""
    from abreast.store.run_names import matching_runs
    from abreast.store.user_tables.tables import extent, written_as
    from abreast.store.user_tables.tracked_rows import plain_name

    is_named = run != "latest"
    if is_named and not matching_runs(store, run) and written_as(store, run):
        return plain_name(table or TABLE), run
    if table is not None and not is_named:
        return plain_name(table), None
    if table is not None:
        raise BadInput(f'{table}: nothing was tracked as "{run}"', "abreast ls track_id --unique")
    return (TABLE, None) if not is_named and not store.runs() and extent(store, TABLE)[0] else (None, None)


def _line(text: str) -> str:
    return " ".join(printable(text).split())

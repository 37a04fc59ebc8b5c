"""`abreast report`, `compare` and `validate`: the results of runs."""

from __future__ import annotations

import argparse
import contextlib
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.cli.command import TABLE, argument, command, flag
from abreast.cli.log_options import LOG_OPTIONS, import_options
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import console, echo, emit, listings, while_read
from abreast.text import dump_json, many, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from abreast.analyse.compare import AcrossRuns
    from abreast.store import Store


@command(
    "report",
    "run",
    argument("--format", metavar="F", action="append", default=[], help="format of the report (see below); repeatable"),
    argument("--output", metavar="DIR", help="write files to DIR instead of runs/RUN next to the store"),
    flag("--all-pairs", "compare all pairs of variants, not only each with the baseline"),
    flag("--no-trials", "omit single trials from json and junit"),
    "--no-pictures --no-artifacts",
    flag("--no-escape-formulas", "keep csv cells that begin with =, +, - or @ as they are"),
    "--fail-if --on-inconclusive --store --json",
    epilog="""formats:
  terminal, markdown, json, csv, junit   printed on standard output, or written to a file in --output DIR
  github                                 the same, and in GitHub Actions job summary, annotations and outputs
  html, svg, png, all                    written to files in runs/RUN next to the store, or in DIR
Several formats, separated by commas, are written to files. Existing files are never overwritten.""",
)
def report(args: argparse.Namespace) -> int:
    from abreast.analyse.decision import gates
    from abreast.analyse.run import analyse
    from abreast.cli.reports import print_unmet, publish, results_line, write_results
    from abreast.report import folder
    from abreast.report.formats import catalogue, json_report
    from abreast.report.formats.terminal import render

    pictures = not args.no_pictures
    formats = catalogue.parse_names(args.format, pictures)
    gates.requirements(args.fail_if, args.on_inconclusive)  # refuse wrong ones first
    with store_argument.find_store(args.store) as store:
        analysis = analyse(store, args.run, args.all_pairs)
        texts = [*(analysis.rows.spec.get("fail_if") or ()), *args.fail_if]
        required = gates.requirements(texts, args.on_inconclusive)
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
        elif formats in ([], ["terminal"]) and not args.output:
            console().print(render(analysis, store_argument.option(store)), crop=False)
            for line in results_line(write_results(analysis, None, pictures)):
                echo(line)
            echo(f"  run      {analysis.run['run']} ({analysis.run['experiment']}, {analysis.run['status']})")
        elif len(formats) == 1 and catalogue.load(formats[0]).is_printed and not args.output:
            for piece in while_read(catalogue.pieces(request, formats[0])):
                emit(piece)
        else:
            target = Path(args.output) if args.output else folder.home(store, analysis.run["run"])
            try:
                written = catalogue.write(request, formats or ["html"], target)
            except OSError as error:
                raise BadInput(f"{target}: cannot write the report ({error.strerror})") from None
            for path in (*written, *write_results(analysis, args.output, pictures)):
                echo(relative_path(path))
        for name in formats:
            publish(catalogue.load(name).publish(request))
    return print_unmet(unmet)


@command(
    "compare",
    argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help="two or more runs, by name or label, or logs of other tools; the first is the baseline (default: previous "
        "latest)",
    ),
    "--variant",
    argument(
        "--margin", metavar="X", type=float, default=0.0, help="the smallest difference that matters, such as 0.05"
    ),
    argument("--format", choices=("terminal", "markdown", "json", "junit", "github"), default="terminal"),
    argument("--output", metavar="FILE", help="write the comparison to FILE instead of standard output"),
    argument(
        "--fail-if", metavar="EXPR", action="append", default=[], help='exit 1 if this holds: worse, "cost > +10%%"'
    ),
    "--on-inconclusive",
    flag("--allow-unchanged", "exit 0 if a run has no new answers, because nothing that is measured has changed"),
    argument(
        "--store",
        metavar="S",
        action="append",
        default=[],
        help="a store with these runs; repeatable, runs are looked up in all of them",
    ),
    *LOG_OPTIONS,
    "--json",
    epilog="""The other runs are compared with the first, each variant with the one of the same name.
To compare variants with different names, write RUN:VARIANT:
  abreast compare brave-otter-4821:short quiet-heron-0217:brief
Logs of other tools (see `abreast import --help`) are compared like runs, and with runs; nothing is stored:
  abreast compare logs/monday.eval logs/tuesday.eval
Answers that one run reused from the other are set aside. If nothing is left to compare, the exit code is 1;
with --allow-unchanged it is 0 if the only reason is that all answers were reused.""",
)
def compare_runs(args: argparse.Namespace) -> int:
    from abreast.analyse.compare import compare
    from abreast.analyse.decision import gates
    from abreast.cli.reports import print_unmet, publish
    from abreast.importers.temporary import contenders, files_among
    from abreast.report.words import run_comparison

    if not 0 <= args.margin <= 1:
        raise BadInput(f"--margin {args.margin:g}: must be from 0 to 1", "use 0.05 for five points")
    required = gates.requirements(args.fail_if, args.on_inconclusive)
    names = args.runs or ["previous", "latest"]
    with contextlib.ExitStack() as stack:
        files = files_among(names)
        stores = []
        if args.store or len(files) < len(set(names)):
            stores = [stack.enter_context(store_argument.find_store(address)) for address in args.store or [None]]
        elif any(path.is_dir() for path in files.values()):  # a run or its label may have the name of a folder
            with contextlib.suppress(BadInput):
                stores = [stack.enter_context(store_argument.find_store(None))]
        chosen = stack.enter_context(contenders(names, stores, import_options(args)))
        stores += [chosen.store] if chosen.store else []
        items = compare(stores, chosen.names, args.variant, args.margin)
    unmet = gates.unmet_across(required, items, args.allow_unchanged)
    if args.output:
        _write_comparison(
            Path(args.output),
            _comparison_text("json" if args.json else args.format, items, unmet, args.allow_unchanged),
        )
    elif args.json:
        listings.show_json([run_comparison.as_objects(items)])
    elif args.format in ("json", "junit", "github"):
        emit(_comparison_text(args.format, items, unmet, args.allow_unchanged))
    else:
        echo(_comparison_text(args.format, items, unmet, args.allow_unchanged).removesuffix("\n"))
    if args.format == "github" and not args.json:
        from abreast.report.formats import github

        publish(github.of_runs(items, unmet).publish())
    return print_unmet(unmet) or int(
        not any(item.is_compared or (args.allow_unchanged and item.is_unchanged) for item in items)
    )


def _comparison_text(form: str, items: Sequence[AcrossRuns], unmet: Sequence[str], allow_unchanged: bool) -> str:
    from abreast.report.words import run_comparison

    if form == "json":
        return dump_json(run_comparison.as_objects(items), allow_nan=False, indent=1) + "\n"
    if form == "github":
        from abreast.report.formats import github

        return github.of_runs(items, unmet).text()
    if form == "junit":
        return run_comparison.as_junit(items, unmet, allow_unchanged)
    return run_comparison.as_markdown(items) if form == "markdown" else "\n".join(run_comparison.text(items)) + "\n"


def _write_comparison(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: cannot write the comparison ({error.strerror})") from None
    echo(relative_path(path))


@command(
    "validate",
    "run",
    argument("--table", metavar="T", help="validate the rows of trackers in this table"),
    "--store --json",
    epilog="""The exit code is 1 if a finding is serious; notes alone exit 0. To validate rows of trackers:
  abreast validate --table metrics
  abreast validate brave-otter-4821          a track_id, in predictions or --table""",
)
def validate_result(args: argparse.Namespace) -> int:
    from abreast.analyse.validate import validate, validate_table
    from abreast.report.words.verdict_sentence import SIMULATED

    with store_argument.find_store(args.store) as store:
        table, track_id = _tracked_rows(store, args.run, args.table)
        result = validate(store, args.run) if table is None else validate_table(store, table, track_id)
    code = int(result.serious > 0)
    if args.json:
        listings.show_json([asdict(finding) for finding in result.findings])
        return code
    if result.run["simulated"]:
        echo(SIMULATED)
    for finding in result.findings:
        echo(f"{finding.level}: {finding.check}: {_line(finding.message)}")
        echo(f"    help: {_line(finding.fix)}")
        if finding.ids:
            ids = ", ".join(_line(name)[: listings.CELL] for name in finding.ids)
            more = f" and {finding.count - len(finding.ids):,} more" if finding.count > len(finding.ids) else ""
            echo(f"    {finding.concerns}: {ids}{more}")
    trials = many(result.trials, result.noun)
    if result.findings:
        notes = len(result.findings) - result.serious
        echo(f"{result.run['run']}: {result.serious} serious, {many(notes, 'note')} in {trials}")
    else:
        message = f"{result.run['run']}: no problems found in {trials}; checked for {', '.join(result.looked_for)}"
        echo(textwrap.fill(message, width=100, subsequent_indent="    ", break_long_words=False))
    return code


def _tracked_rows(store: Store, run: str, table: str | None) -> tuple[str | None, str | None]:
    """Return table and track_id if the arguments select rows of trackers (the default in a store without runs)."""
    from abreast.store.run_names import matching_runs
    from abreast.store.user_tables.tables import extent, row_counts
    from abreast.store.user_tables.tracked_rows import plain_name

    is_named = run != "latest"
    if is_named and not matching_runs(store, run) and row_counts(store, run):
        return plain_name(table or TABLE), run
    if table is not None and not is_named:
        return plain_name(table), None
    if table is not None:
        raise BadInput(f'{table}: no rows with track_id "{run}"', "run `abreast ls track_id --unique`")
    return (TABLE, None) if not is_named and not store.runs() and extent(store, TABLE)[0] else (None, None)


def _line(text: str) -> str:
    return " ".join(printable(text).split())

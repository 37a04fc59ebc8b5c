"""`abreast report`: the report of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import console, echo, emit, listings, while_read

EPILOG = """formats:
  terminal, markdown, json, csv, junit   go to standard output, or with --output DIR to a file in it
  html, svg, png, all                    go to files in runs/RUN beside the store, or in DIR
Several, separated by commas, go to files. A file that is there already is never overwritten."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    store_argument.add_shared(parser, "run")
    add("--format", metavar="F", action="append", default=[], help="of the report (see below); repeatable")
    add("--output", metavar="DIR", help="where files go, instead of runs/RUN beside the store")
    add("--all-pairs", action="store_true", help="compare each variant with each, not only with the baseline")
    add("--no-trials", action="store_true", help="leave single trials out of json and junit")
    add("--no-pictures", action="store_true", help="a page without pictures, and no picture files")
    add("--no-artifacts", action="store_true", help="a page alone, without files beside it of what trials left")
    add("--no-escape-formulas", action="store_true", help="leave texts in csv as they are, even =, +, -, @ formulas")
    add("--fail-if", metavar="EXPR", action="append", default=[], help='exit 1 if it holds: worse, "score < 0.8", ...')
    store_argument.add_shared(parser, "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.analyse.decision import gates
    from abreast.analyse.run import analyse
    from abreast.cli.reports import results_line, tell_unmet, write_results
    from abreast.report import folder
    from abreast.report.formats import catalogue, json_report
    from abreast.report.formats.terminal import render

    forms, required = catalogue.named(args.format, not args.no_pictures), [gates.read(text) for text in args.fail_if]
    with store_argument.find_store(args.store) as store:
        analysis = analyse(store, args.run, args.all_pairs)
        unmet = gates.failures(required, analysis)
        request = catalogue.ReportRequest(
            analysis,
            trials=not args.no_trials,
            unmet=unmet,
            pictures=not args.no_pictures,
            artifacts=not args.no_artifacts,
            escape_formulas=not args.no_escape_formulas,
        )
        if args.json:
            listings.show_json([json_report.report(analysis)])
        elif forms in ([], ["terminal"]) and not args.output:
            console().print(render(analysis, store_argument.option(store)), crop=False)
            for line in results_line(write_results(analysis, None, not args.no_pictures)):
                echo(line)
            echo(f"  run      {analysis.run['run']} ({analysis.run['experiment']}, {analysis.run['status']})")
        elif len(forms) == 1 and catalogue.load(forms[0]).is_printed and not args.output:
            for piece in while_read(catalogue.pieces(request, forms[0])):
                emit(piece)
        else:
            place = Path(args.output) if args.output else folder.home(store, analysis.run["run"])
            try:
                written = catalogue.write(request, forms or ["html"], place)
            except OSError as error:
                raise BadInput(f"{place}: the report cannot be written there ({error.strerror})") from None
            for path in (*written, *write_results(analysis, args.output, not args.no_pictures)):
                echo(relative_path(path))
    return tell_unmet(unmet)

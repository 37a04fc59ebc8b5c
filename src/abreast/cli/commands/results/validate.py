"""`abreast validate`: what makes a result untrustworthy."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.output import echo, listings
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.analyse.validate import Finding
    from abreast.store import Store

EPILOG = """Exit code 1 if a finding is serious; notes alone exit 0. Rows of trackers are validated too:
  abreast validate --table metrics
  abreast validate brave-otter-4821          a track_id, in predictions or --table"""


def arguments(parser: argparse.ArgumentParser) -> None:
    store_argument.add_shared(parser, "run")
    parser.add_argument("--table", metavar="T", help="what trackers wrote into this table")
    store_argument.add_shared(parser, "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.analyse.validate import validate, validate_table
    from abreast.report.words.verdict_sentence import SIMULATED
    from abreast.text import many

    with store_argument.find_store(args.store) as store:
        table, track_id = _tracked(store, args.run, args.table)
        found = validate(store, args.run) if table is None else validate_table(store, table, track_id)
    if args.json:
        listings.show_json([asdict(finding) for finding in found.findings])
        return int(found.serious > 0)
    if found.run["simulated"]:
        echo(SIMULATED)
    for finding in found.findings:
        _print(finding)
    trials = many(found.trials, found.noun)
    if found.findings:
        notes = len(found.findings) - found.serious
        echo(f"{found.run['run']}: {found.serious} serious, {many(notes, 'note')} in {trials}")
    else:
        told = f"{found.run['run']}: nothing found in {trials}: looked for {', '.join(found.looked_for)}"
        echo(textwrap.fill(told, width=100, subsequent_indent="    ", break_long_words=False))
    return int(found.serious > 0)


def _tracked(store: Store, run: str, table: str | None) -> tuple[str | None, str | None]:
    """The table and the track_id, if what is meant are rows of trackers; a store without runs has no other."""
    from abreast.cli.store_argument import TABLE
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


def _print(finding: Finding) -> None:
    echo(f"{finding.level}: {finding.check}: {_line(finding.message)}")
    echo(f"    {_line(finding.fix)}")
    if finding.ids:
        ids = ", ".join(_line(one)[: listings.CELL] for one in finding.ids)
        more = f" and {finding.count - len(finding.ids):,} more" if finding.count > len(finding.ids) else ""
        echo(f"    {finding.concerns}: {ids}{more}")


def _line(text: str) -> str:
    return " ".join(printable(text).split())

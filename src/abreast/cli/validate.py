"""`abreast validate`: what makes a result untrustworthy."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from abreast.cli import stores, tables
from abreast.output import echo
from abreast.text import printable

if TYPE_CHECKING:
    from abreast.analyse.validate import Finding

EPILOG = "exit 1 if a finding is serious; notes alone exit 0"


def arguments(parser: argparse.ArgumentParser) -> None:
    stores.run_argument(parser)
    stores.argument(parser)
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    from abreast.analyse.validate import validate
    from abreast.report.sentence import SIMULATED, many

    with stores.find_store(args.store) as store:
        found = validate(store, args.run)
    if args.json:
        tables.show([asdict(finding) for finding in found.findings], True, "")
        return int(found.serious > 0)
    if found.run["simulated"]:
        echo(SIMULATED)
    for finding in found.findings:
        _print(finding)
    trials = many(found.trials, "trial")
    if found.findings:
        notes = len(found.findings) - found.serious
        echo(f"{found.run['run']}: {found.serious} serious, {many(notes, 'note')} in {trials}")
    else:
        told = f"{found.run['run']}: nothing found in {trials}: looked for {', '.join(found.looked_for)}"
        echo(textwrap.fill(told, width=100, subsequent_indent="    ", break_long_words=False))
    return int(found.serious > 0)


def _print(finding: Finding) -> None:
    echo(f"{finding.level}: {finding.check}: {_line(finding.message)}")
    echo(f"    {_line(finding.fix)}")
    if finding.ids:
        ids = ", ".join(_line(one)[: tables.CELL] for one in finding.ids)
        more = f" and {finding.count - len(finding.ids):,} more" if finding.count > len(finding.ids) else ""
        echo(f"    {finding.concerns}: {ids}{more}")


def _line(text: str) -> str:
    return " ".join(printable(text).split())

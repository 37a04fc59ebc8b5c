"""`abreast history`: an experiment over its labelled runs, with a verdict from each to the next."""

from __future__ import annotations

import argparse
from typing import Any

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.output import listings
from abreast.store import Store
from abreast.text import moment

EPILOG = "Label runs with: abreast run --label e1.2.0, or abreast tag RUN e1.2.0"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT", nargs="?", help="its name; the only one if left out")
    parser.add_argument("--all", action="store_true", help="all complete runs, labelled or not")
    store_argument.add_shared(parser, "--variant")
    parser.add_argument("--margin", metavar="X", type=float, default=0.0, help="the smallest difference that matters")
    store_argument.add_shared(parser, "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.analyse.compare import history
    from abreast.report.words.verdict_sentence import points, trusted

    with store_argument.find_store(args.store) as store:
        experiment = _experiment(args.experiment, store)
        rows: list[dict[str, Any]] = []
        for step in history(store, experiment, args.all, args.variant, args.margin):
            run, item = step.run, step.against_previous
            interval = trusted(item.comparison.verdict) if item else None
            difference = item.comparison.verdict.interval if item else None
            rows.append(
                {
                    "label": run["label"],
                    "run": run["run"],
                    "started": moment(run["created_at"]),
                    "commit": step.commit,
                    "variant": step.variant,
                    "score": step.score,
                    "against": item.first.run if item else None,
                    "verdict": item.word if item else None,
                    "points": None if difference is None else points(difference.estimate),
                    "interval": None if interval is None else f"{points(interval.low)} … {points(interval.high)}",
                    "cases": item.comparison.cases if item else None,
                    "series": step.series,
                    "series_why": step.series_why or None,
                }
            )
    listings.show(
        rows if args.json else _for_people(rows), args.json, f"{experiment}: no labelled run; --all shows all of them"
    )
    return 0


def _for_people(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The series only where there are several; why one began, where it does."""
    several = len({row["series"] for row in rows}) > 1
    told, known = [], {rows[0]["series"]} if rows else set()
    for row in rows:
        begins = several and row["series"] not in known
        known.add(row["series"])
        series = f"{row['series']} begins: {row['series_why']}" if begins else str(row["series"])
        kept = {key: value for key, value in row.items() if key not in ("series", "series_why")}
        told.append({**kept, "series": series} if several else kept)
    return told


def _experiment(wanted: str | None, store: Store) -> str:
    if wanted is not None:
        store_argument.check_experiment(wanted, store)
        return wanted
    known = list(dict.fromkeys(run["experiment"] for run in store.runs()))
    if len(known) != 1:
        raise BadInput(f"there are several experiments: {', '.join(known)}", "name one: abreast history NAME")
    return str(known[0])

"""`abreast runs`, `tag` and `history`: the runs of a store."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from abreast.cli import store_argument
from abreast.cli.command import argument, command, flag
from abreast.errors import BadInput
from abreast.output import echo, listings
from abreast.text import moment

_OPTIONAL = ("debug", "simulated", "imported", "label", "extends", "reason")  # columns shown only if a run has a value


@command("runs", "--store", "--json")
def list_runs(args: argparse.Namespace) -> None:
    with store_argument.find_store(args.store) as store:
        rows = [
            {
                "run": run["run"],
                "experiment": run["experiment"],
                "status": run["status"],
                "trials": run["stored_trials"],
                "planned": run["planned_trials"],
                "debug": bool(run["debug"]),
                "simulated": bool(run["simulated"]),
                "imported": (provenance.get("imported") or {}).get("tool"),
                "label": run["label"],
                "extends": (provenance.get("extends") or {}).get("run"),
                "series": provenance.get("series") or 1,
                "started": moment(run["created_at"]),
                "reason": run["reason"],
            }
            for run in store.runs()
            for provenance in [json.loads(run["provenance"])]
        ]
    listings.show(rows if args.json else _without_empty(rows), args.json, "no runs yet")


def _without_empty(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows without empty columns, and with words in place of true."""
    words = {"debug": "debug", "simulated": "SIMULATED"}
    hidden = {key for key in _OPTIONAL if not any(row[key] for row in rows)}
    hidden |= {"series"} if len({row["series"] for row in rows}) == 1 else set()
    return [
        {
            key: (words.get(key, value) if value else "") if key in _OPTIONAL else value
            for key, value in row.items()
            if key not in hidden
        }
        for row in rows
    ]


@command(
    "tag",
    argument("run", metavar="RUN", help="name, current label or unique prefix of a run, latest or previous"),
    argument("label", metavar="LABEL", nargs="?", help="such as e1.2.0 (default: show the current label)"),
    flag("--remove", "remove the label"),
    flag("--git", "also tag the run's commit in git"),
    "--store",
)
def tag(args: argparse.Namespace) -> None:
    from abreast.store.run_names import check_label_in

    if args.remove and args.label is not None:
        raise BadInput("tag: --remove takes no label", f"use `abreast tag {args.run} --remove`")
    if args.git and not args.label:
        raise BadInput("tag: --git needs a label", f"use `abreast tag {args.run} e1.2.0 --git`")
    with store_argument.find_store(args.store) as store:
        run = store.run(args.run)
        if args.label is not None:
            check_label_in(store, args.label, run["run"])
        if args.git:
            _tag_commit(run, args.label)
        if args.label is not None or args.remove:
            store.label(run["run"], args.label)
        label = store.run(run["run"])["label"]
    echo(f"{run['run']}: {label or 'no label'}")


def _tag_commit(run: dict[str, Any], label: str) -> None:
    from abreast.plan.git import tag as tag_commit

    stored = json.loads(run["provenance"])
    if not stored.get("commit"):
        raise BadInput(f"{run['run']}: no commit to tag: the run was not started in a git repository")
    if stored.get("dirty"):
        message = f"{run['run']}: the run used uncommitted changes, so its commit is not what was measured"
        raise BadInput(message, "commit first, then run again")
    if problem := tag_commit(Path(json.loads(run["spec"])["base"]), stored["commit"], label):
        raise BadInput(f"git tag {label}: {problem}")


@command(
    "history",
    argument("experiment", metavar="EXPERIMENT", nargs="?", help="name of the experiment (default: the only one)"),
    flag("--all", "all complete runs, labelled or not"),
    "--variant",
    argument("--margin", metavar="X", type=float, default=0.0, help="the smallest difference that matters"),
    "--store --json",
    epilog="Label runs with `abreast run --label e1.2.0` or `abreast tag RUN e1.2.0`.",
)
def show_history(args: argparse.Namespace) -> None:
    from abreast.analyse.compare import history
    from abreast.report.words.verdict_sentence import points, trusted

    with store_argument.find_store(args.store) as store:
        experiments = list(dict.fromkeys(run["experiment"] for run in store.runs()))
        if args.experiment is not None:
            store_argument.check_experiment(args.experiment, store)
            experiments = [args.experiment]
        if len(experiments) != 1:
            message = f"several experiments: {', '.join(experiments)}"
            raise BadInput(message, "choose one: `abreast history NAME`")
        rows: list[dict[str, Any]] = []
        for step in history(store, experiments[0], args.all, args.variant, args.margin):
            item = step.against_previous
            interval = trusted(item.comparison.verdict) if item else None
            difference = item.comparison.verdict.interval if item else None
            rows.append(
                {
                    "label": step.run["label"],
                    "run": step.run["run"],
                    "started": moment(step.run["created_at"]),
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
    nothing = f"{experiments[0]}: no labelled runs; --all shows all runs"
    listings.show(rows if args.json else _with_series(rows), args.json, nothing)


def _with_series(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with a column for the series if there are several, and why each began."""
    are_several = len({row["series"] for row in rows}) > 1
    begun = {row["series"] for row in rows[:1]}
    for row in rows:
        why, number = row.pop("series_why"), row.pop("series")
        if are_several:
            row["series"] = str(number) if number in begun else f"{number} begins: {why}"
        begun.add(number)
    return rows

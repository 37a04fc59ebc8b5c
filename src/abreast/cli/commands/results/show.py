"""`abreast show`: one run, or one case of it with all answers."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from abreast.cli import store_argument
from abreast.errors import BadInput, suggestion
from abreast.model import OUTSIDE_FILES, STATE, TEST_FILES
from abreast.output import console, echo, listings
from abreast.store import Store
from abreast.text import many, storable


def arguments(parser: argparse.ArgumentParser) -> None:
    store_argument.add_shared(parser, "run")
    parser.add_argument("case", metavar="CASE", nargs="?", help="the id of one case")
    parser.add_argument(
        "--artifact", metavar="NAME", help="what the trials of the case left under this name: diff, ..."
    )
    parser.add_argument("--events", action="store_true", help="what the scheduler did and why")
    store_argument.add_shared(parser, "--store", "--json")


def main(args: argparse.Namespace) -> int:
    with store_argument.find_store(args.store) as store:
        run = store.run(args.run)
        if args.events:
            _show_events(store, run, args.json)
        elif args.artifact:
            _show_artifacts(store, run, args.case and storable(args.case), args.artifact, args.json)
        elif args.case:
            _show_case(store, run, storable(args.case), args.json)
        else:
            _show_run(store, run, args.json)
    return 0


def _show_run(store: Store, run: dict[str, Any], as_json: bool) -> None:
    from abreast.analyse.run import analyse
    from abreast.report.formats.terminal import render

    shown = {key: value for key, value in run.items() if key not in ("owner", "epoch", "heartbeat_at", "run_id")}
    shown["spec"], shown["provenance"] = json.loads(run["spec"]), json.loads(run["provenance"])
    if as_json:
        listings.show_json([shown])
        return
    provenance = shown["provenance"]
    echo(f"{run['run']}: {run['experiment']}, {run['status']}{', debug' if run['debug'] else ''}")
    echo(f"  {run['stored_trials']:,} of {many(run['planned_trials'], 'trial')} stored, seed {run['seed']}")
    commit = provenance["commit"] or "no commit"
    echo(f"  {commit}{' with uncommitted changes' if provenance['dirty'] else ''}, data {provenance['data_hash']}")
    echo(f"  Python {provenance['python']}, {provenance['host']}")
    console().print(render(analyse(store, run["run"]), store_argument.option(store)), crop=False)


def _show_events(store: Store, run: dict[str, Any], as_json: bool) -> None:
    rows = [event._asdict() for event in store.queries.events(run["run_id"])]
    for row in rows:
        if not as_json:
            row["happened_at"] = time.strftime("%H:%M:%S", time.localtime(row["happened_at"]))
            row["detail"] = ", ".join(f"{key} {value}" for key, value in row["detail"].items())
    listings.show(rows, as_json, "nothing worth telling happened")


_FLAGS = {
    TEST_FILES: "changed tests, which were restored before the check",
    OUTSIDE_FILES: "files outside of the workspace changed meanwhile",
}
LONGEST_EXPECTED = 2_000  # characters


def _show_artifacts(store: Store, run: dict[str, Any], case: str | None, name: str, as_json: bool) -> None:
    rows = store.queries.artifacts_of_case(run["run_id"], case)
    known = {row["name"] for row in rows}
    if name not in known:
        of_case = f' of the case "{case}"' if case else ""
        raise BadInput(f'{run["run"]}: no trial{of_case} left an artifact "{name}"{suggestion(name, known)}')
    rows = [row for row in rows if row["name"] == name]
    if as_json:
        listings.show_json(rows)
        return
    for row in rows:
        if len(rows) > 1:
            echo(f"--- {row['case_id']}, {row['variant']}, repeat {row['repeat']}")
        echo(row["content"])


def _show_case(store: Store, run: dict[str, Any], case: str, as_json: bool) -> None:
    from abreast.report.words.verdict_sentence import SIMULATED, failure

    rows = store.queries.predictions(run["run"], case)
    if not rows:
        ids = [known.id for known in store.queries.stored_cases(run["run_id"])[:1_000]]
        raise BadInput(f'{run["run"]}: no trial of a case "{case}" is stored{suggestion(case, ids)}')
    if as_json:
        listings.show_json(rows)
        return
    artifacts: dict[tuple[str, int], list[str]] = {}
    scores: dict[tuple[str, int], list[str]] = {}
    for one in store.queries.artifacts_of_case(run["run_id"], case):
        if one["name"] != STATE:
            artifacts.setdefault((one["variant"], one["repeat"]), []).append(one["name"])
    for one in store.queries.scores_of_case(run["run_id"], case):
        scores.setdefault((one["variant"], one["repeat"]), []).append(listings.score_line(one))
    if run["simulated"]:
        echo(SIMULATED)
    echo(f"case {case}\nprompt: {listings.passage(rows[0]['prompt'] or '')}")
    if rows[0]["expected"] is not None:
        echo(f"expected: {listings.passage(str(rows[0]['expected']), LONGEST_EXPECTED)}")
    for row in rows:
        score = "no score" if row["score"] is None else f"score {row['score']:.4g}"
        echo(f"\n--- {row['variant']}, repeat {row['repeat']}: {row['status']}, {score}")
        echo(listings.passage(row["answer"] if row["status"] == "ok" else failure(row)))
        for line in scores.get((row["variant"], row["repeat"]), ()):
            echo(line)
        for name, what in _FLAGS.items():
            if row.get(name):
                echo(f"{what}: {', '.join(json.loads(row[name]))}")
        left = artifacts.get((row["variant"], row["repeat"]))
        if left:
            echo(f"left: {', '.join(left)} (show it: --artifact {left[0]})")

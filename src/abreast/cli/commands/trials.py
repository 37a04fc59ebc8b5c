"""`abreast show` and `logs`: a run, a case, or single trials."""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from typing import Any

from abreast.cli import store_argument
from abreast.cli.command import argument, command, flag
from abreast.errors import BadInput, suggestion
from abreast.model import OUTSIDE_FILES, STATE, TEST_FILES
from abreast.output import console, echo, listings, say
from abreast.store import Store
from abreast.store.runs.provenance import ImportRecord
from abreast.text import many, storable

_INTERNAL_COLUMNS = ("owner", "epoch", "heartbeat_at", "run_id")
_CHANGED_FILES = {
    TEST_FILES: "changed tests, restored before the check",
    OUTSIDE_FILES: "files changed outside the workspace",
}
LONGEST_EXPECTED = 2_000  # characters
LONGEST = {"prompt": listings.PASSAGE, "answer": listings.PASSAGE, "data": listings.PASSAGE, "raw_response": 4_000}


@command(
    "show",
    "run",
    argument("case", metavar="CASE", nargs="?", help="the id of one case"),
    argument("--artifact", metavar="NAME", help="print this artifact of the trials, such as diff"),
    flag("--events", "print what the scheduler did and why"),
    "--store --json",
)
def show(args: argparse.Namespace) -> None:
    with store_argument.find_store(args.store) as store:
        run, case = store.run(args.run), args.case and storable(args.case)
        if args.events:
            _show_events(store, run, args.json)
        elif args.artifact:
            _show_artifacts(store, run, case, args.artifact, args.json)
        elif case:
            _show_case(store, run, case, args.json)
        else:
            _show_run(store, run, args.json)


def _show_run(store: Store, run: dict[str, Any], as_json: bool) -> None:
    from abreast.analyse.run import analyse
    from abreast.report.formats.terminal import render

    provenance = json.loads(run["provenance"])
    if as_json:
        row = {key: value for key, value in run.items() if key not in _INTERNAL_COLUMNS}
        listings.show_json([{**row, "spec": json.loads(run["spec"]), "provenance": provenance}])
        return
    echo(f"{run['run']}: {run['experiment']}, {run['status']}{', debug' if run['debug'] else ''}")
    echo(f"  {run['stored_trials']:,} of {many(run['planned_trials'], 'trial')} stored, seed {run['seed']}")
    record = ImportRecord.read(provenance)
    commit = provenance["commit"] or "no commit"
    echo(f"  {commit}{' with uncommitted changes' if provenance['dirty'] else ''}, data {provenance['data_hash']}")
    echo(f"  Python {provenance['python']}, {provenance['host']}" if record is None else f"  {record.file}")
    console().print(render(analyse(store, run["run"]), store_argument.option(store)), crop=False)


def _show_events(store: Store, run: dict[str, Any], as_json: bool) -> None:
    rows = [event._asdict() for event in store.queries.events(run["run_id"])]
    for row in () if as_json else rows:
        row["happened_at"] = time.strftime("%H:%M:%S", time.localtime(row["happened_at"]))
        row["detail"] = ", ".join(f"{key} {value}" for key, value in row["detail"].items())
    listings.show(rows, as_json, "no events")


def _show_artifacts(store: Store, run: dict[str, Any], case: str | None, name: str, as_json: bool) -> None:
    artifacts = store.queries.artifacts_of_case(run["run_id"], case)
    rows = [row for row in artifacts if row["name"] == name]
    if not rows:
        of_case = f' of the case "{case}"' if case else ""
        near = suggestion(name, {row["name"] for row in artifacts})
        raise BadInput(f'{run["run"]}: no trial{of_case} has an artifact "{name}"{near}')
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
        raise _no_trial_of(case, store, run)
    if as_json:
        listings.show_json(rows)
        return
    artifacts, scores = defaultdict[tuple[str, int], list[str]](list), defaultdict[tuple[str, int], list[str]](list)
    for artifact in store.queries.artifacts_of_case(run["run_id"], case):
        if artifact["name"] != STATE:
            artifacts[artifact["variant"], artifact["repeat"]].append(artifact["name"])
    for score in store.queries.scores_of_case(run["run_id"], case):
        scores[score["variant"], score["repeat"]].append(listings.score_line(score))
    if run["simulated"]:
        echo(SIMULATED)
    echo(f"case {case}\nprompt: {listings.passage(rows[0]['prompt'] or '')}")
    if rows[0]["expected"] is not None:
        echo(f"expected: {listings.passage(str(rows[0]['expected']), LONGEST_EXPECTED)}")
    for row in rows:
        trial = row["variant"], row["repeat"]
        primary = "no score" if row["score"] is None else f"score {row['score']:.4g}"
        echo(f"\n--- {row['variant']}, repeat {row['repeat']}: {row['status']}, {primary}")
        echo(listings.passage(row["answer"] if row["status"] == "ok" else failure(row)))
        for line in scores[trial]:
            echo(line)
        for column, title in _CHANGED_FILES.items():
            if row.get(column):
                echo(f"{title}: {', '.join(json.loads(row[column]))}")
        if names := artifacts[trial]:
            echo(f"artifacts: {', '.join(names)} (to show one: --artifact {names[0]})")


def _no_trial_of(case: str, store: Store, run: dict[str, Any], option: str = "") -> BadInput:
    ids = [stored.id for stored in store.queries.stored_cases(run["run_id"])[:1_000]]
    return BadInput(f'{option}{run["run"]}: no stored trial of case "{case}"{suggestion(case, ids)}')


@command(
    "logs",
    "run",
    argument("--case", metavar="ID", help="only this case"),
    "--variant",
    flag("--errors", "only trials that failed"),
    argument("--limit", metavar="N", type=int, default=100, help="at most N trials (default: 100)"),
    "--store --json",
)
def show_logs(args: argparse.Namespace) -> None:
    from abreast.report.words.verdict_sentence import SIMULATED

    if args.limit < 1:
        raise BadInput(f"--limit {args.limit}: must be a whole number of at least 1")
    with store_argument.find_store(args.store) as store:
        run = store.run(args.run)
        run_id, queries = int(run["run_id"]), store.queries
        if args.case is not None and all(case.id != args.case for case in queries.stored_cases(run_id)):
            raise _no_trial_of(args.case, store, run, "--case: ")
        if args.variant is not None and args.variant not in (names := queries.variant_digests(run_id)):
            raise BadInput(f'--variant: {run["run"]}: no variant "{args.variant}"{suggestion(args.variant, names)}')
        rows = queries.logged_trials(run_id, args.case, args.variant, args.errors, args.limit + 1)
        are_more = len(rows) > args.limit
        del rows[args.limit :]
        for row in rows:
            position = row.pop("position")
            row["scores"] = queries.scores_of(run_id, position)
            row["failed_attempts"] = queries.failed_attempts(run_id, position)
    if args.json or not rows:
        listings.show(rows, args.json, "no failed trials" if args.errors else "no matching trials")
        return
    if run["simulated"]:
        echo(SIMULATED)
    for row in rows:
        _echo_trial(row)
    if are_more:
        say(f"only the first {many(args.limit, 'trial')}; --limit N shows more")


def _echo_trial(row: dict[str, Any]) -> None:
    from abreast.report.words.verdict_sentence import failure

    reused = f", reused from {row['reused_from']}" if row["reused_from"] else ""
    echo(f"=== {row['case_id']} · {row['variant']} · repeat {row['repeat']}: {row['status']}{reused}")
    times = {"service_s": "of service", "queue_s": "queued", "backoff_s": "in back-off"}
    parts = [f"{row[name]:.3f} s {what}" for name, what in times.items() if row[name] is not None]  # imported: unknown
    parts += [f"{row['in_flight']} in flight"] if row["in_flight"] else []
    echo(f"    {', '.join([many(row['attempts'], 'attempt'), *parts])}")
    for attempt in row["failed_attempts"]:
        echo(f"    attempt {attempt['attempt']}: {attempt['error_kind']}: {attempt['error']}")
    for title, longest in LONGEST.items():
        if row[title]:
            echo(f"  {title}: {listings.passage(row[title], longest)}")
    if row["error"] is not None:
        echo(f"  {failure(row)}")
    for line in (row["error_detail"] or "").splitlines():
        echo(f"    {line}")
    for score in row["scores"]:
        echo(f"  {listings.score_line(score)}")

"""`abreast logs`: prompts, answers, errors and attempts of single trials."""

from __future__ import annotations

import argparse
from typing import Any

from abreast.cli import store_argument
from abreast.errors import BadInput, suggestion
from abreast.output import echo, listings, say

_MOST_SHOWN = {"raw_response": 4_000}  # characters


def arguments(parser: argparse.ArgumentParser) -> None:
    store_argument.add_shared(parser, "run")
    parser.add_argument("--case", metavar="ID", help="only this case")
    store_argument.add_shared(parser, "--variant")
    parser.add_argument("--errors", action="store_true", help="only trials that failed")
    parser.add_argument("--limit", metavar="N", type=int, default=100, help="at most N trials (100)")
    store_argument.add_shared(parser, "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.report.words.verdict_sentence import SIMULATED
    from abreast.text import many

    if args.limit < 1:
        raise BadInput(f"--limit {args.limit}: must be a whole number of at least 1")
    with store_argument.find_store(args.store) as store:
        run = store.run(args.run)
        run_id, queries = int(run["run_id"]), store.queries
        if args.case is not None and args.case not in (ids := [case.id for case in queries.stored_cases(run_id)]):
            told = f'no trial of a case "{args.case}" is stored{suggestion(args.case, ids)}'
            raise BadInput(f"--case: {run['run']}: {told}")
        if args.variant is not None and args.variant not in (names := queries.variant_digests(run_id)):
            raise BadInput(f'--variant: {run["run"]}: no variant "{args.variant}"{suggestion(args.variant, names)}')
        rows = queries.logged_trials(run_id, args.case, args.variant, args.errors, args.limit + 1)
        more = len(rows) > args.limit
        del rows[args.limit :]
        for row in rows:
            position = row.pop("position")
            row["scores"] = queries.scores_of(run_id, position)
            row["failed_attempts"] = queries.failed_attempts(run_id, position)
    if args.json:
        listings.show_json(rows)
        return 0
    if not rows:
        listings.show([], False, "no trial failed" if args.errors else "no stored trial matches")
    elif run["simulated"]:
        echo(SIMULATED)
    for row in rows:
        _echo(row)
    if more:
        say(f"only the first {many(args.limit, 'trial')}; --limit N shows more")
    return 0


def _echo(row: dict[str, Any]) -> None:
    from abreast.report.words.verdict_sentence import failure
    from abreast.text import many

    reused = f", reused from {row['reused_from']}" if row["reused_from"] else ""
    echo(f"=== {row['case_id']} · {row['variant']} · repeat {row['repeat']}: {row['status']}{reused}")
    echo(
        f"    {many(row['attempts'], 'attempt')}, {row['service_s']:.3f} s of service, {row['queue_s']:.3f} s queued, "
        f"{row['backoff_s']:.3f} s in back-off, {row['in_flight']} in flight"
    )
    for attempt in row["failed_attempts"]:
        echo(f"    attempt {attempt['attempt']}: {attempt['error_kind']}: {attempt['error']}")
    for title in ("prompt", "answer", "data", "raw_response"):
        if row[title]:
            echo(f"  {title}: {listings.passage(row[title], _MOST_SHOWN.get(title, listings.PASSAGE))}")
    if row["error"] is not None:
        echo(f"  {failure(row)}")
    for line in (row["error_detail"] or "").splitlines():
        echo(f"    {line}")
    for score in row["scores"]:
        echo(f"  {listings.score_line(score)}")

"""`abreast logs`: prompts, answers, errors and attempts of single trials."""

from __future__ import annotations

import argparse
from typing import Any

from abreast.cli import store_argument
from abreast.errors import BadInput, suggestion
from abreast.output import echo, listings, say
from abreast.store import Store

_TRIALS = (
    "SELECT t.position, c.id AS case_id, v.name AS variant, t.repeat, t.status, t.error_kind, t.error_blame, t.error, "
    "t.error_detail, t.attempts, t.queue_s, t.backoff_s, t.service_s, t.in_flight, t.reused_from, p.prompt, p.answer, "
    "p.data, p.raw_response FROM trials t JOIN cases c ON c.digest = t.case_digest "
    "JOIN variants v ON v.run_id = t.run_id AND v.variant = t.variant "
    "LEFT JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position "
    "WHERE t.run_id = ?1 AND (?2 IS NULL OR c.id = ?2) AND (?3 IS NULL OR v.name = ?3) "
    "AND (NOT ?4 OR t.status = 'error') ORDER BY t.position LIMIT ?5"
)

_CASES = "SELECT DISTINCT c.id FROM trials t JOIN cases c ON c.digest = t.case_digest WHERE t.run_id = ?"
_VARIANTS = "SELECT name FROM variants WHERE run_id = ?"
_MOST_SHOWN = {"raw_response": 4_000}  # characters


def arguments(parser: argparse.ArgumentParser) -> None:
    store_argument.add_shared(parser, "run")
    parser.add_argument("--case", metavar="ID", help="only this case")
    store_argument.add_shared(parser, "--variant")
    parser.add_argument("--errors", action="store_true", help="only trials that failed")
    parser.add_argument("--limit", metavar="N", type=int, default=100, help="at most N trials (100)")
    store_argument.add_shared(parser, "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.report.words.verdict_sentence import SIMULATED, many

    if args.limit < 1:
        raise BadInput(f"--limit {args.limit}: must be a whole number of at least 1")
    with store_argument.find_store(args.store) as store:
        run = store.run(args.run)
        _check(store, run, "case", args.case, _CASES)
        _check(store, run, "variant", args.variant, _VARIANTS)
        rows = store.dicts(_TRIALS, (run["run_id"], args.case, args.variant, args.errors, args.limit + 1))
        more = len(rows) > args.limit
        del rows[args.limit :]
        for row in rows:
            _add_detail(store, run["run_id"], row)
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


def _check(store: Store, run: dict[str, Any], what: str, name: str | None, query: str) -> None:
    """A name that is not there is a slip, not an empty answer."""
    known = [row[0] for row in store.rows(query, (run["run_id"],))] if name is not None else []
    if name is not None and name not in known:
        told = f'no trial of a case "{name}" is stored' if what == "case" else f'no variant "{name}"'
        raise BadInput(f"--{what}: {run['run']}: {told}{suggestion(name, known)}")


def _add_detail(store: Store, run_id: int, row: dict[str, Any]) -> None:
    where = (run_id, row.pop("position"))
    row["scores"] = store.dicts(
        "SELECT name, value, explanation FROM scores WHERE run_id = ? AND position = ? ORDER BY name", where
    )
    row["failed_attempts"] = store.dicts(
        "SELECT attempt, error_kind, error_blame, error, service_s, waited_s FROM attempts "
        "WHERE run_id = ? AND position = ? ORDER BY attempt",
        where,
    )


def _echo(row: dict[str, Any]) -> None:
    from abreast.report.words.verdict_sentence import failure, many

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

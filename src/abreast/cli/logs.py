"""`abreast logs`: prompts, answers, errors and attempts of single trials."""

from __future__ import annotations

import argparse
from typing import Any

from abreast.cli import stores, tables
from abreast.store import Store

_TRIALS = (
    "SELECT t.position, c.id AS case_id, v.name AS variant, t.repeat, t.status, t.error_kind, t.error_blame, t.error, "
    "t.attempts, t.queue_s, t.backoff_s, t.service_s, t.in_flight, t.reused_from, p.prompt, p.answer, p.data, "
    "p.raw_response FROM trials t JOIN cases c ON c.digest = t.case_digest "
    "JOIN variants v ON v.run_id = t.run_id AND v.variant = t.variant "
    "LEFT JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position "
    "WHERE t.run_id = ?1 AND (?2 IS NULL OR c.id = ?2) AND (?3 IS NULL OR v.name = ?3) "
    "AND (NOT ?4 OR t.status = 'error') ORDER BY t.position LIMIT ?5"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", default="latest", help="its name; the latest if left out")
    parser.add_argument("--case", metavar="ID", help="only this case")
    parser.add_argument("--variant", metavar="NAME", help="only this variant")
    parser.add_argument("--errors", action="store_true", help="only trials that failed")
    parser.add_argument("--limit", metavar="N", type=int, default=100, help="at most N trials (100)")
    stores.argument(parser)
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    with stores.find_store(args.store) as store:
        run = store.run(args.run)
        rows = store.dicts(_TRIALS, (run["run_id"], args.case, args.variant, args.errors, args.limit))
        for row in rows:
            _add_detail(store, run["run_id"], row)
    if args.json:
        tables.show(rows, True, "")
        return 0
    if not rows:
        tables.show([], False, "no stored trial matches")
    for row in rows:
        _print(row)
    return 0


def _add_detail(store: Store, run_id: int, row: dict[str, Any]) -> None:
    where = (run_id, row.pop("position"))
    row["scores"] = store.dicts(
        "SELECT name, value, explanation FROM scores WHERE run_id = ? AND position = ? ORDER BY name", where
    )
    row["failed_attempts"] = store.dicts(
        "SELECT attempt, error_kind, error, service_s, waited_s FROM attempts WHERE run_id = ? AND position = ? "
        "ORDER BY attempt",
        where,
    )


def _print(row: dict[str, Any]) -> None:
    reused = f", reused from {row['reused_from']}" if row["reused_from"] else ""
    print(f"=== {row['case_id']} · {row['variant']} · repeat {row['repeat']}: {row['status']}{reused}")
    print(
        f"    {row['attempts']} attempts, {row['service_s']:.3f} s of service, {row['queue_s']:.3f} s queued, "
        f"{row['backoff_s']:.3f} s in back-off, {row['in_flight']} in flight"
    )
    for attempt in row["failed_attempts"]:
        print(f"    attempt {attempt['attempt']}: {attempt['error_kind']}: {tables.printable(attempt['error'])}")
    for title in ("prompt", "answer", "error", "data", "raw_response"):
        if row[title]:
            print(f"  {title}: {tables.printable(row[title])}")
    for score in row["scores"]:
        print(f"  score_{score['name']}: {score['value']} {tables.printable(score['explanation'])}")

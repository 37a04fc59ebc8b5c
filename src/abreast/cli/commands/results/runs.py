"""`abreast runs`: the runs in a store."""

from __future__ import annotations

import argparse
import json
from typing import Any

from abreast.cli import store_argument
from abreast.output import listings
from abreast.text import moment


def arguments(parser: argparse.ArgumentParser) -> None:
    store_argument.add_shared(parser, "--store", "--json")


def main(args: argparse.Namespace) -> int:
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
                "label": run["label"],
                "extends": (provenance.get("extends") or {}).get("run"),
                "series": provenance.get("series") or 1,
                "started": moment(run["created_at"]),
                "reason": run["reason"],
            }
            for run in store.runs()
            for provenance in [json.loads(run["provenance"])]
        ]
    listings.show(rows if args.json else _for_people(rows), args.json, "no run yet")
    return 0


def _for_people(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Words instead of yes and no, and no column that says nothing of any run."""
    words = {"debug": "debug", "simulated": "SIMULATED"}
    if len({row["series"] for row in rows}) == 1:
        rows = [{key: value for key, value in row.items() if key != "series"} for row in rows]
    told = [
        {key: words.get(key, value) if value else "" for key, value in row.items() if key in _ASIDE} for row in rows
    ]
    kept = [key for key in _ASIDE if any(row[key] for row in told)]
    return [
        {key: aside.get(key, value) for key, value in row.items() if key not in _ASIDE or key in kept}
        for row, aside in zip(rows, told, strict=True)
    ]


_ASIDE = ("debug", "simulated", "label", "extends", "reason")

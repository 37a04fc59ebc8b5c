"""`abreast runs`: the runs in a store."""

from __future__ import annotations

import argparse
import time

from abreast.cli import stores, tables


def arguments(parser: argparse.ArgumentParser) -> None:
    stores.argument(parser)
    tables.argument(parser)


def main(args: argparse.Namespace) -> int:
    with stores.find_store(args.store) as store:
        rows = [
            {
                "run": run["run"],
                "experiment": run["experiment"],
                "status": run["status"],
                "trials": run["stored_trials"],
                "planned": run["planned_trials"],
                "debug": bool(run["debug"]) if args.json else "debug" if run["debug"] else "",
                "simulated": bool(run["simulated"]) if args.json else "SIMULATED" if run["simulated"] else "",
                "label": run["label"] if args.json else run["label"] or "",
                "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run["created_at"])),
                "reason": run["reason"] if args.json else run["reason"] or "",
            }
            for run in store.runs()
        ]
    tables.show(rows, args.json, "no run yet")
    return 0

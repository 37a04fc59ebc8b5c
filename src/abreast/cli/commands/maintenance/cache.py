"""`abreast cache`: what can be reused; clear it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from abreast.cli import store_argument
from abreast.errors import BadInput, suggestion
from abreast.output import echo, listings, say
from abreast.store.user_tables.result_cache import FILE, Cache
from abreast.text import moment

EPILOG = """  stats                      answers of earlier runs that can be reused
  clear                      let nothing of them be reused; rows and reports stay
  ls FOLDER                  the results that Tracker(cache=FOLDER) finds again
  delete FOLDER TRACK_ID     remove those of one tracker from the cache; its rows stay"""

WANTED = {"stats": "", "clear": "", "ls": "FOLDER", "delete": "FOLDER TRACK_ID"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(WANTED))
    parser.add_argument("words", metavar="FOLDER [TRACK_ID]", nargs="*")
    parser.add_argument("--experiment", metavar="NAME", help="only of this experiment")
    store_argument.add_shared(parser, "--yes", "--store", "--json")


def main(args: argparse.Namespace) -> int:
    wanted = WANTED[args.action]
    if len(args.words) != len(wanted.split()):
        raise BadInput(
            f"cache {args.action} takes {wanted or 'no further words'}", f"abreast cache {args.action} {wanted}".strip()
        )
    if args.words:
        return _of_trackers(args, *args.words)
    with store_argument.find_store(args.store) as store:
        if args.action == "stats":
            listings.show(store.reusable(args.experiment), args.json, "nothing can be reused yet")
            return 0
        words = ["abreast", "cache", "clear", "--yes"]
        words += ["--experiment", args.experiment] if args.experiment is not None else []
        question = "forget which answers can be reused? Rows and reports stay."
        if not store_argument.is_confirmed(args, question, f"{shlex.join(words)}{store_argument.option(store)}"):
            say("nothing cleared")
            return 1
        echo(f"cleared: {store.forget(args.experiment):,} answers will not be reused; their rows stay")
    return 0


def _of_trackers(args: argparse.Namespace, folder: str, track_id: str | None = None) -> int:
    if not (Path(folder) / FILE).is_file():
        raise BadInput(f"{folder}: no results are cached here", f"it is the folder of Tracker(cache=...), with {FILE}")
    cache = Cache.open(Path(folder))
    try:
        found = cache.listed()
        if track_id is None:
            listings.show([_shown(row, args.json) for row in found], args.json, f"{folder}: nothing is cached")
            return 0
        known = {row["track_id"] for row in found}
        if track_id not in known:
            raise BadInput(
                f'{folder}: nothing of "{track_id}" is cached{suggestion(track_id, known)}',
                f"abreast cache ls {folder}",
            )
        removed = cache.forget_tracked(track_id)
    finally:
        cache.close()
    echo(f"removed {removed:,} result{'' if removed == 1 else 's'} of {track_id} from {folder}; its rows stay")
    return 0


def _shown(row: dict[str, object], as_json: bool) -> dict[str, object]:
    whole = {
        "function": str(row["key"]).rpartition(":")[0],
        "track_id": row["track_id"],
        "store": row["store"],
        "table": row["table_name"],
        "stored": moment(float(str(row["stored_at"]))),
        "bytes": row["size"],
    }
    return {**whole, "key": row["key"], "row_id": row["row_id"]} if as_json else whole

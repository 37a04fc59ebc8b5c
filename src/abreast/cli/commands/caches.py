"""`abreast cache`, `assets` and `clean`: reusable answers, stored objects, and leftovers of killed runs."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.cli.command import argument, command, flag, words
from abreast.errors import BadInput, suggestion
from abreast.output import echo, listings, say, say_problem
from abreast.store.address import display_address
from abreast.text import many, moment

if TYPE_CHECKING:
    from abreast.store import Store

CACHE_USAGE = {"stats": "", "clear": "", "ls": "FOLDER", "delete": "FOLDER TRACK_ID"}
ASSETS_USAGE = {"ls": "", "export": "DIGEST FILE", "delete": "DIGEST"}


@command(
    "cache",
    argument("action", choices=tuple(CACHE_USAGE)),
    words("FOLDER [TRACK_ID]"),
    argument("--experiment", metavar="NAME", help="only this experiment"),
    "--yes --store --json",
    epilog="""  stats                      show how many answers from earlier runs can be reused
  clear                      stop reusing them; rows and reports stay
  ls FOLDER                  list the results cached by Tracker(cache=FOLDER)
  delete FOLDER TRACK_ID     remove the cached results of one tracker; its rows stay""",
)
def cache(args: argparse.Namespace) -> None:
    usage = CACHE_USAGE[args.action]
    if len(args.words) != len(usage.split()):
        command = f"abreast cache {args.action} {usage}".strip()
        raise BadInput(f"cache {args.action} takes {usage or 'no further arguments'}", f"use `{command}`")
    if args.words:
        _show_or_delete_cached(args.json, *args.words)
        return
    with store_argument.find_store(args.store) as store:
        if args.action == "stats":
            listings.show(store.reusable(args.experiment), args.json, "no reusable answers yet")
            return
        experiment = () if args.experiment is None else ("--experiment", args.experiment)
        question = "stop reusing these answers? Rows and reports stay."
        store_argument.require_confirmation(args, store, question, ["cache", "clear", *experiment])
        echo(f"cleared: {store.forget(args.experiment):,} answers will not be reused; their rows stay")


def _show_or_delete_cached(as_json: bool, folder: str, track_id: str | None = None) -> None:
    from abreast.store.user_tables.result_cache import FILE, Cache

    if not (Path(folder) / FILE).is_file():
        fix = f"name the folder passed to Tracker(cache=...), which contains {FILE}"
        raise BadInput(f"{folder}: not a result cache", fix)
    with closing(Cache.open(Path(folder))) as cached:
        rows = cached.entries()
        if track_id is None:
            listings.show([_cached_result(row, as_json) for row in rows], as_json, f"{folder}: the cache is empty")
            return
        names = {row["track_id"] for row in rows}
        if track_id not in names:
            near = suggestion(track_id, names)
            raise BadInput(f'{folder}: no cached results of "{track_id}"{near}', f"run `abreast cache ls {folder}`")
        removed = cached.forget_tracked(track_id)
    echo(f"removed {many(removed, 'result')} of {track_id} from {folder}; its rows stay")


def _cached_result(row: dict[str, object], as_json: bool) -> dict[str, object]:
    fields = {
        "function": str(row["key"]).rpartition(":")[0],
        "track_id": row["track_id"],
        "store": row["store"],
        "table": row["table_name"],
        "stored": moment(float(str(row["stored_at"]))),
        "bytes": row["size"],
    }
    return {**fields, "key": row["key"], "row_id": row["row_id"]} if as_json else fields


@command(
    "assets",
    argument("action", choices=tuple(ASSETS_USAGE)),
    words("[STORE] [DIGEST] [FILE]"),
    "--yes --store --json",
    epilog="""  ls [STORE]                       list all objects, with the columns that refer to them
  export [STORE] DIGEST FILE       write the pickle of an object to a file, without loading it
  delete [STORE] DIGEST            delete an object; rows keep its digest
A pickle runs code when it is loaded: load only objects from stores you trust.""",
)
def assets(args: argparse.Namespace) -> None:
    address, rest = store_argument.split_words(args, f"assets {args.action}", ASSETS_USAGE[args.action])
    with store_argument.find_store(address) as store:
        if args.action == "ls":
            _list_assets(store, args.json)
            return
        digest = rest[0]
        content = store.assets.read(digest)
        if content is None:
            raise BadInput(f'{display_address(store.address)}: no object "{digest}"', "see `abreast assets ls`")
        size = f"{len(content):,} bytes"
        if args.action == "export":
            Path(rest[1]).write_bytes(content)
            echo(f"wrote {rest[1]} ({size}); a pickle: load it only if you trust the store")
            return
        question = f"delete the object {digest} ({size})?"
        store_argument.require_confirmation(args, store, question, ["assets", "delete", digest])
        store.assets.delete(digest)
        echo(f"deleted {digest} ({size}); rows keep the digest")


def _list_assets(store: Store, as_json: bool) -> None:
    from abreast.store.user_tables.tables import columns_mentioning

    entries = store.assets.entries()
    columns = columns_mentioning(store, [asset.digest for asset in entries])
    rows = [
        {
            "digest": asset.digest,
            "bytes": asset.size,
            "stored": moment(asset.stored_at),
            "columns": columns[asset.digest] if as_json else ", ".join(columns[asset.digest]),
        }
        for asset in entries
    ]
    listings.show(rows, as_json, f"{display_address(store.address)}: no objects")


@command(
    "clean",
    flag("--dry-run", "show what would be removed without removing it"),
    "--json",
    epilog="""\
A run that is killed (kill -9, out of memory, power failure) can leave processes, workspaces and temporary
files behind. run, resume, check and delete remove them too. Live runs and workspaces kept by --keep-workspaces are
not touched. Exit code 1: something could not be removed.""",
)
def clean_up(args: argparse.Namespace) -> int:
    from abreast.report.page.trial_artifacts import in_bytes
    from abreast.targets.processes.cleanup import clean

    cleanup, is_real = clean(args.dry_run), not args.dry_run
    if args.json:
        processes = [
            {"kind": "process", "pid": process.pid, "command": process.command, "removed": is_real}
            for process in cleanup.processes
        ]
        folders = [
            {
                "kind": "folder",
                "path": str(folder.path),
                "bytes": folder.size,
                "removed": is_real and not folder.problem,
                "problem": folder.problem or None,
            }
            for folder in cleanup.folders
        ]
        listings.show_json([*processes, *folders])
    else:
        ended, removed = ("ended", "removed") if is_real else ("would end", "would remove")
        for process in cleanup.processes:
            echo(f"{ended} process {process.pid}: {listings.cut(listings.line(process.command), listings.CELL)}")
        for folder in cleanup.folders:
            if not folder.problem:
                echo(f"{removed} {folder.path} ({in_bytes(folder.size)})")
        if not cleanup:
            say("nothing to clean")
    for problem in cleanup.problems:
        say_problem("error", f"cannot remove {problem}")
    for host in sorted(set(cleanup.elsewhere)):
        say_problem("note", f"runs on {host} are not visible from this machine", "run `abreast clean` there")
    return 1 if cleanup.problems else 0

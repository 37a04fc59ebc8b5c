"""`abreast assets`: objects that trackers keep beside a store."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.cli import store_argument
from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.output import echo, listings, say
from abreast.text import moment

if TYPE_CHECKING:
    from abreast.store import Store
    from abreast.store.user_tables.assets import Assets

EPILOG = """  ls [STORE]                       every object, with the columns that refer to it
  export [STORE] DIGEST FILE       write its pickle into a file; it is not loaded
  delete [STORE] DIGEST            remove it; rows keep the digest
A pickle runs code when it is loaded: load only objects from stores you trust."""

WANTED = {"ls": (), "export": ("DIGEST", "FILE"), "delete": ("DIGEST",)}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=tuple(WANTED))
    parser.add_argument("words", metavar="[STORE] [DIGEST] [FILE]", nargs="*")
    store_argument.add_shared(parser, "--yes", "--store", "--json")


def main(args: argparse.Namespace) -> int:
    from abreast.store.user_tables.assets import Assets

    words, wanted = list(args.words), WANTED[args.action]
    address = words.pop(0) if not args.store and len(words) == len(wanted) + 1 else args.store
    if len(words) != len(wanted):
        usage = " ".join(["abreast assets", args.action, "[STORE]", *wanted])
        raise BadInput(f"assets {args.action}: wrong number of arguments", usage)
    with store_argument.find_store(address) as store:
        assets = Assets(store.path)
        if args.action == "ls":
            _show(store, assets, args.json)
        elif args.action == "export":
            digest, file = words
            content = assets.read(digest)
            Path(file).write_bytes(content)
            echo(
                f"wrote {file} ({len(content):,} bytes); it is a pickle: load it only if you trust who wrote the store"
            )
        else:
            return _delete(store, assets, words[0], args)
    return 0


def _show(store: Store, assets: Assets, as_json: bool) -> None:
    from abreast.store.user_tables.tables import mentions

    used = mentions(store, list(assets))
    rows = [
        {
            "digest": asset.digest,
            "bytes": asset.size,
            "stored": moment(asset.stored_at),
            "columns": used[asset.digest] if as_json else ", ".join(used[asset.digest]),
        }
        for asset in assets.listed()
    ]
    listings.show(rows, as_json, f"{relative_path(store.path)}: no objects")


def _delete(store: Store, assets: Assets, digest: str, args: argparse.Namespace) -> int:
    size = len(assets.read(digest))
    command = f"abreast assets delete {shlex.quote(digest)} --yes{store_argument.option(store)}"
    if not store_argument.is_confirmed(args, f"delete the object {digest} ({size:,} bytes)?", command):
        say("nothing deleted")
        return 1
    assets.delete(digest)
    echo(f"deleted {digest} ({size:,} bytes); rows keep the digest")
    return 0

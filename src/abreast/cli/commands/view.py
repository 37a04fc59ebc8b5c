"""`abreast view`: the live page."""

from __future__ import annotations

import argparse

from abreast.cli import store_argument
from abreast.cli.command import argument, command, flag

TOKEN = "require the token in the printed address, even from other users of this machine; the default with --host"


@command(
    "view",
    argument("store", metavar="STORE", nargs="?", help="default: $ABREAST_STORE, else the only store in this folder"),
    argument("--run", metavar="RUN", help="open the page of this run"),
    argument("--port", metavar="N", type=int, help="default: 8420, or the next one that is free"),
    argument("--host", metavar="ADDRESS", default="127.0.0.1", help="listen on this address (default: 127.0.0.1)"),
    flag("--token", TOKEN),
    flag("--no-open", "do not open the browser"),
    flag("--read-only", "disable controls, labels and deletion"),
)
def view(args: argparse.Namespace) -> None:
    import asyncio

    from abreast.view.server import ViewOptions
    from abreast.view.serving import end_signal, serve

    options = ViewOptions(host=args.host, port=args.port, needs_token=args.token, read_only=args.read_only)
    store = store_argument.find_store(args.store)
    run = store.run(args.run)["run"] if args.run else None
    if store.exists():
        store.run_states()  # refuses a file that is not a store
    asyncio.run(serve(store, options, run, end_signal, opens_browser=not args.no_open))

"""`abreast view`: the live page."""

from __future__ import annotations

import argparse
import asyncio

from abreast.cli import store_argument
from abreast.cli.command import argument, command, flag
from abreast.output import echo, say
from abreast.signals import ending_signals

HOST = "listen on this address instead of 127.0.0.1; the printed address then contains a token that browsers need"


@command(
    "view",
    argument("store", metavar="STORE", nargs="?", help="default: $ABREAST_STORE, else the only store in this folder"),
    argument("--port", metavar="N", type=int, help="default: 8420, or the next one that is free"),
    argument("--host", metavar="ADDRESS", default="127.0.0.1", help=HOST),
    flag("--no-open", "do not open the browser"),
    flag("--read-only", "without controls, labels and deletion"),
    argument("--run", metavar="RUN", help="open the page of this run"),
)
def view(args: argparse.Namespace) -> None:
    from abreast.view.server import ViewOptions, ViewServer

    with store_argument.find_store(args.store) as store:
        server = ViewServer(store, ViewOptions(host=args.host, port=args.port, read_only=args.read_only))

    async def serve() -> None:
        address = await server.start(args.run)
        echo(address, flush=True)
        if not args.no_open:
            await asyncio.to_thread(_open_browser, address)
        try:
            await _until_ended()
        finally:
            await server.close()

    asyncio.run(serve())


async def _until_ended() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in ending_signals():
        loop.add_signal_handler(number, ended.set)
    await ended.wait()


def _open_browser(address: str) -> None:
    import webbrowser

    if not webbrowser.open(address):
        say("  open this address in a browser")

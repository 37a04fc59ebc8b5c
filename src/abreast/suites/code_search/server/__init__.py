"""`abreast-demo-mcp`: an MCP server that searches the code of one folder, over standard input and output.

It is what `abreast run code-search` measures if no other server is named. It needs nothing but Python, git if there is
one, and for all that knows names rather than words the extra `[code]`; nothing heavy is imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from abreast import __version__, regex_timeout
from abreast.languages import INSTALL
from abreast.output import is_interactive, protect, say
from abreast.suites.code_search.server.protocol import Server, serve
from abreast.suites.code_search.server.tools import offered

__all__ = ["Server", "main"]

NAME = "abreast-demo-mcp"
MISSING = f"only search_code is offered, as tree-sitter is not installed. For the other tools: {INSTALL}"


def main(words: Sequence[str] | None = None) -> int:
    protect()
    root = _root(_parser().parse_args(words).root)
    if root is None:
        return 2
    tools = offered(root)
    if len(tools) == 1:
        say(f"{NAME}: {MISSING}")
    if is_interactive():
        say(f"{NAME}: serving {root} to a program that speaks MCP; Ctrl-D ends it. See {NAME} --help")
    regex_timeout.start()
    return serve(Server(NAME, __version__, tools))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=NAME,
        description="An MCP server that searches the code of a folder. It speaks JSON-RPC over standard input and "
        "output; an agent starts it: claude mcp add code -- abreast-demo-mcp",
    )
    parser.add_argument("--root", metavar="PATH", default=".", help="the folder that is searched (this one)")
    parser.add_argument("--version", action="version", version=f"{NAME} {__version__}")
    return parser


def _root(text: str) -> Path | None:
    """The folder, or None after saying what is wrong with it."""
    path = Path(text).expanduser()
    if path.is_dir():
        return path.resolve()
    what = "is a file, not a folder" if path.exists() else "there is no such folder"
    say(f"error: --root {text}: {what}\n       name the folder whose code is searched")
    return None

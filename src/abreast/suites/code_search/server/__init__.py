"""`abreast-demo-mcp`: an MCP server over stdio that searches the code of one folder.

`abreast run code-search` measures it by default. The extra `[code]` adds tools that find names instead of words; heavy
packages are not imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from abreast import __version__, regex_timeout
from abreast.languages import INSTALL
from abreast.output import is_interactive, protect, say, say_problem
from abreast.suites.code_search.server import search
from abreast.suites.code_search.server.arguments import ServerTool
from abreast.suites.code_search.server.files import Files
from abreast.suites.code_search.server.protocol import McpServer, serve

__all__ = ["McpServer", "build_tools", "main"]

NAME = "abreast-demo-mcp"
MISSING = f"tree-sitter is not installed; only search_code is available. For the other tools: {INSTALL}"


def main(words: Sequence[str] | None = None) -> int:
    protect()
    parser = argparse.ArgumentParser(
        prog=NAME,
        description="An MCP server over stdio that searches the code of a folder. Agents start it: "
        "claude mcp add code -- abreast-demo-mcp",
    )
    parser.add_argument("--root", metavar="PATH", default=".", help="the folder to search (default: the current one)")
    parser.add_argument("--version", action="version", version=f"{NAME} {__version__}")
    text = parser.parse_args(words).root
    root = Path(text).expanduser()
    if not root.is_dir():
        problem = "not a folder" if root.exists() else "no such folder"
        say_problem("error", f"--root {text}: {problem}", "use the folder to search")
        return 2
    root = root.resolve()
    tools = build_tools(root)
    if len(tools) == 1:
        say(f"{NAME}: {MISSING}")
    if is_interactive():
        say(f"{NAME}: serving {root} to an MCP client on stdin; press Ctrl-D to quit. See {NAME} --help")
    regex_timeout.start()
    return serve(McpServer(NAME, __version__, tools))


def build_tools(root: Path, patience_s: float = search.PATIENCE_S) -> dict[str, ServerTool]:
    """Return the tools by name; without tree-sitter, only the search."""
    files = Files(root)
    symbol_tools = _symbol_tools(files) if find_spec("tree_sitter") is not None else []
    search_code = ServerTool(
        name="search_code",
        title="Search code",
        purpose="says where a text or a regular expression stands",
        description=search.DESCRIPTION + (search.ABOUT_SYMBOL_TOOLS if symbol_tools else ""),
        parameters=search.PARAMETERS,
        function=partial(search.search_code, files, patience_s),
    )
    return {tool.name: tool for tool in (search_code, *symbol_tools)}


def _symbol_tools(files: Files) -> list[ServerTool]:
    from abreast.suites.code_search.server import symbols as of

    index = of.Symbols(files)
    find = ("find_symbol", "Find a definition", "says where a name is defined")
    references = ("find_references", "Find uses", "says where it is used")
    outline = ("outline_file", "Outline a file", "says what a file defines")
    return [
        ServerTool(*find, of.FIND_SYMBOL, of.SYMBOL_PARAMETERS, index.find_symbol),
        ServerTool(*references, of.FIND_REFERENCES, of.REFERENCE_PARAMETERS, index.find_references),
        ServerTool(*outline, of.OUTLINE_FILE, of.OUTLINE_PARAMETERS, index.outline_file),
    ]

"""The tools that are offered, as a model reads them and as they are called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from abreast.suites.code_search.server import arguments, search
from abreast.suites.code_search.server.arguments import Parameter, Refused
from abreast.suites.code_search.server.files import Files

__all__ = ["Refused", "Tool", "offered"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A name, what it is for, what it takes and what it does."""

    name: str
    title: str
    says: str  # what, in a few words
    description: str
    parameters: tuple[Parameter, ...]
    work: Callable[..., str]

    def described(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": arguments.schema(self.parameters),
            "annotations": {"title": self.title, "readOnlyHint": True, "openWorldHint": False},
        }

    def call(self, given: Any) -> str:
        return self.work(**arguments.taken(self.parameters, given))


def offered(root: Path, patience_s: float = search.PATIENCE_S) -> dict[str, Tool]:
    """By name; without tree-sitter, which is not imported before it is used, only the search."""
    files = Files(root)
    named = _named(files) if find_spec("tree_sitter") is not None else []
    search_code = Tool(
        name="search_code",
        title="Search code",
        says="says where a text or a regular expression stands",
        description=search.DESCRIPTION + (search.BESIDES if named else ""),
        parameters=search.PARAMETERS,
        work=search.Search(files, patience_s).call,
    )
    return {tool.name: tool for tool in (search_code, *named)}


def _named(files: Files) -> list[Tool]:
    from abreast.suites.code_search.server import symbols as named

    of = named.Symbols(files)
    found = ("find_symbol", "Find a definition", "says where a name is defined")
    used = ("find_references", "Find uses", "says where it is used")
    outlined = ("outline_file", "Outline a file", "says what a file defines")
    return [
        Tool(*found, named.FIND_SYMBOL, named.SYMBOL_PARAMETERS, of.find_symbol),
        Tool(*used, named.FIND_REFERENCES, named.REFERENCE_PARAMETERS, of.find_references),
        Tool(*outlined, named.OUTLINE_FILE, named.OUTLINE_PARAMETERS, of.outline_file),
    ]

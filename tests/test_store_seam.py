"""No SQL, database driver or engine is used above `store/`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import abreast

SOURCE = Path(abreast.__file__).parent
DRIVERS = {"apsw", "duckdb", "psycopg", "sqlite3"}
ENGINES = ("abreast.store.sqlite", "abreast.store.duckdb", "abreast.store.postgres")
PRIMITIVES = {"rows", "dicts", "each", "chunks"}  # of a store; they take SQL
SQL = re.compile(
    r"\b(SELECT\b.+\bFROM|INSERT\b.+\bINTO|UPDATE \w+ SET|DELETE FROM|(LEFT|CROSS|INNER) JOIN|JOIN \w+ \w+ ON|"
    r"(CREATE|DROP|ALTER) (TABLE|VIEW|INDEX)|PRAGMA \w+|ATTACH|GROUP BY|ORDER BY|json_(each|extract)\()",
    re.DOTALL,
)
EXAMPLE = re.compile(r"\bselect\b.+\bfrom [a-z_]+|\{\w+\} (=|IS|IN)", re.DOTALL)  # as users write it, or parts of it
FOR_USERS = {  # that are shown to users
    "preflight/questions.py",
    "cli/execution.py",
    "cli/commands/rows.py",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("store/"):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def documentation(tree: ast.Module) -> set[int]:
    """The nodes of string statements, such as docstrings."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def test_no_driver_is_imported_above_the_store() -> None:
    against = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Import) and any(alias.name.split(".")[0] in DRIVERS for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in DRIVERS)
    ]
    assert not against, "\n".join(against)


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that a statement may import, including `from abreast.store import sqlite`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_engine_is_imported_above_the_store() -> None:
    against = [
        f"{name}:{node.lineno}: {module}"
        for name, tree in modules()
        for node in ast.walk(tree)
        for module in imported(node)
        if any(f"{module}.".startswith(f"{engine}.") for engine in ENGINES)
    ]
    assert not against, "\n".join(against)


def test_no_sql_is_written_above_the_store() -> None:
    against = [
        f"{name}:{node.lineno}: {node.value[:80]}"
        for name, tree in modules()
        for skipped in [documentation(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped
        if SQL.search(node.value) or (EXAMPLE.search(node.value) and name not in FOR_USERS)
    ]
    assert not against, "\n".join(against)


def test_no_sql_is_passed_to_a_store_from_above() -> None:
    against = [
        f"{name}:{node.lineno}: {ast.unparse(node.func)}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PRIMITIVES
        if ast.unparse(node.func.value).endswith("store")
    ]
    assert not against, "\n".join(against)

"""Where results live. The form of the address chooses the engine."""

from __future__ import annotations

from pathlib import Path

from abreast.errors import BadInput, suggestion
from abreast.settings import is_encodable
from abreast.store.store import NewRun, Reuse, Store, StoredOutcome
from abreast.store.writer import Lease, Writer

__all__ = ["Lease", "NewRun", "Reuse", "Store", "StoredOutcome", "Writer", "open_store"]

ENGINES = {"sqlite": "SQLite", "duckdb": "DuckDB"}
SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")


def open_store(address: str | Path, engine: str | None = None) -> Store:
    """The store at `address`. An existing file is known by its header; a new one is SQLite unless named *.duckdb."""
    text = str(address)
    if Path(text).name == ":memory:":
        raise BadInput('store ":memory:": only a Tracker has one', "read it with its to_df(), or name a file")
    if "://" in text:
        raise BadInput(f'store "{text}": only files are supported so far', "write results.db or results.duckdb")
    if not text.strip() or "\0" in text:
        raise BadInput(f"store {text!r}: not a file name", "write results.db or results.duckdb")
    path = Path(text)
    if not is_encodable(str(path.absolute())):
        raise BadInput(f"store {text!r}: its path is not valid UTF-8", "name a file in another folder with --store")
    found = _engine_in(path)
    if engine not in (None, *ENGINES):
        raise BadInput(f'engine "{engine}": unknown{suggestion(str(engine), ENGINES)}', "write sqlite or duckdb")
    if engine and found and engine != found:
        raise BadInput(
            f"{text}: it is a {ENGINES[found]} store, not {ENGINES[engine]}", "leave engine away, or name another file"
        )
    if (engine or found or ("duckdb" if path.suffix == ".duckdb" else "sqlite")) == "duckdb":
        from abreast.store.duckdb.engine import DuckDBStore

        return DuckDBStore(path)
    return Store(path)


def _engine_in(path: Path) -> str | None:
    """Of a file that is there. One that this process may have open is not opened here beside: to close it again would
    give away the process's locks."""
    if Path(f"{path}.journal").is_file():
        return "duckdb"
    head = _head(path)
    if head[8:12] == b"DUCK":
        return "duckdb"
    return "sqlite" if head.startswith(b"SQLite format 3") else None


def _head(path: Path) -> bytes:
    """The first bytes, read by SQLite, which keeps its own locks."""
    from abreast.store.sqlite.driver import read_head

    return read_head(path, 16) if path.is_file() else b""

"""Which store is meant, and which engine it has: one rule for commands, experiments and trackers."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput, suggestion
from abreast.plugins import find_plugin, plugin_names
from abreast.settings import is_encodable

if TYPE_CHECKING:
    from abreast.store.store import Store

VARIABLE = "ABREAST_STORE"
DEFAULT = "results.db"
ENGINES = {"sqlite": "SQLite", "duckdb": "DuckDB"}
SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_CLASSES = {"sqlite": "abreast.store.sqlite.store:SQLiteStore", "duckdb": "abreast.store.duckdb.store:DuckDBStore"}

Address = str | os.PathLike[str]


def named_store(*names: Address | None) -> Address | None:
    """Return the first store that is named, else the one in $ABREAST_STORE, else None.

    `names` are in order of precedence: a flag or an argument, then the spec. An empty variable counts as unset.
    """
    return next((name for name in names if name is not None), os.environ.get(VARIABLE) or None)


def open_store(address: str | Path, engine: str | None = None) -> Store:
    """The store at `address`.

    An existing file is known by its header; a new one is SQLite unless named *.duckdb. Engines that other packages
    register are chosen by `engine`, or by an address such as ENGINE://HOST/NAME.
    """
    text = str(address)
    if Path(text).name == ":memory:":
        raise BadInput('store ":memory:": only a Tracker has one', "read it with its to_df(), or name a file")
    if not text.strip() or "\0" in text:
        raise BadInput(f"store {text!r}: not a file name", "write results.db or results.duckdb")
    scheme, is_url, _ = text.partition("://")
    if is_url and engine is None and scheme in plugin_names("store"):
        engine = scheme
    if engine is not None and engine not in ENGINES:
        return _registered(engine).at(text)  # type: ignore[no-any-return]
    if is_url:
        raise BadInput(f'store "{text}": only files are supported so far', "write results.db or results.duckdb")
    path = Path(text)
    if not is_encodable(str(path.absolute())):
        raise BadInput(f"store {text!r}: its path is not valid UTF-8", "name a file in another folder with --store")
    existing = _engine_of(path)
    if engine and existing and engine != existing:
        raise BadInput(
            f"{text}: it is a {ENGINES[existing]} store, not {ENGINES[engine]}",
            "leave engine away, or name another file",
        )
    engine = engine or existing or ("duckdb" if path.suffix == ".duckdb" else "sqlite")
    module, _, name = _CLASSES[engine].partition(":")
    store: Store = getattr(import_module(module), name).at(text)
    return store


def _registered(engine: str) -> Any:
    """The class of an engine that another package registers."""
    plugin = find_plugin("store", engine)
    if plugin is None:
        known = [*ENGINES, *plugin_names("store")]
        raise BadInput(f'engine "{engine}": unknown{suggestion(str(engine), known)}', f"write {' or '.join(known)}")
    from abreast.store.store import Store

    found = plugin.load()
    if not isinstance(found, type) or not issubclass(found, Store):
        plugin.refuse("its entry point must be a subclass of abreast.store.Store", found)
    return found


def is_store(path: Path) -> bool:
    """Whether a file has the mark of a store in its header."""
    if path.is_symlink() or not path.is_file():
        return False
    from abreast.store.sqlite.driver import APPLICATION, read_head

    return read_head(path, 72)[68:] == APPLICATION.to_bytes(4, "big")


def _engine_of(path: Path) -> str | None:
    """The engine of an existing file. A file that this process may have open is not opened here beside: to close it
    again would give away the process's locks."""
    if Path(f"{path}.journal").is_file():
        return "duckdb"
    if not path.is_file():
        return None
    from abreast.store.sqlite.driver import read_head  # keeps SQLite's own locks

    head = read_head(path, 16)
    if head[8:12] == b"DUCK":
        return "duckdb"
    return "sqlite" if head.startswith(b"SQLite format 3") else None

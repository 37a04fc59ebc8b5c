"""Store addresses: choosing the store and its engine, for commands, experiments and trackers alike."""

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
    """Return the first of `names` that is not None, else $ABREAST_STORE if set and not empty, else None."""
    return next((name for name in names if name is not None), os.environ.get(VARIABLE) or None)


def open_store(address: str | Path, engine: str | None = None) -> Store:
    """Return the store at `address`.

    The header of an existing file decides the engine; a new file is SQLite unless named *.duckdb. Engines of other
    packages are chosen by `engine`, or by an address such as ENGINE://HOST/NAME.
    """
    text = str(address)
    if Path(text).name == ":memory:":
        raise BadInput('store ":memory:": only a Tracker can use it', "use its `to_df()`, or name a file")
    if not text.strip() or "\0" in text:
        raise BadInput(f"store {text!r}: not a file name", "use a name such as results.db or results.duckdb")
    scheme, is_url, _ = text.partition("://")
    if is_url and engine is None and scheme in plugin_names("store"):
        engine = scheme
    if engine is not None and engine not in ENGINES:
        return _registered(engine).at(text)  # type: ignore[no-any-return]
    if is_url:
        raise BadInput(f'store "{text}": no engine for {scheme}:// addresses', "use a file, such as results.db")
    path = Path(text)
    if not is_encodable(str(path.absolute())):
        raise BadInput(f"store {text!r}: its path is not valid UTF-8", "use --store to name a file in another folder")
    existing = _engine_of(path)
    if engine and existing and engine != existing:
        raise BadInput(
            f"{text}: this is a {ENGINES[existing]} store, not {ENGINES[engine]}",
            "omit `engine`, or name another file",
        )
    engine = engine or existing or ("duckdb" if path.suffix == ".duckdb" else "sqlite")
    module, _, name = _CLASSES[engine].partition(":")
    store: Store = getattr(import_module(module), name).at(text)
    return store


def _registered(engine: str) -> Any:
    plugin = find_plugin("store", engine)
    if plugin is None:
        engines = [*ENGINES, *plugin_names("store")]
        message = f'unknown store engine "{engine}"{suggestion(str(engine), engines)}'
        raise BadInput(message, f"use {' or '.join(engines)}")
    from abreast.store.store import Store

    engine_class = plugin.load()
    if not isinstance(engine_class, type) or not issubclass(engine_class, Store):
        plugin.refuse("the entry point must be a subclass of abreast.store.Store", engine_class)
    return engine_class


def is_store(path: Path) -> bool:
    """Whether the header of a file says that it is a store."""
    if path.is_symlink() or not path.is_file():
        return False
    from abreast.store.sqlite.driver import APPLICATION, read_head

    return read_head(path, 72)[68:] == APPLICATION.to_bytes(4, "big")


def _engine_of(path: Path) -> str | None:
    """Return the engine of an existing file. Reads the header through SQLite, because closing another descriptor of a
    file that this process has open would drop its locks."""
    if Path(f"{path}.journal").is_file():
        return "duckdb"
    if not path.is_file():
        return None
    from abreast.store.sqlite.driver import read_head

    head = read_head(path, 16)
    if head[8:12] == b"DUCK":
        return "duckdb"
    return "sqlite" if head.startswith(b"SQLite format 3") else None

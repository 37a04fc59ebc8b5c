"""Store addresses: choosing the store and its engine, for commands, experiments and trackers alike."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from abreast.errors import BadInput, StoreError, suggestion
from abreast.filenames import relative_path
from abreast.plugins import find_plugin, plugin_names
from abreast.redaction import declare_secret
from abreast.settings import is_encodable

if TYPE_CHECKING:
    from abreast.store.store import Store

VARIABLE = "ABREAST_STORE"
DEFAULT = "results.db"
ENGINES = {"sqlite": "SQLite", "duckdb": "DuckDB", "postgres": "PostgreSQL"}
SQLITE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
_CLASSES = {
    "sqlite": "abreast.store.sqlite.store:SQLiteStore",
    "duckdb": "abreast.store.duckdb.store:DuckDBStore",
    "postgres": "abreast.store.postgres.store:PostgresStore",
}
_PASSWORDS = ("password", "sslpassword", "oauth_client_secret")  # parameters of a URL
_URL = re.compile(r"[A-Za-z][\w+.-]*://")
_POSTGRES = re.compile(r"postgres(?:ql)?:/*")
_KEYWORDS = re.compile(r"\s*(?:host|hostaddr|port|dbname|user|password|service)\s*=")  # the other form of libpq
_UNESCAPED = re.compile(r"[/@\s]|%(?![0-9a-fA-F]{2})")
_HOSTS = re.compile(r"(?:(?:\[[^]]*\]|[^:@,]*)(?::\d*)?(?:,|$))*")

Address = str | os.PathLike[str]
_complete: dict[str, str] = {}  # addresses with their passwords, by the address without: for this process only


def is_url(address: Address) -> bool:
    """Whether an address is the URL of a database instead of a path."""
    return _URL.match(os.fspath(address)) is not None


def without_password(address: str) -> str:
    """Return an address without its password, to display and store.

    >>> without_password("postgresql://ann:s3cret@host:5433/db?sslmode=require&password=s3cret")
    'postgresql://ann@host:5433/db?sslmode=require'
    """
    return _split_passwords(address)[0]


def _split_passwords(address: str) -> tuple[str, list[str]]:
    """Return an address without its passwords, and the passwords."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address, []
    passwords = []
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    is_misread = "@" not in authority and _HOSTS.fullmatch(authority) is None  # an unescaped / ? # in the password
    login, at, hosts = (rest if is_misread else authority).rpartition("@")
    if at:
        user, colon, password = login.partition(":")
        passwords += [password] if colon else []
        rest = f"{user}@{hosts}" + ("" if is_misread else rest[len(authority) :])
    place, mark, query = rest.partition("?")
    parameters = []
    for parameter in query.split("&"):
        key, _, value = parameter.partition("=")
        if unquote(key).strip().lower() in _PASSWORDS:
            passwords.append(value)
        else:
            parameters.append(parameter)
    query = "&".join(parameters)
    return f"{scheme}://{place}{mark if query else ''}{query}", passwords


def hide_password(address: Address) -> str:
    """Return an address without its password, which this process keeps in memory to open the store."""
    text = os.fspath(address)
    scheme = _POSTGRES.match(text)
    if _KEYWORDS.match(text):  # it may contain a password
        raise BadInput("store: not a URL", "write the connection string as postgresql://USER@HOST/DATABASE")
    if scheme is not None and not scheme[0].endswith("//"):
        fix = "check its slashes, and pass it as text, not as a Path"
        raise BadInput("store: the address of a PostgreSQL database begins with postgresql://", fix)
    if scheme is not None:
        text = f"postgresql:{text.partition(':')[2]}"
    public, passwords = _split_passwords(text)
    for password in passwords:
        declare_secret("STORE_PASSWORD", password)
        declare_secret("STORE_PASSWORD", unquote(password))
    if passwords:
        _complete[public] = text
    return public


def complete_address(address: str) -> str:
    """Return an address with the password that `hide_password` removed, for a process that gets it through a pipe."""
    return _complete.get(address, address)


def named_store(*names: Address | None) -> str | None:
    """Return the first of `names` that is not None, else $ABREAST_STORE if set and not empty, else None."""
    name = next((name for name in names if name is not None), os.environ.get(VARIABLE) or None)
    return None if name is None else hide_password(name)


def absolute(address: Address) -> str:
    """Make a path absolute, for programs that change their working directory. URLs only lose their password."""
    if is_url(address):
        return hide_password(address)
    try:
        return os.path.abspath(address)  # noqa: PTH100 - twice as fast as Path, once per tracker
    except OSError as error:
        raise StoreError(f"{address}: the working directory no longer exists", "use an absolute path") from error


def as_path(address: str) -> Path | str:
    """Return a path, or the URL of a database as text."""
    return address if is_url(address) else Path(address)


def display_address(address: str) -> str:
    """Return an address as a user would type it in the working folder."""
    return address if is_url(address) else relative_path(Path(address))


def open_store(address: str | Path, engine: str | None = None) -> Store:
    """Return the store at `address`.

    The header of an existing file decides the engine; a new file is SQLite unless named *.duckdb. The scheme of a URL
    names an engine: `postgresql`, or one of another package. Such an engine can also be chosen by `engine`.
    """
    text = hide_password(str(address))
    if Path(text).name == ":memory:":
        raise BadInput('store ":memory:": only a Tracker can use it', "use its `to_df()`, or name a file")
    if not text.strip() or "\0" in text:
        raise BadInput(f"store {text!r}: not a file name", "use a name such as results.db or results.duckdb")
    if is_url(text):
        return _open_url(text, engine)
    if engine is not None and engine not in ENGINES:
        return _registered(engine).at(text)
    if engine == "postgres":
        raise BadInput(f'store "{text}": not the address of a PostgreSQL database', "use postgresql://HOST/DATABASE")
    path = Path(text)
    if not is_encodable(str(path.absolute())):
        raise BadInput(f"store {text!r}: its path is not valid UTF-8", "use --store to name a file in another folder")
    existing = _engine_of(path)
    if engine and existing and engine != existing:
        raise BadInput(
            f"{text}: this is a {ENGINES[existing]} store, not {ENGINES[engine]}",
            "omit `engine`, or name another file",
        )
    return _built_in(engine or existing or ("duckdb" if path.suffix == ".duckdb" else "sqlite")).at(text)


def _open_url(address: str, engine: str | None) -> Store:
    scheme = address.partition("://")[0]
    by_scheme = "postgres" if scheme == "postgresql" else scheme
    named_store()  # the variable may contain the password that suggested commands and worker processes lack
    complete = complete_address(address)
    if engine not in (None, *ENGINES) or (
        engine is None and by_scheme not in ENGINES and by_scheme in plugin_names("store")
    ):
        return _registered(engine or by_scheme).at(complete)
    if by_scheme != "postgres":
        fix = "use postgresql://HOST/DATABASE, or a file such as results.db"
        raise BadInput(f'store "{address}": no engine for {scheme}:// addresses', fix)
    if engine not in (None, "postgres"):
        raise BadInput(f'store "{address}": not a file, as {ENGINES[engine]} needs', "omit `engine`, or name a file")
    passwords = _split_passwords(complete)[1]
    if any(_UNESCAPED.search(password) and f":{password}@" in complete for password in passwords):
        fix = "percent-encode it: `/` is %2F, `@` is %40, `%` is %25"
        raise BadInput(f'store "{address}": special characters in the password', fix)
    try:
        import_module("psycopg")
    except ImportError as error:
        raise BadInput(f"store {address} needs psycopg ({error})", "run `pip install 'abreast[postgres]'`") from error
    return _built_in("postgres").at(complete)


def _built_in(engine: str) -> type[Store]:
    module, _, name = _CLASSES[engine].partition(":")
    store_class: type[Store] = getattr(import_module(module), name)
    return store_class


def _registered(engine: str) -> type[Store]:
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

"""`Tracker`: stores calls of the user's functions as rows."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import inspect
import os
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from abreast.errors import BadInput
from abreast.redaction import KNOWN_SECRETS, Redactor, redact_log
from abreast.store import open_store
from abreast.store.address import DEFAULT, absolute, as_path, named_store
from abreast.store.rows import ERROR_LIMIT, safe_text
from abreast.store.user_tables.cells import TypedCell, is_object
from abreast.store.user_tables.result_cache import Hit, name_of_store
from abreast.store.user_tables.tracked_rows import cells_of, new_row_id, plain_name
from abreast.store.views import JOINED
from abreast.tracker import cache as caches
from abreast.tracker import journal as journals
from abreast.tracker import jsonl as jsonl_log
from abreast.tracker.arguments import argument_cells
from abreast.tracker.commit import current_commit
from abreast.tracker.journal import IN_MEMORY, temporary_store

if TYPE_CHECKING:
    from abreast.store.user_tables.assets import Assets
    from abreast.tracker.reader import Reader
    from abreast.tracker.resources import ResourceMonitor

Answer = TypeVar("Answer")
ROW_KEYS = ("row_id", "track_id")  # user values with these names are stored under another name
CALL_KEYS = (*ROW_KEYS, "timestamp", "function_name", "function_time", "cache", "cache_row", "traceback")
TRACEBACK_LIMIT = 8_000  # characters


@dataclasses.dataclass(slots=True)
class _TrackedCall:
    """A call, with its arguments as they were before the call."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arguments: dict[str, TypedCell]
    params: Mapping[str, Any]
    key: caches.CallKey | None  # None if the call is not cached
    raises: bool
    is_cacheable: bool = True
    began: float = 0.0
    monitor: ResourceMonitor | None = None

    def begin(self, resources: bool) -> None:
        if self.key is not None:
            self.key.begin()
        if resources:
            from abreast.tracker.resources import ResourceMonitor

            self.monitor = ResourceMonitor()
        self.began = time.perf_counter()

    def end(self) -> dict[str, Any]:
        """Stop measuring. Returns the columns for time and resources."""
        seconds = time.perf_counter() - self.began
        resources = {} if self.monitor is None else self.monitor.stop()
        if self.key is not None:
            self.key.end()
        return {"function_time": seconds, **resources}


class Tracker:
    """Writes a row per call or dictionary into a table of a store.

    All trackers of a process share one writer per store, so a tracker per call or thread is cheap.
    """

    def __init__(
        self,
        db: str | os.PathLike[str] | None = None,
        engine: str | None = None,
        cache: str | os.PathLike[str] | None = None,
        table: str = "predictions",
        params: Mapping[str, Any] | None = None,
        *,
        track_id: str | None = None,
        raise_on_error: bool = False,
        resources: bool = False,
        jsonl: str | os.PathLike[str] | None = None,
    ) -> None:
        self.table = plain_name(table)
        self.params: dict[str, Any] = _mapping("params", params)
        self.raise_on_error = raise_on_error
        self.resources = resources
        self._last: Mapping[str, Any] = {}
        self._path = temporary_store(self) if db == IN_MEMORY else absolute(named_store(db) or DEFAULT)
        self._jsonl = None if jsonl is None else _log_file(jsonl)
        self._engine = journals.use(self._path, engine, lambda journal: journal.store.engine)
        if engine not in (None, self._engine):
            open_store(self._path, engine)  # raises
        self._cache = absolute(cache) if cache is not None else None
        if track_id is not None:
            _check_track_id(track_id)
        self.track_id: str = track_id or self._with_journal(journals.Journal.free_name)

    @property
    def db(self) -> Path | str:
        """The file of the store, or its URL."""
        return as_path(self._path)

    @property
    def engine(self) -> str:
        return self._engine

    @property
    def latest(self) -> dict[str, Any]:
        return {key: value.to_python() if type(value) is TypedCell else value for key, value in self._last.items()}

    def __repr__(self) -> str:
        return f"Tracker({str(self.db)!r}, table={self.table!r}, track_id={self.track_id!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def __len__(self) -> int:
        """Return the number of rows that this tracker wrote to its table."""
        return self._reader().count(self.track_id) if self._has_table() else 0

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, column: str) -> Any:
        return self.to_df()[column]

    # -- writing ---------------------------------------------------------------------------------------------------

    def track(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        cache_force: bool = False,
        raise_on_error: bool | None = None,
    ) -> Any:
        """Call the function, store a row, and return the result, or `{"error": ...}` if it raised.

        Await the result of an async function: `await tracker.track(function, args=[...])`.
        """
        call = self._call(function, args, kwargs, params, raise_on_error)
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            return self._track_async(call, cache_force)
        hit = self._find_cached(call, cache_force)
        if hit is not None:
            return self._store_hit(call, hit)
        call.begin(self.resources)
        try:
            returned = function(*call.args, **call.kwargs)
        except BaseException as error:  # noqa: BLE001 - stored, and then raised or returned
            return self._store_failure(call, error)
        if inspect.iscoroutine(returned):  # the function is a lambda that calls an async one
            call.is_cacheable = False
            return self._track_awaited(call, lambda: returned)
        return self._store_result(call, returned)

    async def _track_async(self, call: _TrackedCall, cache_force: bool) -> Any:
        hit = self._find_cached(call, cache_force)
        if hit is not None:
            return self._store_hit(call, hit)
        call.begin(self.resources)
        return await self._track_awaited(call, functools.partial(call.function, *call.args, **call.kwargs))

    async def _track_awaited(self, call: _TrackedCall, function: Callable[[], Awaitable[Any]]) -> Any:
        try:
            returned = await function()
        except BaseException as error:  # noqa: BLE001 - stored, and then raised or returned
            return self._store_failure(call, error)
        return self._store_result(call, returned)

    def wrap(self, function: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """Decorator that tracks every call: `@tracker.wrap` or `@tracker.wrap(params={...})`."""
        if isinstance(function, Mapping) and params is None:
            function, params = None, function
        if function is None:
            return functools.partial(self.wrap, params=params)

        @functools.wraps(function)
        def tracked(*args: Any, **kwargs: Any) -> Any:
            return self.track(function, args, kwargs, params)

        return tracked

    def log(self, data: Mapping[str, Any], table: str | None = None) -> dict[str, Any]:
        """Store a dictionary as a row of this tracker's table or another one. Returns the row as stored."""
        return self.log_batch([data], table)[0]

    def log_batch(self, data: Iterable[Mapping[str, Any]], table: str | None = None) -> list[dict[str, Any]]:
        """Store dictionaries as rows, atomically. Returns the rows as stored."""
        rows = []
        for mapping in data:
            row = self._own_columns()
            values = {**self.params, **_mapping("log", mapping)}
            row |= {f"result_{key}" if key in ROW_KEYS else key: self._storable(value) for key, value in values.items()}
            rows.append(row)
        if rows:
            self._write(rows, self.table if table is None else plain_name(table))
        return rows

    def flush(self) -> None:
        """Wait until all rows are synced to disk, and a DuckDB file has them too."""
        self._with_journal(journals.Journal.flush)

    close = flush

    def delete(self, track_id: str) -> int:
        """Delete the rows of a tracker in all tables and their cached results. Returns the number of rows."""
        return self._reader().delete_run(track_id)

    def set_value(self, key: str, value: Any) -> int:
        """Set a column (added if missing) in all rows of this tracker. Returns the number of rows."""
        return self._reader().set_value(key, self._storable(value), self.track_id) if self._has_table() else 0

    def set_where(self, key: str, value: Any, where_key: str, where_value: Any) -> int:
        """Like `set_value`, for rows in which another column has a value."""
        if not self._has_table():
            return 0
        return self._reader().set_where(key, self._storable(value), where_key, where_value, self.track_id)

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Add columns to all later rows."""
        self.params |= _mapping("params", params)

    def set_param(self, key: str, value: Any) -> None:
        self.set_params({key: value})

    # -- reading ---------------------------------------------------------------------------------------------------

    def to_df(self, all: bool = False) -> Any:
        """Return a data frame of the rows of this tracker in its table, or if `all`, of all trackers."""
        if not self._has_table() and not (all and self.table in JOINED):
            from abreast.tracker.reader import empty_frame

            return empty_frame()
        return self._reader().to_df(track_id=None if all else self.track_id)

    def head(self, n: int = 5) -> Any:
        return self.to_df().head(n)

    def tail(self, n: int = 5) -> Any:
        return self.to_df().tail(n)

    @property
    def assets(self) -> Assets:
        """The objects of the store."""
        return self._reader().assets

    def get(self, digest: str) -> Any:
        """Load an object by its digest. Unpickling runs code: use it only with stores that you trust."""
        return self.assets.get(digest)

    def _has_table(self) -> bool:
        return self._with_journal(lambda journal: journal.has_table(self.table))

    def _storable(self, value: Any) -> Any:
        """Return the value, or the digest of an object that is stored next to the store."""
        return (self.assets.put(value) or value) if is_object(value) else value

    def _reader(self) -> Reader:
        from abreast.tracker.reader import Reader

        return Reader(self._path, table=self.table)

    # -- one call --------------------------------------------------------------------------------------------------

    def _call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        params: Mapping[str, Any] | None,
        raise_on_error: bool | None,
    ) -> _TrackedCall:
        if not callable(function):
            raise BadInput(f"track: {function!r} is not a function", "use tracker.track(predict, args=[item])")
        if isinstance(args, str | bytes | Mapping) or not isinstance(args, Sequence | None):
            raise BadInput(f"track: args must be a list, got {type(args).__name__}", "use args=[item, params]")
        arguments = tuple(args or ())
        keywords, call_params = _mapping("kwargs", kwargs), _mapping("params", params)
        return _TrackedCall(
            function=function,
            args=arguments,
            kwargs=keywords,
            arguments=argument_cells(function, arguments, keywords),
            params={**self.params, **call_params},
            key=caches.call_key(function, arguments, keywords, call_params) if self._cache is not None else None,
            raises=self.raise_on_error if raise_on_error is None else raise_on_error,
        )

    def _find_cached(self, call: _TrackedCall, force: bool) -> Hit | None:
        if self._cache is None or call.key is None or force:
            return None
        key = call.key.text
        hit = caches.use(self._cache, lambda cache: cache.get(key))
        if hit is None or hit.store != name_of_store(self._path, Path(self._cache)):
            return hit
        if self._with_journal(lambda journal: journal.has(hit.table, hit.row_id)):
            return hit
        caches.use(self._cache, lambda cache: cache.forget(key))  # its row was deleted
        return None

    def _keep(self, key: str, row_id: str, returned: Any) -> None:
        folder = Path(str(self._cache))
        hit = Hit(self.track_id, row_id, name_of_store(self._path, folder), self.table, returned)
        self._with_journal(lambda journal: journal.note_cache(folder))
        caches.use(str(folder), lambda cache: cache.put(key, hit))

    def _store_hit(self, call: _TrackedCall, hit: Hit) -> Any:
        self._store(call, hit.result, {"cache": hit.track_id, "cache_row": hit.row_id})
        return hit.result

    def _store_failure(self, call: _TrackedCall, error: BaseException) -> dict[str, str]:
        measured = call.end()
        message = redact_log(f"{type(error).__name__}: {safe_text(error)}"[:ERROR_LIMIT]).removesuffix(": ")
        frames = error.__traceback__.tb_next if error.__traceback__ else None  # without the frame of the tracker
        detail = redact_log("".join(traceback.format_exception(type(error), error, frames))[-TRACEBACK_LIMIT:])
        self._store(call, {"error": message}, {"traceback": detail, **measured})
        if call.key is not None:
            call.key.settle()
        if call.raises or not isinstance(error, Exception):
            raise error
        return {"error": message}

    def _store_result(self, call: _TrackedCall, returned: Any) -> Any:
        row_id = self._store(call, returned, call.end())
        failed = isinstance(returned, Mapping) and _is_error(returned.get("error"))
        if call.key is not None:
            is_cacheable = call.is_cacheable and not failed
            call.key.settle((lambda key: self._keep(key, row_id, returned)) if is_cacheable else None)
        return returned

    def _store(self, call: _TrackedCall, returned: Any, own: Mapping[str, Any]) -> str:
        row = {
            **self._own_columns(),
            "function_name": caches.name_of(call.function).rpartition(".")[2],
            "function_time": None,
            "cache": None,
            "cache_row": None,
            "error": None,
            **own,
        }
        results = returned if isinstance(returned, Mapping) else {"function_result": returned}
        for key, value in _mapping("result", results).items():
            row[f"result_{key}" if key in CALL_KEYS else key] = self._storable(value)
        row["error"] = row["error"] if _is_error(row["error"]) else None
        for prefix, columns in (("params", call.params), ("arg", call.arguments)):
            for key, value in columns.items():
                while key in row:
                    key = f"{prefix}_{key}"
                row[key] = self._storable(value)
        self._write([row], self.table)
        return str(row["row_id"])

    def _own_columns(self) -> dict[str, Any]:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        return {
            "row_id": new_row_id(),
            "track_id": self.track_id,
            "timestamp": now.isoformat(" ", "microseconds"),
            **current_commit()._asdict(),
        }

    def _write(self, rows: Sequence[Mapping[str, Any]], table: str) -> None:
        cells = [redact_cells(cells_of(row)) for row in rows]
        self._with_journal(lambda journal: journal.write(table, cells))
        self._last = rows[-1]
        if self._jsonl is not None:
            jsonl_log.append(self._jsonl, table, cells)

    def _with_journal(self, act: Callable[[journals.Journal], Answer]) -> Answer:
        return journals.use(self._path, self._engine, act)


def redact_cells(cells: Mapping[str, TypedCell]) -> dict[str, TypedCell]:
    redactor = KNOWN_SECRETS.redactor
    return {redactor.redact(key): _redact_cell(cell, redactor) for key, cell in cells.items()}


def _redact_cell(cell: TypedCell, redactor: Redactor) -> TypedCell:
    value = cell.value
    if type(value) is str:
        redacted: Any = redactor.redact(value)
    elif type(value) is bytes:
        redacted = redactor.redact_bytes(value)
    else:
        return cell
    return cell if redacted == value else TypedCell(cell.type, redacted)


def _log_file(path: str | os.PathLike[str]) -> str:
    """Make the path absolute; a folder keeps its trailing slash."""
    if path == jsonl_log.STDOUT:
        return jsonl_log.STDOUT
    return absolute(path) + (os.sep if jsonl_log.is_folder(path) else "")


def _is_error(error: Any) -> bool:
    """Whether a value of `error` means failure: None and empty texts do not."""
    try:
        return bool(error)
    except Exception:  # noqa: BLE001 - an array has no truth value
        return True


def _mapping(argument: str, mapping: Any) -> dict[str, Any]:
    if mapping is None and argument != "log":
        return {}
    if not isinstance(mapping, Mapping):
        raise BadInput(f"{argument}: must be a dictionary, got {type(mapping).__name__}", 'use {"name": value}')
    return {key if isinstance(key, str) else safe_text(key): value for key, value in mapping.items()}


def _check_track_id(track_id: Any) -> None:
    if not isinstance(track_id, str) or not track_id.strip() or "\0" in track_id:
        raise BadInput(f"track_id {track_id!r}: must be a non-empty string", "use a name such as brave-otter-4821")

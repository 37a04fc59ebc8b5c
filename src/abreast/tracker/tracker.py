"""`Tracker`: calls of the user's own functions as rows."""

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
from abreast.redaction import KNOWN, Redactor, redact_log
from abreast.store import open_store
from abreast.store.address import DEFAULT, named_store
from abreast.store.rows import ERROR_LIMIT, safe_text
from abreast.store.user_tables.cells import TypedCell, is_object, values
from abreast.store.user_tables.result_cache import Hit, relative
from abreast.store.user_tables.tracked_rows import cells_of, new_row_id, plain_name
from abreast.store.views import JOINED
from abreast.tracker import cache as caches
from abreast.tracker import journal as journals
from abreast.tracker import jsonl as jsonl_log
from abreast.tracker.arguments import argument_cells
from abreast.tracker.commit import CodeCommit, current_commit
from abreast.tracker.journal import IN_MEMORY, temporary_store

if TYPE_CHECKING:
    from abreast.store.user_tables.assets import Assets
    from abreast.tracker.reader import Reader

Answer = TypeVar("Answer")
ROW_KEYS = ("row_id", "track_id")  # whatever a user gives under these names is kept under another
CALL_KEYS = (*ROW_KEYS, "timestamp", "function_name", "function_time", "cache", "cache_row", "traceback")
LOOK_AGAIN = datetime.timedelta(seconds=1)  # after the commit of the code
DETAIL = 8_000  # characters kept of a traceback


@dataclasses.dataclass(slots=True)
class _TrackedCall:
    """A call before it is made: what it is, and its arguments as they were then."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arguments: dict[str, TypedCell]
    params: Mapping[str, Any]
    name: caches.CallName | None  # none if nothing is cached
    raises: bool
    is_kept: bool = True  # in the cache


class Tracker:
    """Writes a row for every call and every dictionary, into a table of a store.

    All trackers of a process share one way into a store, so one for each call or thread costs next to nothing.
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
        self._looked_at, self._commit = datetime.datetime.min, CodeCommit(None, None)
        self._path = temporary_store(self) if db == IN_MEMORY else journals.absolute(named_store(db) or DEFAULT)
        self._jsonl = None if jsonl is None else _log_file(jsonl)
        self._engine = journals.use(self._path, engine, lambda journal: journal.store.engine)
        if engine not in (None, self._engine):
            open_store(self._path, engine)  # says what is wrong
        self._cache = journals.absolute(cache) if cache is not None else None
        self.track_id = self._through(journals.Journal.free_name) if track_id is None else _check_track_id(track_id)

    @property
    def db(self) -> Path:
        return Path(self._path)

    @property
    def engine(self) -> str:
        return self._engine

    @property
    def latest(self) -> dict[str, Any]:
        return {
            key: values(value.type, [value.value])[0] if type(value) is TypedCell else value
            for key, value in self._last.items()
        }

    def __repr__(self) -> str:
        return f"Tracker({str(self.db)!r}, table={self.table!r}, track_id={self.track_id!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def __len__(self) -> int:
        """How many rows this tracker wrote into its table."""
        return self._reader().count(self.track_id) if self._has_table() else 0

    def __bool__(self) -> bool:
        """A tracker without rows is still one."""
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
        """Call the function, store a row, and return what it returned; `{"error": ...}` if it raised.

        Of an async function the result is awaited: `await tracker.track(function, args=[...])`.
        """
        call = self._call(function, args, kwargs, params, raise_on_error)
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            return self._track_async(call, cache_force)
        hit = self._found(call, cache_force)
        if hit is not None:
            return self._store_hit(call, hit)
        watch = self._begin(call)
        began = time.perf_counter()
        try:
            returned = function(*call.args, **call.kwargs)
        except BaseException as error:  # noqa: BLE001 - stored, and then raised or told
            return self._store_failure(call, error, time.perf_counter() - began, watch)
        if inspect.iscoroutine(returned):  # of a lambda: nobody could know
            return self._awaited(dataclasses.replace(call, is_kept=False), lambda: returned, began, watch)
        return self._store_result(call, returned, time.perf_counter() - began, watch)

    async def _track_async(self, call: _TrackedCall, cache_force: bool) -> Any:
        hit = self._found(call, cache_force)
        if hit is not None:
            return self._store_hit(call, hit)
        answer = functools.partial(call.function, *call.args, **call.kwargs)
        return await self._awaited(call, answer, time.perf_counter(), self._begin(call))

    async def _awaited(self, call: _TrackedCall, answer: Callable[[], Awaitable[Any]], began: float, watch: Any) -> Any:
        try:
            returned = await answer()
        except BaseException as error:  # noqa: BLE001 - stored, and then raised or told
            return self._store_failure(call, error, time.perf_counter() - began, watch)
        return self._store_result(call, returned, time.perf_counter() - began, watch)

    def wrap(self, function: Any = None, params: Mapping[str, Any] | None = None) -> Any:
        """A decorator: `@tracker.wrap` or `@tracker.wrap(params={...})`. Every call is tracked."""
        if isinstance(function, Mapping) and params is None:
            function, params = None, function
        if function is None:
            return functools.partial(self.wrap, params=params)
        wrapped = function

        @functools.wraps(wrapped)
        def tracked(*args: Any, **kwargs: Any) -> Any:
            return self.track(wrapped, args, kwargs, params)

        return tracked

    def log(self, data: Mapping[str, Any], table: str | None = None) -> dict[str, Any]:
        """Store a dictionary as a row, into this tracker's table or another one; the row as it was stored."""
        return self.log_batch([data], table)[0]

    def log_batch(self, data: Iterable[Mapping[str, Any]], table: str | None = None) -> list[dict[str, Any]]:
        """Store dictionaries as rows: all of them, or none."""
        rows = []
        for each in data:
            row = self._own_columns()
            given = {**self.params, **_mapping("log", each)}
            row |= {f"result_{key}" if key in ROW_KEYS else key: self._kept(value) for key, value in given.items()}
            rows.append(row)
        if rows:
            self._write(rows, self.table if table is None else plain_name(table))
        return rows

    def flush(self) -> None:
        """Wait until every row is on the disk, and a DuckDB file has it too."""
        self._through(journals.Journal.flush)

    close = flush

    def delete(self, track_id: str) -> int:
        """Remove what was written under a name, in all tables, with what is cached of it; how many rows that were."""
        return self._reader().delete_run(track_id)

    def set_value(self, key: str, value: Any) -> int:
        """Write a value into a column of every row of this tracker, added if there is none; how many rows."""
        return self._reader().set_value(key, self._kept(value), self.track_id) if self._has_table() else 0

    def set_where(self, key: str, value: Any, where_key: str, where_value: Any) -> int:
        """The same in rows where another column has a value."""
        kept = self._kept(value)
        return self._reader().set_where(key, kept, where_key, where_value, self.track_id) if self._has_table() else 0

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Columns that every later row gets."""
        self.params |= _mapping("params", params)

    def set_param(self, key: str, value: Any) -> None:
        self.set_params({key: value})

    # -- reading ---------------------------------------------------------------------------------------------------

    def to_df(self, all: bool = False) -> Any:
        """The rows of this tracker in its table, or with `all` those of all trackers."""
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
        """The objects beside the store."""
        return self._reader().assets

    def get(self, digest: str) -> Any:
        """Load the object that a row names by its digest: only from stores you trust, for unpickling runs code."""
        return self.assets.get(digest)

    def _has_table(self) -> bool:
        return self._through(lambda journal: journal.has_table(self.table))

    def _kept(self, value: Any) -> Any:
        """What goes into a column: the value, or the digest of an object that is kept beside the store."""
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
            raise BadInput(f"track: {function!r} is not a function", "write tracker.track(predict, args=[item])")
        if isinstance(args, str | bytes | Mapping) or not isinstance(args, Sequence | None):
            raise BadInput(f"track: args must be a list, got {type(args).__name__}", "write args=[item, params]")
        given = tuple(args or ())
        named, own = _mapping("kwargs", kwargs), _mapping("params", params)
        return _TrackedCall(
            function=function,
            args=given,
            kwargs=named,
            arguments=argument_cells(function, given, named),
            params={**self.params, **own},
            name=caches.name_call(function, given, named, own) if self._cache is not None else None,
            raises=self.raise_on_error if raise_on_error is None else raise_on_error,
        )

    def _found(self, call: _TrackedCall, force: bool) -> Hit | None:
        if self._cache is None or call.name is None or force:
            return None
        key = call.name.text
        hit = caches.use(self._cache, lambda cache: cache.get(key))
        if hit is None or hit.store != relative(self.db, Path(self._cache)):
            return hit
        if self._through(lambda journal: journal.has(hit.table, hit.row_id)):
            return hit
        caches.use(self._cache, lambda cache: cache.forget(key))  # its row was deleted
        return None

    def _keep(self, key: str, row_id: str, returned: Any) -> None:
        folder = Path(str(self._cache))
        found = Hit(self.track_id, row_id, relative(self.db, folder), self.table, returned)
        self._through(lambda journal: journal.note_cache(folder))
        caches.use(str(folder), lambda cache: cache.put(key, found))

    def _begin(self, call: _TrackedCall) -> Any:
        """Take note that the function is called now; what watches it, if anything does."""
        if call.name is not None:
            call.name.begin()
        if not self.resources:
            return None
        from abreast.tracker.resources import ResourceMonitor

        return ResourceMonitor()

    def _store_hit(self, call: _TrackedCall, hit: Hit) -> Any:
        self._store(call, hit.result, {"cache": hit.track_id, "cache_row": hit.row_id})
        return hit.result

    def _store_failure(self, call: _TrackedCall, error: BaseException, seconds: float, watch: Any) -> dict[str, str]:
        if call.name is not None:
            call.name.end()
        told = redact_log(f"{type(error).__name__}: {safe_text(error)}"[:ERROR_LIMIT]).removesuffix(": ")
        frames = error.__traceback__.tb_next if error.__traceback__ else None  # without the tracker's
        detail = redact_log("".join(traceback.format_exception(type(error), error, frames))[-DETAIL:])
        taken = watch.stop() if watch is not None else {}
        self._store(call, {"error": told}, {"function_time": seconds, "traceback": detail, **taken})
        if call.name is not None:
            call.name.settle()
        if call.raises or not isinstance(error, Exception):
            raise error
        return {"error": told}

    def _store_result(self, call: _TrackedCall, returned: Any, seconds: float, watch: Any) -> Any:
        taken = watch.stop() if watch is not None else {}
        if call.name is not None:
            call.name.end()
        row_id = self._store(call, returned, {"function_time": seconds, **taken})
        failed = isinstance(returned, Mapping) and _is_error(returned.get("error"))
        if call.name is not None:
            is_kept = call.is_kept and not failed
            call.name.settle((lambda key: self._keep(key, row_id, returned)) if is_kept else None)
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
            row[f"result_{key}" if key in CALL_KEYS else key] = self._kept(value)
        row["error"] = row["error"] if _is_error(row["error"]) else None
        for prefix, columns in (("params", call.params), ("arg", call.arguments)):
            for key, value in columns.items():
                while key in row:
                    key = f"{prefix}_{key}"
                row[key] = self._kept(value)
        self._write([row], self.table)
        return str(row["row_id"])

    def _own_columns(self) -> dict[str, Any]:
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        if now - self._looked_at > LOOK_AGAIN:
            self._looked_at, self._commit = now, current_commit()
        return {
            "row_id": new_row_id(),
            "track_id": self.track_id,
            "timestamp": now.isoformat(" ", "microseconds"),
            "code_commit": self._commit.code_commit,
            "code_dirty": self._commit.code_dirty,
        }

    def _write(self, rows: Sequence[Mapping[str, Any]], table: str) -> None:
        cells = [redact_cells(cells_of(row)) for row in rows]
        self._through(lambda journal: journal.write(table, cells))
        self._last = rows[-1]
        if self._jsonl is not None:
            jsonl_log.append(self._jsonl, table, cells)

    def _through(self, act: Callable[[journals.Journal], Answer]) -> Answer:
        return journals.use(self._path, self._engine, act)


def redact_cells(cells: Mapping[str, TypedCell]) -> dict[str, TypedCell]:
    """Replace secrets in the names and values of a row."""
    redactor = KNOWN.redactor
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
    """Where it is, for a program that works in another folder later; a folder keeps its last slash."""
    if path == jsonl_log.STDOUT:
        return jsonl_log.STDOUT
    return journals.absolute(path) + (os.sep if jsonl_log.is_folder(path) else "")


def _is_error(error: Any) -> bool:
    """Whether it is an error: an empty text is none."""
    try:
        return bool(error)
    except Exception:  # noqa: BLE001 - an array is neither true nor false
        return True


def _mapping(what: str, given: Any) -> dict[str, Any]:
    if given is None and what != "log":
        return {}
    if not isinstance(given, Mapping):
        raise BadInput(f"{what}: a dictionary is needed, got {type(given).__name__}", 'write {"name": value}')
    return {key if isinstance(key, str) else safe_text(key): value for key, value in given.items()}


def _check_track_id(track_id: Any) -> str:
    if not isinstance(track_id, str) or not track_id.strip() or "\0" in track_id:
        raise BadInput(f"track_id {track_id!r}: must be a text", 'write such as track_id="brave-otter-4821"')
    return track_id

"""`Reader`: rows of any table as a data frame, as soon as they are written."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.store import open_store
from abreast.store.address import DEFAULT, absolute, as_path, named_store
from abreast.store.run_names import find_run, matching_runs
from abreast.store.user_tables import tables
from abreast.store.user_tables.cells import cell, widest
from abreast.store.user_tables.data_frame import data_frame
from abreast.store.user_tables.result_cache import FILE, Cache
from abreast.store.user_tables.tables import ALL, Condition, Frame
from abreast.store.user_tables.tracked_rows import OWN, plain_name
from abreast.tracker import cache as caches

if TYPE_CHECKING:
    from abreast.store.user_tables.assets import Assets


class Reader:
    """The rows of one table of a store."""

    def __init__(
        self, db: str | os.PathLike[str] | None = None, engine: str | None = None, table: str = "predictions"
    ) -> None:
        self.table = plain_name(table)
        self._store = open_store(absolute(named_store(db) or DEFAULT), engine)

    @property
    def db(self) -> Path | str:
        """The file of the store, or its URL."""
        return as_path(self._store.address)

    @property
    def engine(self) -> str:
        return self._store.engine

    def __repr__(self) -> str:
        return f"Reader({str(self.db)!r}, table={self.table!r})"

    def __len__(self) -> int:
        return self.count()

    @property
    def columns(self) -> list[str]:
        return list(self._read(first=0).columns)

    @property
    def dtypes(self) -> dict[str, str]:
        """Column types: boolean, integer, real, text, json, datetime, blob."""
        return dict(self._read(first=0).types)

    def tables(self) -> list[str]:
        with self._store as store:
            return tables.names(store)

    def to_df(
        self, track_id: str | None = None, head: int | None = None, tail: int | None = None, library: str | None = None
    ) -> Any:
        """Return a data frame of all rows, of one tracker or run, or of the first or last rows, in the order of
        writing.

        `library` is pandas by default, or polars if only that is installed.
        """
        condition = ALL if track_id is None else self._written_by(track_id)
        return data_frame(self._read(condition, head, tail), library)

    def head(self, n: int = 5) -> Any:
        return self.to_df(head=n)

    def tail(self, n: int = 5) -> Any:
        """Return the last rows, the newest last."""
        return self.to_df(tail=n)

    def latest(self) -> Any:
        """Return the rows of the tracker or run that wrote last."""
        last = self._read(last=1)
        names = [last.columns[name][0] for name in self._name_columns() if len(last)]
        name = next((name for name in names if name is not None), None)
        return self.to_df(head=0) if name is None else self.to_df(track_id=name)

    def where(self, condition: str = "", /, *values: Any, **equal: Any) -> Any:
        """Rows that match a condition in SQL and these values: `where("score > ?", 0.5, model="a")`.

        A list means any of its values, None means NULL.
        """
        return data_frame(self._read(Condition.matching(equal, condition, values)))

    def count(self, track_id: str | None = None) -> int:
        """Return the number of rows, of one tracker or all."""
        with self._store as store:
            return tables.count(store, self.table, ALL if track_id is None else self._written_by(track_id))

    def delete_run(self, track_id: str) -> int:
        """Delete the rows of a tracker in all tables and their cached results. Returns the number of rows."""
        with self._store as store:
            return sum(tables.delete(store, track_id).values())

    def set_value(self, key: str, value: Any, track_id: str | None = None) -> int:
        """Set a column (added if missing) in all rows, or in those of one tracker. Returns the number of rows."""
        return self._set(key, value, {}, track_id)

    def set_where(self, key: str, value: Any, where_key: str, where_value: Any, track_id: str | None = None) -> int:
        """Like `set_value`, for rows in which another column has a value."""
        return self._set(key, value, {where_key: where_value}, track_id)

    def _set(self, key: str, value: Any, equal: dict[str, Any], track_id: str | None) -> int:
        if track_id is not None:
            equal = {**equal, "track_id": track_id}
        with self._store as store:
            return tables.set_values(store, self.table, key, value, equal)

    @property
    def assets(self) -> Assets:
        """The objects of the store."""
        return self._store.assets

    def get(self, digest: str) -> Any:
        """Load an object by its digest. Unpickling runs code: use it only with stores that you trust."""
        return self.assets.get(digest)

    @staticmethod
    def read_jsonl(path: str | os.PathLike[str]) -> Any:
        """Return a data frame of the rows that `Tracker(jsonl=...)` wrote to a file or folder."""
        from abreast.tracker.jsonl import read

        rows = read(path)
        keys = dict.fromkeys(key for row in rows for key in row)
        columns: dict[str, Sequence[Any]] = {key: [row.get(key) for row in rows] for key in keys}
        types = {
            key: functools.reduce(widest, (cell(value).type for value in column), "null")
            for key, column in columns.items()
        }
        return data_frame(Frame(types, columns))

    @staticmethod
    def delete_cache_by_track_id(cache: str | os.PathLike[str], track_id: str) -> int:
        """Delete the cached results of one tracker, but not its rows. Returns their number."""
        exists = (Path(cache) / FILE).is_file()
        return caches.use(absolute(cache), lambda opened: opened.forget_tracked(track_id)) if exists else 0

    @staticmethod
    def read_cache(cache: str | os.PathLike[str], key: str) -> dict[str, Any] | None:
        """Return a cached result by its key: {"result": ..., "cache": track_id, "row": row_id}; None if there is
        none."""
        exists = (Path(cache) / FILE).is_file()
        hit = caches.use(absolute(cache), lambda opened: opened.get(key)) if exists else None
        return None if hit is None else {"result": hit.result, "cache": hit.track_id, "row": hit.row_id}

    @staticmethod
    def scan_cache(cache: str | os.PathLike[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each key of a cache with the result of `read_cache`."""
        if (Path(cache) / FILE).is_file():
            for key in caches.use(absolute(cache), Cache.keys):
                entry = Reader.read_cache(cache, key)
                if entry is not None:
                    yield key, entry

    def _name_columns(self) -> list[str]:
        """Return the columns with the name of a tracker or run; rows of runs have only the second."""
        columns = self.columns
        return [name for name in ("track_id", "run") if name in columns] or columns[:1]

    def _written_by(self, track_id: str) -> Condition:
        columns = self._name_columns()
        return Condition.first_equals(columns, self._full_name(track_id) if "run" in columns else track_id)

    def _full_name(self, name: str) -> str:
        """Return a track_id unchanged; resolve a label, `latest`, `previous` or a prefix to the name of its run."""
        with self._store as store:
            if tables.row_counts(store, name) or not matching_runs(store, name):
                return name
            return find_run([store], name)[1]

    def _read(self, condition: Condition = ALL, first: int | None = None, last: int | None = None) -> Frame:
        with self._store as store:
            return tables.read(store, self.table, condition, first, last)


def empty_frame() -> Any:
    """Return the data frame of a table that does not exist yet."""
    return data_frame(Frame(dict(OWN), {key: [] for key in OWN}))

"""The writer of a run: a thread that commits whatever queued up during the previous commit.

A row is acknowledged when its commit has returned, without waiting for a timer. The writer also renews the lease of the
run, and stops as soon as another process has taken it over.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from abreast.errors import StoreError
from abreast.store import schema
from abreast.store.base import Connection, Database, LeaseLost, StoreVanished
from abreast.store.dialect import Mode
from abreast.store.rows import Row, columns_of
from abreast.store.runs.leases import Lease
from abreast.store.views import add_columns

HEARTBEAT_S = 1.0
RETRY_S = 1.0
LINGER_S = 0.05  # how long rows without a token, such as scores, wait for other rows to share a commit

# In this order a row never refers to a missing one. A trial with an infrastructure failure is replaced when it is
# executed again; cases are shared by all runs.
_MODES: dict[str, Mode] = {
    "cases": "ignore",
    "variants": "insert",
    "trials": "replace",
    "payloads": "replace",
    "artifacts": "replace",
    "judgements": "replace",
    "attempts": "insert",
    "scores": "replace",
    "events": "insert",
}

_SIMPLE_TYPES = frozenset((str, float, bool, int, type(None)))  # all values of a type have the same column type
Rows = Sequence[tuple[str, Row]]
Substitute = Callable[[StoreError], Rows]


class QueuedRows(NamedTuple):
    rows: Rows
    token: Any = None
    substitute: Substitute | None = None  # returns the rows to store if these cannot be stored


class Writer:
    """Commits rows in groups and hands back the tokens of those that are durable."""

    def __init__(
        self,
        store: Database,
        lease: Lease,
        on_commit: Callable[[list[Any]], None],
        on_failure: Callable[[StoreError], None],
        on_outage: Callable[[StoreError | None], None],
    ) -> None:
        self.lease = lease
        self.in_flight = 0  # trials; written with each heartbeat, for displays in other processes
        self.failure: StoreError | None = None
        self._vanished: StoreVanished | None = None
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._queue: deque[QueuedRows] = deque()
        self._batches: deque[list[QueuedRows]] = deque()  # taken from the queue and not committed
        self._commit_began: float | None = None
        self._wake = threading.Event()  # a row is queued
        self._urgent = threading.Event()  # a row is queued whose commit is awaited
        self._closing = False
        self._column_types: dict[tuple[str, str], str] = {}
        self._registered: set[tuple[str, Any, type]] = set()
        self._connection = store.open_writer(self._move, on_outage)
        self._last_heartbeat = 0.0
        self._thread = threading.Thread(target=self._work, name=f"abreast-writer-{lease.run}", daemon=True)
        self._thread.start()

    def _move(self, reason: StoreVanished) -> None:
        """Record that the file was deleted or replaced and that the connection continues in a copy."""
        self._vanished = reason
        self._on_failure(reason)

    def put(self, table: str, row: Row) -> None:
        self.put_together([(table, row)])

    def put_together(self, rows: Rows, token: Any = None, substitute: Substitute | None = None) -> None:
        """Queue rows that are committed atomically. `on_commit` gets `token` when they are durable.

        `substitute` is called in the writer's thread if the engine can never store one of the rows."""
        self._queue.append(QueuedRows(rows, token, substitute))
        if not self._wake.is_set():
            self._wake.set()
        if token is not None and not self._urgent.is_set():
            self._urgent.set()

    def register(self, kind: str, values: Mapping[str, Any]) -> None:
        """Register columns of the views for these values; most calls find nothing new."""
        registered = self._registered
        fresh = {
            name: value
            for name, value in values.items()
            if (kind, name, type(value)) not in registered or _is_beyond_64_bits(value)
        }
        if not fresh:
            return
        registered.update(
            (kind, name, type(value))
            for name, value in fresh.items()
            if type(value) in _SIMPLE_TYPES and not _is_beyond_64_bits(value)
        )
        for column in columns_of(kind, fresh):
            key = (column.kind, column.name)
            old = self._column_types.get(key)
            wide = column.type if old is None else schema.widest(old, column.type)
            if wide != old:
                self._column_types[key] = wide
                self.put("columns", (column.kind, column.name, wide))

    def waiting_s(self) -> float:
        """Return for how long the current commit has been waiting for the store."""
        began = self._commit_began
        return 0.0 if began is None else time.monotonic() - began

    def hurry(self) -> None:
        """Soon give up a store that cannot be reached, because the run is ending."""
        self._connection.hurry()

    def close(self) -> None:
        """Commit the remaining rows and stop. Raises if they could not be stored."""
        self._closing = True
        self.hurry()
        self._wake.set()
        self._urgent.set()
        self._thread.join()
        self._connection.close()
        if error := self.failure or self._vanished:
            raise error

    def _work(self) -> None:
        while True:
            if self._wake.wait(RETRY_S if self.failure else HEARTBEAT_S):
                self._urgent.wait(LINGER_S)
            self._urgent.clear()
            self._wake.clear()
            last = self._closing
            if batch := [self._queue.popleft() for _ in range(len(self._queue))]:
                self._batches.append(batch)
            if self._batches or last or self._connection.now() - self._last_heartbeat >= HEARTBEAT_S:
                self._commit_batches()
            if last and (self.failure or not (self._queue or self._batches)):
                return

    def _commit_batches(self) -> None:
        """Commit what is queued, or only a heartbeat. After a failure the same batch comes first again: it may have
        been committed although the engine could not tell."""
        batches, refused = self._batches, []
        if not batches:
            batches.append([])
        while batches:
            batch = batches[0]
            try:
                self._commit(batch)
            except self._connection.unstorable as error:
                batches.popleft()
                if len(batch) > 1:  # one bad row must not affect others
                    batches.extendleft([entry] for entry in reversed(batch))
                elif batch and batch[0].substitute is not None:
                    rows = batch[0].substitute(self._connection.explain(error))
                    batches.appendleft([QueuedRows(rows, batch[0].token)])
                else:
                    refused.append(batch)
                    self._fail(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the driver must not wait forever
                self._fail(error)
                break
            else:
                batches.popleft()
                self.failure = None
                if tokens := [entry.token for entry in batch if entry.token is not None]:
                    self._on_commit(tokens)
        batches.extendleft(reversed(refused))

    def _commit(self, batch: list[QueuedRows]) -> None:
        self._commit_began = time.monotonic()
        try:
            self._connection.commit(partial(self._insert, batch))
        finally:
            self._commit_began = None

    def _fail(self, error: Exception) -> None:
        first, self.failure = self.failure is None, self._connection.explain(error)
        if first:
            self._on_failure(self.failure)

    def _insert(self, batch: list[QueuedRows], connection: Connection) -> None:
        now = self._connection.now()
        self._check_lease(connection)
        tables: dict[str, list[Row]] = {}
        for table, row in chain.from_iterable(entry.rows for entry in batch):
            tables.setdefault(table, []).append(row)
        if "columns" in tables:
            add_columns(connection, [schema.Column(*row) for row in tables["columns"]])
        for table, mode in _MODES.items():
            if table in tables:
                connection.executemany(schema.insert(connection.dialect, table, mode), tables[table])
        if now - self._last_heartbeat >= HEARTBEAT_S:
            connection.execute(
                "UPDATE runs SET heartbeat_at = ?, in_flight = ? WHERE run_id = ?",
                (now, self.in_flight, self.lease.run_id),
            )
            self._last_heartbeat = now

    def _check_lease(self, connection: Connection) -> None:
        query = f"SELECT epoch FROM runs WHERE run_id = ?{connection.dialect.locks_row}"
        epochs = connection.execute(query, (self.lease.run_id,)).fetchall()
        if not epochs:
            raise LeaseLost(f"{self.lease.run} was deleted while it ran", "run `abreast run SPEC` again")
        if epochs[0][0] != self.lease.epoch:
            raise LeaseLost(f"{self.lease.run} was taken over by another process", "wait until that process finishes")


def _is_beyond_64_bits(value: object) -> bool:
    """Whether it is an integer that needs a real column."""
    return type(value) is int and not -(2**63) <= value < 2**63

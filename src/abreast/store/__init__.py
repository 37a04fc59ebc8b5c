"""Storage of results.

`open_store(address)` chooses the engine. No SQL and no driver appear above this package: `Store`, `queries` and
`user_tables` offer named operations.

**What every store guarantees** (`tests/test_store_conformance.py` tests each point):

- An acknowledged row is on disk: it survives a crash of the process or the machine (`Writer`).
- Rows queued together (`Writer.put_together`), and everything inside `change()`, are stored atomically.
- One driver at a time executes a run. `begin` and `claim` return a `Lease`; a process with an older epoch can no
  longer write. The death of a driver on this machine is detected at once, elsewhere by its heartbeat.
- Readers see a consistent `snapshot`; readers and the writer never block each other.
- Opening a store of an older version migrates it; a store of a newer version is refused.
- Processes that add the same column concurrently agree on one column, with a type that holds the values of both.
- `delete` removes everything that belongs to a run, also from derived files.
- Values round-trip: NULL, 64-bit integers, floats, text and bytes.

**To add an engine**, write one folder (or a separate package) with

1. a subclass of `Dialect` for the SQL that differs between engines (`dialect.py`);
2. a connection with `execute`, `executemany`, `dicts`, `changes`, `total_changes`, `dialect` (`base.Connection`);
3. a subclass of `Store` that implements the abstract methods of `base.Database`: opening, reading, transactions, the
   writer's connection, the objects of trackers, and user SQL. `schema.create_tables`, `schema.upgrades` and
   `views.make_views` give the statements that create and migrate the tables. Its constructor gets the address with
   the password, if there is one; the attribute `address` never contains it.

Everything else is inherited. Register the engine as an entry point of the group `abreast.stores`; its name is the
`engine` argument of `open_store` and the URL scheme of its addresses.
"""

from __future__ import annotations

from abreast.store.address import ENGINES, SQLITE_SUFFIXES, open_store
from abreast.store.base import Closed, LeaseLost, RowTooLarge, StoreVanished
from abreast.store.runs.leases import Lease
from abreast.store.runs.reuse import Reuse, StoredOutcome
from abreast.store.store import NewRun, Store
from abreast.store.writer import Writer

__all__ = [
    "ENGINES",
    "SQLITE_SUFFIXES",
    "Closed",
    "Lease",
    "LeaseLost",
    "NewRun",
    "Reuse",
    "RowTooLarge",
    "Store",
    "StoreVanished",
    "StoredOutcome",
    "Writer",
    "open_store",
]

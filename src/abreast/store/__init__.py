"""Where results are kept.

`open_store(address)` chooses the engine. Above this package there is no SQL and no driver: `Store` and the modules
`queries` and `user_tables` answer named questions.

**What a store promises**, whatever its engine (`tests/test_store_conformance.py` states each point):

- A row that was acknowledged is on disk: it survives the end of the process and of the machine (`Writer`).
- Rows that are queued together (`Writer.put_together`), and everything inside of `change()`, are stored all or none.
- One driver at a time executes a run. `begin` and `claim` give it a `Lease`; whoever holds an older epoch can write
  nothing more. A driver that was killed on this machine is noticed at once, another one by its heartbeat.
- Readers see one moment of the store (`snapshot`) and never block the writer, nor the writer them.
- A store of an older version is brought up to date when it is opened; one of a newer version is refused.
- Several processes may add columns at the same time; they agree on one column with a type that holds both.
- `delete` removes everything of a run, also from files that are derived from the rows.
- Values come back as what they were: NULL, integers of 64 bits, floats, text and bytes.

**How to add an engine**: one folder (a package of its own works, too) with

1. a subclass of `Dialect` for the few things that engines spell differently (`dialect.py`);
2. a connection: `execute`, `executemany`, `dicts`, `changes`, `total_changes` and its `dialect` (`base.Connection`);
3. a subclass of `Store` that implements the abstract methods of `base.Database`: opening, reading, one transaction,
   the connection of a writer, and the user's own SQL. `schema.create_tables`, `schema.upgrades` and `views.make_views`
   give the statements that make and upgrade the tables.

Everything else is inherited. The engine is registered as an entry point of the group `abreast.stores`; its name is the
`engine` of `open_store`, and the scheme of its addresses.
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

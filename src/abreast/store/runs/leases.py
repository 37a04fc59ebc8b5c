"""Leases: one driver at a time executes a run, and others can tell whether it is alive.

An owner is alive while its heartbeat, which the writer renews in the store, is recent. On the same machine the locked
record of its driver (`user_state.drivers`) shows at once whether it is alive.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from abreast.errors import StoreError
from abreast.store.user_state import drivers

SILENT_AFTER_S = 30.0  # an owner on another machine counts as dead when its heartbeat is this old


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to execute one run. `epoch` is the fencing token: older leases can no longer write."""

    run_id: int
    run: str
    epoch: int
    owner: str


# The leases of this process. A run that could not give its lease back (full disk) must not look alive just because the
# process, such as a notebook, lives on.
_own_leases: set[str] = set()


def new_owner() -> str:
    mark, registry = drivers.registration()
    holder = {"place": drivers.machine_id(), "driver": mark, "registry": registry, "lease": os.urandom(6).hex()}
    return json.dumps(holder)


def hold(owner: str) -> None:
    _own_leases.add(owner)


def release(owner: str) -> None:
    _own_leases.discard(owner)


def is_alive(owner: str | None, heartbeat_at: float | None, now: float) -> bool:
    """Whether the owner of a lease still executes the run. `now` is the time by the clock that wrote the heartbeat."""
    if not owner:
        return False
    if owner in _own_leases:
        return True
    holder = json.loads(owner)
    if holder["place"] == drivers.machine_id() and "driver" in holder:  # earlier versions stored a process id
        if drivers.is_own(holder["driver"]):
            return False
        is_locked = drivers.is_locked(holder["driver"], holder["registry"])
        if is_locked is not None:
            return is_locked
    return now - (heartbeat_at or 0.0) < SILENT_AFTER_S


def active_error(run: str, owner: str, fix: str) -> StoreError:
    """The error for a run that another process is executing."""
    return StoreError(f"{run} is being executed by {_describe(owner)}", fix)


def _describe(owner: str) -> str:
    holder = json.loads(owner)
    process = holder["pid"] if "pid" in holder else holder["driver"].partition("-")[0]
    return f"process {process} on {holder['place'].partition('|')[0]}"

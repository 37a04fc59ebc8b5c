"""Who executes a run: one process at a time, found out by looking at it rather than by waiting."""

from __future__ import annotations

import json
import os
import time
from functools import cache
from pathlib import Path

SILENT_AFTER_S = 30.0  # an owner on another machine counts as gone when its heartbeat is this old


@cache
def this_place() -> str:
    """A name for where process ids mean something: host, boot and process namespace."""
    parts = [os.uname().nodename]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(str(Path(path).readlink()) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            parts.append("")
    return "|".join(parts)


# The leases that this process holds: a run that ended without giving its lease back (a full disk) must not look alive
# because the process, a notebook say, lives on.
_held: set[str] = set()


def new_owner() -> str:
    """What a lease says of its holder, this process; no two are the same."""
    pid = os.getpid()
    holder = {"place": this_place(), "pid": pid, "since": _since(pid)}
    return json.dumps({**holder, "lease": os.urandom(6).hex()})


def take(owner: str) -> None:
    _held.add(owner)


def let_go(owner: str) -> None:
    _held.discard(owner)


def _since(pid: int) -> float:
    """When a process started. On Linux in ticks since the boot, which no adjustment of the clock moves."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        return float(text.rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        import psutil  # late: only for other processes, and where there is no /proc

        return float(psutil.Process(pid).create_time())


def is_alive(owner: str | None, heartbeat_at: float | None) -> bool:
    """Whether the owner of a lease still executes."""
    if not owner:
        return False
    holder = json.loads(owner)
    if holder["place"] != this_place():
        return time.time() - (heartbeat_at or 0.0) < SILENT_AFTER_S
    import psutil

    pid = holder["pid"]
    try:
        if abs(_since(pid) - holder["since"]) >= 1.0 or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return False
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:  # it is there, and somebody else's
        return True
    return pid != os.getpid() or owner in _held


def describe(owner: str) -> str:
    holder = json.loads(owner)
    return f"process {holder['pid']} on {holder['place'].split('|')[0]}"

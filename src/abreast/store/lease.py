"""Who executes a run: one process at a time, found out by looking at it rather than by waiting."""

from __future__ import annotations

import json
import socket
import time
from functools import cache
from pathlib import Path

import psutil

SILENT_AFTER_S = 30.0  # an owner on another machine counts as gone when its heartbeat is this old


@cache
def this_place() -> str:
    """A name for where process ids mean something: host, boot and process namespace."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(str(Path(path).readlink()) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            parts.append("")
    return "|".join(parts)


def this_process(mark: str) -> str:
    """What a lease says of its holder; `mark` is what its child processes carry."""
    process = psutil.Process()
    return json.dumps({"place": this_place(), "pid": process.pid, "since": process.create_time(), "mark": mark})


def mark_of(owner: str | None) -> str | None:
    """The mark of a holder that worked on this machine."""
    holder = json.loads(owner) if owner else {}
    return holder.get("mark") if holder.get("place") == this_place() else None


def is_alive(owner: str | None, heartbeat_at: float | None) -> bool:
    """Whether the owner of a lease still executes."""
    if not owner:
        return False
    holder = json.loads(owner)
    if holder["place"] != this_place():
        return time.time() - (heartbeat_at or 0.0) < SILENT_AFTER_S
    try:
        process = psutil.Process(holder["pid"])
        return bool(abs(process.create_time() - holder["since"]) < 1.0 and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def describe(owner: str) -> str:
    holder = json.loads(owner)
    return f"process {holder['pid']} on {holder['place'].split('|')[0]}"

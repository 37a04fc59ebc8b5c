"""Sample the memory and CPU of the processes below this one, for all trials at once."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

BUSY_CORES = 0.5  # a program that uses more counts as computing, whatever the state of its processes
MEMORY_KILLS = Path("/proc/vmstat")
KILL_CODES = (-signal.SIGKILL, 128 + signal.SIGKILL)
_PEAK = re.compile(rb"^VmHWM:\s+(\d+) kB", re.M)
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessInfo(NamedTuple):
    pid: int
    parent: int
    state: str  # as in ps: R runs or waits for a core, D waits for a disk
    cpu_s: float  # including children it has waited for
    memory: int  # bytes


@dataclass(slots=True)
class ProgramUsage:
    """What a program and everything it started have used."""

    pid: int
    is_supervised: bool = False  # then `pid` is the supervisor's, and the program is everything below it
    peak_memory: int | None = None  # bytes; None before the first sample


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """What this process and the programs below it use at a point in time."""

    memory: int  # bytes, this process included
    cpu_s: float  # seconds of all processes below this one so far
    computing: int  # programs that run on a core or wait for one
    idle: int  # programs that wait for something other than a core or a disk


@dataclass(slots=True)
class _ProgramSample:
    peak: int = 0
    cpu_s: float = 0.0
    states: set[str] = field(default_factory=set)


class ProcessSampler:
    """Samples the processes below this one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, ProgramUsage] = {}
        self._cpu_s: dict[int, float] = {}  # CPU time by program at the last sample
        self._sampled_at = 0.0

    def watch(self, pid: int, is_supervised: bool = False) -> ProgramUsage:
        """Record the usage of a program at every sample until `forget`."""
        usage = self._watched[pid] = ProgramUsage(pid, is_supervised)
        return usage

    def forget(self, usage: ProgramUsage) -> None:
        self._watched.pop(usage.pid, None)

    def sample(self) -> ProcessSample:
        with self._lock:
            watched = dict(self._watched)
            programs, totals = _sample_programs(watched)
            now = time.monotonic()
            elapsed, self._sampled_at = now - self._sampled_at, now
            previous, self._cpu_s = self._cpu_s, {pid: program.cpu_s for pid, program in programs.items()}
        computing = idle = 0
        for pid, program in programs.items():
            if pid in watched and program.peak:
                watched[pid].peak_memory = max(watched[pid].peak_memory or 0, program.peak)
            cpu_s = program.cpu_s - previous.get(pid, program.cpu_s)
            if "R" in program.states or cpu_s > BUSY_CORES * elapsed:
                computing += 1
            elif "D" not in program.states:
                idle += 1
        return ProcessSample(*totals, computing, idle)


def _sample_programs(watched: dict[int, ProgramUsage]) -> tuple[dict[int, _ProgramSample], tuple[int, float]]:
    """Return the programs below this process, by the id of their first process, and total memory and CPU. A program is
    one that is watched, or else a child of this process without watched programs below it."""
    own = os.getpid()
    supervisors = {pid for pid, usage in watched.items() if usage.is_supervised}
    programs: dict[int, _ProgramSample] = {}
    containers: set[int] = set()
    program_of: dict[int, int] = {}
    times = os.times()
    memory, cpu_s = int(psutil.Process().memory_info().rss), times.children_user + times.children_system
    for process in _descendants(own):
        parent_program = program_of.get(process.parent)
        pid = process.pid if process.pid in watched or parent_program is None else parent_program
        if parent_program is not None and pid != parent_program:
            containers.add(parent_program)
        program_of[process.pid] = pid
        program = programs.setdefault(pid, _ProgramSample())
        program.cpu_s += process.cpu_s
        if process.pid not in supervisors:
            program.states.add(process.state)
            program.peak += _peak(process) if pid in watched else 0
        memory += process.memory
        cpu_s += process.cpu_s
    return {pid: program for pid, program in programs.items() if pid not in containers}, (memory, cpu_s)


def _descendants_by_children(pid: int) -> Iterator[ProcessInfo]:
    """Yield all processes below one, parents first."""
    pending = [(child, pid) for child in _children(pid, threads=2)]
    visited = {pid}
    while pending:
        child, parent = pending.pop()
        content = _read(f"/proc/{child}/stat")
        if not content or child in visited:
            continue
        visited.add(child)
        fields = content[content.rindex(b")") + 2 :].split()  # the name in front may contain anything
        cpu_s = _TICK_S * sum(map(int, fields[11:15]))
        yield ProcessInfo(child, parent, fields[0].decode(), cpu_s, _PAGE_BYTES * int(fields[21]))
        pending += [(grandchild, child) for grandchild in _children(child, int(fields[17]))]


def _descendants_by_psutil(pid: int) -> Iterator[ProcessInfo]:
    for process in psutil.Process(pid).children(recursive=True):
        try:
            with process.oneshot():
                state = "R" if process.status() == psutil.STATUS_RUNNING else "S"
                cpu_s, memory = sum(process.cpu_times()[:4]), process.memory_info().rss
                yield ProcessInfo(process.pid, process.ppid(), state, cpu_s, memory)
        except psutil.Error:  # the process has ended
            continue


_descendants: Callable[[int], Iterator[ProcessInfo]] = (
    _descendants_by_children if sys.platform == "linux" else _descendants_by_psutil
)


def _children(pid: int, threads: int) -> Iterator[int]:
    """Yield the children of a process, which Linux lists by the thread that started them."""
    try:
        tasks = [str(pid)] if threads == 1 else os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - many a second
    except OSError:
        return
    for task in tasks:
        yield from map(int, _read(f"/proc/{pid}/task/{task}/children").split())


def _peak(process: ProcessInfo) -> int:
    """Return the peak memory of a process, where Linux records it; else its current memory."""
    match = _PEAK.search(_read(f"/proc/{process.pid}/status"))
    return int(match[1]) * 1024 if match else process.memory


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - many a second
            return file.read()
    except OSError:  # the process has ended
        return b""


SAMPLER = ProcessSampler()


def memory_kills(path: Path = MEMORY_KILLS) -> int | None:
    """Return the system's count of processes killed because memory was short; None if unknown."""
    try:
        match = re.search(rb"^oom_kill (\d+)$", path.read_bytes(), re.M)
    except OSError:
        return None
    return int(match[1]) if match else None


_recent_kills: tuple[float, int | None] = float("-inf"), None


def recent_memory_kills() -> int | None:
    """Return `memory_kills()`, cached for a second because it is slow."""
    global _recent_kills
    now = time.monotonic()
    if now - _recent_kills[0] > 1.0:
        _recent_kills = now, memory_kills()
    return _recent_kills[1]


def is_out_of_memory(code: int, before: int | None, after: int | None) -> bool:
    """Whether a program was probably killed because memory was short: it or its child was killed by SIGKILL, and the
    system's count of such kills increased.

    >>> is_out_of_memory(-9, 3, 4), is_out_of_memory(137, 3, 4)
    (True, True)
    >>> is_out_of_memory(-9, 3, 3), is_out_of_memory(1, 3, 4), is_out_of_memory(-9, None, None)
    (False, False, False)
    """
    return code in KILL_CODES and before is not None and after is not None and after > before

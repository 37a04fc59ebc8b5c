"""Available memory, cores and pressure of this machine, within the limits of its control group (v1 or v2)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import psutil

from abreast.targets.processes.process_usage import SAMPLER, ProcessSample

UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class MachineReading:
    """Memory available, and the processes of this run."""

    available: int  # bytes
    memory_pressure: float  # see `Machine.memory_pressure`
    own: ProcessSample


class Machine:
    """Takes readings of the machine. `root` contains `proc` and `sys`; tests create their own."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read(self) -> MachineReading:
        """Take a reading. It blocks, because it looks at every process of this run."""
        return MachineReading(self.available_memory(), self.memory_pressure(), SAMPLER.sample())

    def cores(self) -> float:
        """Cores this process may use, by affinity and CPU quota."""
        try:
            available = float(len(os.sched_getaffinity(0)))
        except AttributeError:
            available = float(os.cpu_count() or 1)
        return max(1.0, min(available, self._cpu_quota()))

    def total_memory(self) -> int:
        return min(psutil.virtual_memory().total, self._memory_limit())

    def available_memory(self) -> int:
        """Bytes that can still be used before something is killed."""
        free = psutil.virtual_memory().available
        limit = self._memory_limit()
        return min(free, max(0, limit - self._memory_used())) if limit < UNLIMITED else free

    def memory_pressure(self) -> float:
        """Per cent of the last ten seconds in which some process waited for memory; 0 if unknown."""
        text = self._read("proc/pressure/memory") or ""
        for word in text.split("\n", 1)[0].split():
            if word.startswith("avg10="):
                return float(word[6:])
        return 0.0

    # -- control groups --------------------------------------------------------------------------------------------

    @cached_property
    def _groups(self) -> dict[str, str]:
        """Paths by controller; '' is cgroup v2."""
        groups = {}
        for line in (self._read("proc/self/cgroup") or "").splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                groups[controller] = path.lstrip("/")
        return groups

    def _memory_limit(self) -> int:
        values = self._up_the_tree("", "memory.max") + self._up_the_tree("memory", "memory.limit_in_bytes")
        return min((int(value) for value in values if value.isdecimal()), default=UNLIMITED)

    def _memory_used(self) -> int:
        for controller, name in (("", "memory.current"), ("memory", "memory.usage_in_bytes")):
            values = self._up_the_tree(controller, name)
            if values and values[0].isdecimal():
                return int(values[0]) - self._reclaimable(controller)
        return 0

    def _reclaimable(self, controller: str) -> int:
        """Bytes of file cache, which count as used in a group but are freed when needed."""
        for text in self._up_the_tree(controller, "memory.stat")[:1]:
            for line in text.splitlines():
                key, _, value = line.partition(" ")
                if key in ("inactive_file", "total_inactive_file"):
                    return int(value)
        return 0

    def _cpu_quota(self) -> float:
        """Cores by the strictest quota of version 2 or 1."""
        quotas = [text.partition(" ")[::2] for text in self._up_the_tree("", "cpu.max")]
        of_v1 = self._up_the_tree("cpu", "cpu.cfs_quota_us"), self._up_the_tree("cpu", "cpu.cfs_period_us")
        quotas += zip(*of_v1, strict=False)
        numbers = (pair for pair in quotas if pair[0].isdecimal() and pair[1].isdecimal())
        return min((int(quota) / int(period) for quota, period in numbers), default=float("inf"))

    def _up_the_tree(self, controller: str, name: str) -> list[str]:
        """Contents of a file in this process's control group and its ancestors."""
        base = self._root / "sys/fs/cgroup" / controller
        folder = base / self._groups.get(controller, "")
        texts = []
        while True:
            text = self._read(str((folder / name).relative_to(self._root)))
            if text is not None:
                texts.append(text.strip())
            if folder == base or base not in folder.parents:
                return texts
            folder = folder.parent

    def _read(self, path: str) -> str | None:
        try:
            return (self._root / path).read_text()
        except OSError:
            return None

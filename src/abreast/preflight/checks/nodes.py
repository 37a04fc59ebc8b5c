"""Describe the nodes of a cluster, their speed compared with this machine, and the bottleneck."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abreast.preflight.context import Context
from abreast.preflight.estimate import QuotaEstimate
from abreast.preflight.finding import Finding
from abreast.spec.schema import size_in_bytes
from abreast.text import many

TRIALS_PER_S = 3_000.0  # trials that one driver can start; see docs/explanation/scaling.md
PROCESS_MEMORY = 200_000_000  # bytes of a trial in a process, unless `memory_per_trial` is set
SAME_SPEED = 1.1  # a smaller speed-up is not worth reporting

LIMITS, QUOTA, DRIVER, CORES, MEMORY = "limits", "quota", "driver", "cores", "memory"
_FIX = {
    LIMITS: "raise limits such as parallel, or run with --engine local",
    QUOTA: "run with --engine local",
    DRIVER: "run with --engine local",
    CORES: "add nodes, or run with --engine local",
    MEMORY: "add nodes, or run with --engine local",
}


@dataclass(frozen=True, slots=True)
class Capacity:
    """Cores and memory of one machine, or of several together."""

    cores: float
    memory: float  # bytes

    @classmethod
    def of(cls, nodes: Sequence[Mapping[str, Any]]) -> Capacity:
        """Sum up what nodes offer to Ray, as several may share a machine."""
        resources = [node["resources"] for node in nodes]
        return cls(sum(own.get("CPU", 0.0) for own in resources), sum(own.get("memory", 0.0) for own in resources))

    @classmethod
    def here(cls) -> Capacity:
        import psutil

        return cls(psutil.cpu_count() or 1, psutil.virtual_memory().total)

    def __str__(self) -> str:
        return f"{self.cores:g} core{'' if self.cores == 1 else 's'} and {self.memory / 1e9:.1f} GB"


def check_nodes(context: Context) -> Finding | None:
    nodes = context.provenance.get("nodes")
    if not nodes:
        return None
    capacity = Capacity.of(nodes)
    message = f"{many(len(nodes), 'node')} with {capacity}"
    details = tuple(map(_describe, nodes))
    if not context.estimate.trials:
        return Finding("nodes", "pass", message, "", details)
    times = _times(context, capacity)
    bottleneck = max(times, key=times.__getitem__)
    speed_up = max(_times(context, Capacity.here()).values()) / times[bottleneck]
    if speed_up < SAME_SPEED:
        message += f"; no faster than this machine; bottleneck: {bottleneck}"
        return Finding("nodes", "note", message, _FIX[bottleneck], details)
    message += f"; about {speed_up:.1f} × as fast as this machine; bottleneck: {bottleneck}"
    return Finding("nodes", "pass", message, "", details)


def _times(context: Context, capacity: Capacity) -> dict[str, float]:
    """The least seconds that the remaining trials take, by limiting factor. A trial of unknown length counts as 1 s.

    Functions in processes are assumed to compute all the time, agents only while they start, and others not at all.
    """
    estimate, limits = context.estimate, context.limits
    targets = {name: target for _, name, target in context.open_variants()}
    memory = PROCESS_MEMORY if limits.memory_per_trial is None else size_in_bytes(limits.memory_per_trial)
    total_s = cpu_s = byte_s = 0.0
    for variant in estimate.variants:
        target, seconds = targets[variant.variant], variant.seconds or float(variant.trials)
        total_s += seconds
        if target.place == "process":
            byte_s += seconds * memory
            cpu_s += seconds if target.agent is None else variant.trials * target.start_cpu_s
    return {
        LIMITS: estimate.seconds or total_s / estimate.in_flight,
        QUOTA: max(map(_wait, estimate.quotas), default=0.0),
        DRIVER: estimate.trials / TRIALS_PER_S,
        CORES: cpu_s / max(capacity.cores, 1.0),
        MEMORY: byte_s / max(capacity.memory, 1.0),
    }


def _wait(quota: QuotaEstimate) -> float:
    """Seconds until the quota has room for the last trial."""
    missing = 0 if quota.remaining is None else max(0, quota.needed - quota.remaining)
    return math.ceil(missing / quota.most) * quota.window_s


def _describe(node: Mapping[str, Any]) -> str:
    """`worker-1: Python 3.11.7, abreast 0.1.0, claude 2.1.3, 8 cores and 31.2 GB, gpu: 1`."""
    versions = {"Python": node["python"], "abreast": node["abreast"], **node["cli_versions"]}
    custom = {
        name: amount
        for name, amount in node["resources"].items()
        if name not in ("CPU", "memory", "object_store_memory")
    }
    parts = [f"{name} {version}" for name, version in versions.items()]
    parts += [str(Capacity.of([node])), *(f"{name}: {amount:g}" for name, amount in custom.items())]
    return f"{node['name']}: {', '.join(parts)}"

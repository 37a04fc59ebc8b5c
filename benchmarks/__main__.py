"""`make bench`: every benchmark, as ratios measured in one run. Names of groups choose some."""

from __future__ import annotations

import sys

from benchmarks import (
    api,
    code_search,
    coding_agents,
    limits,
    numbers,
    reports,
    runner,
    statistics,
    tracker,
    workspaces,
)

GROUPS = {
    "runner": runner.ALL,
    "api": api.ALL,
    "limits": limits.ALL,
    "reports": reports.ALL,
    "tracker": tracker.ALL,
    "workspaces": workspaces.ALL,
    "numbers": numbers.ALL,
    "statistics": statistics.ALL,
    "code-search": code_search.ALL,
    "coding-agents": coding_agents.ALL,
}


def main(chosen: list[str]) -> int:
    reached = []
    for name, benchmarks in GROUPS.items():
        if chosen and name not in chosen:
            continue
        print(f"{name}:")
        reached += [benchmark() for benchmark in benchmarks]
    print(f"{sum(reached)} of {len(reached)} goals reached")
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

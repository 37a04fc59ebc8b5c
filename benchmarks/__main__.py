"""`make bench`: run every benchmark and compare with `baseline.json`. Arguments choose groups.

`--quick` runs the short ones and never fails because of a figure: CI runs it on a shared machine. `--write-baseline`
keeps what was measured as the baseline of later runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from types import ModuleType

from benchmarks import (
    adaptive,
    api,
    breaker,
    cluster,
    code_search,
    coding_agents,
    importing,
    limits,
    measure,
    numbers,
    processes,
    reports,
    runner,
    scale,
    statistics,
    stores,
    tracker,
    workspaces,
)

BASELINE = measure.ROOT / "benchmarks" / "baseline.json"
SLOWER = 1.25  # times the baseline

GROUPS: dict[str, ModuleType] = {
    "runner": runner,
    "api": api,
    "limits": limits,
    "adaptive": adaptive,
    "breaker": breaker,
    "reports": reports,
    "stores": stores,
    "tracker": tracker,
    "workspaces": workspaces,
    "processes": processes,
    "scale": scale,
    "cluster": cluster,
    "numbers": numbers,
    "statistics": statistics,
    "code-search": code_search,
    "coding-agents": coding_agents,
    "importing": importing,
}


def benchmarks_of(module: ModuleType, quick: bool) -> tuple[Callable[[], bool], ...]:
    """A group's benchmarks. The quick ones are those it lists under QUICK."""
    chosen: tuple[Callable[[], bool], ...] = getattr(module, "QUICK", ()) if quick else module.ALL
    return chosen


def compare(baseline: dict[str, float]) -> list[str]:
    """Describe what has become more than 25 % slower than the baseline."""
    lines = []
    for name, value in measure.VALUES.items():
        before = baseline.get(name)
        if before and value.slowdown(before) > SLOWER:
            lines.append(f"{name}: {value.number:.4g}, baseline {before:.4g} ({value.slowdown(before):.2f} × as slow)")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", choices=[*GROUPS, []], help=", ".join(GROUPS))
    parser.add_argument("--quick", action="store_true", help="only the short ones, about two minutes")
    parser.add_argument("--write-baseline", action="store_true", help="keep the figures in baseline.json")
    options = parser.parse_args()
    baseline: dict[str, float] = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    reached = []
    for name, module in GROUPS.items():
        chosen = benchmarks_of(module, options.quick)
        if chosen and (not options.groups or name in options.groups):
            print(f"{name}:")
            reached += [benchmark() for benchmark in chosen]
    print(f"{sum(reached)} of {len(reached)} goals reached")
    for line in compare(baseline):
        print(f"slower than the baseline: {line}")
    if options.write_baseline:
        baseline |= {name: float(f"{value.number:.4g}") for name, value in measure.VALUES.items()}
        BASELINE.write_text(json.dumps(dict(sorted(baseline.items())), indent=2, ensure_ascii=False) + "\n")
    return 0 if all(reached) or options.quick else 1


if __name__ == "__main__":
    sys.exit(main())

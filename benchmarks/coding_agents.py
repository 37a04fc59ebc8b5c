"""The suite `coding-agents`: how much time runs side by side save, and whether large agents fit into the machine."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from benchmarks import measure

WAIT = 4.0  # seconds that an agent waits for its model: minutes, in life
RUNS = 8  # of two agents on one prompt
GOALS = {1: 0.45, 4: 0.80, 8: 0.85}  # runs of an agent at once, and by how much the time shall fall
LARGE = 600_000_000  # bytes of an agent
MANY = 40  # runs of it
HOLDS = """
import re, time
block = bytearray({size})
block[::4096] = b"x" * len(block[::4096])
time.sleep(8)
print(re.search(r"MemAvailable: *(\\d+)", open("/proc/meminfo").read())[1])
"""


def _rows(path: Path, agents: list[Any], runs: int, parallel_runs: int, together: bool = True) -> list[dict[str, Any]]:
    from abreast.suites.coding_agents.config import SuiteConfig, experiment

    prompt = path / "prompt1.md"
    prompt.write_text("work", encoding="utf-8")
    config = SuiteConfig(
        agents=agents,
        prompts=[prompt],
        runs=runs,
        parallel_runs=parallel_runs,
        parallel_agents=together,
        base=path,
        store=str(path / "results.db"),
    )
    rows: list[dict[str, Any]] = experiment(config).run().rows()
    assert all(row["status"] == "ok" for row in rows)
    return rows


def _seconds(rows: list[dict[str, Any]]) -> float:
    return max(row["finished_at"] for row in rows) - min(row["started_at"] for row in rows)


def waiting(parallel_runs: int, together: bool) -> dict[str, Any]:
    """Agents that mostly wait, as those of a provider do."""
    from abreast.suites.coding_agents.agents import AgentVariant

    agents = [AgentVariant(name, {"command": f"sleep {WAIT}; echo {name}", "shell": True}) for name in ("one", "other")]
    with measure.folder() as path:
        return {"seconds": _seconds(_rows(path, agents, RUNS, parallel_runs, together))}


def falls() -> bool:
    """Against one run after the other."""
    slow = measure.in_own_process("coding_agents", "waiting", 1, False).extra["seconds"]
    reached = []
    for parallel_runs, goal in GOALS.items():
        less = 1 - measure.in_own_process("coding_agents", "waiting", parallel_runs, True).extra["seconds"] / slow
        title = f"two agents side by side, parallel_runs {parallel_runs}"
        reached.append(measure.line(title, f"−{less:.1%}", f"≥ {goal:.0%}", less >= goal))
    measure.line("  one after the other", f"{slow:.1f} s for {2 * RUNS * WAIT:.1f} s of waiting", "reported", True)
    return all(reached)


def holding() -> dict[str, Any]:
    """Agents that hold 600 MB for some seconds; each says what was available while it did."""
    from abreast.suites.coding_agents.agents import AgentVariant

    with measure.folder() as path:
        (path / "agent.py").write_text(HOLDS.format(size=LARGE), encoding="utf-8")
        rows = _rows(path, [AgentVariant("large", {"command": [sys.executable, "{folder}/agent.py"]})], MANY, MANY)
    available = [int(row["answer"]) * 1024 for row in rows]
    return {
        "runs": len(rows),
        "least": min(available),
        "most": max(row["in_flight"] for row in rows),
        "s": _seconds(rows),
    }


def fits() -> bool:
    """All of them asked for at once: together they may need more than there is."""
    meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    total = 1024 * int(re.findall(r"MemTotal: *(\d+)", meminfo)[0])
    figures = measure.in_own_process("coding_agents", "holding").extra
    free_share = figures["least"] / total
    title = f"{MANY} runs of {LARGE / 1e6:.0f} MB at once on {total / 1e9:.0f} GB: memory left"
    reached = measure.line(
        title, f"{free_share:.0%} at least", "≥ 4 %, all done", free_share >= 0.04 and figures["runs"] == MANY
    )
    measure.line("  in flight at most", f"{figures['most']}, {figures['s']:.0f} s in all", "reported", True)
    return reached


ALL = [falls, fits]

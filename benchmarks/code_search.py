"""The suite `code-search` on a target of 300 ms: how much less time 40 cases take with 2, 4 and 8 trials in flight."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks import measure

LATENCY = 0.3
CASES = 40
GOALS = {2: 0.48, 4: 0.73, 8: 0.86}  # trials in flight, and by how much the time shall fall


def execute(parallel: int) -> dict[str, Any]:
    """A run; the time from the first start of a trial to the last end of one, as the rows have it."""
    from abreast.suites.code_search.config import CodeSearchConfig, experiment

    with measure.folder() as path:
        repo = _repository(path / "repo")
        config = CodeSearchConfig(repo=repo, mock=True, mock_latency=LATENCY, store=str(path / "results.db"))
        rows = experiment(config, path).run(parallel=parallel).rows()
    assert len(rows) == 2 * CASES
    assert all(row["status"] == "ok" for row in rows)
    begun, ended = min(row["started_at"] for row in rows), max(row["finished_at"] for row in rows)
    answers = [[row["case_id"], row["variant"], row["answer"], row["score"]] for row in rows]
    return {"seconds": ended - begun, "found": answers}


def _repository(repo: Path) -> Path:
    """Files with a function each, and a case for each of them."""
    cases = []
    (repo / "src").mkdir(parents=True)
    for number in range(CASES):
        name, path = f"step_{number}", f"src/part_{number}.py"
        (repo / path).write_text(f"def {name}():\n    return {number}\n", encoding="utf-8")
        truth = {"files": [path], "symbols": [name], "lines": {path: [1]}}
        category = ("search", "navigate", "understand")[number % 3]
        cases.append({"id": f"c{number}", "category": category, "prompt": f"Where is {name}?", "ground_truth": truth})
    (repo / "cases").mkdir()
    (repo / "cases" / "all.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    return repo


def falls() -> bool:
    """Against the same run one after the other, each in a process of its own."""
    runs = {parallel: measure.in_own_process("code_search", "execute", parallel).extra for parallel in (1, *GOALS)}
    slow, reached = runs[1], []
    for parallel, goal in GOALS.items():
        less = 1 - runs[parallel]["seconds"] / slow["seconds"]
        reached.append(
            measure.line(f"code-search, --parallel {parallel}", f"−{less:.1%}", f"≥ {goal:.0%}", less >= goal)
        )
    same = all(run["found"] == slow["found"] for run in runs.values())
    reached.append(measure.line("  the same rows in the same order", str(same).lower(), "true", same))
    ideal = 2 * CASES * LATENCY
    measure.line("  one after the other", f"{slow['seconds']:.1f} s for {ideal:.1f} s of calls", "reported", True)
    return all(reached)


ALL = [falls]

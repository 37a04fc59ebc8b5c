"""Each measurement in a process of its own: wall time, CPU and memory of one call, nothing left over from another."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Value:
    """A measured number, and which direction is better."""

    number: float
    more_is_better: bool

    def slowdown(self, baseline: float) -> float:
        """How many times worse this is than the baseline."""
        return baseline / self.number if self.more_is_better else self.number / baseline


VALUES: dict[str, Value] = {}  # what this run has measured, by the name of its line


@dataclass
class Measured:
    """What one call took. `execution` is from the first start of a trial to the last end, if the call tells."""

    wall: float
    cpu: float
    memory_kb: int
    extra: dict[str, Any]


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="abreast-bench-") as path:
        yield Path(path)


def in_root(words: Sequence[str]) -> str:
    """Run a command in the folder of the project; return its output."""
    return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def in_own_process(
    module: str, function: str, *arguments: Any, run: Callable[[Sequence[str]], str] = in_root
) -> Measured:
    """Call `function` of `benchmarks.module` in a fresh process, which `run` starts."""
    code = f"from benchmarks import measure, {module}; measure.report({module}.{function}, {list(arguments)!r})"
    output = run(["env", "PYTHONHASHSEED=0", sys.executable, "-c", code])
    return Measured(**json.loads(output.splitlines()[-1]))


def report(function: Callable[..., dict[str, Any] | None], arguments: list[Any]) -> None:
    """In the fresh process: call it and print what it took."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, wall = time.process_time(), time.perf_counter()
    extra = function(*arguments) or {}
    measured = Measured(
        time.perf_counter() - wall,
        time.process_time() - cpu,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before,
        extra,
    )
    print(json.dumps({item.name: getattr(measured, item.name) for item in fields(measured)}))


def line(
    name: str, figure: str, goal: str, reached: bool, *, value: float | None = None, more_is_better: bool = False
) -> bool:
    """Print one line of the result. A `value` is compared with the same line of `baseline.json`."""
    print(f"{'ok  ' if reached else 'MISS'}  {name:<52} {figure:<44} goal {goal}", flush=True)
    if value is not None:
        VALUES[name] = Value(value, more_is_better)
    return reached

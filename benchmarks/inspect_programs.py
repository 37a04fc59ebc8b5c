"""The programs of `benchmarks.processes` as samples of Inspect. Run with the Python of `.venv/peers`.

Arguments: the number of programs, how many at once, and the command line. Prints as JSON the seconds from the first
start of a program to the last end, and the CPU time of the whole evaluation.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import time

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.solver import Generate, TaskState, solver

TRIALS, AT_ONCE, COMMAND = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
MOMENTS: list[float] = []


@solver
def program():
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        MOMENTS.append(time.monotonic())
        process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        state.output.completion = (await process.communicate())[0].decode().strip()
        MOMENTS.append(time.monotonic())
        return state

    return solve


def cpu_s() -> float:
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


begin = cpu_s()
with tempfile.TemporaryDirectory() as folder:
    (log,) = eval(
        Task(dataset=[Sample(input=f"question {number}") for number in range(TRIALS)], solver=program()),
        model="mockllm/model",
        max_samples=AT_ONCE,
        display="none",
        log_dir=folder,
    )
assert log.status == "success"
print(json.dumps({"seconds": max(MOMENTS) - min(MOMENTS), "cpu_s": cpu_s() - begin}))

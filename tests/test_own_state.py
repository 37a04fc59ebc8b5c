"""Restarted programs reuse cached results even if calls change the state that they refer to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abreast import Tracker
from conftest import Folder

LOOP = """
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
import warnings

from abreast import Tracker

warnings.simplefilter("always")
{code}

def executed():
    with open("executed", "a") as file:
        file.write("x")

def track(item):
    return Tracker("results.db", cache="cache").track({function}, args=[item])

{loop}
"""
SEQUENTIAL = "for item in range(50): assert track(item) == item * 2"
THREADS = "with ThreadPoolExecutor(8) as pool: assert list(pool.map(track, range(50))) == [2 * n for n in range(50)]"

COUNTERS = {
    "a global": (
        """
COUNT = 0
def work(x):
    global COUNT
    COUNT += 1
    executed()
    return x * 2
""",
        "work",
        "__main__.COUNT",
    ),
    "a closure cell": (
        """
def make():
    count = 0
    def work(x):
        nonlocal count
        count += 1
        executed()
        return x * 2
    return work
work = make()
""",
        "work",
        "work.count",
    ),
    "a default argument": (
        """
def work(x, seen=[]):
    seen.append(x)
    executed()
    return x * 2
""",
        "work",
        "work.seen",
    ),
    "a function attribute": (
        """
def work(x):
    work.calls = getattr(work, "calls", 0) + 1
    executed()
    return x * 2
""",
        "work",
        "work.calls",
    ),
    "an instance attribute": (
        """
class Predictor:
    def __init__(self):
        self.calls = 0
        self.factor = 2
    def work(self, x):
        self.calls += 1
        executed()
        return x * self.factor
predictor = Predictor()
""",
        "predictor.work",
        "Predictor.calls",
    ),
    "an item of a dictionary": (
        """
STATE = {"factor": 2, "calls": 0}
def work(x):
    STATE["calls"] += 1
    executed()
    return x * STATE["factor"]
""",
        "work",
        "STATE['calls']",
    ),
    "an attribute of a global object": (
        """
@dataclass
class Budget:
    spent: int = 0
    factor: int = 2
BUDGET = Budget()
def work(x):
    BUDGET.spent += x
    executed()
    return x * BUDGET.factor
""",
        "work",
        "Budget.spent",
    ),
    "what is made at the first call": (
        """
class Model:
    def predict(self, x):
        return x * 2
MODEL = None
def work(x):
    global MODEL
    if MODEL is None:
        MODEL = Model()
    executed()
    return MODEL.predict(x)
""",
        "work",
        "__main__.MODEL",
    ),
    "a global behind a lambda and a partial": (
        """
COUNT = 0
def count(factor, x):
    global COUNT
    COUNT += 1
    executed()
    return x * factor
""",
        "partial(lambda factor, x: count(factor, x), 2)",
        "__main__.COUNT",
    ),
}


@pytest.mark.parametrize("loop", [SEQUENTIAL, THREADS], ids=["sequential", "threads"])
@pytest.mark.parametrize(("code", "function", "variable"), COUNTERS.values(), ids=COUNTERS)
@pytest.mark.matrix(quick=6)
def test_a_restarted_program_executes_nothing_again(
    folder: Folder, code: str, function: str, variable: str, loop: str
) -> None:
    folder.write("loop.py", LOOP.format(code=code, function=function, loop=loop))
    runs = [
        subprocess.run(
            [sys.executable, "loop.py"], cwd=folder.path, capture_output=True, text=True, check=True, timeout=100
        )
        for _ in range(2)
    ]
    assert (folder.path / "executed").read_text() == "x" * 50
    warned = [line for line in runs[0].stderr.splitlines() if "; cached results ignore that" in line]
    assert len(warned) == 1
    assert variable in warned[0]
    assert "itself" not in runs[1].stderr


def test_a_call_that_ends_before_the_one_that_created_its_client_is_reused(folder: Folder) -> None:
    code = """
import os, time
CLIENT = None
def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.005)
def work(x):
    global CLIENT
    if CLIENT is None:
        CLIENT = object
        open("client", "w").close()
        wait_for("second")
    executed()
    return x * 2
"""
    loop = """
with ThreadPoolExecutor(1) as pool:
    first = pool.submit(track, 0)
    wait_for("client")
    assert track(1) == 2
    open("second", "w").close()
    assert first.result() == 0
"""
    folder.write("loop.py", LOOP.format(code=code, function="work", loop=loop))
    for _ in range(2):
        subprocess.run([sys.executable, "loop.py"], cwd=folder.path, capture_output=True, check=True, timeout=100)
    assert (folder.path / "executed").read_text() == "xx"


@pytest.mark.parametrize("name", ["a global", "an instance attribute"])
def test_forked_workers_reuse_the_results_of_the_parent(folder: Folder, name: str) -> None:
    code, function, _ = COUNTERS[name]
    loop = """
if __name__ == "__main__":
    from multiprocessing import get_context
    for item in range(5):
        track(item)
    with get_context("fork").Pool(4) as pool:
        assert pool.map(track, range(50), chunksize=1) == [2 * n for n in range(50)]
"""
    folder.write("loop.py", LOOP.format(code=code, function=function, loop=loop))
    for _ in range(2):
        subprocess.run([sys.executable, "loop.py"], cwd=folder.path, capture_output=True, check=True, timeout=100)
    assert (folder.path / "executed").read_text() == "x" * 50


def call_each(tracker: Tracker, function: Callable[..., Any], values: list[int]) -> list[Any]:
    return [tracker.track(function, args=[value]) for value in values]


FACTOR = 2


def test_a_change_by_the_caller_between_calls_counts(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.chdir(folder.path)
    state = {"factor": 2, "calls": 0}

    def work(x: int) -> int:
        state["calls"] += 1
        return x * state["factor"] * FACTOR

    tracker = Tracker("results.db", cache="cache")
    assert call_each(tracker, work, [1, 2]) == [4, 8]
    state["factor"] = 3
    assert call_each(tracker, work, [1, 2]) == [6, 12]
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert call_each(tracker, work, [1, 2]) == [15, 30]
    assert state["calls"] == 6


def test_a_variable_that_caller_and_call_both_change_is_an_input(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.chdir(folder.path)
    text = ""

    def clean() -> str:
        nonlocal text
        text = text.strip()
        return text

    tracker = Tracker("results.db", cache="cache")
    results = []
    for value in (" a ", " b ", " a "):
        text = value
        results.append(tracker.track(clean))
    assert results == ["a", "b", "a"]
    assert tracker.to_df()["cache"].notna().tolist() == [False, False, True]


def test_another_start_value_is_another_call(folder: Folder) -> None:
    program = """
import sys, warnings
warnings.simplefilter("ignore")
from abreast import Tracker
offset = int(sys.argv[1])
def work(x):
    global offset
    offset += 1
    return x + offset
print(Tracker("results.db", cache="cache").track(work, args=[10]))
"""
    folder.write("start.py", program)
    outputs = [
        subprocess.run(
            [sys.executable, "start.py", start], cwd=folder.path, capture_output=True, text=True, check=True
        ).stdout.strip()
        for start in ("0", "5", "0")
    ]
    assert outputs == ["11", "16", "11"]


def test_a_function_that_changes_nothing_is_not_warned_about(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.chdir(folder.path)

    def work(x: int) -> int:
        local = [x]
        local.append(x)
        return sum(local) * FACTOR

    call_each(Tracker("results.db", cache="cache"), work, [1, 2, 1])
    assert not [warning for warning in recwarn if "itself" in str(warning.message)]
    assert Path("cache").is_dir()

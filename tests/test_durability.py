"""Durability: no row is lost or duplicated, nothing is paid for twice, and no process is left behind.

Real processes, real signals, real disks: the target appends a line to a file for every call, so that what was executed
is known from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import duckdb
import psutil
import pytest

from abreast.errors import StoreError
from abreast.execute.scoring import PATIENCE_S
from abreast.store import Lease, LeaseLost, NewRun, Writer, open_store
from abreast.targets.processes import orphans
from conftest import ABREAST, Done, Folder

MODULE = """\
import os, subprocess, sys, time

def note(name, line):
    file = os.open(name, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(file, (line + "\\n").encode())
    os.close(file)

def answer(case, seconds=0.0, who=""):
    note("calls.txt", case.id + " " + who)
    time.sleep(seconds)
    return "yes"

def stuck(case, who=""):
    note("calls.txt", case.id + " " + who)
    if os.path.exists("released"):
        return "yes"
    time.sleep(1000)

def with_child(case, seconds=0.0, who=""):
    child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    note("children.txt", str(child.pid))
    return answer(case, seconds, who)

def through_child(case, who=""):
    note("calls.txt", case.id + " " + who)
    if os.path.exists("released"):
        return "yes"
    subprocess.run(["sleep", "1000"], check=True)

def large(case, who=""):
    note("calls.txt", case.id + " " + who)
    time.sleep(0.01)
    return "yes " + "x" * 20_000

def stuck_scorer(case, answer):
    note("scored.txt", case.id)
    if not os.path.exists("released"):
        time.sleep(1000)
    return 1.0
"""


def until(
    condition: Callable[[], Any], expectation: str, process: subprocess.Popen[str] | None = None, seconds: float = 30.0
) -> None:
    """Wait for a condition to become true while a process runs."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds:g} s still not: {expectation}"
        assert process is None or process.poll() is None, f"ended before {expectation}: {process.communicate()}"
        time.sleep(0.005)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def experiment(
    folder: Folder,
    *,
    target: str = "answer",
    seconds: float | None = None,
    cases: int = 10,
    repeats: int = 1,
    parallel: int = 4,
    store: str = "results.db",
    name: str = "experiment",
    executor: str = "auto",
    scorer: str = "exact",
) -> str:
    """Write a spec with two variants of a function in `mine.py`."""
    folder.write("mine.py", MODULE)
    folder.cases(cases)
    wait = "" if seconds is None else f", seconds: {seconds}"
    folder.write(
        f"{name}.yaml",
        f"""\
        name: {name}
        cases: cases.jsonl
        repeats: {repeats}
        target: python:mine:{target}
        variants:
          one: {{who: {name}-one{wait}, executor: {executor}}}
          two: {{who: {name}-two{wait}, executor: {executor}}}
        scorers: [{scorer}]
        store: {store}
        limits: {{parallel: {parallel}}}
        """,
    )
    return f"{name}.yaml"


def calls(folder: Folder) -> list[str]:
    return lines(folder.path / "calls.txt")


def ended(process: subprocess.Popen[str], seconds: float = 30.0) -> Done:
    out, err = process.communicate(timeout=seconds)
    assert "Traceback" not in err, err
    return Done(process.returncode, out, err)


@pytest.fixture(autouse=True)
def _nothing_left(folder: Folder) -> Iterator[None]:
    """Kill the processes that a failed test left behind."""
    yield
    for pid in alive(children(folder)):
        os.kill(pid, signal.SIGKILL)


def has_happened(folder: Folder, kind: str) -> Callable[[], bool]:
    return lambda: any(f'"kind": "{kind}"' in line for line in lines(folder.path / "events.jsonl"))


def every_trial_once(folder: Folder, store: str, cases: int, repeats: int = 1) -> None:
    """Check that each trial has exactly one row and score, and that the summary agrees."""
    rows = folder.sql("select case_id, variant, repeat, status, score_exact, error from predictions", store)
    keys = Counter((row["case_id"], row["variant"], row["repeat"]) for row in rows)
    expected = {(f"c{n}", v, r) for n in range(cases) for v in ("one", "two") for r in range(repeats)}
    assert set(keys) == expected
    assert set(keys.values()) == {1}
    assert {(row["status"], row["score_exact"], row["error"]) for row in rows} == {("ok", 1.0, None)}
    summary = folder.sql("select n_predictions, n_successful, n_failed, score_mean from metrics", store)
    trial_count = cases * repeats
    assert (
        summary == [{"n_predictions": trial_count, "n_successful": trial_count, "n_failed": 0, "score_mean": 1.0}] * 2
    )
    payloads = folder.sql("select count(*) as n from payloads p join trials t using (run_id, position)", store)
    assert payloads == [{"n": 2 * trial_count}]


def only_run(folder: Folder, store: str = "results.db") -> dict[str, Any]:
    done = folder.abreast("runs", "--json", "--store", store)
    assert done.code == 0, done.err
    (run,) = done.json
    return dict(run)


# -- kill -9 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["results.db", "results.duckdb"])
def test_a_run_killed_repeatedly_loses_nothing_and_repeats_only_what_was_in_flight(folder: Folder, store: str) -> None:
    cases, repeats, parallel = 18, 2, 4
    spec = experiment(folder, seconds=0.1, cases=cases, repeats=repeats, parallel=parallel, store=store)
    chance = random.Random(store)
    kills = 0
    words = ["run", spec]
    while kills < 4:
        enough = len(calls(folder)) + chance.randint(1, 8)
        process = folder.start(*words, "--quiet")
        until(lambda n=enough, p=process: len(calls(folder)) >= n or p.poll() is not None, "some calls")  # type: ignore[misc]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.0, 0.1))
        process.kill()
        if ended(process).code != -signal.SIGKILL:  # the run ended before the kill
            break
        kills += 1
        words = ["resume", "--store", store]
    assert kills >= 3
    done = folder.abreast(*words)
    assert done.code == 0 or "every run is complete" in done.err, done.output
    repeated = len(calls(folder)) - 2 * cases * repeats
    assert repeated <= kills * parallel
    every_trial_once(folder, store, cases, repeats)
    run = only_run(folder, store)
    assert (run["status"], run["trials"], run["planned"]) == ("complete", 72, 72)


def test_a_run_killed_while_it_copies_reused_answers_does_not_pay_for_them_again(folder: Folder) -> None:
    """Creating a run and copying the reused answers is one transaction."""
    spec = experiment(folder, cases=3)
    assert folder.abreast("run", spec).code == 0
    assert len(calls(folder)) == 6
    folder.cases(4)
    chance = random.Random(7)
    for _ in range(4):
        process = folder.start("run", spec, "--quiet")
        try:
            process.wait(chance.uniform(0.3, 0.9))
        except subprocess.TimeoutExpired:
            process.kill()
        ended(process)
    assert folder.abreast("run", spec).code == 0
    assert Counter(line.split()[0] for line in calls(folder))["c0"] == 2


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


INTERRUPTS = [
    (signal.SIGINT, "thread"),
    (signal.SIGTERM, "thread"),
    (signal.SIGHUP, "thread"),
    (signal.SIGINT, "process"),
]


@pytest.mark.parametrize(("number", "executor"), INTERRUPTS)
def test_an_interrupt_lets_trials_in_flight_finish_and_prints_how_to_resume(
    folder: Folder, number: signal.Signals, executor: str
) -> None:
    spec = experiment(folder, seconds=0.3, cases=20, parallel=2, executor=executor)
    process = folder.start("run", spec)
    until(lambda: calls(folder), "a call", process)
    process.send_signal(number)
    done = ended(process)
    run = only_run(folder)
    assert done.code == 130
    assert f"abreast resume {run['run']}" in done.err
    assert run["status"] == "incomplete"
    assert run["reason"] == "interrupted"
    assert run["trials"] == len(calls(folder)) < 40
    assert {row["status"] for row in folder.sql("select status from predictions")} == {"ok"}


def test_an_interrupt_in_a_notebook_ends_the_run_and_the_cell(folder: Folder) -> None:
    spec = experiment(folder, seconds=0.3, cases=50, parallel=2)
    folder.write(
        "notebook.py",
        f"""\
        import asyncio
        from abreast import Experiment

        async def cell():
            try:
                Experiment.load("{spec}").run()
            except KeyboardInterrupt:
                print("interrupted")

        asyncio.new_event_loop().run_until_complete(cell())
        """,
    )
    process = subprocess.Popen([sys.executable, "notebook.py"], cwd=folder.path, stdout=subprocess.PIPE, text=True)
    until(lambda: len(calls(folder)) >= 2, "two calls", process)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "interrupted\n")
    run = only_run(folder)
    assert (run["status"], run["reason"]) == ("incomplete", "interrupted")
    assert run["trials"] == len(calls(folder)) < 100


@pytest.mark.parametrize(("number", "executor"), INTERRUPTS)
def test_a_second_interrupt_ends_the_process_and_resume_executes_the_cancelled_trials(
    folder: Folder, number: signal.Signals, executor: str
) -> None:
    spec = experiment(folder, target="stuck", cases=2, parallel=2, executor=executor)
    process = folder.start("run", spec, "--events", "events.jsonl")
    until(lambda: len(calls(folder)) == 2, "two calls in flight", process)
    process.send_signal(number)
    until(has_happened(folder, "interrupted"), "the interrupt was heard", process)
    assert process.poll() is None
    process.send_signal(number)
    done = ended(process, 15)
    assert done.code == 130
    assert Counter(row["status"] for row in folder.sql("select status from predictions")) == {"cancelled": 2}
    folder.write("released", "")
    assert folder.abreast("resume").code == 0
    assert len(calls(folder)) == 6
    every_trial_once(folder, "results.db", 2)


def test_an_interrupt_that_breaks_a_child_of_the_target_is_not_the_failure_of_the_variant(
    folder: Folder,
) -> None:
    """A terminal sends Ctrl-C to all its processes, including children of a target."""
    spec = experiment(folder, target="through_child", cases=1, parallel=2)
    process = subprocess.Popen(
        [*ABREAST, "run", spec], cwd=folder.path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until(lambda: len(calls(folder)) == 2, "two calls in flight", process)
    until(lambda: len(psutil.Process(process.pid).children()) == 2, "two children", process)
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process).code == 130
    rows = folder.sql("select status, error_kind, error_blame from predictions")
    assert rows == [{"status": "cancelled", "error_kind": "cancelled", "error_blame": "unknown"}] * 2
    folder.write("released", "")
    assert folder.abreast("resume").code == 0
    every_trial_once(folder, "results.db", 1)


def test_an_interrupt_while_workers_are_starting_breaks_no_trial(folder: Folder) -> None:
    spec = experiment(folder, seconds=0.01, cases=20, parallel=2, executor="process")
    process = subprocess.Popen(
        [*ABREAST, "run", spec, "--events", "events.jsonl"],
        cwd=folder.path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(has_happened(folder, "trial_started"), "a trial was started", process)
    until(lambda: psutil.Process(process.pid).children(), "a child", process)
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process).code == 130
    assert {(row["status"], row["error"]) for row in folder.sql("select status, error from predictions")} <= {
        ("ok", None)
    }


def test_trials_that_finish_after_an_interrupt_are_scored(folder: Folder) -> None:
    """An agent in flight runs longer than the wait for scorers."""
    spec = experiment(folder, seconds=PATIENCE_S + 0.5, cases=1, parallel=2)
    process = folder.start("run", spec)
    until(lambda: len(calls(folder)) == 2, "two calls in flight", process)
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 0, "nothing remains to be done"
    assert folder.sql("select count(*) n, count(score) scored from predictions") == [{"n": 2, "scored": 2}]


def test_resume_completes_the_scoring_after_an_interrupt(folder: Folder) -> None:
    spec = experiment(folder, cases=2, scorer="python:mine:stuck_scorer")
    process = folder.start("run", spec, "--events", "events.jsonl")
    until(lambda: lines(folder.path / "scored.txt"), "a scorer at work", process)
    stored = '"kind": "trial_stored"'
    until(
        lambda: sum(stored in line for line in lines(folder.path / "events.jsonl")) == 4,
        "all answers are stored",
        process,
    )
    process.send_signal(signal.SIGINT)
    assert ended(process, 20).code == 130
    assert only_run(folder)["status"] == "incomplete"
    folder.write("released", "")
    assert folder.abreast("resume").code == 0
    assert len(calls(folder)) == 4
    assert folder.sql("select count(*) as n from predictions where score = 1") == [{"n": 4}]


# -- disks -------------------------------------------------------------------------------------------------------------


class Disk:
    """A small separate disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mount(self, *words: str) -> None:
        subprocess.run(["mount", *words, str(self.path)], check=True, capture_output=True)

    def fill(self, leave: int = 0) -> None:
        """Fill the disk except for this many bytes."""
        with (self.path / "ballast").open("ab") as file:
            while True:
                free = shutil.disk_usage(self.path).free - leave
                if free <= 0:
                    return
                try:
                    file.write(b"x" * min(free, 65536))
                    file.flush()
                except OSError:
                    return


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.parametrize("engine", ["db", "duckdb"])
def test_a_full_disk_is_reported_and_loses_nothing_and_the_run_continues_when_there_is_room(
    folder: Folder, disk: Disk, engine: str
) -> None:
    store = f"disk/results.{engine}"
    if engine == "duckdb":
        disk.mount("-o", "remount,size=4m")
    spec = experiment(folder, target="large", cases=150, parallel=2, store=store, scorer="contains")
    done = folder.command("run", spec)
    assert done.code == 3
    assert "the disk is full" in done.err
    assert "abreast resume" in done.err
    assert "Traceback" not in done.err
    stored = int(done.err.split(" of 300 trials are stored")[0].split()[-1])
    assert 0 < stored < 300
    disk.mount("-o", "remount,size=100m")
    assert only_run(folder, store)["trials"] == stored
    assert folder.command("resume", "--store", store).code == 0
    assert len(calls(folder)) - 300 <= 2 * 2
    assert folder.sql("select count(*) as n, sum(score_contains) as right from predictions", store) == [
        {"n": 300, "right": 300.0}
    ]
    assert folder.sql("select count(distinct case_id || variant) as n from predictions", store) == [{"n": 300}]


@pytest.mark.parametrize("engine", ["db", "duckdb"])
def test_a_disk_that_is_full_from_the_start_is_reported_in_one_sentence(
    folder: Folder, disk: Disk, engine: str
) -> None:
    spec = experiment(folder, cases=2, store=f"disk/results.{engine}")
    disk.fill()
    done = folder.abreast("run", spec)
    assert done.code in (2, 3)
    assert "the disk is full" in done.err
    assert not calls(folder)
    (disk.path / "ballast").unlink()
    assert folder.abreast("run", spec).code == 0
    every_trial_once(folder, f"disk/results.{engine}", 2)


@pytest.mark.parametrize("engine", ["db", "duckdb"])
@pytest.mark.parametrize("ending", ["closed", "killed", "killed and copied"])
def test_on_a_read_only_disk_everything_can_be_read_and_a_run_is_refused(
    folder: Folder, disk: Disk, engine: str, ending: str
) -> None:
    disk.mount("-o", "remount,size=20m")
    store = f"disk/results.{engine}"
    spec = experiment(folder, cases=4, seconds=0.05, store=store)
    stored = 8
    if ending == "closed":
        assert folder.abreast("run", spec).code == 0
    else:
        process = folder.start("run", spec)
        until(lambda: len(calls(folder)) >= 6, "some calls", process)
        process.kill()
        ended(process)
        shutil.copytree(disk.path, folder.path / "copy")  # a reader of the store itself would complete it
        stored = only_run(folder, f"copy/results.{engine}")["trials"]
        assert any(log.stat().st_size > 0 for log in disk.path.glob("*-wal"))
        if ending == "killed and copied":  # a copy of a store includes the log, but not the index in shared memory
            for index in disk.path.glob("*-shm"):
                index.unlink()
    disk.mount("-o", "remount,ro")
    try:
        before = {path.name: path.read_bytes() for path in disk.path.iterdir() if path.is_file()}
        done = folder.abreast("run", spec, "--fresh")
        assert done.code == 2
        assert "read-only" in done.err
        assert only_run(folder, store)["trials"] == stored
        assert folder.abreast("show", "--store", store).code == 0
        assert folder.abreast("report", "--store", store).code == 0
        assert folder.sql("select count(*) as n from predictions", store) == [{"n": stored}]
        assert {path.name: path.read_bytes() for path in disk.path.iterdir() if path.is_file()} == before
    finally:
        disk.mount("-o", "remount,rw")


# -- files that are not ours -------------------------------------------------------------------------------------------


def newer(path: Path) -> None:
    store = open_store(path)
    with store.change() as connection:
        connection.execute("CREATE TABLE invented_later (x)")
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version=999")
    connection.close()


def foreign(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE birds (name TEXT); INSERT INTO birds VALUES ('heron'); PRAGMA user_version=1")
    connection.close()


FOREIGN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a store of a newer abreast": (newer, "made by a newer abreast"),
    "a SQLite file of somebody else": (foreign, "not an abreast store"),
    "a text": (lambda path: path.write_text("dear diary,\n" * 100), "not a SQLite file"),
    "a short text": (lambda path: path.write_text("hi"), "not a SQLite file"),
    "a folder": (lambda path: path.mkdir(), "folder"),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_of_another_program_is_refused_and_not_changed(folder: Folder, kind: str) -> None:
    make, sentence = FOREIGN[kind]
    spec = experiment(folder, cases=1)
    path = folder.path / "results.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    for words in (["run", spec], ["check", spec], ["runs", "--store", "results.db"], ["sql", "results.db", "select 1"]):
        done = folder.abreast(*words)
        if kind == "a folder" and words[0] != "run":
            assert done.code in (0, 2)
            continue
        assert done.code == 2, done.output
        assert sentence in done.err
    assert (path.read_bytes() if path.is_file() else None) == before
    assert not calls(folder)


DUCKDB_FOREIGN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a text": (lambda path: path.write_text("dear diary,\n" * 100), "not a DuckDB file"),
    "a DuckDB file of somebody else": (
        lambda path: duckdb.connect(str(path)).execute("CREATE TABLE birds AS SELECT 'heron' AS name").close(),
        "journal",
    ),
    "a folder": (lambda path: path.mkdir(), "folder"),
}


@pytest.mark.parametrize("kind", DUCKDB_FOREIGN)
def test_a_duckdb_file_of_another_program_is_refused_and_not_changed(folder: Folder, kind: str) -> None:
    make, sentence = DUCKDB_FOREIGN[kind]
    spec = experiment(folder, cases=1, store="results.duckdb")
    path = folder.path / "results.duckdb"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    for words in (["run", spec], ["runs", "--store", "results.duckdb"]):
        done = folder.abreast(*words)
        assert done.code == 2, done.output
        assert sentence in done.err or (kind == "a folder" and "no such store" in done.err)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert sorted(item.name for item in folder.path.glob("results*")) == ["results.duckdb"]


@pytest.mark.parametrize("name", ["results.db", "results.duckdb"])
def test_an_empty_file_becomes_a_store(folder: Folder, name: str) -> None:
    spec = experiment(folder, cases=2, store=name)
    (folder.path / name).touch()
    listed = folder.abreast("runs", "--store", name)
    assert listed.code == 2
    assert "error:" in listed.err
    assert folder.abreast("run", spec).code == 0
    every_trial_once(folder, name, 2)


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_store_gives_a_message_and_never_a_traceback(folder: Folder, seed: int) -> None:
    spec = experiment(folder, cases=20, target="large", scorer="contains")
    assert folder.abreast("run", spec).code == 0
    path = folder.path / "results.db"
    content = bytearray(path.read_bytes())
    chance = random.Random(seed)
    if seed < 2:
        content = content[: len(content) * (seed + 1) // 3]  # cut off
    else:
        for _ in range(8):
            at = chance.randrange(0 if seed % 2 else 4096, len(content) - 4096)
            content[at : at + 2048] = chance.randbytes(2048)
    for extra in folder.path.glob("results.db-*"):
        extra.unlink()
    path.write_bytes(content)
    for words in (
        ["runs"],
        ["show"],
        ["report"],
        ["sql", "select * from predictions"],
        ["run", spec],
        ["cache", "stats"],
    ):
        done = folder.abreast(*words)  # asserts that no traceback is printed
        assert done.code in (0, 2, 3), (words, done.output)
        assert done.code == 0 or "error:" in done.err


def test_a_damaged_duckdb_file_is_reported_and_recreated_from_its_journal(folder: Folder) -> None:
    spec = experiment(folder, cases=2, store="results.duckdb")
    assert folder.abreast("run", spec).code == 0
    path = folder.path / "results.duckdb"
    content = bytearray(path.read_bytes())
    content[4096 : len(content) // 2] = random.Random(1).randbytes(len(content) // 2 - 4096)
    path.write_bytes(content)
    every_trial_once(folder, "results.duckdb", 2)  # read from the journal
    done = folder.abreast("run", spec, "--fresh")
    assert done.code == 0
    assert "warning" in done.err
    path.unlink()
    assert folder.sql("select count(*) as n from predictions", "results.duckdb") == [{"n": 8}]
    assert path.is_file()


# -- several at once ---------------------------------------------------------------------------------------------------


def incomplete(folder: Folder, store: str = "results.db", cases: int = 16) -> str:
    """A spec whose run was killed after a few trials."""
    spec = experiment(folder, seconds=0.1, cases=cases, parallel=2, store=store)
    process = folder.start("run", spec)
    until(lambda: len(calls(folder)) >= 6, "some calls", process)
    process.kill()
    ended(process)
    return spec


@pytest.mark.parametrize("command", ["resume", "run"])
def test_of_two_processes_resuming_a_run_one_executes_and_the_other_names_it(folder: Folder, command: str) -> None:
    spec = incomplete(folder)
    words = ["resume"] if command == "resume" else ["run", spec]
    processes = [folder.start(*words) for _ in range(2)]
    ends = sorted([(ended(process), process.pid) for process in processes], key=lambda end: end[0].code)
    (winner, pid), (loser, _) = ends
    assert (winner.code, loser.code) == (0, 2), (winner.output, loser.output)
    assert f"is being executed by process {pid}" in loser.err
    assert len(calls(folder)) <= 32 + 2 * 2  # only attempts in flight at the kill are repeated
    every_trial_once(folder, "results.db", 16)


def test_of_two_processes_that_start_the_same_plan_only_one_executes(folder: Folder) -> None:
    spec = experiment(folder, seconds=0.2, cases=10, parallel=2)
    processes = [folder.start("run", spec) for _ in range(2)]
    codes = sorted(ended(process).code for process in processes)
    assert codes == [0, 2]
    assert len(calls(folder)) == 20
    every_trial_once(folder, "results.db", 10)


@pytest.mark.parametrize("store", ["results.db", "results.duckdb"])
def test_several_runs_write_to_one_store_while_others_read_it(folder: Folder, store: str) -> None:
    specs = [
        experiment(folder, seconds=0.15, cases=40, repeats=2, parallel=4, store=store, name=name)
        for name in ("first", "second", "third")
    ]
    processes = [folder.start("run", spec, "--quiet") for spec in specs]
    read = 0
    while any(process.poll() is None for process in processes):
        path = folder.path / store
        if not path.exists():
            time.sleep(0.01)
            continue
        read += plain_count(path) is not None
        time.sleep(0.05)
    ends = [ended(process) for process in processes]
    assert [done.code for done in ends] == [0, 0, 0], [done.err for done in ends]
    assert read >= 3
    counts = folder.sql(
        "select run, variant, count(*) as n, avg(score_exact) as s from predictions group by 1, 2", store
    )
    assert [(row["n"], row["s"]) for row in counts] == [(80, 1.0)] * 6
    assert len(calls(folder)) == 480
    assert plain_count(folder.path / store) == 480


def plain_count(path: Path) -> int | None:
    """Number of rows that a plain client of the engine sees; None if it cannot open the file now."""
    query = "select count(*) from predictions"
    try:
        if path.suffix == ".duckdb":
            with duckdb.connect(str(path), read_only=True) as client:
                return int(client.execute(query).fetchall()[0][0])
        reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        reader.set_busy_timeout(5000)
        try:
            rows: Any = reader.execute(query).fetchall()
            return int(rows[0][0])
        finally:
            reader.close()
    except duckdb.IOException:  # locked by a flush for a moment
        return None
    except apsw.SQLError:  # it is being created
        return None


@pytest.mark.parametrize("store", ["results.db", "results.duckdb"])
def test_a_reader_sees_every_acknowledged_row_during_the_run(folder: Folder, store: str) -> None:
    spec = experiment(folder, seconds=0.1, cases=40, parallel=2, store=store)
    process = folder.start("run", spec, "--events", "events.jsonl")
    acknowledged = '"kind": "trial_stored"'

    def stored() -> int:
        return sum(acknowledged in line for line in lines(folder.path / "events.jsonl"))

    until(lambda: stored() >= 3, "three rows", process)
    for _ in range(3):
        least = stored()
        (row,) = folder.sql("select count(*) as n from predictions", store)
        assert row["n"] >= least
        assert only_run(folder, store)["status"] == "running"
    process.send_signal(signal.SIGINT)
    assert ended(process).code == 130


def test_a_store_locked_by_another_process_stops_new_trials_and_loses_nothing(folder: Folder) -> None:
    spec = experiment(folder, seconds=0.05, cases=60, parallel=2)
    process = folder.start("run", spec)
    until(lambda: len(calls(folder)) >= 4, "some calls", process)
    other = apsw.Connection(str(folder.path / "results.db"))
    other.set_busy_timeout(10_000)
    other.execute("BEGIN IMMEDIATE")
    counts: list[tuple[float, int]] = [(time.monotonic(), 0)]

    def started_nothing_for_a_while() -> bool:
        if len(calls(folder)) != counts[-1][1]:
            counts.append((time.monotonic(), len(calls(folder))))
        return time.monotonic() - counts[-1][0] > 0.4

    until(started_nothing_for_a_while, "nothing more is started", process)
    assert len(calls(folder)) < 120
    other.execute("ROLLBACK")
    other.close()
    assert ended(process).code == 0
    assert len(calls(folder)) == 120
    every_trial_once(folder, "results.db", 60)


def test_a_paused_driver_still_owns_its_run(folder: Folder) -> None:
    spec = experiment(folder, seconds=0.1, cases=10, parallel=2)
    process = folder.start("run", spec)
    until(lambda: calls(folder), "a call", process)
    process.send_signal(signal.SIGSTOP)
    try:
        done = folder.abreast("resume")
        assert done.code == 2
        assert f"is being executed by process {process.pid}" in done.err
        assert folder.abreast("delete", only_run(folder)["run"], "--yes").code == 2
    finally:
        process.send_signal(signal.SIGCONT)
    assert ended(process).code == 0
    every_trial_once(folder, "results.db", 10)


def new_run(name: str) -> NewRun:
    return NewRun(
        run=name,
        experiment="x",
        debug=False,
        simulated=False,
        label=None,
        fingerprint="f",
        planned_trials=1,
        primary_score=None,
        baseline="one",
        seed=0,
        spec={},
        provenance={},
        variants=[(0, "one", "t", "{}", "d", 0)],
        columns=[],
    )


@pytest.mark.parametrize("name", ["results.db", "results.duckdb"])
def test_a_run_without_trials_can_be_queried(tmp_path: Path, name: str) -> None:
    store = open_store(tmp_path / name)
    lease = store.begin(new_run("old-one-1"))
    assert store.sql("select run, status from runs") == (["run", "status"], [("old-one-1", "running")])
    assert store.sql("select count(*) as n from predictions") == (["n"], [(0,)])
    store.release_lease(lease)
    store.close()


def test_a_driver_that_lost_its_lease_writes_nothing_more(tmp_path: Path) -> None:
    store = open_store(tmp_path / "results.db")
    old_lease = store.begin(new_run("old-one-1"))
    committed: list[Any] = []
    failures: list[StoreError] = []
    writer = Writer(store, old_lease, committed.extend, failures.append, lambda _: None)
    writer.put_together([("events", (old_lease.run_id, 1.0, "before", "{}"))], "token")
    until(lambda: committed, "the first commit")
    store.release_lease(old_lease)  # as if this process had ended
    new_lease: Lease = store.claim("old-one-1")
    assert new_lease.epoch == old_lease.epoch + 1
    writer.put_together([("events", (old_lease.run_id, 2.0, "after", "{}"))], "late")
    until(lambda: failures, "the writer noticed")
    with pytest.raises(StoreError, match="taken over by another process"):
        writer.close()
    assert committed == ["token"]
    assert store.rows("SELECT kind FROM events") == [("before",)]
    store.finish(old_lease, "complete", None)  # the old owner cannot end it either
    assert store.rows("SELECT status, epoch FROM runs") == [("running", 2)]
    store.close()


def test_a_row_that_cannot_be_stored_does_not_affect_others(tmp_path: Path) -> None:
    store = open_store(tmp_path / "results.db")
    lease = store.begin(new_run("old-one-1"))
    committed: list[Any] = []
    failures: list[StoreError] = []
    writer = Writer(store, lease, committed.extend, failures.append, lambda _: None)
    for number in range(50):
        value = object() if number == 20 else "{}"
        writer.put_together([("events", (lease.run_id, float(number), "kind", value))], number)
    with pytest.raises(StoreError, match="cannot be stored"):
        writer.close()
    assert committed == [number for number in range(50) if number != 20]
    assert store.rows("SELECT COUNT(*) FROM events") == [(49,)]
    assert failures
    store.release_lease(lease)
    store.close()


def test_a_run_that_was_taken_over_ends_with_a_message(folder: Folder) -> None:
    spec = experiment(folder, seconds=0.1, cases=50, parallel=2)
    process = folder.start("run", spec)
    until(lambda: len(calls(folder)) >= 4, "some calls", process)
    done = folder.abreast("sql", "--write", "results.db", "update runs set epoch = epoch + 1")
    assert done.code == 0
    lost = ended(process)
    assert lost.code == 3
    assert "was taken over by another process" in lost.err


# -- what a row cannot hold --------------------------------------------------------------------------------------------

ODD = """\
import dataclasses

class Broken:
    def __str__(self):
        raise ValueError("no text")

def answer(case, who=""):
    circle = []
    circle.append(circle)
    odd = {
        "c0": lambda: "half a pair: \\ud800",
        "c1": lambda: {"prediction": "yes", "odd": {(1, 2): 3}},
        "c2": lambda: {"prediction": "yes", "circle": circle},
        "c3": lambda: {"prediction": "yes", "output_tokens": 2**70},
        "c4": lambda: {"prediction": "yes", "broken": Broken(), "nan": float("nan"), "inf": float("inf")},
        "c5": lambda: {"prediction": "yes", "huge": 10**5000, "big": 2**70},
        "c6": lambda: "zero \\0 byte",
        "c7": lambda: {"prediction": "yes", "half \\ud800": "\\udfff", "": 1, "zero\\0": 2, "x" * 5000: 3},
        "c8": lambda: {"prediction": "yes", **{f"key {n}": n for n in range(3000)}},
        "c9": lambda: {"prediction": "yes", "deep": deep(3000)},
    }
    return odd[case.id]()

def deep(levels):
    value = "bottom"
    for _ in range(levels):
        value = [value]
    return value

def scorer(case, answer):
    if case.id == "c0":
        raise SystemExit(3)
    return 1.0
"""


@pytest.mark.parametrize("store", ["results.db", "results.duckdb"])
def test_whatever_a_target_returns_its_trial_has_a_row_and_the_run_ends(folder: Folder, store: str) -> None:
    spec = experiment(folder, cases=10, store=store, scorer="python:mine:scorer")
    folder.write("mine.py", ODD)
    done = folder.command("run", spec, timeout=60)
    assert done.code == 0, done.err
    assert folder.sql("select count(*) as n from predictions", store) == [{"n": 20}]
    rows = folder.sql("select case_id, status, error, score, answer from predictions where variant = 'one'", store)
    assert {row["case_id"]: row["status"] for row in rows} == {f"c{n}": "ok" for n in range(10)}
    assert {row["case_id"] for row in rows if row["score"] is None} == {"c0"}
    assert folder.sql("select big, inf, nan from predictions where case_id in ('c5', 'c4') order by case_id", store)[
        0:1
    ]
    assert folder.abreast("logs", "--store", store).code == 0


def test_a_display_that_breaks_does_not_end_the_run(folder: Folder) -> None:
    """`abreast run ... 2>&1 | head -1`: the pipe closes while the run goes on."""
    spec = experiment(folder, seconds=0.05, cases=20, parallel=2)
    process = folder.start("run", spec, "--verbose", "--quiet")
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.close()
    process.stderr = None
    process.communicate(timeout=30)
    assert only_run(folder)["status"] == "complete"
    every_trial_once(folder, "results.db", 20)


# -- processes ---------------------------------------------------------------------------------------------------------


def alive(pids: list[int]) -> list[int]:
    processes = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                processes.append(pid)
        except psutil.NoSuchProcess:
            continue
    return processes


def children(folder: Folder) -> list[int]:
    return [int(line) for line in lines(folder.path / "children.txt")]


@pytest.fixture
def bystanders() -> Iterator[None]:
    """Processes that must not be killed: one with another mark, one without a mark."""
    processes = [
        subprocess.Popen(["sleep", "1000"], env={**os.environ, "ABREAST_RUN": "somebody-elses-1"}),
        subprocess.Popen(["sleep", "1000"]),
    ]
    yield
    are_alive = [process.poll() is None for process in processes]
    for process in processes:
        process.kill()
        process.wait()
    assert are_alive == [True, True], "a process without the mark was ended"


@pytest.mark.parametrize("command", ["run", "resume", "another"])
def test_processes_of_a_killed_driver_are_ended_by_the_next_start(
    folder: Folder, bystanders: None, command: str
) -> None:
    spec = experiment(folder, target="with_child", seconds=0.1, cases=6, parallel=2)
    process = folder.start("run", spec)
    until(lambda: len(calls(folder)) >= 4, "some calls", process)
    process.kill()
    ended(process)
    orphans = children(folder)
    assert alive(orphans) == orphans
    if command == "another":
        spec = experiment(folder, cases=1, name="another")
    assert folder.command(*(["resume"] if command == "resume" else ["run", spec])).code == 0
    assert alive(orphans) == []
    assert alive(children(folder)) == []


@pytest.mark.parametrize("executor", ["thread", "process"])
@pytest.mark.parametrize("end", ["normal", "interrupted"])
def test_no_marked_process_is_left_after_a_run(folder: Folder, bystanders: None, executor: str, end: str) -> None:
    spec = experiment(folder, target="with_child", seconds=0.1, cases=5, parallel=2, executor=executor)
    process = folder.start("run", spec)
    if end == "interrupted":
        until(lambda: len(calls(folder)) >= 2, "some calls", process)
        process.send_signal(signal.SIGINT)
    assert ended(process).code == (0 if end == "normal" else 130)
    assert children(folder)
    assert alive(children(folder)) == []


def test_worker_processes_end_with_a_killed_driver(folder: Folder) -> None:
    spec = experiment(folder, target="stuck", cases=2, parallel=2, executor="process")
    process = folder.start("run", spec)
    until(lambda: len(calls(folder)) == 2, "two workers at work", process)
    workers = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert len(workers) >= 2
    process.kill()
    ended(process)
    until(lambda: not alive(workers), "all workers have ended", seconds=10)


def test_reaping_ends_only_processes_with_that_mark() -> None:
    marks = ["mine-1", "mine-12", "min", "", None]
    processes = [
        subprocess.Popen(["sleep", "1000"], env={**os.environ, **({} if mark is None else {"ABREAST_RUN": mark})})
        for mark in marks
    ]
    try:
        until(lambda: all("sleep" in psutil.Process(process.pid).name() for process in processes), "all have started")
        assert orphans.reap([]) == 0
        assert orphans.reap(["mine-1"]) == 1
        assert [process.poll() is None for process in processes] == [False, True, True, True, True]
    finally:
        for process in processes:
            process.kill()
            process.wait()


TWO_RUNS = """\
import subprocess, sys, threading, time
from pathlib import Path
from abreast import Experiment

def quick(case):
    return "yes"

def slow(case):
    child = subprocess.Popen(["sleep", "1"])
    Path("slow-started").touch()
    return "yes" if child.wait() == 0 else "killed"

def go(name, function):
    return Experiment(name=name, cases=[{"id": "a", "input": "?", "expected": "yes"}], variants={"one": {}},
        target=function, scorers=["exact"], store=f"{name}.db").run()

results = []
thread = threading.Thread(target=lambda: results.append(go("slow", slow)))
thread.start()
while not Path("slow-started").exists():
    time.sleep(0.005)
go("quick", quick)
thread.join()
print(results[0].rows()[0]["answer"])
"""


def test_a_run_that_ends_leaves_the_children_of_another_run_of_the_same_process_alone(folder: Folder) -> None:
    script = folder.write("two.py", TWO_RUNS)
    done = subprocess.run([sys.executable, str(script)], cwd=folder.path, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "yes", done.stderr


def test_a_notebook_can_resume_after_the_store_failed(folder: Folder, disk: Disk) -> None:
    """The process outlives its run, which must not look active."""
    experiment(folder, target="large", cases=150, parallel=2, store="disk/results.db", scorer="contains")
    script = folder.write(
        "notebook.py",
        """\
        import subprocess
        from abreast import Experiment
        from abreast.errors import Incomplete

        experiment = Experiment.load("experiment.yaml")
        try:
            experiment.run()
        except Incomplete as error:
            print(error.message)
        subprocess.run(["mount", "-o", "remount,size=100m", "disk"], check=True)
        print(experiment.run().status)
        """,
    )
    done = subprocess.run([sys.executable, str(script)], cwd=folder.path, capture_output=True, text=True, timeout=60)
    assert "the disk is full" in done.stdout, done.stderr
    assert done.stdout.splitlines()[-1] == "complete", done.stderr
    assert json.loads(json.dumps(only_run(folder, "disk/results.db")))["trials"] == 300


def test_a_lease_that_is_lost_after_the_store_failed_once_cancels_what_is_in_flight(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store fails for a moment and recovers; then another process owns the run."""
    folder.write(
        "mine.py",
        """
        import asyncio

        async def answer(case):
            await asyncio.sleep(float(case.input))
            return case.input
        """,
    )
    folder.write("cases.jsonl", "".join(json.dumps({"id": f"c{n}", "input": str(n)}) + "\n" for n in (0.1, 1.0, 300.0)))
    folder.write("spec.yaml", "cases: cases.jsonl\ntarget: python:mine:answer\nvariants: {a: {}}\n")
    insert, failures = Writer._insert, []

    def fail_twice(writer: Writer, batch: list[Any], connection: Any) -> None:
        if any(table == "trials" for entry in batch for table, _ in entry.rows):
            failures.append(batch)
            if len(failures) == 1:
                raise apsw.FullError("database or disk is full")
            if len(failures) > 2:
                raise LeaseLost("another process executes it now", "let it finish")
        insert(writer, batch, connection)

    monkeypatch.setattr(Writer, "_insert", fail_twice)
    done = folder.abreast("run", "spec.yaml", "--parallel", "3")
    assert done.code == 3
    assert "another process executes it now" in done.err
    assert "Traceback" not in done.err

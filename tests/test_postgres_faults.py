"""Runs on a PostgreSQL server that fails: nothing is lost, duplicated or paid for twice.

A real server, real processes and signals, and a network that can be cut. What was executed is known from a file to
which the target appends a line for every call.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from abreast.store import open_store
from conftest import Folder
from faulty_link import FaultyLink
from postgres_server import HOST, PostgresServer
from test_durability import calls, ended, every_trial_once, experiment, until
from test_postgres import lines_until

CASES, PARALLEL = 60, 4
TABLES = ("trials", "payloads", "attempts", "scores", "judgements", "variants", "cases", "runs")
FLAKY = """
from abreast.errors import Transient
from mine import note
import time
seen = set()

def answer(case, seconds=0.0, who=""):
    note("calls.txt", case.id + " " + who)
    time.sleep(seconds)
    if case.id.endswith("3") and (case.id, who) not in seen:
        seen.add((case.id, who))
        raise Transient("once more", retry_after=0.01)
    return "yes"
"""

MANY = """
import mine

def answer(case, who="", seconds=0.0):
    mine.answer(case, seconds, who)
    number = who[1]
    return {"answer": "yes", f"own{number}": 1, "shared": 1}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A durable server that these tests may kill."""
    with PostgresServer(fsync=True) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create_database()


@pytest.fixture
def link(server: PostgresServer) -> Iterator[FaultyLink]:
    with FaultyLink(HOST, server.port) as link:
        yield link


def flaky(folder: Folder, seconds: float = 0.05, cases: int = CASES) -> str:
    """Write an experiment of which every tenth case is tried twice."""
    spec = experiment(folder, seconds=seconds, cases=cases, parallel=PARALLEL)
    folder.write("flaky.py", FLAKY)
    path = folder.path / spec
    path.write_text(path.read_text().replace("python:mine:", "python:flaky:").replace("store: results.db\n", ""))
    return spec


def counts(folder: Folder, store: str) -> dict[str, int]:
    """Number of rows by table, and of events by kind."""
    rows = " union all ".join(f"select '{table}' as what, count(*) as n from {table}" for table in TABLES)
    counts = {row["what"]: row["n"] for row in folder.sql(rows, store)}
    events = folder.sql("select kind, count(*) as n from events group by kind", store)
    of_outages = ("store_lost", "store_back")
    return counts | {row["kind"]: row["n"] for row in events if row["kind"] not in of_outages}


def duplicates(folder: Folder, store: str) -> list[dict[str, Any]]:
    of_events = "select 1 from events group by run_id, happened_at, kind, detail having count(*) > 1"
    of_attempts = "select 1 from attempts group by run_id, position, attempt having count(*) > 1"
    return folder.sql(f"{of_events} union all {of_attempts}", store)


def assert_as_on_sqlite(folder: Folder, spec: str, store: str) -> None:
    """Check that the run stored the same rows as one on SQLite, which nothing disturbed."""
    every_trial_once(folder, store, CASES)
    assert len(calls(folder)) == 2 * CASES + 2 * CASES // 10
    done = folder.command("run", spec, "--store", "undisturbed.db", "--quiet")
    assert done.code == 0, done.err
    assert counts(folder, store) == counts(folder, "undisturbed.db")
    assert duplicates(folder, store) == []


class Faults:
    """What happens to a server, its network or its sessions."""

    def __init__(self, server: PostgresServer, link: FaultyLink, database: str) -> None:
        self._server, self._link, self._database = server, link, database

    def restart(self, mode: str) -> None:
        self._server.stop(mode)
        time.sleep(0.3)
        self._server.start()

    def kill(self) -> None:
        self._server.kill()
        self._server.start()

    def cut(self) -> None:
        self._link.cut()
        time.sleep(1.0)
        self._link.restore()

    def freeze(self) -> None:
        self._link.freeze()
        time.sleep(1.0)
        self._link.restore()

    def terminate(self) -> None:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        for _ in range(30):
            with self._server.connect() as connection:
                connection.execute(query, (self._database,))
            time.sleep(0.03)

    def lose_commits(self) -> None:
        self._link.lose_replies(b"COMMIT\0", 5)
        until(lambda: not self._link.replies_to_lose, "the replies were lost")


FAULTS: dict[str, Callable[[Faults], None]] = {
    "lost reply to COMMIT": Faults.lose_commits,
    "terminated sessions": Faults.terminate,
    "network cut": Faults.cut,
    "network frozen": Faults.freeze,
    "fast restart": lambda faults: faults.restart("fast"),
    "immediate restart": lambda faults: faults.restart("immediate"),
    "kill -9": Faults.kill,
}


@pytest.mark.heavy
@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_survives_faults_and_stores_the_same_rows_as_on_sqlite(
    folder: Folder, server: PostgresServer, link: FaultyLink, url: str, fault: str
) -> None:
    spec = flaky(folder)
    faults = Faults(server, link, url.rpartition("/")[2])
    process = folder.start("run", spec, "--store", link.url(url))
    for enough in (10, 60):
        until(lambda n=enough: len(calls(folder)) >= n, "some calls", process)  # type: ignore[misc]
        FAULTS[fault](faults)
    done = ended(process, 90)
    assert done.code == 0, done.err
    assert_as_on_sqlite(folder, spec, url)


@pytest.mark.heavy
@pytest.mark.parametrize("fault", ["cut", "freeze"])
def test_an_interrupt_during_an_outage_ends_the_run_and_resume_completes_it(
    folder: Folder, link: FaultyLink, url: str, fault: str
) -> None:
    spec = flaky(folder)
    process = folder.start("run", spec, "--store", link.url(url))
    until(lambda: len(calls(folder)) >= 20, "some calls", process)
    getattr(link, fault)()
    lines_until(process, "paused: ")
    process.send_signal(signal.SIGINT)
    done = ended(process, 150)  # results get 30 s to be stored
    link.restore()
    assert done.code == 3, done.err
    assert "abreast resume" in done.err
    done = folder.command("resume", "--store", url)
    assert done.code == 0, done.err
    every_trial_once(folder, url, CASES)
    assert duplicates(folder, url) == []


@pytest.mark.heavy
def test_a_driver_killed_twenty_times_loses_no_acknowledged_row_and_repeats_only_what_was_in_flight(
    folder: Folder, url: str
) -> None:
    cases, repeats, kills = 100, 2, 20
    spec = experiment(folder, seconds=0.05, cases=cases, repeats=repeats, parallel=PARALLEL)
    chance = random.Random(20)
    words = ["run", spec, "--store", url]
    with open_store(url) as store:
        stored: set[tuple[int]] = set()
        for _ in range(kills):
            enough = len(calls(folder)) + chance.randint(1, 12)
            process = folder.start(*words, "--quiet")
            until(lambda n=enough: len(calls(folder)) >= n, "some calls", process)  # type: ignore[misc]
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.0, 0.1))
            process.kill()
            assert ended(process).code == -signal.SIGKILL
            now_stored = set(store.rows("select position from trials"))
            assert stored <= now_stored
            stored = now_stored
            words = ["resume", "--store", url]
    done = folder.command(*words)
    assert done.code == 0, done.err
    every_trial_once(folder, url, cases, repeats)
    assert duplicates(folder, url) == []
    assert len(calls(folder)) - 2 * cases * repeats <= kills * 2 * PARALLEL
    assert folder.sql("select count(*) as n from last_commits", url)[0]["n"] <= kills


@pytest.mark.heavy
def test_eight_drivers_and_everything_else_at_once_on_one_database(
    folder: Folder, server: PostgresServer, url: str
) -> None:
    cases = 100
    specs = []
    for number in range(8):
        spec = folder.path / experiment(folder, cases=cases, seconds=0.02, parallel=PARALLEL, name=f"e{number}")
        spec.write_text(spec.read_text().replace("python:mine:", "python:many:").replace("store: results.db\n", ""))
        specs.append(spec.name)
    folder.write("many.py", MANY)
    for name in ("old1", "old2", "old3"):
        folder.cases(20)
        spec = experiment(folder, cases=20, name=name)
        for store in (url, "other.db"):
            assert folder.command("run", spec, "--store", store, "--quiet", "--fresh").code == 0
    folder.cases(cases)
    (folder.path / "calls.txt").unlink()
    with psycopg.connect(url, options="-c search_path=abreast") as reader:  # an open transaction, as of a dashboard
        reader.execute("select count(*) from predictions").fetchall()
        processes = [folder.start("run", spec, "--store", url) for spec in specs]
        until(lambda: len(calls(folder)) >= 100, "some calls")
        twin = folder.command("run", specs[0], "--store", url)
        assert twin.code != 0
        assert "is being executed by process" in twin.err or "resume" in twin.err, twin.err
        runs = {run["experiment"]: run["run"] for run in folder.command("runs", "--json", "--store", url).json}
        for words in (
            ("delete", runs["old1"], "--yes", "--store", url),
            ("tag", runs["old2"], "v1", "--store", url),
            ("cache", "clear", "--yes", "--store", url),
            ("merge", "other.db", url),
            ("delete", runs["old3"], "--yes", "--store", url),
        ):
            done = folder.command(*words)
            assert done.code == 0, (words, done.err)
        endings = [ended(process, 120) for process in processes]
        assert [done.code for done in endings] == [0] * 8, [done.err for done in endings]
        assert not any("deadlock" in done.err for done in endings)
    names = {run["experiment"]: run["run"] for run in folder.command("runs", "--json", "--store", url).json}
    rows = folder.sql("select run, count(*) as n from predictions group by run", url)
    stored = {row["run"]: row["n"] for row in rows}
    assert [stored[names[f"e{number}"]] for number in range(8)] == [2 * cases] * 8
    columns = set(folder.sql("select * from predictions limit 1", url)[0])
    assert {f"own{number}" for number in range(8)} <= columns
    assert duplicates(folder, url) == []

"""Stores on PostgreSQL: faults during a run, several users at once, roles, passwords and messages."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from abreast.store import open_store
from abreast.store.postgres import writers
from conftest import Folder
from faulty_link import FaultyLink
from postgres_server import HOST, PostgresServer
from test_durability import calls, ended, every_trial_once, experiment, until
from test_store_conformance import Writing, event, new_run, wait_for

PARALLEL = 4


@pytest.fixture
def link(postgres_server: PostgresServer) -> Iterator[FaultyLink]:
    with FaultyLink(HOST, postgres_server.port) as link:
        yield link


def lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Read what a process says until a line with this text."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if text in line:
            return seen
    raise AssertionError(f"ended before {text!r}: {seen}")


# -- outages -----------------------------------------------------------------------------------------------------------


def test_during_an_outage_results_wait_and_no_more_trials_start_than_fit(
    folder: Folder, postgres: str, link: FaultyLink
) -> None:
    spec = experiment(folder, cases=400, parallel=PARALLEL, seconds=0.01)
    process = folder.start("run", spec, "--store", link.url(postgres))
    until(lambda: len(calls(folder)) >= 20, "some calls", process)
    link.cut()
    lines_until(process, "paused: ")
    with open_store(postgres) as store:
        ((stored,),) = store.rows("select count(*) from trials")
    time.sleep(1.0)  # in which a hundred would be executed
    executed = len(calls(folder))
    assert executed - stored <= 2 * PARALLEL
    link.restore()
    continued = lines_until(process, "continues: ")[-1]
    assert "the store can be reached again after" in continued
    done = ended(process, 60)
    assert done.code == 0, done.err
    assert len(calls(folder)) == 800
    every_trial_once(folder, postgres, 400)
    kinds = folder.sql("select kind, detail from events where kind like 'store_%' order by seq", postgres)
    assert [row["kind"] for row in kinds] == ["store_lost", "store_back"]
    assert "no connection" in json.loads(kinds[0]["detail"])["message"]


def test_a_run_whose_patience_is_used_up_stops_and_says_how_to_resume(
    folder: Folder, postgres: str, link: FaultyLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "PATIENCE_S", 0.3)
    monkeypatch.setattr(writers, "LAST_PATIENCE_S", 0.3)
    spec = experiment(folder, cases=40, parallel=PARALLEL, seconds=0.02)

    def cut() -> None:
        until(lambda: len(calls(folder)) >= 20, "some calls")
        link.cut()

    thread = threading.Thread(target=cut)
    thread.start()
    done = folder.abreast("run", spec, "--store", link.url(postgres))
    thread.join()
    assert done.code == 3
    assert "no connection" in done.err
    assert "help: check the server and the address, then run `abreast resume " in done.err
    assert len(calls(folder)) < 60
    link.restore()
    done = folder.abreast("resume", "--store", postgres)
    assert done.code == 0, done.err
    every_trial_once(folder, postgres, 40)


def test_a_commit_whose_reply_is_lost_is_not_repeated(postgres: str, link: FaultyLink) -> None:
    with open_store(link.url(postgres)) as store:
        writing = Writing(store, store.begin(new_run()))
        for number in range(40):
            if number % 4 == 0:
                link.lose_replies(b"COMMIT\0", 1)
            writing.writer.put_together([event(writing.lease.run_id, number)], number)
            wait_for(lambda n=number: n in writing.committed)  # type: ignore[misc]
        writing.writer.close()
        assert writing.committed == list(range(40))
        assert store.rows("select count(*), count(distinct happened_at) from events") == [(40, 40)]
        assert store.rows("select count(*) from last_commits") == [(0,)]
        assert not writing.failures


def test_a_batch_given_up_after_its_commit_is_not_repeated(
    postgres: str, link: FaultyLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "PATIENCE_S", 0.0)
    with open_store(link.url(postgres)) as store:
        writing = Writing(store, store.begin(new_run()))
        writing.writer.put_together([event(writing.lease.run_id, 0)], 0)
        wait_for(lambda: writing.committed)
        link.lose_replies(b"COMMIT\0", 1)
        link.refuses = True
        writing.writer.put_together([event(writing.lease.run_id, 1)], 1)
        wait_for(lambda: writing.failures)
        writing.writer.put_together([event(writing.lease.run_id, 2)], 2)
        link.refuses = False
        wait_for(lambda: len(writing.committed) == 3)
        writing.writer.close()
        assert store.rows("select happened_at from events order by seq") == [(0.0,), (1.0,), (2.0,)]


def test_a_store_that_is_read_after_its_server_ended_the_session_connects_again(
    postgres: str, postgres_server: PostgresServer
) -> None:
    with open_store(postgres) as store:
        lease = store.begin(new_run())
        assert len(store.runs()) == 1
        terminate_sessions(postgres_server, postgres)
        assert len(store.runs()) == 1
        store.finish(lease, "complete", None)


def terminate_sessions(server: PostgresServer, url: str) -> None:
    with server.connect() as connection:
        database = url.rpartition("/")[2]
        query = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(query, (database,))

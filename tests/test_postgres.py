"""Stores on PostgreSQL: faults during a run, several users at once, roles, passwords and messages."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from abreast import Reader, Tracker
from abreast.errors import StoreError
from abreast.model import Outcome, Trial, Variant
from abreast.store import Store, open_store, rows, schema
from abreast.store.base import NoConnection
from abreast.store.postgres import database, shared, writers
from abreast.store.user_state.quota_ledger import Ledger
from conftest import WITHOUT_VERSION_5, Folder
from faulty_link import FaultyLink
from postgres_server import HOST, PostgresServer, free_port
from test_durability import calls, ended, every_trial_once, experiment, until
from test_store_conformance import CASE, Writing, event, new_run, wait_for

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
    match = re.search(r"help: check the server and the address, then run `abreast (resume .* --store \S+)`", done.err)
    assert match is not None, done.err
    assert len(calls(folder)) < 60
    link.restore()
    done = folder.abreast(*shlex.split(match[1]))
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


def test_a_commit_that_waits_longer_than_the_server_allows_is_repeated(postgres: str) -> None:
    attempts: list[str] = []
    with open_store(postgres) as store, closing(store.open_writer(print, print)) as writer:
        with psycopg.connect(postgres) as other:
            other.execute("SELECT pg_advisory_xact_lock(1)")

            def work(connection: Any) -> None:
                attempts.append("")
                if len(attempts) == 2:
                    other.commit()
                connection.execute("SET LOCAL statement_timeout TO 500")
                connection.execute("SELECT pg_advisory_xact_lock(1)")
                connection.execute("SET LOCAL statement_timeout TO 0")
                connection.execute("INSERT INTO deletions (run_id, deleted_at) VALUES (1, 0)")

            writer.commit(work)
        assert len(attempts) > 1
        assert store.rows("SELECT COUNT(*) FROM deletions") == [(1,)]


def test_a_connection_that_cannot_be_rolled_back_is_replaced(postgres: str) -> None:
    """As psycopg may leave it if the session ends while many rows are being sent."""
    connections = []

    def work(connection: Any) -> None:
        connections.append(connection)
        if len(connections) == 1:
            connection.raw.pgconn.enter_pipeline_mode()
            raise psycopg.OperationalError("cannot exit pipeline mode while busy")
        connection.execute("INSERT INTO deletions (run_id, deleted_at) VALUES (1, 0)")

    with open_store(postgres) as store:
        writer = store.open_writer(print, print)
        writer.commit(work)
        writer.close()
        assert connections[0] is not connections[1]
        assert store.rows("SELECT COUNT(*) FROM deletions") == [(1,)]


class Vanishing:
    """Work whose client vanishes during the first attempt; the server is not notified."""

    def __init__(self) -> None:
        self.attempts = 0

    def __call__(self, connection: Any) -> None:
        self.attempts += 1
        connection.execute("INSERT INTO deletions (run_id, deleted_at) VALUES (1, 0)")
        if self.attempts == 1:
            descriptor = connection.raw.fileno()
            self.server = socket.socket(fileno=os.dup(descriptor))
            dead, peer = socket.socketpair()
            peer.close()
            with dead:
                os.dup2(dead.fileno(), descriptor)


def test_the_locks_of_a_vanished_session_are_not_in_the_way(
    postgres: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "IDLE_S", 1)
    work = Vanishing()
    with open_store(team(postgres_server, postgres)[0]) as store:  # who may not end the session of another role
        with closing(store.open_writer(print, print)) as writer:
            writer.commit(work)
        assert store.rows("SELECT COUNT(*) FROM deletions") == [(1,)]
    work.server.close()


def test_the_server_soon_notices_a_client_that_vanished(postgres: str) -> None:
    settings = "SELECT sum(setting::int) FROM pg_settings WHERE name ~ '^tcp_keepalives_(idle|interval|count)$'"
    with open_store(postgres) as store:
        store.release_lease(store.begin(new_run()))
        assert store.rows(settings) == [(11,)]


def test_a_first_commit_that_arrives_late_is_not_repeated(postgres: str) -> None:
    work = Vanishing()
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with open_store(postgres) as store, closing(store.open_writer(print, print)) as writer:
        with ThreadPoolExecutor(1) as thread:
            commit = thread.submit(writer.commit, work)
            wait_for(lambda: store.rows(waiting) == [(1,)])
            work.server.send(b"Q" + struct.pack("!i", 11) + b"COMMIT\0")
            commit.result()
        work.server.close()
        assert work.attempts == 1
        assert store.rows("SELECT COUNT(*) FROM deletions") == [(1,)]


def test_a_transaction_that_the_server_ended_because_it_was_idle_is_repeated(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "IDLE_S", 1)
    sessions: list[int] = []

    def work(connection: Any) -> None:
        sessions.append(connection.raw.info.backend_pid)
        if len(sessions) == 1:
            wait_for(lambda: not store.rows("SELECT 1 FROM pg_stat_activity WHERE pid = ?", (sessions[0],)))
        connection.execute("INSERT INTO deletions (run_id, deleted_at) VALUES (1, 0)")

    with open_store(postgres) as store, closing(store.open_writer(print, print)) as writer:
        writer.commit(work)
        assert len(sessions) > 1
        assert store.rows("SELECT COUNT(*) FROM deletions") == [(1,)]


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


# -- cost --------------------------------------------------------------------------------------------------------------


def test_storing_a_trial_reads_none_of_those_before_it(postgres: str) -> None:
    """Even if the statement was planned when the table was empty, and nothing is known about its rows."""
    trials = 400
    with open_store(postgres) as store:
        writing = Writing(store, store.begin(new_run()))
        for position in range(trials):
            trial = Trial(position, CASE, Variant("one"), 0)
            row = rows.trial_row(writing.lease.run_id, trial, 0, 0, "case", Outcome("ok"), rows.Timing(1.0))
            writing.writer.put_together([("trials", row)], position)
            if position < 20:
                wait_for(lambda n=position: n in writing.committed)  # type: ignore[misc]
        writing.writer.close()
        assert len(writing.committed) == trials
    read = (
        "SELECT seq_tup_read + COALESCE(idx_tup_fetch, 0), n_tup_ins FROM pg_stat_all_tables WHERE relname = 'trials'"
    )
    with psycopg.connect(postgres, autocommit=True) as connection:
        wait_for(lambda: (connection.execute(read).fetchone() or (0, 0))[1] == trials)
        assert (connection.execute(read).fetchone() or (trials,))[0] < trials


def test_an_object_that_the_server_cannot_store_is_refused(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "LARGEST_ASSET", 1_000_000)
    with open_store(postgres) as store, pytest.raises(StoreError, match="2 MB, more than the 1 that it can store"):
        store.assets.put(b"x" * 2_000_000)


# -- leases and quotas -------------------------------------------------------------------------------------------------


def elsewhere(store: Store, age_s: float) -> str:
    """Store a run whose owner is another machine, with a heartbeat of this age by the clock of the database."""
    lease = store.begin(new_run())
    store.release_lease(lease)
    owner = json.dumps({"place": "elsewhere|1", "driver": "7-x", "registry": "/nowhere", "lease": "00"})
    statement = "update runs set owner = ?, heartbeat_at = extract(epoch from clock_timestamp()) - ?"
    with store.change() as connection:
        connection.execute(statement, (owner, age_s))
    return str(lease.run)


@pytest.mark.parametrize("hours", [-5, 5])
def test_leases_follow_the_clock_of_the_database(postgres: str, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + hours * 3600)
    with open_store(postgres) as store:
        run = elsewhere(store, 10.0)
        with pytest.raises(StoreError, match="is being executed by process 7 on elsewhere"):
            store.claim(run)
        with store.change() as connection:
            connection.execute("update runs set heartbeat_at = heartbeat_at - 25")
        writing = Writing(store, store.claim(run))
        writing.writer.put_together([event(writing.lease.run_id, 0)], "token")
        wait_for(lambda: writing.committed)
        writing.writer.close()
        store.finish(writing.lease, "complete", None)
        ((heartbeat_at, created_at, finished_at),) = store.rows(
            "select heartbeat_at, created_at, finished_at from runs"
        )
        assert abs(heartbeat_at - real()) < 60
        assert created_at <= finished_at < created_at + 60


def test_a_driver_whose_run_was_taken_over_during_an_outage_writes_nothing_more(
    folder: Folder, postgres: str, link: FaultyLink
) -> None:
    spec = experiment(folder, cases=200, parallel=PARALLEL, seconds=0.02)
    process = folder.start("run", spec, "--store", link.url(postgres))
    until(lambda: len(calls(folder)) >= 20, "some calls", process)
    link.cut()
    lines_until(process, "paused: ")
    with open_store(postgres) as store:
        with store.change() as connection:  # as `claim` does once the heartbeat is old
            connection.execute("update runs set epoch = epoch + 1")
        before = store.rows("select count(*) from trials")
        link.restore()
        done = ended(process, 60)
        assert done.code == 3
        assert "was taken over by another process" in done.err
        assert store.rows("select count(*) from trials") == before


def test_users_of_one_account_share_a_quota(postgres: str, postgres_server: PostgresServer) -> None:
    with ExitStack() as stack:
        stores = [stack.enter_context(open_store(url)) for url in team(postgres_server, postgres)[:2]]
        one, two = (stack.enter_context(closing(store.quota_ledger())) for store in stores)
        taken = [take(ledger) for ledger in (one, two, one, two, one, two)]
        assert all(ticket is not None for ticket, _ in taken[:5])
        assert taken[5][0] is None
        assert 3500 < taken[5][1] <= 3600
        one.give_back(taken[0][0])  # type: ignore[arg-type]
        wait_for(lambda: two.used("account", 3600.0) == 4)
        assert take(two)[0] is not None


def take(ledger: Ledger) -> tuple[int | None, float]:
    """Take one of five tickets, as the limit does: it asks again if a busy server does not reply at once."""
    while True:
        with suppress(NoConnection):
            return ledger.take("account", 5, 3600.0)


def test_a_quota_waits_for_a_database_that_cannot_be_reached(folder: Folder, postgres: str, link: FaultyLink) -> None:
    spec = experiment(folder, cases=40, parallel=PARALLEL, seconds=0.05)
    path = folder.path / spec
    limits = f"limits: {{parallel: {PARALLEL}, targets: {{'python:mine:answer': {{quota: 1000/1h}}}}}}"
    path.write_text(path.read_text().replace(f"limits: {{parallel: {PARALLEL}}}", limits))
    process = folder.start("run", spec, "--store", link.url(postgres))
    until(lambda: len(calls(folder)) >= 10, "some calls", process)
    link.cut()
    lines_until(process, "paused: ")
    link.restore()
    done = ended(process, 60)
    assert done.code == 0, done.err
    every_trial_once(folder, postgres, 40)
    assert folder.sql("select count(*) as n from quota_uses", postgres)[0]["n"] in range(80, 90)


# -- roles -------------------------------------------------------------------------------------------------------------


def team(server: PostgresServer, url: str) -> list[str]:
    """Create the roles of the how-to guide in a database without rights for everyone. Returns the addresses of two
    members of the team and of a reader."""
    name = url.rpartition("/")[2]
    guide = (Path(__file__).parent.parent / "docs/how-to/postgres.md").read_text()
    statements = guide.partition("```sql\n")[2].partition("```")[0]
    for role in ("bench_writers", "bench_readers", "ann", "bob", "dashboard"):  # which all databases share
        statements = re.sub(rf"\b{role}\b", f"{role}_{name}", statements)
    statements = re.sub(r"\bresults\b", name, statements)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC")
        connection.execute(statements)
    return [server.url(name, f"{role}_{name}", "change me") for role in ("ann", "bob", "dashboard")]


def test_members_of_a_team_change_what_each_other_created_and_a_reader_only_reads(
    simulated: Folder, postgres: str, postgres_server: PostgresServer
) -> None:
    one, two, dashboard = team(postgres_server, postgres)
    group = f"bench_writers_{postgres.rpartition('/')[2]}"
    folder = simulated
    for number, url in enumerate((one, two, one)):
        parameter = f"p{number}"
        spec = (folder.path / "experiment.yaml").read_text()
        folder.write(f"e{number}.yaml", spec.replace("accuracy: 0.6", f"accuracy: 0.6, params: {{{parameter}: 1}}"))
        done = folder.abreast("run", f"e{number}.yaml", "--store", url, "--fresh", "--quiet")
        assert done.code == 0, done.err
        code = "import sys; from abreast import Tracker\nwith Tracker(sys.argv[1]) as t: t.log({sys.argv[2]: 1})"
        subprocess.run([sys.executable, "-c", code, url, parameter], check=True, cwd=folder.path)
    done = folder.abreast("run", "e0.yaml", "--store", two, "--quiet")  # reuses all answers
    assert done.code == 0, done.err
    with open_store(postgres) as store:
        assert store.rows("select distinct tableowner from pg_tables where schemaname = 'abreast'") == [(group,)]
        assert store.rows("select distinct viewowner from pg_views where schemaname = 'abreast'") == [(group,)]
    for words in (
        ("sql", dashboard, "select count(*) as n, sum(p2) as p2 from predictions"),
        ("report", "latest", "--store", dashboard, "--output", "reports"),
        ("show", "latest", "--store", dashboard),
        ("runs", "--store", dashboard),
        ("export", "latest", "--store", dashboard, "--output", "exported.csv"),
        ("head", dashboard),
    ):
        done = folder.abreast(*words)
        assert done.code == 0, (words, done.err)
    assert Reader(dashboard).count() == 323
    done = folder.abreast("run", "e0.yaml", "--store", dashboard, "--fresh")
    assert done.code != 0
    assert "permission denied" in done.err
    assert "help: ask for the role of a writer" in done.err
    assert "change me" not in done.err


def rows_with(store: str, column: str) -> int:
    """Track a row with this column, and return the number of rows that have it."""
    with Tracker(store) as tracker:
        tracker.log({column: 1})
    with open_store(store) as opened:
        ((count,),) = opened.rows(f"select count({column}) from predictions")
    return int(count)


def test_new_columns_take_no_rights_away(postgres: str, postgres_server: PostgresServer) -> None:
    assert rows_with(postgres, "first") == 1
    name = postgres.rpartition("/")[2]
    viewer = f"vi\"ew'er {name}"
    role = sql.Identifier(viewer)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'v'").format(role))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA abreast TO {}").format(role))
        connection.execute(sql.SQL("GRANT SELECT ON abreast.predictions TO {}").format(role))
        connection.execute("GRANT SELECT ON abreast.metrics TO PUBLIC")
    assert rows_with(postgres, "second") == 1
    with Tracker(postgres) as tracker:
        tracker.log({"second": "now a text"})
    with psycopg.connect(postgres_server.url(name, viewer, "v")) as connection:
        assert connection.execute("SELECT count(second) FROM abreast.predictions").fetchall() == [(2,)]
        assert connection.execute("SELECT count(*) FROM abreast.metrics").fetchall() == [(0,)]


def test_a_user_without_rights_is_told_whom_to_ask(postgres: str, postgres_server: PostgresServer) -> None:
    assert rows_with(postgres, "first") == 1
    name = postgres.rpartition("/")[2]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE stranger_{name} LOGIN PASSWORD 's'")
    with open_store(postgres_server.url(name, f"stranger_{name}", "s")) as store:
        with pytest.raises(StoreError, match="no right to use the schema abreast") as raised:
            store.runs()
        assert "ask for the role" in raised.value.fix


def test_a_view_of_the_team_only_keeps_the_columns_as_they_are(postgres: str) -> None:
    assert rows_with(postgres, "first") == 1
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE VIEW public.board AS SELECT first FROM abreast.predictions")
    with Tracker(postgres) as tracker:
        tracker.log({"second": 1})
        with pytest.raises(StoreError, match=r"view public\.board depends on view predictions") as caught:
            tracker.log({"first": "now a text"})
        assert caught.value.fix == "drop the objects that depend on them, then try again"
    with open_store(postgres) as store:
        store.release_lease(store.begin(new_run()))  # with columns of its own
        assert "second" not in store.dicts("select * from predictions")[0]
        with psycopg.connect(postgres, autocommit=True) as connection:
            assert connection.execute("SELECT count(*) FROM board").fetchall() == [(2,)]
            connection.execute("DROP VIEW board")
    assert rows_with(postgres, "second") == 2


# -- passwords and messages --------------------------------------------------------------------------------------------

PASSWORD = "s3cret/with@odd#characters"


def test_passwords_come_from_files_and_appear_nowhere(
    simulated: Folder, postgres: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, name = simulated, postgres.rpartition("/")[2]
    user = f"user_{name}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        statement = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(user), PASSWORD)
        connection.execute(statement)
        connection.execute(f"GRANT CREATE ON DATABASE {name} TO {user}")
    port = postgres_server.port
    secrets_folder = folder.path.parent / "secrets"
    secrets_folder.mkdir()
    password_file = secrets_folder / "pgpass"
    password_file.write_text(f"{HOST}:{port}:*:{user}:{PASSWORD}\n")
    password_file.chmod(0o600)
    service_file = secrets_folder / "services"
    service_file.write_text(f"[team]\nhost={HOST}\nport={port}\nuser={user}\ndbname={name}\n")
    monkeypatch.setenv("PGPASSFILE", str(password_file))
    monkeypatch.setenv("PGSERVICEFILE", str(service_file))
    spec = folder.path / "experiment.yaml"
    for number, (store, service) in enumerate(
        (
            (f"postgresql://{user}@{HOST}:{port}/{name}", None),
            ("postgresql://", "team"),
            ("postgresql:///?service=team", None),
            (f"postgresql://{user}:{quote(PASSWORD, '')}@{HOST}:{port}/{name}", None),
        )
    ):
        if service:
            monkeypatch.setenv("PGSERVICE", service)
        else:
            monkeypatch.delenv("PGSERVICE", raising=False)
        folder.write(f"e{number}.yaml", spec.read_text() + f"store: '{store}'\n")
        done = folder.command("run", f"e{number}.yaml", "--fresh", "--verbose", "--output", "reports")
        assert done.code == 0, done.err
        (folder.path / f"output{number}.txt").write_text(done.output)
        (folder.path / f"e{number}.yaml").unlink()
    with open_store(postgres) as opened:
        assert len(opened.runs()) == 4
        tables = opened.rows("select table_name from information_schema.tables where table_schema = 'abreast'")
        dump = "".join(str(opened.rows(f'select t::text from "{name}" t')) for (name,) in tables)
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    for secret in (PASSWORD, quote(PASSWORD, ""), "s3cret"):
        assert secret not in dump
        assert [path for path in files if secret.encode() in path.read_bytes()] == []


def test_a_password_that_a_target_reads_from_the_password_file_is_not_stored(
    folder: Folder, postgres: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    password_file = folder.write("pgpass", f"*:*:*:*:{postgres_server.password}\n")
    password_file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(password_file))
    folder.cases(1)
    folder.write("mine.py", "def answer(case):\n    return open('pgpass').read()\n")
    folder.write("experiment.yaml", "name: x\ncases: cases.jsonl\ntarget: python:mine:answer\nvariants: {one: {}}\n")
    store = postgres.replace(f":{postgres_server.password}@", "@")
    done = folder.command("run", "experiment.yaml", "--store", store, "--yes")
    assert done.code == 0, done.err
    assert folder.sql("select answer from predictions", postgres) == [{"answer": "*:*:*:*:[STORE_PASSWORD]\n"}]


def test_what_is_wrong_with_a_connection_is_said_in_one_sentence(
    simulated: Folder, postgres: str, postgres_server: PostgresServer
) -> None:
    folder, name = simulated, postgres.rpartition("/")[2]
    nobody = f"nobody_{name}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {nobody} LOGIN PASSWORD 'n0body'")
        connection.execute(f"CREATE ROLE full_{name} LOGIN PASSWORD 'n0body' CONNECTION LIMIT 0")
    for store, expected in (
        (postgres_server.url(name, password="wr0ng"), "password authentication failed"),
        (f"postgresql://u:wr0ng@{HOST}:{free_port()}/x", "Connection refused"),
        ("postgresql://u:wr0ng@no-such-host.invalid/x", "no-such-host.invalid"),
        (postgres_server.url("no_such_database"), '"no_such_database" does not exist'),
        (postgres + "?sslmode=require", "server does not support SSL"),
        (postgres_server.url(name, nobody, "n0body"), "permission denied"),
        (postgres_server.url(name, f"full_{name}", "n0body"), "too many connections"),
        (postgres + "?nonsense=1", "not a valid address (invalid URI query parameter)"),
        (postgres.replace(postgres_server.password, "wr0ng/x#y@z?"), "special characters in the password"),
    ):
        for words in (("run", "experiment.yaml", "--store", store), ("runs", "--store", store)):
            if words[0] == "runs" and "nobody_" in store:
                continue  # an empty database can be listed by anyone
            done = folder.abreast(*words)
            assert done.code != 0, words
            assert expected in done.err, done.err
            assert ("in ABREAST_STORE, PGPASSWORD or" in done.err) == ("password authentication" in done.err)
            errors = [line for line in done.err.splitlines() if line.startswith(("error:", "help:"))]
            assert [line.partition(":")[0] for line in errors] == ["error", "help"], done.err
            for secret in ("wr0ng", "n0body", postgres_server.password):
                assert secret not in done.output


def test_a_connection_string_of_keywords_is_refused_without_being_repeated(simulated: Folder) -> None:
    store = "host=127.0.0.1 password=s3cret"
    spec = (simulated.path / "experiment.yaml").read_text()
    simulated.write("named.yaml", f"{spec}store: {store}\n")
    for words in (["experiment.yaml", "--store", store], ["named.yaml"]):
        done = simulated.abreast("run", *words)
        assert done.code == 2
        assert "error: store: not a URL\nhelp: write the connection string as postgresql://" in done.err
        assert "s3cret" not in done.output
    assert not list(simulated.path.glob("host*"))


def test_a_connection_begins_without_options_which_poolers_refuse() -> None:
    with socket.create_server((HOST, 0)) as pooler, ThreadPoolExecutor(1) as thread:

        def first_message() -> bytes:
            connection, _ = pooler.accept()
            with connection:
                return connection.recv(4096)

        message = thread.submit(first_message)
        port = pooler.getsockname()[1]
        with pytest.raises(StoreError), open_store(f"postgresql://ann@{HOST}:{port}/x?sslmode=disable") as store:
            store.exists()
        assert b"application_name" in message.result()
        assert b"options" not in message.result()


def test_processes_that_migrate_an_older_store_at_once_do_it_once(postgres: str) -> None:
    with open_store(postgres) as store:
        store.release_lease(store.begin(new_run()))
        store.sql(
            f"DROP VIEW predictions, metrics; {WITHOUT_VERSION_5}; UPDATE store_version SET version = 4", write=True
        )
    code = "import sys; from abreast.store import open_store\nprint(len(open_store(sys.argv[1]).runs()))"
    command = [sys.executable, "-c", code, postgres]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=60)[0] for process in processes] == ["1\n"] * 4
    with open_store(postgres) as store:
        assert store.rows("select version from store_version") == [(schema.VERSION,)]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_in_another_encoding_is_refused(
    simulated: Folder, postgres_server: PostgresServer, encoding: str
) -> None:
    name = f"encoded_in_{encoding.lower()}"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    done = simulated.abreast("run", "experiment.yaml", "--store", postgres_server.url(name))
    assert done.code == 2
    assert f"the encoding of this database is {encoding}, not UTF8" in done.err
    postgres_server.drop_database(name)


def test_the_encoding_of_the_environment_changes_nothing(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with Tracker(postgres) as tracker:
        tracker.log({"text": "日本"})
    assert Reader(postgres).to_df()["text"].tolist() == ["日本"]


def test_processes_create_a_store_at_once_in_a_database_with_another_isolation_level(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        name = postgres.rpartition("/")[2]
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation TO serializable")
    code = "import sys; from abreast import Tracker\nwith Tracker(sys.argv[1]) as t: t.log({sys.argv[2]: 1})"
    commands = [[sys.executable, "-c", code, postgres, f"column{number}"] for number in range(4)]
    processes = [subprocess.Popen(command) for command in commands]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert len(Reader(postgres)) == 4


def test_an_older_server_is_refused(simulated: Folder, postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "OLDEST_SERVER", 99)
    done = simulated.abreast("run", "experiment.yaml", "--store", postgres)
    assert done.code == 2
    assert "this server is older than PostgreSQL 99" in done.err
    assert "help: use a newer server" in done.err

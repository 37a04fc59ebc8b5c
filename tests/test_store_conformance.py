"""The guarantees of every store engine, tested through the public interface."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from abreast import Reader, Tracker
from abreast.errors import BadInput, StoreError
from abreast.model import Answer, Case, Outcome, Score, Trial, Usage, Variant
from abreast.store import Closed, Lease, LeaseLost, NewRun, Store, open_store, rows, schema
from abreast.store.user_tables import tables, tracked_rows
from abreast.store.user_tables.cells import TypedCell
from conftest import WITHOUT_VERSION_5, Folder
from packages import install

ADDRESSES = {"sqlite": "results.db", "duckdb": "results.duckdb", "postgres": None}


@pytest.fixture(params=ADDRESSES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that does not exist yet, with a password if it has one."""
    file = ADDRESSES[request.param]
    return request.getfixturevalue("postgres") if file is None else str(tmp_path / file)


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    with open_store(address) as opened:
        yield opened


def test_the_address_decides_the_engine(store: Store, request: pytest.FixtureRequest) -> None:
    assert f"[{store.engine}]" in request.node.name


def remove(store: Store) -> None:
    """Remove a store behind its back."""
    if store.engine == "postgres":
        store.sql("drop schema abreast cascade", write=True)
    else:
        path = Path(store.address)
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()


def administer(store: Store, *statements: str) -> None:
    """Execute statements as an administrator of the database may."""
    if store.engine == "postgres":
        store.sql(";".join(statements), write=True)
    else:
        with store.change() as connection:
            for statement in statements:
                connection.execute(statement)


VERSION = {"postgres": "UPDATE store_version SET version = {}"}


def new_run(name: str = "calm-heron-1", fingerprint: str = "f") -> NewRun:
    return NewRun(
        run=name,
        experiment="x",
        debug=False,
        simulated=False,
        label=None,
        fingerprint=fingerprint,
        planned_trials=2,
        primary_score="exact",
        baseline="one",
        seed=0,
        spec={"options": {}, "repeats": 1},
        provenance={},
        variants=[(0, "one", "t", '{"lr": 1}', "d", 0)],
        columns=[schema.Column("score", "exact", "real")],
    )


CASE = Case("a", "1 + 1", "2", {"level": "easy"})
TRIAL = Trial(0, CASE, Variant("one"), 0)


def trial_rows(run_id: int, answer: Answer) -> list[tuple[str, rows.Row]]:
    outcome = Outcome("ok", answer, started_at=1.0, finished_at=2.0, service_s=1.0)
    return [
        ("cases", rows.case_row("case digest", "input digest", CASE)),
        ("trials", rows.trial_row(run_id, TRIAL, 0, 0, "case digest", outcome, rows.Timing(1.0, attempts=1))),
        ("payloads", rows.payload_row(run_id, 0, "1 + 1", answer)),
        *(("scores", row) for row in rows.score_rows(run_id, 0, "1", [Score("exact", 1.0)])),
    ]


def event(run_id: int, number: int, detail: Any = "{}") -> tuple[str, rows.Row]:
    return "events", (run_id, float(number), "kind", detail)


@dataclass
class Writing:
    """A writer of a store and its reports."""

    store: Store
    lease: Lease
    committed: list[Any] = field(default_factory=list)
    failures: list[StoreError] = field(default_factory=list)
    outages: list[StoreError | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writer = self.store.writer(self.lease, self.committed.extend, self.failures.append, self.outages.append)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "nothing happened for 30 seconds"
        time.sleep(0.01)


def in_another_process(code: str, *arguments: object) -> subprocess.Popen[str]:
    script = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{code}"
    words = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def killed_after_first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    return line


WRITE_AND_WAIT = """
import time
from test_store_conformance import event, new_run
from abreast.store import open_store
store = open_store(sys.argv[1])
lease = store.begin(new_run())
writer = store.writer(lease, lambda tokens: print(*tokens, flush=True), print, print)
writer.put_together([event(lease.run_id, 1)], "safe")
time.sleep(60)
"""


# -- durability and atomicity --------------------------------------------------------------------------------------


def test_a_row_that_was_acknowledged_survives_the_death_of_its_process(store: Store, address: str) -> None:
    assert killed_after_first_line(in_another_process(WRITE_AND_WAIT, address)) == "safe"
    assert store.rows("SELECT happened_at FROM events") == [(1.0,)]
    assert store.sql("select count(*) from events")[1] == [(1,)]


def test_rows_queued_together_are_stored_atomically(store: Store) -> None:
    writing = Writing(store, store.begin(new_run()))
    run_id = writing.lease.run_id
    writing.writer.put_together([event(run_id, 1), event(run_id, 2, object())], "broken")
    writing.writer.put_together([event(run_id, 3), event(run_id, 4)], "sound")
    with pytest.raises(StoreError, match="cannot be stored"):
        writing.writer.close()
    assert writing.committed == ["sound"]
    assert store.rows("SELECT happened_at FROM events ORDER BY 1") == [(3.0,), (4.0,)]
    store.release_lease(writing.lease)


def test_a_trial_that_is_executed_again_adds_its_attempts(store: Store) -> None:
    writing = Writing(store, store.begin(new_run()))

    def put(position: int, attempts: int, answer: str) -> None:
        trial = Trial(position, CASE, Variant("one"), 0)
        outcome, timing = Outcome("ok", Answer(answer)), rows.Timing(1.0, attempts=attempts)
        row = rows.trial_row(writing.lease.run_id, trial, 0, 0, "case digest", outcome, timing)
        payload = rows.payload_row(writing.lease.run_id, position, "1 + 1", Answer(answer))
        writing.writer.put_together([("trials", row), ("payloads", payload)], position)

    for position in range(40):
        put(position, 1, "first")
    wait_for(lambda: len(writing.committed) == 40)
    for position in (0, *range(40), 39):  # some twice, perhaps in one commit
        put(position, 2, f"again {position}")
    writing.writer.close()
    assert store.rows("SELECT attempts, COUNT(*) FROM trials GROUP BY 1 ORDER BY 1") == [(3, 38), (5, 2)]
    assert store.rows("SELECT position FROM payloads WHERE answer <> 'again ' || position") == []


def test_rows_that_cannot_be_stored_are_replaced_by_their_substitute(store: Store) -> None:
    writing = Writing(store, store.begin(new_run()))
    run_id = writing.lease.run_id
    writing.writer.put_together([event(run_id, 1, object())], "token", lambda reason: [event(run_id, 2, str(reason))])
    writing.writer.close()
    assert writing.committed == ["token"]
    ((number, reason),) = store.rows("SELECT happened_at, detail FROM events")
    assert number == 2.0
    assert "cannot be stored" in reason
    store.finish(writing.lease, "complete", None)


def test_a_change_that_fails_changes_nothing(store: Store) -> None:
    store.finish(store.begin(new_run()), "complete", None)
    with pytest.raises((StoreError, TypeError)), store.change() as connection:
        connection.executemany("UPDATE runs SET label = ?", [("lost",), (object(),)])
    assert store.run("latest")["label"] is None


# -- leases --------------------------------------------------------------------------------------------------------


def test_a_run_is_executed_by_one_driver_at_a_time(store: Store) -> None:
    lease = store.begin(new_run())
    with pytest.raises(StoreError, match="calm-heron-1 is being executed by process"):
        store.claim("calm-heron-1")
    with pytest.raises(StoreError, match="is being executed"):
        store.begin(new_run("twin-1"))
    with pytest.raises(StoreError, match="is being executed") as refused:
        store.delete(["calm-heron-1"])
    assert refused.value.fix == f"stop it first: `abreast ctl calm-heron-1 stop --store {store.quoted_address}`"
    assert store.run("latest")["status"] == "running"
    store.finish(lease, "complete", None)
    assert store.claim("calm-heron-1").epoch == 2


def test_a_writer_without_its_lease_writes_nothing_more(store: Store) -> None:
    writing = Writing(store, store.begin(new_run()))
    run_id = writing.lease.run_id
    store.release_lease(writing.lease)  # as if this process had ended
    new_lease = store.claim("calm-heron-1")
    writing.writer.put_together([event(run_id, 1)], "late")
    wait_for(lambda: writing.failures)
    with pytest.raises(LeaseLost, match="taken over by another process"):
        writing.writer.close()
    store.finish(writing.lease, "complete", None)  # nor can it end the run
    assert writing.committed == []
    assert store.rows("SELECT COUNT(*) FROM events") == [(0,)]
    assert store.rows("SELECT status, epoch FROM runs") == [("running", new_lease.epoch)]
    store.release_lease(new_lease)


def test_the_run_of_a_killed_driver_can_be_claimed_at_once(store: Store, address: str) -> None:
    process = in_another_process(WRITE_AND_WAIT, address)
    assert process.stdout is not None
    process.stdout.readline()
    with pytest.raises(StoreError, match=f"is being executed by process {process.pid}"):
        store.claim("calm-heron-1")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    assert store.run("latest")["status"] == "incomplete"
    assert store.claim("calm-heron-1").epoch == 2


OWNERS = {
    "a driver of another machine": {"place": "elsewhere|boot|ns", "driver": "1-aaaaaaaaaaaa", "registry": "1:2"},
    "a driver of a version that stored process ids": {"place": "elsewhere|boot|ns", "pid": 1, "since": 5.0},
    "a driver of another user": {"place": None, "driver": "1-aaaaaaaaaaaa", "registry": "1:2"},
}


@pytest.mark.parametrize("owner", OWNERS)
def test_a_driver_on_another_machine_is_alive_as_long_as_its_heartbeat_is_recent(store: Store, owner: str) -> None:
    lease = store.begin(new_run())
    store.release_lease(lease)
    foreign = OWNERS[owner] | {"lease": "x"}
    foreign["place"] = foreign["place"] or json.loads(lease.owner)["place"]
    for silent_for_s, expected in ((1.0, "running"), (60.0, "incomplete")):
        with store.change() as connection:
            beat = store.now() - silent_for_s
            connection.execute("UPDATE runs SET owner = ?, heartbeat_at = ?", (json.dumps(foreign), beat))
        assert store.run("latest")["status"] == expected


# -- reading -------------------------------------------------------------------------------------------------------


def test_a_reader_sees_a_snapshot_while_a_writer_commits(store: Store) -> None:
    writing = Writing(store, store.begin(new_run()))
    with store.snapshot() as connection:
        count = "SELECT COUNT(*) FROM events"
        assert connection.execute(count).fetchall() == [(0,)]
        writing.writer.put_together([event(writing.lease.run_id, 1)], "token")
        wait_for(lambda: writing.committed)  # the reader does not block it
        assert connection.execute(count).fetchall() == [(0,)]
    assert store.rows(count) == [(1,)]
    assert list(store.stream("SELECT happened_at FROM events")) == [(1.0,)]
    assert list(store.chunks("SELECT happened_at FROM events", size=5)) == [[(1.0,)]]
    assert store.dicts("SELECT kind AS k FROM events") == [{"k": "kind"}]
    writing.writer.close()
    store.finish(writing.lease, "complete", None)


def test_a_user_query_changes_nothing_without_write(store: Store) -> None:
    store.finish(store.begin(new_run()), "complete", None)
    with pytest.raises(BadInput, match="would change the store"):
        store.sql("update runs set label = 'x'")
    store.sql("update runs set label = 'x'", write=True)
    assert store.sql("select label from db.runs") == (["label"], [("x",)])


# -- versions and columns ------------------------------------------------------------------------------------------


def test_a_store_of_an_older_version_is_migrated(store: Store) -> None:
    store.finish(store.begin(new_run()), "complete", None)
    version = VERSION.get(store.engine, "PRAGMA user_version = {}").format(4)
    label = "UPDATE runs SET label = 'old'"
    administer(store, "DROP VIEW predictions", "DROP VIEW metrics", WITHOUT_VERSION_5.strip("; "), version, label)
    store.close()
    assert store.run("latest")["label"] == "old"
    assert store.rows("SELECT reasoning_tokens FROM trials") == []
    assert store.rows("SELECT prompt FROM judgements") == []
    assert store.sql("select count(*) from predictions")[1] == [(0,)]


def test_a_store_of_a_newer_version_is_refused(store: Store) -> None:
    store.finish(store.begin(new_run()), "complete", None)
    administer(store, VERSION.get(store.engine, "PRAGMA user_version = {}").format(99))
    store.close()
    with pytest.raises(StoreError, match="made by a newer abreast"):
        store.exists()


def test_columns_that_several_writers_add_at_once_become_one(store: Store) -> None:
    values: list[dict[str, Any]] = [{"lr": 1, "a": 1}, {"lr": 0.5, "b": "x"}, {"lr": 2, "c": True}]
    store.finish(store.begin(new_run("first-1", "first")), "complete", None)

    def write(number: int) -> None:
        with open_store(store.address) as own:
            writing = Writing(own, own.begin(new_run(f"run-{number}", str(number))))
            writing.writer.register("params", values[number])
            writing.writer.close()
            own.finish(writing.lease, "complete", None)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(values))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    types = {column.name: column.type for column in store.columns() if column.kind == "params"}
    assert types == {"lr": "real", "a": "integer", "b": "text", "c": "boolean"}
    assert store.sql("select params_lr, params_a, params_b, params_c from predictions")[1] == []


# -- deleting ------------------------------------------------------------------------------------------------------


def test_a_reader_that_waits_is_woken_by_another_process(store: Store, address: str) -> None:
    with store.change():
        pass
    while store.wait_for_change(0.0):
        pass
    assert not store.wait_for_change(0.2)
    code = """
import time
from abreast.store import open_store
with open_store(sys.argv[1]) as store:
    store.begin(__import__("test_store_conformance").new_run())
    print(time.time(), flush=True)
"""
    process = in_another_process(code, address)
    assert store.wait_for_change(30.0)
    woken_at = time.time()
    output, _ = process.communicate(timeout=30)
    assert woken_at - float(output) < 1.0
    assert store.rows("select count(*) from runs") == [(1,)]


def test_deleting_a_run_deletes_all_its_rows(store: Store) -> None:
    for name in ("kept-1", "deleted-1"):
        writing = Writing(store, store.begin(new_run(name, name)))
        writing.writer.put_together([*trial_rows(writing.lease.run_id, Answer("2")), event(writing.lease.run_id, 1)])
        writing.writer.close()
        store.finish(writing.lease, "complete", None)
        store.log_metrics(name, None, "all", {"agreement": 0.5})
    assert store.sql("select count(*) from predictions")[1] == [(2,)]
    assert store.delete(["deleted-1"]) == 1
    for table in ("runs", "variants", "trials", "payloads", "scores", "events", "logged_metrics"):
        assert store.rows(f"SELECT COUNT(*) FROM {table}") == [(1,)], table
    for table in ("runs", "trials", "payloads", "scores", "cases", "predictions"):
        assert store.sql(f"select count(*) from {table}")[1] == [(1,)], table
    assert store.rows("SELECT COUNT(*) FROM cases") == [(1,)], "the other run has it, too"
    store.delete(["kept-1"])
    assert store.rows("SELECT COUNT(*) FROM cases") == [(0,)]
    assert store.sql("select count(*) from cases")[1] == [(0,)]


# -- controls and changes ------------------------------------------------------------------------------------------


def test_a_control_is_answered_once_by_the_driver_of_its_run(store: Store) -> None:
    lease = store.begin(new_run())
    first = store.request_control("latest", "set", {"parallel": 8}, "ann@one")
    second = store.request_control("calm-heron-1", "pause", None, "bob@two")
    pending = store.pending_controls(lease.run_id)
    assert [(control.number, control.requested_by, control.action, control.value) for control in pending] == [
        (first, "ann@one", "set", {"parallel": 8}),
        (second, "bob@two", "pause", None),
    ]
    assert abs(pending[0].requested_at - store.now()) < 60
    store.answer_control(first, "parallel: 2 → 8")
    store.answer_control(first, "too late")
    store.answer_control(second, "already paused", is_applied=False)
    assert store.pending_controls(lease.run_id) == []
    answers = [(control.outcome, control.applied_at is not None) for control in store.controls(lease.run_id)]
    assert answers == [("parallel: 2 → 8", True), ("already paused", False)]
    store.finish(lease, "complete", None)


def test_a_run_that_no_process_executes_takes_no_controls(store: Store) -> None:
    lease = store.begin(new_run())
    number = store.request_control("latest", "pause", None, "ann@one")
    store.finish(lease, "incomplete", "interrupted")
    control = store.control(number)
    assert control is not None
    assert (control.outcome, control.applied_at) == ("not applied: the run has ended", None)
    with pytest.raises(StoreError, match="no process executes calm-heron-1") as caught:
        store.request_control("latest", "pause", None, "ann@one")
    assert "abreast resume calm-heron-1" in caught.value.fix
    store.finish(store.claim("calm-heron-1"), "complete", None)
    with pytest.raises(StoreError, match="calm-heron-1 is complete") as late:
        store.request_control("latest", "pause", None, "ann@one")
    assert late.value.fix == f"see `abreast report calm-heron-1 --store {store.quoted_address}`"


def test_a_resume_does_not_apply_controls_for_a_driver_that_died(store: Store, address: str) -> None:
    process = in_another_process(WRITE_AND_WAIT, address)
    assert process.stdout is not None
    process.stdout.readline()
    number = store.request_control("latest", "stop", None, "ann@one")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    lease = store.claim("calm-heron-1")
    assert store.pending_controls(lease.run_id) == []
    control = store.control(number)
    assert control is not None
    assert (control.outcome, control.applied_at) == ("not applied: its process died", None)
    store.finish(lease, "complete", None)
    store.delete(["calm-heron-1"])
    assert store.control(number) is None


def test_a_reader_gets_what_changed_since_its_revision(store: Store) -> None:
    writing = Writing(store, store.begin(new_run()))
    run_id, queries = writing.lease.run_id, store.queries
    other = Writing(store, store.begin(new_run("other-1", "other")))
    beginning = store.revision(run_id)
    for one in (writing, other):
        own = one.lease.run_id
        one.writer.put_together([*trial_rows(own, Answer("2")), event(own, 1)], "stored")
        wait_for(lambda one=one: one.committed)  # type: ignore[misc]
    first = store.revision(run_id)
    assert [(row["position"], row["case_id"]) for row in queries.trials_since(run_id, beginning)] == [(0, "a")]
    assert queries.scores_since(run_id, beginning) == [{"position": 0, "name": "exact", "value": 1.0, "version": "1"}]
    assert [happened_at for happened_at, _, _ in queries.events_since(run_id, beginning)] == [1.0]
    assert queries.judgements_since(run_id, beginning) == []
    assert store.revision(run_id) == first != store.revision(other.lease.run_id)

    store.add_labels(run_id, [(run_id, 0, "exact", 0.0, "no", schema.LABEL_VERSION)], None)
    number = store.request_control("calm-heron-1", "pause", None, "ann@one")
    labelled = store.revision(run_id)
    assert [row["value"] for row in queries.scores_since(run_id, first)] == [0.0]
    assert [control.number for control in queries.controls_since(run_id, first)] == [number]
    store.answer_control(number, "paused")
    assert [control.outcome for control in queries.controls_since(run_id, labelled)] == ["paused"]

    writing.writer.put_together([*trial_rows(run_id, Answer("3")), event(run_id, 2)], "again")  # as after a retry
    wait_for(lambda: len(writing.committed) == 2)
    last = store.revision(run_id)
    assert [row["position"] for row in queries.trials_since(run_id, labelled)] == [0]
    assert [happened_at for happened_at, _, _ in queries.events_since(run_id, labelled)] == [2.0]
    assert queries.events_since(run_id, beginning, most=1) == queries.events_since(run_id, beginning)[:1]
    for changes in (queries.trials_since, queries.scores_since, queries.events_since, queries.controls_since):
        assert changes(run_id, last) == []
    with pytest.raises(BadInput, match="invalid revision"):
        queries.trials_since(run_id, "1-2-x")
    for one in (writing, other):
        one.writer.close()
        store.finish(one.lease, "complete", None)


def test_a_reader_is_woken_by_what_another_process_changes(store: Store) -> None:
    lease = store.begin(new_run())
    with open_store(store.address) as reader:
        reader.wait_for_change(0.0)
        while reader.wait_for_change(0.2):
            pass
        store.request_control("latest", "pause", None, "ann@one")
        assert reader.wait_for_change(30.0)
    store.finish(lease, "complete", None)


# -- types ---------------------------------------------------------------------------------------------------------

EXACT = {
    "nothing": None,
    "smallest": -(2**63),
    "largest": 2**63 - 1,
    "huge": 2**70,
    "third": 1 / 3,
    "tiny": 5e-324,
    "text": 'it\'s \u2028 "quoted" 🦊 ünïcode\nline',
    "empty": "",
    "true": True,
    "bytes": bytes(range(256)),
    "nested": {"a": [1, 2.5, None, "x"]},
}


def test_user_values_round_trip(store: Store) -> None:
    with store.change() as connection:
        tracked_rows.insert(connection, {}, "measured", [tracked_rows.cells_of({"row_id": "1", **EXACT})])
    (row,) = tables.read(store, "measured", keys=list(EXACT)).rows()
    assert row == EXACT
    assert [type(value) for value in row.values()] == [type(value) for value in EXACT.values()]


def test_trials_round_trip_and_appear_in_the_views(store: Store) -> None:
    writing = Writing(store, store.begin(new_run()))
    answer = Answer(
        "2", usage=Usage(input_tokens=2**40, output_tokens=None), cost_usd=1 / 3, data={"note": EXACT["text"]}
    )
    writing.writer.register("data", answer.data)
    writing.writer.put_together(trial_rows(writing.lease.run_id, answer), "token")
    writing.writer.close()
    store.finish(writing.lease, "complete", None)
    ((tokens, nothing, cost),) = store.rows("SELECT input_tokens, output_tokens, cost_usd FROM trials")
    assert (tokens, nothing, cost) == (2**40, None, 1 / 3)
    query = "select case_id, variant, score, answer, expected, cost_usd, note from predictions"
    assert store.sql(query)[1] == [("a", "one", 1.0, "2", "2", 1 / 3, EXACT["text"])]
    query = "select run, variant, n_predictions, accuracy from metrics where segment = 'all'"
    assert store.sql(query)[1] == [("calm-heron-1", "one", 1, 1.0)]


# -- rows of trackers ----------------------------------------------------------------------------------------------


def tracked_row(number: int) -> dict[str, Any]:
    return tracked_rows.cells_of({"row_id": str(number), "track_id": "calm-heron-1", "number": number})


def promise_tracked_rows(store: Store) -> None:
    """The operations that a tracker needs."""
    cache: dict[str, tracked_rows.TrackedTable] = {}
    writer = store.open_tracked_writer()
    assert writer.is_current()
    with writer.transaction() as connection:
        tracked_rows.insert(connection, cache, "measured", [tracked_row(1), tracked_row(2)])
    writer.committed()
    with writer.using() as connection:
        assert tracked_rows.insert_one(connection, cache, "measured", tracked_row(3))
    writer.committed()
    with open_store(store.address, store.engine) as reader:  # before it is closed
        assert tables.read(reader, "measured", keys=["number"]).columns["number"] == [1, 2, 3]
    broken = tracked_row(5) | {"number": TypedCell("integer", object())}
    with pytest.raises((StoreError, TypeError)), writer.transaction() as connection:
        tracked_rows.insert(connection, cache, "measured", [tracked_row(4), broken])
    writer.flush()
    writer.close()
    writer.close()
    assert not writer.is_current()
    with pytest.raises(Closed), writer.using():
        pass
    assert tables.count(store, "measured") == 3
    store.close()


def test_tracked_rows_are_stored_atomically_and_can_be_read_at_once(store: Store) -> None:
    promise_tracked_rows(store)


WRITE_TRACKED_AND_WAIT = """
import time
from test_store_conformance import tracked_row
from abreast.store import open_store
from abreast.store.user_tables import tracked_rows
writer = open_store(sys.argv[1]).open_tracked_writer()
with writer.transaction() as connection:
    tracked_rows.insert(connection, {}, "measured", [tracked_row(1)])
writer.committed()
print("safe", flush=True)
time.sleep(60)
"""


def test_a_tracked_row_survives_the_death_of_its_process(store: Store, address: str) -> None:
    assert killed_after_first_line(in_another_process(WRITE_TRACKED_AND_WAIT, address)) == "safe"
    assert tables.count(store, "measured") == 1
    assert store.sql("select number from measured")[1] == [(1,)]


def test_a_writer_of_tracked_rows_notices_that_its_store_was_removed(store: Store) -> None:
    writer = store.open_tracked_writer()
    with writer.transaction() as connection:
        tracked_rows.insert(connection, {}, "measured", [tracked_row(1)])
    remove(store)
    assert not writer.is_current()
    with pytest.raises(Closed), writer.transaction() as connection:
        tracked_rows.insert(connection, {}, "measured", [tracked_row(2)])
    writer.close()
    promise_tracked_rows(store)


# -- engines of others ---------------------------------------------------------------------------------------------

TOY = """
from abreast.store.sqlite.store import SQLiteStore

class ToyStore(SQLiteStore):
    engine = "toy"

    @classmethod
    def at(cls, address):
        return cls(address.removeprefix("toy://"))
"""


def test_a_package_can_add_an_engine(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, "toys", {"abreast.stores": {"toy": "toys:ToyStore"}})
    folder.write("site/toys.py", TOY)
    monkeypatch.syspath_prepend(str(folder.path / "site"))
    for address, engine in ((f"toy://{folder.path}/one.toy", None), (str(folder.path / "two.toy"), "toy")):
        with open_store(address, engine) as store:
            assert store.engine == "toy"
            writing = Writing(store, store.begin(new_run()))
            writing.writer.put_together(trial_rows(writing.lease.run_id, Answer("2")), "token")
            writing.writer.close()
            store.finish(writing.lease, "complete", None)
            assert writing.committed == ["token"]
            assert store.run("latest")["stored_trials"] == 1
            promise_tracked_rows(store)
        with Tracker(store.address, engine="toy") as tracker:
            tracker.log({"number": 4})
        assert Reader(store.address, engine="toy").count() == 2  # with the trial
    with pytest.raises(BadInput, match=r'unknown store engine "toi" \(did you mean "toy"\?\)'):
        open_store("x.db", "toi")


def test_an_entry_point_that_is_not_a_store_is_refused(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, "toys", {"abreast.stores": {"toy": "wrong_toys:ToyStore"}})
    folder.write("site/wrong_toys.py", "ToyStore = 3")
    monkeypatch.syspath_prepend(str(folder.path / "site"))
    with pytest.raises(BadInput, match=r"must be a subclass of abreast\.store\.Store") as refusal:
        open_store("x.toy", "toy")
    assert "toys 1.0" in str(refusal.value)


def test_everything_about_one_trial_is_read_and_its_texts_in_pieces(store: Store) -> None:
    writing = Writing(store, store.begin(new_run()))
    run_id = writing.lease.run_id
    answer = Answer("äöü" * 5, data={"turns": 3}, raw_response="raw", artifacts={"diff": "+ä\n"})
    attempt = ("attempts", (run_id, 0, 1, 0.5, 0.25, "network", "infrastructure", "no route", 0.125, 0.5))
    artifacts = [("artifacts", row) for row in rows.artifact_rows(run_id, 0, answer)]
    judgements = [
        ("judgements", (run_id, 0, "judge", "0", key, "ok", *(None,) * 2, "is it?", reply, "m", *(1,) * 6, None))
        for key, reply in (("k1", "first"), ("k2", "äsecond"))
    ]  # fmt: skip
    writing.writer.put_together([*trial_rows(run_id, answer), attempt, *artifacts, *judgements], "stored")
    wait_for(lambda: writing.committed)
    queries = store.queries

    trial = queries.trial(run_id, 0)
    assert trial is not None
    assert (trial["case_id"], trial["variant_name"], trial["tags"], trial["params"]) == (
        "a",
        "one",
        {"level": "easy"},
        {"lr": 1},
    )
    assert trial["sizes"] == {"prompt": 5, "answer": 30, "expected": 3, "data": 11, "raw_response": 3}
    assert queries.trial(run_id, 1) is None
    pieces = [queries.trial_text(run_id, 0, "answer", start, 16) for start in (0, 16, 32)]
    assert b"".join(piece.content for piece in pieces if piece).decode() == "äöü" * 5
    assert {piece.size for piece in pieces if piece} == {30}
    assert queries.trial_text(run_id, 1, "answer", 0, 16) is None
    assert queries.artifact_piece(run_id, 0, "diff", 1, 16) == ("ä\n".encode(), 4)
    assert queries.artifact_piece(run_id, 0, "none", 0, 16) is None
    assert queries.neighbours(run_id, 0) == (None, None)
    assert queries.neighbours(run_id, 5) == (0, None)
    (row,) = queries.trials_between(run_id, range(2), "exact")
    assert (row["position"], row["score"], row["status"]) == (0, 1.0, "ok")
    assert [row["waited_s"] for row in queries.attempts_of(run_id, 0)] == [0.125]
    assert [row["answer"] for row in queries.judgements_of(run_id, 0, 4)] == ["äse"]
    assert queries.answer_positions(run_id) == [0]

    for value, words in ((1.0, "right"), (1.0, "right"), (None, "unsure"), (None, "still unsure"), (0.0, "wrong")):
        store.add_labels(run_id, [(run_id, 0, "human", value, words, schema.LABEL_VERSION)], None)
    assert queries.labelled_names(run_id, 0) == {"human"}
    assert [label[:3] for label in queries.old_labels(run_id, 0)] == [
        ("human", None, "still unsure"), ("human", None, "unsure"), ("human", 1.0, "right"),
    ]  # fmt: skip
    store.finish(writing.lease, "complete", None)

"""`copy` and `merge`: no row or column is lost or duplicated, in any order and however often."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apsw
import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast import Reader, Tracker
from abreast.cli import main
from abreast.store import open_store
from abreast.store.user_tables import tracked_rows
from conftest import SIMULATED, WITHOUT_VERSION_5, Folder

PAIRS = [("a.db", "b.db"), ("a.db", "b.duckdb"), ("a.duckdb", "b.db"), ("a.duckdb", "b.duckdb")]

MODULE = """\
import os
from pathlib import Path
from abreast.errors import Transient

def answer(case, **params):
    if case.id != "c0" and not os.path.exists("fixed"):
        raise Transient("the line is down")
    return {"prediction": "yes", "where": Path("where").read_text()}
"""


def run(folder: Folder, store: str, *words: str) -> str:
    """A simulated run of six cases in a store."""
    folder.cases(6, tags={"kind": "easy"})
    folder.write("experiment.yaml", SIMULATED)
    done = folder.abreast("run", "experiment.yaml", "--store", store, "--quiet", *words)
    assert done.code == 0, done.err
    name: str = folder.abreast("runs", "--store", store, "--json").json[-1]["run"]
    return name


def track(folder: Folder, store: str, *rows: dict[str, Any], table: str = "predictions") -> str:
    with Tracker(folder.path / store, table=table) as tracker:
        tracker.log_batch(rows)
    return tracker.track_id


def journal(folder: Folder, store: str) -> Path:
    return open_store(folder.path / store).journal


def content(path: Path) -> dict[str, list[str]]:
    """All rows of a store by table, without the columns that say where and when they were written."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    runs: Any = connection.execute("SELECT run_id, run FROM runs").fetchall()
    names: dict[Any, str] = dict(runs)
    rows_by_table: dict[str, list[str]] = {}
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        if str(table).startswith("sqlite_") or table in ("deletions", "tracked_caches"):
            continue
        cursor = connection.execute(f'SELECT * FROM "{table}"')
        rows = []
        for row in cursor:
            columns = [column[0] for column in cursor.get_description()]
            values = dict(zip(columns, row, strict=True))
            values["run_id"] = names.get(values.get("run_id"))
            for own in ("seq", "owner", "heartbeat_at", "changes"):
                values.pop(own, None)
            rows.append(repr(sorted(values.items())))
        rows_by_table[str(table)] = sorted(rows)
    connection.close()
    return rows_by_table


def plain(row: dict[str, Any]) -> str:
    """Convert a row to a form that both engines share: SQLite has no booleans and keeps the type of each number."""
    return repr(sorted((key, float(value) if isinstance(value, int) else value) for key, value in row.items()))


# -- copies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.matrix(quick=2)
def test_a_copy_to_either_engine_and_back_has_all_rows(folder: Folder, source: str, target: str) -> None:
    run(folder, source)
    track(folder, source, {"model": "m", "x": 1, "deep": {"a": 1}}, {"model": "n", "order": 0.5})
    track(folder, source, {"accuracy": 0.5, "note": "fine"}, table="metrics")
    track(folder, source, {"any": True}, table="my notes")
    done = folder.abreast("copy", source, target)
    assert done.code == 0, done.err
    assert "1 run, 12 trials, 2 rows of predictions, 1 row of metrics, 1 row of my notes" in done.out
    assert content(journal(folder, target)) == content(journal(folder, source))
    for query in ("select * from predictions", 'select * from "my notes"'):
        source_rows, target_rows = ([plain(row) for row in folder.sql(query, name)] for name in (source, target))
        assert sorted(source_rows) == sorted(target_rows)
    for name in (source, target):
        assert len(folder.sql("select * from metrics", name)) == 5
    assert folder.abreast("copy", target, "back.db").code == 0
    assert content(journal(folder, "back.db")) == content(journal(folder, source))
    verdicts = [folder.abreast("report", "--store", name).out.splitlines()[2] for name in (source, target)]
    assert verdicts[0] == verdicts[1]


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.matrix(quick=2)
def test_merging_twice_and_back_adds_nothing(folder: Folder, source: str, target: str) -> None:
    run(folder, source)
    run(folder, target)
    track(folder, source, {"x": 1, "only here": 2})
    track(folder, target, {"x": "text", "only there": [1]}, {"x": 2.5})
    assert folder.abreast("merge", source, "--into", target).code == 0
    both = content(journal(folder, target))
    assert "nothing new" in folder.abreast("merge", source, target).out
    assert folder.abreast("merge", target, "--into", source, "--json").json[0]["rows"] == {"predictions": 2}
    assert "nothing new" in folder.abreast("merge", source, "--into", target).out
    assert content(journal(folder, target)) == both
    for name in (source, target):
        assert folder.sql("select count(*) as n from predictions", name) == [{"n": 27}]
        assert folder.sql("select count(*) as n from runs", name) == [{"n": 2}]


def test_several_stores_are_merged_and_not_changed(folder: Folder) -> None:
    names = ["a.db", "b.db", "c.db"]
    for name in names:
        track(folder, name, {"from": name})
    before = {name: content(folder.path / name) for name in names}
    done = folder.abreast("merge", *names, "--into", "week.duckdb", "--json")
    assert [merged["rows"] for merged in done.json] == [{"predictions": 1}] * 3
    assert folder.abreast("ls", "week.duckdb", "from").out.split() == names
    assert {name: content(folder.path / name) for name in names} == before


def test_only_the_named_tables_are_copied(folder: Folder) -> None:
    run(folder, "a.db")
    track(folder, "a.db", {"x": 1})
    track(folder, "a.db", {"y": 1}, table="notes")
    track(folder, "a.db", {"z": 1}, table="more")
    assert folder.abreast("copy", "a.db", "b.db", "--table", "notes", "--table", "db.predictions").code == 0
    tables = {row["table"]: row["rows"] for row in folder.abreast("ls", "b.db", "--json").json}
    assert tables == {"predictions": 1, "metrics": 0, "notes": 1}
    assert folder.abreast("runs", "--store", "b.db", "--json").json == []
    assert 'did you mean "notes"?' in folder.abreast("copy", "a.db", "c.db", "--table", "note").err
    assert "omit --table" in folder.abreast("copy", "a.db", "c.db", "--table", "metrics").err
    assert not (folder.path / "c.db").exists()


# -- rows of users -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_keys_are_matched_to_columns_and_types_widen(folder: Folder, source: str, target: str) -> None:
    track(folder, source, {"lr": 1, "Lr": "one", "n": 1, "flag": True})
    track(folder, target, {"Lr": "two", "lr": 2.5, "n": "many", "flag": None})  # SQL has the names the other way round
    assert folder.abreast("merge", source, "--into", target).code == 0
    rows = folder.abreast("head", target, "--json").json
    assert [(row["lr"], row["Lr"], row["n"], row["flag"]) for row in rows] == [
        (2.5, "two", "many", None),
        (1, "one", 1, True),
    ]
    types = {row["column"]: row["type"] for row in folder.abreast("columns", target, "--json").json}
    assert [types[key] for key in ("lr", "Lr", "n", "flag")] == ["real", "text", "text", "boolean"]
    assert len(folder.sql("select * from predictions", target)) == 2


def test_a_column_without_values_is_not_lost(folder: Folder) -> None:
    track(folder, "a.db", {"x": 1})
    deleted = track(folder, "a.db", {"rare": 1})
    assert folder.abreast("delete", "a.db", deleted, "--yes").code == 0
    track(folder, "b.db", {"x": 1})
    folder.abreast("merge", "a.db", "--into", "b.db")
    assert "rare" in [row["column"] for row in folder.abreast("columns", "b.db", "--json").json]


def test_rows_inserted_by_sql_without_a_row_id_are_not_duplicated(folder: Folder) -> None:
    track(folder, "a.db", {"x": 1})
    insert = "insert into tracked_predictions (track_id, x) values ('by-hand', 7), ('by-hand', 7)"
    assert folder.abreast("sql", "--write", "a.db", insert).code == 0
    for source, target in (("a.db", "b.db"), ("a.db", "b.db"), ("b.db", "a.db"), ("a.db", "b.db")):
        assert folder.abreast("merge", source, "--into", target).code == 0
    assert folder.abreast("sql", "--write", "b.db", insert).code == 0  # and once more
    for source, target in (("b.db", "a.db"), ("a.db", "b.db"), ("b.db", "a.db")):
        assert folder.abreast("merge", source, "--into", target).code == 0
    for name in ("a.db", "b.db"):
        assert sorted(folder.abreast("ls", name, "x").out.split()) == ["1", "7", "7", "7", "7"]


def test_keys_beyond_the_column_limit_are_kept_together(folder: Folder) -> None:
    track(folder, "a.db", {f"a{at}": at for at in range(1_000)})
    track(folder, "b.db", {f"b{at}": at for at in range(1_000)})
    assert folder.abreast("merge", "a.db", "--into", "b.db").code == 0
    assert "nothing new" in folder.abreast("merge", "a.db", "--into", "b.db").out
    row = folder.abreast("tail", "b.db", "-n", "1", "--json").json[0]
    values = {**row, **row[tracked_rows.MORE]}
    assert [values[f"a{at}"] for at in range(1_000)] == list(range(1_000))


# -- runs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def halves(folder: Folder) -> Folder:
    """A run that stopped half-way in a.db and its copy in b.db; both can be resumed."""
    folder.write("mine.py", MODULE)
    folder.write("where", "first")
    folder.cases(4)
    spec = {
        "target": "python:mine:answer",
        "cases": "cases.jsonl",
        "variants": {"one": {"n": 1}, "two": {"n": 2}},
        "scorers": ["exact"],
        "store": "a.db",
        "limits": {"retries": 0, "breaker": 100},
    }
    folder.write("spec.json", json.dumps(spec))
    folder.abreast("run", "spec.json", "--quiet")
    assert folder.abreast("copy", "a.db", "b.db").code == 0
    folder.write("fixed", "")
    return folder


def stand(folder: Folder, store: str) -> tuple[int, list[dict[str, Any]]]:
    return len(folder.abreast("runs", "--store", store, "--json").json), folder.sql(
        'select status, "where", count(*) as n from predictions group by 1, 2 order by 1, 2', store
    )


def test_a_copy_that_was_continued_is_the_same_run_with_the_union_of_its_trials(halves: Folder) -> None:
    assert stand(halves, "b.db")[1] == [
        {"status": "error", "where": None, "n": 6},
        {"status": "ok", "where": "first", "n": 2},
    ]
    halves.write("where", "later")
    assert halves.abreast("resume", "--store", "a.db", "--quiet").code == 0
    done = halves.abreast("merge", "a.db", "--into", "b.db")
    assert "more of" in done.out, done.err
    assert "6 trials" in done.out
    expected = [{"status": "ok", "where": "first", "n": 2}, {"status": "ok", "where": "later", "n": 6}]
    assert stand(halves, "b.db") == (1, expected)
    assert halves.abreast("runs", "--store", "b.db", "--json").json[0]["status"] == "complete"
    assert content(halves.path / "a.db") == content(halves.path / "b.db")
    assert "nothing new" in halves.abreast("merge", "b.db", "--into", "a.db").out
    assert halves.sql("select count(*) as n from attempts", "b.db") == halves.sql(
        "select count(*) as n from attempts", "a.db"
    )


def test_an_older_copy_does_not_change_a_run_that_was_continued(halves: Folder) -> None:
    assert halves.abreast("resume", "--store", "a.db", "--quiet").code == 0
    before = content(halves.path / "a.db")
    assert "nothing new" in halves.abreast("merge", "b.db", "--into", "a.db").out
    assert content(halves.path / "a.db") == before


@pytest.mark.parametrize("first", ["a.db", "b.db"])
def test_a_run_that_was_continued_in_both_stores_becomes_the_same_in_both(halves: Folder, first: str) -> None:
    second = {"a.db": "b.db", "b.db": "a.db"}[first]
    for store in ("a.db", "b.db"):
        halves.write("where", store)
        assert halves.abreast("resume", "--store", store, "--quiet").code == 0
    for _ in range(2):
        assert halves.abreast("merge", first, "--into", second).code == 0
        assert halves.abreast("merge", second, "--into", first).code == 0
    assert stand(halves, "a.db") == stand(halves, "b.db")
    for table in ("trials", "payloads", "scores", "attempts", "events"):
        assert content(halves.path / "a.db")[table] == content(halves.path / "b.db")[table], table
    assert stand(halves, "a.db")[1][0] == {"status": "ok", "where": "a.db", "n": 6}  # that one was first


def test_a_continued_run_reaches_a_duckdb_file_too(halves: Folder) -> None:
    assert halves.abreast("copy", "b.db", "b.duckdb").code == 0
    assert halves.abreast("resume", "--store", "a.db", "--quiet").code == 0
    assert halves.abreast("merge", "a.db", "--into", "b.duckdb").code == 0
    with duckdb.connect(str(halves.path / "b.duckdb"), read_only=True) as connection:
        rows = connection.execute("select status, count(*), count(score) from predictions group by 1").fetchall()
    assert rows == [("ok", 8, 8)]


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_different_run_with_the_same_name_gets_a_new_name(folder: Folder, source: str, target: str) -> None:
    name = run(folder, target)
    run(folder, source)
    folder.abreast("sql", "--write", source, f"update runs set run = '{name}'")
    reuses = run(folder, source)  # takes over answers of the one whose name is taken
    done = folder.abreast("merge", source, "--into", target)
    assert f"already has a run {name}; the copy is called {name}-2" in done.out
    runs = folder.abreast("runs", "--store", target, "--json").json
    assert [row["run"] for row in runs] == [name, f"{name}-2", reuses]
    origin = folder.sql(f"select distinct reused_from from predictions where run = '{reuses}'", target)
    assert origin == [{"reused_from": f"{name}-2"}]
    assert "nothing new" in folder.abreast("merge", source, "--into", target).out
    assert folder.abreast("merge", target, "--into", source).code == 0
    back = {row["run"] for row in folder.abreast("runs", "--store", source, "--json").json}
    assert back == {name, f"{name}-3", reuses}  # what is called -2 over there is another one
    assert "nothing new" in folder.abreast("merge", source, "--into", target).out


def test_rescored_values_are_copied_and_the_old_ones_are_kept(folder: Folder) -> None:
    folder.write("grade.py", "def grade(case, answer):\n    return 0.25\n")
    run(folder, "a.db")
    folder.abreast("copy", "a.db", "b.db")
    folder.write("experiment.yaml", SIMULATED.replace("[exact]", '[exact, "python:grade:grade"]'))
    assert folder.rerun("rescore", "--spec", "experiment.yaml", "--store", "a.db").code == 0
    folder.write("grade.py", "def grade(case, answer):\n    return 0.75\n")
    assert folder.rerun("rescore", "--spec", "experiment.yaml", "--store", "a.db").code == 0
    for _ in range(2):
        assert folder.abreast("merge", "a.db", "--into", "b.db").code == 0
        assert content(folder.path / "a.db") == content(folder.path / "b.db")
    assert folder.sql("select distinct score_grade from predictions", "b.db") == [{"score_grade": 0.75}]
    assert folder.sql("select count(*) as n from old_scores", "b.db") == [{"n": 12}]
    assert "nothing new" in folder.abreast("merge", "b.db", "--into", "a.db").out


def test_a_score_that_a_later_scoring_lacks_is_deleted_from_a_duckdb_file_too(folder: Folder) -> None:
    folder.write("grade.py", "def grade(case, answer):\n    return 0.25\n")
    run(folder, "a.db")
    folder.write("experiment.yaml", SIMULATED.replace("[exact]", '[exact, "python:grade:grade"]'))
    assert folder.rerun("rescore", "--spec", "experiment.yaml", "--store", "a.db").code == 0
    assert folder.abreast("copy", "a.db", "b.duckdb").code == 0
    folder.write(
        "grade.py", "def grade(case, answer):\n    return {'c0': 1 / 0}[case.id] if case.id == 'c0' else 0.5\n"
    )
    folder.rerun("rescore", "--spec", "experiment.yaml", "--store", "a.db")
    assert folder.sql("select count(score_grade) as n from predictions", "a.db") == [{"n": 10}]
    for _ in range(2):
        assert folder.abreast("merge", "a.db", "--into", "b.duckdb").code == 0
        with duckdb.connect(str(folder.path / "b.duckdb"), read_only=True) as connection:
            rows = connection.execute(
                "select count(*), count(score_grade), min(score_grade) from predictions"
            ).fetchall()
        assert rows == [(12, 10, 0.5)]
    assert content(folder.path / "a.db") == content(folder.path / "b.duckdb.journal")
    assert "nothing new" in folder.abreast("merge", "b.duckdb", "--into", "a.db").out


def test_rows_written_during_a_merge_are_kept(folder: Folder) -> None:
    with Tracker(folder.path / "a.db") as tracker:
        tracker.log_batch([{"from": "a", f"c{at % 40}": at} for at in range(20_000)])
    track(folder, "b.db", {"from": "b"})
    script = (
        "from abreast import Tracker\n"
        "for at in range(300):\n"
        "    Tracker('b.db').log({'from': 'meanwhile', f'new{at}': at})\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=folder.path) as writer:
        for _ in range(3):
            assert folder.abreast("merge", "a.db", "--into", "b.db").code == 0
    assert writer.returncode == 0
    counts = folder.abreast("ls", "b.db", "from", "--unique", "--json").json
    assert {row["value"]: row["rows"] for row in counts} == {"b": 1, "a": 20_000, "meanwhile": 300}


def test_logged_metrics_and_labels_are_copied_once(folder: Folder) -> None:
    name = run(folder, "a.db")
    folder.abreast("copy", "a.db", "b.db")
    folder.abreast("tag", name, "v1", "--store", "a.db")
    with open_store(folder.path / "a.db") as store:
        for _ in range(2):
            store.log_metrics(name, "plain", "all", {"agreement": 0.5})
    for _ in range(2):
        assert folder.abreast("merge", "a.db", "--into", "b.db").code == 0
    assert (
        folder.sql("select agreement, experiment_version as v from metrics where source = 'logged'", "b.db")
        == [{"agreement": 0.5, "v": "v1"}] * 2
    )


def test_an_active_run_is_copied_and_completed_by_a_later_merge(folder: Folder) -> None:
    folder.cases(30)
    folder.write("slow.yaml", SIMULATED.replace("{target: simulated,", "{target: simulated, latency: 0.05,"))
    with folder.start("run", "slow.yaml", "--store", "a.db", "--quiet", "--yes") as working:
        until(lambda: (folder.path / "a.db").exists() and rows_in(folder.path / "a.db", "trials") > 3, working)
        done = folder.abreast("copy", "a.db", "b.db")
        refused = folder.abreast("merge", "b.db", "--into", "a.db")
        assert working.poll() is None, "it was done too early to be seen at work"
    assert done.code == 0, done.err
    assert refused.code == 2
    assert "is being executed" in refused.err
    (copied,) = folder.abreast("runs", "--store", "b.db", "--json").json
    assert (copied["status"], copied["reason"]) == ("incomplete", "copied while it was being executed")
    assert 0 < copied["trials"] < 60
    assert folder.abreast("merge", "a.db", "--into", "b.db").code == 0
    (merged,) = folder.abreast("runs", "--store", "b.db", "--json").json
    assert (merged["status"], merged["trials"]) == ("complete", 60)


def rows_in(path: Path, table: str) -> int:
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        ((count,),) = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
    except apsw.Error:
        return 0
    return int(str(count))


def until(condition: Any, process: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        os.sched_yield()


# -- what can go wrong ---------------------------------------------------------------------------------------------


def test_a_merge_that_is_killed_leaves_the_target_as_it_was(folder: Folder) -> None:
    with Tracker(folder.path / "a.db") as tracker:
        for _ in range(10):
            tracker.log_batch([{"text": os.urandom(600).hex()} for _ in range(6_000)])
    track(folder, "b.db", {"text": "mine"})
    before = content(folder.path / "b.db")
    log = folder.path / "b.db-wal"
    with folder.start("merge", "a.db", "--into", "b.db") as merging:
        until(lambda: log.exists() and log.stat().st_size > 1_000_000, merging)
        merging.send_signal(signal.SIGKILL)
    assert merging.returncode == -signal.SIGKILL
    assert content(folder.path / "b.db") == before
    assert folder.abreast("merge", "a.db", "--into", "b.db", "--json").json[0]["rows"] == {"predictions": 60_000}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_source_of_an_older_abreast_is_read_but_not_changed(folder: Folder, source: str, target: str) -> None:
    run(folder, source)
    path = journal(folder, source)
    connection = apsw.Connection(str(path))
    connection.execute("DROP VIEW metrics; DROP VIEW predictions; ALTER TABLE trials DROP COLUMN block")
    connection.execute(WITHOUT_VERSION_5)
    connection.execute("DROP TABLE tracked_tables; DROP TABLE tracked_columns; DROP TABLE tracked_caches")
    connection.execute("DROP TABLE logged_metrics; PRAGMA user_version=2; PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    done = folder.abreast("copy", source, target)
    assert done.code == 0, done.err
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert folder.sql("select count(*) as n from predictions", target) == [{"n": 12}]


def test_a_file_that_is_not_a_store_or_is_the_target_is_refused(folder: Folder) -> None:
    track(folder, "a.db", {"x": 1})
    foreign = apsw.Connection(str(folder.path / "foreign.db"))
    foreign.execute("create table mine (x)")
    foreign.close()
    folder.write("text.db", "not a database at all, but a text of some length " * 3)
    folder.write("empty.db", "")
    for words, message in (
        (["copy", "a.db", "a.db"], "into itself"),
        (["copy", "a.db", "./a.db"], "into itself"),
        (["merge", "a.db", "--into", "a.db"], "into itself"),
        (["copy", "nothing.db", "b.db"], "no such store"),
        (["copy", "foreign.db", "b.db"], "not an abreast store"),
        (["copy", "a.db", "foreign.db"], "not an abreast store"),
        (["copy", "text.db", "b.db"], "not a SQLite file"),
        (["copy", "empty.db", "b.db"], "empty"),
        (["copy", "a.db", "no/such/folder/b.db"], "does not exist"),
        (["merge", "a.db"], "merge: no target store"),
    ):
        done = folder.abreast(*words)
        assert done.code == 2, words
        assert message in done.err, done.err
    assert not (folder.path / "b.db").exists()


def test_the_target_may_be_named_among_the_sources(folder: Folder) -> None:
    track(folder, "a.db", {"x": 1})
    track(folder, "b.db", {"x": 2})
    assert folder.abreast("merge", "a.db", "b.db", "--into", "a.db").code == 0
    assert folder.abreast("ls", "a.db", "x").out.split() == ["1", "2"]


def test_a_merge_with_one_bad_source_changes_nothing(folder: Folder) -> None:
    track(folder, "a.db", {"x": 1})
    track(folder, "c.db", {"x": 2})
    folder.write("text.db", "not a database at all, but a text of some length " * 3)
    before = content(folder.path / "c.db")
    assert folder.abreast("merge", "a.db", "text.db", "--into", "c.db").code == 2
    assert content(folder.path / "c.db") == before


# -- any stores, in any order --------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "A", "order", "größe", "b c", "timestamp", "seq"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.booleans(), max_size=2),
    st.dates(datetime.date(2000, 1, 1)),
)
WRITES = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["predictions", "metrics", "notes"]), st.dictionaries(KEYS, VALUES)),
    max_size=8,
)
MERGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=5)
STORES = ["a.db", "b.duckdb", "c.db"]


@pytest.fixture(scope="module")
def with_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a simulated run."""
    folder = tmp_path_factory.mktemp("run")
    cases = [{"id": f"c{at}", "input": "?", "expected": "yes"} for at in range(3)]
    (folder / "spec.json").write_text(
        json.dumps({"cases": cases, "variants": {"one": {"target": "simulated"}}, "scorers": ["exact"]})
    )
    assert main(["run", str(folder / "spec.json"), "--store", str(folder / "run.db"), "--quiet"]) == 0
    return folder / "run.db"


def stored(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Tracked rows by table and row_id: stored values by key."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    with open_store(path) as store:
        if not store.journal.exists():
            return rows
        connection = store.reading()
        for table in tracked_rows.tables(connection):
            columns = ", ".join('"' + name.replace('"', '""') + '"' for name, _ in table.columns.values())
            for row in connection.execute(f'SELECT {columns} FROM "{table.relation}"'):
                values = {key: value for key, value in zip(table.columns, row, strict=True) if value is not None}
                rows[table.name, str(values["row_id"])] = values
    return rows


def columns(path: Path) -> set[tuple[str, str]]:
    with open_store(path) as store:
        if not store.journal.exists():
            return set()
        return {(table.name, key) for table in tracked_rows.tables(store.reading()) for key in table.columns}


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(writes=WRITES, later=WRITES, merges=MERGES, has_run=st.integers(0, 2))
def test_stores_merged_in_any_order_have_the_union_of_their_rows(
    with_run: Path,
    tmp_path_factory: pytest.TempPathFactory,
    writes: list[tuple[int, str, dict[str, Any]]],
    later: list[tuple[int, str, dict[str, Any]]],
    merges: list[tuple[int, int]],
    has_run: int,
) -> None:
    paths = [tmp_path_factory.mktemp("merge") / name for name in STORES]
    shutil.copyfile(with_run, open_store(paths[has_run]).journal)
    runs = [int(at == has_run) for at in range(3)]
    for path in paths:
        Tracker(path).log({"first": 1})
    for step, rows in ((merges, writes), (list(reversed(merges)), later)):
        for at, table, row in rows:
            Tracker(paths[at]).log(row, table=table)
        for source, target in step:
            if source == target:
                continue
            union, wide = stored(paths[source]) | stored(paths[target]), columns(paths[source]) | columns(paths[target])
            for _ in range(2):
                assert main(["merge", str(paths[source]), "--into", str(paths[target])]) == 0
                assert stored(paths[target]) == union
                assert columns(paths[target]) == wide
            runs[target] |= runs[source]
            assert rows_in(open_store(paths[target]).journal, "trials") == 3 * runs[target]
            counts = {table: len(Reader(paths[target], table=table)) for table in ("predictions", "metrics")}
            assert counts["predictions"] == sum(table == "predictions" for table, _ in union) + 3 * runs[target]

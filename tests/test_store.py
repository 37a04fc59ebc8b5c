"""The store on both engines: plain columns, readable by any client, changed only with `--write`."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import duckdb
import pytest

from abreast.store import open_store, schema, views
from abreast.store.rows import to_json
from abreast.store.schema import Column
from abreast.store.sqlite.dialect import SQLITE
from abreast.store.views import prediction_columns
from conftest import WITHOUT_VERSION_5, Folder

ENGINES = ["results.db", "results.duckdb"]

MODULE = """\
import json
from pathlib import Path
from abreast.errors import Refused

def answer(case, **params):
    if case.id == "refused":
        raise Refused("no")
    return json.loads(Path("returned.json").read_text())

def scorer(case, answer):
    return {f"n{number}": number / 200 for number in range(200)}
"""


def run(folder: Folder, store: str, returned: Any, params: dict[str, Any] | None = None, **more: Any) -> None:
    """Run one variant that returns these values."""
    folder.write("mine.py", MODULE)
    folder.write("returned.json", json.dumps(returned))
    spec = {
        "cases": [{"id": "c0", "input": "?", "expected": "yes"}],
        "target": "python:mine:answer",
        "variants": {"one": params or {}},
        "scorers": ["exact"],
        "store": store,
        **more,
    }
    folder.write("spec.json", json.dumps(spec))
    done = folder.abreast("run", "spec.json", "--quiet")
    assert done.code == 0, done.err


@pytest.mark.parametrize("store", ENGINES)
def test_parameters_tags_scores_and_returned_values_are_typed_columns(folder: Folder, store: str) -> None:
    returned = {
        "prediction": "yes",
        "confidence": 0.25,
        "tokens": 7,
        "sure": True,
        "note": "fine",
        "pages": [1, 2],
        "nothing": None,
        "large": 2**62,
    }
    params = {"model": "m-1", "temperature": 0.5, "top": 3, "flag": False, "stop": ["a", "b"]}
    cases = [{"id": "c0", "input": "?", "expected": "yes", "tags": {"level": "hard", "language": "de"}}]
    run(folder, store, returned, params, cases=cases)
    (row,) = folder.sql("select * from predictions", store)
    expected = {
        "params_model": "m-1",
        "params_temperature": 0.5,
        "params_top": 3,
        "params_stop": '["a","b"]',
        "tag_level": "hard",
        "tag_language": "de",
        "score_exact": 1.0,
        "score": 1.0,
        "confidence": 0.25,
        "tokens": 7,
        "note": "fine",
        "pages": "[1,2]",
        "nothing": None,
        "large": 2**62,
        "answer": "yes",
    }
    assert {key: row[key] for key in expected} == expected
    assert {key: type(row[key]) for key in expected} == {key: type(value) for key, value in expected.items()}
    assert bool(row["sure"]) is True
    assert bool(row["params_flag"]) is False
    assert folder.sql("select avg(confidence) + avg(tokens) + avg(params_top) as x from predictions", store) == [
        {"x": 10.25}
    ]


ODD_NAMES = [
    "order",
    "group",
    "select",
    "größe",
    "名前",
    "two words",
    "it's",
    'a "quoted" one',
    "back\\slash",
    "a.b",
    "a/b",
    "~tilde",
    "*",
    "$",
    "[0]",
    "0",
    "%s",
    "?",
    "semi;colon",
    "-- comment",
]


@pytest.mark.parametrize("store", ENGINES)
def test_any_name_makes_a_column(folder: Folder, store: str) -> None:
    returned = {"prediction": "yes", **{name: f"value of {name}" for name in ODD_NAMES}}
    tags = {name: f"tag {name}" for name in ODD_NAMES}
    run(
        folder,
        store,
        returned,
        {name: f"parameter {name}" for name in ODD_NAMES},
        cases=[{"id": "c0", "input": "?", "expected": "yes", "tags": tags}],
    )
    (row,) = folder.sql("select * from predictions", store)
    for name in ODD_NAMES:
        assert row[name] == f"value of {name}"
        assert row[f"params_{name}"] == f"parameter {name}"
        assert row[f"tag_{name}"] == f"tag {name}"
    assert folder.sql('select "order", "two words", "a ""quoted"" one" as q from predictions', store) == [
        {"order": "value of order", "two words": "value of two words", "q": 'value of a "quoted" one'}
    ]


@pytest.mark.parametrize("store", ENGINES)
def test_a_returned_key_never_replaces_a_standard_column(folder: Folder, store: str) -> None:
    returned = {
        "prediction": "no",
        "score": 0.9,
        "Score": 0.8,
        "score_exact": 1.0,
        "params_model": "forged",
        "status": "great",
        "run": 5,
        "": "nameless",
        "Note": "upper",
        "note": "lower",
    }
    run(folder, store, returned, {"model": "real"})
    (row,) = folder.sql("select * from predictions", store)
    assert (row["score"], row["score_exact"], row["params_model"], row["status"]) == (0.0, 0.0, "real", "ok")
    forged = {"result_score_exact": 1.0, "result_params_model": "forged", "result_status": "great", "result_run": 5}
    assert {key: row[key] for key in forged} == forged
    assert (row["result_score"], row["result_Score_2"]) == (0.9, 0.8)
    assert (row["result_"], row["note"], row["result_Note"]) == ("nameless", "lower", "upper")


def test_column_names_that_differ_only_in_case_are_made_distinct() -> None:
    columns = [
        Column(kind, name, "text") for kind in ("data", "params") for name in ("a", "A", "params_a", "run", "RUN")
    ]
    names = [name.lower() for name, _ in prediction_columns(SQLITE, columns)]
    assert len(set(names)) == len(columns)
    assert not {"run", "answer"} & set(names)


@pytest.mark.parametrize("store", ENGINES)
def test_a_column_holds_values_of_several_types(folder: Folder, store: str) -> None:
    for number, value in enumerate([1, 2.5, True, "text", None, 2**70]):
        run(
            folder,
            store,
            {"prediction": "yes", "mixed": value},
            name=f"e{number}",
            variants={"one": {"number": number}},
        )
    values = [row["mixed"] for row in folder.sql("select mixed from predictions order by params_number", store)]
    assert [str(value).lower().removesuffix(".0") for value in values[:4]] in (
        ["1", "2.5", "true", "text"],
        ["1", "2.5", "1", "text"],
    )
    assert values[4] is None
    assert float(values[5]) == 2**70


@pytest.mark.parametrize("store", ENGINES)
def test_error_is_null_for_successful_trials_and_the_raw_response_is_kept(folder: Folder, store: str) -> None:
    returned = {"prediction": "yes", "raw_response": {"id": "msg_1", "text": "yes"}, "model": "m-7"}
    cases = [{"id": "c0", "input": "?", "expected": "yes"}, {"id": "refused", "input": "!", "expected": "yes"}]
    run(folder, store, returned, cases=cases)
    good, bad = folder.sql(
        "select status, error, error_kind, error_blame, raw_response, model, answer, score from predictions "
        "order by case_id",
        store,
    )
    assert (good["status"], good["error"], good["error_kind"], good["error_blame"]) == ("ok", None, None, None)
    assert json.loads(good["raw_response"]) == {"id": "msg_1", "text": "yes"}
    assert good["model"] == "m-7"
    assert (bad["status"], bad["error_kind"], bad["error_blame"], bad["error"]) == ("error", "refused", "variant", "no")
    assert (bad["answer"], bad["raw_response"], bad["score"]) == (None, None, 0.0)


@pytest.mark.parametrize("store", ENGINES)
def test_two_hundred_scores_and_parameters_are_columns_that_are_fast_to_read(folder: Folder, store: str) -> None:
    params = {f"p{number}": number for number in range(200)}
    names = [f"n{number}" for number in range(200)]
    run(folder, store, "yes", params, scorers=[{"python:mine:scorer": {"columns": names}}])
    start = time.perf_counter()
    (row,) = folder.sql("select * from predictions", store)
    assert time.perf_counter() - start < 5
    scores = [row[key] for key in row if key.startswith("score_")]
    assert len(scores) == 200
    assert sorted(scores) == [number / 200 for number in range(200)]
    assert [row[f"params_p{number}"] for number in range(200)] == list(range(200))


@pytest.mark.parametrize("store", ENGINES)
def test_a_query_changes_nothing_without_write(folder: Folder, store: str) -> None:
    run(folder, store, "yes")
    for query in (
        "delete from trials",
        "update trials set status = 'great'",
        "drop table trials",
        "create table mine (x integer)",
        "insert into events values (1)" if store.endswith("duckdb") else "insert into events (kind) values ('x')",
        "vacuum into 'copy.db'",
        "attach 'copy.db' as other",
        "copy trials to 'copy.db'",
    ):
        done = folder.abreast("sql", store, query)
        assert done.code == 2, query
        assert "error:" in done.err
    assert not (folder.path / "copy.db").exists()
    assert len(folder.sql("select * from predictions", store)) == 1
    assert "--write" in folder.abreast("sql", store, "delete from trials").err
    assert folder.abreast("sql", "--write", store, "create table mine (x integer)").code == 0
    assert folder.abreast("sql", "--write", store, "insert into mine values (7) returning x").code == 0
    assert folder.sql("select x from mine", store) == [{"x": 7}]


@pytest.mark.parametrize("store", ENGINES)
def test_a_bad_query_gives_one_line_and_several_statements_give_the_last_result(folder: Folder, store: str) -> None:
    run(folder, store, "yes")
    for query in ("selec 1", "select nothing from predictions", "select * from nowhere", "", "--", "select 1; selec"):
        done = folder.abreast("sql", store, query)
        assert done.code in (0, 2), query
    assert folder.sql("select 1 as a; select 2 as b, 3 as c", store) == [{"b": 2, "c": 3}]
    assert folder.sql("select case_id from predictions where false", store) == []


def test_a_finished_run_is_complete_in_one_file(folder: Folder) -> None:
    """Because users copy `results.db` without its `-wal`."""
    run(folder, "results.db", "yes")
    (folder.path / "elsewhere").mkdir()
    copy = folder.path / "elsewhere" / "results.db"
    copy.write_bytes((folder.path / "results.db").read_bytes())
    assert folder.sql("select status, score from predictions", str(copy)) == [{"status": "ok", "score": 1.0}]
    assert folder.abreast("runs", "--json", "--store", str(copy)).json[0]["status"] == "complete"


# -- DuckDB ------------------------------------------------------------------------------------------------------------


def test_a_missing_journal_is_reported_and_the_rows_can_still_be_read(folder: Folder) -> None:
    run(folder, "results.duckdb", "yes")
    for path in folder.path.glob("results.duckdb.journal*"):
        path.unlink()
    for words in (["run", "spec.json"], ["runs"], ["resume"], ["report"]):
        done = folder.abreast(*words)
        assert done.code == 2
        assert "results.duckdb.journal is missing" in done.err
    assert folder.sql("select status from predictions", "results.duckdb") == [{"status": "ok"}]


HOLDER = """\
import duckdb, sys
connection = duckdb.connect("results.duckdb", read_only=sys.argv[1] == "reading")
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def holder(folder: Folder, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Another process that opens the DuckDB file and keeps it."""
    processes: list[subprocess.Popen[str]] = []

    def hold(how: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, how],
            cwd=folder.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", ["reading", "writing"])
def test_a_duckdb_file_open_in_another_process_delays_nothing_and_gets_the_rows_later(
    folder: Folder, holder: Any, how: str
) -> None:
    run(folder, "results.duckdb", "yes")
    process = holder(how)
    start = time.monotonic()
    done = folder.abreast("run", "spec.json", "--fresh")
    assert done.code == 0, done.err
    assert "open in another process" in done.err
    assert time.monotonic() - start < 10
    assert folder.sql("select count(*) as n from predictions", "results.duckdb") == [{"n": 2}]  # by way of the journal
    process.kill()
    process.wait()
    assert folder.abreast("sql", "results.duckdb", "select 1").code == 0
    with duckdb.connect(str(folder.path / "results.duckdb"), read_only=True) as client:
        assert client.execute("select count(*) from predictions").fetchall() == [(2,)]


def test_a_lost_duckdb_file_is_recreated(folder: Folder) -> None:
    run(folder, "results.duckdb", "yes")
    (folder.path / "results.duckdb").unlink()
    assert folder.sql("select status, score from predictions", "results.duckdb") == [{"status": "ok", "score": 1.0}]


def test_a_duckdb_file_gets_every_row_however_many_come_at_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abreast.store.duckdb.materialisation.CHUNK", 7)
    cases = [{"id": f"c{n}", "input": "?", "expected": "yes"} for n in range(30)]
    run(folder, "results.duckdb", "yes", cases=cases)
    for table in ("cases", "trials", "payloads", "scores"):
        assert folder.sql(f"select count(*) as n from {table}", "results.duckdb") == [{"n": 30}], table


def test_both_engines_give_the_same_rows(folder: Folder) -> None:
    """The same simulated run, every column of both views."""
    folder.cases(30, tags={"level": "easy"})
    folder.write(
        "both.yaml",
        """\
        cases: cases.jsonl
        repeats: 2
        variants:
          plain: {target: simulated, accuracy: 0.6, cost_usd: 0.01, errors: {refused: 0.1, crash: 0.1}}
          better: {target: simulated, accuracy: 0.9, errors: {skipped: 0.2}}
        scorers: [exact, text]
        """,
    )
    results = []
    for store in ENGINES:
        assert folder.abreast("run", "both.yaml", "--store", store).code == 0
        rows = folder.sql("select * from predictions order by case_id, variant, repeat", store)
        numbers = folder.sql("select * from metrics order by variant, segment", store)
        results.append((_steady(rows), _steady(numbers)))
    assert results[0] == results[1]


def _steady(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop the columns that differ from run to run."""
    moving = ("run", "latency", "queue_s", "backoff_s", "service_s", "in_flight", "started_at", "finished_at")
    return [
        {
            key: round(value, 9) if isinstance(value, float) else value
            for key, value in row.items()
            if not any(word in key for word in moving)
        }
        for row in rows
    ]


# -- pieces ------------------------------------------------------------------------------------------------------------


def test_every_value_can_be_stored_as_json() -> None:
    class Silent:
        def __str__(self) -> str:
            raise RuntimeError("no")

    circle: dict[str, Any] = {}
    circle["me"] = circle
    for value in ({(1, 2): 3}, circle, Silent(), {"x": Silent()}, "\ud800", 10**5000, {1, 2}, b"bytes", float("nan")):
        text = to_json(value)
        text.encode()
        json.loads(text)
    assert json.loads(to_json({(1, 2): "kept"})) == {"(1, 2)": "kept"}


def test_columns_beyond_the_limit_of_the_engine_stay_readable_in_their_row(tmp_path: Path) -> None:
    columns = [Column("data", f"k{number}", "integer") for number in range(3000)]
    assert len(prediction_columns(SQLITE, columns)) == SQLITE.most_columns
    connection = apsw.Connection(":memory:")
    for statement in [*schema.create_tables(SQLITE), *views.create_views(SQLITE, columns, {})]:
        connection.execute(statement)
    assert connection.execute("SELECT * FROM predictions").fetchall() == []
    connection.close()


def test_any_name_is_a_sqlite_store_but_an_address_or_memory_is_refused(folder: Folder) -> None:
    folder.cases(1)
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {one: {target: simulated}}\nscorers: [exact]\n")
    for address in ("mysql://host/db", ":memory:"):
        done = folder.abreast("run", "spec.yaml", "--store", address)
        assert done.code == 2
        assert address in done.err
    for address in ("results.v2", "results"):
        assert folder.abreast("run", "spec.yaml", "--store", address).code == 0
        assert (folder.path / address).read_bytes().startswith(b"SQLite format 3")


def test_a_store_is_recognised_by_its_header_not_its_name(folder: Folder) -> None:
    run(folder, "results.duckdb", "yes")
    (folder.path / "results.duckdb").rename(folder.path / "renamed.db")
    for path in folder.path.glob("results.duckdb.journal*"):
        path.rename(folder.path / path.name.replace("results.duckdb", "renamed.db"))
    store = open_store(folder.path / "renamed.db")
    assert store.engine == "duckdb"
    assert folder.sql("select status from predictions", "renamed.db") == [{"status": "ok"}]


def made_older(path: Path) -> None:
    """Downgrade a file to the first format."""
    connection = apsw.Connection(str(path))
    connection.execute("DROP VIEW metrics; DROP VIEW predictions")
    connection.execute("ALTER TABLE trials DROP COLUMN error_detail; ALTER TABLE trials DROP COLUMN block")
    connection.execute(WITHOUT_VERSION_5)
    connection.execute("CREATE VIEW predictions AS SELECT 1 AS one; CREATE VIEW metrics AS SELECT 1 AS one")
    connection.execute("PRAGMA user_version=1")
    connection.close()


@pytest.mark.parametrize("store", ENGINES)
def test_a_store_of_an_older_abreast_is_migrated_with_all_its_rows(folder: Folder, store: str) -> None:
    run(folder, store, "yes")
    before = folder.sql("select run, case_id, answer, score from predictions", store)
    made_older(folder.path / (store + ".journal" if store.endswith("duckdb") else store))
    if store.endswith("duckdb"):
        with duckdb.connect(str(folder.path / store)) as connection:
            connection.execute("ALTER TABLE trials DROP COLUMN error_detail")
    assert folder.sql("select run, case_id, answer, score from predictions", store) == before
    assert folder.sql("select score_low from metrics", store)
    run(folder, store, {"prediction": "no"}, {"another": 1})
    assert folder.sql("select count(*) n, count(error_detail) d from trials", store) == [{"n": 2, "d": 0}]


def test_a_read_only_store_of_an_older_abreast_is_refused_with_a_fix(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(folder, "results.db", "yes")
    made_older(folder.path / "results.db")
    connection = apsw.Connection(str(folder.path / "results.db"))
    monkeypatch.setattr("abreast.store.sqlite.driver.BUSY_MS", 1)
    connection.execute("BEGIN IMMEDIATE")  # another process holds the lock
    done = folder.abreast("runs")
    assert done.code == 2
    assert "made by an older abreast (format 1) and cannot be migrated here" in done.err
    assert "copy it to a writable folder" in done.err
    connection.execute("ROLLBACK")
    connection.close()
    assert folder.abreast("runs").code == 0


GRADED = """\
def answer(case, level, odd):
    number = int(case.id[1:])
    if odd == "fails" and number % 5 == 0:
        raise ValueError("no")
    return str((number * 7 % 11) / 11 < level if odd != "graded" else (number * 7 % 11) / 11 * level)

def grade(case, answer):
    return {"True": 1.0, "False": 0.0}.get(answer.text) if answer.text in ("True", "False") else float(answer.text)
"""


@pytest.mark.parametrize("store", ENGINES)
@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("cases", [1, 2, 4, 30])
def test_the_interval_in_metrics_equals_that_of_the_report(
    folder: Folder, store: str, repeats: int, grouped: bool, cases: int
) -> None:
    folder.write("graded.py", GRADED)
    spec = {
        "cases": [
            {"id": f"c{n}", "input": n, **({"group": f"g{n % 7}"} if grouped and n > 2 else {})} for n in range(cases)
        ],
        "target": "python:graded:answer",
        "variants": {
            "plain": {"level": 0.6, "odd": ""},
            "all": {"level": 2.0, "odd": ""},
            "none": {"level": -1.0, "odd": ""},
            "graded": {"level": 0.9, "odd": "graded"},
            "fails": {"level": 0.7, "odd": "fails"},
        },
        "scorers": ["python:graded:grade"],
        "repeats": repeats,
        "store": store,
    }
    folder.write("spec.json", json.dumps(spec))
    (report,) = folder.abreast("run", "spec.json", "--quiet", "--json").json
    rows = {row["variant"]: row for row in folder.sql("select * from metrics", store)}
    for name, variant in report["variants"].items():
        row, score = rows[name], variant["scores"]["grade"]
        assert row["score_mean"] == pytest.approx(score["mean"], abs=1e-9), name
        assert row["accuracy"] == pytest.approx(variant["accuracy"], abs=1e-9), name
        assert [row["score_low"], row["score_high"]] == pytest.approx(score["interval"], abs=2e-5), name


@pytest.mark.parametrize("store", ENGINES)
def test_metrics_include_the_commit_the_data_and_the_version_of_a_run(folder: Folder, store: str) -> None:
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *author, *words], cwd=folder.path, check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder.path, check=True, capture_output=True, text=True
    ).stdout.strip()
    run(folder, store, {"prediction": "yes", "label": "a key of the user", "rank": 3, "known": 1})
    (row,) = folder.sql("select code_commit, data_commit, experiment_version from metrics", store)
    provenance = folder.abreast("show", "--store", store, "--json").json[0]["provenance"]
    assert row == {"code_commit": commit, "data_commit": provenance["data_hash"], "experiment_version": None}
    folder.abreast("run", "spec.json", "--fresh", "--label", "e1.2.0", "--quiet")
    assert {row["experiment_version"] for row in folder.sql("select * from metrics", store)} == {None, "e1.2.0"}


def test_any_sqlite_client_reads_the_views(folder: Folder) -> None:
    run(folder, "results.db", "yes")
    with contextlib.closing(sqlite3.connect(folder.path / "results.db")) as connection:
        assert connection.execute("select count(*), max(score_high) from metrics").fetchall() == [
            (1, pytest.approx(1.0))
        ]

"""Commands on tables: reading, statistics, plots and deleting, on both engines."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from abreast import Reader, Tracker
from conftest import Folder

ENGINES = ["results.db", "results.duckdb"]


def predict(item: str, model: str) -> dict[str, Any]:
    return {"prediction": item.upper(), "confidence": len(item) / 10, "tokens": {"out": len(item)}}


def tracked(folder: Folder, store: str = "results.db", **more: Any) -> Tracker:
    """A store with four tracked calls and two rows of metrics."""
    tracker = Tracker(folder.path / store, **more)
    for model in ("small", "large"):
        for item in ("cat", "horse"):
            tracker.track(predict, args=[item, model])
        tracker.log({"model": model, "accuracy": 0.5 if model == "small" else 0.75, "order": 1}, table="metrics")
    tracker.close()
    return tracker


@pytest.mark.parametrize("store", ENGINES)
@pytest.mark.parametrize("table", [["predictions"], ["db.predictions"], ["--table", "predictions"], []])
def test_head_and_tail_give_the_first_and_the_last_rows_of_a_table(
    folder: Folder, store: str, table: list[str]
) -> None:
    tracked(folder, store)
    head = folder.abreast("head", store, *table, "-n", "3", "--json").json
    tail = folder.abreast("tail", *table, "--store", store, "--n", "1", "--json").json
    assert [row["item"] for row in head] == ["cat", "horse", "cat"]
    assert [(row["item"], row["model"], row["tokens"]) for row in tail] == [("horse", "large", {"out": 5})]


@pytest.mark.parametrize("store", ENGINES)
def test_the_only_store_in_a_folder_is_the_default(folder: Folder, store: str) -> None:
    tracked(folder, store)
    assert [row["accuracy"] for row in folder.abreast("head", "metrics", "--json").json] == [0.5, 0.75]
    assert folder.abreast("head", "--engine", "sqlite" if "duck" in store else "duckdb").code == 2


@pytest.mark.parametrize("store", ENGINES)
def test_columns_lists_types_and_latest_values(folder: Folder, store: str) -> None:
    tracked(folder, store)
    columns = {row["column"]: row for row in folder.abreast("columns", store, "--json").json}
    assert (columns["confidence"]["type"], columns["confidence"]["latest"]) == ("real", 0.5)
    assert (columns["tokens"]["type"], columns["tokens"]["latest"]) == ("json", {"out": 5})
    assert columns["error"] == {"column": "error", "type": None, "latest": None}


@pytest.mark.parametrize("store", ENGINES)
def test_ls_lists_tables_and_the_values_of_a_column(folder: Folder, store: str) -> None:
    tracker = tracked(folder, store)
    assert {row["table"]: row["rows"] for row in folder.abreast("ls", "--json").json} == {
        "predictions": 4,
        "metrics": 2,
    }
    assert folder.abreast("ls", store, "item").out.split() == ["cat", "horse", "cat", "horse"]
    assert folder.abreast("ls", store, "track_id", "--unique").out == f"{tracker.track_id}\n"
    unique = folder.abreast("ls", store, "tokens", "--unique", "--json").json
    assert unique == [{"value": {"out": 3}, "rows": 2}, {"value": {"out": 5}, "rows": 2}]


def test_an_unknown_table_or_column_is_refused_with_a_suggestion(folder: Folder) -> None:
    tracked(folder)
    for words, suggestion in (
        (["head", "prediction"], "predictions"),
        (["ls", "confidense"], "confidence"),
        (["stats", "top", "acuracy", "--table", "metrics"], "accuracy"),
        (["plot", "hits", "confidence"], "hist"),
        (["head", "--columns", "itm"], "item"),
    ):
        done = folder.abreast(*words)
        assert (done.code, f'did you mean "{suggestion}"?' in done.err) == (2, True), done.err
    assert folder.abreast("head", "predictions", "metrics").code == 2
    assert folder.abreast("head", "predictions", "--table", "metrics").code == 2
    assert folder.abreast("head", "-n", "-1").code == 2


def test_an_empty_table_names_the_tables_with_rows(folder: Folder) -> None:
    with Tracker(folder.path / "results.db", table="notes") as tracker:
        tracker.log({"a": 1})
    done = folder.abreast("head")
    assert (done.code, done.out) == (0, "")
    assert "tables with rows: notes (1)" in done.err
    assert folder.abreast("head", "--json").json == []


@pytest.mark.parametrize("width", [60, 100, 140])
@pytest.mark.parametrize("rows", [1, 5, 12])
def test_no_line_of_a_wide_table_is_wider_than_the_terminal(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, width: int, rows: int
) -> None:
    with Tracker(folder.path / "results.db") as tracker:
        tracker.log_batch([{f"column_{at}": "字" * 20 + "x" * 300 for at in range(25)} for _ in range(12)])
    monkeypatch.setenv("COLUMNS", str(width))
    done = folder.abreast("head", "-n", str(rows))
    assert max(len(line) + len(re.findall("字", line)) for line in done.out.splitlines()) <= width
    output = done.output  # few rows are turned on their side, of many the columns left out are named
    assert all(f"column_{at}" in output for at in range(8))
    assert rows < 12 or "more columns" in done.err


@pytest.mark.parametrize("words", [["head"], ["ls", "note"], ["columns"], ["stats"], ["plot", "bar", "note"]])
def test_text_of_users_cannot_control_the_terminal(folder: Folder, words: list[str]) -> None:
    with Tracker(folder.path / "results.db") as tracker:
        tracker.log({"note": "red \x1b[31m\x07 \x9b2J", "\x1b]0;title": 1})
    done, wrong = folder.abreast(*words), folder.abreast("ls", "nothing")
    assert (done.code, wrong.code) == (0, 2)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.output + wrong.output)


@pytest.mark.parametrize("store", ENGINES)
def test_stats_describes_every_column(folder: Folder, store: str) -> None:
    with Tracker(folder.path / store) as tracker:
        tracker.log_batch([{"x": at, "word": "ab"[at % 2], "maybe": None if at % 4 else True} for at in range(1, 101)])
    stats = {row["column"]: row for row in folder.abreast("stats", "--json").json}
    x = stats["x"]
    assert [x[key] for key in ("count", "nulls", "distinct", "min", "mean", "p50", "p95", "max")] == [
        100, 0, 100, 1, 50.5, 50, 95, 100,
    ]  # fmt: skip
    assert x["std"] == pytest.approx(29.0115, abs=1e-4)
    assert (stats["word"]["distinct"], stats["word"]["min"], stats["word"]["mean"]) == (2, "a", None)
    assert (stats["maybe"]["count"], stats["maybe"]["nulls"], stats["maybe"]["mean"]) == (25, 75, 1)
    chosen = folder.abreast("stats", "describe", "--columns", "word,x", "--json").json
    assert [row["column"] for row in chosen] == ["word", "x"]
    assert "x" in folder.abreast("stats", store, "x").out


@pytest.mark.parametrize("store", ENGINES)
def test_top_and_bottom_give_the_rows_with_the_extreme_values_of_a_column(folder: Folder, store: str) -> None:
    with Tracker(folder.path / store) as tracker:
        tracker.log_batch([{"x": x, "order": at} for at, x in enumerate([3, None, 9, "n/a", -1.5])])
    assert [row["order"] for row in folder.abreast("stats", "top", "x", "--json").json] == [2]
    assert [row["order"] for row in folder.abreast("stats", store, "bottom", "x", "-n", "2", "--json").json] == [4, 0]
    assert folder.abreast("stats", "top").code == 2


def test_plots_are_charts_for_people_and_numbers_for_programs(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with Tracker(folder.path / "results.db") as tracker:
        tracker.log_batch([{"x": at / 10, "y": at * at, "word": "ab"[at > 70]} for at in range(100)])
    for words in (["hist", "x"], ["scatter", "x", "y"], ["bar", "word"], ["bar", "word", "y"], ["line", "x", "y"]):
        done = folder.abreast("plot", *words)
        assert done.code == 0, words
        assert re.search("[▀-▟]", done.out), words
        assert max(map(len, done.out.splitlines())) <= 80, words
    hist = folder.abreast("plot", "hist", "x", "--bins", "4", "--json").json
    assert [bin["count"] for bin in hist] == [25, 25, 25, 25]
    assert folder.abreast("plot", "bar", "word", "--json").json == [
        {"value": "a", "rows": 71},
        {"value": "b", "rows": 29},
    ]
    assert folder.abreast("plot", "line", "x", "y", "--json").json[-1] == {"x": 9.9, "y": 9801.0, "rows": 1}
    assert folder.abreast("plot", "scatter", "x", "y", "--json").json[2] == {"x": 0.2, "y": 4.0}
    assert "no numbers" in folder.abreast("plot", "hist", "word").err
    assert folder.abreast("plot", "scatter", "x").code == 2


def test_rows_of_runs_and_trackers_are_shown_together(simulated: Folder) -> None:
    assert simulated.abreast("run", "experiment.yaml", "--quiet").code == 0
    tracked(simulated)
    assert {row["table"]: row["rows"] for row in simulated.abreast("ls", "--json").json}["predictions"] == 84
    assert [row["item"] for row in simulated.abreast("tail", "-n", "3", "--json").json] == ["horse", "cat", "horse"]
    assert simulated.abreast("head", "-n", "1", "--json").json[0]["status"] == "ok"
    assert set(simulated.abreast("ls", "variant", "--unique").out.split()) == {"better", "plain"}
    assert simulated.abreast("stats", "top", "score", "--json").json[0]["score"] == 1
    assert simulated.abreast("columns").code == simulated.abreast("stats").code == simulated.abreast("tail").code == 0


# -- deleting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ENGINES)
def test_delete_takes_the_track_id_of_a_tracker_and_removes_its_rows_everywhere(folder: Folder, store: str) -> None:
    tracker = tracked(folder, store, cache=folder.path / "cache")
    other = tracked(folder, store)
    done = folder.abreast("delete", store, tracker.track_id, "--yes")
    assert done.code == 0
    assert done.out == f"deleted {tracker.track_id}: 4 rows of predictions, 2 rows of metrics\n"
    assert folder.abreast("ls", store, "track_id", "--unique").out.split() == [other.track_id]
    assert folder.sql("select distinct track_id from db.metrics", store) == [{"track_id": other.track_id}]
    assert not list(Reader.scan_cache(folder.path / "cache"))


def test_a_name_that_is_neither_run_nor_track_id_is_refused_and_nothing_is_deleted(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--quiet")
    tracker = tracked(simulated)
    done = simulated.abreast("delete", tracker.track_id, tracker.track_id[:-1] + "x")
    assert done.code == 2
    assert f'did you mean "{tracker.track_id}"?' in done.err
    assert len(simulated.abreast("ls", "track_id").out.split()) == 4
    run = simulated.abreast("runs", "--json").json[0]["run"]
    both = simulated.abreast("delete", run, tracker.track_id, "--yes")
    assert both.code == 0
    assert "80 trials" in both.out
    assert "4 rows of predictions" in both.out
    assert simulated.abreast("head", "--json").json == []


@pytest.mark.parametrize("store", ENGINES)
def test_sql_deletes_tracked_rows_without_write_and_reports_their_number(folder: Folder, store: str) -> None:
    tracker = tracked(folder, store, cache=folder.path / "cache")
    done = folder.abreast(
        "sql", store, f"DELETE FROM db.predictions WHERE track_id = '{tracker.track_id}' AND item = 'cat'"
    )
    assert (done.code, done.out) == (0, "deleted 2 rows of predictions\n")
    assert folder.sql("select count(*) as n from db.predictions", store) == [{"n": 2}]
    assert [hit["result"]["prediction"] for _, hit in Reader.scan_cache(folder.path / "cache")] == ["HORSE", "HORSE"]
    deleted = folder.abreast("sql", "--json", store, "delete from Predictions")
    assert deleted.json == [{"table": "predictions", "deleted": 2}]
    assert not list(Reader.scan_cache(folder.path / "cache"))


@pytest.mark.parametrize("store", ENGINES)
def test_sql_write_deletes_cached_results_with_their_rows(folder: Folder, store: str) -> None:
    tracked(folder, store, cache=folder.path / "cache")
    assert folder.abreast("sql", "--write", store, "delete from tracked_predictions; select 1").code == 0
    assert not list(Reader.scan_cache(folder.path / "cache"))


@pytest.mark.parametrize("store", ENGINES)
def test_sql_changes_nothing_else_without_write(folder: Folder, store: str) -> None:
    tracked(folder, store)
    for query in ("delete from tracked_tables", "drop table tracked_metrics", "update tracked_metrics set model = 'x'"):
        done = folder.abreast("sql", store, query)
        assert done.code == 2, query
        assert "--write" in done.err, query
    assert len(folder.abreast("head", "metrics", "--json").json) == 2


def test_rows_of_runs_are_not_deleted_one_by_one(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--quiet")
    tracked(simulated)
    done = simulated.abreast("sql", "results.db", "delete from predictions where variant = 'plain'")
    assert done.code == 2
    assert "abreast delete RUN" in done.err
    assert simulated.abreast("sql", "results.db", "delete from predictions where row_id is not null").code == 0
    assert simulated.sql("select count(*) as n from predictions") == [{"n": 80}]


# -- the cache of trackers, files ----------------------------------------------------------------------------------


def test_the_results_of_a_cache_are_listed_and_deleted_by_tracker(folder: Folder) -> None:
    tracker = tracked(folder, cache=folder.path / "cache")
    entries = folder.abreast("cache", "ls", "cache", "--json").json
    assert [(row["track_id"], row["table"]) for row in entries] == [(tracker.track_id, "predictions")] * 4
    assert entries[0]["function"].endswith("predict")
    assert Reader.read_cache(folder.path / "cache", entries[0]["key"])
    assert "predict" in folder.abreast("cache", "ls", "cache").out
    assert folder.abreast("cache", "delete", "cache", "nobody").code == 2
    assert "removed 4 results" in folder.abreast("cache", "delete", "cache", tracker.track_id).out
    assert folder.abreast("cache", "ls", "cache", "--json").json == []
    assert len(folder.abreast("ls", "item").out.split()) == 4


def test_a_folder_without_a_cache_stays_without_one(folder: Folder) -> None:
    assert folder.abreast("cache", "ls", "nothing").code == 2
    assert folder.abreast("cache", "ls").code == 2
    assert not (folder.path / "nothing").exists()


@pytest.mark.parametrize("store", ENGINES)
def test_any_table_is_exported_with_its_types(folder: Folder, store: str) -> None:
    tracker = tracked(folder, store)
    with Tracker(folder.path / store, table="my notes") as other:
        other.log({"order": 1, "done": True, "deep": {"a": [1]}, "raw": b"\x01"})
    lines = folder.abreast("export", "--table", "my notes", "--format", "jsonl").out.splitlines()
    row = json.loads(lines[0])
    assert (row["order"], row["done"], row["deep"], row["raw"]) == (1, True, {"a": [1]}, "01")
    assert len(folder.abreast("export", tracker.track_id, "--table", "db.metrics").out.splitlines()) == 3
    assert folder.abreast("export", other.track_id, "--format", "jsonl").out == ""
    assert folder.abreast("export", "--table", "my notes", "--output", "notes.parquet").code == 0
    with duckdb.connect() as connection:
        rows = connection.execute(f"select done, deep.a from '{folder.path}/notes.parquet'").fetchall()
    assert rows == [(True, [1])]


# -- speed ---------------------------------------------------------------------------------------------------------


def test_reading_from_a_hundred_thousand_rows_is_fast(folder: Folder) -> None:
    with Tracker(folder.path / "results.db") as tracker:
        for _ in range(10):
            tracker.log_batch([{f"c{key}": at + key / 10 for key in range(2)} for at in range(10_000)])
    folder.abreast("head")  # what is loaded once
    for words in (["head"], ["tail"], ["columns"]):
        began = time.process_time()
        assert folder.abreast(*words).code == 0
        assert time.process_time() - began < 0.5, words


def test_commands_on_tables_do_not_load_pandas(folder: Folder) -> None:
    tracked(folder)
    script = "import sys; from abreast.cli import main; main({!r}); sys.exit('pandas' in sys.modules)"
    for words in (["head"], ["columns"], ["stats"], ["plot", "hist", "confidence"], ["ls"]):
        done = subprocess.run([sys.executable, "-c", script.format(words)], cwd=folder.path, capture_output=True)
        assert done.returncode == 0, words


def test_a_missing_store_is_refused(folder: Folder) -> None:
    assert "no such store" in folder.abreast("head", "nothing.db").err
    assert "no store in this folder" in folder.abreast("head").err
    with sqlite3.connect(folder.path / "foreign.db") as connection:
        connection.execute("create table mine (x)")
    assert "not an abreast store" in folder.abreast("head", "foreign.db").err
    assert not Path(folder.path / "nothing.db").exists()

"""What works with a store in a file works the same with one in PostgreSQL."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any

import pytest

from abreast import Reader, Tracker
from abreast.errors import BadInput
from abreast.store import open_store
from conftest import Done, Folder

ENGINES = ("sqlite", "duckdb", "postgres")
MODULE = """\
import json, re
from abreast import Answer, Score

def number(text):
    return int(re.search(r"question (\\d+)", text)[1])

def answer(case, word="plain", lr=0.1, fails=""):
    if case.id in fails.split():
        raise ValueError("no idea")
    n = number(case.input)
    data = {"confidence": n / 40, "right": n % 3 == 0, "n": n, "Text é'\\"": "ü", "mix": [1, None, 2.5][n % 3]}
    return Answer(f"{word} answer to {case.input}", data=data, cost_usd=0.5 * n, model="m1")

def judge(case):
    good = number(case.input) % 10 < (8 if "better answer" in case.input else 5)
    return json.dumps({"overall": {"justification": "so it is", "score": 5 if good else 1}})

def size(case, answer):
    return Score("size", len(answer.text) / 100)
"""
SPEC = """\
name: judged
cases: cases.jsonl
target: python:mine:answer
repeats: 2
variants:
  alpha: {word: plain, lr: 0.1}
  omega: {word: better, lr: 0.25, fails: "c1 c2"}
scorers:
  - exact
  - judge: {target: "python:mine:judge", rubric: "Is it good"}
"""
SIMULATED = """\
name: simulated
cases: cases.jsonl
variants:
  plain: {target: simulated, accuracy: 0.6}
  better: {target: simulated, accuracy: 0.9}
scorers: [exact]
"""


@pytest.fixture
def stores(folder: Folder, postgres: str) -> dict[str, str]:
    """The addresses of a store for each engine."""
    return {"sqlite": "a.db", "duckdb": "a.duckdb", "postgres": postgres}


@pytest.fixture
def specs(folder: Folder) -> Folder:
    folder.write("mine.py", MODULE)
    cases = [
        {
            "id": f"c{n}",
            "input": f"question {n}",
            "expected": f"plain answer to question {n}" if n % 2 else "x",
            "tags": {"kind": "ab"[n % 2], "Größe": str(n % 3)},
            "group": f"g{n // 3}" if n % 4 else None,
        }
        for n in range(24)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    folder.write("experiment.yaml", SPEC)
    folder.write("simulated.yaml", SIMULATED)
    return folder


def succeed(folder: Folder, *words: str) -> Done:
    done = folder.abreast(*words)
    assert done.code == 0, (words, done.err)
    return done


def normal(text: str, address: str) -> list[str]:
    """The lines of an output without the address of the store, and with numbers of 6 digits: sums depend on order."""
    for name in (address, re.sub(r":[0-9a-f]{32}@", "@", address)) if address else ():
        text = text.replace(name, "STORE")
    return [
        re.sub(r"-?\d+\.\d+(e[-+]\d+)?", lambda match: f"{float(match[0]):.6g}", line) for line in text.splitlines()
    ]


def assert_same(folder: Folder, stores: dict[str, str], *words: str, in_order: bool = True) -> None:
    """Run a command on every store, whose address replaces @, and compare exit codes and outputs."""
    outputs = []
    for address in stores.values():
        done = folder.abreast(*(address if word == "@" else word for word in words))
        out, err = normal(done.out, address), normal(done.err, address)
        outputs.append((done.code, out if in_order else sorted(out), err))
    for engine, output in zip(stores, outputs, strict=True):
        lines = [(code, *out, *err) for code, out, err in (outputs[0], output)]
        differences = [pair for pair in zip_longest(*lines) if pair[0] != pair[1]]
        assert not differences, (engine, words, differences[:5])


def track(store: str) -> None:
    """Write rows with keys of every kind; each column has values of one type, as PostgreSQL needs."""
    with Tracker(store, track_id="loop") as tracker:
        for x in range(6):
            tracker.track(_measured, args=[x], kwargs={"lr": 0.5})
        tracker.track(_failing, args=[1])
    with Tracker(store, table="metrics", track_id="loop") as tracker:
        tracker.log_batch(
            [{"accuracy": 0.1 * x, "f1": x / 2, "flag": x > 1, "select": x, "Group": "ü"} for x in range(4)]
        )
    with Tracker(store, table="odd table", track_id="odd") as tracker:
        names = ["order", "ORDER", "Seq", "x" * 70 + "1", "x" * 70 + "2", "ü" * 60, 'q"uote', "ctid", "n" * 200, "a?b"]
        tracker.log_batch([{name: at for at, name in enumerate(names)}, {"late": b"\x00\xff", "order": None}])


def _measured(x: int, lr: float) -> dict[str, Any]:
    moment = datetime(2024, 1, 2, 3, 4, x)
    return {"confidence": x / 10, "right": x % 2 == 0, "big": 2**70 + x, "js": {"a": [x, None]}, "when": moment, "n": x}


def _failing(x: int) -> None:
    raise ZeroDivisionError("on purpose")


def without_times(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if not re.search("time|commit|dirty", key)} for row in rows]


# -- reading -----------------------------------------------------------------------------------------------------------


def test_every_command_reads_copies_in_all_engines_in_the_same_way(
    specs: Folder, stores: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    store = str(specs.path / "original.db")  # compared are its copies: their rows are numbered without gaps
    succeed(specs, "run", "experiment.yaml", "--store", store, "--label", "judged", "--no-pictures")
    succeed(specs, "run", "simulated.yaml", "--store", store, "--label", "first", "--no-pictures")
    succeed(specs, "run", "simulated.yaml", "--store", store, "--label", "second", "--seed", "3", "--fresh")
    track(store)
    with open_store(store) as opened:
        opened.log_metrics("judged", "alpha", "all", {"f1": 0.5, "flag": False, "note": "x", "accuracy": 0.9})
    for copy in stores.values():
        succeed(specs, "copy", store, copy)

    def same(*words: str, in_order: bool = True) -> None:
        assert_same(specs, stores, *words, in_order=in_order)

    same("runs", "--store", "@", "--json")
    same("ls", "@")
    same("history", "simulated", "--store", "@", "--json")
    same("compare", "first", "second", "--store", "@")
    same("cache", "stats", "--store", "@")
    same("label", "judged", "--json", "--store", "@")
    for table in ("predictions", "odd table"):
        for action in ("head", "tail"):
            same(action, "@", table, "-n", "3", "--json")
    for table in (
        "predictions",
        "odd table",
        "runs",
        "trials",
        "scores",
        "payloads",
        "judgements",
        "variants",
        "cases",
    ):
        is_sorted = table not in ("predictions", "scores", "judgements")  # a copy has each run in one piece
        same("columns", "@", table)
        same("stats", "@", "--table", table, "--json")
        same("export", "--table", table, "--format", "csv", "--store", "@", in_order=is_sorted)
    same("export", "--table", "metrics", "--format", "jsonl", "--store", "@", in_order=False)
    same("export", "loop", "--format", "jsonl", "--store", "@")
    for column in ("confidence", "n", "right", "params_lr", "tag_kind"):
        same("ls", "@", column, "--unique", "--json")
        same("stats", "top", "@", column, "-n", "3", "--columns", column, "--json")
        same("stats", "bottom", "@", column, "-n", "3", "--columns", column, "--json")
        same("plot", "bar", "@", column, "--json")
    same("plot", "hist", "@", "confidence")
    for run in ("judged", "second"):
        for form in ("terminal", "markdown", "json", "junit"):
            same("report", run, "--format", form, "--store", "@")
        same("report", run, "--format", "csv", "--store", "@", in_order=False)
        same("show", run, "--json", "--store", "@")
        same("show", run, "c3", "--json", "--store", "@")
        same("show", run, "--events", "--store", "@")
        same("logs", run, "--errors", "--store", "@")
        same("validate", run, "--store", "@")
    for name in ("loop", "odd"):
        same("validate", name, "--table", "odd table" if name == "odd" else "predictions", "--store", "@")
    query = "select variant, count(*) as n, avg(score) as score, sum(cost_usd) as cost from predictions"
    same("sql", "@", f"{query} where variant is not null group by variant order by variant -- ? '", "--json")
    same("sql", "@", "/* ? */ select count(*) as n, 'a?' as text from db.predictions where track_id = 'loop'")
    same("sql", "@", "select segment, n_predictions from db.metrics where source = 'derived' order by 1, 2")

    same("set", "reviewed", "true", "--table", "odd table", "--yes", "--store", "@")
    same("rename", "params_lr", "params_rate", "--yes", "--store", "@")
    same("rename", "n", "number", "--yes", "--store", "@")
    same("rename", "ORDER", "other order", "--table", "odd table", "--yes", "--store", "@")
    same("tag", "first", "new label", "--store", "@")
    same("sql", "@", "delete from predictions where track_id = 'loop' and error is not null")
    same("columns", "@", "odd table")
    same("delete", "odd", "--yes", "--store", "@")
    same("delete", "nothing", "--yes", "--store", "@")
    same("cache", "clear", "--yes", "--store", "@")
    same("ls", "@", "--json")


def test_a_reader_gives_the_same_rows_and_types(folder: Folder, stores: dict[str, str]) -> None:
    frames = []
    for address in stores.values():
        path = address if "://" in address else str(folder.path / address)
        track(path)
        reader = Reader(path)
        frames.append(
            (
                {name: kind for name, kind in reader.dtypes.items() if name not in ("code_commit", "code_dirty")},
                without_times(reader.where(x=[2, 3], lr=0.5).drop(columns="row_id").to_dict("records")),
                without_times(reader.where("n > ?", 3).drop(columns="row_id").to_dict("records")),
                reader.count("loop"),
                len(reader),
                reader.set_where("x", 7, "x", 2),
                reader.set_value("label", "good", "loop"),
                without_times(reader.tail(2).drop(columns="row_id").to_dict("records")),
                Reader(path, table="odd table").tables()[:4],
                reader.delete_run("loop"),
                len(reader),
            )
        )
    assert str(frames[1]) == str(frames[0])
    assert str(frames[2]) == str(frames[0])


# -- running -----------------------------------------------------------------------------------------------------------

OUTCOMES = (
    "select case_id, variant, repeat, status, error_kind, score, answer, score_exact, score_judge, cost_usd, n, "
    '"Text é\'""", case when reused_from is null then 0 else 1 end as reused '
    "from predictions where case_id is not null order by case_id, variant, repeat, reused"
)
DERIVED = (
    "select variant, segment, n_predictions, n_failed, accuracy, score_low, mean_confidence from metrics order by 1, 2"
)


def verdicts(done: Done) -> list[tuple[Any, ...]]:
    keys = ("variant", "verdict", "effect", "interval", "wins", "losses", "ties")
    return [tuple(verdict[key] for key in keys) for verdict in done.json[0]["verdicts"]]


def test_experiments_run_resume_extend_and_rescore_in_every_engine(specs: Folder, stores: dict[str, str]) -> None:
    outputs = []
    for address in stores.values():

        def run(*words: str, store: str = address) -> Done:
            return succeed(specs, *words, "--store", store, "--yes", "--json")

        specs.write("experiment.yaml", SPEC)
        stopped = specs.abreast("run", "experiment.yaml", "--store", address, "--budget", "150", "--no-pictures")
        assert stopped.code == 3, stopped.err
        resumed = run("resume", "--budget", "9000")
        first = [verdicts(resumed), specs.sql(OUTCOMES, address), specs.sql(DERIVED, address)]
        third = "gamma: {word: other}\n  omega: {word: better"
        specs.write("experiment.yaml", SPEC.replace("omega: {word: better", third))
        extended = run("run", "experiment.yaml")
        specs.write("experiment.yaml", SPEC + "  - python:mine:size\n")
        rescored = specs.abreast("rescore", "--spec", "experiment.yaml", "--store", address)
        sizes = specs.sql("select count(value) as n from scores where name = 'size'", address)
        decided = run("run", "simulated.yaml", "--until-decided", "--margin", "0.3")
        succeed(specs, "tag", "latest", "v1", "--store", address)
        labels = [run["label"] for run in succeed(specs, "runs", "--json", "--store", address).json]
        reusable = succeed(specs, "cache", "stats", "--store", address).out
        executed = (extended.json[0]["reused_trials"], decided.json[0]["executed_trials"])
        outputs.append(
            [*first, verdicts(extended), rescored.code, sizes, verdicts(decided), executed, labels, reusable]
        )
    for step, (sqlite, *others) in enumerate(zip(*outputs, strict=True)):
        for other in others:
            assert rounded(other) == rounded(sqlite), step


def rounded(value: Any) -> list[str]:
    return normal(json.dumps(value, indent=1), "")


def test_a_verdict_of_reused_answers_whose_scores_are_all_judged_is_reached(
    specs: Folder, stores: dict[str, str]
) -> None:
    for address in stores.values():
        specs.write("experiment.yaml", SPEC.replace("  - exact\n", ""))
        succeed(specs, "run", "experiment.yaml", "--store", address, "--yes", "--no-pictures")
        specs.write("experiment.yaml", SPEC.replace("  - exact\n", "").replace("lr: 0.25", "lr: 0.5"))
        done = succeed(specs, "run", "experiment.yaml", "--store", address, "--yes", "--json")
        assert (done.json[0]["executed_trials"], done.json[0]["reused_trials"]) == (96, 48)


# -- views -------------------------------------------------------------------------------------------------------------

HOSTILE = r"""
import math, re
from abreast import Answer

def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value

def answer(case):
    values = [
        {"a": "\0"}, {"a": math.nan}, {"a": math.inf, "b": [-math.inf, 1]}, {"a": 10**400}, {"a": nested(300)},
        {"a": "x" * 5_000_000}, {"a": "\ud800"}, {"a": '"]}\\u0000\\\\u0000'}, {"a": -0.0, "b": 1e308},
        {"confidence": 1e299}, {"confidence": 9e307}, {"confidence": "NaN"}, {"confidence": {"a": 1}},
        {"a": {"NaN": "NaN", "x": [1, math.nan, "NaN,"]}}, {"a": "1e999"}, {"b": -(2**63)},
        {"": 1, " ": 2, "A": 1, "a": 2, "\u00e9" * 100: 3, "q\"'": 1, "x" * 250: 1, "z\0": 3, "a.b": 1, "$": 1},
    ]
    number = int(re.search(r"question (\d+)", case.input)[1])
    cost = [None, 9e14, 0.1][number % 3]
    return Answer("no\0" if number % 2 else "yes", data=values[number % len(values)], cost_usd=cost)
"""


def test_hostile_values_break_no_view(folder: Folder, stores: dict[str, str]) -> None:
    folder.write("mine.py", HOSTILE)
    folder.cases(34, tags={"K": "v", "k": 1, "e\"'$.": "ü"}, group="g")
    folder.write("hostile.yaml", "cases: cases.jsonl\nvariants: {a: {target: python:mine:answer}}\nscorers: [exact]\n")
    query = "select count(*) as n, count(a) as a, count(b) as b, max(length(cast(a as {}))) as size from predictions"
    rows, derived = [], []
    for engine, address in stores.items():
        succeed(folder, "run", "hostile.yaml", "--store", address, "--yes", "--no-pictures")
        with open_store(folder.path / address if engine != "postgres" else address) as store:
            store.log_metrics("latest", None, "all", {"f": None, "deep": [[1]], "accuracy": 1e308, "t": "\0"})
        rows.append(folder.sql(query.format("varchar" if engine == "duckdb" else "text"), address)[0])
        derived.append(folder.sql(f"{DERIVED}", address))
        assert folder.abreast("validate", "--store", address).code in (0, 1)
        for words in (("stats",), ("stats", "--table", "metrics"), ("report",), ("show",), ("head", "--json")):
            succeed(folder, *words, "--store", address)
    assert rows[2]["n"] == rows[0]["n"] == 34
    assert rows[2]["size"] == rows[0]["size"] == 5_000_000
    assert rows[2]["b"] == rows[0]["b"]

    def accuracies(rows: list[dict[str, Any]]) -> set[Any]:
        return {(row["segment"], row["n_predictions"], row["accuracy"], row["score_low"]) for row in rows}

    assert accuracies(derived[2]) == accuracies(derived[0])


@pytest.mark.heavy
def test_views_include_tracked_columns_of_any_type(specs: Folder, stores: dict[str, str]) -> None:
    """A column of a run and a tracked one with its name may have types that PostgreSQL does not combine."""
    values: list[dict[str, Any]] = [
        {"confidence": "high", "right": 7, "n": b"\x00", "params_lr": "slow", "score_exact": "n/a", "cost_usd": "dear"},
        {
            "confidence": 1,
            "right": None,
            "n": 2**80,
            "params_lr": {"a": 1},
            "started_at": "never",
            "function_time": "x",
        },
    ]
    for address in stores.values():
        succeed(specs, "run", "experiment.yaml", "--store", address, "--yes", "--no-pictures")
        with Tracker(address if "://" in address else specs.path / address) as tracker:
            for row in values:
                tracker.log(row)
                (counts,) = specs.sql(
                    "select count(*) as n, count(run) as run, count(n) as numbers from predictions", address
                )
                assert counts["n"] == counts["run"]
        with Tracker(address if "://" in address else specs.path / address, table="metrics") as tracker:
            for value in (1, 2.5, "text", True, b"bytes", [1], None):
                tracker.log({"f1": value, "accuracy": value, "extra": value})
                assert specs.sql("select count(*) as n from metrics where source = 'derived'", address)[0]["n"] > 2
        with open_store(address if "://" in address else specs.path / address) as store:
            store.log_metrics("latest", "alpha", "all", {"f1": 0.5, "extra": True})
        succeed(specs, "head", address, "--json")
        succeed(specs, "export", "--store", address, "--table", "metrics")
    assert [row["f1"] for row in specs.sql("select f1 from metrics where f1 is not null", stores["postgres"])].count(
        "text"
    ) == 1


# -- copies ------------------------------------------------------------------------------------------------------------


def tracked_values(folder: Folder, address: str) -> list[dict[str, Any]]:
    reader = Reader(address if "://" in address else folder.path / address, table="mixed")
    return [
        {key: str(value).replace("\0", "␀") for key, value in row.items() if value is not None and value == value}
        for row in reader.to_df(library="polars").to_dicts()
    ]


@pytest.mark.parametrize("source", ["sqlite", pytest.param("duckdb", marks=pytest.mark.heavy), "postgres"])
def test_a_copy_loses_nothing_and_a_second_one_adds_nothing(specs: Folder, stores: dict[str, str], source: str) -> None:
    first = stores[source]
    specs.write("mine.py", MODULE.replace('"no idea"', '"no\\0 idea"').replace("} answer", "} answer\\0"))
    succeed(specs, "run", "experiment.yaml", "--store", first, "--yes", "--no-pictures")
    track(first if "://" in first else str(specs.path / first))
    with Tracker(first if "://" in first else specs.path / first, table="mixed") as tracker:
        tracker.log_batch([{"x": 1, "t": "a\0b"}, {"x": 2.5, "b": b"\0"}, {"x": None, "big": 2**70}, {"t": "late"}])
    with open_store(first if "://" in first else specs.path / first) as store:
        store.log_metrics("latest", "alpha", "all", {"f1": 0.5, "note": "\0"})
    before = specs.sql(OUTCOMES.replace("reused_from", "null"), first)
    for target in ENGINES:
        if target == source:
            continue
        copied = succeed(specs, "copy", first, stores[target])
        assert "96 trials" in copied.out
        assert "4 rows of mixed" in copied.out
        assert "nothing new" in succeed(specs, "copy", first, stores[target]).out, target
        assert "nothing new" in succeed(specs, "copy", stores[target], first).out, target
        after = specs.sql(OUTCOMES.replace("reused_from", "null"), stores[target])
        assert json.dumps(after).replace("\\u0000", "\\u2400") == json.dumps(before).replace("\\u0000", "\\u2400")
        assert tracked_values(specs, stores[target]) == tracked_values(specs, first)


@pytest.mark.heavy
def test_keys_beyond_the_columns_of_postgres_are_copied_too(folder: Folder, stores: dict[str, str]) -> None:
    with Tracker(folder.path / "a.db", table="wide") as tracker:
        tracker.log({f"key {number}": number for number in range(500)})
    succeed(folder, "copy", "a.db", stores["postgres"])
    succeed(folder, "copy", stores["postgres"], "b.db")
    ((more,),) = Reader(stores["postgres"], table="wide").to_df()[["more_columns"]].values.tolist()
    row = folder.sql("select * from wide", "b.db")[0]
    assert {**json.loads(row["more_columns"]), **row}.items() >= {f"key {n}": n for n in range(500)}.items()
    assert len(more) > 90
    assert "nothing new" in succeed(folder, "copy", "a.db", stores["postgres"]).out


# -- queries of users --------------------------------------------------------------------------------------------------


def test_queries_of_users_are_refused_alike(specs: Folder, stores: dict[str, str]) -> None:
    for address in (stores["sqlite"], stores["postgres"]):
        succeed(specs, "run", "simulated.yaml", "--store", address, "--no-pictures")
        for query in (
            *(
                "drop table trials",
                "insert into trials (run_id) values (1)",
                "delete from trials",
                "update runs set run = ''",
            ),
            *("delete from predictions where case_id = 'c1'", "update predictions set score = 1", "select * from nope"),
            *("commit; drop table trials", "create table x (y integer)", "selec 1", "select 'a", "select ?"),
        ):
            done = specs.abreast("sql", address, query)
            assert done.code == 2 or query == "select ?", query
            assert "CONTEXT" not in done.err, done.err
        assert specs.sql("select count(*) as n from trials", address) == [{"n": 48}]
        refusal = specs.abreast("sql", "--write", address, "update predictions set score = 1")
        assert "use tracked_predictions for tracked rows" in refusal.err
        written = specs.abreast(
            "sql", "--write", address, "create table x (y integer); insert into x values (7); select y from x"
        )
        assert written.out.split() == ["y", "7"], written.err
    row = specs.sql(
        "select date '2024-01-02' as day, 1.50 as decimal, 10::numeric as whole, true as yes", stores["postgres"]
    )
    assert row == [{"day": "2024-01-02", "decimal": 1.5, "whole": 10, "yes": True}]


def test_a_value_that_is_not_of_the_type_of_its_column_is_refused_in_one_line(postgres: str) -> None:
    with Tracker(postgres) as tracker:
        tracker.log({"n": 1})
    reader = Reader(postgres)
    message = '^predictions: invalid input syntax for type bigint: "abc"$'
    for call in (lambda: reader.where(n="abc"), lambda: reader.set_where("n", 2, "n", "abc")):
        with pytest.raises(BadInput, match=message):
            call()

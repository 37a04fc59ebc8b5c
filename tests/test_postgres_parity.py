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
    for name in (address, re.sub(r":[0-9a-f]{32}@", "@", address)):
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


def test_every_command_reads_a_copy_in_another_engine_in_the_same_way(
    specs: Folder, stores: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    store = str(specs.path / stores["sqlite"])
    succeed(specs, "run", "experiment.yaml", "--store", store, "--label", "judged", "--no-pictures")
    succeed(specs, "run", "simulated.yaml", "--store", store, "--label", "first", "--no-pictures")
    succeed(specs, "run", "simulated.yaml", "--store", store, "--label", "second", "--seed", "3", "--fresh")
    track(store)
    with open_store(store) as opened:
        opened.log_metrics("judged", "alpha", "all", {"f1": 0.5, "flag": False, "note": "x", "accuracy": 0.9})
    for target in ("duckdb", "postgres"):
        succeed(specs, "copy", stores["sqlite"], stores[target])

    def same(*words: str, in_order: bool = True) -> None:
        assert_same(specs, stores, *words, in_order=in_order)

    same("runs", "--store", "@", "--json")
    same("ls", "@")
    same("history", "simulated", "--store", "@", "--json")
    same("compare", "first", "second", "--store", "@")
    same("cache", "--store", "@")
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
    "from predictions order by case_id, variant, repeat, reused"
)
DERIVED = (
    "select variant, segment, n_predictions, n_failed, accuracy, score_low, mean_confidence from metrics order by 1, 2"
)


def test_experiments_run_resume_extend_and_rescore_in_every_engine(specs: Folder, stores: dict[str, str]) -> None:
    outputs = []
    for address in stores.values():
        specs.write("experiment.yaml", SPEC)
        stopped = specs.abreast("run", "experiment.yaml", "--store", address, "--budget", "150", "--no-pictures")
        assert stopped.code == 3, stopped.err
        steps: list[Any] = []
        steps.append(succeed(specs, "resume", "--store", address, "--yes", "--budget", "9000", "--json").json[0]["verdict"])
        steps.append(specs.sql(OUTCOMES, address))
        steps.append(specs.sql(DERIVED, address))
        specs.write(
            "experiment.yaml", SPEC.replace("omega: {word: better", "gamma: {word: other}\n  omega: {word: better")
        )
        again = succeed(specs, "run", "experiment.yaml", "--store", address, "--yes", "--json").json[0]
        steps.append((again["executed"], again["reused"]))
        specs.write("experiment.yaml", SPEC + "  - python:mine:size\n")
        succeed(specs, "rescore", again["run"], "--spec", "experiment.yaml", "--store", address)
        steps.append(specs.sql("select sum(value) as total from scores where name = 'size'", address))
        until = succeed(
            specs, "run", "simulated.yaml", "--store", address, "--until-decided", "--margin", "0.3", "--json"
        )
        steps.append((until.json[0]["executed"], until.json[0]["verdict"]))
        steps.append(succeed(specs, "tag", "latest", "v1", "--store", address).out.split()[-1])
        steps.append([row["label"] for row in succeed(specs, "runs", "--json", "--store", address).json])
        steps.append(succeed(specs, "cache", "--store", address).out)
        outputs.append(steps)
    for step, (sqlite, duckdb, postgres) in enumerate(zip(*outputs, strict=True)):
        assert duckdb == sqlite, step
        assert postgres == pytest.approx(sqlite) if isinstance(sqlite, float) else postgres == sqlite, step

"""The view `metrics`: a row per run, variant and segment that matches the trials, and logged rows."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import duckdb
import numpy as np
import pytest

from abreast import Experiment, Result
from abreast.errors import BadInput
from abreast.stats import Interval, Weight, paired_t, wilson
from abreast.store import open_store, schema, views
from abreast.store.duckdb.dialect import DUCKDB
from abreast.store.sqlite.dialect import SQLITE
from conftest import WITHOUT_VERSION_5, Folder

ENGINES = ["results.db", "results.duckdb"]
CONTRACT = [
    *("run", "variant", "segment", "source", "n_predictions", "n_successful", "n_failed", "accuracy", "score_mean"),
    *("score_low", "score_high", "avg_latency", "p50_latency", "p95_latency", "error_rate"),
    *("cost_usd", "cost_per_correct", "mean_confidence", "failures"),
    *("code_commit", "data_commit", "experiment_version"),
]

TAGGED = """\
name: tagged
cases: cases.jsonl
repeats: {repeats}
variants:
  plain: {{target: simulated, accuracy: 0.6, cost_usd: 0.01, errors: {{refused: 0.1, crash: 0.1}}}}
  better: {{target: simulated, accuracy: 0.9, errors: {{skipped: 0.2}}}}
scorers: [exact, text]
store: {store}
"""


def tagged(folder: Folder, store: str, repeats: int = 1, count: int = 60) -> None:
    """A run whose cases have two tags, one tag or none, and some a group."""
    lines = []
    for n in range(count):
        tags = {"category": ("navigate", "edit", "search")[n % 3]} if n % 10 else {}
        tags |= {"level": "hard"} if n % 4 == 0 else {}
        group = {"group": f"g{n // 3}"} if n % 3 == 0 and repeats > 1 else {}
        lines.append({"id": f"c{n}", "input": f"question {n}", "expected": "yes", "tags": tags, **group})
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write("tagged.yaml", TAGGED.format(repeats=repeats, store=store))
    done = folder.abreast("run", "tagged.yaml", "--quiet")
    assert done.code == 0, done.err


def by_hand(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The metrics computed from rows of `predictions`."""
    scores = [row["score"] for row in rows if row["score"] is not None]
    cases: dict[str, list[float]] = {}
    for row in rows:
        if row["score"] is not None:
            cases.setdefault(row["case_id"], []).append(row["score"])
    latencies = sorted(row["service_s"] for row in rows if row["status"] == "ok" and row["service_s"] is not None)
    costs = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    good = sum(row["status"] == "ok" for row in rows)
    bad = sum(row["status"] == "error" for row in rows)
    kinds = Counter(row["error_kind"] for row in rows if row["status"] == "error")
    sure = [row["confidence"] for row in rows if row["status"] == "ok" and row.get("confidence") is not None]

    def rank(share: float) -> float | None:
        return latencies[math.ceil(share * len(latencies) - 1e-9) - 1] if latencies else None

    return {
        "n_predictions": len(rows),
        "n_successful": good,
        "n_failed": bad,
        "accuracy": sum(scores) / len(scores) if scores and good else None,
        "score_mean": sum(sum(scores) / len(scores) for scores in cases.values()) / len(cases) if cases else None,
        "avg_latency": sum(latencies) / len(latencies) if latencies else None,
        "p50_latency": rank(0.5),
        "p95_latency": rank(0.95),
        "error_rate": bad / (good + bad) if good + bad else None,
        "cost_usd": sum(costs) if costs else None,
        "cost_per_correct": sum(costs) / sum(scores) if costs and len(costs) == good and sum(scores) else None,
        "mean_confidence": sum(sure) / len(sure) if sure else None,
        "failures": dict(kinds) or None,
    }


def segments_of(folder: Folder, store: str) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    segments: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in folder.sql("select * from predictions", store):
        tags = [f"{key[4:]}={value}" for key, value in row.items() if key.startswith("tag_") and value is not None]
        for segment in ["all", *tags]:
            segments.setdefault((row["run"], row["variant"], segment), []).append(row)
    return segments


def check_against_the_rows(folder: Folder, store: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    expected = segments_of(folder, store)
    rows = folder.sql("select * from metrics where source = 'derived'", store)
    actual = {(row["run"], row["variant"], row["segment"]): row for row in rows}
    assert len(actual) == len(rows)
    assert actual.keys() == expected.keys()
    for key, trials in expected.items():
        for name, value in by_hand(trials).items():
            value_read = json.loads(actual[key][name]) if name == "failures" and value else actual[key][name]
            same = value if value is None or name == "failures" else pytest.approx(value, abs=1e-9)
            assert value_read == same, (key, name)
    return actual


@pytest.mark.parametrize("store", ENGINES)
@pytest.mark.parametrize("repeats", [1, 3])
def test_every_tag_has_rows_with_the_numbers_of_its_trials(folder: Folder, store: str, repeats: int) -> None:
    tagged(folder, store, repeats)
    metrics = check_against_the_rows(folder, store)
    assert {segment for _, _, segment in metrics} == {
        *("all", "category=navigate", "category=edit", "category=search", "level=hard")
    }
    assert list(next(iter(metrics.values()))) == CONTRACT


@pytest.mark.parametrize("store", ENGINES)
def test_the_interval_of_a_segment_is_computed_from_its_cases(folder: Folder, store: str) -> None:
    tagged(folder, store)
    for (_, _, segment), row in check_against_the_rows(folder, store).items():
        trials = [
            trial["score"]
            for trial in segments_of(folder, store)[row["run"], row["variant"], segment]
            if trial["score"] is not None
        ]
        low, high = wilson(sum(trials), len(trials)).low, wilson(sum(trials), len(trials)).high
        assert (row["score_low"], row["score_high"]) == (pytest.approx(low), pytest.approx(high)), row


GRADED = """\
import zlib

def answer(case, scores):
    chance = zlib.crc32(f"{scores} {case.id}".encode()) % 1000 / 1000
    return str(round(chance) if scores == "binary" else 0.5 + 0.05 * chance + 0.03 * (case.input % 3))

def grade(case, answer):
    kind = case.tags["kind"]
    return None if kind == "unscored" else 0.3 if kind == "alike" else float(answer.text)
"""
KINDS = {  # sizes of groups; 0 is a case without a group
    "unequal": (29, 4, 4, 4, 3, 3, 2, 1),
    "equal": (5,) * 6,
    "single": (1,) * 12,
    "none": (0,) * 12,
    "some": (3, 2, 0, 0, 0, 7),
    "two": (9, 2),
    "uneven": (20, 1, 1),  # 1.1 degrees of freedom
    "one": (6,),
    "alike": (3, 2, 2),
    "unscored": (4, 2),
}


def graded_cases() -> list[dict[str, Any]]:
    """Cases of every kind in KINDS; the tag `part` splits groups."""
    cases: list[dict[str, Any]] = []
    for kind, sizes in KINDS.items():
        for number, size in enumerate(sizes):
            group = {"group": f"{kind} {number}"} if size else {}
            for _ in range(max(size, 1)):
                tags = {"kind": kind, "part": "ab"[len(cases) % 2]}
                cases.append({"id": f"c{len(cases)}", "input": number, "tags": tags, **group})
    return cases


def interval_of(scores: dict[str, float], groups: dict[str, str], weight: Weight) -> Interval:
    """The interval of the mean of these scores by case."""
    values, labels = list(scores.values()), [groups.get(case, case) for case in scores]
    if not groups.keys() & scores.keys() and set(values) <= {0.0, 1.0}:
        return wilson(sum(values), len(values))
    units = len(set(labels))
    if units == 1:
        return Interval(sum(values) / len(values), 0.0, 1.0)
    interval = paired_t(values, groups=labels, weight=weight)
    if interval.high - interval.low < 1e-9:
        return wilson(interval.estimate * units, units)
    return Interval(interval.estimate, max(0.0, interval.low), min(1.0, interval.high))


@pytest.mark.parametrize("store", ENGINES)
@pytest.mark.parametrize("weight", ["case", "group"])
def test_intervals_respect_groups_in_every_segment_and_match_the_report_overall(
    folder: Folder, store: str, weight: Weight
) -> None:
    cases = graded_cases()
    folder.write("graded.py", GRADED)
    spec = {
        "cases": cases,
        "target": "python:graded:answer",
        "variants": {"graded": {"scores": "graded"}, "binary": {"scores": "binary"}},
        "scorers": ["python:graded:grade"],
        "weight": weight,
        "store": store,
    }
    folder.write("graded.json", json.dumps(spec))
    (report,) = folder.abreast("run", "graded.json", "--quiet", "--json").json
    rows = folder.sql("select * from metrics", store)
    groups = {case["id"]: case["group"] for case in cases if "group" in case}
    assert len(rows) == 2 * (1 + len(KINDS) + 2)
    for (_, variant, segment), trials in segments_of(folder, store).items():
        (row,) = (row for row in rows if (row["variant"], row["segment"]) == (variant, segment))
        numbers = [row["score_mean"], row["score_low"], row["score_high"]]
        scores = {trial["case_id"]: trial["score"] for trial in trials if trial["score"] is not None}
        if segment == "kind=unscored":
            assert numbers == [None, None, None]
            continue
        expected = interval_of(scores, groups, weight)
        assert row["accuracy"] == pytest.approx(sum(scores.values()) / len(scores), abs=1e-9)
        assert numbers[0] == pytest.approx(expected.estimate, abs=1e-9), (variant, segment)
        assert numbers[1:] == pytest.approx([expected.low, expected.high], abs=2e-5), (variant, segment)
        if segment == "all":
            score = report["variants"][variant]["scores"]["grade"]
            assert numbers == pytest.approx([score["mean"], *score["interval"]], abs=2e-5), variant


SURE = """\
from abreast.errors import Refused, Skipped, Transient

def answer(case, sure):
    number = int(case.id[1:])
    if number % 5 == 0:
        raise Refused("no")
    if number % 7 == 0:
        raise ValueError("broken")
    if number % 11 == 0:
        raise Skipped("too large")
    if number % 13 == 0:
        raise Transient("gone")
    found = {"answer": "yes", "other": float("nan")}
    if sure == "often" and number % 3:
        found["confidence"] = number / 100
    return found
"""


def sure(folder: Folder, store: str, repeats: int = 1, infrastructure: bool = True) -> None:
    """A run in which some answers have a confidence and trials fail in every possible way."""
    lines = [
        {"id": f"c{n}", "input": f"question {n}", "expected": "yes", "tags": {"half": "one" if n < 25 else "two"}}
        for n in range(50)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write("sure.py", SURE if infrastructure else SURE.replace("raise Transient", "return Transient.kind or"))
    folder.write(
        "sure.yaml",
        "cases: cases.jsonl\ntarget: python:sure:answer\nscorers: [exact]\n"
        "variants: {often: {sure: often}, never: {sure: never}}\n"
        f"repeats: {repeats}\nlimits: {{retries: 0, breaker: 0}}\nstore: {store}\n",
    )
    assert folder.abreast("run", "sure.yaml", "--quiet").code == (3 if infrastructure else 0)


@pytest.mark.parametrize("store", ENGINES)
@pytest.mark.parametrize("repeats", [1, 2])
def test_the_mean_confidence_and_the_failures_by_kind_match_the_rows(folder: Folder, store: str, repeats: int) -> None:
    sure(folder, store, repeats)
    metrics = check_against_the_rows(folder, store)
    by_name = {(variant, segment): row for (_, variant, segment), row in metrics.items()}
    row = by_name["often", "all"]
    assert json.loads(row["failures"]) == {"refused": 10 * repeats, "crash": 6 * repeats, "network": 3 * repeats}
    assert row["mean_confidence"] is not None
    assert by_name["never", "half=two"]["mean_confidence"] is None
    assert (
        sum(json.loads(by_name["never", "half=two"]["failures"]).values()) == by_name["never", "half=two"]["n_failed"]
    )


@pytest.mark.parametrize("store", ENGINES)
def test_reused_answers_count_in_the_mean_confidence_and_reused_failures_by_kind(folder: Folder, store: str) -> None:
    sure(folder, store, infrastructure=False)
    folder.abreast("run", "sure.yaml", "--quiet")
    query = "select {} from metrics where variant = 'often' and segment = 'all'"
    assert len(folder.sql("select distinct run from predictions where reused_from is not null", store)) == 1
    for name in ("mean_confidence", "failures"):
        first, second = folder.sql(query.format(name), store)
        assert first == second != {name: None}
    check_against_the_rows(folder, store)


ODD = """\
def answer(case):
    infinite = float("inf")
    values = [0.5, 1, True, "0.9", "high", None, [1], float("nan"), infinite, -infinite, {"a": 1}, 0.25, -2, 1e-7]
    return {"answer": "yes", "confidence": values[int(case.id[1:])]}
"""


@pytest.mark.parametrize("store", ENGINES)
def test_only_numbers_count_in_the_mean_confidence(folder: Folder, store: str) -> None:
    folder.cases(14)
    folder.write("odd.py", ODD)
    folder.write(
        "odd.yaml", f"cases: cases.jsonl\nvariants: {{one: {{target: 'python:odd:answer'}}}}\nstore: {store}\n"
    )
    assert folder.abreast("run", "odd.yaml", "--quiet").code == 0
    (row,) = folder.sql("select mean_confidence, failures from metrics", store)
    assert row["mean_confidence"] == pytest.approx((0.5 + 1 + 0.25 - 2 + 1e-7) / 5)
    assert row["failures"] is None, "nothing failed"


@pytest.mark.parametrize("store", ENGINES)
def test_a_variant_that_always_failed_has_no_accuracy_but_a_score(folder: Folder, store: str) -> None:
    folder.cases(6, tags={"kind": "a"})
    folder.write(
        "fails.yaml",
        "cases: cases.jsonl\ntarget: simulated\nscorers: [exact]\n"
        "variants: {good: {}, bad: {errors: {crash: 1}}, gone: {errors: {network: 1}}}\n"
        f"limits: {{retries: 0, breaker: 0}}\nstore: {store}\n",
    )
    folder.abreast("run", "fails.yaml", "--quiet")
    check_against_the_rows(folder, store)
    query = "select variant, accuracy, score_mean, error_rate, failures from metrics where segment = 'kind=a'"
    rows = {row.pop("variant"): row for row in folder.sql(query, store)}
    assert rows["good"] == {"accuracy": 1.0, "score_mean": 1.0, "error_rate": 0.0, "failures": None}
    assert rows["bad"] == {"accuracy": None, "score_mean": 0.0, "error_rate": 1.0, "failures": '{"crash":6}'}
    assert rows["gone"] == {"accuracy": None, "score_mean": None, "error_rate": 1.0, "failures": '{"network":6}'}


@pytest.mark.parametrize("store", ENGINES)
def test_failures_and_confidence_can_be_logged(folder: Folder, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = finished(folder, store, monkeypatch)
    result.log({"failures": {"timeout": 2, "crash": 1}, "mean_confidence": 0.75}, variant="better")
    (row,) = folder.sql("select failures, mean_confidence from metrics where source = 'logged'", store)
    assert (json.loads(row["failures"]), row["mean_confidence"]) == ({"timeout": 2, "crash": 1}, 0.75)
    for wrong in ("timeout", 3, {"timeout": "two"}, {"timeout": True}, [1]):
        with pytest.raises(BadInput, match="failures must be counts by kind"):
            result.log({"failures": wrong})


def test_payloads_are_not_read_if_no_answer_has_a_confidence() -> None:
    without = [schema.Column("data", "sure", "real"), schema.Column("params", "confidence", "real")]
    for dialect in (SQLITE, DUCKDB):
        *_, view = views.create_views(dialect, without, {})
        assert "payloads" not in view
        *_, view = views.create_views(dialect, [*without, schema.Column("data", "confidence", "real")], {})
        assert "payloads" in view


def rounded(rows: list[dict[str, Any]], without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Rows without the last digits of sums, which depend on the order of the terms."""
    numbers = [
        {
            key: round(value, 9) if isinstance(value, float) else value
            for key, value in row.items()
            if key not in without
        }
        for row in rows
    ]
    return sorted(numbers, key=lambda row: [str(value) for value in row.values()])


def test_both_engines_have_the_same_segments(folder: Folder) -> None:
    results = []
    for store in ENGINES:
        tagged(folder, store, repeats=3)
        moving = ("run", "avg_latency", "p50_latency", "p95_latency")
        results.append(rounded(folder.sql("select * from metrics", store), moving))
    assert results[0] == results[1]


@pytest.mark.parametrize("store", ENGINES)
def test_a_rescore_updates_the_numbers_and_keeps_logged_rows(folder: Folder, store: str) -> None:
    lines = [
        {"id": f"c{n}", "input": "?", "expected": "Yes", "tags": {"half": "first" if n < 5 else "second"}}
        for n in range(10)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write("mine.py", "def answer(case):\n    return 'yes' if case.id < 'c5' else 'no'\n")
    spec = {
        "cases": "cases.jsonl",
        "target": "python:mine:answer",
        "variants": {"one": {}},
        "scorers": ["exact"],
        "store": store,
    }
    folder.write("spec.json", json.dumps(spec))
    assert folder.abreast("run", "spec.json", "--quiet").code == 0
    with open_store(folder.path / store) as opened:
        opened.log_metrics("latest", "one", "half=first", {"accuracy": 0.25, "judge": "human"})
    query = "select segment, accuracy from metrics where source = 'derived' order by segment"
    assert [row["accuracy"] for row in folder.sql(query, store)] == [0.0, 0.0, 0.0]
    folder.write("spec.json", json.dumps({**spec, "scorers": ["text"]}))
    assert folder.abreast("rescore", "latest", "--store", store).code == 0
    assert folder.sql(query, store) == [
        {"segment": "all", "accuracy": 0.5},
        {"segment": "half=first", "accuracy": 1.0},
        {"segment": "half=second", "accuracy": 0.0},
    ]
    check_against_the_rows(folder, store)
    assert folder.sql("select variant, segment, accuracy, judge from metrics where source = 'logged'", store) == [
        {"variant": "one", "segment": "half=first", "accuracy": 0.25, "judge": "human"}
    ]


@pytest.mark.parametrize("store", ENGINES)
def test_conditions_on_run_variant_and_segment_select_rows_without_changing_them(folder: Folder, store: str) -> None:
    for repeats in (1, 2):
        tagged(folder, store, repeats, count=20)
    rows = folder.sql("select * from metrics", store)
    assert len({row["run"] for row in rows}) == 2
    for name in ("run", "variant", "segment"):
        for value in {row[name] for row in rows}:
            expected = [row for row in rows if row[name] == value]
            actual = folder.sql(f"select * from metrics where {name} = '{value}'", store)
            assert rounded(actual) == rounded(expected)
    for condition in ("segment <> 'all'", "segment like 'category%'", "segment in ('all', 'level=hard')"):
        count = len(folder.sql(f"select * from metrics where {condition}", store))
        assert folder.sql(f"select sum({condition}) as n from (select segment from metrics)", store) == [{"n": count}]


@pytest.mark.parametrize("store", ENGINES)
def test_any_number_of_tags_with_any_name_make_segments(folder: Folder, store: str) -> None:
    tags = {name: f"a {name}" for name in ("größe", "a.b", "a/b", "~t", "it's", "two words", "*", "$", "[0]", "order")}
    tags |= {f"key{number}": "x" for number in range(600)}
    lines = [{"id": f"c{n}", "input": "?", "expected": "yes", "tags": {**tags, "own": f"v{n}"}} for n in range(30)]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write("odd.yaml", f"cases: cases.jsonl\nvariants: {{one: {{target: simulated}}}}\nstore: {store}\n")
    assert folder.abreast("run", "odd.yaml", "--quiet").code == 0
    start = time.perf_counter()
    rows = {row["segment"]: row["n_predictions"] for row in folder.sql("select * from metrics", store)}
    assert time.perf_counter() - start < 20
    assert len(rows) == 1 + len(tags) + 30
    assert all(rows[f"{key}={value}"] == 30 for key, value in tags.items())
    assert rows["own=v7"] == 1


def test_any_sqlite_client_reads_the_segments(folder: Folder) -> None:
    tagged(folder, "results.db")
    with contextlib.closing(sqlite3.connect(folder.path / "results.db")) as connection:
        segments = connection.execute("select segment, n_predictions from metrics where variant = 'plain'").fetchall()
    assert dict(segments)["level=hard"] == 15


# -- what users log ----------------------------------------------------------------------------------------------------


def finished(folder: Folder, store: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    """A run of two variants, from Python."""
    monkeypatch.chdir(folder.path)
    return Experiment(
        cases=[{"id": f"c{n}", "input": "?", "expected": "yes", "tags": {"kind": "a"}} for n in range(4)],
        variants={"plain": {"accuracy": 0.5}, "better": {"accuracy": 1.0}},
        target="simulated",
        scorers=["exact"],
        store=store,
        base=folder.path,
    ).run()


@pytest.mark.parametrize("store", ENGINES)
def test_logged_rows_appear_with_derived_rows_and_keep_their_types(
    folder: Folder, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = finished(folder, store, monkeypatch)
    values = {
        "accuracy": 0.75,
        "n_failed": 3,
        "agreement": 0.5,
        "raters": 2,
        "large": 2**62,
        "blind": True,
        "comment": "fine",
        "nothing": None,
        "unknown": float("nan"),
        "confusion": {"yes": [1, 2], "no": [float("nan")]},
        "from_numpy": np.float64(0.25),
    }
    result.log(values, variant="better", segment="kind=a")
    result.log({"agreement": 0.25})
    result.log({"agreement": 0.25})
    first, *others = folder.sql("select * from metrics where source = 'logged' order by agreement desc", store)
    logged = {
        "accuracy": 0.75,
        "n_failed": 3,
        "agreement": 0.5,
        "raters": 2,
        "large": 2**62,
        "comment": "fine",
        "nothing": None,
        "unknown": None,
        "confusion": '{"yes":[1,2],"no":[null]}',
        "from_numpy": 0.25,
        "run": result.run,
        "variant": "better",
        "segment": "kind=a",
        "n_successful": None,
    }
    assert {key: first[key] for key in logged} == logged
    assert {key: type(first[key]) for key in logged} == {key: type(value) for key, value in logged.items()}
    assert bool(first["blind"]) is True
    assert [(row["variant"], row["segment"], row["agreement"]) for row in others] == [(None, "all", 0.25)] * 2
    assert list(first)[: len(CONTRACT)] == CONTRACT
    assert first["data_commit"] is not None
    derived = folder.sql("select * from metrics where source = 'derived'", store)
    assert len(derived) == 4
    assert {row["agreement"] for row in derived} == {None}


ODD_NAMES = [
    "order",
    "group",
    "größe",
    "名前",
    "two words",
    "it's",
    'a "quoted" one',
    "a.b",
    "a/b",
    "~t",
    "*",
    "Note",
    "note",
]


@pytest.mark.parametrize("store", ENGINES)
def test_any_name_can_be_logged(folder: Folder, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = finished(folder, store, monkeypatch)
    result.log({name: f"value of {name}" for name in ODD_NAMES})
    (row,) = folder.sql("select * from metrics where source = 'logged'", store)
    for name in ODD_NAMES:
        assert row["Note_2" if name == "Note" else name] == f"value of {name}"
    assert len(folder.sql("select * from predictions", store)) == 8


@pytest.mark.parametrize("store", ENGINES)
def test_a_column_holds_logged_values_of_several_types(
    folder: Folder, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = finished(folder, store, monkeypatch)
    for number, value in enumerate([1, 2.5, "text", None]):
        result.log({"number": number, "mixed": value})
    values = folder.sql("select mixed from metrics where source = 'logged' order by number", store)
    assert [str(row["mixed"]) for row in values] == ["1", "2.5", "text", "None"]


def test_values_that_cannot_be_logged_are_refused_with_a_fix(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    result = finished(folder, "results.db", monkeypatch)
    for values, message in [
        ({}, "a mapping"),
        ([1], "a mapping"),
        ({"": 1}, "invalid column name"),
        ({" ": 1}, "invalid column name"),
        ({3: 1}, "invalid column name"),
        ({"a\0b": 1}, "invalid column name"),
        ({"x" * 300: 1}, "300 characters"),
        ({"segment": "x"}, "segment"),
        ({"Run": "x"}, "Run"),
        ({"Accuracy": 1}, '"accuracy"'),
        ({"accuracy": "high"}, "accuracy must be a number"),
        ({"accuracy": True}, "accuracy must be a number"),
        ({"n_failed": 1.5}, "n_failed must be an integer"),
        ({"code_commit": 5}, "code_commit must be text"),
        ({"x": float("inf")}, "x is inf"),
        ({f"k{number}": 1 for number in range(1001)}, "1,000 columns"),
    ]:
        with pytest.raises(BadInput) as caught:
            result.log(values)  # type: ignore[arg-type]
        assert message in caught.value.message + caught.value.fix, values
        assert caught.value.fix
    for segment in ("", " ", None, "a\0b"):
        with pytest.raises(BadInput, match="segment"):
            result.log({"x": 1}, segment=segment)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r'no variant "beter" \(did you mean "better"'):
        result.log({"x": 1}, variant="beter")
    assert folder.sql("select * from logged_metrics") == []
    assert folder.sql("select * from columns where kind = 'metric'") == []


@pytest.mark.parametrize("store", ENGINES)
def test_deleting_a_run_deletes_its_logged_rows_only(
    folder: Folder, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = finished(folder, store, monkeypatch), finished(folder, store, monkeypatch)
    for result in (first, second):
        result.log({"x": 1}, variant="plain")
    query = "select run from metrics where source = 'logged' order by run"
    assert [row["run"] for row in folder.sql(query, store)] == sorted([first.run, second.run])
    assert folder.abreast("delete", "--store", store, first.run, "--yes").code == 0
    assert folder.sql(query, store) == [{"run": second.run}]
    assert folder.sql("select count(*) as n from logged_metrics", store) == [{"n": 1}]
    if store.endswith("duckdb"):
        with duckdb.connect(str(folder.path / store), read_only=True) as client:
            assert client.execute("select count(*) from logged_metrics").fetchall() == [(1,)]
    with pytest.raises(BadInput, match="no run"):
        first.log({"x": 2})


def test_a_logged_row_stays_when_its_run_is_resumed(folder: Folder) -> None:
    folder.cases(6)
    folder.write(
        "spec.yaml", "cases: cases.jsonl\nvariants: {one: {target: simulated, cost_usd: 1}}\nscorers: [exact]\n"
    )
    assert folder.abreast("run", "spec.yaml", "--quiet", "--budget", "3", "--parallel", "1", "--yes").code == 3
    with open_store(folder.path / "results.db") as store:
        store.log_metrics("latest", None, "all", {"note": "halfway"})
    assert folder.abreast("run", "spec.yaml", "--quiet", "--yes").code == 0
    assert folder.sql("select segment, note from metrics where source = 'logged'") == [
        {"segment": "all", "note": "halfway"}
    ]
    assert folder.sql("select n_predictions from metrics where source = 'derived'") == [{"n_predictions": 6}]


def made_older(path: Path) -> None:
    """Downgrade a file to the second format."""
    connection = apsw.Connection(str(path))
    connection.execute("DROP VIEW metrics; DROP VIEW predictions; DROP TABLE logged_metrics")
    connection.execute("ALTER TABLE trials DROP COLUMN block")
    connection.execute(WITHOUT_VERSION_5)
    connection.execute("CREATE VIEW predictions AS SELECT 1 AS one; CREATE VIEW metrics AS SELECT 1 AS one")
    connection.execute("PRAGMA user_version=2")
    connection.close()


@pytest.mark.parametrize("store", ENGINES)
def test_a_store_of_an_older_abreast_gets_segments_and_accepts_logged_rows(folder: Folder, store: str) -> None:
    tagged(folder, store)
    before = rounded(folder.sql("select * from metrics", store))
    made_older(folder.path / (store + ".journal" if store.endswith("duckdb") else store))
    if store.endswith("duckdb"):
        with duckdb.connect(str(folder.path / store)) as connection:
            connection.execute("DROP VIEW metrics; DROP VIEW predictions; DROP TABLE logged_metrics")
    assert rounded(folder.sql("select * from metrics", store)) == before
    with open_store(folder.path / store) as opened:
        opened.log_metrics("latest", "plain", "all", {"x": 1})
    assert folder.sql("select x from metrics where source = 'logged'", store) == [{"x": 1}]


def test_a_store_of_the_previous_format_gets_the_new_view(folder: Folder) -> None:
    tagged(folder, "results.db")
    before = folder.sql("select * from metrics")
    with contextlib.closing(apsw.Connection(str(folder.path / "results.db"))) as connection:
        connection.execute("DROP VIEW predictions; DROP VIEW metrics; CREATE VIEW metrics AS SELECT 1 AS one")
        connection.execute("ALTER TABLE runs DROP COLUMN in_flight; PRAGMA user_version=5")
    assert folder.sql("select * from metrics") == before


def test_the_largest_number_of_logged_columns_makes_a_readable_view() -> None:
    columns = [schema.Column("metric", f"k{number}", "integer") for number in range(schema.MOST_LOGGED)]
    with contextlib.closing(apsw.Connection(":memory:")) as connection:
        for statement in [*schema.create_tables(SQLITE), *views.create_views(SQLITE, columns, {})]:
            connection.execute(statement)
        assert connection.execute("SELECT * FROM metrics").fetchall() == []


def test_many_trials_are_summed_quickly_and_unused_segments_are_not_computed(folder: Folder) -> None:
    tagged(folder, "results.db")
    with contextlib.closing(apsw.Connection(str(folder.path / "results.db"))) as connection:
        names = ", ".join(name for name in schema.TABLES["trials"] if name != "position")
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO trials "
            f"(position, {names}) SELECT position + 1000 * i, {names} FROM trials CROSS JOIN n"
        )

        def steps(condition: str) -> int:
            """The work of SQLite in virtual machine instructions: a measure without a clock."""
            counted = 0

            def count() -> bool:
                nonlocal counted
                counted += 1
                return False

            connection.set_progress_handler(count, 1000)
            connection.execute(f"SELECT * FROM metrics {condition}").fetchall()
            connection.set_progress_handler(None)
            return counted

        everything = steps("")
        assert steps("WHERE segment = 'all'") < 0.5 * everything
        assert steps("WHERE segment = 'level=hard'") < 0.8 * everything
        assert steps("WHERE run = 'another'") < 0.01 * everything
        assert everything < 20_000  # 24,120 trials: some five hundred instructions for each

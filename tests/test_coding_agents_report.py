"""The report of the suite `coding-agents`, with figures that can be checked by hand, and its results files."""

from __future__ import annotations

import csv
import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from abreast.analyse.run import analyse
from abreast.experiment.facade import Experiment
from abreast.report.formats.terminal import as_text
from abreast.report.sections import Section
from abreast.stats import holm, paired_t, wilson
from abreast.store import open_store
from abreast.suites.coding_agents.report import sections
from conftest import Folder

AGENT = """\
import collections, os
from abreast import Answer, Usage
from abreast.errors import Crashed, Skipped, Transient

ERRORS = {"crash": Crashed, "network": Transient, "skip": Skipped}


def work(case, who):
    '''What the case has for this agent and run.'''
    asked = vars(collections).setdefault("_asked_of_coders", collections.Counter())
    key = os.getcwd(), case.id, who
    said = case.input[who][asked[key] % len(case.input[who])]
    asked[key] += 1
    cost = said.get("cost")
    answer = Answer(
        str(said.get("score", 1)),
        data={name: said[name] for name in said if name not in ("score", "cost", "usage", "error", "diff")},
        usage=Usage(*said.get("usage", (None, None))),
        cost_usd=cost,
        cost_basis="unknown" if cost is None else "reported",
        artifacts={"diff": said["diff"]} if "diff" in said else {},
    )
    if "error" in said:
        error = ERRORS[said["error"]](said["error"])
        error.answer = answer
        raise error
    return answer


def judge(case, answer):
    return float(answer.text) if answer.text != "none" else None
"""
TESTS = {"python:agent:judge": {"name": "tests"}}


def run_data(score: float = 1.0, files: int | None = 1, **more: Any) -> dict[str, Any]:
    """One run; further keywords are its data."""
    counts = {} if files is None else {"files_changed": files, "lines_added": 3 * files, "lines_deleted": files}
    return {"score": score, **counts, **more}


Run = Callable[..., dict[str, Section]]


@pytest.fixture
def run(folder: Folder) -> Run:
    """A function that runs tasks and returns the sections of the report by name."""
    folder.write("agent.py", AGENT)

    def report(tasks: list[dict[str, Any]], expected: Any = None, **more: Any) -> dict[str, Section]:
        """Run these tasks, which have for each agent one run or a list with one per repeat."""
        agent_runs = [{name: own if isinstance(own, list) else [own] for name, own in task.items()} for task in tasks]
        right = expected or [None] * len(agent_runs)
        cases = [{"id": f"t{n}", "input": task, "expected": right[n]} for n, task in enumerate(agent_runs)]
        names = list(agent_runs[0])
        settings_of_run = {"scorers": [TESTS, "success"], "limits": {"retries": 0, "breaker": 1000}, **more}
        Experiment(
            name="tried",
            suite="coding-agents",
            cases=cases,
            variants={name: {"target": "python:agent:work", "who": name} for name in names},
            repeats=max(len(own) for own in agent_runs[0].values()),
            base=folder.path,
            **settings_of_run,
        ).run()
        return last_sections(folder)

    return report


def last_sections(folder: Folder) -> dict[str, Section]:
    """The sections of the last run, after checks that tables are rectangular and the data are JSON."""
    analysis = analyse(open_store(folder.path / "results.db"), "latest")
    as_text(analysis)  # draws every chart
    report_sections = sections(analysis)
    for section in report_sections:
        json.dumps(section.data, allow_nan=False)
        for table in section.tables:
            assert all(len(row) == len(table.head) for row in table.rows), table
    return {section.name: section for section in report_sections}


def measure(section: Section, name: str) -> dict[str, Any]:
    (match,) = [item for item in section.data["measures"] if item["name"] == name]
    return dict(match)


def rows(section: Section, at: int = 0) -> dict[str, dict[str, str]]:
    table = section.tables[at]
    return {row[0]: dict(zip(table.head[1:], row[1:], strict=True)) for row in table.rows}


# The agents side by side


def test_failures_of_the_agent_count_and_those_of_infrastructure_do_not(run: Run) -> None:
    crash, network = run_data(error="crash", files=5, cost=9.0), run_data(error="network")
    parts = run(
        [
            {"a": [run_data(1, cost=0.1), run_data(1, cost=0.3)], "b": [run_data(1, cost=0.2), crash]},
            {"a": [run_data(0, cost=0.2), network], "b": [run_data(1, files=0, cost=0.4), run_data(1, cost=0.4)]},
        ],
        limits={"retries": 0, "breaker": 1000},
    )
    agents = parts["agents"]
    assert measure(agents, "error_rate")["values"] == {"a": 0.0, "b": 0.25}
    assert measure(agents, "success_rate")["values"] == {"a": 1.0, "b": 0.75}
    assert measure(agents, "no_change_rate")["values"] == {"a": 0.0, "b": 0.25}
    assert measure(agents, "tests")["values"] == {"a": 0.5, "b": 0.75}
    assert measure(agents, "cost_usd")["values"] == {"a": pytest.approx(0.2), "b": pytest.approx(0.3)}
    assert measure(agents, "files_changed")["values"] == {"a": 1.0, "b": 0.75}, "what failed is not averaged in"
    assert agents.data["runs"]["a"] == {
        "planned": 4,
        "ok": 3,
        "failed": 0,
        "infrastructure": 1,
        "skipped": 0,
        "not_run": 0,
    }
    assert agents.data["runs"]["b"]["failed"] == 1
    assert "not counted for or against any agent: 1 run of a failed by infrastructure" in agents.sentences
    assert rows(agents)["runs"] == {"a (baseline)": "4 (1 failed)", "b": "4 (1 failed)"}
    assert "an agent's failure scores 0" in agents.tables[0].note
    assert "pairs" not in parts, "with two agents the verdict covers it"


def test_amounts_are_compared_where_all_ended_well(run: Run) -> None:
    """An agent that gives up on hard tasks does not look cheaper for it."""
    hard, easy = run_data(turns=90, cost=9.0), run_data(turns=10, cost=1.0)
    parts = run([{"brave": easy, "weak": easy}, {"brave": hard, "weak": run_data(error="crash", turns=1, cost=0.1)}])
    agents = parts["agents"]
    for name, value in (("turns", 10.0), ("cost_usd", 1.0)):
        assert measure(agents, name)["values"] == {"brave": value, "weak": value}
        assert measure(agents, name)["cases"] == 1
    assert "amounts are compared on 1 of 2 cases, those completed by both agents" in agents.sentences
    assert measure(agents, "cost_per_solved_usd")["values"] == {"brave": 5.0, "weak": pytest.approx(1.1)}


def test_a_failure_loses_no_score_that_no_agent_could_win(run: Run) -> None:
    """Pull requests without meaningful tests: a crashed agent has passed as many of them as any other."""
    unscored = {**run_data(), "score": "none"}
    parts = run(
        [
            {"a": run_data(1), "b": run_data(1)},
            {"a": run_data(0), "b": run_data(1)},
            {"a": unscored, "b": run_data(error="crash")},
            {"a": run_data(error="crash"), "b": run_data(error="crash")},
        ]
    )
    assert measure(parts["agents"], "tests")["values"] == {"a": pytest.approx(1 / 3), "b": pytest.approx(2 / 3)}
    assert measure(parts["agents"], "error_rate")["values"] == {"a": 0.25, "b": 0.5}
    scores = {item["id"]: item["scores"] for item in parts["prompts"].data["cases"]}
    assert scores["t2"] == {"a": None, "b": None}
    assert scores["t3"] == {"a": 0.0, "b": 0.0}, "no agent could win a score there"


def test_partly_known_amounts_are_compared_where_all_agents_have_them(folder: Folder) -> None:
    """Of answers that are reused the time is not told again: an agent with new ones at the slow prompt alone is no
    slower than one with new ones at all of them."""
    folder.write("slow.md", "wait")
    folder.write("quick.md", "go")
    command = "grep -q wait {prompt} && sleep 0.7; echo done"
    own = {name: {"commandTemplate": command} for name in ("old", "new")}
    plan = {"agents": ["old"], "prompts": ["quick.md"], "agent_config": {"old": own["old"]}}
    folder.write("settings.json", json.dumps(plan))
    assert folder.abreast("run", "settings.json", "--quiet").code == 0
    plan = {"agents": ["old", "new"], "prompts": ["quick.md", "slow.md"], "agent_config": own}
    folder.write("settings.json", json.dumps(plan))
    assert folder.abreast("run", "settings.json", "--quiet").code == 0
    agents = last_sections(folder)["agents"]
    median = measure(agents, "response_time_median_s")
    assert median["cases"] == 1
    assert min(median["values"].values()) > 0.6, "both at the slow prompt"
    assert measure(agents, "cpu_s")["cases"] == 2


def test_an_agent_that_always_fails_has_no_scores_and_others_are_compared(run: Run) -> None:
    crash = run_data(error="crash")
    parts = run(
        [{"a": run_data(1), "b": run_data(0), "broken": crash}, {"a": run_data(1), "b": run_data(1), "broken": crash}]
    )
    table = rows(parts["agents"])
    assert table["tests passed"]["broken"] == "N/A (all failed)"
    assert table["error rate"]["broken"].startswith("100.0 %")
    assert measure(parts["agents"], "files_changed")["values"] == {"a": 1.0, "b": 1.0, "broken": None}
    assert parts["agents"].data["common_cases"] == 2


def recomputed(rows: list[dict[str, Any]], names: list[str]) -> dict[str, dict[str, float | None]]:
    """The figures from rows of `predictions`, with nothing but plain Python."""
    judged = [row for row in rows if row["status"] == "ok" or row["error_blame"] == "variant"]
    well = [row for row in rows if row["status"] == "ok"]
    ids = {row["case_id"] for row in rows}
    active = [name for name in names if any(row["variant"] == name for row in well)]
    common = {
        case for case in ids if all(any(r["variant"] == n and r["case_id"] == case for r in well) for n in active)
    } or ids

    def over(chosen: list[dict[str, Any]], figure: Callable[[dict[str, Any]], float | None]) -> dict[str, Any]:
        means: dict[str, Any] = {}
        for name in names:
            by_case: dict[str, list[float]] = {}
            for row in chosen:
                value = figure(row) if row["variant"] == name else None
                if value is not None:
                    by_case.setdefault(row["case_id"], []).append(value)
            means[name] = mean(map(mean, by_case.values())) if by_case else None
        return means

    amounts = [row for row in well if row["case_id"] in common]
    return {
        "success_rate": over(judged, lambda row: row["score_success"] if row["status"] == "ok" else 0.0),
        "error_rate": over(judged, lambda row: float(row["status"] == "error")),
        "no_change_rate": over(judged, lambda row: float(row["status"] == "ok" and row["files_changed"] == 0)),
        "tests": over(judged, lambda row: row["score"]),
        "files_changed": over(amounts, lambda row: row["files_changed"]),
        "lines_added": over(amounts, lambda row: row["lines_added"]),
        "tokens_in": over(amounts, lambda row: row["input_tokens"]),
        "tokens_out": over(amounts, lambda row: row["output_tokens"]),
        "cost_usd": over(amounts, lambda row: row["cost_usd"]),
        "turns": over(amounts, lambda row: row["turns"]),
        "response_time_p95_s": {name: ranked(amounts, name, 0.95) for name in names},
        "response_time_median_s": {name: ranked(amounts, name, 0.5) for name in names},
    }


def ranked(rows: list[dict[str, Any]], name: str, share: float) -> float | None:
    """Percentile by the nearest-rank method."""
    times = sorted(row["service_s"] for row in rows if row["variant"] == name)
    return times[max(0, math.ceil(share * len(times)) - 1)] if times else None


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_figure_can_be_computed_from_the_rows_by_hand(run: Run, folder: Folder, seed: int) -> None:
    chance = random.Random(seed)

    def any_run() -> dict[str, Any]:
        data = run_data(
            chance.choice([0.0, 1.0, 1.0]),
            chance.randrange(3),
            usage=(chance.randrange(1000), chance.randrange(100)),
            turns=chance.randrange(9),
            cost=chance.random(),
        )
        kind = chance.choice(["", "", "", "", "crash", "network"])
        return {**data, "error": kind} if kind else data

    names = ["a", "b", "c"]
    parts = run([{name: [any_run() for _ in range(3)] for name in names} for _ in range(6)])
    predictions = folder.sql("select * from predictions")
    assert len(predictions) == 54
    agents = parts["agents"]
    for name, expected in recomputed(predictions, names).items():
        assert measure(agents, name)["values"] == pytest.approx(expected), name
    for case in parts["prompts"].data["cases"]:
        for agent in names:
            own_rows = [row for row in predictions if row["case_id"] == case["id"] and row["variant"] == agent]
            scores = [row["score"] for row in own_rows if row["score"] is not None]
            times = [row["service_s"] for row in own_rows if row["status"] == "ok"]
            assert case["scores"][agent] == (pytest.approx(mean(scores)) if scores else None)
            assert (case["passed"][agent] or 0, case["runs"][agent]) == (scores.count(1.0), len(scores))
            assert case["seconds"][agent] == (pytest.approx(mean(times)) if times else None)
            failed = sum(item["runs"] for item in case["failed"][agent])
            assert failed == sum(row["status"] == "error" for row in own_rows)
    quiet = [row for row in predictions if row["status"] == "ok" and row["files_changed"] == 0]
    assert sum(item["runs"] for item in parts["changes"].data["unchanged"]) == len(quiet)


def test_intervals_are_shown_only_where_they_can_be_trusted(run: Run) -> None:
    costs = [0.1, 0.2, 0.2, 0.4, 0.5, 0.1]
    agents = run([{"a": run_data(cost=cost), "b": run_data(0)} for cost in costs])["agents"]
    expected = paired_t(costs)
    assert measure(agents, "cost_usd")["intervals"]["a"] == [pytest.approx(expected.low), pytest.approx(expected.high)]
    assert measure(agents, "files_changed")["intervals"]["a"] is None, "all alike is not certainty"
    passed = wilson(6, 6)
    assert measure(agents, "tests")["intervals"]["a"] == [pytest.approx(passed.low), pytest.approx(passed.high)]
    few = run([{"a": run_data(cost=cost + 1), "b": run_data(0)} for cost in costs[:4]])["agents"]
    assert measure(few, "cost_usd")["intervals"]["a"] is None


# Every agent against every other


def test_pairs_have_a_verdict_or_the_reason_for_none(run: Run) -> None:
    """Two agents solve 14 of 16 tasks, the third none."""
    good = [run_data(float(n % 8 > 0)) for n in range(16)]
    pairs = run([{"a": good[n], "b": run_data(0), "c": good[n]} for n in range(16)])["pairs"]
    by = {(item["variant"], item["baseline"]): item for item in pairs.data["pairs"]}
    assert {pair: item["verdict"] for pair, item in by.items()} == {
        ("b", "a"): "worse",
        ("c", "a"): "inconclusive",
        ("c", "b"): "better",
    }
    assert by["b", "a"]["effect"] == pytest.approx(-14 / 16)
    assert (by["c", "b"]["wins"], by["c", "b"]["ties"]) == (14, 2)
    assert [item["p_adjusted"] for item in by.values()] == pytest.approx(holm([item["p"] for item in by.values()]))
    assert "a is better than b" in pairs.sentences
    assert "c is better than b" in pairs.sentences
    assert "a and c: no verdict with 0 wins and 0 losses of c (no case differs)" in pairs.sentences


# Prompt by prompt


def test_the_winner_of_a_task_comes_from_the_runs_that_all_agents_have(run: Run) -> None:
    network = run_data(error="network")
    parts = run(
        [
            {"a": [run_data(1), run_data(1)], "b": [run_data(1), run_data(0)], "c": [run_data(0), run_data(0)]},
            {"a": [run_data(1), run_data(1)], "b": [run_data(1), run_data(1)], "c": [run_data(0), run_data(1)]},
            {"a": [run_data(1), run_data(0)], "b": [run_data(1), run_data(0)], "c": [run_data(1), run_data(0)]},
            {
                "a": [run_data(1), run_data(0)],
                "b": [run_data(0), network],
                "c": [run_data(1), run_data(1)],
            },  # only the first counts
            {"a": [run_data(1), run_data(1)], "b": [network, network], "c": [network, network]},
        ]
    )["prompts"]
    winners = [case["winner"] for case in parts.data["cases"]]
    assert winners == ["a", ["a", "b"], "tie", ["a", "c"], None]
    table = rows(parts)
    assert table["t0"] == {"winner": "a", "a": "100 % (2/2)", "b": "50 % (1/2)", "c": "0 % (0/2)"}
    assert table["t1"]["winner"] == "a, b"
    assert (table["t4"]["winner"], table["t4"]["b"]) == ("–", "–")
    assert parts.sentences == ("sole winner: a 1, b 0, c 0, of 4 cases",)
    assert [row for row in parts.tables[2].rows if row[0] == "t4"] == [
        ("t4", "b", "2 network"),
        ("t4", "c", "2 network"),
    ]


def test_charts_show_means_and_state_what_they_omit(run: Run, folder: Folder) -> None:
    """The last run is not the mean; of many tasks only those that differ most are drawn, and the table has all."""
    tasks = [{"a": [run_data(1), run_data(1), run_data(0)], "b": [run_data(0)] * 3} for _ in range(12)]
    tasks[11] = {"a": [run_data(0)] * 3, "b": [run_data(0)] * 3}
    parts = run(tasks)
    picture = next(item for item in parts["prompts"].pictures if item.name == "tests")
    assert len(picture.rows) == 12
    assert picture.rows[0] == ("t0", "66.7 % (21 … 94)", "0.0 % (0 … 56)")
    assert "the 10 of 12 cases that differ most" in picture.below
    assert "t0: a 66.7 %, b 0.0 %" in picture.alternative
    assert "t11" not in picture.alternative
    summary = next(item for item in parts["agents"].pictures if item.name == "summary")
    assert "tests passed: a 61.1 %, b 0.0 %" in summary.alternative
    assert len(parts["agents"].pictures) + len(parts["prompts"].pictures) + len(parts["changes"].pictures) <= 6


# What was changed

DIFF = """\
diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -1,3 +1,4 @@
 one
-two
+three
+four
 five
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+new
diff --git a/old.txt b/names/old.txt
similarity index 100%
rename from old.txt
rename to names/old.txt
"""


def test_human_changes_are_shown_beside_those_of_agents(run: Run) -> None:
    expected = [{"diff": DIFF}, {"diff": DIFF.partition("diff --git a/new")[0]}]
    small = run_data(files=1, diff=DIFF, files_added=1)
    parts = run(
        [{"a": small, "b": run_data(files=0)}, {"a": small, "b": small}],
        expected=expected,
        scorers=["change_similarity", "success"],
    )
    changes = parts["changes"]
    assert changes.data["people"] == {
        "files_changed": 2.0,
        "files_added": 0.0,  # from the only task for which both agents report it
        "files_modified": 1.0,
        "files_deleted": 0.0,
        "files_renamed": 0.5,
        "files_binary": 0.0,
        "lines_added": 2.5,
        "lines_deleted": 1.0,
        "lines_modified": 1.0,
    }
    assert changes.data["counts"]["files_added"] == {"a": 1.0, "b": 1.0}, "only one run of b reports it"
    assert changes.data["unchanged"] == [{"case": "t0", "agent": "b", "runs": 1, "of": 1}]
    assert changes.sentences == ("1 run completed without changing anything: b at t0",)
    assert rows(changes)["lines added"] == {"a": "3", "b": "1.50", "people": "2.50"}
    assert measure(parts["agents"], "change_similarity")["values"]["a"] > 0.5


def test_answers_without_files_have_no_section_of_changes(run: Run) -> None:
    assert "changes" not in run([{"a": run_data(files=0), "b": run_data(files=0)}])
    parts = run([{"a": run_data(files=None), "b": run_data(files=None)}])
    assert "changes" not in parts
    assert "no-change rate" not in rows(parts["agents"])


# The results files

PROMPTS = {"greet.md": "Write a greeting.", "count.md": "Count to three."}
AGENTS = {
    "polite": "cat {prompt} > answer.txt; echo done",
    "silent": "true",
    "broken": "echo half; echo =no+idea >&2; exit 3",
}


def settings(folder: Folder, **more: Any) -> None:
    folder.write("project/readme.txt", "hello\n")
    for name, text in PROMPTS.items():
        folder.write(name, text)
    content = {
        "prompts": list(PROMPTS),
        "agents": list(AGENTS),
        "runs_per_prompt": 2,
        "repo_path": "project",
        "check": "test -s answer.txt",
        "output_filename": "bench",
        "agent_config": {name: {"commandTemplate": command} for name, command in AGENTS.items()},
        **more,
    }
    folder.write("settings.json", json.dumps(content))


def document(folder: Folder, name: str = "bench.json") -> Any:
    return json.loads((folder.path / name).read_text(encoding="utf-8"))


def test_a_run_writes_its_results_beside_the_store_and_keeps_earlier_ones(folder: Folder) -> None:
    settings(folder)
    done = folder.abreast("run", "settings.json")
    assert done.code == 0, done.output
    assert re.search(r"results  bench.json, bench.csv, bench.md and \d+ pictures", done.out)
    for title in ("The agents side by side", "Every agent against every other", "Prompt by prompt", "What was changed"):
        assert title in done.out
    assert "silent at greet.md (2 of 2), count.md (2 of 2)" in " ".join(done.out.split())
    results = document(folder)
    meta = results["metadata"]
    assert (meta["totalRuns"], meta["plannedRuns"], meta["generator"], results["incomplete"]) == (
        12,
        12,
        "abreast",
        False,
    )
    assert set(meta["platform"]) == {"platform", "arch", "python"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", meta["timestamp"])
    assert [(item["prompt"], item["assistant"]) for item in results["results"]] == [
        (prompt, agent) for prompt in PROMPTS for agent in AGENTS
    ]
    by = {(item["prompt"], item["assistant"]): item["runs"] for item in results["results"]}
    assert {tuple(run["run_id"] for run in runs) for runs in by.values()} == {(1, 2)}
    good, broken = by["greet.md", "polite"][0], by["greet.md", "broken"][1]
    assert good["response_time"] > 0
    assert (good["error"], good["tests_passed"], good["status"], good["exit_code"]) == (None, 1.0, "ok", 0)
    assert good["diff_metrics"] == {
        "files_added": 1,
        "files_modified": 0,
        "files_deleted": 0,
        "files_renamed": 0,
        "files_binary": 0,
        "lines_added": 1,
        "lines_deleted": 0,
        "lines_modified": 0,
    }
    assert broken["error"] == "crash: exit code 3: =no+idea"
    assert [broken[name] for name in ("response_time", "tests_passed", "diff_metrics")] == [None] * 3
    assert (broken["score"], broken["error_kind"], broken["error_blame"]) == (0.0, "crash", "variant")
    assert broken["duration_s"] > 0
    assert results["summary"]["pairs"]["pairs"][0]["baseline"] == "polite"
    assert results["summary"]["verdict"][0].startswith("inconclusive: silent vs polite")
    with (folder.path / "bench.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 12
    assert {row["lines_added"] for row in table if row["assistant"] == "polite"} == {"1"}
    assert "### Prompt by prompt" in (folder.path / "bench.md").read_text(encoding="utf-8")
    pictures = {path.name for path in folder.path.glob("bench_*.svg")}
    assert {"bench_summary.svg", "bench_tests.svg", "bench_response_time.svg", "bench_lines_changed.svg"} <= pictures
    assert (folder.path / "bench_tests.png").read_bytes().startswith(b"\x89PNG")
    check_later_runs(folder, meta["run"])


def check_later_runs(folder: Folder, first: str) -> None:
    """Check later runs of the same name: the newest results are beside the store, and foreign files are kept."""
    before = {path.name: path.stat().st_mtime_ns for path in folder.path.glob("bench*")}
    assert folder.abreast("report", "--no-pictures").code == 0
    assert {path.name: path.stat().st_mtime_ns for path in folder.path.glob("bench*")} == before, "nothing is new"
    (folder.path / "bench.md").write_text("my own notes\n", encoding="utf-8")
    done = folder.abreast(
        "run", "settings.json", "--fresh", "--quiet", "--no-pictures", "--variant", "polite", "--json"
    )
    assert done.code == 0, done.output
    assert "warning: bench.md was not written by abreast, or has changed since: kept it" in done.err
    assert [Path(path).name for path in done.json[0]["results"]] == ["bench.json", "bench.csv", "bench-2.md"]
    second = document(folder)["metadata"]["run"]
    assert second == done.json[0]["run"] != first
    assert (folder.path / "bench.md").read_text(encoding="utf-8") == "my own notes\n"
    assert document(folder, f"runs/{first}/bench.json")["metadata"]["run"] == first
    reported = folder.abreast("report", first, "--no-pictures")
    assert f"results  runs/{first}/bench.json" in reported.out
    assert document(folder)["metadata"]["run"] == second, "an older run does not take the place of the newest"
    written = folder.abreast("report", "--format", "markdown,json", "--output", "elsewhere", "--no-pictures")
    assert "elsewhere/bench.json" in written.out
    assert folder.abreast("delete", second, "--yes").code == 0
    assert not (folder.path / "bench.json").exists(), "it is deleted with its run"
    assert not (folder.path / "bench-2.md").exists()
    assert (folder.path / "bench.md").exists()
    assert not list(folder.path.glob(".bench*"))


def test_results_list_what_was_not_run(run: Run, folder: Folder) -> None:
    lost = {"a": run_data(error="network"), "b": run_data(error="network")}
    run([{"a": run_data(), "b": run_data()}, *[lost] * 9], output="bench", limits={"retries": 0, "breaker": 2})
    results = document(folder)
    assert results["incomplete"] is True
    assert results["not_run"]["runs"] == 20 - results["metadata"]["totalRuns"] > 0
    assert "were not run" in results["not_run"]["why"]
    assert sum(len(item["runs"]) + item["not_run"] for item in results["results"]) == 2 * len(
        {item["prompt"] for item in results["results"]}
    )
    infrastructure = [run for item in results["results"] for run in item["runs"] if run["error_kind"] == "network"]
    assert {(run["score"], run["error_blame"]) for run in infrastructure} == {(None, "infrastructure")}
    assert last_sections(folder)["agents"].data["runs"]["a"]["not_run"] > 0


JUDGE = """\
import json

DIMENSIONS = ("completeness", "functional_correctness")


def rate(case):
    worth = 10 if "0.5" in case.input else 4
    return json.dumps({name: {"justification": "seen", "score": worth} for name in DIMENSIONS})
"""


def test_ratings_are_on_their_own_scale_everywhere(run: Run, folder: Folder) -> None:
    folder.write("judging.py", JUDGE)
    rubric = dict.fromkeys(("completeness", "functional_correctness"), "How good?")
    judge = {"judge": {"target": "python:judging:rate", "rubric": rubric, "scale": [1, 10], "shows": ["answer"]}}
    parts = run(
        [{"a": run_data(0.5), "b": run_data(0.25)}, {"a": run_data(0.5), "b": run_data(error="crash")}],
        scorers=[judge, "success"],
        output="bench",
    )
    values = measure(parts["agents"], "judge_completeness")
    assert (values["values"], values["scale"]) == ({"a": 10.0, "b": 2.5}, [1.0, 10.0])  # 4, and 1 for the failure
    assert rows(parts["agents"])["completeness"]["a (baseline)"].startswith("10.0 (")
    assert "judged from 1 to 10, a failure as 1" in parts["agents"].tables[0].note
    assert parts["prompts"].data["cases"][0]["scores"] == {"a": 10.0, "b": 4.0}
    by = {(item["prompt"], item["assistant"]): item["runs"][0] for item in document(folder)["results"]}
    assert [by["t0", "b"][name] for name in ("completeness", "logical_correctness", "judge")] == [4.0] * 3
    assert by["t1", "b"]["completeness"] is None
    assert "bench_judge_completeness.svg" in {path.name for path in folder.path.glob("bench*.svg")}


def test_similarity_is_available_under_both_names(run: Run, folder: Folder) -> None:
    tasks = [{"a": run_data(diff=DIFF), "b": run_data(files=0)}]
    run(tasks, expected=[{"diff": DIFF}], scorers=["change_similarity"], output="bench")
    a, b = (item["runs"][0] for item in document(folder)["results"])
    assert (a["change_similarity"], a["ast_similarity"]) == (1.0, 10.0)
    assert (b["change_similarity"], b["ast_similarity"]) == (0.0, 0.0)


def test_unwritable_results_give_a_warning_and_the_verdict_is_still_printed(folder: Folder) -> None:
    settings(folder)
    (folder.path / "runs").write_text("in the way\n")
    done = folder.abreast("run", "settings.json", "--no-pictures")
    assert done.code == 0, done.output
    assert "warning: cannot write the result files" in done.err
    assert "silent against polite" in done.out


@pytest.mark.parametrize("name", ["../out", "a/b", ".hidden", ""])
def test_the_name_of_results_must_be_a_plain_name(folder: Folder, name: str) -> None:
    settings(folder)
    done = folder.abreast("run", "settings.json", "--results", name)
    assert done.code == 2
    assert "--results: " in done.err
    assert "is not a plain name" in done.err


def test_a_debug_run_writes_no_results(folder: Folder) -> None:
    settings(folder)
    done = folder.abreast("run", "settings.json", "--debug", "1", "--quiet", "--no-pictures")
    assert done.code == 0, done.output
    assert not (folder.path / "bench.json").exists()
    assert len(list(folder.path.glob("runs/*/bench.json"))) == 1

"""The report of the suite `code-search`: its figures are recomputed by hand from the rows."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from abreast.analyse.run import analyse
from abreast.experiment.facade import Experiment
from abreast.report.formats import catalogue
from abreast.report.formats.terminal import as_text
from abreast.report.sections import Section
from abreast.stats import latency_ratio
from abreast.store import open_store
from abreast.suites.code_search.figures import F1
from abreast.suites.code_search.report import sections
from conftest import Folder

AGENT = """\
import collections, os
from abreast import Answer, Usage
from abreast.errors import NoAnswer, Skipped, Transient

ERRORS = {"no answer": NoAnswer, "network": Transient, "skip": Skipped}


def search(case, who=None, mcp=None, tools=()):
    '''What the case has for this variant and repeat: scores, and what finding out took.'''
    who = who or ("with_mcp" if mcp else "without_mcp")
    asked = vars(collections).setdefault("_asked_of_agents", collections.Counter())
    key = os.getcwd(), case.id, who
    said = case.input[who][asked[key] % len(case.input[who])]
    asked[key] += 1
    cost = said.get("cost")
    answer = Answer(
        said.get("scores", "1 1 1"),
        data=said.get("data", {}),
        usage=Usage(*said.get("usage", (None, None))),
        cost_usd=cost,
        cost_basis="unknown" if cost is None else said.get("basis", "reported"),
    )
    if "error" in said:
        error = ERRORS[said["error"]](said["error"])
        error.answer = answer
        raise error
    return answer


def judge(case, answer):
    return dict(zip(("f1", "precision", "recall"), map(float, answer.text.split())))
"""
SCORER = {"python:agent:judge": {"name": "retrieval", "columns": ["f1", "precision", "recall"]}}
NAMES = ("without_mcp", "with_mcp")


def reply(f1: float = 1.0, usage: tuple[int | None, ...] = (None, None), **more: Any) -> dict[str, Any]:
    """One answer; `turns`, `tool_calls`, `tools` and `tools_denied` are its own data."""
    data = {name: more.pop(name) for name in ("turns", "tool_calls", "tools", "tools_denied") if name in more}
    if isinstance(data.get("tools"), dict):
        data.setdefault("tool_calls", sum(data["tools"].values()))
    return {"scores": f"{f1} {f1} {f1}", "usage": usage, "data": data, **more}


def case(without: Any, with_: Any = None, category: str = "search", difficulty: str = "easy") -> dict[str, Any]:
    """A case with the answer of each variant, or a list with one for each repeat."""
    answers = {"without_mcp": without, "with_mcp": with_}
    repeats = {
        name: answer if isinstance(answer, list) else [answer] for name, answer in answers.items() if answer is not None
    }
    return {"input": repeats, "tags": {"category": category, "difficulty": difficulty}}


Run = Callable[..., dict[str, Section]]


@pytest.fixture
def run(folder: Folder) -> Run:
    """A function that runs cases and returns the sections of the report by name."""
    folder.write("agent.py", AGENT)

    def report(cases: list[dict[str, Any]], names: tuple[str, ...] = NAMES, **more: Any) -> dict[str, Section]:
        store = more.pop("store", "rows.db")
        for number, row in enumerate(cases):
            row.setdefault("id", f"c{number}")
        params = more.pop("params", {name: {"who": name} for name in names})
        variants = {name: {"target": "python:agent:search", **params[name]} for name in names}
        options = {"scorers": [SCORER], "baseline": names[0], "limits": {"retries": 0, "breaker": 1000}, **more}
        Experiment(
            name="tried",
            suite="code-search",
            cases=cases,
            variants=variants,
            store=store,
            base=folder.path,
            **options,
        ).run()
        return sections_of(folder, store=store)

    return report


def sections_of(folder: Folder, store: str = "rows.db") -> dict[str, Section]:
    """The sections of the last run, after checks that tables are rectangular and the data are JSON."""
    latest = sections(analyse(open_store(folder.path / store), "latest"))
    for section in latest:
        json.dumps(section.data, allow_nan=False)
        for table in section.tables:
            assert all(len(row) == len(table.head) for row in table.rows), table
    return {section.name: section for section in latest}


def rows(section: Section, at: int = 0) -> dict[str, dict[str, str]]:
    """The rows of a table by its first column."""
    table = section.tables[at]
    return {row[0]: dict(zip(table.head[1:], row[1:], strict=True)) for row in table.rows}


def measure(section: Section, name: str) -> dict[str, Any]:
    (row,) = [row for row in section.data["measures"] if row["name"] == name]
    return dict(row)


def test_arms_are_side_by_side_and_plus_is_better_in_every_row(run: Run) -> None:
    without = [(0.5, 1000, 100), (0.5, 3000, 300), (1.0, 2000, 200)]
    with_ = [(1.0, 500, 150), (1.0, 1500, 300), (1.0, 1000, 450)]
    sections = run(
        [
            case(
                reply(a[0], a[1:], cost=0.04, turns=6, tools={"Grep": 4}),
                reply(b[0], b[1:], cost=0.02, turns=3, tools={"mcp__demo__search": 1, "Read": 1}),
            )
            for a, b in zip(without, with_, strict=True)
        ]
    )["arms"]
    table = rows(sections)
    assert sections.tables[0].head == ("measure", "without_mcp (baseline)", "with_mcp", "change")
    assert table["accuracy (F1)"]["with_mcp"].startswith("100.0% (")
    assert table["accuracy (F1)"]["change"].startswith("+33.3 points")
    assert table["input tokens"] == {
        "without_mcp (baseline)": "2,000",
        "with_mcp": "1,000",
        "change": "−50.0 %",  # half of it in each case: no spread, and no certainty from three cases
    }
    assert table["output tokens"]["change"].startswith("+50.0 % (")  # 900 instead of 600
    assert table["cost per trial"]["change"] == "−50.0 %"
    assert table["turns"]["with_mcp"] == "3.0"
    assert table["tool calls"]["change"] == "−50.0 %"
    assert table["cases that both answered"]["with_mcp"] == "3"
    assert {"precision", "recall", "latency, median", "latency, mean", "cost per correct answer"} <= table.keys()
    assert "cache read tokens" not in table
    assert "the variant against the baseline, − is less" in sections.tables[0].note
    assert measure(sections, "input_tokens")["improvements"] == {
        "with_mcp": {"estimate": 0.5, "interval": None, "level": None, "cases": 3}
    }


def test_the_interval_of_savings_comes_from_the_spread_of_the_cases(run: Run) -> None:
    sections = run(
        [case(reply(usage=(1000, 1)), reply(usage=(100, 1))), case(reply(usage=(3000, 1)), reply(usage=(700, 1)))]
    )
    change = measure(sections["arms"], "input_tokens")["improvements"]["with_mcp"]
    assert change["estimate"] == pytest.approx(0.8)
    # (100 − 0.2·1000) / 2000 = −0.05 and (700 − 0.2·3000) / 2000 = 0.05: error 0.05, and t of one degree is 12.7
    assert change["interval"] == [pytest.approx(0.8 - 12.706 * 0.05, rel=1e-3), 1.0]


def test_a_failed_trial_never_makes_an_arm_look_cheap(run: Run) -> None:
    failed = reply(error="no answer", usage=(12_000, 300), cost=0.04)
    sections = run(
        [
            case(reply(usage=(1000, 10), cost=0.1), reply(usage=(1000, 10), cost=0.1)),
            case(reply(usage=(3000, 10), cost=0.3), reply(usage=(3000, 10), cost=0.3)),
            case(reply(usage=(50_000, 10), cost=5.0), failed),
        ]
    )
    arms, table = sections["arms"], rows(sections["arms"])
    assert table["input tokens"]["without_mcp (baseline)"] == table["input tokens"]["with_mcp"] == "2,000"
    assert table["input tokens"]["change"] == "+0.0 %"
    assert table["cost per trial"]["with_mcp"] == "$0.20"
    assert "1 failed trial of with_mcp also used 12,300 tokens and $0.04" in arms.sentences
    assert measure(arms, "retrieval_f1")["values"]["with_mcp"] == pytest.approx(2 / 3)  # of all cases
    assert measure(arms, "success_rate")["values"] == {"without_mcp": 1.0, "with_mcp": pytest.approx(2 / 3)}
    assert table["success rate"]["change"].startswith("−33.3 points")
    assert arms.data["answered_by_all"] == 2
    assert arms.data["failed"]["with_mcp"] == {"trials": 1, "tokens": 12_300, "cost_usd": 0.04, "untold": 0}
    last = rows(sections["cases"])["c2"]
    assert (last["winner"], last["failed"]) == ("without_mcp", "with_mcp 1 no_answer (variant's fault)")
    assert (last["F1"], last["tokens"]) == ("1.00 → 0.00 (1 failed)", "50,010 → –")
    assert last["time"].endswith(" → –")
    assert sections["cases"].data["cases"][2]["failed"] == {
        "without_mcp": [],
        "with_mcp": [{"kind": "no_answer", "blame": "variant", "trials": 1}],
    }


def test_infrastructure_failures_are_reported_separately_and_count_against_no_arm(run: Run) -> None:
    down, skipped = reply(error="network"), reply(error="skip")
    sections = run([case(reply(), down), case(reply(0.5), reply(1.0)), case(skipped, reply())])
    arms = sections["arms"]
    assert measure(arms, "success_rate")["values"] == {"without_mcp": 1.0, "with_mcp": 1.0}
    assert (
        "not counted, neither as wrong nor as unanswered: 1 trial of with_mcp failed by infrastructure, "
        "1 trial of without_mcp skipped" in arms.sentences
    )
    assert "1 failed trial of with_mcp: usage unknown" in arms.sentences
    cases = rows(sections["cases"])
    assert [cases[name]["winner"] for name in ("c0", "c1", "c2")] == ["–", "with_mcp", "–"]
    assert cases["c0"]["failed"] == "with_mcp 1 network"
    assert sections["cases"].sentences == ("with_mcp wins 1, loses 0, ties 0 of 1 case",)


def test_winners_are_those_that_the_verdict_counts(run: Run, folder: Folder) -> None:
    cases = [
        *(case(reply(0.4), reply(0.8)) for _ in range(3)),
        *(case(reply(0.8), reply(0.4)) for _ in range(2)),
        *(
            case([reply(0.1), reply(0.2), reply(0.3)], [reply(0.3), reply(0.2), reply(0.1)]) for _ in range(4)
        ),  # equal sums
    ]
    sections = run(cases, repeats=3)["cases"]
    (verdict,) = analyse(open_store(folder.path / "rows.db"), "latest").comparisons
    won = [row["winner"] for row in rows(sections).values()]
    assert list(rows(sections)) == [f"c{number}" for number in range(9)]  # in plan order, all of them
    assert (won.count("with_mcp"), won.count("without_mcp"), won.count("tie")) == (3, 2, 4)
    assert (verdict.verdict.wins, verdict.verdict.losses, verdict.verdict.ties) == (3, 2, 4)
    assert sections.sentences == ("with_mcp wins 3, loses 2, ties 4 of 9 cases",)
    assert rows(sections)["c5"]["F1"] == "0.20 → 0.20"
    assert sections.data["cases"][0]["winners"] == {"with_mcp": "with_mcp"}


def test_repeats_are_averaged_within_a_case_first(run: Run) -> None:
    failed = reply(error="no answer", usage=(9, 9))
    sections = run(
        [
            case([reply(usage=(100, 1)), reply(usage=(300, 1))], [reply(usage=(50, 1)), reply(error="network")]),
            case([reply(usage=(400, 1)), reply(usage=(400, 1))], [reply(usage=(200, 1)), reply(usage=(200, 1))]),
            case([reply(), reply()], [reply(), failed]),
        ],
        repeats=2,
    )
    values = measure(sections["arms"], "input_tokens")["values"]
    assert values == {"without_mcp": 300.0, "with_mcp": 125.0}
    assert rows(sections["cases"])["c2"]["F1"] == "1.00 → 0.50 (1 failed)"


def test_a_repeat_that_failed_never_makes_the_others_of_its_case_look_cheap(run: Run) -> None:
    cheap, expensive, failed = (
        reply(usage=(10, 1), cost=0.1),
        reply(usage=(9_990, 1), cost=9.9),
        reply(error="no answer"),
    )
    sections = run([case([cheap, expensive], [cheap, failed]), case([cheap, cheap], [cheap, cheap])], repeats=2)["arms"]
    assert rows(sections)["input tokens"] == {"without_mcp (baseline)": "10", "with_mcp": "10", "change": "+0.0 %"}
    assert rows(sections)["cases that both always answered"]["with_mcp"] == "1"
    assert "over the cases that both always answered" in sections.tables[0].note


def test_an_arm_that_never_answered_is_left_out_of_the_common_cases(run: Run) -> None:
    cases = [case(reply(usage=(100, 1)), reply(usage=(50, 1))) for _ in range(2)]
    for row in cases:
        row["input"]["broken"] = [reply(error="no answer")]
    sections = run(cases, (*NAMES, "broken"))["arms"]
    last = rows(sections)["cases that all but broken answered"]
    assert (last["with_mcp"], last["broken"]) == ("2", "–")
    assert "over the cases that all but broken answered" in sections.tables[0].note


def test_an_amount_known_for_fewer_cases_shows_their_number(run: Run) -> None:
    priced, unpriced = reply(usage=(10, 1), cost=0.5), reply(usage=(10, 1))
    sections = run([case(priced, priced), case(priced, unpriced), case(unpriced, priced), case(unpriced, unpriced)])[
        "arms"
    ]
    assert rows(sections)["cost per trial (1 case)"]["with_mcp"] == "$0.50"
    assert "input tokens" in rows(sections)
    disjoint = run([case(priced, unpriced), case(unpriced, priced)])["arms"]
    assert not [title for title in rows(disjoint) if title.startswith("cost per trial")]  # known in no common case


def test_cache_reads_are_reported_if_known(run: Run) -> None:
    without, with_ = reply(usage=(350, 10, 610, 40)), reply(usage=(200, 10, 740, 60))
    sections = run([case(without, with_), case(without, with_)])["arms"]
    assert sections.sentences[0] == (
        "prompt tokens: without_mcp read 61 % from the cache, with_mcp 74 %; cached tokens are cheaper and "
        "faster; the order within a block is random"
    )
    table = rows(sections)
    assert table["prompt tokens"]["with_mcp"] == "1,000"
    assert table["cache read tokens"] == {"without_mcp (baseline)": "610", "with_mcp": "740", "change": "–"}
    assert table["prompt read from cache"]["with_mcp"] == "74.0%"
    assert sections.data["cache_share"] == {"without_mcp": 0.61, "with_mcp": 0.74}


def test_a_reported_zero_is_shown_as_zero_and_a_missing_value_as_a_dash(run: Run) -> None:
    sections = run([case(reply(usage=(0, 0, 0, 0), cost=0.0, tool_calls=0, tools=None), reply())])
    table = rows(sections["arms"])
    assert (table["input tokens"]["without_mcp (baseline)"], table["input tokens"]["with_mcp"]) == ("0", "–")
    assert "prompt read from cache" not in table  # nothing was read
    assert table["tool calls"] == {"without_mcp (baseline)": "0.0", "with_mcp": "–", "change": "–"}
    assert "turns" not in table
    assert measure(sections["arms"], "input_tokens")["improvements"] == {"with_mcp": None}
    assert not any("cache" in sentence for sentence in sections["arms"].sentences)


def test_tools_are_counted_per_answer_and_denied_calls_separately(run: Run) -> None:
    denied: dict[str, Any] = {"tools_denied": {"Write": 2}}
    sections = run(
        [
            case(reply(tools={"Grep": 3, "Read": 1}), reply(tools={"mcp__demo__search": 2}, **denied)),
            case(reply(tools={"Grep": 1}), reply(tool_calls=0, tools=None)),
            case(reply(tools={"Read": 1}), reply(error="no answer", tools={"mcp__demo__search": 50}, **denied)),
        ]
    )["tools"]
    assert rows(sections) == {
        "Grep": {"without_mcp": "2.00", "with_mcp": "0.00", "denied, without_mcp": "0", "denied, with_mcp": "0"},
        "mcp__demo__search": {
            "without_mcp": "0.00",
            "with_mcp": "1.00",
            "denied, without_mcp": "0",
            "denied, with_mcp": "0",
        },
        "Read": {"without_mcp": "0.50", "with_mcp": "0.00", "denied, without_mcp": "0", "denied, with_mcp": "0"},
        "Write": {"without_mcp": "0.00", "with_mcp": "0.00", "denied, without_mcp": "0", "denied, with_mcp": "4"},
    }
    assert sections.data["tools"][0]["calls"] == {"without_mcp": 2.0, "with_mcp": 0.0}


def test_the_tools_add_up_to_the_tool_calls_above(run: Run) -> None:
    few, many, failed = reply(tools={"Grep": 1, "Read": 1}), reply(tools={"Grep": 40}), reply(error="no answer")
    sections = run([case(few, few), case(many, failed)])
    above = measure(sections["arms"], "tool_calls")["values"]["without_mcp"]
    assert above == sum(tool["calls"]["without_mcp"] for tool in sections["tools"].data["tools"]) == 2


@pytest.mark.parametrize("denied", [3, ["Write", "Write", "Bash"], {"Write": 2, "Bash": 1}])
def test_denied_calls_are_counted_in_every_reported_form(run: Run, denied: Any) -> None:
    sections = run([case(reply(tools={"Read": 1}, tools_denied=denied), reply(tools={"Read": 1}))])["tools"]
    assert sum(int(row["denied, without_mcp"]) for row in rows(sections).values()) == 3


def test_accuracy_by_category_and_by_difficulty_in_their_usual_order(run: Run) -> None:
    cases = [("understand", "hard", 0.0), ("search", "easy", 1.0), ("navigate", "medium", 0.5), ("search", "hard", 0.5)]
    where = run([case(reply(f1), reply(1.0), category, level) for category, level, f1 in cases])["where"]
    assert [table.head[0] for table in where.tables] == ["category", "difficulty"]
    assert list(rows(where)) == ["search", "navigate", "understand"]
    assert rows(where)["search"]["cases"] == "2"
    assert rows(where)["search"]["without_mcp"].startswith("75.0% (")
    assert list(rows(where, 1)) == ["easy", "medium", "hard"]
    assert where.data["by_category"]["navigate"]["scores"]["without_mcp"]["mean"] == 0.5


def test_a_single_category_gives_no_breakdown(run: Run) -> None:
    assert "where" not in run([case(reply(), reply()), case(reply(), reply())])


def test_a_single_variant_has_no_comparison(run: Run) -> None:
    sections = run([case(reply(usage=(10, 1), tools={"Read": 1})), case(reply(0.5, (30, 1)))], ("without_mcp",))
    assert sections["arms"].tables[0].head == ("measure", "without_mcp")
    assert rows(sections["arms"])["input tokens"]["without_mcp"] == "20"
    assert sections["cases"].sentences == ()
    assert "winner" not in sections["cases"].tables[0].head
    assert "against the baseline" not in sections["arms"].tables[0].note


def test_each_of_several_variants_is_compared_with_the_baseline(run: Run) -> None:
    cases = [case(reply(0.5, (100, 1)), reply(1.0, (50, 1))) for _ in range(3)]
    for row in cases:
        row["input"]["other"] = [reply(0.0, (200, 1))]
    sections = run(cases, (*NAMES, "other"))
    table = rows(sections["arms"])["input tokens"]
    assert (table["change of with_mcp"], table["change of other"]) == ("−50.0 %", "+100.0 %")
    assert sections["cases"].sentences == (
        "with_mcp wins 3, loses 0, ties 0 of 3 cases against without_mcp",
        "other wins 0, loses 3, ties 0 of 3 cases against without_mcp",
    )
    assert sections["cases"].data["cases"][0]["winners"] == {"with_mcp": "with_mcp", "other": "without_mcp"}
    assert rows(sections["cases"])["c0"]["F1, other"] == "0.00"


def test_the_interval_of_accuracy_is_that_of_the_verdict_with_its_level(run: Run, folder: Folder) -> None:
    cases = [case(reply(0.2), reply(0.6 + number / 100)) for number in range(20)]
    for number, row in enumerate(cases):
        row["input"]["other"] = [reply(0.2 + number / 100)]
    cell = rows(run(cases, (*NAMES, "other"))["arms"])["accuracy (F1)"]["change of with_mcp"]
    verdict = analyse(open_store(folder.path / "rows.db"), "latest").comparisons[0].verdict.interval
    assert verdict is not None
    assert verdict.level == 0.975
    assert cell == f"+49.5 points (97.5 %: +{verdict.low * 100:.1f} … +{verdict.high * 100:.1f})"


def test_an_arm_that_always_failed_hides_no_other(run: Run) -> None:
    failed = reply(error="no answer")
    sections = run([case(reply(0.5, (100, 1)), failed), case(reply(1.0, (300, 1)), failed)])
    table = rows(sections["arms"])
    assert table["accuracy (F1)"]["with_mcp"] == "N/A (all failed)"
    assert table["input tokens"] == {"without_mcp (baseline)": "200", "with_mcp": "–", "change": "–"}
    assert measure(sections["arms"], "success_rate")["values"]["with_mcp"] == 0.0
    assert "2 failed trials of with_mcp: usage unknown" in sections["arms"].sentences


def test_arms_that_answer_different_cases_are_not_compared_in_amounts(run: Run) -> None:
    failed = reply(error="no answer")
    sections = run([case(reply(usage=(100, 1)), failed), case(failed, reply(usage=(5, 1)))])["arms"]
    assert rows(sections)["input tokens"] == {"without_mcp (baseline)": "100", "with_mcp": "5", "change": "–"}
    assert any(sentence.startswith("no case that both answered") for sentence in sections.sentences)


def test_a_run_in_which_everything_failed_has_a_report(run: Run, folder: Folder) -> None:
    down = reply(error="network")
    sections = run([case(down, down), case(down, reply(error="no answer"))])
    assert rows(sections["arms"])["success rate"]["with_mcp"].startswith("0.0%")
    assert sections["arms"].data["answered_by_all"] is None
    text_reports(folder)


def test_reused_answers_report_tokens_and_cost_but_no_latency(run: Run) -> None:
    cases = [case(reply(usage=(100, 1), cost=0.5), reply(usage=(50, 1), cost=0.25)) for _ in range(2)]
    run(cases)
    table = rows(run(cases)["arms"])
    assert table["input tokens"]["change"] == "−50.0 %"
    assert table["cost per trial"]["with_mcp"] == "$0.25"
    assert "latency, median" not in table


def test_an_active_run_is_reported_as_far_as_it_has_come(run: Run, folder: Folder) -> None:
    run([case(reply(usage=(10, 1)), reply(usage=(10, 1))) for _ in range(6)])
    assert folder.abreast("sql", "--write", "rows.db", "delete from trials where position in (2, 8, 9)").code == 0
    sections = sections_of(folder)
    assert sections["cases"].data["not_begun"] == 1
    assert "1 case not begun" in sections["cases"].sentences
    assert len(rows(sections["cases"])) == 5
    text_reports(folder)


def test_a_run_that_has_just_begun_has_a_report(run: Run, folder: Folder) -> None:
    run([case(reply(usage=(10, 1)), reply(usage=(20, 1))) for _ in range(4)])
    assert folder.abreast("sql", "--write", "rows.db", "delete from trials where position not in (0, 3)").code == 0
    sections = sections_of(folder)
    assert rows(sections["arms"])["input tokens"] == {
        "without_mcp (baseline)": "10",
        "with_mcp": "20",
        "change": "–",
    }
    assert sections["arms"].data["answered_by_all"] is None
    assert sections["cases"].sentences == ("with_mcp wins 0, loses 0, ties 0 of 0 cases", "2 cases not begun")
    text_reports(folder)
    assert folder.abreast("sql", "--write", "rows.db", "delete from trials").code == 0
    assert sections_of(folder)["cases"].data["not_begun"] == 4
    text_reports(folder)


def test_a_server_instead_of_tools_is_mentioned_once(run: Run, folder: Folder) -> None:
    params = {"without_mcp": {"tools": ["Glob", "Grep"]}, "with_mcp": {"tools": [], "mcp": {"demo": {"command": "x"}}}}
    sections = run([case(reply(0.0), reply()) for _ in range(3)], params=params)["arms"]
    sentence = "with_mcp has the MCP server demo instead of Glob and Grep: the verdict is on this exchange"
    assert sections.sentences[0] == sections.data["design"] == sentence
    assert folder.abreast("validate", "--store", "rows.db").out.count(sentence) == 1
    for form, text in text_reports(folder).items():
        assert " ".join(text.replace("\\_", "_").split()).count(sentence) == (form not in ("csv", "junit")), form


def test_every_format_has_the_sections_of_the_suite(run: Run, folder: Folder) -> None:
    without = reply(0.5, (1000, 100, 200, 5), cost=0.03, turns=4, tools={"Grep": 2, "Read": 1})
    with_ = reply(0.9, (700, 90, 300, 5), cost=0.02, turns=2, tools={"mcp__demo__search": 1}, tools_denied=1)
    levels = ("search", "easy"), ("navigate", "hard")
    run([case(without, with_, *levels[number % 2]) for number in range(12)])
    texts = text_reports(folder)
    for form in ("terminal", "markdown", "html"):
        for word in ("The arms side by side", "Case by case", "By category and difficulty", "Tools", "prompt tokens"):
            assert word in texts[form], (form, word)
        assert "wins 12, loses 0, ties 0 of 12 cases" in texts[form].replace("&#39;", "'")
    reports = {
        "terminal": as_text(analyse(open_store(folder.path / "rows.db"), "latest"), width=300),
        "markdown": re.sub(r"\\(.)", r"\1", texts["markdown"]),
        "html": texts["html"],
    }
    for form, text in reports.items():
        normalized = " ".join(html.unescape(text).split())
        cells = {
            cell
            for section in sections_of(folder).values()
            for table in section.tables
            for row in table.rows
            for cell in row
        }
        assert not [cell for cell in cells if cell not in normalized], form
    suite = json.loads(texts["json"])["suite"]
    assert (suite["problem"], list(suite["sections"])) == (None, ["arms", "cases", "where", "tools"])
    columns = next(csv.DictReader(io.StringIO(texts["csv"])))
    assert {"score_retrieval_f1", "turns", "tool_calls", "cache_read_tokens"} <= columns.keys()


def test_a_simulated_run_reports_the_figures_it_has(folder: Folder) -> None:
    folder.cases(12)
    Experiment(
        name="mock",
        suite="code-search",
        cases="cases.jsonl",
        target="simulated",
        variants={"without_mcp": {"accuracy": 0.5}, "with_mcp": {"accuracy": 0.9}},
        scorers=["exact"],
        store="rows.db",
        base=folder.path,
    ).run()
    sections = sections_of(folder)
    assert "accuracy (exact)" in rows(sections["arms"])
    assert "estimated from characters" in sections["arms"].tables[0].note
    assert "tools" not in sections
    assert "SIMULATED" in text_reports(folder)["terminal"]


def test_without_a_scorer_there_are_no_winners(run: Run, folder: Folder) -> None:
    sections = run([case(reply(usage=(10, 1)), reply(usage=(5, 1)))], scorers=[])
    assert rows(sections["arms"])["input tokens"]["change"] == "−50.0 %"
    assert "winner" not in sections["cases"].tables[0].head
    text_reports(folder)


def test_a_narrow_terminal_folds_long_names_and_figures_only(run: Run, folder: Folder) -> None:
    many = reply(usage=(7_000_000, 300_000, 9_000_000, 500_000), tools={"mcp__demo__" + "symbol" * 12: 3})
    run([case(many, many), {**case(many, many), "id": "a-case-" * 12}])
    text = as_text(analyse(open_store(folder.path / "rows.db"), "latest"), width=60)
    lines = [line.rstrip() for line in text.splitlines() if "abreast show" not in line]
    assert max(map(len, lines)) <= 60
    assert not [line for line in lines if len(line.strip()) == 1]  # no name is split into one letter per line
    assert sum(line.startswith(" without_mcp  ") for line in lines) >= 2
    assert "a-case-" * 12 in "".join(line[1:].split("  ")[0] for line in lines)


def test_names_of_cases_are_escaped(run: Run, folder: Folder) -> None:
    names = ("<script>alert(1)</script>", "a|b", "naïve-日本語", "*x* `y` [z](javascript:1)")
    run([{**case(reply(0.0), reply(1.0)), "id": name} for name in names])
    texts = text_reports(folder)
    assert "<script>alert" not in texts["html"] + texts["markdown"]
    assert [line.replace("\\|", "").count("|") for line in texts["markdown"].splitlines() if "a\\|b" in line] == [7, 4]
    assert all("naïve-日本語" in text for text in texts.values())


def text_reports(folder: Folder) -> dict[str, str]:
    """The report in all text formats, after a check that the part of the suite was created in each."""
    analysis = analyse(open_store(folder.path / "rows.db"), "latest")
    sections = {form: catalogue.text(catalogue.ReportRequest(analysis), form) for form in catalogue.TEXTS}
    for form, text in sections.items():
        assert "failed to create" not in text, form
    return sections


# -- every figure once more, by hand from the rows --------------------------------------------------------------------

SHAPES = [(1, 2, 1, 0), (2, 1, 1, 0), (2, 5, 1, 0), (2, 4, 2, 0), (2, 5, 1, 3), (3, 5, 1, 0), (5, 3, 2, 2)]
"""Variants, cases, repeats, and how many of the cases are a group."""

COUNTS = st.none() | st.integers(0, 3) | st.integers(1_000, 90_000)
TRIALS = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["ok"] * 6 + ["variant", "variant", "infrastructure", "unknown", "skipped"]),
        "score": st.sampled_from([0.0, 0.25, 1 / 3, 1.0]),
        "usage": st.tuples(*[COUNTS] * 4) | st.tuples(*[st.integers(0, 900)] * 4),
        "cost": st.none() | st.sampled_from([0.0, 0.001, 0.25, 3.0]),
        "seconds": st.sampled_from([0.002, 0.5, 7.0, 61.25]),
        "reused": st.sampled_from([None, None, None, "earlier"]),
        "data": st.fixed_dictionaries({}, optional={"turns": st.integers(1, 9), "tool_calls": st.integers(0, 9)}),
    }
)
Trials = list[dict[str, Any]]


@settings(max_examples=40, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(drawn=st.data(), shape=st.sampled_from(SHAPES))
def test_every_figure_follows_from_the_rows(
    run: Run, folder: Folder, drawn: st.DataObject, shape: tuple[int, int, int, int]
) -> None:
    variants, cases, repeats, grouped = shape
    names, store = tuple(f"v{at}" for at in range(variants)), f"{shape}.db"
    if not (folder.path / store).exists():
        replies = {name: [reply(turns=1, tool_calls=1)] for name in names}
        inputs = [{"input": replies, "group": "one" if at < grouped else None} for at in range(cases)]
        run(inputs, names, repeats=repeats, store=store)
    trials = rewritten(folder.path / store, drawn.draw(st.lists(TRIALS, min_size=variants * cases * repeats)))
    sections = sections_of(folder, store=store)
    ByHand(trials, names).agrees_with(sections)
    for item in analyse(open_store(folder.path / store), "latest").comparisons:
        won = [row["winners"][item.variant] for row in sections["cases"].data["cases"]]
        counts = won.count(item.variant), won.count(item.baseline), won.count("tie")
        if item.verdict.word != "no comparison":
            assert counts == (item.verdict.wins, item.verdict.losses, item.verdict.ties)


def test_latency_treats_cases_of_one_group_as_dependent(run: Run, folder: Folder) -> None:
    names = ("v0", "v1")
    replies = {name: [reply(turns=1, tool_calls=1)] for name in names}
    run([{"input": replies, "group": "one" if at < 3 else None} for at in range(5)], names, store="grouped.db")
    trial = {"status": "ok", "score": 1.0, "usage": (1, 1, 0, 0), "cost": 0.1, "reused": None, "data": {}}
    seconds = [(0.5, 7.0), (0.5, 7.0), (0.5, 7.0), (7.0, 0.5), (0.5, 0.5)]
    trials = rewritten(folder.path / "grouped.db", [{**trial, "seconds": s} for pair in seconds for s in pair])
    by_hand = ByHand(trials, names)
    assert by_hand.faster("v1") == (pytest.approx(0), 5)
    by_hand.agrees_with(sections_of(folder, store="grouped.db"))


def rewritten(path: Path, drawn: Trials) -> Trials:
    """Overwrite the trials of a store that holds one run with the drawn ones; return its rows."""
    with closing(sqlite3.connect(path)) as store, store:
        for (position,) in store.execute("SELECT position FROM trials").fetchall():
            trial = drawn[position]
            status = trial["status"] if trial["status"] in ("ok", "skipped") else "error"
            blame, kind = (trial["status"], "crash") if status == "error" else (None, None)
            store.execute(
                "UPDATE trials SET status = ?, error_blame = ?, error_kind = ?, input_tokens = ?, output_tokens = ?, "
                "cache_read_tokens = ?, cache_write_tokens = ?, cost_usd = ?, service_s = ?, reused_from = ? "
                "WHERE position = ?",
                (status, blame, kind, *trial["usage"], trial["cost"], trial["seconds"], trial["reused"], position),
            )
            store.execute("UPDATE scores SET value = ? WHERE position = ?", (trial["score"], position))
            store.execute("UPDATE payloads SET data = ? WHERE position = ?", (json.dumps(trial["data"]), position))
        store.row_factory = sqlite3.Row
        cursor = store.execute(
            "SELECT t.*, c.id AS case_id, c.case_group, v.name, s.value AS score, p.data FROM trials t "
            "JOIN cases c ON c.digest = t.case_digest JOIN variants v ON v.variant = t.variant "
            "JOIN payloads p ON p.position = t.position "
            "JOIN scores s ON s.position = t.position AND s.name = 'retrieval_f1' ORDER BY t.position"
        )
        return [{**dict(row), **json.loads(row["data"])} for row in cursor]


def mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


class ByHand:
    """The figures of a finished run, computed from its rows by plain sums."""

    def __init__(self, trials: Trials, names: tuple[str, ...]) -> None:
        self.names, self.base = names, names[0]
        self.cases = list(dict.fromkeys(row["case_id"] for row in trials))
        self.of: dict[tuple[str, str], Trials] = {(name, case): [] for name in names for case in self.cases}
        for row in trials:
            tokens = {name: row[f"{name}_tokens"] for name in ("input", "cache_read", "cache_write", "output")}
            row["prompt_tokens"] = None
            if tokens["input"] is not None:
                row["prompt_tokens"] = tokens["input"] + (tokens["cache_read"] or 0) + (tokens["cache_write"] or 0)
            row["new_s"] = None if row["reused_from"] else row["service_s"]
            self.of[row["name"], row["case_id"]].append(row)
        self.answered = {key: [row for row in rows if row["status"] == "ok"] for key, rows in self.of.items()}
        self.failed = {key for key, rows in self.of.items() if any(map(own_failure, rows))}
        self.active = [name for name in names if any(self.answered[name, case] for case in self.cases)]
        self.common = [case for case in self.cases if self.active and all(self.always(n, case) for n in self.active)]

    def always(self, name: str, case: str) -> bool:
        return bool(self.answered[name, case]) and (name, case) not in self.failed

    def share(self, name: str, value_of: Callable[..., float | None]) -> float | None:
        """The mean over all cases, each the mean of its repeats."""
        return mean(mean(value_of(row) for row in self.of[name, case]) for case in self.cases)

    def compared(self, name: str) -> float | None:
        """The mean score over the repeats that are compared with the baseline."""
        partners = [other for other in self.names if other != self.base] if name == self.base else [self.base]
        means = []
        for case in self.cases:
            repeats = range(len(self.of[name, case]))
            scores = {other: [outcome(row) for row in self.of[other, case]] for other in (name, *partners)}
            has_partner = [
                not partners or any(scores[other][repeat] is not None for other in partners) for repeat in repeats
            ]
            means.append(mean(scores[name][repeat] for repeat in repeats if has_partner[repeat]))
        return mean(means)

    def amount(self, field: str) -> dict[str, dict[str, float | None]]:
        """By variant and case: the mean of a field over the answers that have it."""
        return {
            name: {case: mean(row.get(field) for row in self.answered[name, case]) for case in self.cases}
            for name in self.names
        }

    def cases_with(self, amounts: dict[str, dict[str, float | None]]) -> list[str]:
        """The common cases for which every variant that has any amount has one."""
        reporting = [own for own in amounts.values() if any(value is not None for value in own.values())]
        return [case for case in self.common if all(own[case] is not None for own in reporting)]

    def values(self, field: str, middle: Callable[..., float | None] = mean) -> dict[str, float | None]:
        amounts = self.amount(field)
        cases = self.cases_with(amounts) if self.common else self.cases
        return {name: middle([own[case] for case in cases if own[case] is not None]) for name, own in amounts.items()}

    def faster(self, name: str) -> tuple[float, int] | None:
        """The latency saved and the number of cases, from the latency ratio with cases grouped."""
        amounts = self.amount("new_s")
        own, base = amounts[name], amounts[self.base]
        cases = [case for case in self.cases if self.always(name, case) and self.always(self.base, case)]
        cases = [case for case in cases if own[case] is not None and base[case] is not None]
        if not cases:
            return None
        groups = [self.of[name, case][0]["case_group"] or f"only {case}" for case in cases]
        ratio = latency_ratio(*([times[case] or 0 for case in cases] for times in (base, own)), groups=groups)
        return 1 - ratio.estimate, len(cases)

    def saved(self, field: str, name: str) -> tuple[float, int] | None:
        amounts = self.amount(field)
        own, base = amounts[name], amounts[self.base]
        cases = [case for case in self.cases if self.always(name, case) and self.always(self.base, case)]
        cases = [case for case in cases if own[case] is not None and base[case] is not None]
        base_total = sum(base[case] or 0 for case in cases)
        return (1 - sum(own[case] or 0 for case in cases) / base_total, len(cases)) if base_total else None

    def winner(self, name: str, case: str) -> str | None:
        both = zip(*([outcome(row) for row in self.of[side, case]] for side in (self.base, name)), strict=True)
        pairs = [(a, b) for a, b in both if a is not None and b is not None]
        if not pairs:
            return None
        difference = sum(b - a for a, b in pairs) / len(pairs)
        return "tie" if abs(difference) < 1e-9 else name if difference > 0 else self.base

    def price(self, name: str) -> float | None:
        """The cost per correct answer; a failure of unknown cost counts as the mean cost of an answer."""
        costs = [row["cost_usd"] for case in self.cases for row in self.answered[name, case]]
        if not costs or None in costs:
            return None
        mean_cost, paid, right = sum(costs) / len(costs), 0.0, 0.0
        for case in self.cases:
            judged = [row for row in self.of[name, case] if outcome(row) is not None]
            paid += mean(mean_cost if row["cost_usd"] is None else row["cost_usd"] for row in judged) or 0.0
            right += mean(outcome(row) for row in judged) or 0.0
        return paid / right if paid and right else None

    def agrees_with(self, sections: dict[str, Section]) -> None:
        arms, names = sections["arms"], self.names
        measures = {row["name"]: row for row in arms.data["measures"]}

        def same(name: str, values: Mapping[str, float | None]) -> None:
            reported = measures[name]["values"] if name in measures else dict.fromkeys(names)
            assert {key: pytest.approx(value) for key, value in values.items()} == reported, name

        same(F1, {name: self.compared(name) if name in self.active else None for name in names})
        same("success_rate", {name: self.share(name, success) for name in names})
        fields = {"latency_mean_s": "new_s", **{name: name for name in ("turns", "tool_calls", "cost_usd")}}
        fields |= {name: name for name in ("input_tokens", "output_tokens")}
        if "cache_share" in measures:
            fields |= {name: name for name in ("prompt_tokens", "cache_read_tokens", "cache_write_tokens")}
        for name, field in fields.items():
            same(name, self.values(field))
            changes = measures[name]["improvements"] if name in measures else {}
            for variant, change in changes.items() if not name.startswith("cache") else ():
                actual = None if change is None else (change["estimate"], change["cases"])
                assert actual == pytest.approx(self.saved(field, variant)), (name, variant)
        same("latency_median_s", self.values("new_s", lambda seconds: median(seconds) if seconds else None))
        if "latency_median_s" in measures:
            for variant, change in measures["latency_median_s"]["improvements"].items():
                actual = None if change is None else (change["estimate"], change["cases"])
                assert actual == pytest.approx(self.faster(variant)), variant
        same("cost_per_correct_usd", {name: self.price(name) for name in names})
        for row in trials_with_cache_tokens(self.of):
            row["known_prompt"], row["known_read"] = row["prompt_tokens"], row["cache_read_tokens"]
        read, prompt = self.amount("known_read"), self.amount("known_prompt")
        cases = self.cases_with(read) if self.common else self.cases
        sums = {name: [sum(amounts[name][case] or 0 for case in cases) for amounts in (read, prompt)] for name in names}
        shares = {name: part / total if total else None for name, (part, total) in sums.items()}
        assert arms.data["cache_share"] == pytest.approx(shares)
        self.check_cells(arms, measures)
        assert arms.data["answered_by_all"] == (len(self.common) if len(self.active) > 1 else None)
        for row, case in zip(sections["cases"].data["cases"], self.cases, strict=True):
            assert row["winners"] == {name: self.winner(name, case) for name in names[1:]}
            for name in names:
                assert row["scores"][name] == pytest.approx(mean(outcome(trial) for trial in self.of[name, case]))
                assert row["tokens"][name] == pytest.approx(
                    mean(
                        row["prompt_tokens"] + row["output_tokens"]
                        for row in self.answered[name, case]
                        if None not in (row["prompt_tokens"], row["output_tokens"])
                    )
                )
                failed = sum(row["status"] == "error" for row in self.of[name, case])
                assert sum(failure["trials"] for failure in row["failed"][name]) == failed
        for name in names:
            trials = [row for case in self.cases for row in self.of[name, case]]
            spoiled = sum(row["status"] == "error" and not own_failure(row) for row in trials)
            assert arms.data["infrastructure"][name] == spoiled
            assert arms.data["skipped"][name] == sum(row["status"] == "skipped" for row in trials)
            cost = [row["cost_usd"] for row in trials if row["status"] == "error" and row["cost_usd"] is not None]
            assert arms.data["failed"][name]["cost_usd"] == (pytest.approx(sum(cost)) if cost else None)

    def check_cells(self, arms: Section, measures: Mapping[str, Any]) -> None:
        """Check the cells of tokens digit by digit, and the sign of every change."""
        for row, measured in zip(arms.tables[0].rows if arms.tables else (), measures.values(), strict=False):
            values = [
                None if measured["values"][name] is None else f"{measured['values'][name]:,.0f}" for name in self.names
            ]
            assert measured["kind"] != "tokens" or list(row[1 : 1 + len(values)]) == [value or "–" for value in values]
            for cell, change in zip(row[1 + len(values) :], measured["improvements"].values(), strict=True):
                direction = 1 if measured["kind"] in ("score", "share") else -1  # amounts improve by savings
                negative = change is not None and round(direction * change["estimate"], 8) < 0
                assert cell[0] == ("–" if change is None else "−" if negative else "+"), row


def trials_with_cache_tokens(of: Mapping[tuple[str, str], Trials]) -> Trials:
    """Trials whose prompt tokens and cache read tokens are both known."""
    trials = [row for rows in of.values() for row in rows]
    return [row for row in trials if None not in (row["prompt_tokens"], row["cache_read_tokens"])]


def own_failure(row: dict[str, Any]) -> bool:
    return bool(row["status"] == "error" and row["error_blame"] == "variant")


def outcome(row: dict[str, Any]) -> float | None:
    """The score of a trial: 0 for its own failure, None for a failure of infrastructure."""
    return row["score"] if row["status"] == "ok" else 0.0 if own_failure(row) else None


def success(row: dict[str, Any]) -> float | None:
    return 1.0 if row["status"] == "ok" else 0.0 if own_failure(row) else None

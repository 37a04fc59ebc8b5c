"""Which answers a condition of the suite `numbers` supports, decided from the text of its prompt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from abreast.suites.numbers import conditions
from abreast.suites.numbers.answerable import follows
from abreast.suites.numbers.cases import cases
from abreast.suites.numbers.dataset.queries import QUERIES
from conftest import Folder

NARRATED = "The value data shows a steadily rising pattern with moderate variability."
STATED = "Mean: 50.81, Median: 50.73 (range: -26.75-70.02)."
NEVER_NARRATED = {"std", "count", "p25", "p75", "p95", "iqr", "skewness", "slope", "forecast", "z_of_max", "variation"}
CONDITIONS = {
    "baseline": conditions.raw,
    "treatment": conditions.semantic_frame,
    "semantic-frame-full": conditions.semantic_frame_full,
    "summary-statistics": conditions.summary_statistics,
}
MINE = """\
def describe(numbers):
    there = [value for value in numbers if value is not None]
    return f"Roughly speaking: the usual week. mean {sum(there) / len(there)}"
"""


@pytest.mark.parametrize(
    ("text", "query", "right", "answerable"),
    [
        (STATED, "mean", 50.811, True),
        (STATED, "mean", 52.0, False),  # it states another one
        (STATED, "min", -26.751, True),
        (STATED, "range", 96.77, True),
        (STATED, "range_percent", 190.5, True),
        (STATED, "normalised_max", 1.378, True),
        (STATED, "std", 50.81, False),  # a number that occurs under another name
        (STATED, "count", 100, False),
        ("Median: 50.00 (range: 49.90-50.10).", "p75", 50.04, True),  # bounded closely enough
        ("Median: 50.00 (range: 40.00-50.10).", "p25", 49.9, False),
        ("Mean: 35.26, Median: 35.26 (range: 35.26-35.26).", "std", 0, True),  # a constant
        ("count 100, mean 10, slope 0.5", "forecast", 10 + 0.5 * (49.5 + 10), True),
        ("count 100, mean 10, std 2, max 15", "z_of_max", 2.5, True),
        ("Mean: 10. The usual week.", "mean", 10, True),
        ("Mean: 10. The usual week.", "std", 2, None),  # who knows what the rest says
        ("Mean: 10 of the first half.", "mean", 10, None),  # nor what it is about
        ("Mean: 10, excluding outliers.", "mean", 10, None),
        ("mean: not 10", "mean", 10, None),
        ("mean 5, mean 10", "mean", 10, None),  # which of them?
        ("mean 5, mean 10", "mean", 5, None),
        ("mean 1,234.5", "mean", 1234.5, True),
        ("mean 1,234.5", "mean", 1, False),
        ('{"mean": 10}', "mean", 10, True),
        ('{"mean": null, "anomalies": 3}', "anomalies", 3, None),
        ('{"mean": ', "mean", 10, None),
        ("1, 2, 3", "mean", 2, None),  # numbers of what?
        ("The usual week.", "mean", 10, None),
        ("About 100 values.", "count", 100, None),
        ("mean 5 %", "mean", 5, None),
        (NARRATED, "direction", "rising", True),
        (NARRATED, "direction", "flat", False),
        (NARRATED, "strength", "moderate", False),  # the variability is, not the trend
        ("correlation with position 0.6", "strength", "moderate", True),
        ("correlation with position -0.6", "direction", "falling", True),
        (NARRATED, "shape", "symmetric", False),
        (f"{NARRATED} 2 anomalies detected at indices 144, 36.", "locations", [36, 144], True),
        (f"{NARRATED} 2 anomalies detected at indices 144, 36.", "anomalies", 2, True),
        (f"{NARRATED} 5 anomalies detected at indices 1, 2, 3 (+2 more).", "anomalies", 5, True),
        (f"{NARRATED} 5 anomalies detected at indices 1, 2, 3 (+2 more).", "locations", [1, 2, 3, 8, 9], False),
        (f"{NARRATED} 1 anomaly detected at index 7 (value: 99.00). {STATED}", "type", "spike", True),
        (f"{NARRATED} 1 anomaly detected at index 7 (value: -99.00). {STATED}", "type", "drop", True),
        (f"{NARRATED}A significant step up was detected at index 154. {STATED}", "type", "level shift", True),
        (f"{NARRATED}A significant step up was detected at index 154. {STATED}", "locations", [154], True),
        (NARRATED, "presence", "no", False),  # silence is not a statement
        ("no anomalies", "presence", "no", True),
        ("anomalies at position 20 (99), 30 (-5)", "locations", [20, 30], True),
        ("A: mean 5, std 2\nB: mean 6, std 1", "higher_mean", "B", True),
        ("A: mean 5, std 2\nB: mean 6, std 1", "more_volatile", "A", True),
        ("A: mean 5, std 2\nB: mean 6, std 1", "stronger_trend", "A", False),
        ("A and B move together strongly (r=0.73).", "correlation", "positive", True),
        ("correlation of A and B: 0.1", "correlation", "none", True),
        ("No strong correlations detected between columns.", "correlation", "none", True),
        ("Data:\n1, 2, 3, 4, 100", "mean", 22, True),
        ("Data:\n1, 2, 3, 4, 100", "std", 43.624, True),
        ("Sample:\n1, 2, 3, 4", "mean", 22, None),  # numbers of what?
        ("", "mean", 22, False),
    ],
)
def test_an_answer_follows_only_from_what_a_text_states(
    text: str, query: str, right: Any, answerable: bool | None
) -> None:
    assert follows(text, QUERIES[query], right) is answerable


def test_what_a_person_marked_does_not_follow_from_the_numbers() -> None:
    assert follows("Data:\n1, 2, 3, 4, 100", QUERIES["presence"], "yes", is_marked=True) is None
    assert follows("no anomalies", QUERIES["presence"], "no", is_marked=True) is True


def test_no_text_supports_a_second_answer() -> None:
    """A checker that accepts both the right answer and a clearly wrong one is unsound."""
    counts = {name: [0, 0] for name in CONDITIONS}
    for case in cases(trials=8, max_data_size=500):
        query, right = QUERIES[case["input"]["query"]], case["expected"]
        if query.kind == "number":
            others: list[Any] = [right + 0.5 * (1 + abs(right)), right - 0.5 * (1 + abs(right))]
        elif query.kind == "class":
            others = [choice for choice in query.choices if choice != right]
        else:
            others = [[at + 1 for at in right], right[1:], [*right, 199]]
        for name, condition in CONDITIONS.items():
            text = condition(case["input"])["data"]
            answerable = follows(text, query, right)
            assert answerable is not None, (name, text)  # the checker knows every word of our own conditions
            counts[name][answerable] += 1
            assert not any(follows(text, query, other) for other in others) or not answerable, (case["id"], name)
    assert counts["baseline"] == [0, 48]
    assert counts["treatment"][1] < counts["semantic-frame-full"][1] < counts["summary-statistics"][1] < 48


def report_of(folder: Folder, *flags: str) -> dict[str, Any]:
    done = folder.abreast("run", "numbers", "--mock", "--no-viz", "--max-data-size", "200", *flags)
    assert done.code == 0, done.err
    report: dict[str, Any] = json.loads(folder.abreast("report", "--format", "json").out)
    return report


def section(report: dict[str, Any], name: str) -> Any:
    return report["suite"]["sections"][name]


@pytest.mark.heavy
def test_every_report_says_what_each_variant_can_answer_and_the_mock_knows_no_more(folder: Folder) -> None:
    report = report_of(folder, "--trials", "13", "--variant", "semantic-frame-full")
    answerability = section(report, "answerability")
    by = {item["name"]: item for item in answerability["variants"]}
    assert by["baseline"]["share"] == 1.0
    assert by["treatment"]["share"] < by["semantic-frame-full"]["share"] < 1.0
    assert by["treatment"]["unknown"] == 0
    rows = folder.sql("select case_id, variant, score, prompt from predictions")
    answerable_by = {item["case"]: item["answerable_by"] for item in answerability["cases"]}
    queries = {case["id"]: case["input"]["query"] for case in cases(trials=13, max_data_size=200)}
    assert set(answerable_by) == set(queries)
    both = [case for case, by_variant in answerable_by.items() if by_variant["treatment"]]
    assert by["treatment"]["both"] == len(both)
    for row in rows:
        query = QUERIES[queries[row["case_id"]]]
        if row["variant"] == "treatment" and query.name in NEVER_NARRATED:
            assert answerable_by[row["case_id"]]["treatment"] is False
        if query.kind == "number" and not answerable_by[row["case_id"]][row["variant"]]:
            assert row["score"] == 0.0, row
    scores = [row["score"] for row in rows if row["variant"] == "treatment" and row["case_id"] in both]
    assert by["treatment"]["accuracy_both"]["mean"] == pytest.approx(sum(scores) / len(scores))
    assert sum(scores) / len(scores) > 0.8
    assert by["treatment"]["accuracy"]["mean"] < 0.7
    for form in ("terminal", "markdown", "html"):
        text = folder.abreast("report", "--format", form).out
        text = (folder.path / text.strip()).read_text() if form == "html" else text
        assert "What each variant can know" in text, form
        assert f"on the {len(both)} cases that both can answer" in text, form


def test_of_a_user_transform_only_facts_stated_by_name_are_known(folder: Folder) -> None:
    folder.write("mine.py", MINE)
    report = report_of(folder, "--trials", "4", "--task", "scaling", "--transform", "python:mine:describe")
    answerability = section(report, "answerability")
    queries = {case["id"]: case["input"]["query"] for case in cases(trials=4, tasks=["scaling"], max_data_size=200)}
    for case in answerability["cases"]:
        assert case["answerable_by"]["treatment"] is (True if queries[case["case"]] == "mean" else None)

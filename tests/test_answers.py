"""Answers as models phrase them, scored without looking at the parser (`tests/answers/`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abreast.model import Answer, Case
from abreast.scorers import build
from abreast.suites.numbers.dataset.queries import QUERIES, Query
from abreast.suites.numbers.scoring import score

ANSWERS = Path(__file__).parent / "answers"
MISREAD = {
    "code_search.jsonl": (0, 80),
    "code_search_2.jsonl": (0, 40),
    "code_search_3.jsonl": (1, 32),
    "code_search_4.jsonl": (1, 40),
    "code_search_5.jsonl": (0, 12),
}
"""By file: misread answers, and all answers. A change of the parser must not increase the first number."""


def read_answers(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ANSWERS / file).read_text("utf-8").splitlines()]


def claims(fields: dict[str, Any]) -> int:
    values = [value for field in fields.values() for value in (field.values() if isinstance(field, dict) else [field])]
    return sum(map(len, values))


def expected_score(answer: dict[str, Any]) -> float:
    """F1 of the items annotated as right and wrong in an answer."""
    expected, right, wrong = (claims(answer[name]) for name in ("ground_truth", "found", "wrong"))
    return 2 * right / (expected + right + wrong) if expected else float(not wrong)


@pytest.mark.parametrize("file", MISREAD)
def test_answers_about_code_are_parsed_as_a_person_would_read_them(file: str) -> None:
    answers = read_answers(file)
    misread = []
    for answer in answers:
        case = Case(answer["id"], answer["question"], expected=answer["ground_truth"])
        value = build("retrieval", {}).score(case, Answer(answer["answer"]))[0].value
        if value is None or abs(value - expected_score(answer)) > 0.005:
            misread.append(answer["id"])
    most, count = MISREAD[file]
    assert len(answers) == count
    assert len(misread) <= most, misread


# -- numbers ----------------------------------------------------------------------------------------------------------

MISREAD_NUMBERS = {"numbers.jsonl": (3, 0, 300), "numbers_2.jsonl": (2, 0, 60)}
"""Right answers that are rejected and wrong ones that are accepted, at most, and how many answers a file has."""

QUERY_OF = {  # phrases of questions and the query they ask for; the first match counts
    "largest drawdown": "drawdown",
    "return from the first": "return_percent",
    "volume-weighted": "vwap",
    "next value": "forecast",
    "z-score": "z_of_max",
    "slope of": "slope",
    "times the mean": "normalised_max",
    "median": "median",
    "more volatile": "more_volatile",
    "larger spread": "more_volatile",
    "stronger trend": "stronger_trend",
    "higher mean": "higher_mean",
    "How many anomalies": "anomalies",
    "any anomalies": "presence",
    "which positions": "locations",
    "How many values": "count",
    "coefficient of variation": "ratio",
    "range divided by the mean": "ratio",
    "What percentage": "percentage",
    "What share": "share",
    "fits the values best": "distribution",
    "weak or none": "strength_or_none",
    "level shift or none": "type_or_none",
    "two series correlated": "correlation",
    "left-skewed": "shape",
    "rising, falling or flat": "direction",
    "skewness": "skewness",
    "interquartile": "iqr",
    "percentile": "p95",
    "range of": "range",
    "standard deviation": "std",
    "smallest": "min",
    "largest": "max",
    "mean": "mean",
    "average": "mean",
}


def no_truth(_columns: Any) -> None:
    return None


FURTHER_QUERIES = [  # queries that the catalogue lacks, read by the same rules
    Query("ratio", "What is the standard deviation divided by the mean?", no_truth, "hard", rel=0.05),
    Query("percentage", "What percentage of the values lies above 60?", no_truth, "easy", unit="percent"),
    Query("share", "What share of the values is positive?", no_truth, "easy", unit="share"),
    Query(
        "distribution",
        "Which distribution fits the values best?",
        no_truth,
        "easy",
        "class",
        classes={"normal": ("gaussian", "bell-shaped"), "uniform": ("uniformly",), "exponential": ("exponentially",)},
    ),
    Query(
        "strength_or_none",
        QUERIES["strength"].question,
        no_truth,
        "easy",
        "class",
        classes={"strong": (), "moderate": ("medium",), "weak": (), "none": ("no trend",)},
    ),
    Query(
        "type_or_none",
        QUERIES["type"].question,
        no_truth,
        "easy",
        "class",
        classes={**QUERIES["type"].classes, "none": ("no anomalies",)},
    ),
]


@pytest.mark.parametrize("file", MISREAD_NUMBERS)
def test_answers_about_numbers_are_parsed_as_a_person_would_read_them(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for query in FURTHER_QUERIES:
        monkeypatch.setitem(QUERIES, query.name, query)
    answers = read_answers(file)
    rejected, accepted = [], []
    for answer in answers:
        name = answer.get("query") or next(name for part, name in QUERY_OF.items() if part in answer["question"])
        case = {"query": name, "question": answer["question"], "columns": {"value": [1.0, 2.0]}, "size": 2}
        is_right = score(Case(answer["id"], case, answer["expected"]), Answer(answer["answer"]))["correct"] == 1.0
        if is_right != answer["right"]:
            (accepted if is_right else rejected).append(answer["id"])
    most_rejected, most_accepted, count = MISREAD_NUMBERS[file]
    assert len(answers) == count
    assert len(rejected) <= most_rejected, f"{len(rejected)} right answers rejected: {rejected}"
    assert len(accepted) <= most_accepted, f"{len(accepted)} wrong answers accepted: {accepted}"

"""Answers as agents phrase them, scored without looking at the parser (`tests/answers/`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abreast.model import Answer, Case
from abreast.scorers import build

ANSWERS = Path(__file__).parent / "answers"
MISREAD = {
    "code_search.jsonl": (0, 80),
    "code_search_2.jsonl": (0, 40),
    "code_search_3.jsonl": (1, 32),
    "code_search_4.jsonl": (1, 40),
    "code_search_5.jsonl": (0, 12),
}
"""How many answers of a file are misread, and how many it has. A change of the parser must not add to them."""


def claims(fields: dict[str, Any]) -> int:
    values = [value for field in fields.values() for value in (field.values() if isinstance(field, dict) else [field])]
    return sum(map(len, values))


def expected_score(answer: dict[str, Any]) -> float:
    """F1 of what is noted as right and wrong in an answer."""
    expected, right, wrong = (claims(answer[name]) for name in ("ground_truth", "found", "wrong"))
    return 2 * right / (expected + right + wrong) if expected else float(not wrong)


@pytest.mark.parametrize("file", MISREAD)
def test_answers_about_code_are_read_as_a_person_reads_them(file: str) -> None:
    answers = [json.loads(line) for line in (ANSWERS / file).read_text("utf-8").splitlines()]
    misread = []
    for answer in answers:
        case = Case(answer["id"], answer["question"], expected=answer["ground_truth"])
        value = build("retrieval", {}).score(case, Answer(answer["answer"]))[0].value
        if value is None or abs(value - expected_score(answer)) > 0.005:
            misread.append(answer["id"])
    most, count = MISREAD[file]
    assert len(answers) == count
    assert len(misread) <= most, misread

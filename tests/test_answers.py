"""Answers as agents phrase them, scored without looking at the parser (`tests/answers/`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from abreast.model import Answer, Case
from abreast.scorers import build

ANSWERS = Path(__file__).parent / "answers"
MISREAD = 39  # of 80, when the answers were written: a change of the parser must not add to them


def claims(fields: dict[str, Any]) -> int:
    values = [value for field in fields.values() for value in (field.values() if isinstance(field, dict) else [field])]
    return sum(map(len, values))


def expected_score(answer: dict[str, Any]) -> float:
    """F1 of what is noted as right and wrong in an answer."""
    expected, right, wrong = (claims(answer[name]) for name in ("ground_truth", "found", "wrong"))
    return 2 * right / (expected + right + wrong) if expected else float(not wrong)


def test_answers_about_code_are_read_at_least_as_well_as_when_they_were_written() -> None:
    answers = [json.loads(line) for line in (ANSWERS / "code_search.jsonl").read_text("utf-8").splitlines()]
    misread = []
    for answer in answers:
        case = Case(answer["id"], answer["question"], expected=answer["ground_truth"])
        value = build("retrieval", {}).score(case, Answer(answer["answer"]))[0].value
        if value is None or abs(value - expected_score(answer)) > 0.005:
            misread.append(answer["id"])
    assert len(answers) == 80
    assert len(misread) <= MISREAD, misread

"""The questions, and what the canned models reply, for the logs of other tools in `tests/logs`.

Every reply follows from the model, the question and the repeat, so that a test can run the same rows through abreast.
This file is imported in the environments of the other tools: standard library only.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

MODELS = {"careful": 0.85, "quick": 0.5}  # the share of right answers
REPEATS = 2
OVERLOADED = ("quick", "sum-07", 0)  # the model, question and repeat that the provider refuses
REFUSAL = "503 Service Unavailable: the provider is overloaded"


class Question(NamedTuple):
    id: str
    text: str
    expected: str
    kind: str


def _questions() -> list[Question]:
    questions = []
    for number in range(12):
        first, second = 17 + 5 * number, 26 + 3 * number
        questions.append(Question(f"sum-{number:02}", f"What is {first} + {second}?", str(first + second), "sum"))
        product = (number + 3) * 7
        questions.append(Question(f"product-{number:02}", f"What is {number + 3} * 7?", str(product), "product"))
    return questions


QUESTIONS = _questions()
BY_TEXT = {question.text: question for question in QUESTIONS}


class Overloaded(Exception):
    """The provider refuses the request: no answer, and not the model's fault."""


def reply(model: str, question: Question, repeat: int, prompt: str = "") -> str:
    """The answer of a canned model. Some answers are wordy: they include the number and are not equal to it."""
    if (model, question.id, repeat) == OVERLOADED and not prompt:
        raise Overloaded(REFUSAL)
    key = f"{model}/{question.id}/{repeat}/{prompt}"
    luck, style = (number / 255 for number in hashlib.sha256(key.encode()).digest()[:2])
    number = int(question.expected) + (0 if luck < MODELS[model] else 1)
    return f"The answer is {number}." if style < 0.25 else str(number)


def includes(answer: str, expected: str) -> float:
    return float(expected in answer)


def exact(answer: str, expected: str) -> float:
    return float(answer == expected)

"""`exact`: the answer is the expected value and nothing else."""

from __future__ import annotations

from typing import Any

from abreast.model import Answer
from abreast.scorers.base import Mark, SingleColumn, returned_value, same, short, texts_of
from abreast.scorers.parsing.json_text import MISSING, parse_json
from abreast.scorers.parsing.mismatch import mismatch, mismatch_any
from abreast.settings import is_texts


class Exact(SingleColumn):
    """Right if the text is the expected one after trimming; a list of strings means any of them.

    A number, true/false, list or mapping is compared as a value: with what a Python target returned, else with the
    text read as JSON.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> build("exact", {}).score(Case("c", "?", expected="Paris"), Answer(" Paris\\n"))[0].value
    1.0
    """

    def mark(self, expected: Any, answer: Answer) -> Mark:
        value = returned_value(answer)
        if isinstance(expected, str) or (is_texts(expected) and not isinstance(value, list | tuple)):
            texts = [item.strip() for item in texts_of(expected)]
            text = answer.text.strip()
            return float(text in texts), f"read {mismatch_any(text, texts)}"
        if value is None:
            value = parse_json(answer.text)
        if value is MISSING:
            return 0.0, f"the answer is not JSON, expected {short(expected)}"
        try:
            right = same(value, expected)
        except RecursionError:
            return 0.0, "the answer is nested too deeply to compare"
        return float(right), f"read {mismatch(value, expected)}"

"""Check that the scorer accepts the ground truth as an answer, and score other answers."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from abreast.model import Answer, Case
from abreast.scorers import Scorer, build
from abreast.suites.code_search.mining.proposal import Proposal


def is_understood(proposal: Proposal) -> bool:
    """Whether the truth gets the full score as the JSON object that is asked for, and as prose. Of prose only the names
    and quotations count: a path with spaces is understood in JSON, and a model that is asked for that gives it."""
    truth = proposal.case["ground_truth"]
    plain = _with_plain_paths(truth)
    return all(name.replace(".", "_").isidentifier() for name in truth.get("symbols", ())) and (
        _is_right(proposal, truth, json.dumps(truth)) and _is_right(proposal, plain, as_prose(plain))
    )


def as_prose(truth: dict[str, Any]) -> str:
    """A truth as a model writes that has forgotten the JSON."""
    lines = truth.get("lines", {})
    items = [f"- `{path}:{line}`" for path, numbers in lines.items() for line in numbers]
    items += [f"- `{path}`" for path in truth["files"] if path not in lines]
    items += [f"- `{name}`" for name in truth.get("symbols", ())]
    items += [f"The line is:\n```\n{text}\n```" for text in truth.get("content", ())]
    return "\n".join(["I have found it.", *items])


def _with_plain_paths(truth: dict[str, Any]) -> dict[str, Any]:
    plain = {path: f"folder/file{number}.py" for number, path in enumerate(truth["files"])}
    lines = {plain[path]: lines for path, lines in truth.get("lines", {}).items()}
    return {**truth, "files": list(plain.values()), **({"lines": lines} if lines else {})}


def _is_right(proposal: Proposal, truth: dict[str, Any], answer: str) -> bool:
    return f1(proposal.case["prompt"], truth, answer) == 1.0


def f1(question: str, truth: dict[str, Any], answer: str) -> float:
    """Return the F1 that the scorer `retrieval` gives an answer."""
    score, *_ = _scorer().score(Case("case", question, expected=truth), Answer(answer))
    return score.value or 0.0


@cache
def _scorer() -> Scorer:
    return build("retrieval", {})

"""The canned models whose logs by other tools are in `tests/logs`, run by us: the same rows without another tool."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from tools.foreign_logs.questions import Question

from conftest import Folder

LOGS = Path(__file__).parent / "logs"
VERDICT = [
    *("verdict", "effect", "interval", "level", "p", "wins", "losses", "ties", "cases", "dropped", "repeats_left_out"),
    *("censoring", "bounds", "scores", "cases_needed", "population", "weight"),
]

TARGET = """\
import collections, os
from abreast.errors import Transient
from tools.foreign_logs.questions import BY_TEXT, Overloaded, reply

def answer(case, model, first, lost):
    asked = vars(collections).setdefault("_asked_in_tests", collections.Counter())  # no part of this code's digest
    key = os.getcwd(), case.id, model
    repeat = first + asked[key]
    asked[key] += 1
    if [case.id, repeat] in lost:
        raise Transient("lost in the other tool as well")
    try:
        return reply(model, BY_TEXT[case.input], repeat)
    except Overloaded as error:
        raise Transient(str(error))

def includes(case, text): return float(case.expected in text)
def exact(case, text): return float(case.expected == text)
def both(case, text): return (exact(case, text) + (len(text) <= 4)) / 2
"""


def own_verdict(
    folder: Folder,
    questions: Sequence[Question],
    scorer: str = "includes",
    repeats: int = 2,
    first: int = 0,
    lost: Collection[tuple[str, str, int]] = (),
) -> dict[str, Any]:
    """Run the canned models on the questions; the verdict with its figures to 12 digits. `first` is the first repeat,
    `lost` the trials, as model, question and repeat, that failed because of the infrastructure."""
    rows = [{"id": question.id, "input": question.text, "expected": question.expected} for question in questions]
    folder.write("own/cases.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    folder.write("own/canned_target.py", TARGET)
    spec = {
        "name": "own",
        "cases": "cases.jsonl",
        "target": "python:canned_target:answer",
        "repeats": repeats,
        "baseline": "careful",
        "variants": {
            model: {"model": model, "first": first, "lost": [[case, n] for side, case, n in lost if side == model]}
            for model in ("careful", "quick")
        },
        "scorers": [f"python:canned_target:{scorer}"],
        "limits": {"retries": 0},
        "store": "own.db",
    }
    folder.write("own/spec.yaml", json.dumps(spec))
    done = folder.abreast("run", "own/spec.yaml", "--quiet")
    assert done.code in (0, 3), done.output
    (content,) = folder.abreast("report", "--json", "--store", "own/own.db").json
    return figures(content["verdicts"][0])


def logged_verdict(folder: Folder, *logs: str | Path) -> dict[str, Any]:
    """Compare logs, or the variants of one log; the verdict with its figures to 12 digits."""
    done = folder.abreast("compare", "--json", *map(str, logs))
    assert done.code == 0, done.output
    (content,) = done.json
    return figures(content["verdicts"][0])


def figures(verdict: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps({name: verdict.get(name) for name in VERDICT})
    rounded: dict[str, Any] = json.loads(text, parse_float=lambda number: float(f"{float(number):.12g}"))
    return rounded


def import_logs(folder: Folder, *logs: str | Path) -> list[dict[str, Any]]:
    """Import logs into `results.db`; what the command says of each."""
    done = folder.abreast("import", "--json", "--store", "results.db", *map(str, logs))
    assert done.code == 0, done.output
    imported: list[dict[str, Any]] = done.json
    return imported

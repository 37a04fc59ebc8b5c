"""Small experiments to start from: what `abreast init` and `abreast demo` write."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from abreast.errors import BadInput

_DEMO = """\
# A simulated experiment: no model is called, every result says so.
# Does showing units in the prompt help? The simulator knows the truth and is told how often to tell it.
name: units-in-the-prompt
cases: cases.jsonl
baseline: plain
variants:
  plain:
    target: simulated
    prompt: "{{ question }}"
    accuracy: 0.62
    latency: {median: 0.05, p95: 0.12}
    cost_usd: 0.0011
  with_units:
    target: simulated
    prompt: "{{ question }} Give the unit you work in, then the number."
    accuracy: 0.80
    latency: {median: 0.06, p95: 0.14}
    errors: {rate_limit: 0.02}
    cost_usd: 0.0013
scorers:
  - number: {rel: 0.001}
limits: {parallel: 16}
"""

_FUNCTION = """\
name: normalise-names
cases: cases.jsonl
target: python:predict:predict
baseline: v1
variants:
  v1: {style: strip}
  v2: {style: squeeze}
scorers: [exact]
limits: {parallel: 4}
"""

_PREDICT = '''\
"""What is compared. Called with a case and the variant's parameters; returns the answer."""


def predict(case, style):
    text = case.input.strip()
    if style == "squeeze":
        text = " ".join(text.split())
    return text.title()
'''


def _demo_cases() -> str:
    chance, spare = random.Random(7), random.Random(8)
    lines, asked = [], set[str]()
    for number in range(1, 161):
        kind, question, answer = _demo_question(chance)
        while question in asked:  # the same question twice would count as two independent cases
            kind, question, answer = _demo_question(spare)
        asked.add(question)
        lines.append(
            json.dumps(
                {
                    "id": f"{kind}-{number:03d}",
                    "input": {"question": question},
                    "expected": answer,
                    "tags": {"kind": kind},
                }
            )
        )
    return "\n".join(lines) + "\n"


def _demo_question(chance: random.Random) -> tuple[str, str, float]:
    """Its kind, the question and the answer."""
    speed, hours = chance.randint(12, 130), chance.randint(2, 9)
    kind = chance.choice(("distance", "fuel"))
    rate = chance.randint(4, 9)
    distance = speed * hours
    question = f"A car drives {hours} hours at {speed} km/h."
    if kind == "distance":
        return kind, f"{question} How far does it get?", float(distance)
    question += f" It uses {rate} litres per 100 km. How many litres does it use?"
    return kind, question, distance * rate / 100


def _function_cases() -> str:
    names = [
        (" ada lovelace", "Ada Lovelace"),
        ("alan  turing", "Alan Turing"),
        ("grace hopper ", "Grace Hopper"),
        ("edsger   dijkstra", "Edsger Dijkstra"),
        ("barbara liskov", "Barbara Liskov"),
        ("donald  knuth ", "Donald Knuth"),
        ("tony hoare", "Tony Hoare"),
        (" john  backus", "John Backus"),
        ("frances allen", "Frances Allen"),
        ("ken  thompson", "Ken Thompson"),
        ("dennis ritchie", "Dennis Ritchie"),
        ("margaret  hamilton", "Margaret Hamilton"),
    ]
    return "".join(
        json.dumps({"id": f"name-{number:02d}", "input": given, "expected": wanted}) + "\n"
        for number, (given, wanted) in enumerate(names, 1)
    )


_STARTERS: dict[str, dict[str, str | Callable[[], str]]] = {
    "demo": {"experiment.yaml": _DEMO, "cases.jsonl": _demo_cases},
    "function": {"experiment.yaml": _FUNCTION, "cases.jsonl": _function_cases, "predict.py": _PREDICT},
}


def write_starter(kind: str, folder: Path, overwrite: bool = True) -> list[str]:
    """Write the files of a starter; what is there already is left alone unless `overwrite`."""
    files = _STARTERS[kind]
    if not overwrite:
        there = [name for name in files if (folder / name).exists()]
        if there:
            raise BadInput(f"{folder / there[0]}: is there already", "choose another place with --folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_text(content if isinstance(content, str) else content(), encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{folder}: cannot be written ({error.strerror})") from None
    return [str(folder / name) for name in files]

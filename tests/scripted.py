"""Experiments in which every answer is scripted, so that a test knows what the analysis must find."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from conftest import Done, Folder

TARGET = """\
import collections, os
from abreast import Answer, Usage
from abreast.errors import Skipped, Transient

def answer(case, side):
    asked = vars(collections).setdefault("_asked_in_tests", collections.Counter())  # no part of this code's digest
    key = os.getcwd(), case.input["n"], side
    word = case.input[side][asked[key] % len(case.input[side])]
    asked[key] += 1
    if word == "crash":
        raise ValueError("broken")
    if word == "network":
        raise Transient("the line is down")
    if word == "skip":
        raise Skipped("does not apply")
    cost = case.input.get("cost", {}).get(side)
    basis = "unknown" if cost is None else "reported"
    return Answer(word, usage=Usage(100, 10, 50, 5), cost_usd=cost, cost_basis=basis)
"""


def scripted(
    folder: Folder,
    cases: Sequence[Mapping[str, Any]],
    *words: str,
    repeats: int = 1,
    variants: Sequence[str] = ("a", "b"),
    more: str = "",
    name: str = "spec.yaml",
) -> Done:
    """Run cases that script the answers of each variant, one word per repeat; `yes` is right."""
    lines = [
        {
            "id": case.get("id", f"c{number}"),
            "input": {**{side: case[side] for side in variants}, "cost": case.get("cost", {}), "n": number},
            "expected": "yes",
            "tags": case.get("tags", {}),
            **({"group": case["group"]} if "group" in case else {}),
        }
        for number, case in enumerate(cases)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write("scripted_target.py", TARGET)
    sides = ", ".join(f"{side}: {{side: {side}}}" for side in variants)
    folder.write(
        name,
        f"name: scripted\ncases: cases.jsonl\ntarget: python:scripted_target:answer\nrepeats: {repeats}\n"
        f"variants: {{{sides}}}\nscorers: [exact]\nlimits: {{retries: 0}}\n{more}",
    )
    return folder.abreast("run", name, "--quiet", *words)


def pairs(wins: int, losses: int, ties: int = 0, **extra: Any) -> list[dict[str, Any]]:
    """Cases that b wins, loses or ties."""
    actual = [("no", "yes")] * wins + [("yes", "no")] * losses + [("yes", "yes")] * ties
    return [{"a": [a], "b": [b], **extra} for a, b in actual]

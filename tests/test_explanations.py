"""Explanations of wrong answers show how they differ from the expected ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import Folder


def explain(folder: Folder, scorer: str, answer: str, expected: Any) -> str:
    """The line that `abreast show` prints for one answer."""
    folder.write("cases.jsonl", json.dumps({"id": "c", "input": "?", "expected": expected}) + "\n")
    folder.write("mine.py", f"def answer(case):\n    return {answer!r}\n")
    spec = {"cases": "cases.jsonl", "variants": {"a": {"target": "python:mine:answer"}}, "scorers": [scorer]}
    folder.write("spec.yaml", json.dumps(spec))
    done = folder.rerun("run", "spec.yaml", "--quiet", "--fresh")
    assert done.code == 0, done.err
    screen = folder.abreast("show", "latest", "c").out
    line = next(line for line in screen.splitlines() if line.startswith(f"score_{scorer}"))
    score = folder.abreast("logs", "--json").json[0]["scores"][0]
    assert score["explanation"] in line, "the terminal shows the full explanation"
    return line


@pytest.mark.parametrize(
    ("answer", "expected", "difference"),
    [
        (
            "Alan  Turing",
            "Alan Turing",
            "read 'Alan  Turing', expected 'Alan Turing' (only whitespace differs, first at character 6: "
            "read U+0020 SPACE, expected 'T')",
        ),
        (
            "Alan\u00a0Turing",
            "Alan Turing",
            r"read 'Alan\xa0Turing', expected 'Alan Turing' (only whitespace differs, first at character 5: "
            "read U+00A0 NO-BREAK SPACE, expected U+0020 SPACE)",
        ),
        ("Alan\nTuring", "Alan Turing", r"read 'Alan\nTuring', expected 'Alan Turing' (only whitespace differs"),
        ("alan turing", "Alan Turing", "expected 'Alan Turing' (only case differs, first at character 1)"),
        (
            "cafe\u0301",
            "caf\u00e9",
            "(only the Unicode form differs, first at character 4: read U+0065 LATIN SMALL LETTER E + "
            "U+0301 COMBINING ACUTE ACCENT, expected U+00E9 LATIN SMALL LETTER E WITH ACUTE)",
        ),
        ("p\u0430ypal", "paypal", "(differs at character 2: read U+0430 CYRILLIC SMALL LETTER A, expected 'a')"),
        ("Pa\u200bris", "Paris", "(only invisible characters differ, first at character 3: read U+200B ZERO WIDTH SP"),
        ("alan  turing", "Alan Turing", "(only whitespace and case differ, first at character 1: read 'a', expected"),
        ("paris", ["Paris", "Rome"], "one of ['Paris', 'Rome']; closest: 'paris', expected 'Paris' (only case differs"),
    ],
    ids=["spaces", "no-break space", "newline", "case", "decomposed", "cyrillic", "zero width", "two kinds", "any of"],
)
def test_texts_that_look_the_same_are_distinguished(
    folder: Folder, answer: str, expected: Any, difference: str
) -> None:
    line = explain(folder, "exact", answer, expected)
    assert line.startswith("score_exact: 0 ")
    assert difference in line


def test_texts_that_plainly_differ_need_no_explanation(folder: Folder) -> None:
    assert explain(folder, "exact", "London", "Paris") == "score_exact: 0 read 'London', expected 'Paris'"
    assert explain(folder, "exact", "Paris", ["Paris", "paris"]).endswith("expected one of ['Paris', 'paris']")


@pytest.mark.parametrize("scorer", ["exact", "text", "json"])
def test_long_values_are_shown_around_their_first_difference(folder: Folder, scorer: str) -> None:
    words = " ".join(f"word{number}" for number in range(300))
    answer, expected = words.replace("word200", "wort200"), words
    if scorer == "json":
        line = explain(folder, scorer, json.dumps({"a": answer}), {"a": expected})
    else:
        line = explain(folder, scorer, answer, expected)
    assert "wort200" in line
    assert "word200" in line
    assert f"first difference at character {words.index('word200') + 4:,}" in line
    assert len(line) < 400


def test_long_lists_are_shown_around_their_first_difference(folder: Folder) -> None:
    numbers = list(range(100))
    line = explain(folder, "exact", json.dumps([*numbers[:90], -1, *numbers[91:]]), numbers)
    assert "89, -1, 91" in line
    assert "89, 90, 91" in line


@pytest.mark.parametrize(
    ("scorer", "expected"), [("text", "paypal"), ("set", ["paypal", "b"]), ("json", {"a": "paypal"})]
)
def test_other_scorers_name_look_alikes_too(folder: Folder, scorer: str, expected: Any) -> None:
    answers = {"text": "p\u0430ypal", "set": "p\u0430ypal, b", "json": '{"a": "p\u0430ypal"}'}
    line = explain(folder, scorer, answers[scorer], expected)
    assert "(differs at character 2: read U+0430 CYRILLIC SMALL LETTER A, expected 'a')" in line


def test_failure_modes_group_differences_of_one_kind(folder: Folder) -> None:
    cases = [{"id": f"c{n}", "input": name, "expected": name} for n, name in enumerate(["Alan Turing", "Ada Lovelace"])]
    folder.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    folder.write("mine.py", "def answer(case):\n    return case.input.replace(' ', '\\u00a0')\n")
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: 'python:mine:answer'}}\nscorers: [exact]\n")
    folder.abreast("run", "spec.yaml", "--quiet")
    (mode,) = folder.abreast("report", "--json").json[0]["variants"]["a"]["failure_modes"]
    why = "only whitespace differs, first at character …: read …, expected …"
    assert mode == {"mode": f"wrong: read …, expected … ({why})", "trials": 2}

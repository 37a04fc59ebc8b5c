"""Requirements on a result: `--fail-if` fails a build, and never lets through what it could not check."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.analyse import gates
from abreast.errors import BadInput
from conftest import Folder


@pytest.fixture
def compared(folder: Folder) -> Folder:
    folder.cases(20)
    folder.write("mine.py", FUNCTION)
    folder.write("spec.yaml", EXPERIMENT)
    assert folder.abreast("run", "spec.yaml", "--quiet").code == 0
    return folder


FUNCTION = """\
def answer(case, right, cost):
    if right == "broken":
        raise ValueError("broken")
    return {"prediction": "yes" if right else "no", "cost_usd": cost}

def unpriced(case):
    return "yes"
"""
EXPERIMENT = """\
cases: cases.jsonl
baseline: good
variants:
  good: {target: "python:mine:answer", right: true, cost: 0.01}
  bad: {target: "python:mine:answer", right: false, cost: 0.02}
scorers: [exact]
"""


@pytest.mark.parametrize(
    ("requirement", "told"),
    [
        ("worse", "failed: bad is worse than good"),
        ("score < 0.8", "failed: score < 0.8: score of bad is 0"),
        ("score[bad] <= 0", "score of bad is 0"),
        ("cost_usd > 0.3", "cost_usd of bad is 0.4"),
        ("cost > +10%", "cost_usd of bad is 0.4, +100.0% against good"),
        ("score < -5%", "score of bad is 0, -100.0% against good"),
        ("errors >= 0%", "errors of bad is 0.0%"),
        ("not better", "failed: not better: bad against good is worse"),
        ("score_exact < 0.8", "score_exact of bad is 0"),
        ("score_other < 0.8", "score_other of bad is not known"),
    ],
)
def test_a_requirement_that_is_not_met_is_exit_1_and_a_sentence(compared: Folder, requirement: str, told: str) -> None:
    done = compared.abreast("report", "--fail-if", requirement)
    assert done.code == 1
    assert told in done.err
    assert compared.abreast("run", "spec.yaml", "--quiet", "--fail-if", requirement).code == 1


@pytest.mark.parametrize(
    "requirement",
    ["score[good] < 0.8", "cost_usd > 5", "errors > 2%", "cost > +100%", "latency_p95 > 100", "inconclusive"],
)
def test_a_requirement_that_is_met_is_exit_0(compared: Folder, requirement: str) -> None:
    assert compared.abreast("report", "--fail-if", requirement).code == 0


def test_every_requirement_is_looked_at(compared: Folder) -> None:
    done = compared.abreast("report", "--fail-if", "worse", "--fail-if", "cost > 5", "--fail-if", "score < 0.5")
    assert done.code == 1
    assert done.err.count("failed:") == 2


def test_what_is_not_known_is_not_met(folder: Folder) -> None:
    folder.cases(3)
    folder.write("mine.py", FUNCTION)
    folder.write("spec.yaml", "{cases: cases.jsonl, variants: {only: {target: 'python:mine:unpriced'}}}")
    done = folder.abreast("run", "spec.yaml", "--fail-if", "cost_usd > 5")
    assert done.code == 1
    assert "cost_usd of only is not known" in done.err
    for requirement in ("latency_p50 > +10%", "worse"):
        done = folder.abreast("report", "--fail-if", requirement)
        assert done.code == 1
        assert "there is nothing to compare only with" in done.err


@pytest.mark.parametrize(
    ("requirement", "told"),
    [
        ("wurst", "not understood"),
        ("scoer < 1", 'did you mean "score"'),
        ("score < +5", "in per cent"),
        ("score = 1", "not understood"),
        ("score[bda] < 1", 'did you mean "bad"'),
    ],
)
def test_a_requirement_that_makes_no_sense_is_exit_2_before_anything_runs(
    folder: Folder, requirement: str, told: str
) -> None:
    folder.cases(3)
    folder.write("mine.py", FUNCTION)
    folder.write("spec.yaml", EXPERIMENT)
    done = folder.abreast("run", "spec.yaml", "--fail-if", requirement)
    assert done.code == 2
    assert told in done.err
    assert not (folder.path / "results.db").exists()


@given(st.text(max_size=40))
def test_any_text_is_a_requirement_or_refused_in_plain_words(text: str) -> None:
    with contextlib.suppress(BadInput):
        assert gates.read(text).text == text.strip()

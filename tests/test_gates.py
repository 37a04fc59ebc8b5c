"""Requirements on a result: `--fail-if` fails a build, and an uncheckable requirement is never met."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast import Experiment
from abreast.analyse.decision import gates
from abreast.errors import BadInput
from conftest import Folder
from scripted import pairs, scripted


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
    ("requirement", "message"),
    [
        ("worse", "requirement not met: bad is worse than good"),
        ("score < 0.8", "requirement not met: score < 0.8: score of bad is 0"),
        ("score[bad] <= 0", "score of bad is 0"),
        ("cost_usd > 0.3", "cost_usd of bad is 0.4"),
        ("cost > +10%", "cost_usd of bad is 0.4, +100.0% against good"),
        ("score < -5%", "score of bad is 0, -100.0% against good"),
        ("errors >= 0%", "errors of bad is 0.0%"),
        ("not better", "requirement not met: not better: bad against good is worse"),
        ("score_exact < 0.8", "score_exact of bad is 0"),
        ("score_other < 0.8", '"score_other < 0.8" cannot be decided: score_other of bad is unknown'),
    ],
)
def test_an_unmet_requirement_gives_exit_1_and_a_message(compared: Folder, requirement: str, message: str) -> None:
    done = compared.abreast("report", "--fail-if", requirement)
    assert done.code == 1
    assert message in done.err
    assert compared.abreast("run", "spec.yaml", "--quiet", "--fail-if", requirement).code == 1


@pytest.mark.parametrize(
    "requirement",
    ["score[good] < 0.8", "cost_usd > 5", "errors > 2%", "cost > +100%", "latency_p95 > 100", "inconclusive"],
)
def test_a_met_requirement_gives_exit_0(compared: Folder, requirement: str) -> None:
    assert compared.abreast("report", "--fail-if", requirement).code == 0


def test_every_requirement_is_checked(compared: Folder) -> None:
    done = compared.abreast("report", "--fail-if", "worse", "--fail-if", "cost > 5", "--fail-if", "score < 0.5")
    assert done.code == 1
    assert done.err.count("requirement not met:") == 2


def test_a_requirement_on_an_unknown_value_is_not_met(folder: Folder) -> None:
    folder.cases(3)
    folder.write("mine.py", FUNCTION)
    folder.write("spec.yaml", "{cases: cases.jsonl, variants: {only: {target: 'python:mine:unpriced'}}}")
    done = folder.abreast("run", "spec.yaml", "--fail-if", "cost_usd > 5")
    assert done.code == 1
    assert '"cost_usd > 5" cannot be decided: cost_usd of only is unknown' in done.err
    for requirement in ("latency_p50 > +10%", "worse"):
        done = folder.abreast("report", "--fail-if", requirement)
        assert done.code == 1
        assert f'"{requirement}" cannot be decided: nothing to compare only with' in done.err


WORDS = ["worse", "not better", "inconclusive"]


@pytest.mark.parametrize("requirement", WORDS)
def test_a_run_that_allows_no_comparison_meets_no_requirement_on_its_verdict(folder: Folder, requirement: str) -> None:
    """Every answer of one side is skipped, so no case has a score on both sides."""
    cases = [{"a": ["yes"], "b": ["skip"]}] * 12
    done = scripted(folder, cases, "--fail-if", requirement)
    assert done.code == 1
    assert f'requirement not met: "{requirement}" cannot be decided: no comparison of b with a: ' in done.err
    assert folder.abreast("report", "--fail-if", requirement).code == 1


def test_a_resumed_run_that_allows_no_comparison_meets_no_requirement(folder: Folder) -> None:
    cases = [{"a": ["yes"], "b": ["network", "skip"]}] * 2
    assert scripted(folder, cases).code == 3
    done = folder.abreast("resume", "--quiet", "--fail-if", "worse")
    assert done.code == 1, done.err
    assert 'requirement not met: "worse" cannot be decided: no comparison of b with a: ' in done.err


def test_an_inconclusive_verdict_is_a_known_value(folder: Folder) -> None:
    assert scripted(folder, pairs(5, 5, 10), "--fail-if", "worse").code == 0
    assert folder.abreast("report", "--fail-if", "inconclusive").code == 1


def test_the_latency_of_reused_answers_is_unknown_and_the_message_says_why(compared: Folder) -> None:
    done = compared.abreast("run", "spec.yaml", "--quiet", "--fail-if", "latency_p95 > +10%")
    assert done.code == 1
    why = "latency_p95 of good is unknown (all its answers are reused)"
    assert f'"latency_p95 > +10%" cannot be decided: {why}; latency_p95 of bad is unknown' in done.err


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ("wurst", "not understood"),
        ("scoer < 1", 'did you mean "score"'),
        ("score < +5", "needs a percent sign"),
        ("score = 1", "not understood"),
        ("score[bda] < 1", 'did you mean "bad"'),
    ],
)
def test_an_invalid_requirement_gives_exit_2_before_anything_runs(
    folder: Folder, requirement: str, message: str
) -> None:
    folder.cases(3)
    folder.write("mine.py", FUNCTION)
    folder.write("spec.yaml", EXPERIMENT)
    done = folder.abreast("run", "spec.yaml", "--fail-if", requirement)
    assert done.code == 2
    assert message in done.err
    assert folder.abreast("check", "spec.yaml", "--fail-if", requirement).code == 2
    folder.write("own.yaml", EXPERIMENT + f"fail_if: ['{requirement}']\n")
    for command in ("run", "check"):
        done = folder.abreast(command, "own.yaml")
        assert done.code == 2
        assert "--fail-if " in done.err
        assert message in done.err
    with pytest.raises(BadInput, match=r"own\.yaml: --fail-if "):
        Experiment.load(folder.path / "own.yaml").run()
    assert not (folder.path / "results.db").exists()


@given(st.text(max_size=40))
def test_any_text_is_a_requirement_or_refused_with_a_message(text: str) -> None:
    with contextlib.suppress(BadInput):
        assert gates.read(text).text == text.strip()

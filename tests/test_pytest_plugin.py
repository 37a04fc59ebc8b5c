"""The pytest plugin: experiments are tests, and pytest loads nothing of abreast without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

ANSWERS = """\
def answer(case, right):
    if right == "crash":
        raise ValueError("it crashed")
    return "yes" if right else "no"

def costly(case, right):
    return {"prediction": "yes", "cost_usd": 9}
"""
SPEC = """\
cases: cases.jsonl
target: python:answers:answer
variants: {{old: {{right: {old}}}, new: {{right: {new}}}}}
scorers: [exact]
store: {name}.db
"""


@dataclass
class Project:
    path: Path

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def spec(self, name: str, old: str = "true", new: str = "true", more: str = "") -> None:
        self.write(f"{name}.abreast.yaml", SPEC.format(name=name, old=old, new=new) + more)

    def pytest(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=self.path,
            env=environment | variables,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def runs(self, store: str) -> list[dict[str, object]]:
        words = ["runs", "--json", "--store", store]
        done = subprocess.run(
            [sys.executable, "-m", "abreast", *words], cwd=self.path, capture_output=True, text=True, check=True
        )
        runs: list[dict[str, object]] = json.loads(done.stdout)
        return runs


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.write("pytest.ini", "[pytest]\n")
    project.write("answers.py", ANSWERS)
    cases = [{"id": f"c{number}", "input": "x", "expected": "yes"} for number in range(20)]
    project.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    return project


def test_each_file_is_a_test_whose_failure_is_the_verdict(project: Project) -> None:
    project.spec("same")
    project.spec("worse", new="false")
    project.spec("strict", old="false", new="false", more="fail_if: ['score < 0.5', 'errors > 0%']\n")
    done = project.pytest("--junit-xml", "junit.xml", "-rA")
    assert done.returncode == 1
    assert "2 failed, 1 passed" in done.stdout
    assert "requirement not met: new is worse than old" in done.stdout
    assert "new is worse than old: −100.0 points" in done.stdout
    assert "requirement not met: score < 0.5: score of new is 0" in done.stdout
    assert "errors > 0%" not in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    verdicts = {
        test.get("name"): {item.get("name"): item.get("value") for item in test.iter("property")}["abreast_verdict"]
        for test in ElementTree.parse(project.path / "junit.xml").iter("testcase")
    }
    assert verdicts == {"same": "inconclusive", "strict": "inconclusive", "worse": "worse"}


def test_k_selects_files_and_nothing_else_is_executed(project: Project) -> None:
    project.spec("first")
    project.spec("second", new="false")
    project.write("test_other.py", "def test_other():\n    pass\n")
    done = project.pytest("-k", "first or other")
    assert done.returncode == 0, done.stdout
    assert "2 passed, 1 deselected" in done.stdout
    assert not (project.path / "second.db").exists()


def test_workers_of_xdist_execute_each_experiment_once(project: Project) -> None:
    for name in ("one", "two", "three"):
        project.spec(name)
    done = project.pytest("-n", "2")
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
    assert [len(project.runs(f"{name}.db")) for name in ("one", "two", "three")] == [1, 1, 1]


def test_workers_of_xdist_take_turns_at_one_experiment(project: Project) -> None:
    project.spec("one")
    test = "def test_{0}(abreast_run):\n    assert abreast_run('one.abreast.yaml').verdict.word == 'inconclusive'\n"
    project.write("test_one.py", "".join(test.format(number) for number in range(5)))
    done = project.pytest("-n", "2")
    assert "6 passed" in done.stdout, done.stdout
    assert len(project.runs("one.db")) == 6


def test_what_prevents_a_run_is_said_without_a_traceback(project: Project) -> None:
    project.spec("typo", more="scorer: [exact]\n")
    project.spec("crash", new="crash")
    project.write(
        "costly.abreast.yaml",
        SPEC.format(name="costly", old="true", new="true").replace("answers:answer", "answers:costly"),
    )
    done = project.pytest()
    assert 'typo.abreast.yaml:6: unknown key "scorer"' in done.stdout
    assert "help: " in done.stdout
    assert "it crashed" in done.stdout
    assert "Traceback" not in done.stdout
    assert "2 failed, 1 passed" in done.stdout, "the first run of a costly experiment has no estimate"
    project.write("answers.py", ANSWERS.replace('"yes", "cost', '"no", "cost'))
    done = project.pytest("-k", "costly")
    assert "error: this will cost about $360.00 (40 trials), more than limits.ask_above_usd ($5.00)" in done.stdout
    assert "help: raise it, or cap the cost with limits.budget_usd" in done.stdout


def test_the_fixture_executes_an_experiment_and_returns_its_result(project: Project) -> None:
    project.spec("mine", new="false")
    project.write(
        "test_mine.py",
        """
from pathlib import Path
import pytest
from abreast import Experiment
from abreast.errors import BadInput

def test_result(abreast_run):
    result = abreast_run("mine.abreast.yaml", limit=12, parallel=2)
    assert result.verdict.word == "worse"
    assert len(result.rows()) == 24

def test_requirement(abreast_run):
    abreast_run("mine.abreast.yaml", fail_if=["worse", "errors > 2%"], label="second")

def test_in_python(abreast_run, tmp_path):
    cases = [{"id": "a", "input": "x", "expected": "X"}]
    experiment = Experiment(cases=cases, variants={"up": {}}, target=lambda case: case.input.upper(),
                            scorers=["exact"], store=tmp_path / "own.db")
    assert abreast_run(experiment, fail_if="score < 1").rows()[0]["score"] == 1

def test_unknown(abreast_run):
    abreast_run("missing.yaml")

def test_misspelt(abreast_run):
    with pytest.raises(BadInput, match="no variant newest"):
        abreast_run("mine.abreast.yaml", fail_if=["score[newest] < 1"], store="refused.db")
    assert not (Path(__file__).parent / "refused.db").exists()
""",
    )
    done = project.pytest("test_mine.py")
    assert "2 failed, 3 passed" in done.stdout, done.stdout
    assert "RequirementsNotMet: requirement not met: new is worse than old" in done.stdout
    assert "missing.yaml: no such file" in done.stdout
    assert "_require(result" not in done.stdout, "the traceback ends in the test"


def test_pytest_loads_one_small_module_and_nothing_of_abreast(project: Project) -> None:
    project.spec("unused")
    project.write(
        "test_plain.py",
        """
import json, os, sys

def test_plain():
    with open(os.environ["MODULES"], "w") as file:
        json.dump(sorted(sys.modules), file)
""",
    )
    modules = []
    for words in ([], ["-p", "pytest_abreast"]):
        done = project.pytest("-k", "plain", *words, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", MODULES="modules.json")
        assert "1 passed" in done.stdout, done.stdout
        modules.append(set(json.loads((project.path / "modules.json").read_text())))
    assert modules[1] - modules[0] == {"pytest_abreast"}
    assert not [name for name in modules[1] if name.partition(".")[0] == "abreast"]
    done = project.pytest("--collect-only", "-q")
    assert "unused.abreast.yaml::unused" in done.stdout, "the entry point loads it"

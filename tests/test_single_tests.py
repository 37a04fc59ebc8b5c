"""Results of single tests: those that an agent must fix, those that it must not break, and how reports are read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.model import Check
from abreast.targets.checks.check_runs import CaseTests, CheckTask
from abreast.targets.checks.reference_tests import compare_runs
from abreast.targets.checks.test_results import instrument, parse_cargo, parse_go, parse_jest, parse_junit, reporter_of
from conftest import Folder
from repositories import Project

GREETING = """\
from greeting import greet

def test_a_name_is_greeted():
    assert greet("Ann") == "hello Ann"

def test_nobody_is_greeted():
    assert greet("") == "hello "

def test_that_fails_for_everybody():
    assert False

def test_that_is_flaky():
    import os, pathlib
    counter = pathlib.Path(os.environ["COUNTED"])
    counter.write_text(counter.read_text() + "x" if counter.exists() else "x")
    assert len(counter.read_text()) % 2
"""
AGENT = """\
import pathlib, sys
how = sys.argv[1]
if how != "lazy":
    pathlib.Path("greeting.py").write_text("greet = 'hello {}'.format\\n")
if how == "breaks":
    pathlib.Path("prices.py").write_text("PRICE = 0\\n")
if how == "deletes":
    pathlib.Path("prices.py").write_text("PRICE = 0\\n")
    pathlib.Path("checks/test_prices.py").unlink()
if how == "exits":
    pathlib.Path("greeting.py").write_text("import os\\nos._exit(0)\\n")
print(how)
"""


@pytest.fixture
def shop(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("COUNTED", str(folder.path / "counted.txt"))
    project = Project(folder.path / "shop")
    project.put("greeting.py", "def greet():\n    return 'hello'\n")
    project.put("prices.py", "PRICE = 1\n")
    project.put("checks/test_prices.py", "from prices import PRICE\n\ndef test_price():\n    assert PRICE == 1\n")
    project.put("conftest.py", "")
    project.commit("Begin")
    project.put("greeting.py", "def greet(name):\n    return f'hello {name}'\n")
    project.put("tests/test_greeting.py", GREETING)
    project.commit("Greet people by their name (#1)")
    folder.write("agent.py", AGENT)
    return folder


def run(folder: Folder, *agents: str) -> dict[str, dict[str, Any]]:
    words = [f"--agent={how}={sys.executable} {{folder}}/agent.py {how}" for how in agents]
    done = folder.abreast("run", "coding-agents", *words, "--repo", "shop", "--pull-requests", "1")
    assert done.code == 0, done.output
    columns = "variant, score, checks, f2p_passed, f2p_total, p2p_passed, p2p_total"
    rows = folder.sql(f"select {columns} from predictions where run = (select max(run) from predictions)")
    return {row["variant"]: {**row, **json.loads(row["checks"])["tests"]} for row in rows}


def test_all_target_tests_must_pass_and_no_other_test_may_break(shop: Folder) -> None:
    rows = run(shop, "good", "lazy", "breaks", "deletes", "exits")
    assert {how: row["score"] for how, row in rows.items()} == {
        "good": 1.0,
        "lazy": 0.0,
        "breaks": 0.0,
        "deletes": 0.0,
        "exits": 0.0,
    }
    counts = {
        how: tuple(row[name] for name in ("f2p_passed", "f2p_total", "p2p_passed", "p2p_total"))
        for how, row in rows.items()
    }
    assert counts["good"] == (2, 2, 1, 1), "neither the flaky test nor the one that always fails counts"
    assert counts["lazy"] == (0, 2, 1, 1)
    assert counts["breaks"] == counts["deletes"] == (2, 2, 0, 1)
    assert counts["exits"][0] == 0, "ending the process with 0 passes no test"
    assert rows["breaks"]["regressions"] == ["checks.test_prices::test_price"]
    assert "1 of 1 other tests broken: checks.test_prices::test_price" in rows["breaks"]["told"]
    assert "still failing: tests.test_greeting::test_a_name_is_greeted and 1 more" in rows["lazy"]["told"]


def test_results_without_an_agent_are_computed_once(shop: Folder) -> None:
    counter = shop.path / "counted.txt"
    run(shop, "good")
    assert len(counter.read_text()) == 1 + 2 + 1, "before, twice in what people did, and in what the agent left"
    run(shop, "lazy")
    assert len(counter.read_text()) == 1 + 2 + 1 + 1


def test_flaky_tests_are_ignored() -> None:
    human = {"new": "passed", "old": "passed", "flaky": "passed", "broken": "failed", "skipped": "skipped"}
    repeated = {**human, "flaky": "failed"}
    before = {"old": "passed", "flaky": "passed", "new": "failed", "broken": "failed"}
    assert compare_runs(before, human, repeated) == (("new",), ("old",), 1)  # type: ignore[arg-type]


def test_the_key_of_stored_results_survives_renamed_classes() -> None:
    check, own = Check(name="tests", command=("sh",)), CaseTests("c0ffee", ("a.py",), "ba5e")
    task = CheckTask(check, ("sh", "a.py"), (("CASE", "1"),), own, ("make",), "go")
    assert task.cache_text() == (
        f"Task(check={check!r}, words=('sh', 'a.py'), variables=(('CASE', '1'),), "
        "own=Own(commit='c0ffee', tests=('a.py',), base='ba5e'), rest=('make',), reporter='go')"
    )


# Reports

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=20
)
STATUSES = st.dictionaries(NAMES, st.sampled_from(["passed", "failed", "skipped"]), max_size=8)


@given(STATUSES)
def test_reports_of_all_kinds_are_read_as_they_were_written(results: dict[str, Any]) -> None:
    marks = {"passed": "", "failed": "<failure/>", "skipped": "<skipped/>"}
    cases = "".join(
        f"<testcase classname='c' name={quoteattr(name)}>{marks[how]}</testcase>" for name, how in results.items()
    )
    read = parse_junit(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert read in ({f"c::{name}": how for name, how in results.items()}, {}), "XML has no place for some characters"
    actions = {"passed": "pass", "failed": "fail", "skipped": "skip"}
    events = [json.dumps({"Action": actions[how], "Package": "p", "Test": name}) for name, how in results.items()]
    assert parse_go("\n".join(["# build", *events, "{"])) == {f"p::{name}": how for name, how in results.items()}
    tests = [{"fullName": name, "status": how} for name, how in results.items()]
    document = {"testResults": [{"name": "/w/a/x.test.js", "assertionResults": tests}]}
    assert parse_jest(json.dumps(document), Path("/w")) == {
        f"a/x.test.js::{name}": how for name, how in results.items()
    }


@given(st.text(max_size=200))
def test_any_report_is_read_without_a_crash(text: str) -> None:
    for parse in (parse_junit, parse_go, parse_cargo, lambda given: parse_jest(given, Path("/w"))):
        assert isinstance(parse(text), dict)


def test_the_worst_result_of_tests_with_the_same_name_counts() -> None:
    lines = "test a::b ... ok\ntest a::b ... FAILED\ntest c ... ignored, slow\ntest d - should panic ... ok\nnoise\n"
    assert parse_cargo(lines) == {"a::b": "failed", "c": "skipped", "d": "passed"}


@pytest.mark.parametrize(
    ("words", "script", "expected"),
    [
        (["go", "test", "./a"], None, ["go", "test", "-json", "./a"]),
        (["cargo", "test", "--", "-q"], None, ["cargo", "test", "--no-fail-fast", "--", "-q"]),
        (["npm", "test"], "tsc && jest", ["npm", "test", "--", "--json", "--outputFile=/r/scripts.json"]),
        (["npm", "test"], "ava", ["npm", "test"]),
        (
            ["npx", "vitest", "run"],
            None,
            ["npx", "vitest", "run", "--reporter=default", "--reporter=json", "--outputFile.json=/r/scripts.json"],
        ),
    ],
)
def test_known_commands_get_options_to_report_single_tests(
    words: list[str], script: str | None, expected: list[str]
) -> None:
    assert instrument(words, reporter_of(words, script), Path("/r")) == expected

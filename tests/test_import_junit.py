"""JUnit XML as runs: which tests passed, which failed, and which never came to an assertion."""

from __future__ import annotations

import pytest

from conftest import Folder
from test_import import figures, imported, verdicts

SUITE = """\
<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="2" tests="6"
  timestamp="2026-11-19T03:58:00.000000+00:00">
<testcase classname="tests.test_a" name="test_one" time="0.5"/>
<testcase classname="tests.test_a" name="test_two[x]" time="1,000.25">
  <failure message="AssertionError: assert 3 == 4">a connection was not needed</failure></testcase>
<testcase classname="tests.test_a" name="test_three"><failure message="openai.RateLimitError: 429">
at once</failure></testcase>
<testcase classname="tests.test_a" name="test_four">
<error message="failed on setup with RuntimeError: boom"/></testcase>
<testcase classname="tests.test_a" name="test_five"><skipped message="no gpu"/></testcase>
<testcase classname="tests.test_a" name="test_six"><failure message="KeyError: 'x'">where</failure>
  <system-out>printed</system-out></testcase>
</testsuite></testsuites>
"""


def test_tests_are_cases_and_errors_are_kept_apart(folder: Folder) -> None:
    folder.write("before.xml", SUITE)
    imported(folder, "before.xml")
    rows = folder.sql(
        "select case_id, variant, status, error_kind, error_blame, score_passed, latency_s, answer from predictions"
    )
    outcomes = [(row["case_id"], row["status"], row["error_blame"], row["score_passed"]) for row in rows]
    assert outcomes == [
        ("tests.test_a::test_one", "ok", None, 1.0),
        ("tests.test_a::test_two[x]", "ok", None, 0.0),
        ("tests.test_a::test_three", "error", "infrastructure", None),
        ("tests.test_a::test_four", "error", "unknown", None),
        ("tests.test_a::test_five", "skipped", "variant", None),
        ("tests.test_a::test_six", "ok", None, 0.0),
    ]
    assert {row["variant"] for row in rows} == {"before"}
    assert [row["latency_s"] for row in rows][:3] == [0.5, 1000.25, None]
    assert rows[5]["answer"] == "where\nprinted"
    (run,) = folder.abreast("runs", "--json").json
    assert (run["experiment"], run["imported"], run["started"]) == ("tests", "pytest", "2026-11-19T03:58:00Z")


def suite(passing: int, failing: int, name: str = "unit") -> str:
    tests = [f'<testcase classname="t" name="n{n}" time="0.1"/>' for n in range(passing)]
    tests += [
        f'<testcase classname="t" name="n{n}" time="0.2"><failure message="wrong"/></testcase>'
        for n in range(passing, passing + failing)
    ]
    return f'<testsuite name="{name}" tests="{len(tests)}">{"".join(tests)}</testsuite>'


def test_two_files_are_compared_test_by_test(folder: Folder) -> None:
    folder.write("main.xml", suite(40, 0))
    folder.write("branch.xml", f"<testsuites>{suite(25, 15)}</testsuites>")
    done = folder.abreast("compare", "main.xml", "branch.xml", "--fail-if", "worse")
    assert done.code == 1
    assert done.out.startswith("regression: branch.xml:branch is worse than main.xml:main: −37.5 points")
    assert "0 wins, 15 losses, 25 ties in 40 cases" in done.out


def test_a_test_in_two_suites_is_two_cases_and_twice_in_a_suite_two_repeats(folder: Folder) -> None:
    folder.write(
        "a.xml", f"<testsuites>{suite(1, 0, 'linux')}{suite(0, 1, 'macos')}{suite(1, 0, 'macos')}</testsuites>"
    )
    imported(folder, "a.xml")
    rows = folder.sql("select case_id, repeat, score from predictions where status = 'ok' order by 1, 2")
    assert [tuple(row.values()) for row in rows] == [
        ("linux::t::n0", 0, 1.0),
        ("macos::t::n0", 0, 0.0),
        ("macos::t::n0", 1, 1.0),
    ]


def test_our_own_report_is_read_as_a_log(simulated: Folder) -> None:
    assert simulated.abreast("run", "experiment.yaml", "--quiet").code == 0
    assert simulated.abreast("report", "--format", "junit", "--output", "out").code == 0
    assert simulated.abreast("import", "out/junit.xml").code == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (SUITE[:600], "a.xml: the file is truncated: not valid XML at line "),
        ("<testsuite>", "a.xml: the file is truncated: not valid XML"),
        ("<testsuite><testcase></testsuite>", "a.xml: not valid XML at line 1, column 23 (mismatched tag)"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>', "a.xml: a DOCTYPE is not allowed in JUnit XML"),
        ("<testsuite/>", "a.xml: the JUnit XML has no trials"),
        ("<html/>", "a.xml: unknown format: XML"),
    ],
)
def test_damaged_files_are_refused_with_what_was_found(folder: Folder, content: str, message: str) -> None:
    folder.write("a.xml", content)
    done = folder.abreast("import", "a.xml")
    assert done.code == 2
    assert message in done.err
    assert not (folder.path / "results.db").exists()


def test_a_suite_in_a_namespace_is_read_like_any_other(folder: Folder) -> None:
    folder.write("a.xml", suite(5, 3))
    folder.write("b.xml", suite(5, 3).replace("<testsuite ", '<testsuite xmlns="http://junit.org/x" '))
    (verdict,) = verdicts(folder.abreast("compare", "a.xml", "b.xml", "--json"))
    assert figures(verdict)["ties"] == 8

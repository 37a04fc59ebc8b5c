"""`--lock`: a plan is written before the first run, and later runs report whether they follow it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abreast import Experiment
from conftest import Folder

SPEC = """\
name: locked
cases: cases.jsonl
repeats: 1
margin: 0.1
seed: 1
variants:
  plain: {target: simulated, accuracy: 0.6, cost_usd: 0.01}
  better: {target: simulated, accuracy: 0.9, cost_usd: 0.01}
scorers: [exact, text]
"""
LOCK = "experiment.lock.json"


@pytest.fixture
def locked(folder: Folder) -> Folder:
    """An experiment with a locked plan and no run yet."""
    folder.cases(120)
    folder.write("experiment.yaml", SPEC)
    done = folder.abreast("run", "--lock", "experiment.yaml", "--store", "first.db")
    assert done.code == 0
    assert f"lock: the plan is written to {LOCK} when the run starts" in done.err
    return folder


def lock_finding(folder: Folder) -> dict[str, Any]:
    """The finding of `check` about the lock."""
    rows = folder.abreast("check", "experiment.yaml", "--json").json
    (finding,) = [row for row in rows if row["check"] == "lock"]
    return dict(finding)


def today(folder: Folder) -> str:
    return str(json.loads((folder.path / LOCK).read_text())["created_at"])[:10]


def test_the_locked_plan_is_a_file_that_people_can_read(locked: Folder) -> None:
    plan = json.loads((locked.path / LOCK).read_text())
    assert plan["cases"]["number"] == 120
    assert (plan["margin"], plan["primary"], plan["baseline"], plan["weight"]) == (0.1, "exact", "plain", "case")
    assert list(plan["variants"]) == ["plain", "better"]
    assert plan["rule"] == {"alpha_sequence": 0.02, "alpha_final": 0.03, "until_decided": False, "min_cases": 30}


def test_check_and_dry_run_write_nothing(folder: Folder) -> None:
    folder.cases(10)
    folder.write("experiment.yaml", SPEC)
    assert folder.abreast("check", "experiment.yaml", "--lock").code == 0
    assert folder.abreast("run", "experiment.yaml", "--lock", "--dry-run").code == 0
    assert not (folder.path / LOCK).exists()


def test_later_runs_find_the_file_and_report_that_they_follow_it(locked: Folder) -> None:
    before = (locked.path / LOCK).read_bytes()
    done = locked.abreast("run", "experiment.yaml", "--strict")
    assert done.code == 0
    assert f"lock: follows the locked plan of {today(locked)} ({LOCK})" in done.err
    assert f"kept to the locked plan of {today(locked)}" in done.out
    for form in ("terminal", "markdown"):
        text = locked.abreast("report", "--format", form, "--store", "results.db").out
        assert f"kept to the locked plan of {today(locked)}" in text
    assert (locked.path / LOCK).read_bytes() == before


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        ("name: locked", "name: free", "experiment free instead of locked"),
        ("repeats: 1", "repeats: 2", "repeats 2 instead of 1"),
        ("margin: 0.1", "margin: 0.05", "margin 0.05 instead of 0.1"),
        ("margin: 0.1\n", "", "margin none instead of 0.1"),
        ("seed: 1", "seed: 2", "seed 2 instead of 1"),
        ("[exact, text]", "[text, exact]", "primary text instead of exact"),
        ("seed: 1", "seed: 1\nbaseline: better", "baseline better instead of plain"),
        ("seed: 1", "seed: 1\nuntil_decided: true", "until_decided true instead of false"),
        ("seed: 1", "seed: 1\nmin_cases: 50", "min_cases 50 instead of 30"),
        ("accuracy: 0.9", "accuracy: 0.8", "variant better changed"),
        ("seed: 1", "seed: 1\nweight: group", "weight group instead of case"),
        ("better:", "best:", "variant best was added"),
        ("better:", "best:", "variant better is missing"),
    ],
)
def test_a_changed_spec_is_a_warning_that_names_the_difference(
    locked: Folder, before: str, after: str, difference: str
) -> None:
    assert before in SPEC
    locked.write("experiment.yaml", SPEC.replace(before, after))
    finding = lock_finding(locked)
    assert finding["level"] == "warn"
    assert finding["message"].startswith(f"differs from the locked plan of {today(locked)}: ")
    assert difference in finding["message"]
    done = locked.abreast("check", "experiment.yaml", "--strict")
    assert (done.code, "error: lock: differs" in done.err) == (4, True)


def test_more_cases_and_other_cases_are_differences_but_their_order_is_not(locked: Folder) -> None:
    lines = (locked.path / "cases.jsonl").read_text().splitlines(keepends=True)
    locked.cases(200)
    assert "200 cases instead of 120" in lock_finding(locked)["message"]
    locked.write("cases.jsonl", "".join(lines).replace("question 7", "query 7"))
    assert "the content of the cases changed" in lock_finding(locked)["message"]
    locked.write("cases.jsonl", "".join(reversed(lines)))
    assert lock_finding(locked)["level"] == "pass"


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        ('"weight": "case"', '"weight": "group"', "weight case instead of group"),
        ('"alpha_sequence": 0.02', '"alpha_sequence": 0.01', "alpha_sequence 0.02 instead of 0.01"),
        ('"alpha_final": 0.03', '"alpha_final": 0.04', "alpha_final 0.03 instead of 0.04"),
    ],
)
def test_a_changed_decision_rule_is_a_difference(locked: Folder, before: str, after: str, difference: str) -> None:
    text = (locked.path / LOCK).read_text()
    assert before in text
    locked.write(LOCK, text.replace(before, after))
    assert difference in lock_finding(locked)["message"]


def test_a_difference_is_stored_with_the_run_and_shown_in_its_report(locked: Folder) -> None:
    line = f"differs from the locked plan of {today(locked)}: margin 0.05 instead of 0.1"
    assert line in locked.abreast("run", "experiment.yaml", "--margin", "0.05").out
    (locked.path / LOCK).unlink()
    (locked.path / "first.db").unlink()
    assert line in locked.abreast("report").out
    assert line in locked.abreast("report", "--format", "json").json["summary"]
    page = locked.abreast("report", "--format", "html").out.strip()
    assert line in (locked.path / page).read_text(encoding="utf-8")


def test_a_resumed_run_reports_a_difference_too(locked: Folder) -> None:
    (locked.path / "first.db").unlink()
    assert locked.abreast("run", "experiment.yaml", "--budget", "0.2").code == 3
    done = locked.abreast("resume", "--budget", "0.4")
    assert f"follows the locked plan of {today(locked)}" in done.err
    done = locked.abreast("resume", "--budget", "0.6", "--until-decided")
    assert "until_decided true instead of false" in done.err
    done = locked.abreast("resume", "--budget", "9")
    assert "until_decided true instead of false" in done.out, "what was once so stays in the report"


def test_a_locked_plan_that_is_missing_on_resume_is_reported(locked: Folder) -> None:
    (locked.path / "first.db").unlink()
    assert locked.abreast("run", "experiment.yaml", "--budget", "0.2").code == 3
    (locked.path / LOCK).unlink()
    assert f"{LOCK} is missing" in locked.abreast("resume", "--budget", "9").err


def test_another_file_is_compared_only_if_it_is_named(folder: Folder) -> None:
    folder.cases(20)
    folder.write("experiment.yaml", SPEC)
    assert folder.abreast("run", "--lock", "mine.lock.json", "experiment.yaml").code == 0
    assert (folder.path / "mine.lock.json").exists()
    assert "locked plan" not in folder.abreast("run", "experiment.yaml").output
    assert "follows the locked plan" in folder.abreast("run", "experiment.yaml", "--lock=mine.lock.json").err


def test_a_plan_locked_after_results_says_so(folder: Folder) -> None:
    folder.cases(20)
    folder.write("experiment.yaml", SPEC)
    folder.abreast("run", "experiment.yaml")
    done = folder.abreast("run", "experiment.yaml", "--lock")
    assert "1 run of this experiment is already stored, so its results are known" in done.err
    assert f"kept to the locked plan of {today(folder)}, locked after 1 run" in done.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a locked plan: invalid JSON"),
        (b"\xff\xfe\x00", "not a locked plan: invalid JSON"),
        ("[]", "not a locked plan"),
        ('{"name": "else"}', "not a locked plan: abreast_lock"),
        ('{"abreast_lock": 2}', "this plan was locked by a newer abreast"),
        ("[" * 100_000, "not a locked plan"),
    ],
)
def test_a_file_that_is_not_a_locked_plan_is_refused(folder: Folder, content: str | bytes, message: str) -> None:
    folder.cases(5)
    folder.write("experiment.yaml", SPEC)
    path = folder.write(LOCK, content)
    before = path.read_bytes()
    for words in (("run", "experiment.yaml", "--lock"), ("check", "experiment.yaml")):
        done = folder.abreast(*words)
        assert (done.code, f"error: {LOCK}: {message}" in done.err) == (2, True)
    assert path.read_bytes() == before
    assert not (folder.path / "results.db").exists()


def test_a_file_that_cannot_be_read_or_written_is_refused_before_anything_is_executed(folder: Folder) -> None:
    folder.cases(5)
    folder.write("experiment.yaml", SPEC)
    done = folder.abreast("run", "experiment.yaml", "--lock=missing/plan.json")
    assert (done.code, "cannot write the plan" in done.err) == (2, True)
    (folder.path / LOCK).mkdir()
    done = folder.abreast("run", "experiment.yaml")
    assert (done.code, "cannot read the locked plan" in done.err) == (2, True)
    assert not (folder.path / "results.db").exists()


def test_debug_runs_and_self_tests_ignore_the_locked_plan(locked: Folder) -> None:
    assert "locked plan" not in locked.abreast("run", "experiment.yaml", "--debug").output
    assert "locked plan" not in locked.abreast("aa", "experiment.yaml").output
    assert locked.abreast("run", "experiment.yaml", "--debug", "--lock").code == 2


def test_a_plan_can_be_locked_from_python(tmp_path: Path) -> None:
    def experiment(margin: float) -> Experiment:
        return Experiment(
            name="from python",
            cases=[{"id": f"c{n}", "input": f"q{n}", "expected": "yes"} for n in range(12)],
            variants={"plain": {"accuracy": 0.6}, "better": {"accuracy": 0.9}},
            target="simulated",
            scorers=["exact"],
            margin=margin,
            base=tmp_path,
        )

    assert "kept to the locked plan" in str(experiment(0.1).run(lock=True).verdict)
    assert (tmp_path / "from-python.lock.json").exists()
    assert "margin 0.2 instead of 0.1" in str(experiment(0.2).run().verdict)


def test_a_changed_tolerance_of_the_primary_scorer_is_a_difference(locked: Folder) -> None:
    (locked.path / LOCK).unlink()
    tolerant = SPEC.replace("[exact, text]", "[{number: {rel: 0.15}}]")
    locked.write("experiment.yaml", tolerant)
    assert locked.abreast("run", "experiment.yaml", "--quiet", "--lock", "--allow-failing").code in (0, 1)
    assert lock_finding(locked)["level"] == "pass"
    locked.write("experiment.yaml", tolerant.replace("0.15", "0.03"))
    assert "the scorer of number changed" in lock_finding(locked)["message"]

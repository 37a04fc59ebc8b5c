"""A variant that cannot work is found before the run, or after ten of its trials."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import Folder

BROKEN = """
def half(case):
    return case.inputt


def predict(case):
    return half(case)
"""


def experiment(folder: Folder, code: str, cases: int = 30, limits: str = "{}", **files: str) -> None:
    """Two variants: `good` answers correctly, `bad` runs this code."""
    folder.cases(cases)
    folder.write("good.py", "def predict(case):\n    return 'yes'\n")
    folder.write("bad.py", code)
    folder.write(
        "spec.yaml",
        f"""
        name: broken
        cases: cases.jsonl
        baseline: good
        variants: {{good: {{target: "python:good:predict"}}, bad: {{target: "python:bad:predict"}}}}
        scorers: [exact]
        limits: {limits}
        """,
    )


def trials(folder: Folder) -> dict[tuple[str, str], int]:
    """Number of rows of the latest run, by variant and status."""
    latest = "run = (select run from runs order by run_id desc limit 1)"
    rows = folder.sql(f"select variant, status, count(*) n from predictions where {latest} group by 1, 2")
    return {(row["variant"], row["status"]): row["n"] for row in rows}


def test_ten_crashes_stop_the_run_and_say_what_broke_and_where(folder: Folder) -> None:
    experiment(folder, BROKEN)
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 3
    assert 'stopped: variant "bad" failed in 10 of 10 trials (crash); first error: AttributeError' in done.err
    assert "bad.py:7 in predict: return half(case) > bad.py:3 in half: return case.inputt" in done.err
    assert "help: fix it, then run `abreast run spec.yaml` again; answers of unchanged variants are reused" in done.err
    counts = trials(folder)
    assert counts["bad", "error"] == 10
    good_answers = counts["good", "ok"]

    folder.write("bad.py", BROKEN.replace("inputt", "input"))
    fixed = folder.rerun("run", "spec.yaml")
    assert fixed.code == 0
    assert f"reusing {good_answers} answers from earlier runs" in fixed.err
    assert trials(folder) == {("good", "ok"): 30, ("bad", "ok"): 30}
    assert folder.sql("select count(*) n from runs") == [{"n": 2}]


def test_allow_failing_continues(folder: Folder) -> None:
    experiment(folder, BROKEN)
    assert folder.abreast("run", "spec.yaml").code == 3
    run = folder.sql("select run from runs")[0]["run"]
    assert f"abreast resume {run} --allow-failing" in folder.abreast("resume").err, "broken still"
    assert folder.abreast("resume", "--allow-failing").code != 3
    assert trials(folder) == {("good", "ok"): 30, ("bad", "error"): 30}
    second = folder.abreast("run", "spec.yaml")
    assert second.code != 3, "reused failures do not stop the run"
    assert "reusing 60 answers" in second.err


@pytest.mark.parametrize("words", [("spec.yaml", "--allow-failing"), ("allowed.yaml",)], ids=["flag", "spec"])
def test_failing_is_allowed_by_a_flag_or_in_the_spec(folder: Folder, words: tuple[str, ...]) -> None:
    experiment(folder, BROKEN)
    spec = (folder.path / "spec.yaml").read_text().replace("limits: {}", "limits: {allow_failing: true}")
    folder.write("allowed.yaml", spec)
    assert folder.abreast("run", *words).code != 3
    assert trials(folder)["bad", "error"] == 30


COUNTING = """
from pathlib import Path
from abreast.errors import Refused, Transient

CALLS = Path(__file__).with_name("calls")


def predict(case):
    with CALLS.open("a") as file:
        file.write("x")
    number = CALLS.stat().st_size
    {body}
"""


@pytest.mark.parametrize(
    ("body", "cases", "limits", "failed"),
    [
        ("raise ValueError('no')", 9, "{}", None),
        ("raise ValueError('no')", 60, "{parallel: 4}", None),
        ("return 'yes' if number == 5 else 1 / 0", 60, "{}", 19),
        ("return 'yes' if number in (5, 6) else 1 / 0", 30, "{}", None),
        ("raise Refused('no') if number % 2 else ValueError('no')", 30, "{}", None),
        ("raise Transient('no')", 30, "{breaker: 0, retries: 0}", None),
        ("raise ConnectionResetError('no')", 30, "{breaker: 0, retries: 0}", 10),
    ],
)
def test_only_a_variant_that_nearly_always_fails_in_one_way_stops_the_run(
    folder: Folder, body: str, cases: int, limits: str, failed: int | None
) -> None:
    experiment(folder, COUNTING.format(body=body), cases, limits)
    done = folder.abreast("run", "spec.yaml")
    has_stopped = 'variant "bad" failed in' in done.err
    assert has_stopped == (failed is not None or "parallel" in limits)
    counts = trials(folder)
    if failed is not None:
        assert (done.code, counts["bad", "error"]) == (3, failed)
    elif has_stopped:
        assert 10 <= counts["bad", "error"] <= 13, "attempts in flight are finished"
    else:
        assert sum(number for (name, _), number in counts.items() if name == "bad") == cases


def test_timeouts_of_every_trial_stop_the_run_and_name_the_limit(folder: Folder) -> None:
    folder.cases(14)
    variants = "{good: {target: simulated}, slow: {target: simulated, errors: {timeout: 1.0}}}"
    folder.write("spec.yaml", f"cases: cases.jsonl\nvariants: {variants}\nscorers: [exact]\n")
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 3
    assert 'variant "slow" failed in 10 of 10 trials (timeout)' in done.err
    assert "raise limits.timeout, or reduce --parallel, then run `abreast run spec.yaml` again" in done.err


def test_after_a_fix_outside_the_variant_the_same_run_repeats_its_failures(folder: Folder) -> None:
    experiment(folder, "from pathlib import Path\n\n\ndef predict(case):\n    return Path('answer.txt').read_text()\n")
    assert folder.abreast("run", "spec.yaml").code == 3
    folder.write("answer.txt", "yes")
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 0
    assert "with 10 failures that stopped it" in done.err
    assert trials(folder) == {("good", "ok"): 30, ("bad", "ok"): 30}
    assert folder.sql("select count(*) n from runs") == [{"n": 1}]


def test_failures_repeated_on_request_do_not_stop_the_run(folder: Folder) -> None:
    experiment(folder, "def predict(case):\n    return 'yes' if int(case.id[1:]) % 2 else 1 / 0\n")
    assert folder.abreast("run", "spec.yaml").code == 0
    assert folder.abreast("run", "spec.yaml", "--retry-failed").code == 0
    assert trials(folder)["bad", "error"] == 15


@pytest.mark.parametrize("words", [("aa",), ("run", "--until-decided", "--parallel", "4")], ids=["aa", "until-decided"])
def test_runs_of_every_kind_stop(folder: Folder, words: tuple[str, ...]) -> None:
    experiment(folder, BROKEN, cases=40)
    spec = (folder.path / "spec.yaml").read_text().replace("baseline: good", "baseline: bad")
    folder.write("spec.yaml", spec)
    command, *flags = words
    done = folder.abreast(command, "spec.yaml", *flags)
    assert done.code == 3
    assert f"run `abreast {command} spec.yaml` again" in done.err
    assert folder.abreast(command, "spec.yaml", *flags, "--fresh", "--allow-failing").code != 3


# -- before the run ----------------------------------------------------------------------------------------------------


RECORDING = """
from pathlib import Path


def predict(case, prompt):
    Path(__file__).with_name("sent").write_text(prompt)
    return "yes"


def change(value):
    Path(__file__).with_name("changed").write_text("x")
    return value["nothing"]


def quickly(value):
    return value["nothing"]


quickly.quick = True
"""


def templates(folder: Folder, bad: str, *inputs: Any) -> None:
    folder.write("mine.py", RECORDING)
    cases = "".join(f"  - {{id: c{n}, input: {item}, expected: yes}}\n" for n, item in enumerate(inputs or ["hello"]))
    folder.write(
        "spec.yaml",
        f"cases:\n{cases}target: 'python:mine:predict'\nscorers: [exact]\n"
        f"variants:\n  good: {{prompt: 'Say {{{{ input }}}}'}}\n  bad: {bad}\n",
    )


def test_a_typo_in_a_template_is_refused_before_anything_is_sent(folder: Folder) -> None:
    templates(folder, '{prompt: "Hello,\\nsay {{ inputt }}"}')
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 4
    assert (
        'variant "bad", case "c0": prompt template, line 2: \'inputt\' is undefined (did you mean "input"?)' in done.err
    )
    assert not (folder.path / "sent").exists()
    assert not (folder.path / "results.db").exists()
    assert folder.abreast("check", "spec.yaml").code == 4


def test_a_name_that_only_some_cases_have_is_a_warning(folder: Folder) -> None:
    templates(folder, "{prompt: '{{ title }}'}", "{title: one}", "{name: two}", "{title: three}")
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 0
    assert '! requests: variant "bad", case "c1": prompt template, line 1: \'title\' is undefined' in done.err


def test_a_quick_transform_is_tried_and_others_are_not_called(folder: Folder) -> None:
    templates(folder, "{prompt: '{{ input }}', transform: 'python:mine:quickly'}", "{title: one}")
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 4
    assert "transform: KeyError: 'nothing', at mine.py:16 in quickly: return value[\"nothing\"]" in done.err
    templates(folder, "{prompt: '{{ input }}', transform: 'python:mine:change'}", "{title: one}")
    assert folder.abreast("check", "spec.yaml").code == 0
    assert not (folder.path / "changed").exists()

"""Network-like exceptions of a user's function are retried and trip the breaker; else the variant is to blame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from abreast import Case, Experiment
from abreast.errors import RateLimited, Transient
from abreast.execute.limits import breaker
from conftest import Folder


def predict(case: Case, raises: type[Exception] | None) -> str:
    """Wrong in 4 of 10 cases; with `raises`, half of the wrong answers are exceptions instead."""
    if raises is not None and case.input % 10 < 2:
        raise raises("gone")
    return "no" if case.input % 10 < 4 else "yes"


def run(tmp_path: Path, target: Any, variants: Any, cases: int = 200, **options: Any) -> Any:
    items = [Case(f"c{n}", n, expected="yes") for n in range(cases)]
    limits = {"retries": 0, **options.pop("limits", {})}
    store = tmp_path / "results.db"
    experiment = Experiment(
        cases=items, target=target, variants=variants, scorers=["exact"], limits=limits, store=store, **options
    )
    return experiment.run()


class ReadTimeout(Exception):
    """Named like the exceptions of requests and httpx."""


class ServiceUnavailable(Exception):
    status_code = 503


@pytest.mark.parametrize("raised", [ConnectionResetError, TimeoutError, ReadTimeout, ServiceUnavailable, MemoryError])
def test_a_target_gains_nothing_by_raising_instead_of_wrong_answers(tmp_path: Path, raised: type[Exception]) -> None:
    result = run(tmp_path, predict, {"honest": {"raises": None}, "gamed": {"raises": raised}})
    (comparison,) = result.analysis.comparisons
    assert comparison.verdict.word != "better"
    failures = [row for row in result.rows() if row["status"] == "error"]
    assert [(row["variant"], row["error_blame"], row["score"]) for row in failures] == [("gamed", "variant", 0.0)] * 40
    honest, gamed = result.analysis.variants
    assert honest.score.estimate == pytest.approx(gamed.score.estimate)


@pytest.mark.parametrize("typed", [RateLimited, Transient])
def test_a_typed_error_stays_the_fault_of_the_infrastructure(tmp_path: Path, typed: type[Exception]) -> None:
    result = run(tmp_path, predict, {"honest": {"raises": None}, "gamed": {"raises": typed}})
    failures = [row for row in result.rows() if row["status"] == "error"]
    assert {(row["error_blame"], row["score"]) for row in failures} == {("infrastructure", None)}
    assert result.status == "incomplete", "resume executes them again"


def test_the_same_holds_in_a_process(tmp_path: Path) -> None:
    variants = {"reset": {"raises": ConnectionResetError}, "typed": {"raises": Transient}}
    result = run(tmp_path, predict, variants, cases=3, executor="process", limits={"breaker": 9})
    failures = {(row["variant"], row["error_blame"]) for row in result.rows() if row["status"] == "error"}
    assert failures == {("reset", "variant"), ("typed", "infrastructure")}


@pytest.mark.parametrize(
    "limits",
    [{}, {"parallel": 7}, {"parallel": "variants", "trial_parallelism": 3}, {"per_variant": 1}, {"turns": True}],
    ids=str,
)
@pytest.mark.parametrize("breaker", [0, 1000])
def test_every_trial_gets_its_row_however_many_run_at_once(
    tmp_path: Path, limits: dict[str, Any], breaker: int
) -> None:
    variants = {"a": {"raises": ConnectionResetError}, "b": {"raises": None}}
    result = run(tmp_path, predict, variants, cases=60, limits={**limits, "breaker": breaker})
    rows = result.rows()
    assert (result.status, len(rows)) == ("complete", 120)
    assert sum(row["error_blame"] == "variant" for row in rows) == 12


def test_without_a_breaker_a_service_that_never_answers_is_the_fault_of_the_variant(tmp_path: Path) -> None:
    def down(case: Case) -> str:
        raise ConnectionResetError("gone")

    result = run(tmp_path, down, {"a": {}}, cases=6, limits={"breaker": 0})
    assert [row["error_blame"] for row in result.rows()] == ["variant"] * 6


FLAKY = """
from pathlib import Path

CALLS = Path(__file__).with_name("calls")


def predict(case):
    with CALLS.open("a") as file:
        file.write(case.id + "\\n")
    number = len(CALLS.read_text().split())
    if number == 2 or (number > 5 and not CALLS.with_name("up").exists()):
        raise ConnectionRefusedError("no service")
    return "yes"
"""


def with_service(folder: Folder) -> None:
    folder.write("service.py", FLAKY)
    spec = "cases: cases.jsonl\nvariants: {a: {target: 'python:service:predict'}}\nscorers: [exact]\n"
    folder.write("spec.yaml", spec + "limits: {retries: 0}\n")


def test_a_service_that_is_down_stops_the_run_and_resume_executes_only_what_failed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "PATIENCE_S", 1.5)
    folder.cases(12)
    with_service(folder)
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 3
    assert "python:service:predict: network: ConnectionRefusedError: no service; paused since" in done.err
    assert "python:service:predict: network: ConnectionRefusedError: no service; no answer for" in done.err
    by_blame = "select error_blame, count(*) n from predictions where status = 'error' group by 1 order by 1"
    assert folder.sql(by_blame) == [{"error_blame": "infrastructure", "n": 3}, {"error_blame": "variant", "n": 1}]
    before = (folder.path / "calls").read_text().split()
    assert len(before) == 5 + 3 + 2, "three in a row, and two probes"
    folder.write("up", "")
    assert folder.abreast("resume").code == 0
    after = (folder.path / "calls").read_text().split()[len(before) :]
    assert len(after) == 12 - 5
    assert set(before[5:]) < set(after), "those in the unbroken row are executed again"
    assert before[1] not in after, "the lone one is a result of the variant"
    assert folder.sql(by_blame) == [{"error_blame": "variant", "n": 1}]


def test_a_persistent_failure_says_how_to_name_the_service_as_the_cause(folder: Folder) -> None:
    folder.cases(3)
    with_service(folder)
    assert folder.abreast("run", "spec.yaml").code == 0
    logs = folder.abreast("logs", "--errors").out
    assert "raise a typed error of abreast.errors" in logs
    assert "service.py:12 in predict: raise ConnectionRefusedError" in logs

"""Job folders of Harbor: its metrics and ours, rewards, exceptions by blame, jobs that were stopped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tools.foreign_logs.questions import QUESTIONS

from canned_models import LOGS, import_logs, logged_verdict, own_verdict
from conftest import Folder

JOB = LOGS / "harbor"


@pytest.fixture
def job(folder: Folder) -> Path:
    """A copy of the job, to change it."""
    return Path(shutil.copytree(JOB, folder.path / "job"))


def trials(job: Path, model: str = "", task: str = "") -> list[Path]:
    """The results of trials of a model and a task."""
    paths = sorted(job.glob("*/result.json"))
    return [path for path in paths if f"canned/{model}" in path.read_text() and path.parent.name.startswith(task)]


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def exception(name: str, message: str = "it happened") -> dict[str, Any]:
    return {"exception_type": name, "exception_message": message, "exception_traceback": "", "occurred_at": None}


def test_its_metrics_are_ours(folder: Folder) -> None:
    """Harbor counts a trial without a reward as 0; here it is left out, so that sums are compared."""
    import_logs(folder, JOB)
    evaluations = json.loads((JOB / "result.json").read_text())["stats"]["evals"]
    assert len(evaluations) == 2
    for name, evaluation in evaluations.items():
        (metrics,) = evaluation["metrics"]
        model = name.split("__")[1]
        (row,) = folder.sql(
            "select sum(score_reward) as reward, sum(score_exact) as exact, count(*) as n, "
            f"sum(status = 'error') as errors from predictions where variant = 'canned/{model}'"
        )
        assert row["reward"] / row["n"] == pytest.approx(metrics["reward"], abs=1e-12)
        assert row["exact"] / row["n"] == pytest.approx(metrics["exact"], abs=1e-12)
        rewarded = sum(map(len, evaluation["reward_stats"]["reward"].values()))
        assert row["n"] - row["errors"] == rewarded


def test_the_verdict_is_that_of_our_own_run_on_the_same_rows(folder: Folder) -> None:
    verdict = logged_verdict(folder, JOB)
    assert (verdict["cases"], verdict["repeats_left_out"]) == (12, 2)
    assert verdict == own_verdict(folder, QUESTIONS[4:16], lost={("quick", "product-04", 0)})


def test_a_job_is_named_by_its_folder_or_its_result(folder: Folder) -> None:
    assert logged_verdict(folder, JOB / "result.json") == logged_verdict(folder, JOB)


def test_a_job_named_by_its_result_is_imported_again_after_a_trial_has_changed(folder: Folder, job: Path) -> None:
    import_logs(folder, job / "result.json")
    change(trials(job, "quick")[0], verifier_result={"rewards": {"reward": 0.5, "exact": 0.5}})
    import_logs(folder, job / "result.json")
    assert len(folder.sql("select run from runs")) == 2


def test_keys_in_the_environment_of_an_agent_are_not_stored(folder: Folder, job: Path) -> None:
    for path in trials(job):
        config = json.loads(path.read_text())["config"]
        environment = {"ANTHROPIC_API_KEY": "correct-horse-battery", "LANG": "de_AT"}
        change(path, config={**config, "agent": {**config["agent"], "env": environment}})
    import_logs(folder, job)
    stored = b"".join(path.read_bytes() for path in folder.path.glob("results.db*"))
    assert b"de_AT" in stored
    assert b"correct-horse-battery" not in stored


def test_two_jobs_are_compared_case_by_case(folder: Folder, job: Path) -> None:
    other = Path(shutil.copytree(job, folder.path / "other"))
    for path in trials(job, "quick") + trials(other, "careful"):
        shutil.rmtree(path.parent)
    assert logged_verdict(folder, "job", "other")["effect"] == logged_verdict(folder, JOB)["effect"]


def test_a_task_that_changed_is_not_paired(folder: Folder, job: Path) -> None:
    for path in trials(job, "quick", "sum-05"):
        change(path, task_checksum="other")
    done = folder.abreast("import", "job")
    assert "same case id has several inputs: sum-05" in done.err
    assert logged_verdict(folder, "job")["cases"] == 11


def test_a_trial_keeps_what_harbor_knows(folder: Folder) -> None:
    import_logs(folder, JOB)
    (row,) = folder.sql(
        "select * from predictions where case_id = 'sum-07' and variant = 'canned/careful' and repeat = 1"
    )
    assert (row["prompt"].strip(), row["answer"]) == ("What is 52 + 47?", "The answer is 99.")
    assert (row["score"], row["score_reward"], row["score_exact"]) == (1.0, 1.0, 0.0)
    assert (row["input_tokens"], row["cache_read_tokens"], row["output_tokens"]) == (60, 40, 17)
    assert (row["cost_usd"], row["cost_basis"], row["model"]) == (0.001, "reported", "canned/careful")


def test_an_agent_that_ran_out_of_time_counts_with_its_reward(folder: Folder) -> None:
    import_logs(folder, JOB)
    (row,) = folder.sql(
        "select case_id, status, score, latency_s > 2 as late from predictions where exception is not null"
    )
    assert row == {"case_id": "product-03", "status": "ok", "score": 1.0, "late": 1}


@pytest.mark.parametrize(
    ("content", "kind", "blame"),
    [
        (exception("AgentTimeoutError"), "timeout", "variant"),
        (exception("NonZeroAgentExitCodeError"), "crash", "variant"),
        (exception("AgentSafetyRefusalError"), "refused", "variant"),
        (exception("ApiRateLimitError"), "rate_limit", "infrastructure"),
        (exception("NetworkConnectionError"), "network", "infrastructure"),
        (exception("AgentAuthenticationError"), "auth", "infrastructure"),
        (exception("EnvironmentStartTimeoutError"), "environment", "infrastructure"),
        (exception("RewardFileNotFoundError"), "verifier", "unknown"),
        (exception("SomethingNew", "connection refused"), "network", "infrastructure"),
        (exception("SomethingNew", "what"), "error", "unknown"),
    ],
)
def test_exceptions_are_blamed_by_their_type(
    folder: Folder, job: Path, content: dict[str, Any], kind: str, blame: str
) -> None:
    (path, _) = trials(job, "careful", "sum-05")
    change(path, exception_info=content, verifier_result=None)
    import_logs(folder, "job")
    assert folder.sql(
        "select error_kind, error_blame from predictions where case_id = 'sum-05' and status = 'error'"
    ) == [{"error_kind": kind, "error_blame": blame}]


def test_an_exception_before_the_agent_started_is_infrastructure(folder: Folder) -> None:
    import_logs(folder, JOB)
    query = "select variant, error_kind, error_blame from predictions where case_id = 'product-04' and status = 'error'"
    assert folder.sql(query) == [
        {"variant": "canned/quick", "error_kind": "environment", "error_blame": "infrastructure"}
    ]


def test_a_cancelled_trial_is_skipped(folder: Folder, job: Path) -> None:
    (path, _) = trials(job, "careful", "sum-05")
    change(path, exception_info=exception("CancelledError"), verifier_result=None)
    import_logs(folder, "job")
    assert folder.sql("select case_id, error from predictions where status = 'skipped'") == [
        {"case_id": "sum-05", "error": "cancelled in Harbor"}
    ]


def test_a_job_that_was_stopped_is_incomplete(folder: Folder, job: Path) -> None:
    change(job / "result.json", finished_at=None)
    (path, _) = trials(job, "careful", "sum-05")
    path.rename(path.with_name("config.json"))
    import_logs(folder, "job")
    (run,) = folder.abreast("runs", "--json").json
    assert (run["status"], run["trials"], run["planned"]) == ("incomplete", 47, 48)
    assert "Harbor did not finish this job: 1 trial without a result" in " ".join(folder.abreast("report").out.split())


def test_agents_are_variants_as_well_as_models(folder: Folder, job: Path) -> None:
    for path in trials(job, "quick"):
        content = json.loads(path.read_text())
        content["agent_info"]["name"] = "other"
        content["config"]["agent"]["model_name"] = content["agent_info"]["model_info"] = None
        path.write_text(json.dumps(content))
    import_logs(folder, "job")
    rows = folder.sql("select distinct variant, params_agent as agent from predictions order by 1")
    assert rows == [{"variant": "canned / canned/careful", "agent": "canned"}, {"variant": "other", "agent": "other"}]


def test_settings_tell_variants_of_one_agent_and_model_apart(folder: Folder, job: Path) -> None:
    for path in trials(job, "quick"):
        text = path.read_text().replace('"canned/quick"', '"canned/careful"').replace('"quick"', '"careful"')
        content = json.loads(text)
        content["config"]["agent"]["kwargs"] = {"effort": "low"}
        path.write_text(json.dumps(content))
    import_logs(folder, "job")
    rows = folder.sql("select distinct variant, params_kwargs as kwargs from predictions order by 1")
    assert [row["variant"] for row in rows] == ["canned/careful", "canned/careful 2"]
    assert "low" in str(rows[1]["kwargs"])


def test_half_a_trajectory_leaves_the_answer_empty(folder: Folder, job: Path) -> None:
    (path, _) = trials(job, "careful", "sum-05")
    trajectory = path.parent / "agent/trajectory.json"
    trajectory.write_bytes(trajectory.read_bytes()[:60])
    import_logs(folder, "job")
    (row,) = folder.sql("select status, answer, trajectory_error from predictions where trajectory_error is not null")
    assert (row["status"], row["answer"]) == ("ok", "")
    assert "truncated" in row["trajectory_error"]


def test_a_result_cut_off_is_refused(folder: Folder, job: Path) -> None:
    (path, _) = trials(job, "careful", "sum-05")
    path.write_bytes(path.read_bytes()[:-100])
    done = folder.abreast("import", "job")
    assert done.code == 2
    assert f"job ({path.parent.name}/result.json): not valid JSON" in done.err
    assert not (folder.path / "results.db").exists()


def test_a_folder_of_jobs_is_refused_with_their_names(folder: Folder, job: Path) -> None:
    job.rename(folder.path / "monday")
    folder.write("jobs/readme", "")
    (folder.path / "monday").rename(folder.path / "jobs/monday")
    done = folder.abreast("import", "jobs")
    assert (done.code, "jobs: no results of trials" in done.err) == (2, True), done.err
    assert "name the folder of one job: monday" in done.err


def test_a_job_without_trials_is_refused(folder: Folder) -> None:
    folder.write("job/result.json", (JOB / "result.json").read_bytes())
    assert "job: no results of trials" in folder.abreast("import", "job").err


def test_results_of_another_shape_are_refused(folder: Folder, job: Path) -> None:
    (path, _) = trials(job, "careful", "sum-05")
    change(path, task_name=None)
    done = folder.abreast("import", "job")
    assert (done.code, "has no task_name" in done.err) == (2, True), done.err


@pytest.mark.heavy
def test_a_job_of_10_000_trials_is_imported(folder: Folder) -> None:
    (path, *_) = trials(JOB, "careful")
    content = json.loads(path.read_text())
    for n in range(10_000):
        name = f"task-{n // 2}"
        content |= {"task_name": name, "trial_name": f"{name}__{n}"}
        content["config"]["agent"]["model_name"] = f"canned/m{n % 2}"
        folder.write(f"big/{name}__{n}/result.json", json.dumps(content))
    import_logs(folder, "big")
    assert folder.sql("select variant, count(*) as n from predictions group by 1 order by 1") == [
        {"variant": f"canned/m{number}", "n": 5_000} for number in range(2)
    ]

"""The suite `numbers` end to end: flags, backends, parallelism, resumption and the Python API."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from abreast.errors import BadInput, PreflightRefused
from abreast.fake import FakeProvider
from abreast.stats import wilson
from abreast.suites.numbers import (
    ApiClient,
    BackendType,
    BenchmarkConfig,
    BenchmarkRunner,
    ClaudeCodeClient,
    MockClient,
    conditions,
)
from abreast.suites.numbers.suite import largest
from clis import real_cli
from conftest import Done, Folder

ROWS = "select case_id, variant, status, answer, score, score_numbers_closeness, score_numbers_grounded, error"
TASKS = ("statistical", "trend", "anomaly", "comparative", "multi_step", "scaling")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def numbers(folder: Folder, *flags: str) -> Done:
    return folder.abreast("run", "numbers", "--no-viz", *flags)


def rows(folder: Folder, store: str = "results.db") -> list[dict[str, Any]]:
    return folder.sql(f"{ROWS} from predictions order by case_id, variant", store)


# -- the simulator ----------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_the_mock_has_its_declared_accuracy_and_is_identical_at_any_parallelism(folder: Folder) -> None:
    tasks = ["--quick", "--task", "trend", "--task", "scaling"]
    ways = {
        "one.db": ["--quick"],
        "both.db": ["--parallel", *tasks],
        "four.db": ["--trial-parallelism", "4", *tasks],
        "auto.db": ["--parallel", "auto", *tasks],
        "eight.db": ["--parallel", "--trial-parallelism", "4"],
    }
    for store, flags in ways.items():
        done = numbers(folder, "--mock", "--max-data-size", "200", "--store", store, *flags)
        assert done.code == 0, done.err
    predictions = rows(folder, "eight.db")
    assert len(predictions) == 360
    quick = [row for row in predictions if int(row["case_id"][-3:]) < 5]  # which are the same cases
    few = [row for row in quick if row["case_id"].startswith(("trend", "scaling"))]
    assert (len(quick), len(few)) == (60, 20)
    for store, flags in ways.items():
        assert rows(folder, store) == (few if "--task" in flags else quick if "--quick" in flags else predictions)
    report = json.loads(folder.abreast("report", "--store", "eight.db", "--format", "json").out)
    answerable_by = {
        case["case"]: case["answerable_by"] for case in report["suite"]["sections"]["answerability"]["cases"]
    }
    for variant, accuracy in (("baseline", 0.70), ("treatment", 0.95)):
        mine = [row for row in predictions if row["variant"] == variant and row["status"] == "ok"]
        scores = [row["score"] for row in mine if answerable_by[row["case_id"]][variant]]
        interval = wilson(sum(scores), len(scores), level=0.999)
        assert interval.low <= accuracy <= interval.high, (variant, interval)
    assert "treatment" in done.out
    assert "cases that both can answer: treatment" in done.out


def test_quick_makes_sixty_calls_and_the_module_does_the_same(folder: Folder) -> None:
    done = numbers(folder, "--mock", "--quick", "--store", "one.db")
    assert done.code == 0, done.err
    assert "30 cases × 2 variants × 1 repeat = 60 trials" in done.err
    assert "SIMULATED" in done.out
    module, flags = [sys.executable, "-m", "abreast.suites.numbers"], ["--mock", "--trials", "1", "--no-viz"]
    command = [*module, *flags, "--store", "two.db"]
    by_module = subprocess.run(command, cwd=folder.path, capture_output=True, text=True, timeout=120)
    assert by_module.returncode == 0, by_module.stderr
    first = [row for row in rows(folder, "one.db") if row["case_id"].endswith("000")]
    assert rows(folder, "two.db") == first


def test_a_full_run_after_a_quick_one_pays_only_for_the_rest(folder: Folder) -> None:
    numbers(folder, "--mock", "--quick", "--task", "trend")
    done = numbers(folder, "--mock", "--task", "trend", "--trials", "8")
    assert "reusing 10 answers from earlier runs, executing 6" in done.err


def test_another_transform_reruns_the_treatment_and_reuses_the_baseline(folder: Folder) -> None:
    folder.write("mine.py", "def describe(numbers):\n    return f'{len(numbers)} of them'\n")
    flags = ["--mock", "--task", "trend", "--trials", "3", "--transform", "python:mine:describe"]
    assert numbers(folder, *flags).code == 0
    prompts = folder.sql("select prompt from predictions where variant = 'treatment'")
    assert all(" of them\n\nQuestion: " in row["prompt"] for row in prompts)
    folder.write("mine.py", "def describe(numbers):\n    return f'{len(numbers)} numbers'\n")
    done = folder.rerun("run", "numbers", "--no-viz", *flags)
    assert "reusing 3 answers from earlier runs, executing 3" in done.err, done.err
    assert "function describe changed since" in done.err, done.err
    assert "treatment will run again" in done.err


def test_skipped_baselines_are_not_wrong_answers_and_not_compared(folder: Folder) -> None:
    done = numbers(folder, "--mock", "--task", "scaling", "--trials", "12", "--skip-baseline-above", "1000")
    assert done.code == 0, done.err
    skipped = folder.sql("select case_id, score, error from predictions where status = 'skipped'")
    large = folder.sql("select distinct case_id from predictions where cast(tag_size as integer) > 1000")
    assert {row["case_id"] for row in skipped} == {row["case_id"] for row in large}
    assert len(skipped) == 4
    assert all(row["score"] is None for row in skipped)
    assert all("raw numbers are skipped above 1,000" in row["error"] for row in skipped)
    assert not folder.sql("select 1 from predictions where variant = 'treatment' and status <> 'ok'")
    rerun = folder.abreast("run", "numbers", "--mock", "--no-viz", "--task", "scaling", "--trials", "12",
                           "--skip-baseline-above", "1000")  # fmt: skip
    assert "executing 0" in rerun.err  # a skipped trial is final


def test_flags_select_tasks_sizes_and_variants(folder: Folder) -> None:
    assert numbers(folder, "--mock", "--trials", "2", "--task", "trend", "--task", "scaling").code == 0
    assert {row["case_id"][:-4] for row in rows(folder)} == {"trend", "scaling"}
    numbers(folder, "--mock", "--trials", "6", "--max-data-size", "120", "--store", "small.db")
    sizes = folder.sql("select distinct cast(tag_size as integer) as size from predictions", "small.db")
    assert max(row["size"] for row in sizes) <= 120
    small = ["--mock", "--trials", "1", "--task", "trend"]
    for store, flags, expected in (
        ("two.db", [], ["baseline", "treatment"]),
        ("three.db", ["--variant", "summary-statistics"], ["baseline", "summary-statistics", "treatment"]),
        ("pair.db", ["--variant", "summary-statistics", "--variant", "baseline"], ["baseline", "summary-statistics"]),
        ("single.db", ["--variant", "treatment"], ["treatment"]),
    ):
        assert numbers(folder, *small, "--store", store, *flags).code == 0
        assert [row["variant"] for row in rows(folder, store)] == expected
    report = json.loads(folder.abreast("report", "--store", "pair.db", "--format", "json").out)
    assert report["baseline"] == "baseline"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--mock", "--task", "trand"], 'no such task (did you mean "trend"?)'),
        (["--mock", "--trials", "0"], "--trials 0: must be a whole number of at least 1"),
        (["--mock", "--max-data-size", "10"], "--max-data-size 10: must be a whole number of at least 50"),
        (["--mock", "--skip-baseline-above", "0"], "--skip-baseline-above 0: must be a whole number of at least 1"),
        (["--mock", "--timeout", "-1"], "--timeout -1: must be more than 0 seconds"),
        (["--mock", "--backend", "api"], "--mock cannot be combined with --backend api"),
        (["--backend", "apl"], "--backend"),
        (["--mock", "--variant", "treatmint"], 'no such variant (did you mean "treatment"?)'),
        (["--mock", "--transform", "python:nowhere:f"], "nowhere"),
        (["--mock", "--transform", "describe"], "describe"),
        (["--mock", "--series", "nothing.csv"], "nothing.csv: cannot be read"),
        (["--mock", "--labels", "nothing.json"], "nothing.json: cannot be read"),
        (["--mock", "--trails", "3"], "--trails"),
        (["--mock", "--format", "pdf"], "--format pdf: unknown format"),
        (["--trials", "99999999999999999999"], "error: --trials 99999999999999999999: at most 10,000 per task"),
        (["--series", "none.csv"], "error: --series"),
        (["--labels", "none.json"], "error: --labels"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_and_nothing_is_written(
    folder: Folder, flags: list[str], message: str
) -> None:
    done = numbers(folder, *flags)
    assert done.code == 2
    assert message in done.err
    assert not (folder.path / "results.db").exists()


def test_without_a_key_nothing_is_executed_and_the_mock_is_suggested(folder: Folder) -> None:
    done = numbers(folder, "--quick")
    assert done.code == 4
    assert "ANTHROPIC_API_KEY" in done.err
    assert "abreast run numbers --mock" in done.err
    assert not (folder.path / "results.db").exists()


def test_a_missing_package_of_the_treatment_is_reported_with_its_install_command(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from abreast.suites.numbers import conditions

    monkeypatch.setattr(conditions, "PACKAGE", "semantic-frame-that-is-not-there")
    done = numbers(folder, "--mock", "--quick")
    assert done.code == 2
    assert 'pip install "abreast[numbers]"' in done.err
    folder.write("mine.py", "def describe(numbers):\n    return 'text'\n")
    assert numbers(folder, "--mock", "--trials", "1", "--transform", "python:mine:describe").code == 0


def test_reports_in_every_format_contain_the_figures_of_the_suite(folder: Folder) -> None:
    done = folder.abreast("run", "numbers", "--mock", "--trials", "6", "--format", "all", "--output", "out")
    assert done.code == 0, done.err
    out = folder.path / "out"
    report = json.loads((out / "report.json").read_text())
    assert report["suite"]["name"] == "numbers"
    assert "hallucinated" in (out / "report.md").read_text()
    page = (out / "report.html").read_text()
    for title in (
        "Input tokens per call, by task",
        "Confusion of classes: direction",
        "How far off numeric answers are",
    ):
        assert title in page
    names = {path.stem for path in (out / "charts").iterdir()}
    assert {"token-reduction", "accuracy-by-task", "accuracy-by-size", "pareto", "error-distribution"} <= names
    assert any(name.startswith("confusion") for name in names)
    numbers(folder, "--mock", "--trials", "6", "--format", "all", "--output", "plain", "--label", "again")
    assert not (folder.path / "plain" / "charts").exists()
    assert "<svg" not in (folder.path / "plain" / "report.html").read_text()


def test_a_misspelt_suite_name_is_reported_instead_of_its_flags(folder: Folder) -> None:
    for command in ("run", "check"):
        done = folder.abreast(command, "number", "--mock", "--task", "trend")
        assert done.code == 2
        assert done.err.startswith('error: number: no such file (did you mean "numbers"?)'), done.err


def test_robustness_asks_perturbed_cases_and_reports_the_loss_of_each(folder: Folder) -> None:
    numbers(folder, "--mock", "--trials", "2")
    done = folder.abreast(
        "run", "numbers", "--mock", "--robustness", "--trials", "2", "--format", "json", "--output", "o"
    )
    assert done.code == 0, done.err
    kinds = folder.sql("select distinct tag_perturbation as kind from predictions where tag_perturbation is not null")
    assert {row["kind"] for row in kinds} == {
        *("none", "noise", "scaling", "shifting", "missing", "outliers", "truncation", "precision", "reorder")
    }
    report = json.loads((folder.path / "o" / "report.json").read_text())
    assert "robustness" in report["suite"]["sections"]
    assert "outliers" in done.out


# -- the documented command lines -------------------------------------------------------------------------------------

DOCUMENTED = {
    "--backend claude-code --parallel": 2,
    "--backend claude-code --trial-parallelism 4": 4,
    "--backend claude-code --parallel --trial-parallelism 4": 8,
    "--backend claude-code --max-data-size 500": 1,
    "--trials 1 --backend claude-code --parallel --task trend --no-viz": 2,
    "--trials 1 --backend claude-code --parallel --no-viz": 2,
    "--mock --no-viz": 1,
    "--backend claude-code --quick --parallel --task statistical": 2,
    "--backend claude-code --parallel --trial-parallelism 4 --format all": 8,
    "--backend api --parallel --format all": 2,
    "--backend claude-code --skip-baseline-above 2000 --task scaling": 1,
    "--task statistical": 1,
    "--task trend": 1,
    "--quick": 1,
    "--trial-parallelism 2": 2,
    "--max-data-size 500": 1,
    "--skip-baseline-above 1000": 1,
}  # and how many trials are in flight


@pytest.mark.parametrize("flags", DOCUMENTED)
@pytest.mark.matrix(quick=5)
def test_every_documented_command_line_works_as_written(folder: Folder, a_login: None, flags: str) -> None:
    done = folder.abreast("check", "numbers", "--json", *shlex.split(flags))
    assert done.code == 0, done.err
    estimate = next(row for row in done.json if row["check"] == "estimate")
    assert estimate["in_flight"] == DOCUMENTED[flags]
    words = shlex.split(flags)
    trials = 1 if "--trials" in words else 5 if "--quick" in words else 30
    tasks = 1 if "--task" in words else 6
    assert estimate["trials"] == 2 * trials * tasks


def test_the_cli_limits_series_unless_a_limit_of_raw_numbers_is_set() -> None:
    cli, api = BackendType.CLAUDE_CODE, BackendType.API
    assert largest(BenchmarkConfig(), cli) == 1000
    assert largest(BenchmarkConfig(), api) is None
    assert largest(BenchmarkConfig(skip_baseline_above=2000), cli) is None
    assert largest(BenchmarkConfig(skip_baseline_above=2000, max_data_size=500), cli) == 500


# -- a provider -------------------------------------------------------------------------------------------------------


@pytest.fixture
def a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a key and put the real CLI on the path, without a provider."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def provider(folder: Folder, a_login: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """A provider that gives every prompt of a mock run the same answer as the mock."""
    done = numbers(folder, "--mock", "--trials", "3", "--max-data-size", "1000", "--store", "mock.db")
    assert done.code == 0, done.err
    answered = folder.sql("select prompt, answer from predictions where status = 'ok'", "mock.db")
    answers = {row["prompt"]: f"Answer: {row['answer']}\nConfidence: 80 %" for row in answered}
    with FakeProvider.in_thread(answers=answers) as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake


def scores(folder: Folder, store: str) -> dict[tuple[str, str], float]:
    predictions = folder.sql("select case_id, variant, score from predictions", store)
    return {(row["case_id"], row["variant"]): row["score"] for row in predictions}


def requests_to(provider: FakeProvider) -> int:
    return sum(request.method == "POST" for request in provider.requests)


@pytest.mark.parametrize("backend", ["api", "claude-code"])
@pytest.mark.matrix(quick=1)
def test_a_real_backend_gets_the_scores_of_the_mock_for_the_same_answers(
    folder: Folder, provider: FakeProvider, backend: str
) -> None:
    flags = ["--backend", backend, "--trials", "1", "--max-data-size", "1000", "--store", "real.db"]
    done = numbers(folder, *flags, "--parallel", "--trial-parallelism", "2", "--yes")
    assert done.code == 0, done.err
    first = {key: score for key, score in scores(folder, "mock.db").items() if key[0].endswith("000")}
    assert len(first) == 2 * len(TASKS)
    assert scores(folder, "real.db") == first
    predictions = folder.sql("select distinct model, simulated from predictions", "real.db")
    assert all(row["model"].startswith("claude-sonnet") and row["simulated"] for row in predictions)
    report = json.loads(folder.abreast("report", "--store", "real.db", "--format", "json").out)
    assert report["suite"]["sections"]["figures"]


def requests(provider: FakeProvider) -> list[dict[str, Any]]:
    """The bodies of the requests that contain a question of the suite."""
    bodies = [
        request.body for request in provider.requests if request.method == "POST" and "Question:" in str(request.body)
    ]
    return [json.loads(body) if isinstance(body, str | bytes) else body for body in bodies]


def test_the_api_and_the_cli_send_the_model_the_same_request(folder: Folder, provider: FakeProvider) -> None:
    sent = {}
    for backend in ("api", "claude-code"):
        before = len(requests(provider))
        flags = ["--backend", backend, "--trials", "1", "--task", "trend", "--store", f"{backend}.db", "--yes"]
        done = numbers(folder, *flags)
        assert done.code == 0, done.err
        assert ("takes no temperature" in done.err) == (backend == "claude-code")
        sent[backend] = requests(provider)[before:]
    prompts = [body["messages"][0]["content"] for body in sent["api"]]
    assert len(prompts) == 2
    assert all(prompt.endswith("Answer: <only the answer: rising, falling, flat>") for prompt in prompts)
    assert all("Calculate first" in prompt for prompt in prompts)
    by_cli = [json.dumps(body["messages"], ensure_ascii=False) for body in sent["claude-code"]]
    assert all(any(json.dumps(prompt, ensure_ascii=False)[1:-1] in text for text in by_cli) for prompt in prompts)
    for body in [*sent["api"], *sent["claude-code"]]:
        assert conditions.SYSTEM in str(body["system"])
        assert body["max_tokens"] == 4096
        assert body.get("output_config", {}).get("effort", "high") == "high"
        assert not {"temperature", "thinking", "tools"} & {key for key, value in body.items() if value}


def test_every_backend_renders_the_same_prompt(folder: Folder, a_login: None) -> None:
    rendered = set()
    for backend in ("api", "claude-code", "mock"):
        done = numbers(folder, "--backend", backend, "--trials", "1", "--task", "anomaly", "--dry-run")
        assert done.code == 0, done.err
        rendered.add("".join(part.partition("\n")[2] for part in f"\n{done.out}".split("\n--- ")[1:]))
    assert len(rendered) == 1
    assert rendered.pop().count("Answer: <only the answer") == 2


def test_robustness_asks_only_perturbed_cases_if_the_others_were_answered(
    folder: Folder, provider: FakeProvider
) -> None:
    flags = ["--trials", "2", "--task", "trend", "--task", "comparative"]
    assert numbers(folder, *flags).code == 0
    assert requests_to(provider) == 8
    done = numbers(folder, "--robustness", *flags)
    assert "reusing 8 answers from earlier runs" in done.err, done.err


def test_a_run_stopped_by_its_budget_resumes_and_asks_nothing_twice(folder: Folder, provider: FakeProvider) -> None:
    flags = ["--trials", "3", "--max-data-size", "1000", "--store", "real.db"]
    stopped = numbers(folder, *flags, "--budget", "0.02")
    assert stopped.code == 3, stopped.err
    assert 0 < requests_to(provider) < 36
    done = folder.abreast("resume", "numbers", "--store", "real.db", "--budget", "10", "--no-pictures")
    assert done.code == 0, done.err
    assert requests_to(provider) == 36
    assert scores(folder, "real.db") == scores(folder, "mock.db")


def questions(provider: FakeProvider) -> int:
    return sum(
        request.method == "POST" and request.path.partition("?")[0].endswith("/messages")
        for request in provider.requests
    )


def test_the_runner_and_the_clients_work_as_documented(folder: Folder, provider: FakeProvider) -> None:
    config = BenchmarkConfig.quick_mode()
    config.parallel_workers = 2
    config.trial_parallelism = 4
    config.store = folder.path / "python.db"
    result = BenchmarkRunner(config, backend=BackendType.MOCK).run_all()
    assert len(result.rows()) == 60
    assert result.in_flight.most <= 8
    alone = BenchmarkRunner(config, backend=BackendType.MOCK).run_task("trend")
    assert {row["tag_task"] for row in alone.rows()} == {"trend"}
    assert alone.reused == 10
    for client in (ApiClient(), ClaudeCodeClient()):
        before = questions(provider)
        assert client.query("Say it", system="Be brief").text
        assert questions(provider) == before + 1  # no warm-up
        assert client.query_baseline("1, 2, 3", "What is the mean?").input_tokens
        assert client.query_treatment("three numbers", "What is the mean?").latency_s > 0
    assert MockClient().query("Say it").text == "simulated"
    assert any("Be brief" in str(request.body) for request in provider.requests)
    assert BenchmarkRunner(config, backend=BackendType.CLAUDE_CODE).warmup().text


def test_a_runner_saves_and_prints_its_results_and_overwrites_nothing(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.path)
    runner = BenchmarkRunner(BenchmarkConfig.full_mode(), backend=BackendType.MOCK)
    assert runner.config.n_trials == 30
    with pytest.raises(BadInput, match="no results yet"):
        runner.save_results()
    result = runner.run_task("trend", n_trials=2)
    assert len(result.rows()) == 4
    runner.print_summary()
    printed = capsys.readouterr().out
    assert "SIMULATED" in printed
    assert "What each variant can know" in printed
    path = runner.save_results("results", prefix="trend")
    saved = json.loads(path.read_text())
    assert saved["run"] == result.run
    assert len(saved["suite"]["sections"]["answerability"]["cases"]) == 2
    runner.run_all(tasks=["trend", "anomaly"], n_trials=1)
    assert runner.save_results("results", prefix="trend") != path
    assert json.loads(path.read_text()) == saved


def test_a_client_without_a_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PreflightRefused, match="ANTHROPIC_API_KEY"):
        ApiClient().query("Hello")


def test_a_failed_warm_up_suggests_logging_in_again(
    folder: Folder, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeProvider.in_thread(keys=["sk-another"]) as strict:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", strict.url)
        done = numbers(folder, "--backend", "claude-code", "--trials", "1", "--task", "trend")
    assert done.code in (3, 4), done.err
    assert "warm-up" in done.err
    assert "log in" in done.err


def test_a_missing_cli_is_reported_with_its_install_command(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = numbers(folder, "--backend", "claude-code", "--quick")
    assert done.code == 4
    assert "npm install -g @anthropic-ai/claude-code" in done.err
    assert "abreast run numbers --mock" in done.err

"""The GitHub action: its steps are executed with bash, as a runner does, against a fake of GitHub's API."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from github_workflow import ACTION, ROOT, TOKEN, Api, Runner, serving

SPEC = """\
name: greetings
cases: cases.jsonl
variants: {only: {target: "python:answers:answer"}}
scorers: [exact]
"""
GOOD = "def answer(case):\n    return 'yes'\n"
BAD = "def answer(case):\n    return 'no'\n"
MARKER = f"<!-- abreast {hashlib.sha256(b'spec.yaml' + bytes(1) + b'.abreast/results.db').hexdigest()[:12]} -->"


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as server:
        yield server


@pytest.fixture
def runner(tmp_path: Path, api: Api) -> Runner:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    cases = [{"id": f"c{number}", "input": f"question {number}", "expected": "yes"} for number in range(20)]
    (checkout / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    (checkout / "spec.yaml").write_text(SPEC)
    (checkout / "answers.py").write_text(GOOD)
    return Runner(checkout, tmp_path / "github", api)


def test_a_pull_request_is_compared_with_the_base_branch_and_its_comment_is_updated(runner: Runner, api: Api) -> None:
    first = change(runner, GOOD).push(spec="spec.yaml")
    assert first.code == 0, first.log
    assert "The branch main has no finished run" in first.log
    assert first.outputs["outcome"] == "no_comparison"
    assert not api.comments

    unchanged = change(runner, GOOD).pull_request(spec="spec.yaml")
    assert unchanged.code == 0, unchanged.log
    assert unchanged.outputs["outcome"] == "no_comparison"
    assert "reusing 20 answers from earlier runs, executing 0" in unchanged.log
    (body,) = api.own
    assert body.startswith(f"{MARKER}\n## pull-7 (")
    assert re.search(r" against main \(.+\): no new answers\n", body), body
    assert "all 20 answers are shared by both runs (reused)" in body

    worse = change(runner, BAD).pull_request(spec="spec.yaml")
    assert worse.code == 1, worse.log
    assert worse.outputs["outcome"] == "worse", worse.log
    assert worse.outputs["verdict"].startswith("regression: ")
    assert "::error title=requirement not met::" in worse.log
    assert worse.steps["Save the store"] == worse.steps["Comment on the pull request"] == "success"
    (body,) = api.own
    assert body.startswith(f"{MARKER}\n## ❌ ")
    assert "<details><summary>20 cases changed: 0 better, 20 worse</summary>" in body
    assert worse.summary.index("20 cases changed") < worse.summary.index("## greetings")

    assert change(runner, f"# merged\n{BAD}").push(spec="spec.yaml").code == 1, "main is worse than before"
    better = change(runner, GOOD).pull_request(spec="spec.yaml")
    assert better.code == 0, better.log
    assert better.outputs["outcome"] == "better", "it is compared with the newest run of main, not its own last one"
    assert "reusing 20 answers" in better.log, "of its first run, from its own cache"
    (body,) = api.own
    assert body.startswith(f"{MARKER}\n## ✅ ")
    for job in (first, unchanged, worse, better):
        assert TOKEN not in job.log + job.summary


def change(runner: Runner, code: str) -> Runner:
    """Check out another version, on another machine."""
    (runner.checkout / ".abreast" / "results.db").unlink(missing_ok=True)
    (runner.checkout / "answers.py").write_text(code)
    return runner


def test_the_variants_of_a_new_experiment_decide_where_no_run_of_the_base_branch_exists(
    runner: Runner, api: Api
) -> None:
    (runner.checkout / "spec.yaml").write_text(
        "cases: cases.jsonl\nscorers: [exact]\nfail_if: [worse]\n"
        "variants: {a: {target: 'python:answers:answer'}, b: {target: 'python:more:answer'}}\n"
    )
    (runner.checkout / "more.py").write_text(BAD)
    job = runner.pull_request(spec="spec.yaml", arguments="--parallel 4 --margin '0.1'")
    assert job.code == 1, job.log
    assert job.outputs["outcome"] == "worse"
    assert any("b is worse than a" in line and line.startswith("::error") for line in job.commands)
    assert "The branch main has no finished run" in api.own[0]
    assert "b is worse than a" in api.own[0]


def test_text_of_models_executes_no_command_and_mentions_nobody(runner: Runner, api: Api) -> None:
    hostile = "::add-mask::x\n##[add-path]/tmp\n@octocat <b>#1</b> | [a](https://example.org) `"
    code = f"def answer(case):\n    print({hostile!r})\n    raise ValueError({hostile!r})\n"
    (runner.checkout / "answers.py").write_text(code)
    cases = [{"id": f"::warning::@octocat #{number} ##[error]", "input": "x", "expected": "y"} for number in range(12)]
    (runner.checkout / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    job = runner.pull_request(spec="spec.yaml")
    assert job.code == 3  # every trial fails
    assert "is incomplete" in job.log
    assert "add-mask" in job.log, "the message of the exception is shown"
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in job.commands), job.commands
    for text in (job.summary, api.own[0].removeprefix(MARKER)):
        assert "octocat" in text
        assert "@octocat" not in text
        assert "##[" not in text
        assert "<b>" not in text
        assert "https://" not in text


@pytest.mark.parametrize("requirement", ["slower", "score[other] < 0.5"])
def test_a_wrong_requirement_is_an_error(runner: Runner, requirement: str) -> None:
    if requirement != "slower":  # which is refused before anything is executed
        assert runner.push(spec="spec.yaml").code == 0
        (runner.checkout / "answers.py").write_text(BAD)
    job = runner.pull_request(spec="spec.yaml", fail_if=requirement)
    assert job.code == 2
    assert f'error: --fail-if "{requirement}"' in job.log
    assert f'::error title=abreast::--fail-if "{requirement}"' in "\n".join(job.commands)
    assert "Traceback" not in job.log


def test_a_run_without_a_result_says_so_and_keeps_its_exit_code(runner: Runner, api: Api) -> None:
    (runner.checkout / "spec.yaml").write_text(SPEC.replace("cases.jsonl", "missing.jsonl"))
    job = runner.pull_request(spec="spec.yaml")
    assert job.code == 2
    assert (job.outputs["outcome"], job.outputs["run"]) == ("no_comparison", "")
    assert "missing.jsonl" in job.log
    assert "ended without a result (exit code 2)" in api.own[0]


def test_a_fork_without_permission_gets_the_job_summary_only(runner: Runner, api: Api) -> None:
    api.refuse = (403, f"Resource not accessible by integration, token {TOKEN}")
    job = runner.pull_request(spec="spec.yaml")
    assert job.code == 0, job.log
    assert not api.comments
    (warning,) = [line for line in job.commands if line.startswith("::warning")]
    assert "the GitHub API answered 403" in warning
    assert "Workflows of forks never may; others need `permissions: pull-requests: write`" in warning
    assert "The job summary has the result" in warning
    assert "greetings" in job.summary
    assert TOKEN not in job.log


def comment(runner: Runner, api: Api, text: str = "text") -> str:
    """Execute only the last step, for a result that exists."""
    folder = runner.state / "temp"
    body = folder / f"abreast-{MARKER.split()[2]}" / "comment.md"
    body.parent.mkdir(parents=True, exist_ok=True)
    body.write_text(text)
    event = runner.state / "event.json"
    event.write_text('{"pull_request": {"number": 7}}')
    (step,) = [step for step in ACTION["runs"]["steps"] if step["name"] == "Comment on the pull request"]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "SPEC": "spec.yaml",
        "STORE": ".abreast/results.db",
        "TOKEN": TOKEN,
        "RUNNER_TEMP": str(folder),
        "GITHUB_API_URL": api.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_EVENT_PATH": str(event),
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(["bash", "-ec", step["run"]], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return done.stdout


def test_the_comment_is_found_on_a_later_page_and_never_that_of_a_stranger(runner: Runner, api: Api) -> None:
    api.add(f"{MARKER}\nforged by a stranger")
    for number in range(4):
        api.add(f"comment {number}")
    api.add(f"quoted: {MARKER}", "Bot")
    own = api.add(f"{MARKER}\nold", "User", "MEMBER")  # written with a personal token
    assert "updated the comment" in comment(runner, api, "new")
    assert own["body"] == f"{MARKER}\nnew"
    assert len(api.comments) == 7
    assert sum(line.startswith("GET") for line in api.requests) == 4


@pytest.mark.parametrize("next_page", ['<http://127.0.0.1:9/x>; rel="next"', "nonsense", '<>; rel="next"'])
def test_the_token_goes_to_no_other_host(runner: Runner, api: Api, next_page: str) -> None:
    for number in range(3):
        api.add(f"comment {number}")
    api.next_page = next_page
    assert "commented on the pull request" in comment(runner, api)


@pytest.mark.parametrize(
    ("status", "message"),
    [(302, "the GitHub API answered 302"), (401, "the token may not write"), (502, "answered 502 (down); the job")],
)
def test_an_api_that_refuses_costs_only_the_comment(runner: Runner, api: Api, status: int, message: str) -> None:
    api.refuse = (status, "down")
    assert message in comment(runner, api)
    assert len(api.requests) == 1


def test_an_api_that_cannot_be_reached_costs_only_the_comment(runner: Runner, api: Api) -> None:
    api.url = "http://127.0.0.1:1"
    assert "cannot reach the GitHub API" in comment(runner, api)


def test_scripts_of_the_action_contain_no_expression() -> None:
    """The value of an expression in a script would be executed, such as the name of a branch."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), step["name"]


def test_the_action_installs_the_package_it_belongs_to(tmp_path: Path) -> None:
    (step,) = [step for step in ACTION["runs"]["steps"] if step["name"] == "Install abreast"]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "GITHUB_ACTION_PATH": str(ROOT),
        "EXTRAS": "charts",
        "PIP_TARGET": str(tmp_path),
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "false",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    done = subprocess.run(["bash", "-ec", step["run"]], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "abreast" / "github" / "experiment.py").is_file()
    assert (tmp_path / "pytest_abreast.py").is_file()
    (entry_points,) = tmp_path.glob("abreast-*/entry_points.txt")
    assert "[pytest11]\nabreast = pytest_abreast" in entry_points.read_text()


def test_the_workflow_in_the_documentation_uses_inputs_and_outputs_that_exist() -> None:
    page = (ROOT / "docs" / "how-to" / "github.md").read_text(encoding="utf-8")
    (text,) = re.findall(r'```yaml title=".github/workflows/benchmark.yml"\n(.*?)```', page, re.S)
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert {"pull_request", "push"} == set(workflow[True])  # YAML reads `on` as a boolean
    (step,) = [step for step in workflow["jobs"]["benchmark"]["steps"] if step.get("id") == "benchmark"]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert set(re.findall(r"steps.benchmark.outputs.(\w+)", text)) <= set(ACTION["outputs"])
    for name in (*ACTION["inputs"], *ACTION["outputs"]):
        assert f"| `{name}` |" in page

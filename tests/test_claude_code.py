"""The real Claude Code CLI as a target, against the fake provider."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from abreast import Experiment
from abreast.fake import FakeProvider
from abreast.targets.processes.process_tree import TRIAL
from clis import real_cli
from conftest import Done, Folder

SERVER = {"command": sys.executable, "args": [str(Path(__file__).parent / "mcp_server.py")]}
PLAIN = {"target": "claude-code", "model": "sonnet"}


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProvider]:
    """A fake provider for the CLI, an empty home and a minimal PATH."""
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with FakeProvider.in_thread() as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-0123456789")
        yield running
        assert not left_behind(running)


def left_behind(provider: FakeProvider) -> list[str]:
    """Processes of this test's trials that still run."""
    actual = []
    for process in psutil.process_iter():
        try:
            env = process.environ()
            if TRIAL in env and env.get("ANTHROPIC_BASE_URL") == provider.url:
                actual.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return actual


def run(folder: Folder, prompts: list[str], variants: dict[str, Any], *words: str, **spec: Any) -> Done:
    cases = [{"id": f"c{n}", "input": prompt, "expected": "4"} for n, prompt in enumerate(prompts)]
    content = {"name": "cli", "cases": cases, "variants": variants, "scorers": ["exact"], **spec}
    folder.write("experiment.yaml", yaml.safe_dump(content, sort_keys=False))
    return folder.abreast("run", "experiment.yaml", *words)


def row(folder: Folder) -> dict[str, Any]:
    (actual,) = folder.sql("select * from predictions")
    return actual


def request_bodies(provider: FakeProvider) -> list[dict[str, Any]]:
    return [
        request.body for request in provider.requests if request.method == "POST" and request.path.endswith("/messages")
    ]


def test_a_plain_answer_comes_with_turns_tokens_cost_model_and_version(folder: Folder, provider: FakeProvider) -> None:
    done = run(folder, ['What is 2 + 2? [[fake: say="4" cached=700]]'], {"only": PLAIN})
    assert done.code == 0, done.err
    trial = row(folder)
    assert (trial["status"], trial["answer"], trial["score"]) == ("ok", "4", 1.0)
    assert (trial["turns"], trial["tool_calls"], trial["api_retries"], trial["exit_code"]) == (1, 0, 0, 0)
    assert trial["model"].startswith("claude-sonnet")
    assert trial["cli_version"] == "2.1.325"
    assert trial["input_tokens"] > 0
    assert trial["cache_read_tokens"] == 700
    assert (trial["cost_basis"], trial["cost_usd"] > 0) == ("reported", True)
    assert trial["cpu_s"] > 0.1
    assert trial["peak_memory_mb"] > 50
    assert [json.loads(line)["type"] for line in trial["raw_response"].splitlines()][-1] == "result"
    (provenance,) = folder.sql("select provenance from runs")
    assert "2.1.325" in json.loads(provenance["provenance"])["cli_versions"]["claude"]
    assert [body.get("tools") or [] for body in request_bodies(provider)] == [[], []]  # the warm-up, and the trial


@pytest.mark.parametrize(
    ("variable", "basis"),
    [("ANTHROPIC_API_KEY", "reported"), ("ANTHROPIC_AUTH_TOKEN", "reported"), ("CLAUDE_CODE_OAUTH_TOKEN", "included")],
)
def test_the_billing_mode_is_recorded(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, variable: str, basis: str
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv(variable, "sk-nobody-0123456789")
    done = run(folder, ["Hello"], {"only": PLAIN}, limits={"budget_usd": 1.0})
    assert done.code == 0, done.err
    assert (row(folder)["cost_basis"], row(folder)["cost_usd"] > 0) == (basis, True)


def test_another_model_behind_the_same_alias_is_not_reused(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, provider: FakeProvider
) -> None:
    for model in ("claude-sonnet-4-5", "claude-sonnet-5", "claude-sonnet-5"):
        monkeypatch.setenv("ANTHROPIC_DEFAULT_SONNET_MODEL", model)
        assert run(folder, ["Hello"], {"only": PLAIN}).code == 0
    assert [body["model"] for body in request_bodies(provider)] == ["claude-sonnet-4-5"] * 2 + ["claude-sonnet-5"] * 2


def test_a_variant_may_set_system_prompt_effort_and_turns(folder: Folder, provider: FakeProvider) -> None:
    variant = {**PLAIN, "system": "You are a calculator.", "warmup": True, "args": ["--effort", "low"]}
    refused = run(folder, ["Hello"], {"only": variant})
    assert refused.code == 2
    assert "--effort is set by abreast" in refused.err
    done = run(folder, ["Hello"], {"only": {**variant, "args": [], "effort": "low"}})
    assert done.code == 0, done.err
    assert "You are a calculator." in json.dumps(request_bodies(provider)[-1]["system"])


def test_a_tool_of_an_mcp_server_is_called_end_to_end(folder: Folder, provider: FakeProvider) -> None:
    prompt = '[[fake: tool=mcp__sums__add args={"a": 1, "b": 3}]] How much is it?'
    variants = {"without": PLAIN, "with": {**PLAIN, "mcp": {"sums": SERVER}}}
    done = run(folder, [prompt], variants)
    assert done.code == 0, done.err
    assert "mcp: sums: 2 tools" in done.err
    actual = {record["variant"]: record for record in folder.sql("select * from predictions")}
    assert (actual["with"]["answer"], actual["with"]["score"]) == ("4", 1.0)
    assert (actual["with"]["turns"], actual["with"]["tool_calls"]) == (2, 1)
    assert json.loads(actual["with"]["tools"]) == {"mcp__sums__add": 1}
    assert actual["without"]["score"] == 0.0
    offered = [{tool["name"] for tool in body.get("tools") or []} for body in request_bodies(provider)]
    assert any(names >= {"mcp__sums__add", "mcp__sums__lookup"} for names in offered)
    assert set() in offered  # the other arm has none of them


def test_a_server_that_does_not_start_is_found_before_the_run(folder: Folder, provider: FakeProvider) -> None:
    done = run(folder, ["Hello"], {"only": {**PLAIN, "mcp": {"broken": {"command": "false"}}}})
    assert done.code == 4
    assert "broken" in done.err
    assert not request_bodies(provider)


def test_a_server_that_fails_in_a_trial_is_an_error_and_no_data(folder: Folder, provider: FakeProvider) -> None:
    variant = {**PLAIN, "mcp": {"broken": {"command": "false"}}}
    done = run(folder, ["Hello"], {"only": variant}, "--force", limits={"retries": 0})
    assert done.code == 3
    trial = row(folder)
    assert (trial["status"], trial["error_kind"], trial["error_blame"]) == ("error", "mcp_failed", "infrastructure")
    assert "broken: failed" in trial["error"]
    assert trial["score"] is None
    assert not request_bodies(provider)  # it was ended before it asked anything


def test_a_denied_tool_is_an_error_and_no_data(folder: Folder, provider: FakeProvider) -> None:
    variant = {**PLAIN, "mcp": {"sums": SERVER}, "allowed_tools": ["mcp__sums__lookup"]}
    prompt = '[[fake: tool=mcp__sums__add args={"a": 1, "b": 3}]] How much is it?'
    done = run(folder, [prompt], {"only": {**variant}}, "--force")
    assert done.code == 3
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"], trial["attempts"]) == ("tool_denied", "infrastructure", 1)
    assert "mcp__sums__add" in trial["error"]
    assert trial["score"] is None
    assert trial["cost_usd"] > 0  # it was paid


@pytest.mark.parametrize(
    ("directive", "kind", "blame", "attempts"),
    [
        ("status=429 times=3", None, None, 2),  # two in the warm-up
        ("status=529", "rate_limit", "infrastructure", 2),
        ("status=401", "auth", "infrastructure", 1),
        ("status=404", "rejected", "infrastructure", 1),
        ("too-long", "too_long", "variant", 1),
        ("empty", "no_answer", "variant", 1),
        ("refusal", "refused", "variant", 1),
        ("drop", "network", "infrastructure", 2),
    ],
)
def test_errors_are_classified_by_the_messages_of_the_cli(
    folder: Folder, directive: str, kind: str | None, blame: str | None, attempts: int
) -> None:
    run(folder, [f"[[fake: {directive}]] Hello"], {"only": PLAIN}, "--force", limits={"retries": 1})
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"], trial["attempts"]) == (kind, blame, attempts), trial["error"]


def test_a_rate_limit_is_reported_at_once_because_the_cli_does_not_retry_on_its_own(
    folder: Folder, provider: FakeProvider
) -> None:
    run(folder, ["[[fake: status=429]] Hello"], {"only": PLAIN}, "--force", limits={"retries": 0})
    assert len(request_bodies(provider)) == 2  # one in the warm-up, one in the trial


def test_a_hanging_cli_is_ended_by_the_timeout_and_leaves_nothing(folder: Folder, provider: FakeProvider) -> None:
    variant = {**PLAIN, "mcp": {"sums": SERVER}}
    run(folder, ["[[fake: hang]] Hello"], {"only": variant}, "--force", limits={"timeout": 12, "retries": 0})
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"]) == ("network", "infrastructure"), "it never answered"
    assert "no answer within 12 s" in folder.abreast("logs", "--errors").out
    assert trial["model"].startswith("claude-sonnet")  # output up to then is kept
    assert not left_behind(provider)


def test_a_declared_rate_counts_trials_of_an_agent_and_a_note_says_so(folder: Folder) -> None:
    limits = {"requests_per_minute": 60}
    agent = run(folder, ["Hello"], {"only": {**PLAIN, "tools": ["Bash"]}}, "--dry-run", limits=limits)
    single = run(folder, ["Hello"], {"only": PLAIN}, "--dry-run", limits=limits)
    assert "requests_per_minute counts trials" in agent.output
    assert "counts trials" not in single.output


def test_a_prompt_that_the_cli_treats_as_a_command_gives_no_answer(folder: Folder, provider: FakeProvider) -> None:
    run(folder, ["/usage"], {"only": PLAIN}, "--force")
    trial = row(folder)
    assert (trial["status"], trial["error_kind"]) == ("error", "rejected")
    assert "commands" in trial["error"]


def test_eight_parallel_trials_answer_in_separate_folders(folder: Folder) -> None:
    prompts = [
        f'[[fake: tool=Write args={{"file_path": "note-{n}.txt", "content": "{n}"}} then="4"]] Write {n}'
        for n in range(8)
    ]
    variant = {**PLAIN, "tools": ["Write", "Read"], "permission_mode": "acceptEdits"}
    done = run(folder, prompts, {"only": variant}, limits={"parallel": 8, "free_cores": 0})
    assert done.code == 0, done.err
    rows = folder.sql("select case_id, status, answer, turns, files_changed, lines_added from predictions order by 1")
    assert [record["answer"] for record in rows] == ["4"] * 8
    assert {(record["turns"], record["files_changed"], record["lines_added"]) for record in rows} == {(2, 1, 1)}
    diffs = folder.sql("select content from artifacts where name = 'diff'")
    assert sorted(record["content"].count("+++ b/note-") for record in diffs) == [1] * 8


def test_an_agent_edits_a_checkout_and_its_change_is_kept(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    repository = folder.path / "repository"
    repository.mkdir()
    (repository / "greeting.txt").write_text("hello\n")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.com", "-C", str(repository)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    prompt = '[[fake: tool=Bash args={"command": "echo bye >> greeting.txt"} then="4"]] Say bye'
    variant = {**PLAIN, "tools": ["Bash"], "workspace": {"git": "repository"}}
    done = run(folder, [prompt], {"only": variant})
    assert done.code == 0, done.err
    (diff,) = folder.sql("select content from artifacts where name = 'diff'")
    assert "+bye" in diff["content"]
    assert (repository / "greeting.txt").read_text() == "hello\n"


def test_without_the_cli_nothing_is_executed_and_the_error_says_how_to_install_it(folder: Folder) -> None:
    done = run(folder, ["Hello"], {"only": {**PLAIN, "command": "no-such-claude"}})
    assert done.code == 4
    assert "program no-such-claude not found" in done.err
    assert "npm install -g @anthropic-ai/claude-code" in done.err


def test_without_a_login_nothing_is_executed_and_the_error_says_how_to_log_in(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    done = run(folder, ["Hello"], {"only": PLAIN})
    assert done.code == 4
    assert "not logged in" in done.err
    assert "run `claude` once and log in" in done.err


def test_an_invalid_login_ends_the_warm_up_with_the_same_advice(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, provider: FakeProvider
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    home = Path.home()
    (home / ".claude").mkdir()
    (home / ".claude" / ".credentials.json").write_text("{}")
    done = run(folder, ["Hello"], {"only": PLAIN})
    assert done.code == 4
    assert "Not logged in" in done.err
    assert "run `claude` once and log in" in done.err
    assert "abreast resume" in done.err


def test_the_key_stays_out_of_the_store_although_the_agent_can_read_it(folder: Folder) -> None:
    print_it = (
        '[[fake: tool=Bash args={"command": "echo $ANTHROPIC_API_KEY | tee key.txt >&2; echo $ANTHROPIC_API_KEY"}]]'
    )
    run(folder, [print_it], {"only": {**PLAIN, "tools": ["Bash"]}})
    assert "[ANTHROPIC_API_KEY]" in row(folder)["raw_response"]
    assert folder.sql("select content from artifacts where name = 'diff'")[0]["content"].endswith(
        "+[ANTHROPIC_API_KEY]\n"
    )
    stored_bytes = b"".join(file.read_bytes() for file in folder.path.rglob("*") if file.is_file())
    assert b"sk-nobody-0123456789" not in stored_bytes


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ({"modle": "sonnet"}, 'did you mean "model"'),
        ({"tools": "Bash"}, "a list of tools"),
        ({"max_turns": 0}, "at least 1"),
        ({"effort": "huge"}, "one of low"),
        ({"mcp": {"a": {"comand": "x"}}}, "comand"),
        ({"workspace": {"copi": "."}}, "copi"),
        ({"env": {"MY_API_KEY": "abc"}}, "would store a secret"),
        ({"env": {"A=B": "c"}}, "whose names are not empty, without ="),
    ],
)
def test_a_wrong_parameter_is_named_with_a_fix(folder: Folder, variant: dict[str, Any], message: str) -> None:
    done = run(folder, ["Hello"], {"only": {"target": "claude-code", **variant}})
    assert done.code == 2
    assert message in done.err


def test_a_failed_trial_keeps_its_workspace_on_request(folder: Folder) -> None:
    variant = {**PLAIN, "tools": ["Bash"]}
    prompt = '[[fake: tool=Bash args={"command": "echo here > note.txt"}]] [[fake: refusal]] Write'
    experiment = Experiment(
        cases=[{"id": "a", "input": prompt}], variants={"only": variant}, store=folder.path / "results.db"
    )
    result = experiment.run(keep_workspaces=True)
    (actual,) = result.rows()
    assert actual["status"] == "error"
    workspace = Path(actual["workspace"])
    assert (workspace / "note.txt").read_text() == "here\n"

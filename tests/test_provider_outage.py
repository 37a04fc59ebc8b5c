"""Outages of an agent's provider: how failures are classified and times are corrected."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.fake import FakeProvider, Reply, Rule
from abreast.targets.agents.presets import PRESETS, claude
from abreast.targets.agents.presets.claude import Stream
from clis import real_cli
from conftest import Done, Folder

RETRY = {"type": "system", "subtype": "api_retry", "retry_delay_ms": 1_500, "error_status": 529, "error": "overloaded"}
REQUEST = {"type": "system", "subtype": "status", "status": "requesting"}
BEGIN = {"type": "stream_event", "event": {"type": "message_start"}}
TEXT = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "4"}]}}
RESULT = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": "4"}


def run(folder: Folder, variant: dict[str, Any], *words: str, cases: int = 1, **limits: Any) -> Done:
    spec = {
        "name": "outage",
        "cases": [{"id": f"c{n}", "input": f"How much is 2 + 2? ({n})", "expected": "4"} for n in range(cases)],
        "variants": {"only": {"target": "command", **variant}},
        "scorers": ["exact"],
        "limits": {"retries": 0, **limits},
    }
    folder.write("experiment.yaml", yaml.safe_dump(spec, sort_keys=False))
    return folder.abreast("run", "experiment.yaml", *words)


def row(folder: Folder) -> dict[str, Any]:
    (actual,) = folder.sql("select * from predictions")
    return actual


def scripted(folder: Folder, *lines: dict[str, Any] | float) -> dict[str, Any]:
    """A program that prints these lines like Claude Code; a number is a pause in seconds."""
    printed = [line if isinstance(line, float) else json.dumps(line, separators=(",", ":")) for line in lines]
    steps = [f"time.sleep({line})" if isinstance(line, float) else f"print({line!r})" for line in printed]
    head = [f"#!{sys.executable}", "import functools, sys, time", "if '--version' in sys.argv: sys.exit()"]
    program = "\n".join([*head, "print = functools.partial(print, flush=True)", *steps, ""])
    path = folder.write("claude", program)
    path.chmod(0o755)
    return {"preset": "claude-code", "command": str(path)}


def test_a_timeout_while_the_cli_waits_for_its_provider_is_an_infrastructure_error(folder: Folder) -> None:
    done = run(folder, scripted(folder, TEXT, RETRY, RETRY, 60.0), timeout=5.0, breaker=0)
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"]) == ("rate_limit", "infrastructure")
    assert "no answer within 5 s" in trial["error"]
    assert "HTTP 529 (overloaded), 2 retries" in trial["error"]
    assert (trial["score"], trial["api_retries"]) == (None, 2)
    assert done.code == 3, "it is executed again by resume"


def test_a_timeout_after_the_provider_recovered_is_a_failure_of_the_variant(folder: Folder) -> None:
    done = run(folder, scripted(folder, RETRY, TEXT, 60.0), timeout=5.0, breaker=0)
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"], trial["score"]) == ("timeout", "variant", 0.0)
    assert done.code == 1, "no trial gave an answer"


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limit"), (503, "network"), (401, "auth"), (None, "network")])
@pytest.mark.matrix(quick=1)
def test_the_last_answer_of_the_provider_decides_the_error_kind(folder: Folder, status: int | None, kind: str) -> None:
    run(folder, scripted(folder, {**RETRY, "error_status": status}, 60.0), timeout=5.0, breaker=0)
    assert (row(folder)["error_kind"], row(folder)["error_blame"]) == (kind, "infrastructure")


def test_an_outage_is_retried_and_stops_the_run_before_all_trials_are_spent(folder: Folder) -> None:
    line = {**RETRY, "error_status": 503, "error": "unavailable"}
    done = run(folder, scripted(folder, line, 60.0), cases=8, timeout=4.0, retries=1)
    assert done.code == 3
    assert "HTTP 503" in done.err
    assert "abreast resume" in done.err
    assert folder.sql("select count(*) n from trials")[0]["n"] < 8


def test_waits_for_retries_do_not_count_as_latency(folder: Folder) -> None:
    done = run(folder, scripted(folder, RETRY, 2.0, TEXT, RESULT))
    assert done.code == 0, done.err
    trial = row(folder)
    assert (trial["status"], trial["retry_wait_s"], trial["api_retries"]) == ("ok", 1.5, 1)
    (times,) = folder.sql("select service_s, finished_at - started_at as elapsed_s from trials")
    assert times["elapsed_s"] - times["service_s"] >= 1.499
    assert folder.abreast("validate").code == 0, "these times are possible"


def test_time_lost_to_retries_is_given_back_when_the_provider_answers(folder: Folder) -> None:
    line = {**RETRY, "retry_delay_ms": 3_000}
    done = run(folder, scripted(folder, line, 3.0, TEXT, 5.0, RESULT), timeout=6.0, breaker=0)
    assert done.code == 0, done.err
    assert row(folder)["status"] == "ok"


def test_no_more_time_is_given_back_than_has_passed(folder: Folder) -> None:
    line = {**RETRY, "retry_delay_ms": 3_600_000}
    run(folder, scripted(folder, line, TEXT, 60.0, RESULT), timeout=3.0, breaker=0)
    assert (row(folder)["error_kind"], row(folder)["error_blame"]) == ("timeout", "variant")


@pytest.mark.parametrize(
    ("lines", "kind", "blame"),
    [
        ((TEXT, REQUEST, 60.0), "network", "infrastructure"),
        ((TEXT, REQUEST, BEGIN, 60.0), "timeout", "variant"),
        ((TEXT, 3.0, REQUEST, 60.0), "timeout", "variant"),
    ],
    ids=["no answer began", "an answer began", "it had just asked"],
)
@pytest.mark.matrix(quick=1)
def test_an_unanswered_request_is_not_a_failure_of_the_variant(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, lines: tuple[Any, ...], kind: str, blame: str
) -> None:
    monkeypatch.setattr(claude, "SILENT_S", 2.5)
    run(folder, scripted(folder, *lines), timeout=5.0, breaker=0)
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"]) == (kind, blame), trial["error"]
    assert ("the provider did not begin to answer a request within" in trial["error"]) == (blame == "infrastructure")


def test_partial_answers_are_not_stored(folder: Folder) -> None:
    done = run(folder, scripted(folder, REQUEST, BEGIN, TEXT, RESULT))
    assert done.code == 0, done.err
    raw = [json.loads(line) for line in row(folder)["raw_response"].splitlines()]
    assert raw == [REQUEST, TEXT, RESULT]


LINES = st.lists(
    st.one_of(
        st.builds(
            lambda delay, status: {**RETRY, "retry_delay_ms": delay, "error_status": status},
            st.one_of(st.integers(0, 10_000), st.none(), st.text(max_size=3)),
            st.one_of(st.sampled_from([429, 500, 529, 401]), st.none(), st.text(max_size=3)),
        ),
        st.just(TEXT),
        st.just({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t"}]}}),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(LINES)
def test_any_stream_waits_exactly_from_a_retry_to_the_next_answer(lines: list[dict[str, Any]]) -> None:
    stream = Stream()
    returned = sum(stream.hear(json.dumps(line).encode()) for line in lines)
    kinds = [line["type"] for line in lines]
    last = max((at for at, kind in enumerate(kinds) if kind == "assistant"), default=-1)
    delays = [line["retry_delay_ms"] for line in lines[: last + 1] if line["type"] == "system"]
    assert stream.retry_wait_s == pytest.approx(sum(delay for delay in delays if isinstance(delay, int)) / 1_000)
    assert returned == pytest.approx(stream.retry_wait_s)
    assert (stream.unanswered() is not None) == ("system" in kinds[last + 1 :])


@pytest.mark.parametrize(
    ("preset", "out", "err", "kind"),
    [
        ("codex", '{"type":"error","message":"Reconnecting... 2/5 (unexpected status 529 <unknown status code>: x)"}\n',
         "", "rate_limit"),
        ("codex", '{"type":"error","message":"Reconnecting... 1/5 (stream disconnected: error sending request)"}\n', "",
         "network"),
        ("codex", '{"type":"error","message":"Reconnecting... 1/5 (x)"}\n{"type":"item.started","item":{}}\n', "",
         None),
        ("gemini", "", 'Attempt 1 failed with status 503. Retrying with backoff... _ApiError: {"error":1}\n  at x\n',
         "network"),
        ("gemini", "", "Attempt 2 failed with 429 error (no Retry-After header). Retrying with backoff...\n",
         "rate_limit"),
        ("gemini", "", "YOLO mode is enabled.\n", None),
        ("aider", "Repo-map: none\nlitellm.InternalServerError: down\nRetrying in 0.2 seconds...\n", "", "network"),
        ("aider", "Repo-map: none\nlitellm.RateLimitError: x\nRetrying in 0.2 seconds...\nThe answer is 4\n", "", None),
        ("qwen", "", "", None),
    ],
)  # fmt: skip
def test_retries_reported_by_other_agents_are_recognised(
    tmp_path: Path, preset: str, out: str, err: str, kind: str | None
) -> None:
    (tmp_path / "out").write_text(out)
    (tmp_path / "err").write_text(err)
    actual = PRESETS[preset].reads(tmp_path / "out", tmp_path / "err").unanswered
    assert (None if actual is None else (actual.kind, actual.blame)) == (kind and (kind, "infrastructure"))


# -- the real programs -------------------------------------------------------------------------------------------------


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Put the real CLIs on the path with a fake account."""
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:{Path(sys.executable).parent}:/usr/bin:/bin")
    path = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(path))
    for name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-0123456789")
    return path


@pytest.fixture
def down(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """A provider that answers only the first request of a conversation."""
    rules = [Rule("", [Reply(tool="Bash", args={"command": "echo hello"}), Reply(status=529)])]
    with FakeProvider.in_thread(rules) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        yield provider


@pytest.mark.parametrize("target", [{"target": "claude-code", "tools": ["Bash"]}, {"preset": "claude-code"}], ids=str)
@pytest.mark.heavy
def test_an_outage_of_claude_code_is_not_a_wrong_answer(
    folder: Folder, down: FakeProvider, target: dict[str, Any]
) -> None:
    done = run(folder, {**target, "model": "sonnet"}, timeout=25.0, breaker=0)
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"]) == ("rate_limit", "infrastructure"), trial["error"]
    assert "HTTP 529" in trial["error"]
    assert (trial["score"], trial["tool_calls"]) == (None, 1)
    assert trial["api_retries"] >= 1
    assert done.code == 3


@pytest.mark.heavy
def test_a_silent_provider_of_claude_code_is_not_a_wrong_answer(
    folder: Folder, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service answers the first trial, and then accepts requests without ever answering them."""
    with FakeProvider.in_thread([Rule("", [Reply("4", times=1), Reply(kind="hang")])]) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        variant = {"target": "claude-code", "tools": ["Bash"], "model": "sonnet"}
        done = run(folder, variant, cases=2, timeout=20.0, breaker=0)
    rows = folder.sql("select status, error_kind, error_blame, score from predictions order by status desc")
    assert [tuple(row.values()) for row in rows] == [
        ("ok", None, None, 1.0),
        ("error", "network", "infrastructure", None),
    ]
    assert done.code == 3


def test_claude_code_waits_for_its_provider(folder: Folder, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeProvider.in_thread([Rule("", [Reply(status=529, times=2), "4"])]) as provider:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        done = run(folder, {"target": "claude-code", "tools": ["Bash"], "model": "sonnet"})
    assert done.code == 0, done.err
    trial = row(folder)
    assert (trial["answer"], trial["api_retries"], trial["retry_wait_s"] > 0.5) == ("4", 2, True)
    (times,) = folder.sql("select service_s, finished_at - started_at as elapsed_s from trials")
    assert times["elapsed_s"] - times["service_s"] >= trial["retry_wait_s"] - 0.001


@pytest.mark.heavy
def test_an_outage_of_codex_is_not_a_wrong_answer(folder: Folder, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeProvider.in_thread([Rule("", [Reply(status=500)])]) as provider:
        address = provider.environment["OPENAI_BASE_URL"]
        (home / "codex").mkdir()
        (home / "codex" / "config.toml").write_text(
            'model_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
            f'base_url = "{address}"\nenv_key = "CODEX_TEST"\nwire_api = "responses"\n'
            "request_max_retries = 0\nstream_max_retries = 100\n"
        )
        monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
        monkeypatch.setenv("CODEX_TEST", "any")
        done = run(folder, {"preset": "codex"}, timeout=20.0, breaker=0)
    trial = row(folder)
    assert (trial["error_kind"], trial["error_blame"]) == ("network", "infrastructure"), trial["error"]
    assert trial["api_retries"] >= 1
    assert done.code == 3

"""Calls of MCP tools that fail although their server started, with the real Claude Code CLI and a real server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast.fake import FakeProvider, Reply, Rule
from abreast.targets.agents.presets import PRESETS
from abreast.targets.agents.presets.claude import Stream
from clis import real_cli
from conftest import Done, Folder

SERVER = {"command": sys.executable, "args": [str(Path(__file__).parent / "mcp_server.py")]}
WORKS = '[[fake: tool=mcp__keys__lookup args={"key": "door"} then="4"]] one'
FAILS = '[[fake: tool=mcp__keys__lookup args={"key": "nothing"} then="4"]] two'
DENIED = '[[fake: tool=mcp__keys__add args={"a": 1, "b": 3} then="4"]] three'


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProvider]:
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with FakeProvider.in_thread() as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-0123456789")
        yield running


def run(folder: Folder, *prompts: str) -> Done:
    plain = {"target": "claude-code", "model": "sonnet", "tools": ["Read"], "on_denied": "continue"}
    spec = {
        "name": "calls",
        "cases": [{"id": f"c{n}", "input": prompt, "expected": "4"} for n, prompt in enumerate(prompts)],
        "variants": {
            "without": plain,
            "with": {**plain, "mcp": {"keys": SERVER}, "allowed_tools": ["Read", "mcp__keys__lookup"]},
        },
        "scorers": ["exact"],
    }
    folder.write("experiment.yaml", yaml.safe_dump(spec, sort_keys=False))
    return folder.abreast("run", "experiment.yaml", "--force")


def test_offered_made_failed_and_denied_calls_are_columns_and_in_every_report(folder: Folder) -> None:
    done = run(folder, WORKS, FAILS, DENIED)
    assert done.code == 0, done.err
    rows = folder.sql(
        "select case_id, score, mcp_tools_offered, mcp_calls, mcp_calls_failed, mcp_calls_denied, mcp_all_failed "
        "from predictions where variant = 'with' order by 1"
    )
    assert [tuple(record.values()) for record in rows] == [
        ("c0", 1.0, 2, 1, 0, 0, 0),
        ("c1", 1.0, 2, 1, 1, 0, 1),
        ("c2", 1.0, 2, 1, 0, 1, 0),
    ]
    without = folder.sql("select mcp_calls from predictions where variant = 'without'")
    assert {record["mcp_calls"] for record in without} == {None}, "it has no server"
    (error,) = folder.sql("select mcp_errors from predictions where mcp_all_failed")
    assert json.loads(error["mcp_errors"]) == {"mcp__keys__lookup": {"failed": 1, "message": "there is no such key"}}
    page = next(folder.path.glob("runs/*/report.html")).read_text()
    for report in (done.out, folder.abreast("report", "--format", "markdown").out, page):
        assert "MCP calls" in report
        assert "every MCP call failed in 1 of 3 trials of with (c1); their scores count" in report
        assert "there is no such key" in report
    calls = folder.abreast("report", "--format", "json").json["mcp"]["with"]
    assert (calls["calls"], calls["failed"], calls["denied"], calls["all_failed"]) == (3, 1, 1, ["c1"])
    assert calls["errors"][0] == {"server": "keys", "tool": "lookup", "failed": 1, "message": "there is no such key"}


def test_there_is_no_comparison_if_every_call_of_an_arm_failed(folder: Folder) -> None:
    done = run(folder, FAILS, FAILS + " again")
    assert done.code == 1
    assert "no comparison: every MCP call of with failed (2 of 2; keys: there is no such key)" in done.out
    assert "this run allows no comparison" in done.err
    scores = folder.sql("select score from predictions")
    assert [record["score"] for record in scores] == [1.0] * 4, "trials keep their scores"
    gate = folder.abreast("report", "--fail-if", "worse")
    assert gate.code == 1, "nothing is known"


# -- other agents ------------------------------------------------------------------------------------------------------


@pytest.fixture
def codex(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model that looks up the key named in the prompt."""
    home = tmp_path_factory.mktemp("codex")
    script = "text(JSON.stringify(await tools.mcp__keys__lookup({key: '%s'})))"
    rules = [Rule(f"key {key}", [Reply(tool="exec", args=script % key), "4"]) for key in ("door", "nothing")]
    with FakeProvider.in_thread(rules) as provider:
        (home / "config.toml").write_text(
            'model_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
            f'base_url = "{provider.environment["OPENAI_BASE_URL"]}"\nenv_key = "CODEX_TEST"\nwire_api = "responses"\n'
            "request_max_retries = 0\nstream_max_retries = 0\n"
        )
        monkeypatch.setenv("CODEX_HOME", str(home))
        monkeypatch.setenv("CODEX_TEST", "any")
        yield


def run_codex(folder: Folder, *keys: str, approval: str = "approve") -> Done:
    settings = {
        "command": json.dumps(SERVER["command"]),
        "args": json.dumps(SERVER["args"]),
        "default_tools_approval_mode": json.dumps(approval),
    }
    args = [word for name, value in settings.items() for word in ("-c", f"mcp_servers.keys.{name}={value}")]
    plain = {"target": "command", "preset": "codex"}
    spec = {
        "cases": [{"id": f"c{n}", "input": f"Use the key {key} ({n}).", "expected": "4"} for n, key in enumerate(keys)],
        "variants": {"without": plain, "with": {**plain, "args": args}},
        "scorers": ["exact"],
    }
    folder.write("experiment.yaml", yaml.safe_dump(spec, sort_keys=False))
    return folder.abreast("run", "experiment.yaml")


def test_codex_reports_its_failed_calls(folder: Folder, codex: None) -> None:
    done = run_codex(folder, "door", "nothing")
    assert done.code == 0, done.err
    rows = folder.sql(
        "select case_id, score, mcp_calls, mcp_calls_failed, mcp_calls_denied, mcp_all_failed, tools "
        "from predictions where variant = 'with' order by 1"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("c0", 1.0, 1, 0, 0, 0, '{"mcp__keys__lookup":1}'),
        ("c1", 1.0, 1, 1, 0, 1, '{"mcp__keys__lookup":1}'),
    ]
    assert "every MCP call failed in 1 of 2 trials of with (c1)" in done.out
    assert "there is no such key" in done.out
    assert "tools offered" not in done.out, "codex does not report them"


def test_codex_with_a_server_that_fails_every_call_is_not_compared(folder: Folder, codex: None) -> None:
    done = run_codex(folder, "nothing", "nothing")
    assert done.code == 1
    assert "no comparison: every MCP call of with failed (2 of 2; keys: there is no such key)" in done.out


def test_a_variant_whose_calls_were_all_denied_is_flagged(folder: Folder, codex: None) -> None:
    done = run_codex(folder, "door", "door", approval="prompt")
    (totals,) = folder.sql(
        "select sum(mcp_calls) as made, sum(mcp_calls_failed) as failed, sum(mcp_calls_denied) as denied "
        "from predictions"
    )
    assert totals == {"made": 2, "failed": 0, "denied": 2}
    assert "every MCP call of with was denied (2 calls): no server was used" in done.out


def opencode_call(tool: str, call_id: str, **state: str) -> str:
    return json.dumps({"type": "tool_use", "part": {"type": "tool", "tool": tool, "callID": call_id, "state": state}})


OPENCODE = "\n".join(
    [
        opencode_call("bash", "1", status="error", error="no such file"),
        opencode_call("apply_patch", "2", status="error", error="does not apply"),
        opencode_call("keys_look_up", "3", status="error", error="there is no such key"),
        opencode_call("keys_look_up", "4", status="completed"),
        opencode_call("keys_add", "5", status="error", error="The user rejected permission to use this tool call."),
    ]
)
GEMINI = {
    "response": "4",
    "stats": {
        "tools": {
            "byName": {
                "read_file": {"count": 2, "fail": 2, "decisions": {"reject": 0}},
                "mcp_keys_look_up": {"count": 3, "fail": 2, "decisions": {"reject": 1}},
            }
        }
    },
}


@pytest.mark.parametrize(
    ("preset", "out", "totals", "errors"),
    [
        ("opencode", OPENCODE, (3, 1, 1), {"mcp__keys__look_up": {"failed": 1, "message": "there is no such key"}}),
        ("gemini", json.dumps(GEMINI), (3, 1, 1), {"mcp__keys__look_up": {"failed": 1, "message": ""}}),
    ],
)
def test_calls_as_opencode_and_gemini_report_them(
    tmp_path: Path, preset: str, out: str, totals: tuple[int, ...], errors: dict[str, Any]
) -> None:
    """The lines are from opencode 1.18.33, the totals from gemini 0.61.0."""
    (tmp_path / "out").write_text(out)
    (tmp_path / "err").write_text("")
    columns = PRESETS[preset].reads(tmp_path / "out", tmp_path / "err").columns()
    assert tuple(columns[name] for name in ("mcp_calls", "mcp_calls_failed", "mcp_calls_denied")) == totals
    assert columns["mcp_errors"] == errors


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["call", "denied", "result", "error"]),
        st.integers(0, 3),
        st.sampled_from(["mcp__a__x", "mcp__b", "Read", None, 5]),
    ),
    max_size=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EVENTS)
def test_failed_and_denied_calls_never_exceed_the_calls_made(events: list[tuple[str, int, Any]]) -> None:
    stream = Stream()
    stream.hear(json.dumps({"type": "system", "subtype": "init", "mcp_servers": [{"name": "a"}], "tools": 5}).encode())
    for kind, number, tool in events:
        part: dict[str, Any] = {"type": "tool_result", "tool_use_id": str(number), "is_error": kind == "error"}
        line: dict[str, Any] = {"type": "user", "message": {"content": [{**part, "content": [{"text": "no"}, tool]}]}}
        if kind == "call":
            use = {"type": "tool_use", "id": str(number), "name": tool}
            line = {"type": "assistant", "message": {"content": [use]}}
        elif kind == "denied":
            line = {"type": "system", "subtype": "permission_denied", "tool_use_id": str(number)}
        stream.hear(json.dumps(line).encode())
    actual = stream.output().columns()
    assert actual["mcp_calls_failed"] + actual["mcp_calls_denied"] <= actual["mcp_calls"]
    assert actual["mcp_calls"] == sum(kind == "call" and str(tool).startswith("mcp__") for kind, _, tool in events)
    assert sum(error["failed"] for error in (actual["mcp_errors"] or {}).values()) == actual["mcp_calls_failed"]

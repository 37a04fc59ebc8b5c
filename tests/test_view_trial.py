"""The page of a trial shows everything behind a number, and nothing in it can harm its reader."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast import Answer, Case, Experiment
from abreast.errors import Transient
from abreast.fake import FakeProvider, Reply, Rule
from abreast.store import open_store
from abreast.view.trial.conversation import turns
from clis import real_cli
from conftest import Folder
from view_server import LivePage, live_page

LARGE = 5_000_000  # bytes of an answer
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
CONTROL = "user\u202etxt.exe \x1b[31mred\x00 end\r\n"
NAMES = ("plain", "better")
TURNS = [
    {
        "type": "system",
        "subtype": "init",
        "model": "claude-x",
        "mcp_servers": [{"name": "docs", "status": "connected"}],
    },
    {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": "Look first."}]}},
    {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls src"}}]},
    },
    {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": HOSTILE}]},
    },
    {"type": "assistant", "message": {"content": [{"type": "text", "text": "There is nothing."}]}},
]


def answer(case: Case, name: str = "") -> Answer:
    if case.id == "busy" and name == "better" and not TRIED:
        TRIED.append(case.id)
        raise Transient("the server is busy")
    if case.id == "fails" and name == "plain":
        raise ValueError(f"no idea {HOSTILE}")
    text = {"hostile": HOSTILE, "control": CONTROL, "large": "ä" * (LARGE // 2)}.get(case.id, f"the {name} answer")
    diff = f"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n one\n-two\n+{name} two\n"
    raw = "\n".join(map(json.dumps, TURNS))
    artifacts = {"diff": diff, "page.html": HOSTILE, "../odd name?": "odd"}
    return Answer(text, raw_response=raw, artifacts=artifacts, data={"confidence": 0.5}, cost_usd=0.25)


TRIED: list[str] = []
IDS = ("hostile", "control", "large", "busy", "fails")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trial") / "results.db"
    cases = [{"id": name, "input": f"question {name}", "expected": "4", "tags": {"kind": name[0]}} for name in IDS]
    variants = {name: {"name": name} for name in NAMES}
    Experiment(cases=cases, variants=variants, target=answer, scorers=["contains"], repeats=2).run(store=path)
    return path


@pytest.fixture(scope="module")
def page(store: Path) -> Iterator[LivePage]:
    with live_page(store) as page:
        yield page


@pytest.fixture(scope="module")
def places(store: Path) -> dict[tuple[str, str], str]:
    """The path of the first trial of each case and variant."""
    with open_store(store) as opened:
        run = opened.run("latest")["run"]
    order = [(case, variant) for case in IDS for _ in range(2) for variant in NAMES]
    return {place: f"/runs/{run}/trials/{order.index(place)}" for place in order}


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def test_a_trial_shows_its_texts_scores_costs_artifacts_and_the_other_trials_of_its_case(
    page: LivePage, places: dict[tuple[str, str], str]
) -> None:
    answer = page.get(places["busy", "better"])
    assert answer.status == 200
    words = text_of(answer.text)
    for part in (
        "question busy", "the better answer", "Scores", "contains (primary)", "$0.25", "confidence",
        "attempt 1 : network: the server is busy", "Where the time went", "page.html", "kind b", "repeat 2",
    ):  # fmt: skip
        assert part in words, part
    for variant in NAMES:
        assert f'href="{places["busy", variant]}"' in answer.text
    assert 'rel="prev"' in answer.text
    assert 'rel="next"' in answer.text


def test_the_time_of_a_trial_is_drawn_from_queue_to_service(page: LivePage, places: dict[tuple[str, str], str]) -> None:
    text = page.get(places["busy", "better"]).text
    (alternative,) = set(re.findall(r'<svg[^>]*aria-label="([^"]*in all[^"]*)"', text))
    assert re.search(r"attempt 1 .*, back-off .*, attempt 2 ", alternative)


def test_the_panel_has_only_the_content(page: LivePage, places: dict[tuple[str, str], str]) -> None:
    path = places["hostile", "plain"]
    panel = page.get(f"{path}?panel=1").text
    assert panel.lstrip().startswith('<article class="trial" aria-label="hostile · plain, repeat 1">')
    assert "<html" not in panel
    assert panel.strip() in page.get(path).text


@pytest.mark.parametrize("case", IDS)
@pytest.mark.parametrize("variant", NAMES)
def test_what_models_and_programs_wrote_is_text(
    page: LivePage, places: dict[tuple[str, str], str], case: str, variant: str
) -> None:
    text = page.get(places[case, variant]).text
    scripts = re.findall(r"<script[^>]*>", text)
    assert scripts == ['<script type="module" src="/static/trial-page.js">']
    assert "<img" not in text
    assert not re.search(r" (style|on\w+)=", re.sub(r">[^<]*<", "><", text))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_control_and_bidirectional_characters_are_visible(page: LivePage, places: dict[tuple[str, str], str]) -> None:
    assert "user‹U+202E›txt.exe ␛[31mred␀ end" in page.get(places["control", "plain"]).text


def test_a_large_answer_is_loaded_in_pieces(page: LivePage, places: dict[tuple[str, str], str]) -> None:
    path = places["large", "plain"]
    first = page.get(path).text
    assert len(first.encode()) < 200_000
    assert "the beginning of 5.0 MB" in first
    (address, start) = re.findall(r'data-text="([^"]*/answer)" data-next="(\d+)"', first)[0]
    (shown,) = re.findall(r'aria-label="text of Answer">(ä*)<', first)
    whole, following, pieces = shown, int(start), 0
    while following is not None:
        piece = page.get(f"{address}?from={following}").json
        whole, following, pieces = whole + piece["text"], piece["next"], pieces + 1
    assert whole == "ä" * (LARGE // 2)
    assert pieces > 5


@pytest.mark.parametrize("form", ["text", "file"])
def test_texts_and_artifacts_are_sent_as_stored_and_never_executed(
    page: LivePage, places: dict[tuple[str, str], str], form: str
) -> None:
    path = places["control", "plain"]
    for name, content in {
        "answer": CONTROL, "artifact:page.html": HOSTILE, "artifact:../odd name?": "odd", "expected": '"4"',
    }.items():  # fmt: skip
        answer = page.get(f"{path}/texts/{quote(name, safe='')}?as={form}")
        assert answer.status == 200
        assert answer.text == content
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        disposition = answer.headers.get("Content-Disposition", "")
        assert bool(re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]+\.txt"', disposition)) == (form == "file")


def test_the_conversation_of_an_agent_has_turns_and_tool_calls_with_their_results(
    page: LivePage, places: dict[tuple[str, str], str]
) -> None:
    text = page.get(places["busy", "plain"]).text
    conversation = text_of(text[text.index('<ol class="conversation">') : text.index("</ol>")])
    order = ["question busy", "docs (connected)", "Look first.", "Bash", "failed", "ls src", "alert(1)", "nothing."]
    positions = [conversation.index(part) for part in order]
    assert positions == sorted(positions)


def test_answers_and_code_changes_of_two_variants_are_side_by_side(
    page: LivePage, places: dict[tuple[str, str], str]
) -> None:
    text = page.get(places["busy", "better"]).text
    assert "from plain to better" in text
    assert re.search(r"<del>[^<]*plain</del><ins>[^<]*better</ins>", text)
    assert "change of better, repeat 1 next to that of plain, repeat 1" in text
    assert re.search(r"<ins><i></i><b>\+</b>plain two</ins>", text)
    assert page.get(f"{places['busy', 'better']}?with=nobody").status == 404


def test_a_failed_trial_says_why(page: LivePage, places: dict[tuple[str, str], str]) -> None:
    text = page.get(places["fails", "plain"]).text
    assert "error (crash, variant&#39;s fault): ValueError: no idea &lt;/pre&gt;" in text
    assert "data-label" not in text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("99", "trial 99 does not exist; the last is 19"),
        ("99999999999999999999", ""),
        ("x", ""),
        ("0/texts/secret", "a trial has no text"),
        ("0/texts/answer?from=x", "is not a number of bytes"),
        ("0/texts/artifact:none", ""),
        ("0/texts/artifact:none?as=file", ""),
    ],
)
def test_what_does_not_exist_is_not_found(page: LivePage, path: str, words: str) -> None:
    answer = page.get(f"/runs/latest/trials/{path}")
    assert answer.status == 404
    assert words in answer.text


def test_real_agents_and_apis_have_conversations(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:/usr/bin:/bin")
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-nobody-0123456789")

    def calls(tool: str, argument: str) -> list[Rule]:
        return [Rule("", [Reply(tool=tool, args={argument: "echo hello > new.txt; ls"}), Reply(say="It is there.")])]

    with (
        FakeProvider.in_thread(calls("Bash", "command")) as claude,
        FakeProvider.in_thread(calls("exec_command", "cmd")) as codex,
    ):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", claude.url)
        (home / "codex").mkdir()
        (home / "codex" / "config.toml").write_text(
            'model_provider = "fake"\n[model_providers.fake]\nname = "fake"\nenv_key = "OPENAI_API_KEY"\n'
            f'base_url = "{codex.environment["OPENAI_BASE_URL"]}"\nwire_api = "responses"\n'
        )
        monkeypatch.setenv("CODEX_HOME", str(home / "codex"))
        Experiment(
            cases=[{"id": "one", "input": "write a file"}],
            variants={
                "claude": {"target": "claude-code", "tools": ["Bash"], "allowed_tools": ["Bash"]},
                "codex": {"target": "command", "preset": "codex"},
                "chat": {"target": "openai", "model": "gpt-x", "base_url": codex.environment["OPENAI_BASE_URL"]},
                "messages": {"target": "anthropic", "model": "claude-x"},
            },
            scorers=["success"],
        ).run(store=folder.path / "results.db", parallel=2)
    with live_page(folder.path / "results.db") as page:
        for position, tool in enumerate(("Bash", "shell", "exec_command", "Bash")):
            text = page.get(f"/runs/latest/trials/{position}").text
            conversation = text_of(text[text.index('<ol class="conversation">') : text.index("</ol>")])
            assert "write a file" in conversation
            assert re.search(rf"{tool} .*echo hello", conversation), position
            if position < 2:
                assert re.search(r"result new\.txt .*It is there\.", conversation), position
                assert "+hello" in page.get(f"/runs/latest/trials/{position}/texts/artifact:diff?as=text").text


def test_a_long_conversation_is_loaded_on_demand(folder: Folder) -> None:
    Experiment(cases=[{"id": "a", "input": "q"}], variants={"a": {}, "b": {}}, target=talk).run(
        store=folder.path / "results.db"
    )
    with live_page(folder.path / "results.db") as page:
        text = page.get("/runs/latest/trials/0").text
        assert len(text) < 100_000
        (path,) = re.findall(r'data-load="([^"]*)"', text)
        conversation = page.get(path).text
        assert conversation.count('<li class="turn call assistant">') == 300
        assert "turn number 299" in conversation


def talk(case: Case) -> Answer:
    calls = [
        {"type": "item.completed", "item": {"type": "command_execution", "command": f"turn number {number}",
                                            "aggregated_output": "x" * 3_000, "exit_code": number % 2}}
        for number in range(300)
    ]  # fmt: skip
    return Answer("done", raw_response="\n".join(map(json.dumps, calls)))


WORDS = st.sampled_from(
    ["type", "role", "content", "message", "item", "part", "state", "tool_calls", "function", "choices", "output",
     "assistant", "user", "tool", "tool_use", "tool_result", "item.completed", "mcp_tool_call", "error", "text",
     "command_execution", "file_change", "changes", "todo_list", "items", "function_call", "result", "arguments"]
)  # fmt: skip
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=25,
)


@given(st.lists(ANY_JSON, min_size=1, max_size=4), st.booleans())
def test_any_response_has_a_page(values: list[object], is_document: bool) -> None:
    raw = json.dumps(values) if is_document else "\n".join(map(json.dumps, values))
    for turn in turns(raw, "a question"):
        assert turn.kind in ("message", "thought", "call", "note", "error")
        for text in (turn.role, turn.text, turn.tool, turn.result or "", turn.summary):
            assert isinstance(text, str)

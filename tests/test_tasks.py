"""Files of tasks: written from messages or by a model that must not reveal the change, and read back as cases."""

from __future__ import annotations

import contextlib
import json
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast.errors import BadInput
from abreast.fake import FakeProvider, Reply, Rule
from abreast.model import Case
from abreast.suites.coding_agents.history import cases
from abreast.suites.coding_agents.history.change import MOST_SHOWN, excerpt, files_between
from abreast.suites.coding_agents.history.commits import GitHistory
from abreast.suites.coding_agents.history.pull_request_cases import in_history
from abreast.suites.coding_agents.history.task_file import TaskEntry
from abreast.suites.coding_agents.history.task_prompt import TaskRequest, task_request
from conftest import Done, Folder
from repositories import Project, Shop
from test_durability import ended, until

MODEL = "claude-haiku-5-5"
TITLES = (
    *("Prices for everything", "Greet people by their name", "Add a basket"),
    *("Call the helper by its new name", "Remove the outdated readme", "Let people buy more"),
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("tasks") / "shop")


@pytest.fixture(scope="module")
def usual(shop: Shop) -> dict[str, Case]:
    """The cases without a task file, by the commit after each."""
    return {case.expected["commit"]: case for case in cases(str(shop.path), last=50)}


def new(folder: Folder, shop: Project, *words: str, code: int = 0) -> Done:
    done = folder.abreast("cases", "new", "coding-agents", "--repo", str(shop.path), *words)
    assert done.code == code, done.output
    return done


def lines(folder: Folder, name: str = "tasks.jsonl") -> list[dict[str, Any]]:
    path = folder.path / name
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.split("\n") if line and not line.startswith("//")]


def put(folder: Folder, *entries: dict[str, Any], name: str = "tasks.jsonl") -> Path:
    return folder.write(name, "".join(f"{json.dumps(entry)}\n" for entry in entries).encode())


def task_text(title: str) -> str:
    return f"{title}, in other words\n\nPeople want it, and the name `wanted_{len(title)}` too."


def rule(title: str, *replies: Reply | str) -> Rule:
    return Rule(rf"title begins\]\n{re.escape(title)}\n", list(replies) or [task_text(title)])


@contextlib.contextmanager
def provider(monkeypatch: pytest.MonkeyPatch, **replies: list[Reply | str]) -> Iterator[FakeProvider]:
    """A provider that answers with a task for every title, unless its first word has other replies."""
    rules = [rule(title, *replies.get(title.split()[0], [])) for title in TITLES]
    with FakeProvider.in_thread(rules=rules) as running:
        for name, value in {**running.environment, "ANTHROPIC_API_KEY": "k-1", "OPENAI_API_KEY": "k-2"}.items():
            monkeypatch.setenv(name, value)
        yield running


def requests_of(provider: FakeProvider) -> list[str]:
    """The prompts sent to the provider, each with its title, in order."""
    return [prompts.body["messages"][0]["content"] for prompts in provider.requests if prompts.method == "POST"]


def titles(prompts: list[str]) -> list[str]:
    return [re.search(r"title begins\]\n(.*)\n", prompt)[1] for prompt in prompts]  # type: ignore[index]


# In the words of messages


def test_a_file_of_messages_gives_the_same_cases_and_lists_omitted_commits(
    folder: Folder, shop: Shop, usual: dict[str, Case]
) -> None:
    done = new(folder, shop)
    assert done.out == "6 tasks: tasks.jsonl\n"
    assert "left out: " in done.err
    assert '"Release 1.1.0" only changes versions' in done.err
    assert [line["title"] for line in lines(folder)] == list(TITLES)
    assert [line["commit"] for line in lines(folder)] == list(shop.head_of.values())
    assert [line["base"] for line in lines(folder)] == list(shop.base.values())
    assert [line["style"] for line in lines(folder)] == ["merge", "squash", "rebase"] * 2
    assert {line["by"] for line in lines(folder)} == {"message"}
    assert list(cases(str(shop.path), tasks=str(folder.path / "tasks.jsonl"))) == list(usual.values())
    before = (folder.path / "tasks.jsonl").stat().st_mtime_ns
    assert "6 kept" in new(folder, shop).out
    assert (folder.path / "tasks.jsonl").stat().st_mtime_ns == before
    assert new(folder, shop, "--json").json == lines(folder)
    cloned = folder.abreast("cases", "new", "coding-agents", "--repo", f"file://{shop.path}", "--json", "--last", "6")
    assert (cloned.code, cloned.json) == (0, lines(folder))


def test_named_commits_and_ranges_round_trip(folder: Folder, shop: Shop) -> None:
    lone = shop.git("log", "--format=%H", "--grep=^Another lone commit", "main")
    commit_range = f"{shop.base['pr-12']}..{shop.head_of['rebase-1']}"
    entry = f"{shop.base['pr-17']}..{shop.head_of['pr-17']}"
    new(folder, shop, "--commits", f"{lone[:10]},{commit_range}", "--commits", entry)
    read = list(cases(str(shop.path), tasks=str(folder.path / "tasks.jsonl")))
    assert read == list(cases(str(shop.path), commits=[lone, commit_range, entry]))
    assert [case.tags["style"] for case in read] == ["commit", "rebase", "rebase"]
    in_a_row = list(cases(str(shop.path), tasks=str(folder.path / "tasks.jsonl"), cumulative=True))
    assert in_a_row == list(cases(str(shop.path), commits=[lone, commit_range, entry], cumulative=True))
    assert [case.id for case in cases(str(shop.path), tasks=str(folder.path / "tasks.jsonl"), last=2)] == [
        case.id for case in read[1:]
    ]


def test_edits_by_people_are_kept_and_foreign_files_are_not_touched(folder: Folder, shop: Shop) -> None:
    new(folder, shop, "--last", "2")
    first, second = lines(folder)
    edited = {**first, "id": "readme", "task": "Remove the file README, nobody reads it\u2028any more"}
    content = f"// mine\n{json.dumps(edited, ensure_ascii=False)}\r\n\n{json.dumps(second)}\n// and the end\n"
    path = folder.write("tasks.jsonl", content.encode())
    new(folder, shop, "--last", "3")
    text = path.read_text(encoding="utf-8")
    assert text.split("\n", 1)[0].startswith('{"id"')
    assert "// mine\n" + json.dumps(edited, ensure_ascii=False) in text
    assert text.endswith("// and the end\n")
    assert [case.id for case in cases(str(shop.path), tasks=str(path))][1] == "readme"
    done = new(folder, shop, "--last", "1", code=2)
    assert "tasks.jsonl:1: task of another pull request or model (and 1 more)" in done.err
    assert "--output FILE" in done.err
    assert path.read_text(encoding="utf-8") == text
    new(folder, shop, "--last", "1", "--yes")
    assert [line["title"] for line in lines(folder)] == ["Let people buy more"]
    notes = folder.write("notes.txt", "Buy milk.\n")
    for words in (["--output", "notes.txt"], ["--output", "notes.txt", "--yes"]):
        assert "notes.txt:1: not valid JSON" in new(folder, shop, *words, code=2).err
    assert notes.read_text() == "Buy milk.\n"
    (folder.path / "stuff").mkdir()
    assert "stuff: not a file" in new(folder, shop, "--output", "stuff", code=2).err


def test_flags_of_another_suite_are_refused(folder: Folder, shop: Shop) -> None:
    wrong = [
        (["new", "coding-agents", "--limit", "3"], "new coding-agents: --limit is for abreast cases new code-search"),
        (["new", "--model", "x"], "new code-search: --model is for abreast cases new coding-agents"),
        (["new", "code-search", "--last", "3"], "--last is for abreast cases new coding-agents"),
        (["new", "coding-agents", "--cases", "x"], "--cases is for abreast cases list"),
        (["list", "--branch", "x"], "abreast cases list: --branch is for abreast cases new coding-agents"),
        (["new", "coding-agent"], 'cannot make cases for "coding-agent" (did you mean "coding-agents"?)'),
        (["new", "coding-agents", "--last", "0"], "--last 0: must be a whole number"),
        (["new", "coding-agents", "--last", "3", "--commits", "x"], "--commits and --last cannot be combined"),
        (["new", "coding-agents", "--repo", str(shop.path), "--model", "x"], '--model "x": unknown provider'),
        (["new", "coding-agents", "--repo", str(shop.path), "--branch", "man"], 'did you mean "main"?'),
    ]
    for words, message in wrong:
        done = folder.abreast("cases", *words)
        assert (done.code, message in done.err) == (2, True), done.err
    assert not (folder.path / "tasks.jsonl").exists()


# In the words of a model


def test_a_model_sees_each_change_and_is_asked_once_per_change(
    folder: Folder, shop: Shop, usual: dict[str, Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    with provider(monkeypatch, Add=[Reply(status=429, retry_after=0), task_text("Add a basket")]) as asks:
        done = new(folder, shop, "--model", MODEL)
        prompts = requests_of(asks)
        assert sorted(titles(prompts)) == sorted([*TITLES, "Add a basket"])
        assert re.search(rf"{MODEL}: 7 requests, \$0\.\d+ \(SIMULATED", done.err), done.err
        assert "6 tasks: tasks.jsonl" in done.out
        assert [line["title"] for line in lines(folder)] == list(TITLES)
        assert [line["task"] for line in lines(folder)] == list(map(task_text, TITLES))
        assert {(line["by"], line["model"]) for line in lines(folder)} == {("model", MODEL)}
        greet = next(prompt for prompt in prompts if "\nGreet people" in prompt)
        shown_in_order = [
            "\nGreet people",
            "A greeting without a name",
            "+def test_greet()",
            "+def greet(name): return",
        ]
        assert [greet.index(part) for part in shown_in_order] == sorted(map(greet.index, shown_in_order))
        second = new(folder, shop, "--model", MODEL)
        assert "6 kept" in second.out
        monkeypatch.delenv("ANTHROPIC_API_KEY")  # no model is called, so no key is needed
        new(folder, shop, "--model", MODEL)
        assert len(requests_of(asks)) == len(prompts)
        assert "task of another pull request or model" in new(folder, shop, "--model", "gpt-5", code=2).err
        assert "task of another pull request or model" in new(folder, shop, code=2).err
    read = list(cases(str(shop.path), tasks=str(folder.path / "tasks.jsonl")))
    assert [(case.id, case.expected) for case in read] == [(case.id, case.expected) for case in usual.values()]


def test_an_answer_that_reveals_the_change_is_retried_and_then_rejected(
    folder: Folder, shop: Shop, usual: dict[str, Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    leak = "Greet people\n\nMake it `def greet(name): return f'Hello, {name}'`, please."
    fence = "Add a basket\n\n```python\nITEMS = []\n```"
    with provider(
        monkeypatch, Greet=[leak], Add=[fence, task_text("Add a basket")], Let=[Reply(kind="refusal")], Remove=["Yes."]
    ) as asks:
        done = new(folder, shop, "--model", MODEL)
        by_title = {line["title"]: line for line in lines(folder)}
        times = {title: titles(requests_of(asks)).count(title) for title in TITLES}
        retries = [prompt for prompt in requests_of(asks) if "You have answered before" in prompt]
        new(folder, shop, "--model", MODEL)
        assert len(requests_of(asks)) == sum(times.values())
    assert list(times.values()) == [1, 2, 2, 1, 2, 1]
    assert by_title["Add a basket"]["task"] == task_text("Add a basket")
    for title in ("Greet people by their name", "Let people buy more", "Remove the outdated readme"):
        assert (by_title[title]["by"], by_title[title]["model"]) == ("message", MODEL)
        assert by_title[title]["task"] == usual[by_title[title]["commit"]].input["task"]
    assert "warning: pr-12: using its message" in done.err
    assert "it contains a line of the change (def greet(name): return f'Hello, {name}')" in done.err
    assert "warning: pr-17: using its message" in done.err
    assert any("a code block or a diff (```python)" in prompt for prompt in retries)
    assert any(leak in prompt for prompt in retries)


def test_an_error_half_way_loses_nothing(folder: Folder, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Reply(status=400, say=None)
    with provider(monkeypatch, Add=[wrong]) as asks:
        done = new(folder, shop, "--model", MODEL, code=3)
        first = titles(requests_of(asks))
    written_titles = [line["title"] for line in lines(folder)]
    assert sorted([*written_titles, "Add a basket"]) == sorted(first)
    assert f"{len(written_titles)} of 6 tasks written to tasks.jsonl" in done.err
    assert "error: rejected: anthropic: 400" in done.err
    assert f"{MODEL}: {len(first)} requests" in done.err
    with provider(monkeypatch, **{title.split()[0]: [wrong] for title in TITLES}):
        new(folder, shop, "--model", "claude-opus-5", "--yes", code=3)
        new(folder, shop, "--model", MODEL, "--output", "other.jsonl", code=3)
    assert [line["title"] for line in lines(folder)] == written_titles  # the tasks to be replaced are not lost
    assert not (folder.path / "other.jsonl").exists()
    with provider(monkeypatch) as asks:
        new(folder, shop, "--model", MODEL)
        assert sorted(titles(requests_of(asks))) == sorted(set(TITLES) - set(written_titles))
    assert [line["title"] for line in lines(folder)] == list(TITLES)


def test_an_interrupt_keeps_the_written_tasks(folder: Folder, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["cases", "new", "coding-agents", "--repo", str(shop.path), "--model", MODEL]
    with provider(monkeypatch, Add=[Reply(kind="hang")]):
        process = folder.start(*words)
        until(lambda: len(lines(folder)) == 5, "all but one are written", process)
        process.send_signal(signal.SIGINT)
        done = ended(process)
    assert done.code == 130
    assert "interrupted: 5 of 6 tasks written to tasks.jsonl; run the same command to continue" in done.err
    with provider(monkeypatch) as asks:
        new(folder, shop, "--model", MODEL)
        assert titles(requests_of(asks)) == ["Add a basket"]
    assert [line["title"] for line in lines(folder)] == list(TITLES)


def test_a_missing_key_is_reported_before_any_request(
    folder: Folder, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    done = new(folder, shop, "--model", MODEL, code=2)
    assert "ANTHROPIC_API_KEY is not set\nhelp: export ANTHROPIC_API_KEY=..." in done.err


def test_a_model_writes_a_task_for_a_message_without_words(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path_factory.mktemp("mute") / "p")
    project.commit("Begin")
    for name in ("a", "b"):
        project.put(f"{name}.py", f"def name_of_{name}(): return 1\n")
        project.commit(f"Fix {name} (#3{name == 'b':d})")
    assert "has no task" in new(folder, project, code=2).err
    rules = [rule("Fix a", "There shall be a function `name_of_a`."), rule("Fix b", "No.")]
    with FakeProvider.in_thread(rules=rules) as asks:
        for name, value in {**asks.environment, "OPENAI_API_KEY": "k"}.items():
            monkeypatch.setenv(name, value)
        done = new(folder, project, "--model", "openai:some-model")
    assert [line["task"] for line in lines(folder)] == ["There shall be a function `name_of_a`."]
    assert '"Fix b" its message has no task, and openai:some-model wrote none: it has no task' in done.err
    assert "cost of 3 unknown" in done.err


DIFF = """\
diff --git a/shop.py b/shop.py
--- a/shop.py
+++ b/shop.py
@@ -1,4 +1,9 @@
-    total = sum(prices) + shipping(prices)
+total = sum(prices) + shipping(prices)
+def discount_of(total: float, rate: float) -> float:
+    return total * (1 - rate) if rate < 1 else 0.0
+    limit = 5
+    rest = 0.25
+    raise ValueError(
+        "a discount of more than everything is none",
+    )
 unchanged = everything_else(here, and_there)
"""


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("Add `discount_of(total, rate)`, which never is below 0.0.", ""),
        ('The error says "a discount of more than everything is none",\nas the tests want it.', ""),
        ("Keep total = sum(prices) + shipping(prices) as it is, at another place.", ""),  # it was there before
        ("Everything else: unchanged = everything_else(here, and_there) stays.", ""),
        ("People wrote: return self.known_from_the_message() somewhere.", ""),
        ("Then return total*(1-rate) if rate<1\n  else 0.0, of course.", "a line of the change"),
        ("Then re\u200bturn total*(1-rate)\u00a0if rate<1 else 0.0", "a line of the change"),
        ("Then `return total * (1 - rate)` `if rate < 1 else 0.0`.", "a line of the change"),
        ("Write `limit = 5` and then\n`rest = 0.25`: limit = 5\nrest = 0.25", ""),  # 17 signs are a chance
        ("It is def discount_of(total: float, rate: float) -> float:", "a line of the change"),
        ("Do it.\n\n~~~\nx = 1\n~~~", "a code block"),
        ("Do it.\n\n> ```\n> x = 1\n> ```", "a code block"),
        ("Do it.\n\ndiff --git a/x b/x", "a code block or a diff"),
        ("Do it.\n\n@@ -1 +1 @@\n-a\n+b", "a code block or a diff"),
        ("Do it.", "it has no task: only 6 characters"),
        ("", "it has no task"),
    ],
)
def test_leaks_of_a_change_are_detected(shop: Shop, words: str, wrong: str) -> None:
    chosen = in_history(GitHistory.open(shop.path), 1, "HEAD", [])[0][0]
    pull_request = replace(chosen, body="Now return self.known_from_the_message() at last.")
    message = TaskRequest(pull_request, "", DIFF + "+return self.known_from_the_message()\n")
    task, problem = message.read(words)
    assert (wrong in problem) if wrong else (problem == ""), problem
    assert bool(task) == (not wrong)


def test_answers_are_cleaned_like_messages(shop: Shop) -> None:
    chosen = next(entry for entry in in_history(GitHistory.open(shop.path), 9, "HEAD", [])[0] if entry.id == "pr-12")
    hostile = (
        "Greet people \x1b[31mwarmly\x1b[0m\x00 (#12)\r\n\r\nSince 0123abcd4567, see src/app.py:2.\n\n    code()\n"
    )
    assert TaskRequest(chosen, "", "").read(hostile) == ("Greet people [31mwarmly[0m\n\nSince, see.", "")


def test_a_large_change_is_cut_with_a_note(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.commit("Begin")
    project.put("tests/test_a.py", "def test_a(): pass\n")
    project.put("huge.txt", "x\n" * 4_000)
    project.put("long.txt", "long words " * 3_000)
    for number in range(8):
        project.put(f"middle-{number}.txt", f"line {number} of it\n" * 1_000)
    project.put("logo.bin", b"\0\1")
    project.commit("Add everything at once (#1)")
    history = GitHistory.open(project.path)
    chosen = in_history(history, 1, "HEAD", [])[0][0]
    request = task_request(history, chosen)
    assert "+def test_a(): pass" in request.tests
    assert "more characters of this file are left out here]" in request.change
    assert re.search(r"\[changed too, and left out here: huge\.txt \(4,000 lines\), .*middle-7\.txt", request.change)
    assert "Binary files /dev/null and b/logo.bin differ" in request.change
    assert len(request.prompt()) < MOST_SHOWN + 5_000
    files = files_between(history, chosen.base, chosen.head)
    few = [file for file in files if file.path == "tests/test_a.py"]
    assert "left out" not in excerpt(history, chosen.base, chosen.head, few)


# What is read


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=15).filter(
                lambda text: len(text.strip()) >= 15
            ),
            st.none() | st.from_regex(r"[a-zà-ü][\w-]{0,20}", fullmatch=True),
        ),
        min_size=1,
        max_size=2,
        unique_by=(lambda entry: entry[0], lambda entry: entry[2] or entry[0]),
    )
)
def test_written_tasks_are_read_back_as_the_same_cases(
    shop: Shop,
    usual: dict[str, Case],
    tmp_path_factory: pytest.TempPathFactory,
    written: list[tuple[int, str, str | None]],
) -> None:
    heads, bases = list(shop.head_of.values()), list(shop.base.values())
    entries = [TaskEntry(heads[number], task, id=name, base=bases[number]) for number, task, name in written]
    path = tmp_path_factory.mktemp("written") / "tasks.jsonl"
    path.write_text("".join(entry.text() for entry in entries), encoding="utf-8", newline="")
    expected = []
    for entry in entries:
        case = usual[entry.commit]
        expected.append(replace(case, id=entry.id or case.id, input={"commit": entry.base, "task": entry.task}))
    assert list(cases(str(shop.path), tasks=str(path))) == expected


def test_a_base_is_optional_and_follows_the_rules_of_commits(folder: Folder, shop: Shop) -> None:
    for name in ("pr-11", "pr-12"):
        path = put(folder, {"commit": shop.head_of[name][:12], "task": "Do what has to be done"})
        (case,) = cases(str(shop.path), tasks=str(path))
        assert (case.id, case.expected["base"]) == (name, shop.base[name])
    path = put(folder, {"commit": shop.head_of["rebase-1"], "task": "Do what has to be done"})
    (case,) = cases(str(shop.path), tasks=str(path))
    assert case.expected["base"] == shop.git("rev-parse", f"{shop.head_of['rebase-1']}~1")


def test_errors_in_a_file_are_reported_with_their_lines(folder: Folder, shop: Shop) -> None:
    monkey, good = shop.head_of["pr-11"], {"commit": shop.head_of["pr-12"], "task": "Greet people by name"}
    first = shop.git("rev-list", "--max-parents=0", "main")
    nothing = shop.git("rev-parse", "main")
    task = "Do what has to be done"
    flawed: list[tuple[Any, str]] = [
        ({"commit": monkey, "taks": task}, '"task" is missing'),
        ({"commit": monkey, "task": task, "bsae": "x"}, 'unknown key "bsae" (did you mean "base"?)'),
        ({"task": task}, '"commit" is missing'),
        ({"commit": monkey, "task": " short one    \n\n "}, "the task has 9 characters, 15 are needed"),
        ({"commit": monkey, "task": 7}, "task must be text, got 7"),
        ({"commit": "main", "task": task}, 'commit "main" is not a hash'),
        ({"commit": "0123abcd" * 5, "task": task}, "is not in "),
        ({"commit": monkey, "base": "0123abcd" * 5, "task": task}, "base 0123abcd"),
        ({"commit": monkey, "base": monkey, "task": task}, "is not an ancestor of commit"),
        ({"commit": monkey, "base": shop.head_of["pr-12"], "task": task}, "is not an ancestor of commit"),
        ({"commit": first, "task": task}, "is the first commit"),
        ({"commit": nothing, "task": task}, "changes nothing"),
        ({"commit": good["commit"], "task": task}, "also on line 2"),
        ({"commit": good["commit"][:9], "task": task}, "also at tasks.jsonl:2"),
        ({"commit": monkey, "id": "pr-12", "task": task}, 'duplicate id "pr-12"'),
        ({"commit": monkey, "id": "a\tb", "task": task}, "id must be a short plain text"),
        ({"commit": monkey, "style": "squashed", "task": task}, "style must be one of merge, squash"),
        ([1], "a task must be an object"),
        (b'{"commit": ', "not valid JSON"),
        (b'{"commit": "\xff"}', "not valid UTF-8"),
        (b'{"task": "a", "task": "b"}', 'duplicate key "task"'),
        ({"commit": monkey, "task": "half a character \ud800"}, "task contains half a character"),
    ]
    folder.abreast("cases", "--help")  # goes to the folder, so that paths are short
    for flaw, message in flawed:
        line = flaw if isinstance(flaw, bytes) else json.dumps(flaw).encode()
        folder.write("tasks.jsonl", b"// ours\n" + json.dumps(good).encode() + b"\n\n" + line + b"\n")
        with pytest.raises(BadInput) as caught:
            list(cases(str(shop.path), tasks="tasks.jsonl"))
        assert caught.value.message.startswith("tasks.jsonl:4: "), (flaw, caught.value.message)
        assert message in caught.value.message, (flaw, caught.value.message)
    folder.write("tasks.jsonl", "// nothing\n")
    for arguments, message in (
        ({"tasks": "tasks.jsonl"}, "tasks.jsonl: no tasks"),
        ({"tasks": "task.jsonl"}, 'task.jsonl: no such file (did you mean "tasks.jsonl"?)'),
        ({"tasks": "."}, "not a file"),
        ({"tasks": ["x"]}, "tasks must be text"),
        ({"tasks": "tasks.jsonl", "commits": ["main"]}, "commits and tasks cannot be combined"),
    ):
        with pytest.raises(BadInput) as caught:
            list(cases(str(shop.path), **arguments))
        assert message in caught.value.message, caught.value.message


# In an experiment


def test_agents_get_the_tasks_of_the_file_and_only_changed_tasks_run_again(folder: Folder, shop: Shop) -> None:
    chosen = f"{shop.head_of['pr-11']},{shop.base['rebase-1']}..{shop.head_of['rebase-1']}"
    new(folder, shop, "--commits", chosen, "--output", "my tasks.jsonl")
    words = ["run", "coding-agents", "--repo", str(shop.path), "--tasks", "my tasks.jsonl", "--yes"]
    agents = ["--agent", "writes=tee said.txt", "--agent", "lazy=true"]
    done = folder.abreast(*words, *agents)
    assert done.code == 0, done.output
    answers = "select case_id, answer, files_changed from predictions where variant = 'writes' and reused_from is null"
    entry, two = lines(folder, "my tasks.jsonl")
    assert {row["case_id"]: row["answer"] for row in folder.sql(answers)} == {
        entry["id"]: entry["task"] for entry in (entry, two)
    }
    assert {row["files_changed"] for row in folder.sql(answers)} == {1}
    put(folder, entry, {**two, "task": f"{two['task']}, please"})
    base = {"agents": ["writes", "lazy"], "repo_path": str(shop.path), "mode": "PR_Recreate"}
    own = {"writes": {"commandTemplate": "cat {prompt} > said.txt"}, "lazy": {"commandTemplate": "true"}}
    settings = {**base, "agent_config": own, "PR_Recreate": {"tasks": "tasks.jsonl", "generate_prompts": True}}
    folder.write("settings.json", json.dumps(settings))
    assert "{" not in folder.abreast("cases", "list", "settings.json").out, "words for people"
    listed = folder.abreast("cases", "list", "settings.json", "--json")
    assert [row["question"]["task"] for row in listed.json] == [entry["task"], f"{two['task']}, please"]
    folder.write("my tasks.jsonl", (folder.path / "tasks.jsonl").read_bytes())
    rerun = folder.abreast(*words, *agents)
    assert rerun.code == 0, rerun.output
    assert "4 trials · 2 already done" in rerun.output
    assert [row["answer"] for row in folder.sql(answers)].count(f"{two['task']}, please") == 1
    assert len(folder.sql(answers)) == 3

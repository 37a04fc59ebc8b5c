"""The scorer `change_similarity`: how similar the change of an agent is to that of a human."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast.languages import grammars
from abreast.model import Answer, Case, Score
from abreast.scorers import build
from conftest import Folder

Files = dict[str, str | bytes]
FULL = "-U1000000"
IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{role}_{field}": "nobody@example.org" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")},
}


class Repository:
    """A real repository in its initial state; changes to it are read by the real `git diff`."""

    def __init__(self, path: Path, start: Files) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "-q")
        self.put(start)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "start")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-c", "core.autocrlf=false", *words],
            cwd=self.path,
            capture_output=True,
            env={**os.environ, **IDENTITY},
            check=True,
        )
        return done.stdout.decode("utf-8", "replace")

    def put(self, files: Files) -> None:
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def diff(self, change: Files | Callable[[Path], Any], *words: str) -> str:
        """The diff of a change from the initial state: files by name, or a function that edits the folder."""
        if callable(change):
            change(self.path)
        else:
            self.put(change)
        self.git("add", "-A")
        result = self.git("diff", "--cached", "--find-renames", *words)
        self.git("reset", "-q", "--hard")
        return result


@pytest.fixture
def repository(tmp_path: Path) -> Callable[[Files], Repository]:
    return lambda start: Repository(tmp_path / "repository", start)


def scored(human: str, agent: str | None, **options: Any) -> tuple[Score, ...]:
    answer = Answer("done", artifacts={} if agent is None else {"diff": agent})
    return build("change_similarity", options).score(Case("c", "Do it.", expected={"diff": human}), answer)


def similarity(human: str, agent: str | None, **options: Any) -> float:
    value = scored(human, agent, **options)[0].value
    assert value is not None
    return value


LANGUAGES = {
    "shop.py": (
        "def total(items):\n    # add up\n    result = 0\n    for item in items:\n        result += item.price\n"
        "    return result\n\n\ndef names(items):\n    return [item.name for item in items]\n",
        ("result += item.price", "result += item.price * item.count"),
        ("for item in items:\n        result", "for item in list(items):\n        result"),
        ("    result = 0\n    for", "    result   =   0   # nothing yet\n\n    for"),
    ),
    "shop.js": (
        "function total(items) {\n  // add up\n  let result = 0;\n  for (const item of items) {\n"
        "    result += item.price;\n  }\n  return result;\n}\n",
        ("result += item.price", "result += item.price * item.count"),
        ("let result = 0", "let result = start()"),
        ("  let result = 0;\n", "  let result   = 0 // nothing yet\n\n"),
    ),
    "shop.ts": (
        "export function total(items: Item[]): number {\n  // add up\n  let result = 0;\n"
        "  for (const item of items) {\n    result += item.price;\n  }\n  return result;\n}\n",
        ("result += item.price", "result += item.price * item.count"),
        ("items: Item[]", "items: readonly Thing[]"),
        ("  let result = 0;\n", "  let result   = 0 // nothing yet\n\n"),
    ),
    "shop.go": (
        "package shop\n\nfunc total(items []Item) int {\n\t// add up\n\tresult := 0\n"
        "\tfor _, item := range items {\n\t\tresult += item.Price\n\t}\n\treturn result\n}\n",
        ("result += item.Price", "result += item.Price * item.Count"),
        ("result := 0", "result := begin()"),
        ("\tresult := 0\n", "\tresult  :=  0 // nothing yet\n\n"),
    ),
    "Shop.java": (
        "class Shop {\n  int total(List<Item> items) {\n    // add up\n    int result = 0;\n"
        "    for (Item item : items) {\n      result += item.price();\n    }\n    return result;\n  }\n}\n",
        ("result += item.price()", "result += item.price() * item.count()"),
        ("int result = 0", "int result = begin()"),
        ("    int result = 0;\n", "    int result\n      = 0; // nothing yet\n\n"),
    ),
    "shop.rs": (
        "fn total(items: &[Item]) -> u32 {\n    // add up\n    let mut result = 0;\n    for item in items {\n"
        "        result += item.price;\n    }\n    result\n}\n",
        ("result += item.price", "result += item.price * item.count"),
        ("let mut result = 0", "let mut result = begin()"),
        ("    let mut result = 0;\n", "    let mut result\n        = 0; // nothing yet\n\n"),
    ),
}


@pytest.mark.parametrize("name", LANGUAGES)
def test_in_six_languages_only_syntax_counts(repository: Callable[[Files], Repository], name: str) -> None:
    start, change, other, layout = LANGUAGES[name]
    repo = repository({name: start})
    human = repo.diff({name: start.replace(*change)}, FULL)
    unchanged = scored(human, repo.diff({name: start.replace(*change)}))[0]
    assert unchanged.value == 1
    assert "2 of 2 lines match; compared by syntax: 1" in unchanged.explanation
    assert similarity(human, None) == 0
    assert similarity(human, repo.diff({name: start.replace(*layout)})) == 0, "layout and comments do not count"
    assert similarity(human, repo.diff({name: start.replace(*change).replace(*layout)})) == pytest.approx(1, abs=0.2)
    assert similarity(human, repo.diff({name: start.replace(*other)})) < 0.1
    more = similarity(human, repo.diff({name: start.replace(*change).replace(*other)}))
    assert 0.3 < more < 0.95, "the right change and another one"
    nearly = similarity(human, repo.diff({name: start.replace(change[0], change[1].replace("ount", "osts"))}))
    assert 0.2 < nearly < 0.9
    assert similarity(human, repo.diff({f"copy_of_{name}": start.replace(*change)})) == 0


def test_the_same_edit_in_another_function_is_another_change(repository: Callable[[Files], Repository]) -> None:
    body = "    value = read(source)\n    value = value + 1\n    check(value)\n    print(value)\n    return value\n"
    start = f"def one(source):\n{body}\n\ndef two(source):\n{body}"
    guard = "    if not source:\n        return None\n"
    repo = repository({"a.py": start})
    right, wrong = (start.replace(f"{name}(source):\n", f"{name}(source):\n{guard}") for name in ("one", "two"))
    human = repo.diff({"a.py": right}, FULL)
    assert similarity(human, repo.diff({"a.py": wrong})) < 0.9
    assert similarity(human, repo.diff({"a.py": right})) == 1


def test_quotes_and_trailing_commas_are_layout(repository: Callable[[Files], Repository]) -> None:
    repo = repository({"a.py": "call('a', 1)\n"})
    human = repo.diff({"a.py": "call('b', 1)\n"}, FULL)
    assert similarity(human, repo.diff({"a.py": 'call(\n    "b",\n    1,\n)\n'})) == 1


def test_line_endings_and_indentation_are_layout(repository: Callable[[Files], Repository]) -> None:
    start = 'def f(x):\n    """One.\n\n    Two.\n    """\n    if x:\n        return 1\n    return 2\n'
    changed = start.replace("if x:", "if x is None:")
    repo = repository({"a.py": start})
    human = repo.diff({"a.py": changed}, FULL)
    for old, new in (("\n", "\r\n"), ("    ", "  ")):
        assert similarity(human, repo.diff({"a.py": start.replace(old, new)})) == 0
        assert similarity(human, repo.diff({"a.py": changed.replace(old, new)})) == 1


def test_other_files_are_compared_by_lines_ignoring_white_space(
    repository: Callable[[Files], Repository],
) -> None:
    repo = repository({"notes.md": "one\ntwo\nthree\nfour\n"})
    human = repo.diff({"notes.md": "one\n2\nthree\n4\n"}, FULL)
    half = scored(human, repo.diff({"notes.md": "one\n   2\nthree\nfour\n"}))[0]
    assert half.value == 0.5
    assert "2 of 4 lines match; missing: 2 lines in notes.md; compared by lines: 1" in half.explanation
    assert similarity(human, repo.diff({"notes.md": " one\n two\n  three\n  four\n"})) == 0, "only reformatted"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# one\nx = 1\n", "# two\nx = 1\n"),
        ("x = 1\n", "x = 1"),
        ("x = 1\n", "\n\nx = 1\n"),
        ("if x:\n  y()\n", "if x:\n    y()\n"),
        ("a()\nb()\n", "b()\na()\n"),
        ("x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
    ],
)
@pytest.mark.parametrize("name", ["a.py", "a.txt"])
def test_comments_and_layout_count_if_the_human_changed_nothing_else(
    repository: Callable[[Files], Repository], name: str, before: str, after: str
) -> None:
    repo = repository({name: before})
    human = repo.diff({name: after}, FULL)
    assert similarity(human, repo.diff({name: after})) == 1
    assert similarity(human, None) == 0
    assert similarity(human, repo.diff({name: before + "z = 9\n"})) < 0.7


def test_missing_files_score_0_and_extra_files_cost_little(
    repository: Callable[[Files], Repository],
) -> None:
    repo = repository({"a.py": "a = 1\n", "b.py": "b = 1\n", "c.py": "c = 1\n"})
    right: Files = {"a.py": "a = 2\n", "b.py": "b = 2\n"}
    human = repo.diff(right, FULL)
    part, files = scored(human, repo.diff({"a.py": "a = 2\n"}))
    assert (part.value, files.value) == (0.5, pytest.approx(2 / 3))
    assert "1 of 2 files changed; 2 of 4 lines match; missing: 2 lines in b.py" in part.explanation
    scratch = {f"scratch{n}.py": "".join(f"n{n} = {n}\n" for n in range(n)) for n in (1, 96, 5_000)}
    values = [similarity(human, repo.diff({**right, name: text})) for name, text in scratch.items()]
    assert 1 > values[0] > values[1] > values[2] > 0.8
    explanation = scored(human, repo.diff({**right, "new.md": "one\ntwo\n"}))[0].explanation
    assert "4 of 4 lines match; extra: 2 lines in new.md" in explanation
    edited = scored(human, repo.diff({**right, "c.py": "c = 2\n"}))[0]
    assert 0.5 < (edited.value or 0) < 0.8, "a line that people kept was replaced"
    assert "removed but kept by people: 1 line in c.py" in edited.explanation
    no_diff = scored(human, None)
    assert [score.value for score in no_diff] == [0, 0]
    assert "0 of 2 files changed; 0 of 4 lines match; missing: 4 lines in a.py, b.py" in no_diff[0].explanation


@pytest.mark.parametrize("name", ["a.py", "a.txt"])
@pytest.mark.parametrize("kept_lines", [0, 1, 3, 30])
def test_deleting_what_the_human_kept_scores_0(
    repository: Callable[[Files], Repository], name: str, kept_lines: int
) -> None:
    """Even if the human kept few lines."""
    rest = "".join(f"kept_{n} = {n}\n" for n in range(kept_lines))
    old = "".join(f"old_{n} = read({n})\n" for n in range(10))
    repo = repository({name: old + rest, "other.md": "one\ntwo\nthree\n"})
    for after in (old.replace("read", "load") + rest, rest + "end = 1\n", old[20:] + "end = 1\n" + rest):
        human = repo.diff({name: after, "other.md": "one\n2\nthree\n"}, FULL)
        emptied = repo.diff({name: "", "other.md": ""})
        removed = repo.diff(lambda path: [(path / item).unlink() for item in (name, "other.md")])
        assert similarity(human, emptied) == 0
        assert similarity(human, removed) == 0
        assert "removed but kept by people" in scored(human, emptied)[0].explanation
        assert similarity(human, repo.diff({name: after, "other.md": ""})) < 1
    removal = repo.diff(lambda path: (path / name).unlink(), FULL)
    assert similarity(removal, removal) == 1, "people kept nothing"


def test_different_names_cost_little(repository: Callable[[Files], Repository]) -> None:
    start = "import shop\n\n\ndef run(items):\n    return shop.total(items)\n"
    added = "\n\ndef {0}(items):\n    {1} = shop.total(items)\n    return shop.tax({1}) + {1}\n"
    repo = repository({"a.py": start})
    human = repo.diff({"a.py": start + added.format("gross", "net")}, FULL)
    renamed = similarity(human, repo.diff({"a.py": start + added.format("with_tax", "before_tax")}))
    half = similarity(human, repo.diff({"a.py": start + "\n\ndef gross(items):\n    net = shop.total(items)\n"}))
    other = similarity(human, repo.diff({"a.py": start + "\n\ndef stop(items):\n    print(len(items))\n"}))
    assert 1 > renamed > 0.6 > half > other


def test_generated_files_count_by_name(repository: Callable[[Files], Repository]) -> None:
    pins = "".join(f"package-{n} = 1\n" for n in range(200))
    stub = "// Code generated by stubs. DO NOT EDIT.\n"
    repo = repository({"a.py": "a = first(1)\n", "uv.lock": pins, "api.go": f"{stub}package api\n"})
    code: Files = {"a.py": "a = second(2)\n"}
    generated: Files = {"uv.lock": pins.replace("= 1", "= 2"), "api.go": f"{stub}package api\n\nvar One = 1\n"}
    human = repo.diff({**code, **generated}, FULL)
    other: Files = {"uv.lock": pins.replace("= 1", "= 3"), "api.go": f"{stub}package api\n\nvar Two = 2\n"}
    assert similarity(human, repo.diff({**code, **other})) == 1
    assert 0.3 < similarity(human, repo.diff(code)) < 0.7
    assert similarity(human, repo.diff({"uv.lock": "", "api.go": "", "a.py": ""})) == 0
    assert similarity(repo.diff(code, FULL), repo.diff({**code, **other})) > 0.7


LONG = "".join(f"def f{n}(x):\n    return x + {n}\n\n\n" for n in range(20))


def test_renames_are_followed(repository: Callable[[Files], Repository]) -> None:
    edited = LONG.replace("x + 7", "x * 7")

    def renamed(content: str, name: str = "new.py") -> Callable[[Path], Any]:
        return lambda path: ((path / "old.py").unlink(), (path / name).write_text(content))

    repo = repository({"old.py": LONG, "other.py": "pass\n"})
    human = repo.diff(renamed(edited), FULL)
    assert "rename from old.py" in human
    assert similarity(human, repo.diff(renamed(edited))) == 1
    assert similarity(human, repo.diff(renamed(edited), "--no-renames")) == 1, "removed here and written there"
    unseen = repo.diff(renamed(edited), "--no-renames", FULL)
    assert similarity(unseen, repo.diff(renamed(edited))) == 1
    under_the_old = scored(human, repo.diff({"old.py": edited}))
    assert 0.7 < (under_the_old[0].value or 0) < 1, "edited, but not renamed"
    assert under_the_old[1].value == 1, "it is the same file"
    assert 0 < similarity(human, repo.diff(renamed(LONG))) < 0.5, "renamed, but not edited"
    assert 0.7 < similarity(human, repo.diff(renamed(edited, "elsewhere.py"))) < 1
    assert similarity(human, repo.diff({"new.py": edited})) < 0.5, "a copy is not a rename"
    mere = repo.diff(renamed(LONG), FULL)
    assert similarity(mere, repo.diff(renamed(LONG))) == 1
    assert similarity(mere, repo.diff(renamed(LONG), "--no-renames")) == 1
    assert similarity(mere, repo.diff({"old.py": edited})) == 0


def test_new_removed_binary_and_executable_files_count(repository: Callable[[Files], Repository]) -> None:
    repo = repository({"gone.py": LONG, "picture.png": b"\0\1\2", "run.sh": "echo\n", "kept.txt": "kept\n"})

    def change(path: Path) -> None:
        (path / "gone.py").unlink()
        (path / "picture.png").write_bytes(b"\0\3\4")
        (path / "run.sh").chmod(0o755)
        (path / "new.py").write_text("x = 1\n")
        (path / "empty.py").write_text("")

    human = repo.diff(change, FULL)
    assert "Binary files" in human
    assert "new mode 100755" in human
    for words in ((), ("--binary", "--full-index"), ("--no-renames",)):
        result = scored(human, repo.diff(change, *words))
        assert [score.value for score in result] == [1, 1]
        assert "5 of 5 files changed" in result[0].explanation
        assert "compared by syntax: 2, by lines: 1, by name: 2" in result[0].explanation
    assert similarity(human, None) == 0
    only = repo.diff(lambda path: (path / "picture.png").write_bytes(b"\0\5"), FULL)
    assert similarity(only, repo.diff({"picture.png": b"\0\6\7"})) == 1, "by name only"


def test_copies_links_and_swapped_files_are_followed(repository: Callable[[Files], Repository]) -> None:
    repo = repository({"a.py": LONG, "b.md": "one\ntwo\n" * 20})

    def swap(path: Path) -> None:
        (path / "a.py").rename(path / "c")
        (path / "b.md").rename(path / "a.py")
        (path / "c").rename(path / "b.md")

    def link(path: Path) -> None:
        (path / "a.py").unlink()
        (path / "a.py").symlink_to("elsewhere")

    def copy(path: Path) -> None:
        shutil.copy(path / "a.py", path / "copy.py")

    def edited_copy(path: Path) -> None:
        (path / "copy.py").write_text(LONG.replace("x + 7", "x * 7"))

    for change in (swap, link, copy, edited_copy):
        for words in (("--no-renames",), (), ("-C", "--find-copies-harder"), ("--binary",)):
            human = repo.diff(change, FULL, *words)
            assert [score.value for score in scored(human, repo.diff(change))] == [1, 1], (change, words)
            assert similarity(human, None) == 0


@pytest.mark.parametrize("name", ["ä ö.py", 'quo"te.txt', "tab\there.py", "back\\slash.py", "a/b b/a/b.py", "b b.txt"])
def test_unusual_file_names_are_read(repository: Callable[[Files], Repository], name: str) -> None:
    repo = repository({name: "x = 1\n", "c.txt": "c\n"})
    for words in ((), ("--no-prefix",), ("--src-prefix=i/", "--dst-prefix=w/")):
        human = repo.diff({name: "x = 2\n"}, FULL, *words)
        assert [score.value for score in scored(human, repo.diff({name: "x = 2\n"}))] == [1, 1]
        missing = scored(human, None)[0].explanation
        assert missing.endswith(f"missing: 2 lines in {name}".replace("\t", " "))
    mode = repo.diff(lambda path: (path / name).chmod(0o755), FULL)
    assert [score.value for score in scored(mode, mode)] == [1, 1]


def test_lines_that_look_like_headers_are_lines(repository: Callable[[Files], Repository]) -> None:
    start = "-- one\n++ two\ndiff --git a/x b/x\n@@ -1 +1 @@\n\n\f\x0bend"
    repo = repository({"a.sql": start})
    human = repo.diff({"a.sql": start.replace("-- one\n", "").replace("end", "end\n++ b/y\n")}, FULL)
    assert "2 of 2 lines match; compared by lines: 1" in scored(human, human)[0].explanation
    assert 0 < similarity(human, repo.diff({"a.sql": start.replace("-- one\n", "")})) < 0.6


def test_files_that_are_ignored_do_not_count(repository: Callable[[Files], Repository]) -> None:
    repo = repository({"a.py": "a = 1\n", "uv.lock": "1\n", "docs/x/a.md": "old\n"})
    human = repo.diff({"a.py": "a = 2\n", "uv.lock": "2\n"}, FULL)
    agent = repo.diff({"a.py": "a = 2\n", "docs/x/a.md": "new\n"})
    assert similarity(human, agent) < 0.5
    assert [score.value for score in scored(human, agent, ignore=["*.lock", "docs/"])] == [1, 1]


def test_an_added_line_does_not_match_a_removed_one(repository: Callable[[Files], Repository]) -> None:
    repo = repository({"a.py": "alpha = first(1)\nbeta = second(2)\n"})
    human = repo.diff({"a.py": "alpha = first(1)\nbeta = second(2)\ngamma = third(3)\n"}, FULL)
    assert similarity(human, repo.diff({"a.py": "alpha = first(1)\n"})) < 0.05


def test_doing_too_little_and_doing_too_much_both_cost(repository: Callable[[Files], Repository]) -> None:
    repo = repository({"a.py": LONG})
    one_edit, two_edits = LONG.replace("x + 7", "x * 7"), LONG.replace("x + 7", "x * 7").replace("x + 9", "x - 9")
    too_much = similarity(repo.diff({"a.py": one_edit}, FULL), repo.diff({"a.py": two_edits}))
    too_little = similarity(repo.diff({"a.py": two_edits}, FULL), repo.diff({"a.py": one_edit}))
    assert 0.4 < too_little < 0.6
    assert 0.4 < too_much < 0.7, "it replaced a line that people kept"


def test_a_diff_that_does_not_fit_or_is_cut_counts_by_its_lines(repository: Callable[[Files], Repository]) -> None:
    repo = repository({"a.py": LONG})
    changed = LONG.replace("x + 7", "x * 7").replace("x + 17", "x * 17")
    human = repo.diff({"a.py": changed}, FULL)
    agent = repo.diff({"a.py": changed})
    elsewhere = scored(human, agent.replace(" def f7(x)", " def f99(x)"))[0]
    assert elsewhere.value == 1
    assert "compared by lines: 1" in elsewhere.explanation
    lines = agent.splitlines(keepends=True)
    values = [similarity(human, "".join(lines[:count])) for count in range(len(lines) + 1)]
    assert values[0] == 0
    assert values[-1] == 1
    assert all(0 <= value <= 1 for value in values)
    assert 0.3 < values[len(lines) // 2] < 0.7, "half of it was there"


def test_an_answer_without_its_diff_has_no_score() -> None:
    case = Case("c", "?", expected={"diff": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"})
    (score, _) = build("change_similarity").score(case, Answer("", data={"files_changed": 1}))
    assert (score.value, score.explanation) == (None, "files were changed, but there is no diff")


def test_without_tree_sitter_files_are_compared_by_lines_with_a_note(
    repository: Callable[[Files], Repository], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository({"a.py": "a = 1\n"})
    human = repo.diff({"a.py": "a = 2\n"}, FULL)
    grammars._load_grammar.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "tree_sitter", None)
    try:
        score = scored(human, human)[0]
    finally:
        grammars._load_grammar.cache_clear()
    assert score.value == 1
    assert "by lines: 1; syntax not read in 1" in score.explanation
    assert 'pip install "abreast[code]"' in score.explanation


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("text", "must be a mapping with a diff"),
        ({}, ".diff is missing"),
        ({"diff": 3}, ".diff must be a string, got 3"),
        ({"diff": "  "}, ".diff is empty"),
        ({"diff": "what?"}, ".diff is not a diff"),
        ({"diff": "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -5 +5 @@\n-a\n+b\n"}, "does not show all lines of 'x'"),
        ({"diff": "diff --cc x\n--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n--a\n++b\n"}, "with several parents"),
        ({"diff": "--- a/y.lock\n+++ b/y.lock\n@@ -1 +1 @@\n-a\n+b\n"}, "only ignored files"),
    ],
)
def test_an_unreadable_expected_value_is_reported_with_a_fix(expected: Any, message: str) -> None:
    scorer: Any = build("change_similarity", {"ignore": ["*.lock"]})
    problem, how = scorer.flaw(expected)
    assert message in problem
    assert "git diff -U1000000" in how or "remove patterns" in how
    assert [score.value for score in scorer.score(Case("c", "?", expected=expected), Answer(""))] == [None, None]


def test_a_diff_without_all_lines_is_refused_before_the_run(folder: Folder) -> None:
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -5 +5 @@\n-a\n+b\n"
    spec = {
        "cases": [{"id": "one", "input": "?", "expected": {"diff": diff}}],
        "variants": {"a": {"target": "simulated"}},
        "scorers": ["change_similarity"],
    }
    folder.write("spec.yaml", json.dumps(spec))
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 2
    assert "expected.diff does not show all lines of 'x'" in done.output
    assert "git diff -U1000000" in done.output
    assert not (folder.path / "results.db").exists()


def test_settings_are_checked() -> None:
    assert build("change_similarity", {"name": "likeness"}).columns == ("likeness", "likeness_files")
    assert build("change_similarity", {}).columns == ("change_similarity", "change_files")
    with pytest.raises(Exception, match="ignore must be patterns of files"):
        build("change_similarity", {"ignore": "*.lock"})
    with pytest.raises(Exception, match='unknown setting "ignores"'):
        build("change_similarity", {"ignores": []})


def test_a_diff_of_two_megabytes_takes_seconds() -> None:
    lines = [f"def f{n}(x, y={n}):\n" if n % 2 else f"    return g{n}(x) + [y, {n}]\n" for n in range(1, 60_000)]
    body = "".join(f"-{line}+{line.replace('x', 'z')}" if n % 40 == 0 else f" {line}" for n, line in enumerate(lines))
    human = f"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,{len(lines)} +1,{len(lines)} @@\n{body}"
    assert len(human) > 1_800_000
    start_time = time.process_time()
    assert 0 < similarity(human, human.replace("z", "w")) < 1
    assert time.process_time() - start_time < 15


def test_deeply_nested_code_is_read() -> None:
    def new(name: str, text: str) -> str:
        return (
            f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{text}\n"
        )

    for name in LANGUAGES:
        for text in ("(" * 8_000, "[" * 3_000 + "]" * 3_000, "function a(){" * 1_000):
            assert similarity(new(name, text), new(name, text)) == 1
            assert 0 <= similarity(new(name, text), new(name, f"{text} x")) <= 1


words = st.sampled_from(["x = 1", "y = x", "", "  ", "# note", "def f():", "    return 1", "}", "\r", "-- a", "ä", '"'])
texts = st.lists(words, max_size=8).map(lambda lines: "\n".join(lines))
trees = st.dictionaries(st.sampled_from(["a.py", "b.go", "c.md", "d/e.rs", "ä b.ts"]), texts, max_size=4)


def exactly(path: Path, files: dict[str, str]) -> None:
    for item in path.iterdir():
        if item.name != ".git":
            shutil.rmtree(item) if item.is_dir() else item.unlink()
    for name, text in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(text.encode())


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=trees, human=trees, agent=trees)
def test_for_any_trees_no_change_scores_0_the_same_change_1_and_others_in_between(
    tmp_path: Path, start: dict[str, str], human: dict[str, str], agent: dict[str, str]
) -> None:
    if start == human:
        return
    shutil.rmtree(tmp_path / "tree", ignore_errors=True)
    repository = Repository(tmp_path / "tree", dict(start))
    expected = repository.diff(lambda path: exactly(path, human), FULL)
    assert similarity(expected, None) == 0
    assert [score.value for score in scored(expected, repository.diff(lambda path: exactly(path, human)))] == [1, 1]
    assert [score.value for score in scored(expected, expected)] == [1, 1]
    result = scored(expected, repository.diff(lambda path: exactly(path, agent)))
    assert all(score.value is not None and 0 <= score.value <= 1 for score in result)
    assert "\n" not in result[0].explanation


statements = st.sampled_from(
    ["x = 1", "y = x", "x = y + 1", "call(x)", "call(x, y)", "z = call(x)", "import x", "one two", "two"]
)


def flat_diff(name: str, start: list[str], after: list[str]) -> str:
    """A diff with all lines, written without git."""
    body = "".join([f"-{line}\n" for line in start] + [f"+{line}\n" for line in after])
    return f"--- a/{name}\n+++ b/{name}\n@@ -{bool(start):d},{len(start)} +{bool(after):d},{len(after)} @@\n{body}"


@settings(max_examples=300, deadline=None)
@given(data=st.data(), name=st.sampled_from(["a.txt", "a.py"]))
def test_adding_a_right_line_never_lowers_the_score_and_removing_a_kept_one_never_raises_it(
    data: st.DataObject, name: str
) -> None:
    start, human, agent = (data.draw(st.lists(statements, max_size=8)) for _ in range(3))
    if sorted(start) == sorted(human):
        return
    expected = flat_diff(name, start, human)
    value = similarity(expected, flat_diff(name, start, agent))
    missing, kept_lines = Counter(human) - Counter(agent), Counter(start) & Counter(human) & Counter(agent)
    for line in missing:
        at = data.draw(st.integers(0, len(agent)))
        assert similarity(expected, flat_diff(name, start, [*agent[:at], line, *agent[at:]])) >= value - 1e-12
    for line in kept_lines:
        if Counter(agent)[line] <= Counter(human)[line]:
            rest = agent.copy()
            rest.remove(line)
            assert similarity(expected, flat_diff(name, start, rest)) <= value + 1e-12
    assert similarity(expected, flat_diff(name, start, [])) == 0 or not Counter(start) & Counter(human)


hostile = st.lists(
    st.one_of(
        st.text(max_size=10),
        st.sampled_from(
            [
                "diff --git a/a.py b/a.py",
                'diff --git "a/\\377" b/',
                "--- a/a.py",
                "+++ b/a.py",
                "+++ /dev/null",
                "@@ -1,2 +1,2 @@",
                "@@ -0,0 +1,9 @@",
                "@@ -999999999,9 +1 @@",
                "@@ -1 +1 @@",
                "-x = 1",
                "+x = 2",
                " y",
                "\\ No newline at end of file",
                "rename from a.py",
                "rename to b.py",
                "copy from a.py",
                "copy to c.py",
                "new file mode 100644",
                "deleted file mode 100644",
                "Binary files a/a.py and b/a.py differ",
                "GIT binary patch",
            ]
        ),
    ),
    max_size=14,
).map("\n".join)


@settings(max_examples=150, deadline=None)
@given(human=hostile, agent=hostile)
def test_no_text_crashes_the_scorer(human: str, agent: str) -> None:
    fair = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-x = 1\n+x = 2\n y\n"
    for expected in (human, fair):
        for score in scored(expected, agent):
            assert score.value is None or 0 <= score.value <= 1
    assert scored(fair, agent)[0].value is not None


AGENT = """\
import pathlib, sys
how = sys.argv[1]
sys.stdin.read()
shop, notes = pathlib.Path("shop.py"), pathlib.Path("notes.md")
if how != "idle":
    shop.write_text(shop.read_text().replace("price", "price * item.count"))
if how == "right":
    notes.write_text(notes.read_text() + "Counts matter.\\n")
print("done")
"""


def test_agents_are_compared_with_the_human_change_from_the_command_line(folder: Folder) -> None:
    start: Files = {"shop.py": LANGUAGES["shop.py"][0], "notes.md": "Notes\n"}
    repository = Repository(folder.path / "repository", start)
    changed = str(start["shop.py"]).replace("price", "price * item.count")
    human = repository.diff({"shop.py": changed, "notes.md": "Notes\nCounts matter.\n"}, FULL)
    for name, content in start.items():
        (folder.path / "start").mkdir(exist_ok=True)
        (folder.path / "start" / name).write_text(str(content))
    folder.write("agent.py", AGENT)
    spec = {
        "cases": [{"id": "one", "input": "Heed the count.", "expected": {"diff": human}}],
        "target": "command",
        "params": {"workspace": {"copy": "start"}},
        "variants": {how: {"command": ["python3", "{folder}/agent.py", how]} for how in ("idle", "half", "right")},
        "scorers": ["change_similarity"],
    }
    folder.write("spec.yaml", json.dumps(spec))
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 0, done.err
    rows = folder.sql("select variant, score_change_similarity s, score_change_files f from predictions")
    result = {row["variant"]: (row["s"], row["f"]) for row in rows}
    assert (result["idle"], result["right"]) == ((0, 0), (1, 1))
    assert result["half"] == (pytest.approx(0.71, abs=0.05), pytest.approx(2 / 3))
    (why,) = folder.sql(
        "select explanation e from scores where name = 'change_similarity' and value between 0.1 and 0.9"
    )
    assert "1 of 2 files changed; 2 of 3 lines match; missing: 1 line in notes.md" in why["e"]


def test_stored_answers_can_be_scored_by_change_similarity_later(folder: Folder) -> None:
    """A scorer that is added later sees the same data as one that was present during the run."""
    diff = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"
    folder.write("start/a.txt", "one\n")
    folder.write("agent.py", "import pathlib\npathlib.Path('a.txt').write_text('two\\n')\nprint('done')\n")
    spec = {
        "cases": [{"id": "c", "input": "go", "expected": {"diff": diff}}],
        "target": "command",
        "variants": {"a": {"command": ["python3", "{folder}/agent.py"], "workspace": {"copy": "start"}}},
        "scorers": [{"contains": {"value": "done"}}],
    }
    folder.write("spec.yaml", json.dumps(spec))
    assert folder.abreast("run", "spec.yaml").code == 0
    folder.write("spec.yaml", json.dumps({**spec, "scorers": ["change_similarity"]}))
    assert folder.abreast("rescore", "--spec", "spec.yaml").code == 0
    assert folder.sql("select value from scores where name = 'change_similarity'") == [{"value": 1.0}]
    rerun = folder.abreast("run", "spec.yaml", "--json").json[0]
    assert rerun["executed"] == 0
    latest = "select value from scores where name = 'change_similarity' and run_id = (select max(run_id) from runs)"
    assert folder.sql(latest) == [{"value": 1.0}]

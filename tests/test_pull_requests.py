"""Pull requests of a repository as cases: how they are recognised, described and pinned to commits."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from abreast.errors import BadInput
from abreast.model import Answer, Case
from abreast.scorers import build
from abreast.scorers.change_similarity.unified import parse_diff
from abreast.suites.coding_agents.history import cases, left_out, pull_requests
from abreast.suites.coding_agents.report.changes import counted
from conftest import Folder
from repositories import Project, Shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("history") / "shop")


@pytest.fixture(scope="module")
def shop_cases(shop: Shop) -> dict[str, Case]:
    """The cases of the shop by the names of `Shop.head_of`."""
    by_head = {case.expected["commit"]: case for case in cases(str(shop.path), last=50)}
    return {name: by_head[head] for name, head in shop.head_of.items()}


def rebuilt(diff: str) -> dict[str, tuple[str, str]]:
    """The content before and after of files that a diff shows completely, by new name or, if deleted, by old name."""
    files: dict[str, tuple[str, str]] = {}
    for part in re.split(r"^diff --git .*\n", diff, flags=re.M)[1:]:
        head, _, hunk = part.partition("\n@@ ")
        names = re.findall(r"^(?:---|\+\+\+) (?:[ab]/)?(.*?)\t?$", head + "\n", re.M)
        if len(names) < 2 or not hunk:
            continue
        sides = ["", ""]
        last = ""
        for line in hunk.split("\n")[1:-1]:
            if line.startswith("\\"):
                sides = [
                    text[:-1] if mark else text for text, mark in zip(sides, (last != "+", last != "-"), strict=True)
                ]
                continue
            last = line[0]
            sides = [sides[0] + (line[1:] + "\n") * (last != "+"), sides[1] + (line[1:] + "\n") * (last != "-")]
        files[names[0] if names[1] == "/dev/null" else names[1]] = (sides[0], sides[1])
    return files


# Which ones there are


def test_six_pull_requests_of_three_styles_are_found_oldest_first(shop: Shop) -> None:
    entry = pull_requests(shop.path, last=50)
    assert [(item.style, item.number) for item in entry] == [
        ("merge", 11),
        ("squash", 12),
        ("rebase", None),
        ("merge", None),
        ("squash", 17),
        ("rebase", None),
    ]
    assert [item.base for item in entry] == list(shop.base.values())
    assert [item.head for item in entry] == list(shop.head_of.values())
    assert [item.merged_at for item in entry] == sorted(item.merged_at for item in entry)
    assert entry[1].files == ("größe/naïve name.txt", "src/app.py", "tests/test_app.py")
    assert entry[3].files == ("logo.bin", "src/new_helper.py")
    assert entry[0].merged_at == datetime.fromtimestamp(int(shop.git("log", "-1", "--format=%ct", entry[0].head)), UTC)


def test_the_last_ones_are_the_newest(shop: Shop) -> None:
    assert [item.head for item in pull_requests(shop.path, last=2)] == list(shop.head_of.values())[-2:]
    at = pull_requests(shop.path, last=1, branch=shop.head_of["pr-12"])
    assert [item.number for item in at] == [12]


def test_omitted_commits_are_listed_with_their_reason(shop: Shop) -> None:
    reasons = {item.title: item.reason for item in left_out(str(shop.path), last=50)}
    assert reasons == {
        "Begin": "is the first commit",
        "A lone commit": "is a single commit without a mark; add it to commits to include it",
        "Release 1.1.0": "only changes versions",
        "Shout at everyone": "was reverted later",
        'Revert "Shout at everyone (#15)"': "reverts an earlier change",
        "Merge branches 'one' and 'two'": "merges several branches at once",
        "Work of others": "merges a main branch into this one",
        "Another lone commit": "is a single commit without a mark; add it to commits to include it",
        "Nothing of it is taken": "changes nothing",
    }


def test_a_feature_branch_does_not_show_main_as_a_pull_request(shop: Shop) -> None:
    assert pull_requests(shop.path, last=50, branch="prices") == []
    assert "merges a main branch into this one" in [
        item.reason for item in left_out(str(shop.path), last=50, branch="prices")
    ]


def test_a_revert_that_was_reverted_takes_nothing_back(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.commit("Begin")
    project.put("a", "1")
    first = project.commit("Add the first letter (#1)")
    project.git("revert", "--no-edit", "HEAD")
    second = project.head()
    project.now += 60
    project.git("revert", "--no-edit", "HEAD")
    assert [item.head for item in pull_requests(project.path, last=5)] == [first]
    assert second in [item.commit for item in left_out(str(project.path), last=5)]


def test_a_release_with_code_in_it_and_words_like_version_stay(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.put("VERSION", "1.0.0\n")
    project.commit("Begin")
    project.put("VERSION", "1.1.0\n")
    project.put("app.py", "def parse():\n    pass\n")
    project.commit("Release 1.1.0 with a parser (#1)")
    project.put("app.py", "def parse():\n    return 1\n")
    project.commit("Version the parser (#2)")
    assert [item.number for item in pull_requests(project.path, last=5)] == [1, 2]


def _merged(project: Project, source: str, message: str) -> str:
    project.main()
    return project.merge(message, source)


def test_forward_merges_of_release_branches_are_not_pull_requests(tmp_path: Path) -> None:
    """Recognised by branch name, by merge message, or because the branch was merged before and continued."""
    project = Project(tmp_path / "p")
    project.commit("Begin")
    for branch in ("stable", "2.2.x", "integration", "epic"):
        project.git("branch", branch)
    for number, branch in enumerate(("stable", "2.2.x", "integration", "integration")):
        project.git("checkout", "--quiet", branch)
        project.put(f"{branch}-{number}.py", f"fixed = {number}\n")
        project.commit(f"Fix the counting of things, part {number}")
        _merged(project, branch, f"Merge branch '{branch}'")
    project.git("checkout", "--quiet", "stable")
    project.put("stable.py", "fixed = 9\n")
    project.commit("Fix the naming of things")
    _merged(project, "stable", "Merge `stable` into `main` (#30)")
    project.git("checkout", "--quiet", "epic")
    for number in (31, 32):
        project.put(f"epic-{number}.py", "part = True\n")
        project.commit(f"One part of the epic (#{number})")
    _merged(project, "epic", "Merge pull request #33 from us/epic\n\nThe whole epic")
    project.branch("feature-2")
    project.put("feature.py", "works = True\n")
    project.commit("Add the second feature (#412)")
    feature = _merged(project, "feature-2", "Merge branch 'feature-2'")
    assert [item.head for item in pull_requests(project.path, last=50)] == [feature]
    reasons = [item.reason for item in left_out(str(project.path), last=50)]
    assert reasons.count("merges a release branch, or another long-lived one") == 5
    assert reasons.count("brings in other pull requests") == 1


MAINTENANCE: list[tuple[str, str, dict[str, str]]] = [
    (
        "Bump actions/setup-python from 5 to 6 (#1)",
        "ann",
        {".github/workflows/ci.yml": "uses: actions/setup-python@v6\n"},
    ),
    ("Make the tests quicker (#2)", "ann", {".circleci/config.yml": "jobs: 4\n", "poetry.lock": "x\n"}),
    ("chore(deps): update the linter (#3)", "ann", {"pyproject.toml": "[tool.ruff]\nselect = ['ALL']\n"}),
    (
        "Require a later parser (#4)",
        "ann",
        {"requirements/dev.txt": "parser==2.1\n# by hand\n", "CHANGES.md": "New.\n"},
    ),
    ("Format the code (#5)", "66853113+pre-commit-ci[bot]@users.noreply.github.com", {"app.py": "x = 1\n"}),
    ("Start the next version (#6)", "ann", {"src/shop/__init__.py": '__version__ = "2.1.0.dev"\n'}),
]
WORK: list[tuple[str, str, dict[str, str]]] = [
    ("Bump the parser to 3.0 (#11)", "ann", {"pyproject.toml": "parser = '3.0'\n", "app.py": "import parser3\n"}),
    ("Update the greeting (#12)", "ann", {"app.py": "hello = 1\n"}),
    ("Lower the limit (#13)", "ann", {"app.py": "limit = 0.5\n"}),
    ("Add a command line (#14)", "ann", {"pyproject.toml": "[project.scripts]\nshop = 'shop:main'\n"}),
    (
        "Greet people by their name (#15)",
        "198982749+copilot-swe-agent[bot]@users.noreply.github.com",
        {"app.py": "name = 1\n"},
    ),
]


@pytest.mark.parametrize(("title", "author", "files"), MAINTENANCE + WORK)
def test_maintenance_is_distinguished_from_work_by_author_message_and_files(
    tmp_path: Path, title: str, author: str, files: dict[str, str]
) -> None:
    project = Project(tmp_path / "p")
    project.commit("Begin")
    for name, content in files.items():
        project.put(name, content)
    project.git("add", "-A")
    project.git("commit", "--quiet", "-m", title, f"--author=Somebody <{author}>")
    is_work = (title, author, files) in WORK
    assert len(pull_requests(project.path, last=5)) == is_work
    (reason,) = [item.reason for item in left_out(str(project.path), last=5) if item.title != "Begin"] or [""]
    assert bool(reason) is not is_work


def test_merges_of_gitlab_bitbucket_and_pulled_branches_are_recognised(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.commit("Begin")
    messages = (
        "Merge branch 'fix' into 'main'\n\nMend the counting of things\n\nIt was off.\n\nSee merge request us/shop!7",
        "Merged in fix (pull request #8)\n\nMend the naming of things",
        "Merge branch 'fix2' of https://example.org/bob/shop",
    )
    for number, message in enumerate(messages):
        project.branch(f"fix{number}")
        project.put(f"{number}", "x")
        project.commit("wip")
        project.main()
        project.merge(message, f"fix{number}")
    entry, other, pulled = pull_requests(project.path, last=5)
    assert (entry.number, entry.title, entry.body) == (7, "Mend the counting of things", "It was off.")
    assert (other.number, other.title, other.body) == (8, "Mend the naming of things", "")
    assert (pulled.number, pulled.title, pulled.style) == (None, "wip", "merge")


def test_commits_named_explicitly_are_used_unchanged(shop: Shop) -> None:
    lone = shop.git("log", "--format=%H", "--grep=^A lone commit", "main")
    revert = shop.git("log", "--format=%H", "--grep=^Revert", "main")
    commit_range = f"{shop.base['pr-12']}..{shop.head_of['rebase-1']}"
    entry, two, three = pull_requests(shop.path, last=1, commits=[revert, lone[:10], commit_range])
    assert (entry.number, entry.head, entry.style) == (16, revert, "squash")
    assert (two.head, two.base, two.style) == (lone, shop.git("rev-parse", f"{lone}~1"), "commit")
    assert (three.base, three.head, three.style) == (shop.base["pr-12"], shop.head_of["rebase-1"], "rebase")
    assert "src/basket.py" in three.files
    assert "src/app.py" in three.files


# What a case says


def test_a_case_is_pinned_to_the_commits_before_and_after_it(shop: Shop, shop_cases: dict[str, Case]) -> None:
    for name, case in shop_cases.items():
        assert case.id == (name if name.startswith("pr-") else shop.head_of[name][:12])
        assert case.input["commit"] == case.expected["base"] == shop.base[name]
        assert case.expected["commit"] == shop.head_of[name]
        assert case.group is None
    assert [case.tags["style"] for case in shop_cases.values()] == ["merge", "squash", "rebase"] * 2
    assert {case.tags["size"] for case in shop_cases.values()} == {"small"}
    assert list(cases(str(shop.path), last=50)) == list(shop_cases.values())


def test_a_task_contains_the_message_but_nothing_of_the_change(shop_cases: dict[str, Case]) -> None:
    assert shop_cases["pr-12"].input["task"] == (
        "Greet people by their name\n\n"
        "A greeting without a name is cold, see and the discussion.\n"
        "It goes back to, and `greet` needs a name.\n\n"
        "- keep the comma\n    also on the second line of an item\n\n"
        "See."
    )
    assert shop_cases["pr-11"].input["task"] == "Prices for everything\n\nEach thing has one."
    assert (
        shop_cases["rebase-1"].input["task"] == "Add a basket\n\nPeople buy several things.\n\nLimit the basket to five"
    )
    assert shop_cases["merge-2"].input["task"] == "Call the helper by its new name"
    assert shop_cases["rebase-2"].input["task"] == "Let people buy more\n\nCount to eight"


@pytest.mark.parametrize(
    ("body", "task"),
    [
        ("Broken since deadbeef1 and 1000000 others", "Broken since and 1000000 others"),
        ("It crashes at lib/a-b.rs:10:4 and in x.go#L3-L9", "It crashes at and in"),
        ('File "shop/app.py", line 3, in greet', ", in greet"),
        ("Listen on example.com:8080 and 127.0.0.1:80", "Listen on example.com:8080 and 127.0.0.1:80"),
        ("Was https://gitlab.com/us/shop/-/merge_requests/7 once", "Was once"),
        ("See https://example.org/guide for why", "See https://example.org/guide for why"),
        ("~~~\nunclosed = 1\n\nmore = 2", ""),
        ("So:\n\tx = 1\nthen", "So:\nthen"),
        ("<!-- a template\nof the host -->Words", "Words"),
        ("(cherry picked from commit 0123)\nReviewed-by: Ann <a@b>", ""),
        ("- one\n- two: three", "- one\n- two: three"),
        ("Before\n@@ -1,3 +1,3 @@\n-old\n\n+new\n context\nAfter", "Before\n\nAfter"),
        ("> ```\n> x = 1\n> ```\nIt is ```y = 2``` there", "It is there"),
        ("Shown:\n<pre>x = 1\n\ny = 2</pre>\nthere", "Shown:\n\nthere"),
        ("Tested: it works\nTested-by: Ann", "Tested: it works"),
        ("See us/shop#3, #3 and #34", "See, and #34"),
    ],
)
def test_text_that_would_reveal_the_change_is_not_in_the_task(tmp_path: Path, body: str, task: str) -> None:
    project = Project(tmp_path / "p")
    project.commit("Begin")
    project.put("a", "x")
    project.commit(f"Mend what is broken (#3)\n\n{body}")
    (case,) = cases(str(project.path))
    assert case.input["task"] == f"Mend what is broken\n\n{task}".strip()


def test_a_message_without_words_makes_no_case_and_the_reason_is_listed(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.commit("Begin")
    project.put("a", "x")
    head = project.commit("Fix (#3)\n\n```\nthe whole change\n```")
    (_, entry) = left_out(str(project.path))
    assert (entry.commit, entry.title) == (head, "Fix")
    assert "3 characters are left, 15 are needed" in entry.reason
    with pytest.raises(BadInput, match=r"no pull requests found.*has no task"):
        list(cases(str(project.path)))


def test_files_before_and_after_are_rebuilt_from_the_diff(shop: Shop, shop_cases: dict[str, Case]) -> None:
    paths = set()
    for case in shop_cases.values():
        for path, (before, after) in rebuilt(case.expected["diff"]).items():
            old = "src/old_helper.py" if path == "src/new_helper.py" else path
            for commit, name, text in (("base", old, before), ("commit", path, after)):
                assert text == shop.file_text(case.expected[commit], name), (path, commit)
            paths.add(path)
    assert paths >= {"src/app.py", "src/new_helper.py", "größe/naïve name.txt", "README", "src/prices.py"}
    assert "rename from src/old_helper.py" in shop_cases["merge-2"].expected["diff"]
    assert "Binary files a/logo.bin and b/logo.bin differ" in shop_cases["merge-2"].expected["diff"]


def test_contents_of_any_kind_are_rebuilt(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    chance = random.Random(7)
    lines = [
        "x\n",
        "\n",
        "-- a\n",
        "++ b\n",
        "@@ -1 +1 @@\n",
        "diff --git a/x b/x\n",
        "crlf\r\n",
        "\f\v\x85\u2028y\n",
        "\r",
        "ü",
    ]
    for message in ("Begin", "Write everything anew (#1)"):
        for number in range(40):
            project.put(f"dir {number % 3}/{number}", "".join(chance.choices(lines, k=chance.randrange(1, 9))))
        project.commit(message)
    (case,) = cases(str(project.path))
    files = rebuilt(case.expected["diff"])
    assert len(files) >= 35
    for path, (before, after) in files.items():
        assert before == project.file_text(case.expected["base"], path), path
        assert after == project.file_text(case.expected["commit"], path), path


def test_the_diff_does_not_depend_on_the_checkout_or_the_settings(shop: Shop, shop_cases: dict[str, Case]) -> None:
    attributes = shop.path / ".gitattributes"
    settings = {"diff.noprefix": "true", "diff.renames": "false", "diff.context": "1", "log.showSignature": "true"}
    try:
        attributes.write_text("*.py -diff\n")
        for name, value in settings.items():
            shop.git("config", name, value)
        assert list(cases(str(shop.path), last=50)) == list(shop_cases.values())
    finally:
        attributes.unlink()
        for name in settings:
            shop.git("config", "--unset", name)


def test_large_files_are_listed_by_name_and_size_only(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.commit("Begin")
    project.put("large.txt", "words of a text\n" * 40_000)
    project.put("small.txt", "x\n")
    project.commit("Add a large text and a small one (#3)")
    (case,) = cases(str(project.path))
    assert list(rebuilt(case.expected["diff"])) == ["small.txt"]
    assert "Files a/large.txt and b/large.txt differ, left out for their size: 640,000 bytes" in case.expected["diff"]
    assert case.tags["size"] == "large"


def test_a_large_file_changed_by_the_authors_does_not_count_as_changed_only_by_the_agent(tmp_path: Path) -> None:
    """For example a lock file: an agent that changes exactly what people changed gets the highest similarity."""
    project = Project(tmp_path / "p")
    lines = [f"package {n} as it is locked\n" for n in range(20_000)]
    for name in ("changed.lock", "gone.lock", "before.lock"):
        project.put(name, f"{name}\n" + "".join(lines))
    project.put("image.bin", b"\0" * 600_000)
    base = project.commit("Begin")
    project.put("changed.lock", "another\n" + "".join(lines[:15_000]))
    project.put("new.lock", "new\n" + "".join(lines * 2))
    project.put("image.bin", b"\0\1" * 300_000)
    project.git("rm", "--quiet", "gone.lock")
    project.git("mv", "before.lock", "after.lock")
    project.put("small.txt", "x\n")
    head = project.commit("Lock other packages (#3)")
    (case,) = cases(str(project.path))
    counts = counted(parse_diff(case.expected["diff"]))
    file_counts = (counts.files_added, counts.files_modified, counts.files_deleted, counts.files_renamed)
    assert file_counts == (2, 2, 1, 1)
    assert (counts.lines_added, counts.lines_deleted) == (1 + 40_001 + 1, 1 + 5_000 + 20_001)
    assert (counts.lines_modified, counts.files_binary) == (None, 1)
    scorer = build("change_similarity")

    def scored(*words: str) -> list[float | None]:
        diff = project.git("diff", *words)
        return [score.value for score in scorer.score(case, Answer("", artifacts={"diff": diff}))]

    assert scored(base, head) == [1.0, 1.0]
    like, files = scored(base, head, "--", ".", ":!changed.lock")
    assert like is not None
    assert files is not None
    assert 0 < like < 1 > files > 0, "a large file counts as one line"


def test_tests_are_recognised_by_their_names_or_by_globs(shop: Shop, shop_cases: dict[str, Case]) -> None:
    assert {name: case.expected["tests"] for name, case in shop_cases.items() if case.expected["tests"]} == {
        "pr-12": ["tests/test_app.py"],
        "pr-17": ["src/app.spec.ts"],
    }
    by_glob = {case.id: case.expected["tests"] for case in cases(str(shop.path), last=50, tests=["größe/**", "app.*"])}
    assert by_glob["pr-12"] == ["größe/naïve name.txt", "src/app.py"]


def test_two_pull_requests_with_the_same_number_are_two_cases(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.commit("Begin")
    heads = []
    for name in "ab":
        project.put(name, "x")
        heads.append(project.commit(f"Add the letter {name} (#3)"))
    assert [case.id for case in cases(str(project.path))] == [f"pr-3-{head[:12]}" for head in heads]


# What cannot be read


def test_a_folder_without_a_usable_history_is_refused_with_a_fix(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    Project(tmp_path / "empty")
    shallow = tmp_path / "shallow"
    shop.git("clone", "--quiet", "--depth=3", f"file://{shop.path}", str(shallow))
    linear = Project(tmp_path / "linear")
    linear.commit("Begin")
    linear.commit("Go on")
    refused: list[tuple[Path, dict[str, Any], str, str]] = [
        (tmp_path / "none", {}, "no such folder", "folder of a git repository"),
        (tmp_path / "plain", {}, "not a git repository", "the folder that contains .git"),
        (tmp_path / "empty", {}, "no commits yet", "merged pull requests"),
        (shop.path / "src", {}, "folder inside the repository", f"use {shop.path}"),
        (shallow, {}, "shallow clone", "fetch --unshallow"),
        (linear.path, {}, "no pull requests found: 2 excluded", "--commits HASH,FROM..TO"),
        (shop.path, {"branch": "pricse"}, 'no branch "pricse" (did you mean "prices"?)', "branch --all"),
        (shop.path, {"branch": "--all"}, 'no branch "--all"', "branch --all"),
        (shop.path, {"commits": ["0123abc"]}, 'no commit "0123abc"', "git log"),
        (shop.path, {"commits": ["main..main"]}, "empty range", "FROM..TO"),
        (shop.path, {"commits": ["main.."]}, "is not a range", "FROM..TO"),
        (shop.path, {"commits": ["main", shop.head()]}, "changes nothing", "remove it"),
        (shop.path, {"commits": ["prices", "prices"]}, "is listed twice", "once"),
        (shop.path, {"commits": [1234567]}, "commits must be a list of strings, got [1234567]", '["1a2b3c4"'),
        (shop.path, {"commits": "main"}, "commits must be a list of strings", '["1a2b3c4"'),
        (shop.path, {"last": 0}, "last must be a whole number from 1, got 0", "last: 10"),
        (shop.path, {"last": True}, "last must be a whole number from 1, got True", "last: 10"),
        (shop.path, {"tests": "x"}, "tests must be a list of strings", "tests/**"),
    ]
    for repo, arguments, message, fix in refused:
        with pytest.raises(BadInput) as caught:
            list(cases(str(repo), **arguments))
        assert message in caught.value.message, caught.value.message
        assert fix in caught.value.fix, (caught.value.message, caught.value.fix)


def test_missing_git_objects_are_refused(tmp_path: Path) -> None:
    project = Project(tmp_path / "p")
    project.commit("Begin")
    project.put("a", "x")
    middle = project.commit("Add the first letter (#1)")
    project.put("b", "x")
    project.commit("Add the second letter (#2)")
    (project.path / ".git" / "objects" / middle[:2] / middle[2:]).unlink()
    with pytest.raises(BadInput, match=r"/p: git log: Could not read") as caught:
        list(cases(str(project.path)))
    assert "fsck" in caught.value.fix


# In an experiment


def test_agents_start_at_the_parent_and_cannot_see_the_human_change(shop: Shop, folder: Folder) -> None:
    shop.git("clone", "--quiet", str(shop.path), str(folder.path))
    folder.write(
        "agent.py",
        """
        import json, pathlib, subprocess, sys

        def git(*words):
            return subprocess.run(["git", *words], capture_output=True, text=True)

        heads = pathlib.Path(sys.argv[1]).read_text().split()
        log = git("log", "--all", "--format=%H").stdout.split()
        print(json.dumps({
            "start": git("rev-parse", "HEAD").stdout.strip(),
            "log": log,
            "shown": [head for head in heads if git("show", head).returncode == 0],
            "task": sys.stdin.read(),
        }))
        """,
    )
    folder.write("heads.txt", "\n".join(shop.head_of.values()))
    folder.write(
        "spec.yaml",
        """
        cases: {from: "python:abreast.suites.coding_agents.history:cases", repo: ., last: 10}
        target: command
        params: {workspace: {git: ., commit: "{{ commit }}"}, prompt: "{{ task }}"}
        variants:
          mine: {command: [python3, "{folder}/agent.py", "{folder}/heads.txt"]}
        scorers: [contains]
        """,
    )
    done = folder.abreast("run", "spec.yaml", "--yes")
    assert done.code == 0, done.output
    rows = folder.sql("select case_id, answer, status from predictions")
    expected = {case.id: case for case in cases(str(shop.path))}
    assert {row["case_id"] for row in rows} == set(expected)
    for row in rows:
        assert row["status"] == "ok", row
        answer, case = json.loads(row["answer"]), expected[row["case_id"]]
        assert answer["start"] == answer["log"][0] == case.expected["base"]
        assert answer["task"].strip() == case.input["task"]
        assert answer["shown"] == list(shop.head_of.values())[: list(expected).index(case.id)]  # what came before, only
        assert case.expected["commit"] not in answer["log"]
        assert set(answer["log"]) == set(shop.git("rev-list", case.expected["base"]).split())


@pytest.mark.parametrize("committer", ["committer nobody\n", "committer x <x> 99999999999999999999999 +9999\n", ""])
def test_commits_with_an_invalid_date_are_tasks_like_any_other(folder: Folder, committer: str) -> None:
    project = Project(folder.path / "project")
    project.put("a.txt", "one\n")
    before = project.commit("begin")
    project.put("a.txt", "two\n")
    project.git("add", "-A")
    tree = project.git("write-tree")
    text = f"tree {tree}\nparent {before}\nauthor a <a@b> 1 +0\n{committer}\nGreet people all day (#1)\n"
    folder.write("commit", text)
    odd = project.git("hash-object", "-t", "commit", "-w", "--literally", str(folder.path / "commit"))
    project.git("reset", "--quiet", "--hard", odd)
    project.put("a.txt", "three\n")
    project.commit("Greet people all night (#2)")
    words = ("--repo", "project", "--agent", "a=cp a.txt b.txt")
    for further in (("--pull-requests", "2"), ("--commits", "HEAD", "--cumulative")):
        done = folder.abreast("run", "coding-agents", *words, *further)
        assert done.code == 0, done.err
    rows = folder.sql("select status, files_changed, state_after is not null as kept from predictions order by kept")
    assert rows == [{"status": "ok", "files_changed": 1, "kept": kept} for kept in (0, 0, 1)]


def test_a_missing_repository_is_refused_in_one_sentence(folder: Folder) -> None:
    folder.write(
        "spec.yaml",
        """
        cases: {from: "python:abreast.suites.coding_agents.history:cases", repo: elsewhere}
        target: simulated
        variants: {a: {}}
        """,
    )
    done = folder.abreast("check", "spec.yaml")
    assert done.code == 2
    assert "elsewhere: no such folder" in done.output

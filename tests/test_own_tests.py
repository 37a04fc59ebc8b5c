"""Tests that belong to cases: the own tests of a pull request judge an agent's work, even if it changed them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from abreast.targets.checks.test_commands import infer_command, is_test_config, runnable_tests
from abreast.targets.workspace.files.copies import overlay_tests
from conftest import Done, Folder

QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
PEOPLE = {f"GIT_{role}_{key}": "ann@example.org" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}


class Repository:
    """A repository whose commits are made from files in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "--quiet", "-b", "main")

    def git(self, *words: str) -> str:
        environment = {**os.environ, **QUIET, **PEOPLE}
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message: str, files: dict[str, str]) -> str:
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", message)
        return self.git("rev-parse", "HEAD")


def counted(folder: Folder) -> int:
    """Number of times that tests were run."""
    path = folder.path / "counted.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def scored(folder: Folder) -> dict[tuple[str, str], tuple[Any, str]]:
    """Scores of tests with their reasons, by case and variant, of the last run."""
    rows = folder.sql(
        "select c.id, v.name, s.value, s.explanation from scores s join trials t using (run_id, position) "
        "join variants v on v.run_id = t.run_id and v.variant = t.variant join cases c on c.digest = t.case_digest "
        "where s.name = 'tests' and s.run_id = (select max(run_id) from runs)"
    )
    return {(row["id"], row["name"]): (row["value"], row["explanation"]) for row in rows}


def values(folder: Folder) -> dict[tuple[str, str], Any]:
    return {key: value for key, (value, _) in scored(folder).items()}


# Pull requests through the suite: two whose tests are in the same file, and agents of known skill


TESTS = 'echo run >> "$COUNTED"\n. ./greeting.sh\ntest "$(greet Ann)" = "hello Ann" || { echo "no name"; exit 1; }\n'
MORE = 'test "$(farewell Ann)" = "bye Ann" || { echo "no farewell"; exit 1; }\n'
AGENT = """\
import os, pathlib, shutil, subprocess, sys
how, task = sys.argv[1], sys.stdin.read()
tests = pathlib.Path("tests/test_greeting.sh")
print("tests:", tests.read_text() if tests.exists() else "none")
print("history:", subprocess.run(["git", "log", "--all", "--format=%s"], capture_output=True, text=True).stdout)
if how == "good":
    more = "farewell() { printf '%s %s' bye $1; }\\n" if "farewell" in task else ""
    pathlib.Path("greeting.sh").write_text("greet() { printf '%s %s' hello $1; }\\n" + more)
if how == "cheat":
    tests.parent.mkdir(exist_ok=True)
    tests.write_text("exit 0\\n")
"""


@pytest.fixture
def shop(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    repository = Repository(folder.path / "shop")
    repository.commit("Begin", {"greeting.sh": "greet() { echo hello; }\n", "README": "A shop.\n"})
    human = 'greet() {\n  echo "hello $1"\n}\n'
    repository.commit("Greet people by their name (#1)", {"greeting.sh": human, "tests/test_greeting.sh": TESTS})
    human += 'farewell() {\n  echo "bye $1"\n}\n'
    both = {"greeting.sh": human, "tests/test_greeting.sh": TESTS + MORE}
    repository.commit("Say farewell to people (#2)", both)
    folder.write("agent.py", AGENT)
    monkeypatch.setenv("COUNTED", str(folder.path / "counted.txt"))
    return folder


def test_own_tests_of_pull_requests_recognise_the_agent_that_did_the_work(shop: Folder) -> None:
    words = [f"--agent={how}={sys.executable} {{folder}}/agent.py {how}" for how in ("good", "lazy", "cheat")]
    words += ["--repo", "shop", "--pull-requests", "2", "--check", "sh {tests}"]
    done = shop.abreast("run", "coding-agents", *words)
    assert done.code == 0, done.output
    right = {"good": 1.0, "lazy": 0.0, "cheat": 0.0}
    assert values(shop) == {(case, how): value for case in ("pr-1", "pr-2") for how, value in right.items()}
    assert scored(shop)["pr-2", "lazy"][1] == "exit code 1: tests/test_greeting.sh: 4: farewell: not found"
    assert counted(shop) == 2 * (3 + 1 + 2), "before, and twice in what people did, once for all who ask"

    answers = {row["case_id"]: row["answer"] for row in shop.sql("select case_id, answer from predictions")}
    assert "no name" not in answers["pr-1"], "an agent sees nothing from later commits"
    assert "farewell" not in answers["pr-2"].lower(), "nor in its history"
    assert "no name" in answers["pr-2"]
    rows = shop.sql("select checks, files_changed n from predictions where variant = 'good' and case_id = 'pr-2'")
    results = json.loads(rows[0]["checks"])["tests"]
    assert (results["before"], results["human"], results["passed"]) == ("failed", "passed", True)
    assert rows[0]["n"] == 1, "the change is the agent's alone"

    shop.write("counted.txt", "")
    assert shop.abreast("run", "coding-agents", *words, "--repeats", "2", "--variant", "good").code == 0
    assert counted(shop) == 2 * 1, "what tests say without an agent is known from the first run"
    assert values(shop) == {("pr-1", "good"): 1.0, ("pr-2", "good"): 1.0}


def test_check_can_try_whether_tests_are_informative_before_any_cost(shop: Folder) -> None:
    worked = shop.path / "worked.txt"
    words = ["--agent", f"agent=touch {worked}", "--repo", "shop", "--pull-requests", "2"]
    done = shop.abreast("check", "coding-agents", *words, "--check", "sh {tests}", "--try-tests")
    assert done.code == 0, done.output
    assert "2 of 2 cases have tests that fail without any change, and pass with the reference solution" in done.err
    assert counted(shop) == 2 * (1 + 2)
    done = shop.abreast("check", "coding-agents", *words, "--check", "sh {tests}")
    assert "2 of 2 cases have tests that fail without any change" in done.err, "as is known from the first time"
    done = shop.abreast("check", "coding-agents", *words, "--check", "sh -e {tests}", "--no-with-tests")
    assert "run `abreast check` with the same arguments and --try-tests to run them at no cost" in done.err
    assert counted(shop) == 2 * (1 + 2), "only a scorer that needs it waits for it"
    for command, why in (("true", "succeeds without any change"), ("false", "also fails with the human change")):
        done = shop.abreast("check", "coding-agents", *words, "--check", command, "--try-tests")
        assert done.code == 4, done.output
        assert f"error: tests: no useful test in the 2 cases tried; pr-1: {why}" in done.err
    assert not worked.exists()


def test_uninformative_tests_are_reported_before_and_after_a_first_run(shop: Folder) -> None:
    words = ["--agent", "one=true", "--agent", "two=true", "--repo", "shop", "--pull-requests", "2", "--check", "false"]
    done = shop.abreast("run", "coding-agents", *words)
    assert done.code == 4, "before anybody is paid"
    assert "tests: no useful test in the 2 cases tried; pr-1: also fails with the human change: exit code 1" in done.err
    assert "or run without them: --force" in done.err
    assert not (shop.path / "results.db").exists()
    done = shop.abreast("run", "coding-agents", *words, "--force", "--format", "all", "--no-pictures")
    assert done.code == 1, done.output
    assert (
        "error: no answer could be scored: fails on the reference change too, so it measures nothing: exit code 1"
        in done.err
    )
    assert "help: run `abreast show " in done.err
    assert "once fixed, run again with --fresh" in done.err
    assert "Pull request by pull request\n  no run has a score\n" in done.out
    assert "/report.html" in done.out, "of all formats the page is named"
    second = shop.abreast("run", "coding-agents", *words, "--fresh")
    assert "not tried yet" not in second.err, "the user has already seen the result"


PYTESTS = """\
from greeting import greet

def test_a_name_is_greeted():
    assert greet("Ann") == "hello Ann"
"""
PY_AGENT = """\
import pathlib, sys
if sys.argv[1] == "good":
    pathlib.Path("greeting.py").write_text("greet = 'hello {}'.format\\n")
else:
    pathlib.Path("tests").mkdir()
    pathlib.Path("tests/test_greeting.py").write_text("def test_nothing():\\n    pass\\n")
    pathlib.Path("tests/conftest.py").write_text("import os\\nos._exit(0)\\n")
    pathlib.Path("conftest.py").write_text("import os\\nos._exit(0)\\n")
    pathlib.Path("pytest.ini").write_text("[pytest]\\naddopts = --collect-only\\n")
    pathlib.Path("pyproject.toml").write_text("[tool.pytest.ini_options]\\naddopts = '--collect-only'\\n")
"""


def test_a_settings_file_needs_no_command_for_known_kinds_of_tests(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it help to change what passing means."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    repository = Repository(folder.path / "shop")
    repository.commit("Begin", {"greeting.py": 'def greet():\n    return "hello"\n', "README": "A shop.\n"})
    human = 'def greet(name):\n    return f"hello {name}"\n'
    repository.commit("Greet people by their name (#1)", {"greeting.py": human, "tests/test_greeting.py": PYTESTS})
    folder.write("agent.py", PY_AGENT)
    agents = {how: {"commandTemplate": f'python3 "$ABREAST_FOLDER/agent.py" {how}'} for how in ("good", "cheat")}
    settings = {"mode": "PR_Recreate", "num_prs": 1, "repo_path": "shop", "agents": list(agents)}
    folder.write("settings.json", json.dumps({**settings, "agent_config": agents}))
    done = folder.abreast("run", "settings.json")
    assert done.code == 0, done.output
    assert values(folder) == {("pr-1", "good"): 1.0, ("pr-1", "cheat"): 0.0}
    assert "1 passed" in scored(folder)["pr-1", "good"][1]
    assert "1 failed" in scored(folder)["pr-1", "cheat"][1]
    assert folder.abreast("rescore").code == 0, "by the scorers that came of the settings"
    assert values(folder) == {("pr-1", "good"): 1.0, ("pr-1", "cheat"): 0.0}


# What else can be: through a spec of one's own, with commands that are quick


def run(folder: Folder, agents: dict[str, str], scorer: dict[str, Any], *words: str, **expected: Any) -> Done:
    """Run one case from a repository whose second commit sets a value and adds a test for it."""
    return run_all(folder, agents, [{"command": "sh {tests}", **scorer}], {"one": expected}, *words)


def run_all(
    folder: Folder,
    agents: dict[str, str],
    scorers: list[dict[str, Any]],
    expected: dict[str, dict[str, Any]],
    *words: str,
) -> Done:
    project = folder.path / "project"
    if not project.exists():
        repository = Repository(project)
        repository.commit("Begin", {"value.txt": "unset\n", "tests/test_old.sh": "true\n"})
        test = "cat value.txt; grep -q right value.txt\n"
        repository.commit("Set", {"value.txt": "right\n", "tests/test_value.sh": test})
    commits = subprocess.run(["git", "rev-list", "HEAD"], cwd=project, check=True, capture_output=True, text=True)
    after, before = commits.stdout.split()
    brings = {"commit": after, "tests": ["tests/test_value.sh"]}
    spec = {
        "cases": [
            {"id": name, "input": {"commit": before}, "expected": {**brings, **other}}
            for name, other in expected.items()
        ],
        "target": "command",
        "params": {
            "workspace": {"git": "project", "commit": "{{ commit }}"},
            "prompt": "Set it.",
            "shell": True,
            "on_silence": "continue",
        },
        "variants": {name: {"command": command} for name, command in agents.items()},
        "scorers": [{"tests": {"own": True, **scorer}} for scorer in scorers],
    }
    folder.write("spec.yaml", json.dumps(spec))
    return folder.abreast("run", "spec.yaml", *words)


SETS = "echo right > value.txt"


def test_an_agent_cannot_redirect_the_tests_or_write_through_a_link(folder: Folder) -> None:
    """Whatever replaced the test folder is replaced in turn, and the target of a link is unchanged."""
    elsewhere = folder.write("elsewhere/test_value.sh", "mine\n").parent
    link = f"rm -rf tests; ln -s {elsewhere} tests"
    agents = {
        "right": f"{link}; {SETS}",
        "wrong": link,
        "a file": f"rm -rf tests; echo no folder > tests; {SETS}",
        "locked": f"chmod 500 tests .; {SETS}",
        "a link to nowhere": f"rm -rf tests; mkdir tests; ln -s /nowhere/at/all tests/test_value.sh; {SETS}",
        "gone": 'rm -rf "$PWD"',
        "moved": f'mv "$PWD" "$PWD.other"; ln -s {elsewhere} "$PWD"',
    }
    done = run(folder, agents, {})
    assert done.code == 0, done.output
    outcomes = {name: value for (_, name), value in values(folder).items()}
    right = dict.fromkeys(agents, 1.0) | {"wrong": 0.0, "gone": 0.0, "moved": 0.0}
    assert outcomes == right
    assert scored(folder)["one", "gone"][1] == "the workspace was removed"
    assert [path.name for path in elsewhere.iterdir()] == ["test_value.sh"]
    assert (elsewhere / "test_value.sh").read_text() == "mine\n"


def test_uninformative_tests_give_a_reason_instead_of_a_score(folder: Folder) -> None:
    cases: dict[str, dict[str, Any]] = {
        "brings": {},
        "nothing": {"tests": []},
        "missing": {"tests": ["tests/test_other.sh"]},
        "unknown": {"commit": "0" * 40},
    }
    scorers = [
        {"name": "plain", "command": "sh {tests}"},
        {"name": "passes", "command": "true {tests}"},
        {"name": "fails", "command": "sh -c 'echo no such package; exit 3' {tests}"},
        {"name": "without_command"},
    ]
    done = run_all(folder, {"a": SETS}, scorers, cases)
    assert done.code == 0, done.output
    rows = folder.sql(
        "select c.id, s.name, s.value, s.explanation from scores s join trials t using (run_id, position) "
        "join cases c on c.digest = t.case_digest"
    )
    scores = {(row["id"], row["name"]): (row["value"], row["explanation"]) for row in rows}
    assert scores.pop(("brings", "plain")) == (1.0, "exit code 0: right")
    assert {value for value, _ in scores.values()} == {None}
    reasons = {key: reason for key, (_, reason) in scores.items()}
    assert reasons["brings", "passes"] == "succeeds without any change, so it measures nothing: exit code 0"
    assert reasons["brings", "fails"] == (
        "fails on the reference change too, so it measures nothing: exit code 3: no such package"
    )
    assert reasons["brings", "without_command"] == "no default command for tests/test_value.sh; set `command`"
    assert reasons["nothing", "plain"] == reasons["nothing", "without_command"] == "the case has no tests of its own"
    assert reasons["missing", "plain"].startswith("tests/test_other.sh is not among the files of commit")
    assert reasons["unknown", "plain"].startswith("could not be run: workspace: commit")
    (artifact,) = folder.sql("select distinct content from artifacts where name = 'fails'")
    assert artifact["content"] == "no such package", "what people's own failed with can be read"


def test_a_case_without_its_own_tests_is_decided_by_the_command(folder: Folder) -> None:
    done = run(folder, {"a": SETS, "b": "true"}, {"command": "grep -q right value.txt", "fails_before": True}, tests=[])
    assert done.code == 0, done.output
    assert values(folder) == {("one", "a"): 1.0, ("one", "b"): 0.0}
    rows = [json.loads(row["checks"])["tests"] for row in folder.sql("select checks from predictions")]
    assert {(facts["before"], facts["human"]) for facts in rows} == {("failed", "passed")}


def test_rescoring_uses_stored_results_and_changed_tests_run_again(folder: Folder) -> None:
    assert run(folder, {"a": SETS}, {}, "--json").json[0]["executed"] == 1
    assert run(folder, {"a": SETS}, {}, "--json").json[0]["executed"] == 0
    (folder.path / "project").rename(folder.path / "away")
    assert folder.abreast("rescore").code == 0
    assert values(folder) == {("one", "a"): 1.0}
    (folder.path / "away").rename(folder.path / "project")
    other = ["tests/test_value.sh", "tests/test_old.sh"]
    assert run(folder, {"a": SETS}, {}, "--json", tests=other).json[0]["executed"] == 1


def test_own_tests_need_a_repository_and_paths_inside_it(folder: Folder) -> None:
    for tests in (["../../etc/passwd"], ["/etc/passwd"], [".git/config"], ["a//b"], "tests", [1]):
        done = run(folder, {"a": SETS}, {}, tests=tests)
        assert done.code == 2
        assert 'case "one": expected.tests must be a list of paths in the repository' in done.err
    assert "expected.commit is missing" in run(folder, {"a": SETS}, {}, commit=None).err
    spec = json.loads((folder.path / "spec.yaml").read_text())
    spec["params"]["workspace"] = "empty"
    folder.write("spec.yaml", json.dumps(spec))
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 2
    assert 'scorer "tests" with own: true takes tests from a later commit' in done.err


# Placeholders


def test_a_command_can_refer_to_the_case_and_the_folder_of_the_spec(folder: Folder) -> None:
    folder.write("checks.py", "import pathlib, sys\nsys.exit(pathlib.Path('out').read_text().strip() != sys.argv[1])\n")
    cases = [{"id": name, "input": "the same"} for name in ("one", "two")]
    spec = {
        "cases": cases,
        "target": "command",
        "params": {"shell": True, "on_silence": "continue"},
        "variants": {"a": {"command": "echo one > out"}},
        "scorers": [
            {"tests": {"command": "python3 {folder}/checks.py {case}"}},
            {"tests": {"name": "shell", "command": 'grep -q "^$ABREAST_CASE$" out', "shell": True}},
            {"tests": {"name": "braces", "command": ["awk", "{print}", "out"]}},
        ],
    }
    folder.write("spec.yaml", json.dumps(spec))
    assert folder.abreast("run", "spec.yaml", "--json").json[0]["executed"] == 2
    columns = "case_id, score_tests, score_shell, score_braces"
    rows = [tuple(row.values()) for row in folder.sql(f"select {columns} from predictions order by case_id")]
    assert rows == [("one", 1, 1, 1), ("two", 0, 0, 1)]
    assert folder.abreast("run", "spec.yaml", "--json").json[0]["executed"] == 0
    folder.write("checks.py", "import sys\nsys.exit(0)\n")
    assert folder.abreast("run", "spec.yaml", "--json").json[0]["executed"] == 2, "another check is another question"
    (folder.path / "checks.py").unlink()
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 4
    assert f"{folder.path / 'checks.py'} does not exist" in done.output


def test_the_checks_of_the_starter_tell_right_from_wrong(folder: Folder) -> None:
    folder.abreast("init", "agents")
    settings = json.loads((folder.path / "settings.json").read_text())
    right = "grep -q area_of_square {prompt} && sed -i 's/side \\* 4/side ** 2/' shapes.py"
    own = {"right": {"commandTemplate": right}, "wrong": {"commandTemplate": "echo '#' >> shapes.py"}}
    answers = {"prompts": ["prompts/fix-area.md"], "num_prompts": 1, "runs_per_prompt": 1}
    folder.write("settings.json", json.dumps({**settings, **answers, "agents": list(own), "agent_config": own}))
    done = folder.abreast("run", "settings.json")
    assert done.code == 0, done.output
    assert values(folder) == {("fix-area.md", "right"): 1.0, ("fix-area.md", "wrong"): 0.0}


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ({"command": "echo {case}", "shell": True}, "{case} is not replaced with shell: true"),
        ({"command": "sh {folder}/a", "shell": True}, "use $ABREAST_FOLDER"),
        ({"command": "sh {tests}", "own": False}, "command uses the tests of a case"),
        ({"command": "cat $ABREAST_TESTS", "shell": True, "own": False}, "command uses the tests of a case"),
        ({"own": "yes"}, "own must be true or false"),
    ],
)
def test_a_command_with_a_misleading_meaning_is_refused(folder: Folder, tests: dict[str, Any], message: str) -> None:
    done = run(folder, {"a": SETS}, tests)
    assert done.code == 2
    assert message in done.err


def test_a_shell_command_gets_the_tests_in_a_variable(folder: Folder) -> None:
    assert run(folder, {"a": SETS}, {"command": 'sh "$ABREAST_TESTS"', "shell": True}).code == 0
    assert values(folder) == {("one", "a"): 1.0}


# The files themselves


def test_files_are_restored_to_the_human_change(tmp_path: Path) -> None:
    people, work = tmp_path / "people", tmp_path / "work"
    for folder in (people, work):
        (folder / "pkg/tests/data").mkdir(parents=True)
        (folder / "pkg/app.py").write_text("app")
    (people / "pkg/tests/test_a.py").write_text("theirs")
    (people / "pkg/tests/data/blob").write_bytes(b"\0\xff\r\n")
    (people / "pkg/tests/run").write_text("#!/bin/sh\n")
    (people / "pkg/tests/run").chmod(0o755)
    (people / "pkg/tests/link").symlink_to("../app.py")
    (people / "pkg/conftest.py").write_text("theirs")
    (people / "pkg/a_test.go").write_text("theirs")
    os.utime(people / "pkg/tests/test_a.py", (10**9, 10**9))
    for mine in ("app.py", "tests/test_a.py", "tests/more.py", "a_test.go", "b_test.go", "conftest.py", "pytest.ini"):
        (work / "pkg" / mine).write_text("mine")
    (work / "conftest.py").symlink_to(people / "pkg/app.py")
    tests = ["pkg/tests/test_a.py", "pkg/a_test.go"]
    began = time.time() - 1
    overlay_tests(people, work, tests, lambda name: is_test_config(name, tests, is_inferred=False))

    files = {str(path.relative_to(work)) for path in work.rglob("*") if not path.is_dir()}
    of_tests = {f"pkg/tests/{name}" for name in ("test_a.py", "data/blob", "run", "link")}
    assert files == {"pkg/app.py", "pkg/a_test.go", "pkg/conftest.py", *of_tests}
    assert (work / "pkg/app.py").read_text() == "mine"
    assert {(work / "pkg" / name).read_text() for name in ("a_test.go", "conftest.py", "tests/test_a.py")} == {"theirs"}
    assert (work / "pkg/tests/data/blob").read_bytes() == b"\0\xff\r\n"
    assert os.access(work / "pkg/tests/run", os.X_OK)
    assert (work / "pkg/tests/link").readlink() == Path("../app.py")
    assert (work / "pkg/tests/test_a.py").stat().st_mtime > began, "what was built of the agent's is out of date"
    assert (people / "pkg/app.py").read_text() == "app"


@pytest.mark.parametrize(
    ("files", "tests", "words"),
    [
        ({}, ["tests/test_a.py", "tests/conftest.py", "tests/a.json"], "python3 -m pytest -q tests/test_a.py"),
        ({}, ["-test_a.py"], None),
        ({"go.mod": ""}, ["a/x_test.go", "a/y_test.go", "z_test.go"], "go test ./a ."),
        ({}, ["a/x_test.go"], None),
        ({"Cargo.toml": ""}, ["tests/a.rs", "b/tests/c.rs"], "cargo test --test a --test c"),
        ({"Cargo.toml": ""}, ["src/a_test.rs"], "cargo test"),
        ({"package.json": '{"scripts": {"test": "node --test"}}'}, ["a.test.ts"], "npm test"),
        ({"package.json": '{"scripts": {"test": "echo no test specified"}}'}, ["a.test.ts"], None),
        ({"package.json": "[" * 99_999}, ["a.test.ts"], None),
        (
            {"pom.xml": ""},
            ["src/test/java/a/ATest.java", "src/test/resources/a.json"],
            "mvn -q -B -Dtest=ATest -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false test",
        ),
        ({"build.gradle.kts": "", "gradlew": ""}, ["src/test/kotlin/ATest.kt"], "./gradlew -q test"),
        ({"build.gradle": ""}, ["src/test/java/ATest.java", "b/test_b.rb"], "gradle -q test"),
        ({"package.json": '{"scripts": {"test": "x"}}'}, ["a.test.js", "b.test.js", "test_c.py"], "npm test"),
        ({}, ["spec/a_spec.rb"], None),
    ],
)
def test_the_command_follows_from_the_files(
    tmp_path: Path, files: dict[str, str], tests: list[str], words: str | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    if tests == ["-test_a.py"]:  # no option
        words = "python3 -m pytest -q ./-test_a.py"
    command = infer_command(tmp_path, tests, os.environ["PATH"])
    assert command == (None if words is None else tuple(words.split()))
    assert set(runnable_tests(tests)) <= {*tests, "./-test_a.py"}

"""Agents that change the tests: the files that decide a check are restored before it runs, and the change is shown."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.model import Check
from abreast.targets.checks.check_runs import NO_CASE_TESTS, CheckTask
from abreast.targets.checks.protected_files import find_protected, restore
from conftest import Done, Folder
from repositories import Project

ADD = "def add(a, b):\n    return 0\n"
TEST = "from app import add\n\ndef test_add():\n    assert add(1, 2) == 3\n"
RIGHT = "printf 'def add(a, b):\\n    return a + b\\n' > app.py"
CHEAT = "printf 'def test_add():\\n    pass\\n' > test_app.py"
PYTEST = "python3 -m pytest -q -p no:cacheprovider"


@pytest.fixture(autouse=True)
def python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `python3` the interpreter that has pytest."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def run(folder: Folder, start: dict[str, str], agents: dict[str, str], tests: dict[str, Any], *words: str) -> Done:
    """Run agents, each a shell command, on a copy of the initial files."""
    shutil.rmtree(folder.path / "start", ignore_errors=True)
    (folder.path / "start").mkdir()
    for name, content in start.items():
        folder.write(f"start/{name}", content.encode())  # unchanged: tabs matter in makefiles
    spec = {
        "cases": [{"id": "one", "input": "Make add work."}],
        "target": "command",
        "params": {"workspace": {"copy": "start"}, "on_silence": "continue"},
        "variants": {name: {"command": command, "shell": True} for name, command in agents.items()},
        "scorers": [{"tests": tests}],
    }
    folder.write("spec.yaml", json.dumps(spec))
    done = folder.abreast("run", "spec.yaml", *words)
    assert done.code in (0, 1), done.output
    return done


def outcomes(folder: Folder) -> dict[str, tuple[float | None, list[str] | None]]:
    """By agent of the last run: the score, and the changed test files (None if not checked)."""
    rows = folder.sql("select * from predictions where run = (select run from runs order by run_id desc limit 1)")
    results = {}
    for row in rows:
        files = json.loads(row.get("test_files_changed") or "[]")
        assert row["tests_changed"] in (None, len(files))
        results[row["variant"]] = (row["score"], None if row["tests_changed"] is None else files)
    return results


def test_an_agent_that_rewrites_the_tests_fails_and_the_report_says_so(folder: Folder) -> None:
    start = {"app.py": ADD, "test_app.py": TEST}
    agent = f"{RIGHT}; {CHEAT}"
    done = run(folder, start, {"honest": RIGHT, "cheat": CHEAT, "both": agent}, {"command": PYTEST})
    assert outcomes(folder) == {
        "honest": (1, []),
        "cheat": (0, ["test_app.py"]),
        "both": (1, ["test_app.py"]),
    }
    assert "cheat changed tests in 1 of 1 trial;" in done.out
    assert "both changed tests in 1 of 1 trial;" in done.out
    assert "honest changed tests" not in done.out
    output = folder.abreast("show", "latest", "one").out
    assert output.count("changed tests, restored before the check: test_app.py") == 2
    (diff,) = folder.sql("select content from artifacts where name = 'diff' and content like '%pass%' limit 1")
    assert "+    pass" in diff["content"], "what the agent did is kept as it was"


def test_html_markdown_and_json_report_changed_tests(folder: Folder) -> None:
    run(folder, {"app.py": ADD, "test_app.py": TEST}, {"honest": RIGHT, "cheat": CHEAT}, {"command": PYTEST})
    for form in ("markdown", "html"):
        assert folder.abreast("report", "--format", form, "--output", f"out-{form}").code == 0
        (file,) = [path for path in (folder.path / f"out-{form}").rglob("*") if path.suffix in (".md", ".html")][:1]
        text = file.read_text().replace("\\", "")
        assert "cheat changed tests in 1 of 1 trial;" in text, form
        assert "test_app.py" in text
    document = json.loads(folder.abreast("report", "--format", "json").out)
    assert document["flags"] == [
        {"case": "one", "variant": "cheat", "repeat": 0, "tests_changed": ["test_app.py"], "outside_changes": []}
    ]


@pytest.mark.parametrize(
    ("scenario", "start", "cheat", "changed"),
    [
        ("deleted tests come back", {"test_app.py": TEST}, "rm test_app.py; : > test_none.py", ["test_app.py"]),
        (
            "a deleted folder of tests comes back",
            {"tests/test_app.py": TEST, "tests/data/x.json": "{}"},
            "rm -r tests",
            ["tests/data/x.json", "tests/test_app.py"],
        ),
        (
            "helpers and fixtures in the folder of tests",
            {"tests/test_app.py": "from values import A\n" + TEST, "tests/values.py": "A = 1\n"},
            "echo 'import app; app.add = lambda a, b: 3; A = 1' > tests/values.py",
            ["tests/values.py"],
        ),
        (
            "a changed conftest.py",
            {"test_app.py": TEST, "conftest.py": "# nothing\n"},
            'printf \'collect_ignore = ["test_app.py"]\\ndef pytest_sessionfinish(session):\\n'
            "    session.exitstatus = 0\\n' > conftest.py",
            ["conftest.py"],
        ),
        (
            "an added conftest.py beside the tests",
            {"tests/test_app.py": TEST},
            "echo 'import os; os._exit(0)' > conftest.py",
            ["conftest.py"],
        ),
        (
            "added settings of pytest",
            {"test_app.py": TEST},
            "printf '[pytest]\\naddopts = --co\\n' > pytest.ini",
            ["pytest.ini"],
        ),
        (
            "settings of pytest among others",
            {"test_app.py": TEST, "pyproject.toml": '[project]\nname = "app"\nversion = "1"\n'},
            "printf '[tool.pytest.ini_options]\\naddopts = \"--co\"\\n' >> pyproject.toml",
            ["pyproject.toml"],
        ),
        (
            "settings in setup.cfg",
            {"test_app.py": TEST},
            "printf '[tool:pytest]\\naddopts = --co\\n' > setup.cfg",
            ["setup.cfg"],
        ),
        ("a renamed test", {"test_app.py": TEST}, "mv test_app.py app_cases.py; : > test_none.py", ["test_app.py"]),
        (
            "a link in the place of the folder of tests",
            {"tests/test_app.py": TEST},
            "rm -r tests; mkdir other; echo 'def test_a(): pass' > other/test_a.py; ln -s other tests",
            ["tests/test_app.py"],
        ),
        (
            "a test that is a link",
            {"test_app.py": TEST},
            "rm test_app.py; echo 'def test_a(): pass' > easy.py; ln -s easy.py test_app.py",
            ["test_app.py"],
        ),
        ("permissions", {"test_app.py": TEST}, "chmod 000 test_app.py; : > test_none.py", ["test_app.py"]),
        (
            "two files of tests that change places",
            {"tests/a/test_app.py": TEST, "tests/b/test_ok.py": "def test_b(): pass\n"},
            "mv tests/a x; mv tests/b tests/a; mv x tests/b; rm tests/b/test_app.py",
            ["tests/a/test_app.py", "tests/b/test_ok.py"],
        ),
    ],
)
@pytest.mark.matrix(quick=4)
def test_files_that_pytest_reads_are_restored(
    folder: Folder, scenario: str, start: dict[str, str], cheat: str, changed: list[str]
) -> None:
    files = {"app.py": ADD, **start}
    run(folder, files, {"cheat": cheat, "both": f"{RIGHT}; {cheat}"}, {"command": PYTEST})
    assert outcomes(folder) == {"cheat": (0, changed), "both": (1, changed)}, scenario


QUIET = (
    "def pytest_collection_modifyitems(items): items.clear()\\n"
    "def pytest_sessionfinish(session): session.exitstatus = 0"
)


@pytest.mark.parametrize(
    "cheat",
    [
        "printf 'import os\\nos._exit(0)\\n' > app.py",
        "echo > pytest.py",
        "printf 'import os\\nos._exit(0)\\n' > test_a.py",
        f"mkdir a; printf '{QUIET}\\n' > a/conftest.py",
        f"mkdir a-1.dist-info; printf '{QUIET}\\n' > quiet.py; echo 'Name: a' > a-1.dist-info/METADATA; "
        "printf '[pytest11]\\na = quiet\\n' > a-1.dist-info/entry_points.txt",
        "printf 'import pytest\\ndef add(a, b): pytest.skip()\\n' > app.py",
    ],
    ids=["code that ends the runner", "a module in its place", "a test that ends it", "a hook", "a plugin", "skipped"],
)
@pytest.mark.parametrize(
    "tests", [{}, {"tests": ["tests/**"]}, {"fails_before": True}], ids=["rule", "named", "before"]
)
@pytest.mark.matrix(quick=4)
def test_a_check_that_succeeds_without_running_the_original_tests_does_not_pass(
    folder: Folder, cheat: str, tests: dict[str, Any]
) -> None:
    start = {"app.py": ADD, "tests/test_app.py": TEST, "tests/test_more.py": "import app\n" + TEST}
    run(folder, start, {"cheat": cheat, "honest": RIGHT}, {"command": PYTEST, **tests})
    assert outcomes(folder) == {"cheat": (0, []), "honest": (1, [])}
    output = folder.abreast("show", "latest", "one").out
    assert "tests of the start that did not run: tests.test_app::test_add and 1 more" in output


def test_tests_that_could_not_be_imported_at_first_must_run_in_the_end(folder: Folder) -> None:
    start = {"test_app.py": TEST, "test_new.py": "import new\n\ndef test_new():\n    assert new.one == 1\n"}
    agents = {
        "both": f"{RIGHT}; echo one = 1 > new.py",
        "half": f"{RIGHT}; printf 'import pytest\\npytest.skip(allow_module_level=True)' > new.py",
    }
    run(folder, start, agents, {"command": PYTEST, "fails_before": True})
    assert outcomes(folder) == {"both": (1, []), "half": (0, [])}


def test_tests_added_by_an_agent_are_kept_and_do_not_count_as_changed_tests(folder: Folder) -> None:
    more = "mkdir -p tests/new; echo 'def test_more(more): pass' > tests/new/test_more.py"
    own = "printf 'import pytest\\n@pytest.fixture\\ndef more(): return 1\\n' > tests/new/conftest.py"
    fails = "echo 'def test_fails(): assert False' > test_fails.py"
    agents = {"adds": f"{RIGHT}; {more}; {own}", "fails": f"{RIGHT}; {fails}"}
    run(folder, {"app.py": ADD, "tests/test_app.py": TEST}, agents, {"command": PYTEST})
    assert outcomes(folder) == {"adds": (1, []), "fails": (0, [])}
    artifacts = folder.sql("select content from artifacts where name = 'tests' and content like '%passed%'")
    assert any("2 passed" in row["content"] for row in artifacts), "its tests ran as well"


def test_without_tests_at_the_start_the_agent_writes_them(folder: Folder) -> None:
    """In an empty folder, and in one where the agent has to configure the tests."""
    writer = f"{CHEAT}; echo 'import os' > conftest.py"
    run(folder, {}, {"writes": writer}, {"command": PYTEST})
    assert outcomes(folder) == {"writes": (1, [])}
    package = json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})
    sets_up = """echo '{"scripts": {"test": "true"}}' > package.json"""
    run(folder, {"package.json": package, "app.test.js": "1"}, {"sets up": sets_up}, {"command": "npm test"})
    assert outcomes(folder) == {"sets up": (1, [])}


CHECKS = "import app, sys\nsys.exit(app.add(1, 2) != 3)\n"
MAKEFILE = "OUT = app\n\nall:\n\ttrue\n\ntest:\n\tpython3 probe.py\n"


@pytest.mark.parametrize(
    ("scenario", "command", "start", "cheat", "changed"),
    [
        ("a script by its name", "python3 checks.py", {"checks.py": CHECKS}, "echo > checks.py", ["checks.py"]),
        ("a module", "python3 -m qa.check", {"qa/check.py": CHECKS}, "echo > qa/check.py", ["qa/check.py"]),
        (
            "a script of a shell",
            "sh -c 'true && sh ./ci/run.sh'",
            {"ci/run.sh": "python3 -c 'import app; assert app.add(1, 2) == 3'\n"},
            "echo true > ci/run.sh",
            ["ci/run.sh"],
        ),
        (
            "the rule of a makefile",
            "make test",
            {"Makefile": MAKEFILE, "probe.py": CHECKS},
            "printf 'test:\\n\\ttrue\\n' > Makefile",
            ["Makefile"],
        ),
        (
            "variables of the rule, and of make itself",
            "make test",
            {"Makefile": "RUN = $(WITH) probe.py\nWITH = python3\nCC = cc\n\ntest:\n\t$(RUN)\n", "probe.py": CHECKS},
            "sed -i 's/^WITH = python3/WITH = true/' Makefile; echo 'SHELL = /bin/true' >> Makefile",
            ["Makefile"],
        ),
        (
            "a makefile that hides another",
            "make test",
            {"Makefile": MAKEFILE, "probe.py": CHECKS},
            "printf 'test:\\n\\ttrue\\n' > GNUmakefile",
            ["GNUmakefile"],
        ),
        (
            "settings of npm that switch scripts off",
            "npm test",
            {
                "package.json": json.dumps({"scripts": {"test": "python3 test_app.py"}}),
                "test_app.py": CHECKS,
            },
            "echo ignore-scripts=true > .npmrc",
            [".npmrc"],
        ),
        (
            "a script of package.json",
            "npm test",
            {"package.json": json.dumps({"scripts": {"test": "python3 probe.py"}}), "probe.py": CHECKS},
            """echo '{"scripts": {"test": "true"}}' > package.json""",
            ["package.json"],
        ),
    ],
)
def test_files_named_by_the_command_are_restored(
    folder: Folder, scenario: str, command: str, start: dict[str, str], cheat: str, changed: list[str]
) -> None:
    files = {"app.py": ADD, **start}
    run(folder, files, {"cheat": cheat, "both": f"{RIGHT}; {cheat}"}, {"command": command})
    assert outcomes(folder) == {"cheat": (0, changed), "both": (1, changed)}, scenario


@pytest.mark.parametrize(
    ("scenario", "command", "start", "work"),
    [
        (
            "a file that the command looks at is the work",
            "grep -q hello greeting.txt",
            {"greeting.txt": "x"},
            "echo hello > greeting.txt",
        ),
        ("so is a program with a plain name", "python3 main.py", {"main.py": "raise SystemExit(1)"}, "echo > main.py"),
        (
            "other rules of a makefile are the work",
            "make test",
            {"Makefile": "OUT = app\n\ntest: build\n\ttest -e built\n\nbuild:\n\tfalse\n"},
            "printf 'test: build\\n\\ttest -e built\\n\\nbuild:\\n\\ttouch built\\n' > Makefile",
        ),
        (
            "so are variables that the rule does not use",
            "make test",
            {"Makefile": "ALL = a\n\ntest: built\n\ttest -e built\n\nbuilt:\n\ttest $(ALL) = b && touch built\n"},
            "sed -i 's/^ALL = a/ALL = b/' Makefile",
        ),
        (
            "so are settings of npm that say something else",
            "grep -q engine-strict .npmrc",
            {"test_a.py": "", ".npmrc": "fund=false"},
            "echo engine-strict=true > .npmrc",
        ),
        (
            "so are dependencies in pyproject.toml",
            "grep -q more pyproject.toml",
            {"pyproject.toml": '[project]\nname = "a"\n\n[tool.pytest.ini_options]\naddopts = "-q"\n', "test_a.py": ""},
            'sed -i \'s/name = "a"/name = "more"/\' pyproject.toml',
        ),
        (
            "a folder called spec without tests is the work",
            "grep -q v2 spec/api.yaml",
            {"spec/api.yaml": "v1"},
            "echo v2 > spec/api.yaml",
        ),
    ],
)
def test_the_agents_own_files_are_not_restored(
    folder: Folder, scenario: str, command: str, start: dict[str, str], work: str
) -> None:
    run(folder, start, {"works": work}, {"command": command, "fails_before": True})
    assert outcomes(folder) == {"works": (1, [])}, scenario


def test_the_setting_tests_names_the_files_instead_of_the_rule(folder: Folder) -> None:
    start = {"app.py": ADD, "test_app.py": TEST, "probe.py": CHECKS}
    agents = {"cheat": f"{CHEAT}; echo > probe.py"}
    run(folder, start, agents, {"command": "python3 probe.py"})
    assert outcomes(folder) == {"cheat": (1, ["test_app.py"])}, "by the rule, a file called probe.py may be the work"
    run(folder, start, agents, {"command": "python3 probe.py", "tests": ["probe.py"]})
    assert outcomes(folder) == {"cheat": (0, ["probe.py"])}
    run(folder, start, agents, {"command": PYTEST, "tests": []})
    assert outcomes(folder) == {"cheat": (1, [])}, "where tests are the task"
    done = run(folder, start, agents, {"command": PYTEST, "tests": ["chekcs/**"]})
    assert outcomes(folder) == {"cheat": (None, None)}
    assert "no file at the start matches chekcs/**" in done.output
    folder.write(
        "spec.yaml",
        (folder.path / "spec.yaml").read_text().replace('"chekcs/**"]', '"chekc/**"], "fails_before": true'),
    )
    refused = folder.abreast("run", "spec.yaml", "--store", "other.db")
    assert refused.code == 4, "before anything is paid for"
    assert "no file at the start matches chekc/**" in refused.output
    folder.write(
        "spec.yaml",
        json.dumps(
            {
                "cases": [{"input": "x"}],
                "target": "command",
                "variants": {"a": {"command": ["cat"]}},
                "scorers": [{"tests": {"command": "true", "tests": "x"}}],
            }
        ),
    )
    refused = folder.abreast("check", "spec.yaml")
    assert refused.code == 2
    assert 'tests must be a list of globs such as ["checks/**"]' in refused.err


def test_a_renamed_test_does_not_run_twice(folder: Folder) -> None:
    """Two Go files of one package with the same function would not compile."""
    check = "sh -c 'ls *_test.go | wc -l | grep -qx 1'"
    content = "package app\n" + "".join(f"func Test{n}() {{}}\n" for n in range(20))
    run(folder, {"app_test.go": content}, {"renames": "mv app_test.go other_test.go"}, {"command": check})
    assert outcomes(folder) == {"renames": (1, ["app_test.go"])}


def test_settings_files_and_flags_name_tests_in_a_repository(folder: Folder) -> None:
    project = Project(folder.path / "project")
    for name, content in {"app.py": ADD, "test_app.py": TEST, "probe.py": CHECKS}.items():
        project.put(name, content)
    project.commit("start")
    folder.write("prompts/one.md", "Make add work.")
    agents = {"cheat": f"{CHEAT}; echo > probe.py; git add -A; git commit -qm done", "honest": RIGHT}
    content = {
        "agents": list(agents),
        "agent_config": {name: {"commandTemplate": command} for name, command in agents.items()},
        "repo_path": "project",
        "check": PYTEST,
        "output_filename": "bench",
    }
    folder.write("settings.json", json.dumps(content))
    done = folder.abreast("run", "settings.json")
    assert done.code == 0, done.output
    assert outcomes(folder) == {"cheat": (0, ["test_app.py"]), "honest": (1, [])}
    assert "cheat changed tests in 1 of 1 trial;" in done.out
    results = json.loads((folder.path / "bench.json").read_text())["results"]
    assert {result["assistant"]: result["runs"][0]["tests_changed"] for result in results} == {"cheat": 1, "honest": 0}
    assert folder.abreast("run", "settings.json", "--check", "python3 probe.py", "--tests", "probe.py").code == 0
    assert outcomes(folder)["cheat"] == (0, ["probe.py"])
    assert folder.abreast("run", "settings.json", "--tests", "none").code == 0
    assert outcomes(folder)["cheat"] == (1, [])
    folder.write("settings.json", json.dumps({**content, "tests": ["probe.py"], "check": "python3 probe.py"}))
    assert folder.abreast("run", "settings.json").code == 0
    assert outcomes(folder)["cheat"] == (0, ["probe.py"])


def test_the_repository_itself_is_never_written_through_a_link(folder: Folder, tmp_path: Path) -> None:
    outside_file = tmp_path / "outside"
    outside_file.mkdir()
    (outside_file / "test_app.py").write_text("mine\n")
    cheat = f"rm -r tests; ln -s {outside_file} tests"
    run(folder, {"app.py": ADD, "tests/test_app.py": TEST}, {"links": cheat}, {"command": PYTEST})
    assert outcomes(folder) == {"links": (0, ["tests/test_app.py"])}
    assert (outside_file / "test_app.py").read_text() == "mine\n"


SETTINGS = ("pyproject.toml", "setup.cfg", "tox.ini", "package.json", "Makefile")
CONTENT = st.text(st.sampled_from('[]{}":=\t\n tolpyestajscrip#'), max_size=60).map(str.encode) | st.binary(max_size=40)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(SETTINGS), before=CONTENT, after=CONTENT)
def test_configuration_files_of_any_content_are_restored_or_kept_entirely(
    name: str, before: bytes, after: bytes
) -> None:
    task = CheckTask(Check("tests", ("make", "test")), ("make", "test"), (), NO_CASE_TESTS)
    with tempfile.TemporaryDirectory() as folder:
        start, work = Path(folder, "start"), Path(folder, "work")
        for directory, content in ((start, before), (work, after)):
            directory.mkdir()
            (directory / name).write_bytes(content)
            (directory / "test_app.py").write_bytes(b"")
        changed = restore(start, work, find_protected(start, task), 0)
        assert changed in ([], [name])
        assert (work / name).read_bytes() == (before if changed else after)
        assert before != after or not changed

"""What a `setup:` command installs reaches agents and tests, is made once, and its failure is blamed on no variant."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from conftest import Folder
from repositories import Project

SETUP = """\
import os, pathlib, subprocess, sys
with open(os.environ["COUNTED"], "a") as file:
    file.write("x")
subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], check=True)
site = next(pathlib.Path(".venv/lib").glob("python*/site-packages"))
(site / "installed_helper.py").write_text("NAME = 'helper'\\n")
(site / "shop.pth").write_text(str(pathlib.Path("src").absolute()) + "\\n")
"""
TEST = """\
import sys
sys.path[:] = [path for path in sys.path if path != "tests"]
from installed_helper import NAME
from shop import greet
assert greet("Ann") == "hello Ann", greet("Ann")
"""
AGENT = """\
import os, pathlib, shutil, subprocess, sys
here = pathlib.Path(".venv").absolute()
print(shutil.which("python3") == str(here / "bin/python3"), os.environ.get("VIRTUAL_ENV") == str(here), flush=True)
subprocess.run(["python3", "-c", "import installed_helper, shop; print(shop.__file__)"])
if sys.argv[1] == "good":
    pathlib.Path("src/shop.py").write_text("greet = 'hello {}'.format\\n")
"""


@pytest.fixture
def shop(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("COUNTED", str(folder.path / "counted.txt"))
    project = Project(folder.path / "shop")
    project.put("pyproject.toml", "[project]\nname = 'shop'\n")
    project.put("src/shop.py", "def greet():\n    return 'hello'\n")
    project.commit("Begin")
    project.put("src/shop.py", "def greet(name):\n    return f'hello {name}'\n")
    project.put("tests/test_shop.py", TEST)
    project.commit("Greet people by their name (#1)")
    project.put("README", "A shop.\n")
    project.commit("Describe the shop for people (#2)")
    project.put("tests/test_shop.py", TEST + "# the same\n")
    project.commit("Explain the tests to people (#3)")
    folder.write("agent.py", AGENT)
    folder.write("setup.py", SETUP)
    return folder


def words(*more: str) -> list[str]:
    agents = [f"--agent={how}={sys.executable} {{folder}}/agent.py {how}" for how in ("good", "lazy")]
    return [*agents, "--repo", "shop", "--pull-requests", "1", "--check", "python3 {tests}", *more]


def test_an_environment_is_made_once_and_reaches_agents_and_tests(shop: Folder) -> None:
    """An editable installation of the checkout refers to the sources of each workspace."""
    setup = ["--setup", f"{sys.executable} {{folder}}/setup.py"]
    done = shop.abreast("run", "coding-agents", *words(*setup), "--repeats", "2")
    assert done.code == 0, done.output
    rows = shop.sql("select case_id, variant, score, answer, files_changed n from predictions")
    assert {(row["case_id"], row["variant"], row["score"]) for row in rows} == {
        ("pr-1", "good", 1.0),
        ("pr-1", "lazy", 0.0),
    }
    assert {row["n"] for row in rows if row["variant"] == "lazy"} == {0}, "files from the setup do not count as changes"
    for row in rows:
        assert row["answer"].split() == ["True", "True", "src/shop.py"]
    assert (shop.path / "counted.txt").read_text() == "x", "all commits have the same dependencies"


def test_pull_requests_without_informative_tests_are_skipped_and_counted(shop: Folder) -> None:
    done = shop.abreast("check", "coding-agents", *words("--setup", f"{sys.executable} {{folder}}/setup.py"))
    assert done.code == 0, done.output
    assert "pr-3: rejected: succeeds without any change" in done.err
    assert "examined 3 pull requests: 1 of 1 requested" in done.err
    assert "has no tests of its own (1)" in done.err
    assert "works for" in done.err or "1 environment for 1 case" in done.err, "the check tries the setup"
    assert (
        "1 of 1 cases have tests that fail without any change, and pass with the reference solution"
        in done.err.replace("1 case ", "1 cases ")
    ), "the selection has tried them"
    few = shop.abreast("check", "coding-agents", *words("--pull-requests", "2"), "--no-with-tests")
    assert "pr-2 and pr-3" in few.err


def test_pull_requests_without_tests_do_not_end_the_search(shop: Folder) -> None:
    git = ["git", "-C", str(shop.path / "shop"), "-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    for number in range(4, 16):
        shop.write("shop/README", f"A shop with {number} departments.\n")
        subprocess.run([*git, "commit", "-qam", f"Describe department {number} for people (#{number})"], check=True)
    done = shop.abreast("check", "coding-agents", *words("--setup", f"{sys.executable} {{folder}}/setup.py"))
    assert done.code == 0, done.output
    assert "examined 15 pull requests: 1 of 1 requested" in done.err
    none = shop.abreast("check", "coding-agents", *words("--check", "false {tests}"))
    assert "examined 15 pull requests (end of history): 0 of 1 requested" in none.err


def test_a_failing_setup_is_refused_before_any_cost(shop: Folder) -> None:
    done = shop.abreast("run", "coding-agents", *words("--setup", "sh -c 'echo no such package; exit 3'"))
    assert done.code == 4, done.output
    assert "setup failed with exit code 3: no such package" in done.err
    assert not (shop.path / "results.db").exists()


def test_check_tries_the_setup_and_a_dry_run_does_not(shop: Folder) -> None:
    fails = words("--setup", "sh -c 'echo no such package; exit 3'", "--no-with-tests")
    refused = shop.abreast("check", "coding-agents", *fails)
    assert refused.code == 4, refused.output
    assert "setup failed with exit code 3: no such package" in refused.err
    dry = shop.abreast("run", "coding-agents", *fails, "--dry-run")
    assert dry.code == 0, dry.output


def test_requiring_informative_tests_is_refused_if_no_pull_request_has_any(shop: Folder) -> None:
    done = shop.abreast("check", "coding-agents", *words("--with-tests", "--check", "true {tests}"))
    assert done.code == 2, done.output
    assert "0 of 1 requested" in done.err
    assert "--no-with-tests" in done.err


def test_setup_is_a_key_of_settings_and_of_workspaces_of_repositories(shop: Folder) -> None:
    agents = {how: {"commandTemplate": f'python3 "$ABREAST_FOLDER/agent.py" {how}'} for how in ("good", "lazy")}
    settings = {
        "mode": "PR_Recreate",
        "PR_Recreate": {"num_prs": 1, "with_tests": True},
        "repo_path": "shop",
        "agents": list(agents),
        "agent_config": agents,
        "check": "python3 {tests}",
        "setup": f"{sys.executable} {{folder}}/setup.py",
    }
    shop.write("settings.json", json.dumps(settings))
    done = shop.abreast("check", "settings.json", "--try-tests")
    assert done.code == 0, done.output
    assert "1 of 1 case have tests" in done.err.replace("cases", "case")
    spec = {"cases": [{"id": "a", "input": "x"}], "target": "command", "variants": {"v": {"command": ["true"]}}}
    shop.write("spec.yaml", json.dumps({**spec, "params": {"workspace": {"copy": "shop", "setup": "true"}}}))
    refused = shop.abreast("check", "spec.yaml")
    assert refused.code == 2
    assert "setup needs git, not copy" in refused.err

"""The GitLab pipeline in the documentation: its script is executed with bash; installing and caching are not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from conftest import Folder

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "gitlab.md"


@pytest.fixture
def job() -> dict[str, Any]:
    match = re.search(r'```yaml title=".gitlab-ci.yml"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.S)
    assert match is not None
    (job,) = yaml.safe_load(match[1]).values()
    return dict(job)


def execute(job: dict[str, Any], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CI_")},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "CI_DEFAULT_BRANCH": "main",
        **job["variables"],
        **variables,
    }
    script = "\n".join(job["script"])
    for path in (folder / "reports").glob("*"):  # a job starts without artifacts
        path.unlink()
    words = ["bash", "-eo", "pipefail", "-c", script]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_a_merge_request_is_compared_with_the_last_run_on_the_default_branch(
    job: dict[str, Any], folder: Folder
) -> None:
    folder.cases(20)
    folder.write(
        "experiment.yaml", "cases: cases.jsonl\nvariants: {a: {target: 'python:mine:answer'}}\nscorers: [exact]\n"
    )
    folder.write("mine.py", "def answer(case):\n    return 'yes'\n")
    for _ in range(2):  # the label moves
        done = execute(job, folder.path, CI_COMMIT_BRANCH="main")
        assert done.returncode == 0, done.stderr
    assert [row["label"] for row in folder.sql("select label from runs order by created_at")] == [None, "main"]

    done = execute(job, folder.path, CI_PIPELINE_SOURCE="merge_request_event")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reused" in (folder.path / "reports" / "comparison.md").read_text()

    folder.write("mine.py", "def answer(case):\n    return 'no'\n")
    done = execute(job, folder.path, CI_PIPELINE_SOURCE="merge_request_event")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "regression: " in done.stdout
    for report in job["artifacts"]["reports"]["junit"]:
        assert ElementTree.parse(folder.path / report).getroot().tag == "testsuites"
    assert ElementTree.parse(folder.path / "reports/comparison.xml").getroot().get("failures") == "2"


def test_a_merge_request_without_a_run_on_the_default_branch_passes(job: dict[str, Any], folder: Folder) -> None:
    folder.cases(3)
    folder.write("experiment.yaml", "cases: cases.jsonl\ntarget: simulated\nvariants: {a: {}}\nscorers: [exact]\n")
    done = execute(job, folder.path, CI_PIPELINE_SOURCE="merge_request_event")
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'no run "main"' in done.stderr

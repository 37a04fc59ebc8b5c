"""Imports: commands and users pay for numpy, pydantic and the like only where these are used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "aiohttp",
    "asyncio",
    "ctypes",
    "difflib",
    "duckdb",
    "importlib.metadata",
    "jinja2",
    "jsonschema",
    "multiprocessing",
    "numpy",
    "pandas",
    "psutil",
    "pydantic",
    "rich",
    "scipy",
    "yaml",
}

ONE_CASE = """\
from abreast import Experiment

if __name__ == "__main__":
    result = Experiment(
        cases=[{"id": "one", "input": "1 + 1", "expected": "2"}],
        variants={"a": {"accuracy": 1.0}, "b": {"accuracy": 0.5}},
        target="simulated",
        scorers=["exact"],
    ).run()
"""


def modules_after(code: str, folder: Path) -> set[str]:
    """The modules that a new interpreter has imported after running this code."""
    report = "\nimport json, sys\njson.dump(sorted(sys.modules), open('modules.json', 'w'))\n"
    environment = {**os.environ, "ABREAST_STATE": str(folder / "state")}
    subprocess.run([sys.executable, "-c", code + report], cwd=folder, env=environment, check=True, capture_output=True)
    return set(json.loads((folder / "modules.json").read_text()))


def test_the_tracker_imports_nothing_heavy(tmp_path: Path) -> None:
    assert not modules_after("from abreast import Tracker", tmp_path) & (HEAVY | {"abreast.output", "shutil"})


def test_tracking_imports_nothing_heavy(tmp_path: Path) -> None:
    code = "from abreast import Tracker\nTracker('rows.db').track(max, args=[1, 2])"
    assert not modules_after(code, tmp_path) & (HEAVY - {"importlib.metadata"})  # of installed code, the version counts


@pytest.mark.parametrize("words", ["--help", "--version", "report --help", "runs", "ls", "tag --help"])
def test_light_commands_import_nothing_heavy(words: str, tmp_path: Path) -> None:
    (tmp_path / "results.db").touch()
    code = f"from abreast.cli import main\nmain({words.split()!r})"
    assert not modules_after(code, tmp_path) & HEAVY


def test_a_run_imports_neither_scipy_nor_agents(tmp_path: Path) -> None:
    """A comparison needs quantiles of Student's t, medians and roots: all without scipy."""
    modules = modules_after(ONE_CASE, tmp_path)
    assert not modules & {"aiohttp", "duckdb", "numpy.ma", "pandas", "scipy"}
    assert not modules & {
        "abreast.targets.agents.agent",
        "abreast.targets.workspace",
        "abreast.targets.mcp",
        "abreast.suites",
    }
    assert "abreast.report.page.html" not in modules, "only commands that write a page import it"


def test_the_command_imports_only_what_its_run_needs(tmp_path: Path) -> None:
    """Without processes to watch, leftovers, a locked plan or changed files."""
    (tmp_path / "cases.jsonl").write_text('{"id": "one", "input": "1 + 1", "expected": "2"}\n')
    (tmp_path / "spec.yaml").write_text(
        "cases: cases.jsonl\nvariants: {a: {accuracy: 1.0}, b: {accuracy: 0.5}}\ntarget: simulated\nscorers: [exact]\n"
    )
    modules = modules_after('from abreast.cli import main\nassert main(["run", "spec.yaml", "--quiet"]) == 0', tmp_path)
    assert "abreast.report.page.html" in modules
    assert not modules & {"multiprocessing.spawn", "numpy.ma", "psutil", "tomllib"}
    assert not modules & {
        "abreast.execute.limits.adaptive",
        "abreast.execute.engine.governor",
        "abreast.plan.lock",
        "abreast.report.page.artifact_files",
        "abreast.report.page.changes",
    }


def test_a_run_leaves_the_garbage_collector_as_it_was(tmp_path: Path) -> None:
    modules_after(f"import gc\nbefore = gc.get_threshold()\n{ONE_CASE}\nassert gc.get_threshold() == before", tmp_path)


def test_trials_start_before_the_analysis_is_imported(tmp_path: Path) -> None:
    code = """
import json, sys
from abreast import Experiment

def answer(case):
    return json.dumps([name for name in ("abreast.analyse.run", "abreast.report.page.html") if name in sys.modules])

result = Experiment(cases=[{"id": "one", "input": "x"}], variants={"a": {}}, target=answer).run()
assert result.rows()[0]["answer"] == "[]", result.rows()[0]["answer"]
"""
    modules_after(code, tmp_path)


def test_templates_are_compiled_once(tmp_path: Path) -> None:
    """The second report loads the templates that the first one compiled; a damaged file is recompiled."""
    code = """
from abreast.report.page import rendering
rendering.environment().get_template("page.html.j2")
"""
    assert "jinja2.compiler" in modules_after(code, tmp_path)
    folder = tmp_path / "state" / "templates"
    (compiled,) = folder.iterdir()
    before = compiled.stat().st_mtime_ns
    modules_after(code, tmp_path)
    assert compiled.stat().st_mtime_ns == before, "it was written again"
    compiled.write_bytes(compiled.read_bytes()[:40])
    modules_after(code, tmp_path)
    assert compiled.stat().st_size > 40


def test_compiled_templates_of_other_users_are_not_run(tmp_path: Path) -> None:
    """A user who can write to the template folder could run code in the report."""
    folder = tmp_path / "state" / "templates"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    code = "from abreast.report.page import rendering\nrendering.environment().get_template('page.html.j2')"
    modules_after(code, tmp_path)
    assert not list(folder.iterdir())

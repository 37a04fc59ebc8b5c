"""The main step of the action: run the experiment, and compare it with the base branch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.analyse.compare import FINISHED
from abreast.analyse.decision import gates
from abreast.errors import BadInput, Incomplete
from abreast.github.caches import move
from abreast.github.workflow import Workflow, branch_label, current, log
from abreast.report.formats.github import collapsible, inert
from abreast.report.formats.github_commands import append, command, write_outputs
from abreast.report.formats.markdown import safe
from abreast.store import open_store

ABREAST = [sys.executable, "-m", "abreast"]
OUTPUT = 1  # file descriptor of this step's standard output; workflow commands in it are quoted while the command runs
LONGEST_COMMENT = 65_000  # characters; GitHub takes 65,536
ANNOTATIONS = ("::error ", "::warning ", "::notice ")
FILE_COMMANDS = ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")


@dataclass(frozen=True, slots=True)
class _Report:
    """The report of an abreast command."""

    code: int
    outputs: dict[str, str]
    text: str  # Markdown
    errors: str

    @property
    def outcome(self) -> str:
        return self.outputs.get("outcome", "no_comparison")


def run() -> int:
    """Run the experiment, compare it with the base branch, and write the comment."""
    workflow = current()
    policy = os.environ.get("ON_INCONCLUSIVE")
    if policy not in ("pass", "fail"):
        raise BadInput(f'on-inconclusive "{policy}": must be pass or fail')
    gates.requirements(_requirements(), policy)  # refuse invalid ones before anything is spent
    shutil.rmtree(workflow.output, ignore_errors=True)
    workflow.output.mkdir(parents=True)
    _merge_base(workflow)
    code, result = _execute(workflow)
    if result is None:
        return _without_result(workflow, code)
    against_base, explanation = _compare(workflow, result)
    path = workflow.output / "github.md"
    itself = _report(["report", result["run"], *_store(workflow), "--output", str(workflow.output)], path)
    has_base = against_base is not None and against_base.outcome != "no_comparison"
    chosen = against_base if against_base is not None and has_base else itself
    write_outputs(**(itself.outputs | chosen.outputs | {"run": result["run"]}))
    details = collapsible(f"The run {result['run']}", itself.text) if against_base else itself.text
    _write_comment(workflow, against_base.text if against_base else explanation, details)
    if code == Incomplete.exit_code:
        advice = "answers so far are kept; run the job again to continue"
        log(command("error", f"{result['run']} is incomplete: {result['reason']}; {advice}", title="abreast"))
    return code or (against_base.code if against_base else 0)


def _merge_base(workflow: Workflow) -> None:
    """Add the runs of the base branch to the store."""
    store, base = Path(workflow.store), workflow.base_store / Path(workflow.store).name
    if not workflow.is_cached or not base.exists():
        return
    if not store.exists():
        move(base, store.parent)
        return
    with _quoted():
        words = ["merge", str(base), "--into", str(store)]
        done = subprocess.run([*ABREAST, *words], check=False, stderr=OUTPUT)
    if done.returncode:
        log(command("warning", "cannot read the runs of the base branch; see the log", title="abreast"))


def _execute(workflow: Workflow) -> tuple[int, dict[str, Any] | None]:
    """Run the experiment. Returns the exit code, and the result if there is one."""
    words = ["run", workflow.spec, *_store(workflow), "--label", workflow.label, "--output", str(workflow.output)]
    words += [*_arguments("ARGUMENTS"), "--json"]
    environment = {name: value for name, value in os.environ.items() if name not in FILE_COMMANDS}
    path = workflow.output / "result.json"
    with _quoted(), path.open("wb") as file:
        code = subprocess.run([*ABREAST, *words], check=False, env=environment, stdout=file, stderr=OUTPUT)
    try:
        (result,) = json.loads(path.read_bytes())
    except ValueError:
        return code.returncode or 1, None
    with _quoted():
        log("\n".join(result["summary"]))
    return code.returncode, result


@contextlib.contextmanager
def _quoted() -> Iterator[None]:
    """Keep the runner from executing workflow commands in the output, parts of which models write."""
    token = secrets.token_hex(16)
    log(f"::stop-commands::{token}")
    try:
        yield
    finally:
        log(f"::{token}::")


def _compare(workflow: Workflow, result: dict[str, Any]) -> tuple[_Report | None, str]:
    """Compare with the last run on the base branch; without a comparison, return why as Markdown."""
    branch, base = workflow.branch, _base_run(workflow, result)
    if base is None:
        why = f"The branch {branch} has no finished run to compare with."
        return None, _explain(f"{why} Run the workflow on pushes to it as well.")
    words = ["compare", base, result["run"], *_store(workflow), "--margin", str(result["margin"] or 0)]
    words += [word for line in _requirements() for word in ("--fail-if", line)]
    words += ["--on-inconclusive", os.environ["ON_INCONCLUSIVE"]]
    path = workflow.output / "comparison.md"
    report = _report([*words, "--allow-unchanged", "--output", str(path)], path)
    if report.text:
        return report, ""
    problem = report.errors.strip().removeprefix("error: ").partition("\n")[0]
    if problem.startswith("--fail-if"):
        raise BadInput(problem, "change `fail-if` of the action")
    if report.code != BadInput.exit_code:
        raise BadInput(f"`abreast compare` failed (exit code {report.code}): {problem}", "see the log of this step")
    return None, _explain(f"Not compared with the branch {branch}: {problem}.")


def _requirements() -> list[str]:
    return [line for line in os.environ.get("FAIL_IF", "").splitlines() if line.strip()]


def _explain(why: str) -> str:
    """Print why there is no comparison, and add it to the job summary. Returns it as Markdown."""
    log(command("notice", why, title="abreast"))
    text = inert(safe(why))
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        append(path, f"{text}\n\n")
    return f"{text}\n"


def _base_run(workflow: Workflow, result: dict[str, Any]) -> str | None:
    """Find the last finished run of this experiment on the base branch, before this one."""
    label = branch_label(workflow.branch)
    with open_store(workflow.store) as store:
        runs = [
            run
            for run in store.runs()
            if run["experiment"] == result["experiment"] and run["label"] == label and not run["debug"]
        ]
    earlier = [run for run in runs if run["status"] in FINISHED and run["run"] != result["run"]]
    return max(earlier, key=lambda run: float(run["created_at"]))["run"] if earlier else None


def _report(words: list[str], path: Path) -> _Report:
    """Run a command that writes a report for GitHub to a file; its annotations go to the log."""
    outputs = path.with_suffix(".outputs")
    environment = os.environ | {"GITHUB_OUTPUT": str(outputs)}
    done = subprocess.run(
        [*ABREAST, *words, "--format", "github"], check=False, env=environment, capture_output=True, text=True
    )
    for line in done.stderr.splitlines():
        if line.startswith(ANNOTATIONS):
            log(line)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return _Report(done.returncode, _read_outputs(outputs), text, done.stderr)


def _read_outputs(path: Path) -> dict[str, str]:
    """Read the outputs that a command wrote to a file."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return {match[1]: match[3] for match in re.finditer(r"^(\w+)<<(\S+)\n(.*?)\n\2$", text, re.M | re.S)}


def _without_result(workflow: Workflow, code: int) -> int:
    write_outputs(outcome="no_comparison", run="", verdict="the run has no result")
    why = f"`abreast run` ended without a result (exit code {code}); see the log."
    log(command("error", why, title="abreast"))
    _write_comment(workflow, f"## ⚠️ {inert(safe(workflow.spec))}: no result\n\n{why}\n", "")
    return code


def _write_comment(workflow: Workflow, first: str, second: str) -> None:
    text = f"{first}\n\n{second}"
    if len(text) > LONGEST_COMMENT:
        text = f"{first}\n\nThe rest is too long for a comment; see the job summary.\n"
    workflow.body.write_text(text, encoding="utf-8")


def _store(workflow: Workflow) -> list[str]:
    return ["--store", workflow.store]


def _arguments(name: str) -> list[str]:
    try:
        return shlex.split(os.environ.get(name, ""))
    except ValueError as error:
        raise BadInput(f"{name.lower()}: {error}", "close the quotation marks") from None

"""Run tests without an agent, to find those that an agent must make pass and those that it must not break.

As in SWE-bench, FAIL_TO_PASS (`f2p`) are the tests that fail before the human change and pass after it, PASS_TO_PASS
(`p2p`) those that pass before and after it. Tests whose results differ between two runs of the human change are flaky,
and belong to neither. Results are computed once per case and stored in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
from collections.abc import Awaitable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from abreast.store.user_state.folders import cache_folder
from abreast.targets.checks.check_runs import CheckContext, CheckRun, CheckTask, run_all, run_command, run_in_workspace
from abreast.targets.checks.test_results import Reporter, Results

MAX_NAMED = 20  # names of tests stored with a trial
REST_TIMEOUT_S = 300.0  # time limit for the rest of the suite, with the human change
COUNTS = ("f2p_passed", "f2p_total", "p2p_passed", "p2p_total")
NO_TARGET = "no test fails before the change and passes after it"
CheckFacts = dict[str, Any]
"""The outcome of a check as stored with an answer; scores are computed from this alone."""


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """The results of a check without an agent. `facts` are stored with each answer; without `f2p` and `p2p`, exit codes
    count instead of individual tests. The field names are part of the stored format."""

    facts: CheckFacts = field(default_factory=dict)
    f2p: tuple[str, ...] = ()
    p2p: tuple[str, ...] = ()
    flaky: int = 0
    runs_rest: bool = False  # whether the rest of the suite counts as well
    output: str = ""
    start: Results = field(default_factory=dict)  # results at the start of trials, if there is no human change

    @property
    def has_tests(self) -> bool:
        return bool(self.f2p)


def why_uninformative(facts: CheckFacts) -> str:
    """Explain why a check cannot judge any agent; empty if it can."""
    if facts.get("problem") or facts.get("untested"):
        return str(facts.get("problem") or facts["untested"])
    if facts.get("before") == "passed":
        return "succeeds without any change"
    return f"also fails with the human change: {facts['human_told']}" if facts.get("human") == "failed" else ""


async def find_reference(task: CheckTask, trial: CheckContext, lists_tests: bool = False) -> ReferenceResult:
    """Run the tests before the human change, and twice after it. The rest of the suite is run for a limited time, and
    only if its command is known and the tests of the case are informative. `lists_tests` always runs the command
    before the change, to learn which tests there are."""
    commit, before = task.own.commit, CheckRun()
    facts: CheckFacts = {}
    must_fail = bool(task.own.tests) or task.check.fails_before
    if must_fail or lists_tests:
        before = await _run_before(task, trial, task.words, task.check.timeout_s)
    if must_fail:
        facts = _facts("before", before)
    if commit is None or why_uninformative(facts):
        return ReferenceResult(facts, output=before.output, start=dict(before.results or {}) if lists_tests else {})

    def is_target(run: CheckRun) -> bool:
        return bool(compare_runs(before.results or {}, run.results or {}, run.results or {})[0])

    def run_with_solution(rest_s: float) -> Awaitable[tuple[CheckRun, Results | None, bool]]:
        return run_in_workspace(
            trial,
            lambda: trial.workspaces.make_at(commit, trial.case, trial.value),
            lambda folder: run_all(task, folder, trial, rest_s, is_target),
        )

    run, results, runs_rest = await run_with_solution(REST_TIMEOUT_S)
    facts |= _facts("human", run)
    if "before" not in facts or "problem" in facts or (results is None and not run.passed):
        return ReferenceResult(facts, output=run.output)
    if results is not None and not is_target(run):
        passes = "passed" in results.values()
        return ReferenceResult({**facts, "untested": NO_TARGET} if passes else facts, output=run.output)
    second_run, repeated, _ = await run_with_solution(REST_TIMEOUT_S if runs_rest else 0.0)
    if results is None:
        reason = f"is flaky: passed with the human change, then {second_run.message}"
        flaky = {} if second_run.passed else {"untested": reason}
        return ReferenceResult({**facts, **flaky}, output=run.output)
    earlier = dict(before.results or {})
    if runs_rest:
        rest = await _run_before(task, trial, task.rest, task.check.timeout_s)
        earlier = {**(rest.results or {}), **earlier}
    f2p, p2p, unstable = compare_runs(earlier, results, repeated or {})
    human: CheckFacts = {"untested": NO_TARGET}
    if f2p:  # tests that fail with the human change do not count
        human = {"human": "passed", "f2p_total": len(f2p), "p2p_total": len(p2p)}
    return ReferenceResult(
        facts={**facts, **human}, f2p=f2p, p2p=p2p, flaky=unstable, runs_rest=runs_rest, output=run.output
    )


def _run_before(task: CheckTask, trial: CheckContext, words: Sequence[str], timeout_s: float) -> Awaitable[CheckRun]:
    return run_in_workspace(
        trial,
        lambda: trial.workspaces.make(trial.case, trial.value, trial.state),
        lambda folder: run_command(task, words, folder, trial, timeout_s),
        task,
    )


def _facts(name: str, run: CheckRun) -> CheckFacts:
    if run.problem:
        return {"problem": run.problem}
    return {name: "passed" if run.passed else "failed", f"{name}_told": run.message}


def compare_runs(before: Results, human: Results, repeated: Results) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Determine FAIL_TO_PASS, PASS_TO_PASS and the number of flaky tests.

    >>> compare_runs({"b": "passed"}, dict.fromkeys("abc", "passed"), dict.fromkeys("ab", "passed"))
    (('a',), ('b',), 1)
    """
    names = sorted({*human, *repeated})
    flaky = {name for name in names if human.get(name) != repeated.get(name)}
    stable = [name for name in names if name not in flaky and human[name] == "passed"]
    passed_before = {name for name, status in before.items() if status == "passed"}
    f2p = tuple(name for name in stable if name not in passed_before)
    return f2p, tuple(name for name in stable if name in passed_before), len(flaky)


def judge(reference: ReferenceResult, run: CheckRun, results: Results) -> CheckFacts:
    failing = [name for name in reference.f2p if results.get(name) != "passed"]
    broken = [name for name in reference.p2p if results.get(name) != "passed"]
    totals = {"f2p_total": len(reference.f2p), "p2p_total": len(reference.p2p)}
    passed = {"f2p_passed": len(reference.f2p) - len(failing), "p2p_passed": len(reference.p2p) - len(broken)}
    parts = [f"{passed['f2p_passed']} of {totals['f2p_total']} target tests pass"]
    parts += [f"still failing: {short_list(failing)}"] if failing else []
    parts += [f"{len(broken)} of {totals['p2p_total']} other tests broken: {short_list(broken)}"] if broken else []
    return {
        "passed": not failing and not broken,
        "told": "; ".join([*parts, run.message]),
        **({} if run.seconds is None else {"seconds": run.seconds}),
        **passed,
        **totals,
        **({"still_failing": failing[:MAX_NAMED]} if failing else {}),
        **({"regressions": broken[:MAX_NAMED]} if broken else {}),
    }


def find_avoided(start: Results, now: Results, restored: Collection[str], reporter: Reporter) -> list[str]:
    """Find tests of restored files that ran at the start and do not pass now. If the command succeeded, they were
    switched off: by settings of the runner, by code that ends it, or by a program in its place.

    Parametrised tests are one test. Go and Cargo do not report the file of a test: for Go all tests except
    subtests count, for Cargo those outside modules, since tests in separate files are not in a module.

    >>> find_avoided({"tests.test_a::test_b[1]": "failed", "app::doctest": "passed"}, {}, ["tests/test_a.py"], "")
    ['tests.test_a::test_b']
    >>> find_avoided({"a::TestB": "passed", "a::TestB/c": "passed"}, {}, ["a/b_test.go"], "go")
    ['a::TestB']
    >>> find_avoided({"adds": "failed", "tests::inner": "passed"}, {"tests::other": "passed"}, ["tests/a.rs"], "cargo")
    ['adds']
    """
    modules = {str(PurePosixPath(name).with_suffix("")).replace("/", ".") for name in restored}

    def is_restored(name: str) -> bool:
        owner, _, test = name.partition("::")
        if reporter == "go":
            return "/" not in test
        if reporter == "cargo":
            return not test and " - " not in owner  # not a documentation test
        return owner in restored or not modules.isdisjoint(_packages(owner))

    expected = dict.fromkeys(
        _without_parameters(name) for name, status in start.items() if status != "skipped" and is_restored(name)
    )
    passed = {_without_parameters(name) for name, status in now.items() if status == "passed"}
    imported = {module for name in passed for module in _packages(name.partition("::")[0])}
    # At the start, a module that failed to import is one test with the name of the module.
    return [name for name in expected if name not in passed and name not in imported]


def _packages(module: str) -> list[str]:
    """Return a module and the packages that contain it.

    >>> _packages("tests.unit.test_a")
    ['tests', 'tests.unit', 'tests.unit.test_a']
    """
    return list(itertools.accumulate(module.split("."), lambda package, name: f"{package}.{name}"))


def _without_parameters(name: str) -> str:
    owner, separator, test = name.partition("::")
    return f"{owner}{separator}{test.partition('[')[0]}"


def short_list(names: Iterable[str]) -> str:
    first, *rest = list(names)
    return f"{first} and {len(rest)} more" if rest else first


def load_reference(key: str) -> ReferenceResult | None:
    with contextlib.suppress(OSError, ValueError, TypeError, RuntimeError):
        fields = json.loads(_path(key).read_text(encoding="utf-8"))
        return ReferenceResult(**{**fields, "f2p": tuple(fields["f2p"]), "p2p": tuple(fields["p2p"])})
    return None


def save_reference(key: str, reference: ReferenceResult) -> None:
    with contextlib.suppress(OSError, RuntimeError):
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        temporary.write_text(json.dumps(asdict(reference)), encoding="utf-8")
        temporary.replace(path)


def _path(key: str) -> Path:
    return cache_folder() / "tests" / f"{key}.json"

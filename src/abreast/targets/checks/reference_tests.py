"""What tests say without an agent: which of them an agent must make pass, and which it must not break.

As in SWE-bench, FAIL_TO_PASS (`f2p`) are the tests that fail before the human change and pass after it, PASS_TO_PASS
(`p2p`) those that pass in both. Tests that do not give the same result in two runs of the human state are flaky, and
are neither. Found out once per case and kept in the user's cache folder.
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
from abreast.targets.checks.check_runs import CheckRun, Task, Trialled, run_all, run_command, run_elsewhere
from abreast.targets.checks.test_results import Reporter, Results

NAMED = 20  # tests named in a row
REST_S = 300.0  # for the rest of the suite, in what people did
COUNTS = ("f2p_passed", "f2p_total", "p2p_passed", "p2p_total")
NO_TARGET = "no test fails before the change and passes after it"
Told = dict[str, Any]
"""How a check went, as it is stored: scores are made of this alone."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What is known of a check without an agent. `facts` are stored with each answer; without `f2p` and `p2p` there are
    no results of single tests, and exit codes count."""

    facts: Told = field(default_factory=dict)
    f2p: tuple[str, ...] = ()
    p2p: tuple[str, ...] = ()
    flaky: int = 0
    runs_rest: bool = False  # whether the rest of the suite is part of it
    output: str = ""
    start: Results = field(default_factory=dict)  # of single tests in what trials begin with, if no commit says more

    @property
    def has_tests(self) -> bool:
        return bool(self.f2p)


def says_nothing(told: Told) -> str:
    """Why it says nothing of any agent; empty if it does."""
    if told.get("problem") or told.get("untested"):
        return str(told.get("problem") or told["untested"])
    if told.get("before") == "passed":
        return "succeeds without any change"
    return f"fails in what people did too: {told['human_told']}" if told.get("human") == "failed" else ""


async def find_reference(task: Task, trial: Trialled, lists_tests: bool = False) -> Reference:
    """Run the tests before the human change, and twice after it. The rest of the suite, where it is known how to run
    it, is run for a limited time, and only where the tests of the case say something. With `lists_tests` the command is
    run before in any case, to know which tests there are."""
    commit, before = task.own.commit, CheckRun()
    facts: Told = {}
    must_fail = bool(task.own.tests) or task.check.fails_before
    if must_fail or lists_tests:
        before = await _run_before(task, trial, task.words, task.check.timeout_s)
    if must_fail:
        facts = _facts("before", before)
    if commit is None or says_nothing(facts):
        return Reference(facts, output=before.output, start=dict(before.results or {}) if lists_tests else {})

    def is_target(run: CheckRun) -> bool:
        return bool(compare(before.results or {}, run.results or {}, run.results or {})[0])

    def in_human(rest_s: float) -> Awaitable[tuple[CheckRun, Results | None, bool]]:
        return run_elsewhere(
            trial,
            lambda: trial.workspaces.make_at(commit, trial.case, trial.value),
            lambda folder: run_all(task, folder, trial, rest_s, is_target),
        )

    run, results, runs_rest = await in_human(REST_S)
    facts |= _facts("human", run)
    if "before" not in facts or "problem" in facts or (results is None and not run.passed):
        return Reference(facts, output=run.output)
    if results is not None and not is_target(run):
        passes = "passed" in results.values()
        return Reference({**facts, "untested": NO_TARGET} if passes else facts, output=run.output)
    again, repeated, _ = await in_human(REST_S if runs_rest else 0.0)
    if results is None:
        flaky = {} if again.passed else {"untested": f"is flaky: in what people did once passed, then {again.message}"}
        return Reference({**facts, **flaky}, output=run.output)
    earlier = dict(before.results or {})
    if runs_rest:
        rest = await _run_before(task, trial, task.rest, task.check.timeout_s)
        earlier = {**(rest.results or {}), **earlier}
    f2p, p2p, unstable = compare(earlier, results, repeated or {})
    human: Told = {"untested": NO_TARGET}
    if f2p:  # some tests may fail in what people did: they count neither way
        human = {"human": "passed", "f2p_total": len(f2p), "p2p_total": len(p2p)}
    return Reference(facts={**facts, **human}, f2p=f2p, p2p=p2p, flaky=unstable, runs_rest=runs_rest, output=run.output)


def _run_before(task: Task, trial: Trialled, words: Sequence[str], timeout_s: float) -> Awaitable[CheckRun]:
    return run_elsewhere(
        trial,
        lambda: trial.workspaces.make(trial.case, trial.value, trial.state),
        lambda folder: run_command(task, words, folder, trial, timeout_s),
        task,
    )


def _facts(name: str, run: CheckRun) -> Told:
    if run.problem:
        return {"problem": run.problem}
    return {name: "passed" if run.passed else "failed", f"{name}_told": run.message}


def compare(before: Results, human: Results, again: Results) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """FAIL_TO_PASS, PASS_TO_PASS and the number of flaky tests.

    >>> compare({"b": "passed"}, dict.fromkeys("abc", "passed"), dict.fromkeys("ab", "passed"))
    (('a',), ('b',), 1)
    """
    names = sorted({*human, *again})
    flaky = {name for name in names if human.get(name) != again.get(name)}
    stable = [name for name in names if name not in flaky and human[name] == "passed"]
    passed_before = {name for name, status in before.items() if status == "passed"}
    f2p = tuple(name for name in stable if name not in passed_before)
    return f2p, tuple(name for name in stable if name in passed_before), len(flaky)


def judge(reference: Reference, run: CheckRun, results: Results) -> Told:
    """How a run in what an agent left went, by single tests."""
    failing = [name for name in reference.f2p if results.get(name) != "passed"]
    broken = [name for name in reference.p2p if results.get(name) != "passed"]
    totals = {"f2p_total": len(reference.f2p), "p2p_total": len(reference.p2p)}
    passed = {"f2p_passed": len(reference.f2p) - len(failing), "p2p_passed": len(reference.p2p) - len(broken)}
    parts = [f"{passed['f2p_passed']} of {totals['f2p_total']} target tests pass"]
    parts += [f"still failing: {listed(failing)}"] if failing else []
    parts += [f"{len(broken)} of {totals['p2p_total']} other tests broken: {listed(broken)}"] if broken else []
    return {
        "passed": not failing and not broken,
        "told": "; ".join([*parts, run.message]),
        **({} if run.seconds is None else {"seconds": run.seconds}),
        **passed,
        **totals,
        **({"still_failing": failing[:NAMED]} if failing else {}),
        **({"regressions": broken[:NAMED]} if broken else {}),
    }


def find_avoided(start: Results, now: Results, restored: Collection[str], reporter: Reporter) -> list[str]:
    """Tests of restored files that ran at the start and do not pass now. Where a command succeeds, they were switched
    off: by settings of the runner, by code that ends it, by a program that takes its place.

    Tests with parameters are one test. Which file a test is in is not known of Go and Cargo: of the former all count
    but subtests, of the latter those that are in no module, as tests in files of their own are.

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
            return not test and " - " not in owner  # no test of documentation
        return owner in restored or not modules.isdisjoint(_packages(owner))

    wanted = dict.fromkeys(_plain(name) for name, status in start.items() if status != "skipped" and is_restored(name))
    passed = {_plain(name) for name, status in now.items() if status == "passed"}
    imported = {module for name in passed for module in _packages(name.partition("::")[0])}
    return [name for name in wanted if name not in passed and name not in imported]  # a module that failed to import


def _packages(module: str) -> list[str]:
    """A module and the packages it is in.

    >>> _packages("tests.unit.test_a")
    ['tests', 'tests.unit', 'tests.unit.test_a']
    """
    return list(itertools.accumulate(module.split("."), lambda above, name: f"{above}.{name}"))


def _plain(name: str) -> str:
    owner, separator, test = name.partition("::")
    return f"{owner}{separator}{test.partition('[')[0]}"


def listed(names: Iterable[str]) -> str:
    first, *rest = list(names)
    return f"{first} and {len(rest)} more" if rest else first


def load(key: str) -> Reference | None:
    """A reference that was found out earlier, with the same commits, command and environment."""
    with contextlib.suppress(OSError, ValueError, TypeError, RuntimeError):
        kept = json.loads(_path(key).read_text(encoding="utf-8"))
        return Reference(**{**kept, "f2p": tuple(kept["f2p"]), "p2p": tuple(kept["p2p"])})
    return None


def save(key: str, reference: Reference) -> None:
    """Keep a reference, if there is a folder for it."""
    with contextlib.suppress(OSError, RuntimeError):
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        written.write_text(json.dumps(asdict(reference)), encoding="utf-8")
        written.replace(path)


def _path(key: str) -> Path:
    return cache_folder() / "tests" / f"{key}.json"

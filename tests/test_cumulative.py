"""Chains of tasks in which agents continue from their earlier workspace."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import BadInput
from abreast.execute.engine.virtual import Behaviour, VirtualEngine
from abreast.execute.job import Job
from abreast.execute.listener import Listener
from abreast.model import Answer, Case, Failure, Outcome, Variant
from abreast.plan.plan import Plan, dispatch_order
from abreast.spec.cases import load_cases
from abreast.spec.schema import Limits
from abreast.suites.coding_agents.history import cases as cases_of
from abreast.targets import build
from abreast.targets.workspace import NotCarried, NoWorkspace, Workspaces, WorkspaceState
from conftest import Folder
from virtual import Memory, Rig, run

QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
AUTHORSHIP = {
    f"GIT_{role}_{field}": "ann@example.org" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")
}


def git(path: Path, *words: str, hour: int = 0) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    dates = {f"GIT_{role}_DATE": f"{1_700_000_000 + 3600 * hour} +0000" for role in ("AUTHOR", "COMMITTER")}
    environment = {**clean, **QUIET, **AUTHORSHIP, **dates}
    done = subprocess.run(["git", *words], cwd=path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def repository(path: Path, pull_requests: int = 3) -> Path:
    """A repository with a log and squashed pull requests."""
    path.mkdir()
    git(path, "init", "--quiet", "-b", "main")
    (path / "log.txt").write_text("start\n")
    (path / "large.bin").write_bytes(bytes(range(256)) * 40)
    (path / "old name.txt").write_text("".join(f"line {n}\n" for n in range(20)))
    (path / ".gitignore").write_text("*.o\n")
    git(path, "add", "-A")
    git(path, "commit", "--quiet", "-m", "Begin")
    for number in range(1, pull_requests + 1):
        with (path / "people.txt").open("a") as file:
            file.write(f"people {number}\n")
        git(path, "add", "-A")
        words = f"Write the line of the task {number} into the log (#{number})"
        git(path, "commit", "--quiet", "-m", words, hour=number)
    return path


AGENT = """
echo "$ABREAST_NAME {prompt}" >> "$ABREAST_FOLDER/calls.txt"
number=$(sed 's/.*task \\([0-9]*\\).*/\\1/' {prompt})
echo "saw $(tr '\\n' ' ' < log.txt)| $(echo *) | $(git status --porcelain) | $(git log --format=%s | tr '\\n' ' ')"
echo "$ABREAST_NAME-$number-$TOKEN" >> log.txt
"""


class Bench(Folder):
    """A folder with a repository and a settings file."""

    def settle(self, agents: dict[str, str], **more: Any) -> None:
        repository(self.path / "repo")
        own = {name: {"commandTemplate": text, "env": {"ABREAST_NAME": name}} for name, text in agents.items()}
        content = {
            "agents": list(agents),
            "agent_config": own,
            "mode": "PR_Recreate",
            "repo_path": "repo",
            "PR_Recreate": {"num_prs": 3, "cumulative": True},
            **more,
        }
        self.write("settings.json", json.dumps(content))

    def calls(self) -> int:
        path = self.path / "calls.txt"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def rows(self, fields: str = "*") -> list[dict[str, Any]]:
        latest = "run = (select run from runs order by run_id desc limit 1)"
        return self.sql(f"select {fields} from predictions where {latest} order by variant, repeat, case_id")


@pytest.fixture
def bench(folder: Folder) -> Bench:
    return Bench(folder.path, folder._capsys, folder._monkeypatch)


def test_each_task_starts_from_the_workspace_of_the_same_agent_and_repeat(bench: Bench) -> None:
    """Each trial writes a unique word; two agents run two repeats in parallel."""
    agent = "TOKEN=$(od -An -N6 -tx1 /dev/urandom | tr -d ' ')\n" + AGENT
    bench.settle({"a": agent, "b": agent}, runs_per_prompt=2, parallel_runs=2)
    done = bench.abreast("run", "settings.json")
    assert done.code == 0, done.output
    output = " ".join(done.out.split())
    assert "with one chain the cases are dependent and no interval can be trusted" in output
    assert "run without --cumulative" in output
    assert "3 cases in 1 chain" in done.err
    rows = bench.rows("variant, repeat, case_id, answer, carried_from, state_before, state_after, files_changed")
    words = set()
    for at in range(0, 12, 3):
        chain = rows[at : at + 3]
        logs = [row["answer"].partition("|")[0].split()[1:] for row in chain]
        name = chain[0]["variant"]
        assert logs[0] == ["start"]
        assert logs[2][:2] == logs[1]
        assert [word.rpartition("-")[0] for word in logs[2]] == ["", f"{name}-1", f"{name}-2"]
        words |= set(logs[2][1:])
        for number, row in enumerate(chain):
            _, files, status, history = (part.strip() for part in row["answer"].split("|"))
            assert "people.txt" not in files
            assert status == ""
            assert history.split() == [f"pr-{earlier}" for earlier in range(number, 0, -1)] + ["Begin"]
            assert row["files_changed"] == 1
        assert [row["carried_from"] for row in chain] == [None, "pr-1", "pr-2"]
        assert [row["state_before"] for row in chain[1:]] == [row["state_after"] for row in chain[:2]]
    assert len(words) == 8
    rerun = bench.abreast("run", "settings.json")
    assert rerun.code == 0, rerun.output
    assert bench.calls() == 12
    assert [row["answer"] for row in bench.rows("answer")] == [row["answer"] for row in rows]
    assert bench.abreast("report", "--format", "markdown").out.count("one chain") == 1
    names = {path.name for path in bench.path.glob("runs/*/artifacts/**/*") if path.is_file()}
    assert names, "changes are beside the page"
    assert not [name for name in names if "state" in name], "columns for programs do not"


def test_a_later_run_continues_the_chains_of_reused_answers(bench: Bench) -> None:
    """An answer from another start is not reused."""
    bench.settle({"a": AGENT, "b": AGENT}, parallel_agents=False)
    assert bench.abreast("run", "settings.json", "--limit", "2").code == 0
    assert bench.calls() == 4
    done = bench.abreast("run", "settings.json")
    assert done.code == 0, done.output
    assert bench.calls() == 6
    logs = [row["answer"].partition("|")[0].split()[2:] for row in bench.rows("answer") if "pr-2" in row["answer"]]
    assert logs == [["a-1-", "a-2-"], ["b-1-", "b-2-"]]
    changed = "update payloads set data = json_set(data, '$.state_after', 'other') where position = 1"  # b's of pr-1
    assert bench.abreast("sql", "--write", "results.db", f"{changed} and run_id = 2").code == 0
    assert "6 already done" in bench.abreast("check", "settings.json").output, "it is still that of the first run"
    assert bench.abreast("sql", "--write", "results.db", changed).code == 0
    assert "4 already done" in bench.abreast("check", "settings.json").output, "without b's of pr-2 and pr-3"
    assert bench.abreast("run", "settings.json", "--fresh", "--variant", "b").code == 0
    assert bench.calls() == 9


def test_a_chain_continues_after_a_failure_of_the_variant_and_a_retry_repeats_the_rest(bench: Bench) -> None:
    """The second task is interrupted by a crash or a timeout."""
    fails = AGENT + '\nif [ "$number" = 2 ] && [ ! -e "$ABREAST_FOLDER/fixed" ]; then FAIL; fi'
    bench.settle({"crashes": fails.replace("FAIL", "exit 3"), "sleeps": fails.replace("FAIL", "sleep 100")})
    done = bench.abreast("run", "settings.json", "--timeout", "2")
    assert done.code == 0, done.output
    rows = bench.rows("status, error_kind, answer, carried_from, error_blame")
    assert [row["error_kind"] for row in rows] == [None, "crash", None, None, "timeout", None]
    for row, name in ((rows[2], "crashes"), (rows[5], "sleeps")):
        assert row["answer"].startswith(f"saw start {name}-1- {name}-2- |")
        assert row["carried_from"] == "pr-2"
    bench.write("fixed", "")
    assert bench.abreast("run", "settings.json", "--timeout", "2", "--variant", "crashes", "--retry-failed").code == 0
    assert bench.calls() == 8
    assert [row["status"] for row in bench.rows("status")] == ["ok"] * 3


def test_a_chain_stops_at_an_infrastructure_error_and_resume_continues_there(bench: Bench) -> None:
    own = 'if grep -q "task 2" {prompt} && [ ! -e "$ABREAST_FOLDER/fixed" ]; then exit 5; fi\n'
    breaks = (
        'if grep -q "task 2" {prompt} && [ ! -e "$ABREAST_FOLDER/fixed" ]; then echo x > half; nowhere; exit $?; fi\n'
    )
    bench.settle({"a": breaks + AGENT, "b": AGENT + own}, runs_per_prompt=2, parallel_agents=False)
    done = bench.abreast("run", "settings.json")
    assert done.code == 3, done.output
    assert "2 trials failed by infrastructure; 2 that depend on them were not run" in done.err
    rows = bench.rows("variant, repeat, case_id, status")
    assert [row["status"] for row in rows] == ["ok", "error"] * 2 + ["ok", "error", "ok"] * 2
    events = [json.loads(row["detail"]) for row in bench.sql("select detail from events where kind = 'left_out'")]
    assert sorted((event["case"], event["variant"], event["repeat"]) for event in events) == [
        ("pr-3", "a", 0),
        ("pr-3", "a", 1),
    ]
    bench.write("fixed", "")
    calls = bench.calls()
    assert bench.abreast("resume", "--retry-failed").code == 0
    assert bench.calls() == calls + 8
    for row in bench.rows("variant, case_id, answer, carried_from"):
        if row["case_id"] == "pr-3":
            assert row["answer"].startswith(
                f"saw start {row['variant']}-1- {row['variant']}-2- | large.bin log.txt old"
            )
            assert row["carried_from"] == "pr-2"


def test_a_killed_run_resumes_from_the_last_stored_workspace(bench: Bench) -> None:
    """The driver is killed during the second task, whose work is lost."""
    stuck = (
        AGENT + '\nif [ "$number" = 2 ] && [ ! -e "$ABREAST_FOLDER/go" ]; then touch "$ABREAST_FOLDER/at"; sleep 99; fi'
    )
    bench.settle({"a": stuck})
    process = bench.start("run", "settings.json")
    deadline = time.monotonic() + 30
    while not (bench.path / "at").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.communicate()
    bench.write("go", "")
    assert bench.abreast("resume").code == 0
    logs = [row["answer"].partition("|")[0].split()[1:] for row in bench.rows("answer")]
    assert logs == [["start"], ["start", "a-1-"], ["start", "a-1-", "a-2-"]]
    assert bench.calls() == 4


def test_checks_before_a_trial_see_the_workspace_it_starts_from(bench: Bench) -> None:
    """The check passes with two lines, so it already passes before the third task if the agent did two."""
    lazy = 'case "$(cat {prompt})" in *"task 1"*) ;; *) echo line >> log.txt; esac; echo done'
    bench.settle({"a": AGENT, "lazy": lazy}, check="sh -c 'test 3 -le $(wc -l < log.txt)'")
    done = bench.abreast("run", "settings.json")
    assert done.code == 0, done.output
    scores = [row["score_tests"] for row in bench.rows("score_tests")]
    assert scores == [0, 1, None, 0, 0, 1]


def test_an_inexact_state_or_one_with_a_secret_is_not_carried_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial that writes the key succeeds; the next one says why it did not start, and the key is not stored."""
    monkeypatch.setenv("MY_API_KEY", "sk-12345678-abcdefg")
    monkeypatch.setattr("abreast.targets.workspace.git.scan.LARGE", 30_000)
    bench.settle(
        {
            "tells": AGENT + '\nif [ "$number" = 1 ]; then echo "$MY_API_KEY" > notes.txt; fi',
            "swells": AGENT + '\nif [ "$number" = 2 ]; then head -c 40000 /dev/zero > film.bin; fi',
        }
    )
    done = bench.abreast("run", "settings.json")
    assert done.code == 3, done.output
    rows = {(row["variant"], row["case_id"]): row for row in bench.rows("variant, case_id, status, error, error_kind")}
    assert rows["tells", "pr-1"]["status"] == rows["swells", "pr-2"]["status"] == "ok"
    assert rows["tells", "pr-2"]["error_kind"] == rows["swells", "pr-3"]["error_kind"] == "not_carried"
    assert "it contains MY_API_KEY, and keys are not stored" in rows["tells", "pr-2"]["error"]
    assert "'film.bin' is too large" in rows["swells", "pr-3"]["error"]
    assert ("tells", "pr-3") not in rows
    stored = b"".join(path.read_bytes() for path in bench.path.glob("results.db*"))
    assert b"sk-12345678" not in stored


def test_a_chain_must_be_complete_and_in_order(bench: Bench) -> None:
    bench.settle({"a": AGENT})
    refused = bench.abreast("run", "settings.json", "--case", "pr-3")
    assert refused.code == 2
    assert "case pr-3 continues from pr-2, which is not among the cases" in refused.err
    refused = bench.abreast("run", "settings.json", "--until-decided", "--margin", "0.1")
    assert refused.code == 2
    assert "form one chain and cannot stop early" in refused.err
    spec = """\
    cases: [{{id: one, input: {{after: {first}}}, group: {group}}}, {{id: two, input: {{after: one}}, group: g}}]
    target: command
    params: {{prompt: go, workspace: {{{workspace}, after: "{{{{ after }}}}"}}}}
    variants: {{a: {{command: [cat]}}}}
    """
    for first, group, workspace, message in (
        ("two", "g", "git: repo", "case one continues from two, which comes after it"),
        ('""', "h", "git: repo", "so they are not independent, but they have no common group"),
        ('""', "g", "copy: repo", "after needs git, not copy"),
        ('""', "g", "git: repo, without: [log.txt]", "after and without cannot be combined"),
    ):
        bench.write("spec.yaml", spec.format(first=first, group=group, workspace=workspace))
        refused = bench.abreast("check", "spec.yaml")
        assert refused.code == 2
        assert message in refused.err
    with pytest.raises(BadInput, match="cumulative must be true or false"):
        list(cases_of(str(bench.path / "repo"), cumulative="yes"))  # type: ignore[arg-type]


def test_named_pull_requests_form_a_chain_from_the_oldest(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    cases = list(cases_of(str(repo), commits=["main", "main~2"], cumulative=True))
    begin = git(repo, "rev-parse", "main~3")
    assert [case.id for case in cases] == ["pr-1", "pr-3"]
    assert [case.input["after"] for case in cases] == ["", "pr-1"]
    assert {case.input["start"] for case in cases} == {begin}
    assert len({case.group for case in cases}) == 1


# -- what is carried ---------------------------------------------------------------------------------------------------


@pytest.fixture
def workspaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspaces]:
    monkeypatch.setenv("ABREAST_WORKSPACES", str(tmp_path / "root"))
    repo = repository(tmp_path / "repo")
    setting = {"git": str(repo), "commit": "main", "after": "{{ after }}"}
    workspaces_ = Workspaces("a", setting, tmp_path)
    yield workspaces_
    workspaces_.close()


CASE = Case("c", {"after": ""})


def file_tree(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Type, executable bit and content of every file, by path."""
    tree: dict[str, tuple[Any, ...]] = {}
    for top, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for path in (Path(top) / name for name in [*files, *folders]):
            key = str(path.relative_to(folder))
            if path.is_symlink():
                tree[key] = ("link", path.readlink())
            elif path.is_file():
                tree[key] = ("file", bool(path.stat().st_mode & 0o100), path.read_bytes())
    return tree


def state_after(workspaces: Workspaces, state: WorkspaceState | None, change: Any) -> WorkspaceState:
    """The state of a workspace that starts from a state, after a change."""
    workspace = workspaces.make(CASE, CASE.input, state)
    try:
        change(workspace.path)
        result = workspace.final_diff("pr-1", lambda _content: None)
        assert result.state is not None, result.not_carried
        restored = workspaces.make(CASE, CASE.input, WorkspaceState.of_text(result.state.as_text()))
        files = {name: content for name, content in file_tree(workspace.path).items() if not name.endswith(".o")}
        assert file_tree(restored.path) == files
        assert git(restored.path, "status", "--porcelain") == ""
        assert git(restored.path, "for-each-ref", "--format=%(refname)") == "refs/heads/main"
        assert not restored.diff().files
        restored.remove()
        return result.state
    finally:
        workspace.remove()


def test_files_of_every_kind_are_carried_exactly(workspaces: Workspaces) -> None:
    """Binary files, odd names, deletions, renames, modes and links, committed or not; but no ignored files."""

    def first(work: Path) -> None:
        (work / "large.bin").write_bytes(b"\xff\x00" + (work / "large.bin").read_bytes()[3:])
        (work / "old name.txt").rename(work / "new\nname.txt")
        (work / "tool").write_text("#!/bin/sh\r\necho \xe9\r\n")
        (work / "tool").chmod(0o755)
        (work / "link").symlink_to("nowhere/at all")
        Path(os.fsdecode(os.fsencode(work) + b"/latin-\xe9.txt")).write_bytes(b"\xe9\n")
        (work / "built.o").write_text("ignored")
        (work / "sub").mkdir()
        (work / "sub" / "committed.txt").write_text("by the agent\n")
        git(work, "add", "-A")
        git(work, "commit", "--quiet", "-m", "mine")
        (work / "log.txt").unlink()

    def second(work: Path) -> None:
        (work / "tool").chmod(0o644)
        (work / "link").unlink()
        (work / "link").write_text("a file now\n")
        (work / "sub" / "committed.txt").unlink()
        (work / "sub").rmdir()
        (work / "sub").symlink_to("link")
        subprocess.run(["rm", "-rf", ".git"], cwd=work, check=True)

    def no_change(work: Path) -> None:
        git(work, "commit", "--quiet", "--allow-empty", "-m", "nothing")

    def remove_all(work: Path) -> None:
        subprocess.run(["rm", "-rf", str(work)], check=True)
        work.mkdir()

    state_one = state_after(workspaces, None, first)
    two = state_after(workspaces, state_one, second)
    assert state_after(workspaces, two, no_change) == two
    state_after(workspaces, two, remove_all)
    assert state_after(workspaces, None, no_change).objects == b""


def test_submodules_and_large_files_stay_and_a_clone_may_be_shallow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABREAST_WORKSPACES", str(tmp_path / "root"))
    monkeypatch.setattr("abreast.targets.workspace.git.scan.LARGE", 1_000)
    repo = repository(tmp_path / "repo")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{git(repo, 'rev-parse', 'HEAD')},vendor")
    git(repo, "commit", "--quiet", "-m", "Add a submodule")
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repo}", "shallow")
    shallow = Workspaces("a", {"git": "shallow", "after": "{{ after }}"}, tmp_path)
    workspace = shallow.make(CASE, CASE.input)
    (workspace.path / "log.txt").write_text("changed\n")
    state = workspace.final_diff("one", lambda _content: None).state
    assert state is not None
    restored = shallow.make(CASE, CASE.input, state)
    tree = git(restored.path, "ls-tree", "-r", "HEAD")
    assert "160000 commit" in tree
    assert (restored.path / "large.bin").read_bytes() == (repo / "large.bin").read_bytes()
    workspace.remove()
    restored.remove()
    shallow.close()


def test_a_state_that_was_changed_in_the_store_is_refused(workspaces: Workspaces) -> None:
    workspace = workspaces.make(CASE, CASE.input)
    (workspace.path / "log.txt").write_text("x\n")
    state = workspace.final_diff("one", lambda _content: None).state
    workspace.remove()
    assert state is not None
    text = state.as_text()
    damaged = WorkspaceState.of_text(text[:-40] + "AAAA" + text[-36:])
    with pytest.raises(NoWorkspace, match="workspace: "):
        workspaces.make(CASE, CASE.input, damaged)
    for broken in ("", "no commit\n", f"{state.commit}\n[KEY]"):
        with pytest.raises(NotCarried):
            WorkspaceState.of_text(broken)


# -- the order ---------------------------------------------------------------------------------------------------------


@st.composite
def chained(draw: st.DrawFn) -> tuple[list[str | None], list[list[int]]]:
    """Groups of cases, and for two variants the previous case of each in its group."""
    groups = draw(st.lists(st.sampled_from(["g", "h", None]), min_size=1, max_size=9))
    before = []
    for _ in range(2):
        row = []
        for index, group in enumerate(groups):
            earlier = [position for position in range(index) if groups[position] == group and group is not None]
            row.append(draw(st.sampled_from([-1, *earlier])))
        before.append(row)
    return groups, before


def fail_by_chance(endings: random.Random, failing: float) -> Behaviour:
    """Attempts take a second or more; some fail, half of them by the network."""

    def behave(job: Job) -> tuple[float, Outcome]:
        chance = endings.random()
        outcome = Outcome("ok", Answer("yes"))
        if chance < failing:
            outcome = Outcome("error", failure=Failure("network", "infrastructure", "down"))
        elif chance < 2 * failing:
            outcome = Outcome("error", failure=Failure("crash", "variant", "broke"))
        return 1.0 + chance, outcome

    return behave


class Notes(Listener):
    """The events of each trial, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int]] = []
        self.stands: dict[int, bool] = {}
        self.left_out = 0

    def started(self, job: Job, in_flight: int) -> None:
        self.lines.append(("start", job.trial.position))

    def finished(self, job: Job, outcome: Outcome) -> None:
        self.stands[job.trial.position] = outcome.failure is None or outcome.failure.blame == "variant"

    def stored(self, jobs: Any) -> None:
        self.lines += [("stored", job.trial.position) for job in jobs]

    def event(self, kind: str, **detail: Any) -> None:
        self.left_out += kind == "left_out"


class Slow(Memory):
    """A slow store."""

    def outcome(self, job: Job, outcome: Outcome) -> None:
        asyncio.get_running_loop().call_later(0.3, self.acknowledgements.add, [job])


@settings(max_examples=60, deadline=None)
@given(
    chained(),
    st.integers(1, 3),
    st.integers(0, 5),
    st.sampled_from(
        [
            {"parallel": 1},
            {"parallel": 5},
            {"parallel": 4, "per_variant": 1},
            {"parallel": "variants"},
            {"turns": True, "parallel": 3},
        ]
    ),
    st.sampled_from([0.0, 0.15, 0.4]),
    st.integers(0, 2),
)
def test_a_trial_starts_when_the_previous_one_is_stored_and_final_and_nothing_hangs(
    shape: tuple[list[str | None], list[list[int]]],
    repeats: int,
    seed: int,
    limits: dict[str, Any],
    failing: float,
    retries: int,
) -> None:
    groups, before = shape
    table = load_cases([Case(f"c{n}", f"q{n}", "yes", group=group) for n, group in enumerate(groups)], Path())
    variants = [Variant(f"v{n}", "simulated") for n in range(2)]
    plan = Plan(table, variants, ["x", "y"], repeats, seed, None, np.array(before))
    chance = random.Random(seed)
    for position in range(len(plan)):  # a resume: done trials form a prefix of their chain
        earlier = plan.before(position)
        plan.done[position] = chance.random() < 0.3 and (earlier is None or bool(plan.done[earlier]))
    done = plan.done.copy()
    notes = Notes()

    async def execute() -> None:
        targets: list[Any] = [build(variant, 0, {}) for variant in variants]
        engine = partial(VirtualEngine, fail_by_chance(chance, failing))
        settings = Limits(**limits, breaker=0, retries=retries)
        await Rig(plan, targets, settings, notes, Slow(), engine=engine).run()

    run(execute())
    table.close()
    safe = {position for position in range(len(plan)) if done[position]}
    for event, position in notes.lines:
        earlier = plan.before(position)
        if event == "start":
            assert earlier is None or earlier in safe
            assert earlier is None or done[earlier] or notes.stands[earlier]
        else:
            safe.add(position)
    never = set(range(len(plan))) - safe
    assert len(never) == notes.left_out
    for position in never:
        earlier = plan.before(position)
        assert earlier in never or notes.stands[earlier] is False  # type: ignore[index]


@given(chained(), st.integers(0, 3))
def test_chains_are_planned_in_order_and_groups_do_not_mix(
    shape: tuple[list[str | None], list[list[int]]], seed: int
) -> None:
    groups, before = shape
    table = load_cases([Case(f"c{n}", f"q{n}", group=group) for n, group in enumerate(groups)], Path())
    plan = Plan(table, [Variant("a"), Variant("b")], ["x", "y"], 1, seed, None, np.array(before))
    order = [plan.case(block) for block in range(plan.blocks)]
    assert [groups[case] for case in order] == [groups[case] for case in dispatch_order(groups, seed)]
    for row in before:
        assert all(order.index(previous) < order.index(case) for case, previous in enumerate(row) if previous != -1)
    table.close()

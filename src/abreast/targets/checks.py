"""Commands that are run in the workspace of a trial when its agent has ended: tests, builds, linters."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from abreast.digest import digest
from abreast.model import TEST_FILES, Answer, Case, Check
from abreast.redaction import is_secret_setting
from abreast.targets import process
from abreast.targets.base import Problem, Sees, Workers
from abreast.targets.contents import content_digest, named_file
from abreast.targets.own_tests import NONE, Task, Untested, prepared, put_there, tests_of
from abreast.targets.protected_files import Protected, find_protected, restore
from abreast.targets.workspace import State, Workspace, Workspaces
from abreast.targets.workspace.place import NoWorkspace, drop_empty, new_folder, seen_from
from abreast.targets.workspace.removal import remove_tree

LAST_LINE = 300  # characters
GONE = "the folder where it worked is gone"
OWN_REVISION = 1
RESTORED_REVISION = 1
LISTED = 100  # test files of a trial that are named

Told = dict[str, Any]
"""How a check went, as it is stored: scores are made of this alone."""


@dataclass(frozen=True, slots=True)
class Trialled:
    """What is checked: the case of a trial, and what it begins with."""

    case: Case
    value: Any  # what the templates of its workspace see
    state: State | None  # what it begins with instead of its commit
    workspaces: Workspaces
    environment: Mapping[str, str]
    workers: Workers
    wrap: Callable[[Sequence[str], Path, Path, Mapping[str, str]], list[str]]  # puts a command into the sandbox
    renames: Sequence[tuple[str, str]] = ()  # old and new names of files that the agent renamed


class Checks:
    """The checks of a run. What one says of a start, or of what people did, is found out once for all trials."""

    def __init__(self, shared: dict[str, Any]) -> None:
        self._shared = shared
        self._checks: Sequence[Check] = shared.get("checks", ())
        self._base = Path(shared.get("base", ".")).absolute()
        self._protected: dict[Hashable, Protected] = shared.setdefault("checks-protected", {})
        self._known: dict[Hashable, asyncio.Future[tuple[Told, str]]] = shared.setdefault("checks-known", {})

    def __bool__(self) -> bool:
        return bool(self._checks)

    @property
    def own(self) -> Check | None:
        """One for which cases bring their tests."""
        return next((check for check in self._checks if check.own), None)

    @property
    def sees(self) -> Sees:
        """What of a case their outcome depends on."""
        if self.own is not None:
            return "truth"
        return "case" if any(check.names("case") for check in self._checks) else "input"

    @property
    def version(self) -> tuple[str, ...]:
        """What an answer depends on, for its key; nothing if there are none."""
        return tuple(digest(self._identity(check)) for check in self._checks)

    def _identity(self, check: Check) -> list[Any]:
        files = [content_digest(file, self._shared) for file in self._files(check)]
        return [
            *(check.name, check.command, check.shell, check.timeout_s, check.fails_before),
            *(["own", OWN_REVISION] if check.own else ["restored", RESTORED_REVISION]),
            *([] if check.tests is None else ["tests", check.tests]),
            *([files] if files else []),
        ]

    def _files(self, check: Check) -> list[Path]:
        """Those that the words name by their whole path; with `{case}` in it those of all cases."""
        found: list[Path] = []
        for word in () if check.shell else check.command:
            whole = word.replace("{folder}", str(self._base))
            before, placeholder, behind = whole.partition("{case}")
            if not placeholder:
                file = named_file(whole)
                found += [] if file is None else [file]
            elif before.startswith("/") and "{" not in behind and "/" not in behind:
                folder, _, start = before.rpartition("/")
                listed = sorted(Path(folder).iterdir()) if Path(folder).is_dir() else []
                found += [path for path in listed if path.name.startswith(start) and path.name.endswith(behind)]
        return [path for path in found if path.is_file()]

    def problems(self) -> list[Problem]:
        """Programs and files that are nowhere; a program named by its path may be in a workspace."""
        found = []
        for check in self._checks:
            for at, word in enumerate(() if check.shell else check.command):
                path = word.replace("{folder}", str(self._base))
                if at == 0 and "/" not in path and shutil.which(path) is None:
                    told = f"the program {path} is not found"
                    found.append(Problem(f'scorer "{check.name}": {told}', "install it, or mend command"))
                if word.startswith("{folder}/") and "{" not in path and not Path(path).exists():
                    told = f"there is no {path}"
                    found.append(Problem(f'scorer "{check.name}": {told}', "write it, or mend command"))
        return found

    async def added_to(self, answer: Answer, workspace: Workspace, trial: Trialled) -> Answer:
        """The answer with how each of them went; what they print is kept as an artifact."""
        results, artifacts = {}, dict(answer.artifacts)
        changed: set[str] | None = None
        for check in self._checks:
            results[check.name], artifacts[check.name], restored = await self._outcome(check, workspace, trial)
            changed = changed if restored is None else (changed or set()) | set(restored)
        kept = {name: text for name, text in artifacts.items() if text}
        data = {**answer.data, "checks": results, **_changed_tests(changed)}
        return replace(answer, data=data, artifacts=kept)

    async def without_agent(self, trial: Trialled) -> dict[str, Told]:
        """What each says of what trials begin with and of what people did; nobody is paid to find that out."""
        return {check.name: (await self._begun(check, trial))[1] for check in self._checks}

    async def _outcome(
        self, check: Check, workspace: Workspace, trial: Trialled
    ) -> tuple[Told, str, Sequence[str] | None]:
        """How a check went, what it printed, and the test files that the agent had changed (None if nobody looked).
        Where it says nothing of an agent, it is not run in what this one left."""
        task, facts, output = await self._begun(check, trial)
        if task is None or says_nothing(facts):
            return facts, output, None
        folder = workspace.path
        if folder.is_symlink() or not folder.is_dir():
            return {**facts, "passed": False, "told": GONE}, "", None
        changed: Sequence[str] | None = None
        if not task.own.tests:
            try:
                changed = await trial.workers.in_thread(self._restore, task, workspace, trial)
            except NoWorkspace as error:
                return {"problem": str(error)}, "", None
        told, output = await _tried(task, folder, trial)
        return {**facts, **told}, output, changed

    def _restore(self, task: Task, workspace: Workspace, trial: Trialled) -> list[str]:
        """Restore the files that decide a check; return those that the agent had changed. Raises NoWorkspace."""
        protected = self._find_protected(task, trial)
        with trial.workspaces.start_files(trial.case, trial.value, trial.state) as start:
            return restore(start, workspace.path, protected, workspace.since, trial.renames)

    def _find_protected(self, task: Task, trial: Trialled) -> Protected:
        """The files that decide a check, found once for all trials that begin alike. Raises NoWorkspace."""
        begins = (trial.case, trial.value, trial.state)
        key = (task.check, task.words, trial.workspaces.beginning(*begins))
        if key not in self._protected:
            with trial.workspaces.start_files(*begins) as start:
                self._protected[key] = find_protected(start, task)
        if task.check.tests and not self._protected[key].files:
            raise NoWorkspace(f"tests: no file at the start matches {', '.join(task.check.tests)}")
        return self._protected[key]

    async def _begun(self, check: Check, trial: Trialled) -> tuple[Task | None, Told, str]:
        """What is to be run, if there is something, and what is known of it without an agent."""
        own = tests_of(trial.case) if check.own else NONE
        try:
            task = await trial.workers.in_thread(
                *(prepared, check, trial.case, own, self._base, trial.workspaces, trial.environment.get("PATH"))
            )
            if not own.tests:
                await trial.workers.in_thread(self._find_protected, task, trial)
            return task, *await self._facts(task, trial)
        except Untested as reason:
            return None, {"untested": str(reason)}, ""
        except NoWorkspace as error:
            return None, {"problem": str(error)}, ""

    async def _facts(self, task: Task, trial: Trialled) -> tuple[Told, str]:
        """What it says without an agent: it must fail on what trials begin with, and pass in what people did."""
        facts: Told = {}
        output = ""
        begins, workspaces = (trial.case, trial.value, trial.state), trial.workspaces
        if task.own.tests or task.check.fails_before:
            start = workspaces.beginning(*begins)
            told, output = await self._once(
                ("before", task, start), lambda: _elsewhere(task, trial, lambda: workspaces.make(*begins))
            )
            facts |= _under("before", told)
        commit = task.own.commit
        if commit is not None and facts.get("before") != "passed" and "problem" not in facts:
            told, output = await self._once(
                ("human", task, workspaces.name_of(commit)),
                lambda: _elsewhere(task, trial, lambda: workspaces.make_at(commit), is_theirs=True),
            )
            facts |= _under("human", told)
        return facts, output

    async def _once(self, key: Hashable, run: Callable[[], Awaitable[tuple[Told, str]]]) -> tuple[Told, str]:
        """Whoever comes first runs it; it goes on if that trial is ended."""
        if key not in self._known:
            self._known[key] = asyncio.ensure_future(run())
        return await asyncio.shield(self._known[key])

    async def close(self, patience_s: float) -> None:
        """End what nobody waits for any more, while there are threads that remove what it made."""
        running = [one for one in self._known.values() if not one.done()]
        for one in running:
            one.cancel()
        if running:
            await asyncio.wait(running, timeout=patience_s)


def _changed_tests(names: set[str] | None) -> Told:
    """The columns of test files that an agent changed; nothing if nobody looked."""
    if names is None:
        return {}
    listed = [name.encode("utf-8", "replace").decode() for name in sorted(names)[:LISTED]]
    return {"tests_changed": len(names), **({TEST_FILES: listed} if names else {})}


def says_nothing(told: Told) -> str:
    """Why it says nothing of any agent; empty if it does."""
    if told.get("problem") or told.get("untested"):
        return str(told.get("problem") or told["untested"])
    if told.get("before") == "passed":
        return "succeeds without any change"
    return f"fails in what people did too: {told['human_told']}" if told.get("human") == "failed" else ""


def _under(name: str, told: Told) -> Told:
    if "problem" in told:
        return {"problem": told["problem"]}
    return {name: "passed" if told["passed"] else "failed", f"{name}_told": told["told"]}


async def _elsewhere(
    task: Task, trial: Trialled, make: Callable[[], Workspace], is_theirs: bool = False
) -> tuple[Told, str]:
    """In a workspace that is made for this; in what people did, their tests are already."""
    try:
        workspace: Workspace = await trial.workers.in_thread(make)
    except NoWorkspace as error:
        return {"problem": str(error)}, ""
    try:
        if is_theirs:
            return await _run(task, workspace.path, trial)
        return await _tried(task, workspace.path, trial)
    finally:
        await trial.workers.in_thread(workspace.remove)


async def _tried(task: Task, folder: Path, trial: Trialled) -> tuple[Told, str]:
    """In a folder over which the tests of the case are put."""
    try:
        await trial.workers.in_thread(put_there, task, folder, trial.workspaces)
    except NoWorkspace as error:
        return {"problem": str(error)}, ""
    return await _run(task, folder, trial)


async def _run(task: Task, folder: Path, trial: Trialled) -> tuple[Told, str]:
    """How it went, and what it printed. Code of a model is run: it finds no keys."""
    scratch, workers = new_folder("scratch"), trial.workers
    visible = {name: value for name, value in trial.environment.items() if not is_secret_setting(name, value)}
    around = visible | dict(task.variables)
    patience_s = task.check.timeout_s
    try:
        (scratch / "tmp").mkdir(0o700)
        around["TMPDIR"] = str(scratch / "tmp")

        def prepare() -> process.Program:
            return process.Program(trial.wrap(task.words, folder, scratch, around), folder, around)

        running = process.run(prepare, scratch, process.new_mark(), workers)
        try:
            ended = await asyncio.wait_for(running, patience_s)
        except TimeoutError:
            return {"passed": False, "told": f"took longer than {patience_s:g} s"}, _printed(scratch, folder)
        except OSError as error:
            return {"problem": f"{task.words[0]}: {error.strerror or error}"}, ""
        output = _printed(scratch, folder)
        last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")[:LAST_LINE]
        told = ended.description + (f": {last}" if last else "")
        return {"passed": ended.code == 0, "told": told, "seconds": round(ended.seconds, 3)}, output
    finally:
        await workers.in_thread(remove_tree, scratch)
        drop_empty(scratch)


def _printed(scratch: Path, folder: Path) -> str:
    """What it said, with paths of the folder as they are seen from it."""
    parts = (process.tail(scratch / "stdout", 20_000), process.tail(scratch / "stderr", 20_000))
    return seen_from(folder, "\n".join(part for part in parts if part))

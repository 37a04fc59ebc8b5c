"""What agents have in common, whatever program they are: a workspace, an environment, a process, and what is left.

A trial works in a folder of its own and leaves its change as an artifact. Whatever ends it, its processes end with it,
and what it used and paid until then is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import tempfile
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from abreast.errors import BadInput, Crashed, TrialError
from abreast.model import OUTSIDE_FILES, STATE, Answer, Case, CostBasis, Request, Trial, Usage
from abreast.redaction import find_secret, is_secret_name, is_secret_setting
from abreast.settings import Settings, is_mapping_of_texts
from abreast.store.user_state.drivers import note_kept
from abreast.targets.agents.presets.agent_output import Said
from abreast.targets.agents.presets.claude import KEYS, PARTIAL_LINE, Stream
from abreast.targets.api.prices import Prices
from abreast.targets.base import Problem, Target, Workers, widest
from abreast.targets.checks.workspace_checks import Checks, Told, Trialled
from abreast.targets.mcp.declaration import Variables
from abreast.targets.processes import process, process_tree
from abreast.targets.processes.process_usage import recent_memory_kills
from abreast.targets.processes.scratch import TEMPORARY, ScratchFolders
from abreast.targets.request import Renderer, seen_by
from abreast.targets.sandbox import Exposed, Needs, exit_code, find_problem, read_sandbox, wrap
from abreast.targets.untrusted_json import count, dollars
from abreast.targets.workspace import Carried, Diff, NotCarried, State, Workspace, Workspaces
from abreast.targets.workspace.files.directories import seen_from
from abreast.targets.workspace.outside_changes import LISTED, OutsideChanges

CLEANING_S = 60.0  # for what is left to be removed at the end of a run
# A program that one of its own kind started behaves otherwise.
NESTED = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID")

Value = TypeVar("Value")


def computed(function: Callable[[Any], Value]) -> Value:
    """A cached property that type checkers take for the attribute that the base class declares."""
    return cached_property(function)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt: where it works, where its output goes, and the mark by which its processes are known."""

    trial: Trial
    request: Request
    workspace: Workspace
    scratch: Path
    mark: str
    carried: Carried | None  # what it begins with, where trials go on with what others left
    memory_kills: int | None  # processes that the system had ended before it, because memory was short
    stream: Stream | None  # follows what its program prints, if it prints one


@dataclass(frozen=True, slots=True)
class _Start:
    """An attempt with its folders made, and its running program or the error that kept it from starting."""

    attempt: Attempt
    program: process.Program | None = None
    running: process.Running | None = None
    error: Exception | None = None


class Agent(Target):
    """A program that works on its own. A family says how it is called and how its output is read."""

    place = "process"
    has_workspace = True
    asks_often = True  # its provider, in one trial
    changes_files = True  # else nobody looks for a change
    needs_network = False  # it is of no use without its provider
    default_model: str | None = None  # of answers whose output names none

    def __init__(self, where: str, params: Mapping[str, Any], shared: dict[str, Any]) -> None:
        self._where, self._shared, self._params = where, shared, params
        self._cleaning: set[asyncio.Future[Any]] = set()
        self._base = Path(shared.get("base", ".")).absolute()
        self._scratch = ScratchFolders()
        self._keeps = bool(shared.get("keep_workspaces"))
        self._prices = Prices(shared.get("prices"))
        self.checks = Checks(shared)
        settings = Settings(where, params)
        settings.noun = "parameter"
        self._environment = _declared(settings)
        self._inherited = {name: value for name, value in os.environ.items() if name not in NESTED}
        self._workspaces = Workspaces(where, settings.remaining.pop("workspace", None), self._base)
        self.sandbox = read_sandbox(where, settings.remaining.pop("sandbox", None), self._base)
        origin = self._workspaces.origin
        places = (self._base, *([] if origin is None else [origin]))
        known: dict[tuple[Path, ...], OutsideChanges] = shared.setdefault("outside-changes", {})
        self._outside = known.setdefault(places, OutsideChanges(places, self._store_files))
        settings.names += ["workspace", "prompt", "transform", "sandbox"]
        self._renderer = Renderer(where, {key: settings.remaining.pop(key, None) for key in ("prompt", "transform")})
        self.transforms, self.quick = self._renderer.transforms, self._renderer.quick
        place = params.get("workspace")
        seen = [place.get(key) for key in ("commit", "after")] if isinstance(place, Mapping) else []
        self.sees = widest(seen_by(*seen), self._renderer.sees, self.checks.sees)
        if self.checks.own is not None and not self._workspaces.has_commits:
            raise BadInput(
                f'{where}: scorer "{self.checks.own.name}" with own: true takes tests from a later commit',
                "write workspace: {git: FOLDER_OR_URL, commit: REVISION}",
            )
        self._take(settings)
        settings.done()

    # -- of a family -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _take(self, settings: Settings) -> None:
        """The family's own parameters."""

    @abstractmethod
    def _program(self, attempt: Attempt) -> process.Program:
        """The program of an attempt, whose folders exist. Called in a thread; may raise a `TrialError`."""

    @abstractmethod
    def _read(self, out: Path, err: Path) -> Said:
        """What a program printed, by the files of its output, complete or not."""

    @abstractmethod
    def _outcome(self, attempt: Attempt, ended: process.Ended) -> tuple[Said, TrialError | None]:
        """What a program that has ended printed, and why that is no answer; None if it is one. Called in a thread."""

    def _new_stream(self) -> Stream | None:
        return None

    def _is_over(self, stream: Stream) -> bool:
        """Whether the program is to be ended because of what it has printed so far."""
        return False

    def _start_error(self, error: OSError, program: str) -> Exception:
        return error

    def _needs(self) -> Needs:
        """What its program needs to see in a sandbox."""
        return Needs()

    # -- what a target is ------------------------------------------------------------------------------------------

    def request(self, trial: Trial) -> Request:
        return self._renderer.request(trial)

    def problems(self) -> list[Problem]:
        problems = [*(Problem(*problem) for problem in self._workspaces.problems()), *self.checks.problems()]
        return [*problems, *self._sandbox_problems()]

    def _sandbox_problems(self) -> list[Problem]:
        """Try the sandbox out, so that a run does not pay for what cannot work."""
        if self.sandbox is None:
            return []
        if self.needs_network and not self.sandbox.network:
            message = f"sandbox: network: off: {self.name} cannot reach its API, not even one on this machine"
            return [Problem(message, "set network: on")]
        with tempfile.TemporaryDirectory() as folder:
            command = self._wrap(["/bin/sh", "-c", ":"], Path(folder), Path(folder), os.environ)
            problem = find_problem(self.sandbox, command)
        return [] if problem is None else [Problem(*problem)]

    def notes(self) -> list[str]:
        notes = self._workspaces.notes()
        if self.changes_files and self.sandbox is None:
            notes += [
                f"{folder} has more than {self._outside.limit:,} files: changes that agents make there are not noticed"
                for folder in self._outside.begin()
            ]
        return notes

    def after(self, case: Case) -> str | None:
        return self._workspaces.after(case) if self._workspaces.carries else None

    def workspace_bytes(self, trial: Trial) -> int:
        """The size of what this trial begins with; 0 if it is unknown."""
        try:
            return self._workspaces.weight(trial.case, self.request(trial).input)
        except TrialError:  # whoever prepares the trial will say so
            return 0

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        workers.clock("preparing")
        start = await self._started(trial, request, workers)
        failed = True
        try:
            workers.clock("ready", 0.0 if start.running is None else time.monotonic() - start.running.started_at)
            ended = await self._finished(start, workers)
            workers.clock("over")  # it is paid: what follows may take the time it takes
            answer: Answer = await self._in_thread(workers, self._read_answer, start.attempt, ended)
            if self.checks:
                workers.clock("checking")
                answer = await self._checked(start.attempt, answer, workers)
            failed = False
            return answer
        except asyncio.CancelledError:  # its time is over: what it did is kept all the same
            if start.attempt.carried is not None:
                workers.clock("over")  # others begin with it: it takes the time it takes
            stream = start.attempt.stream
            silent = None if stream is None else stream.silent_request()
            raise await asyncio.shield(workers.in_thread(self._cut_off, start.attempt, silent)) from None
        finally:
            self._give_back(start.attempt, failed, workers)

    async def close(self) -> None:
        await self.checks.close(CLEANING_S)
        if self._cleaning:
            await asyncio.wait(self._cleaning, timeout=CLEANING_S)
        for close in (self._scratch.close, self._workspaces.close, process_tree.close_launcher):
            await asyncio.to_thread(close)

    # -- starting and ending a program -----------------------------------------------------------------------------

    async def _started(self, trial: Trial, request: Request, workers: Workers) -> _Start:
        """Make the folders of an attempt and start its program. If it is cancelled meanwhile, nothing stays."""
        starting = asyncio.ensure_future(self._in_thread(workers, self._start, trial, request))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._clean_later(self._abandon(starting, workers))
            raise

    def _in_thread(self, workers: Workers, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        """Call a function that looks after the folders of an attempt. That is short unless there are files to copy."""
        call = workers.in_turn if self._workspaces.are_empty else workers.in_thread
        return call(function, *arguments)

    def _start(self, trial: Trial, request: Request) -> _Start:
        process_tree.containment()  # starts the launcher, which is no part of a trial's time
        if self.changes_files and self.sandbox is None:
            self._outside.begin()
        carried = self._carried(trial)
        attempt = Attempt(
            trial=trial,
            request=request,
            workspace=self._workspaces.make(trial.case, request.input, None if carried is None else carried.state),
            scratch=self._scratch.take(),
            mark=process.new_mark(),
            carried=carried,
            memory_kills=recent_memory_kills(),
            stream=self._new_stream(),
        )
        program = None
        try:
            program = self._program(attempt)
            argv = self._wrap(program.argv, attempt.workspace.path, attempt.scratch, program.environment)
            piped = attempt.stream is not None
            running = process.start(replace(program, argv=argv), attempt.scratch, attempt.mark, is_piped=piped)
            return _Start(attempt, program, running)
        except Exception as error:  # noqa: BLE001 - is raised once the folders are known to the caller
            return _Start(attempt, program, error=error)

    def _carried(self, trial: Trial) -> Carried | None:
        """What it begins with; who executes the run knows what the trial before left."""
        if not self._workspaces.carries:
            return None
        if not self._workspaces.after(trial.case):
            return Carried()
        if "carrying" not in self._shared:
            raise NotCarried("what the trial before left is known only in a run")
        carried: Carried = self._shared["carrying"](trial)
        return carried

    async def _finished(self, start: _Start, workers: Workers) -> process.Ended | Exception:
        """Wait for the end of the program. Return how it ended, or the error that kept it from running."""
        stream, give_time = start.attempt.stream, workers.more_time()

        def heard(line: bytes) -> bool:
            assert stream is not None
            give_time(stream.hear(line))  # the time that it waited for retries
            return self._is_over(stream)

        error = start.error
        if start.running is not None:
            try:
                listener = None if stream is None else heard
                ended = await process.finish(start.running, workers, listener, PARTIAL_LINE)
                return ended if self.sandbox is None else replace(ended, code=exit_code(ended.code))
            except (OSError, TrialError) as problem:
                error = problem
        assert error is not None
        if isinstance(error, OSError) and start.program is not None:
            return self._start_error(error, start.program.argv[0])
        return error

    async def _abandon(self, starting: asyncio.Future[_Start], workers: Workers) -> None:
        """End a program that nobody waits for once it has started, and remove its folders."""
        try:
            start = await starting
        except Exception:  # noqa: BLE001 - nothing was made
            return
        if start.running is not None:
            start.running.tree.kill()
            with contextlib.suppress(OSError, TrialError):
                await process.finish(start.running, workers)
        await workers.in_thread(self._clean, start.attempt)

    def _clean_later(self, cleaning: Awaitable[None]) -> None:
        """Clean up while other trials run; only the end of the run waits for that."""
        task = asyncio.ensure_future(cleaning)
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    def _give_back(self, attempt: Attempt, failed: bool, workers: Workers) -> None:
        """Have the folders of an attempt removed, or kept for another one."""
        reuse = not failed and process_tree.containment() == "subreaper"
        if reuse and attempt.workspace.is_unchanged:
            self._clean(attempt, failed, reuse)  # nothing to do but to note it
            return
        if reuse:
            attempt.workspace.expect_reuse()
        self._clean_later(workers.in_thread(self._clean, attempt, failed, reuse))

    def _clean(self, attempt: Attempt, failed: bool = False, reuse: bool = False) -> None:
        if failed and self._keeps:
            note_kept(attempt.workspace.path)
        elif reuse:
            attempt.workspace.reuse()
        else:
            attempt.workspace.remove()
        self._scratch.give_back(attempt.scratch, reuse)

    # -- what comes of it ------------------------------------------------------------------------------------------

    def _read_answer(self, attempt: Attempt, ended: process.Ended | Exception) -> Answer:
        """The answer with the change of the workspace, or what is known of it with the error that is raised."""
        if not isinstance(ended, Exception):
            said, problem = self._outcome(attempt, ended)
            answer = self._with_change(attempt, self._answer(said, attempt, ended))
        elif isinstance(ended, TrialError):
            problem, answer = ended, self._remains(attempt)[1]
        else:
            raise ended
        if problem is not None:
            problem.answer = answer
            raise problem
        return answer

    def _remains(self, attempt: Attempt) -> tuple[Said, Answer]:
        said = self._read(attempt.scratch / "stdout", attempt.scratch / "stderr")
        return said, self._with_change(attempt, self._answer(said, attempt, None))

    def _cut_off(self, attempt: Attempt, silent: TrialError | None) -> TrialError:
        said, answer = self._remains(attempt)
        error = said.unanswered or silent or Crashed("cut off")
        error.answer = answer
        return error

    def _answer(self, said: Said, attempt: Attempt, ended: process.Ended | None) -> Answer:
        usage = Usage(*map(count, astuple(said.usage)))
        cost, basis = self._cost(said, usage)
        return Answer(
            said.text or "",
            value=said.value,
            data={**said.columns(), **({} if ended is None else ended.columns())},
            usage=usage,
            cost_usd=cost,
            cost_basis=basis,
            model=said.model[:200] if said.model else self.default_model,
            raw_response=(process.content(attempt.scratch / "stdout") if said.raw is None else said.raw) or None,
            waited_s=said.retry_wait_s or 0.0,
        )

    def _cost(self, said: Said, usage: Usage) -> tuple[float | None, CostBasis]:
        """What the program reports; else by its tokens, if its model is known."""
        reported = dollars(said.cost_usd)
        price = self._prices.of(said.model, self.default_model) if reported is None else None
        cost = reported if price is None else dollars(price.of(usage))
        if cost is None:
            return None, "unknown"
        if said.is_included and not self._pays:
            return cost, "included"
        return cost, "estimated" if reported is None else "reported"

    @cached_property
    def _pays(self) -> bool:
        """Whether the environment has a key, so that no subscription pays."""
        return any(self.environment().get(name) for name in KEYS)

    def _with_change(self, attempt: Attempt, answer: Answer) -> Answer:
        """The answer with what changed in the workspace, and with what was printed beside it."""
        artifacts = dict(answer.artifacts)
        data = {name: value for name, value in answer.data.items() if value is not None}  # what it does not report
        errors = process.tail(attempt.scratch / "stderr")
        if errors:
            artifacts["stderr"] = errors
        if self.changes_files or attempt.carried is not None:
            diff = attempt.workspace.left(attempt.trial.case.id, find_secret)
            if diff.text:
                artifacts["diff"] = diff.text
            if diff.problem:
                data["diff_problem"] = diff.problem
            else:
                data |= {name: count for name, count in diff.counts.columns().items() if count is not None}
            if diff.state is not None:
                artifacts[STATE] = diff.state.as_text()
            data |= _carried_on(attempt, diff)
            data |= self._changed_outside(attempt)
        if self._keeps:
            data["workspace"] = str(attempt.workspace.path)
        text = seen_from(attempt.workspace.path, answer.text)
        return replace(answer, text=text, artifacts=artifacts, data=data)

    def _changed_outside(self, attempt: Attempt) -> dict[str, Any]:
        """Files outside of the workspace that changed since it was handed out. A sandbox keeps agents from that."""
        changed = None if self.sandbox is not None else self._outside.since(attempt.workspace.since)
        if changed is None:
            return {}
        names = [name.encode("utf-8", "replace").decode() for name in changed]
        return {"outside_changes": len(names), **({OUTSIDE_FILES: names[:LISTED]} if names else {})}

    # -- sandbox and environment -----------------------------------------------------------------------------------

    def _wrap(self, argv: Sequence[str], workspace: Path, scratch: Path, around: Mapping[str, str]) -> list[str]:
        """A command line in the sandbox, if there is one."""
        if self.sandbox is None:
            return list(argv)
        files = [file for file in self._store_files() if not file.is_relative_to(self._base)]
        hidden = (self._base, self._base.resolve(), *files)
        return wrap(argv, self.sandbox, Exposed(workspace, scratch, self._needs(), hidden), around)

    def _store_files(self) -> list[Path]:
        """The files of the store, with the answers of other trials."""
        if self._shared.get("store") is None:
            return []
        store = Path(self._shared["store"]).absolute()
        return list(store.parent.glob(f"{glob.escape(store.name)}*"))

    def around(self, attempt: Attempt) -> dict[str, str]:
        """The environment of one attempt: a folder for temporary files of its own, and git looks no further up."""
        own = {} if "TMPDIR" in self._environment else {"TMPDIR": str(attempt.scratch / TEMPORARY)}
        around = {**self.environment(), **own, **attempt.workspace.environment}
        return self._workspaces.variables(attempt.workspace.path, around)

    def keyed_variables(self, around: Mapping[str, str]) -> dict[str, str]:
        """Variables that can change an answer, with their values: those that the variant sets. None is a secret."""
        return public({name: around[name] for name in self._environment})

    def environment(self) -> dict[str, str]:
        """That of this process when the run was planned, without variables of an agent around it, and the variant's."""
        variables, place = Variables(os.environ), f"{self._where}: env"
        return self._inherited | {name: variables.fill(place, value) for name, value in self._environment.items()}

    # -- checks ----------------------------------------------------------------------------------------------------

    async def _checked(self, attempt: Attempt, answer: Answer, workers: Workers) -> Answer:
        state = attempt.carried.state if attempt.carried is not None else None
        attempt.workspace.may_change()
        trial = self._trialled(attempt.trial, attempt.request, workers, state, attempt.workspace)
        try:
            return await self.checks.added_to(answer, attempt.workspace, trial)
        except TrialError as error:
            error.answer = answer
            raise

    async def checked_without_agent(self, trial: Trial, workers: Workers) -> dict[str, Told]:
        """What the checks of a trial say before anybody works on it."""
        return await self.checks.without_agent(self._trialled(trial, self.request(trial), workers))

    async def knows_checks(self, trial: Trial, workers: Workers) -> bool:
        """Whether what the checks of a trial say without an agent is kept already."""
        return await self.checks.is_known(self._trialled(trial, self.request(trial), workers))

    def _trialled(
        self,
        trial: Trial,
        request: Request,
        workers: Workers,
        state: State | None = None,
        workspace: Workspace | None = None,
    ) -> Trialled:
        return Trialled(
            case=trial.case,
            value=request.input,
            state=state,
            workspaces=self._workspaces,
            environment={**self.environment(), **({} if workspace is None else workspace.environment)},
            workers=workers,
            wrap=self._wrap_check,
            sandbox="" if self.sandbox is None else repr(self.sandbox),
            renames=() if workspace is None else workspace.renames,
        )

    def _wrap_check(self, words: Sequence[str], folder: Path, scratch: Path, around: Mapping[str, str]) -> list[str]:
        """A check in the sandbox of the agent whose code it runs. It may read the spec's folder, where tests are."""
        if self.sandbox is None:
            return list(words)
        needs = Needs(read=(self._base,))
        return wrap(words, self.sandbox, Exposed(folder, scratch, needs, tuple(self._store_files())), around)

    @property
    def has_setup(self) -> bool:
        return self._workspaces.has_setup

    @property
    def start(self) -> str:
        """A digest of what trials begin with."""
        return self._workspaces.version

    def set_up(self, trial: Trial) -> str | None:
        """Make the environment of a trial if needed and return its key; None without one. Raises NoWorkspace."""
        return self._workspaces.set_up(trial.case, self.request(trial).input)


def _carried_on(attempt: Attempt, diff: Diff) -> dict[str, str]:
    """Of trials that go on with what others left: where it came from, and what it was before and after."""
    if attempt.carried is None:
        return {}
    before = {} if diff.problem else {"state_before": attempt.workspace.commit}
    source = {"carried_from": attempt.carried.case} if attempt.carried.case is not None else {}
    if diff.state is None:
        return {**source, **before, "not_carried": diff.problem or diff.not_carried}
    return {**source, **before, "state_after": diff.state.commit}


def _declared(settings: Settings) -> dict[str, str]:
    """`env:` of a variant: texts, in which ${NAME} stands for a variable of the environment; secrets only so."""
    expects = "a mapping of texts, no name empty or with = in it"
    declared = settings.take("env", {}, _is_environment, expects)
    for name, value in declared.items():
        if is_secret_setting(name, value) and "${" not in value:
            raise BadInput(
                f"{settings.where}: env: {name} would store a secret",
                f"write {name}: ${{{name}}} and set it in the environment, which every program gets anyway",
            )
    return dict(declared)


def _is_environment(value: Any) -> bool:
    return is_mapping_of_texts(value) and all(
        name and "=" not in name and "\0" not in name + text for name, text in value.items()
    )


def public(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in sorted(variables.items()) if not is_secret_name(name)}

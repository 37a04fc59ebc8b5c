"""Base of the targets that run an agent as a program: its workspace, environment, process and answer.

Each trial works in its own folder and stores its change as an artifact. However it ends, its processes end with it, and
what it used and paid until then is stored.
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
from abreast.store.address import VARIABLE
from abreast.store.user_state.drivers import note_kept
from abreast.targets.agents.presets.agent_output import AgentOutput
from abreast.targets.agents.presets.claude import KEYS, PARTIAL_LINE, Stream
from abreast.targets.api.prices import Prices
from abreast.targets.base import Problem, Target, Workers, widest
from abreast.targets.checks.workspace_checks import CheckContext, CheckFacts, Checks
from abreast.targets.mcp.declaration import Variables
from abreast.targets.processes import process, process_tree
from abreast.targets.processes.process_usage import recent_memory_kills
from abreast.targets.processes.scratch import TEMPORARY, ScratchFolders
from abreast.targets.request import Renderer, seen_by
from abreast.targets.sandbox import Mounts, Needs, exit_code, find_problem, read_sandbox, wrap
from abreast.targets.untrusted_json import count, dollars
from abreast.targets.workspace import Diff, NotCarried, PreviousState, Workspace, Workspaces, WorkspaceState
from abreast.targets.workspace.files.directories import relative_paths
from abreast.targets.workspace.outside_changes import MAX_LISTED, OutsideChanges

CLEANING_S = 60.0  # time limit for removing folders at the end of a run
# Agents behave differently if these show that another agent started them.
NESTED = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID")

Value = TypeVar("Value")


def cached_attribute(function: Callable[[Any], Value]) -> Value:
    """Return a cached property, typed as the attribute that the base class declares."""
    return cached_property(function)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt: its workspace, the folder of its output, and the mark of its processes."""

    trial: Trial
    request: Request
    workspace: Workspace
    scratch: Path
    mark: str
    carried: PreviousState | None  # in chained trials, the state to continue from
    memory_kills: int | None  # the system's count of out-of-memory kills before the attempt
    stream: Stream | None  # parser of the output, if that is a stream


@dataclass(frozen=True, slots=True)
class _StartedAttempt:
    """An attempt with folders, and its running program or the error at its start."""

    attempt: Attempt
    program: process.Program | None = None
    running: process.RunningProcess | None = None
    error: Exception | None = None


class Agent(Target):
    """A program that works on its own. Subclasses build its command line and read its output."""

    place = "process"
    has_workspace = True
    asks_often = True
    changes_files = True  # if False, do not look for changes
    needs_network = False
    default_model: str | None = None  # model of answers whose output reports none

    def __init__(self, where: str, params: Mapping[str, Any], shared: dict[str, Any]) -> None:
        self._where, self._shared, self._params = where, shared, params
        self._cleaning: set[asyncio.Future[Any]] = set()
        self._base = Path(shared.get("base", ".")).absolute()
        self._scratch = ScratchFolders()
        self._keeps_workspaces = bool(shared.get("keep_workspaces"))
        self._prices = Prices(shared.get("prices"))
        self.checks = Checks(shared)
        settings = Settings(where, params)
        settings.noun = "parameter"
        self._environment = _read_env(settings)
        self._inherited = {name: value for name, value in os.environ.items() if name not in (*NESTED, VARIABLE)}
        self._workspaces = Workspaces(where, settings.remaining.pop("workspace", None), self._base)
        self.sandbox = read_sandbox(where, settings.remaining.pop("sandbox", None), self._base)
        origin = self._workspaces.origin
        watched = (self._base, *([] if origin is None else [origin]))
        watches: dict[tuple[Path, ...], OutsideChanges] = shared.setdefault("outside-changes", {})
        self._outside_watch = watches.setdefault(watched, OutsideChanges(watched, self._store_files))
        settings.names += ["workspace", "prompt", "transform", "sandbox"]
        self._renderer = Renderer(where, {key: settings.remaining.pop(key, None) for key in ("prompt", "transform")})
        self.transforms, self.quick = self._renderer.transforms, self._renderer.quick
        setting = params.get("workspace")
        templates = [setting.get(key) for key in ("commit", "after")] if isinstance(setting, Mapping) else []
        self.sees = widest(seen_by(*templates), self._renderer.sees, self.checks.sees)
        if self.checks.own is not None and not self._workspaces.has_commits:
            raise BadInput(
                f'{where}: scorer "{self.checks.own.name}" with own: true takes tests from a later commit',
                "set workspace: {git: FOLDER_OR_URL, commit: REVISION}",
            )
        self._read_parameters(settings)
        settings.done()

    # -- of subclasses ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _read_parameters(self, settings: Settings) -> None:
        """Read the parameters that only this agent has."""

    @abstractmethod
    def _program(self, attempt: Attempt) -> process.Program:
        """Return the program of an attempt. Its folders already exist. Called in a thread; may raise a TrialError."""

    @abstractmethod
    def _read(self, out: Path, err: Path) -> AgentOutput:
        """Read the output of a program, complete or not."""

    @abstractmethod
    def _outcome(self, attempt: Attempt, ended: process.ProcessResult) -> tuple[AgentOutput, TrialError | None]:
        """Return the output of a program that has ended, and the error if that is not an answer. Called in a thread."""

    def _new_stream(self) -> Stream | None:
        return None

    def _should_stop(self, stream: Stream) -> bool:
        """Whether to end the program because of its output so far."""
        return False

    def _start_error(self, error: OSError, program: str) -> Exception:
        return error

    def _needs(self) -> Needs:
        """What its program needs to see in a sandbox."""
        return Needs()

    # -- of `Target` -----------------------------------------------------------------------------------------------

    def request(self, trial: Trial) -> Request:
        return self._renderer.request(trial)

    def problems(self) -> list[Problem]:
        problems = [*(Problem(*problem) for problem in self._workspaces.problems()), *self.checks.problems()]
        return [*problems, *self._sandbox_problems()]

    def _sandbox_problems(self) -> list[Problem]:
        """Try the sandbox before anything is paid."""
        if self.sandbox is None:
            return []
        if self.needs_network and not self.sandbox.network:
            message = f"sandbox: with network: off {self.name} cannot reach its API, not even on this machine"
            return [Problem(message, "set network: on")]
        with tempfile.TemporaryDirectory() as folder:
            command = self._wrap(["/bin/sh", "-c", ":"], Path(folder), Path(folder), os.environ)
            problem = find_problem(self.sandbox, command)
        return [] if problem is None else [Problem(*problem)]

    def notes(self) -> list[str]:
        notes = self._workspaces.notes()
        if self.changes_files and self.sandbox is None:
            notes += [
                f"{folder} has more than {self._outside_watch.limit:,} files: changes by agents are not noticed there"
                for folder in self._outside_watch.begin()
            ]
        return notes

    def after(self, case: Case) -> str | None:
        return self._workspaces.previous_case(case) if self._workspaces.is_chained else None

    def workspace_bytes(self, trial: Trial) -> int:
        """Return the size of the workspace at the start; 0 if it is unknown."""
        try:
            return self._workspaces.start_size(trial.case, self.request(trial).input)
        except TrialError:  # the trial will report it
            return 0

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        workers.clock("preparing")
        start = await self._launch(trial, request, workers)
        failed = True
        try:
            workers.clock("ready", 0.0 if start.running is None else time.monotonic() - start.running.started_at)
            ended = await self._wait_for_end(start, workers)
            workers.clock("over")  # it is paid, so no time limit applies from here on
            answer: Answer = await self._in_thread(workers, self._read_answer, start.attempt, ended)
            if self.checks:
                workers.clock("checking")
                answer = await self._add_checks(start.attempt, answer, workers)
            failed = False
            return answer
        except asyncio.CancelledError:  # timed out: store what it did
            if start.attempt.carried is not None:
                workers.clock("over")  # other trials continue from its state, so no time limit applies
            stream = start.attempt.stream
            silent = None if stream is None else stream.silent_request()
            raise await asyncio.shield(workers.in_thread(self._cancelled_error, start.attempt, silent)) from None
        finally:
            self._release(start.attempt, failed, workers)

    async def close(self) -> None:
        await self.checks.close(CLEANING_S)
        if self._cleaning:
            await asyncio.wait(self._cleaning, timeout=CLEANING_S)
        for close in (self._scratch.close, self._workspaces.close, process_tree.close_launcher):
            await asyncio.to_thread(close)

    # -- programs --------------------------------------------------------------------------------------------------

    async def _launch(self, trial: Trial, request: Request, workers: Workers) -> _StartedAttempt:
        """Make the folders of an attempt and start its program. If cancelled meanwhile, undo both."""
        starting = asyncio.ensure_future(self._in_thread(workers, self._start, trial, request))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            self._clean_later(self._abandon(starting, workers))
            raise

    def _in_thread(self, workers: Workers, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        """Call a function that handles the folders of an attempt; it is short unless there are files to copy."""
        call = workers.in_turn if self._workspaces.are_empty else workers.in_thread
        return call(function, *arguments)

    def _start(self, trial: Trial, request: Request) -> _StartedAttempt:
        process_tree.containment()  # starts the launcher now, so that it does not count as time of the trial
        if self.changes_files and self.sandbox is None:
            self._outside_watch.begin()
        carried = self._find_previous_state(trial)
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
            return _StartedAttempt(attempt, program, running)
        except Exception as error:  # noqa: BLE001 - raised later, when the caller knows the folders
            return _StartedAttempt(attempt, program, error=error)

    def _find_previous_state(self, trial: Trial) -> PreviousState | None:
        """Return the state that the trial continues from; the run knows that of the previous trial."""
        if not self._workspaces.is_chained:
            return None
        if not self._workspaces.previous_case(trial.case):
            return PreviousState()
        if "carrying" not in self._shared:
            raise NotCarried("the state of the previous trial is known only in a run")
        carried: PreviousState = self._shared["carrying"](trial)
        return carried

    async def _wait_for_end(self, start: _StartedAttempt, workers: Workers) -> process.ProcessResult | Exception:
        """Wait for the end of the program; return its result, or the error that kept it from running."""
        stream, extend_deadline = start.attempt.stream, workers.more_time()

        def on_line(line: bytes) -> bool:
            assert stream is not None
            extend_deadline(stream.hear(line))  # by the time it waited for retries
            return self._should_stop(stream)

        error = start.error
        if start.running is not None:
            try:
                listener = None if stream is None else on_line
                ended = await process.finish(start.running, workers, listener, PARTIAL_LINE)
                return ended if self.sandbox is None else replace(ended, code=exit_code(ended.code))
            except (OSError, TrialError) as problem:
                error = problem
        assert error is not None
        if isinstance(error, OSError) and start.program is not None:
            return self._start_error(error, start.program.argv[0])
        return error

    async def _abandon(self, starting: asyncio.Future[_StartedAttempt], workers: Workers) -> None:
        """End a program that has been cancelled while it started, and remove its folders."""
        try:
            start = await starting
        except Exception:  # noqa: BLE001 - there are no folders
            return
        if start.running is not None:
            start.running.tree.kill()
            with contextlib.suppress(OSError, TrialError):
                await process.finish(start.running, workers)
        await workers.in_thread(self._clean, start.attempt)

    def _clean_later(self, cleaning: Awaitable[None]) -> None:
        """Clean up while other trials run; only `close` waits for it."""
        task = asyncio.ensure_future(cleaning)
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    def _release(self, attempt: Attempt, failed: bool, workers: Workers) -> None:
        """Remove the folders of an attempt, or reuse them for another one."""
        reuse = not failed and process_tree.containment() == "subreaper"
        if reuse and attempt.workspace.is_unchanged:
            self._clean(attempt, failed, reuse)  # fast: there is nothing to restore
            return
        if reuse:
            attempt.workspace.expect_reuse()
        self._clean_later(workers.in_thread(self._clean, attempt, failed, reuse))

    def _clean(self, attempt: Attempt, failed: bool = False, reuse: bool = False) -> None:
        if failed and self._keeps_workspaces:
            note_kept(attempt.workspace.path)
        elif reuse:
            attempt.workspace.reuse()
        else:
            attempt.workspace.remove()
        self._scratch.release(attempt.scratch, reuse)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _read_answer(self, attempt: Attempt, ended: process.ProcessResult | Exception) -> Answer:
        """Return the answer with the change of the workspace. Raises a TrialError with the partial answer."""
        if not isinstance(ended, Exception):
            output, problem = self._outcome(attempt, ended)
            answer = self._with_changes(attempt, self._answer(output, attempt, ended))
        elif isinstance(ended, TrialError):
            problem, answer = ended, self._partial_answer(attempt)[1]
        else:
            raise ended
        if problem is not None:
            problem.answer = answer
            raise problem
        return answer

    def _partial_answer(self, attempt: Attempt) -> tuple[AgentOutput, Answer]:
        output = self._read(attempt.scratch / "stdout", attempt.scratch / "stderr")
        return output, self._with_changes(attempt, self._answer(output, attempt, None))

    def _cancelled_error(self, attempt: Attempt, silent: TrialError | None) -> TrialError:
        output, answer = self._partial_answer(attempt)
        error = output.unanswered or silent or Crashed("cut off")
        error.answer = answer
        return error

    def _answer(self, output: AgentOutput, attempt: Attempt, ended: process.ProcessResult | None) -> Answer:
        usage = Usage(*map(count, astuple(output.usage)))
        cost, basis = self._cost(output, usage)
        return Answer(
            output.text or "",
            value=output.value,
            data={**output.columns(), **({} if ended is None else ended.columns())},
            usage=usage,
            cost_usd=cost,
            cost_basis=basis,
            model=output.model[:200] if output.model else self.default_model,
            raw_response=(process.content(attempt.scratch / "stdout") if output.raw is None else output.raw) or None,
            waited_s=output.retry_wait_s or 0.0,
        )

    def _cost(self, output: AgentOutput, usage: Usage) -> tuple[float | None, CostBasis]:
        """Return the cost that the program reports; else that of its tokens, if its model has a price."""
        reported = dollars(output.cost_usd)
        price = self._prices.of(output.model, self.default_model) if reported is None else None
        cost = reported if price is None else dollars(price.of(usage))
        if cost is None:
            return None, "unknown"
        if output.is_included and not self._has_key:
            return cost, "included"
        return cost, "estimated" if reported is None else "reported"

    @cached_property
    def _has_key(self) -> bool:
        """Whether the environment has a key, which then pays instead of a subscription."""
        return any(self.environment().get(name) for name in KEYS)

    def _with_changes(self, attempt: Attempt, answer: Answer) -> Answer:
        """Add the changes of the workspace and the standard error."""
        artifacts = dict(answer.artifacts)
        data = {name: value for name, value in answer.data.items() if value is not None}
        errors = process.tail(attempt.scratch / "stderr")
        if errors:
            artifacts["stderr"] = errors
        if self.changes_files or attempt.carried is not None:
            diff = attempt.workspace.final_diff(attempt.trial.case.id, find_secret)
            if diff.text:
                artifacts["diff"] = diff.text
            if diff.problem:
                data["diff_problem"] = diff.problem
            else:
                data |= {name: count for name, count in diff.counts.columns().items() if count is not None}
            if diff.state is not None:
                artifacts[STATE] = diff.state.as_text()
            data |= _chain_columns(attempt, diff)
            data |= self._outside_changes(attempt)
        if self._keeps_workspaces:
            data["workspace"] = str(attempt.workspace.path)
        text = relative_paths(attempt.workspace.path, answer.text)
        return replace(answer, text=text, artifacts=artifacts, data=data)

    def _outside_changes(self, attempt: Attempt) -> dict[str, Any]:
        """Return files outside of the workspace that changed during the attempt. A sandbox prevents that."""
        changed = None if self.sandbox is not None else self._outside_watch.since(attempt.workspace.since)
        if changed is None:
            return {}
        names = [name.encode("utf-8", "replace").decode() for name in changed]
        return {"outside_changes": len(names), **({OUTSIDE_FILES: names[:MAX_LISTED]} if names else {})}

    # -- sandbox and environment -----------------------------------------------------------------------------------

    def _wrap(self, argv: Sequence[str], workspace: Path, scratch: Path, environment: Mapping[str, str]) -> list[str]:
        """Return the command line, in the sandbox if there is one."""
        if self.sandbox is None:
            return list(argv)
        files = [file for file in self._store_files() if not file.is_relative_to(self._base)]
        hidden = (self._base, self._base.resolve(), *files)
        return wrap(argv, self.sandbox, Mounts(workspace, scratch, self._needs(), hidden), environment)

    def _store_files(self) -> list[Path]:
        """Return the files of the store, which hold the answers of other trials."""
        if self._shared.get("store") is None:
            return []
        store = Path(self._shared["store"]).absolute()
        return list(store.parent.glob(f"{glob.escape(store.name)}*"))

    def attempt_environment(self, attempt: Attempt) -> dict[str, str]:
        """Return the environment of an attempt, with its own temporary folder; git does not search above the
        workspace."""
        own = {} if "TMPDIR" in self._environment else {"TMPDIR": str(attempt.scratch / TEMPORARY)}
        environment = {**self.environment(), **own, **attempt.workspace.environment}
        return self._workspaces.variables(attempt.workspace.path, environment)

    def keyed_variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of the variant, which can change answers, without secrets."""
        return without_secrets({name: environment[name] for name in self._environment})

    def environment(self) -> dict[str, str]:
        """Return the environment at the start, without variables of an outer agent, with those of the variant."""
        variables, setting = Variables(os.environ), f"{self._where}: env"
        return self._inherited | {name: variables.fill(setting, value) for name, value in self._environment.items()}

    # -- checks ----------------------------------------------------------------------------------------------------

    async def _add_checks(self, attempt: Attempt, answer: Answer, workers: Workers) -> Answer:
        state = attempt.carried.state if attempt.carried is not None else None
        attempt.workspace.mark_changed()
        trial = self._check_context(attempt.trial, attempt.request, workers, state, attempt.workspace)
        try:
            return await self.checks.add_results(answer, attempt.workspace, trial)
        except TrialError as error:
            error.answer = answer
            raise

    async def checked_without_agent(self, trial: Trial, workers: Workers) -> dict[str, CheckFacts]:
        """Run the checks of a trial without its agent."""
        return await self.checks.run_without_agent(self._check_context(trial, self.request(trial), workers))

    async def knows_checks(self, trial: Trial, workers: Workers) -> bool:
        """Whether the results of the checks without the agent are cached."""
        return await self.checks.is_cached(self._check_context(trial, self.request(trial), workers))

    def _check_context(
        self,
        trial: Trial,
        request: Request,
        workers: Workers,
        state: WorkspaceState | None = None,
        workspace: Workspace | None = None,
    ) -> CheckContext:
        return CheckContext(
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

    def _wrap_check(
        self, words: Sequence[str], folder: Path, scratch: Path, environment: Mapping[str, str]
    ) -> list[str]:
        """Return the command line of a check in the agent's sandbox. It may read the folder of the spec, where tests
        are."""
        if self.sandbox is None:
            return list(words)
        needs = Needs(read=(self._base,))
        return wrap(words, self.sandbox, Mounts(folder, scratch, needs, tuple(self._store_files())), environment)

    @property
    def agent(self) -> Agent:
        return self

    @property
    def has_checks(self) -> bool:
        return bool(self.checks)

    @property
    def has_setup(self) -> bool:
        return self._workspaces.has_setup

    @property
    def start(self) -> str:
        """A digest of the workspace at the start."""
        return self._workspaces.version

    def set_up(self, trial: Trial) -> str | None:
        """Build the environment of a trial if needed; return its key, or None without one. Raises NoWorkspace."""
        return self._workspaces.set_up(trial.case, self.request(trial).input)


def _chain_columns(attempt: Attempt, diff: Diff) -> dict[str, str]:
    """Return the columns of chained trials: where the state came from, and what it was before and after."""
    if attempt.carried is None:
        return {}
    before = {} if diff.problem else {"state_before": attempt.workspace.commit}
    source = {"carried_from": attempt.carried.case} if attempt.carried.case is not None else {}
    if diff.state is None:
        return {**source, **before, "not_carried": diff.problem or diff.not_carried}
    return {**source, **before, "state_after": diff.state.commit}


def _read_env(settings: Settings) -> dict[str, str]:
    """Read `env:`, in which ${NAME} is replaced by an environment variable. Secrets must be written that way."""
    declared = settings.take("env", {}, _is_environment, "a mapping of texts whose names are not empty, without =")
    for name, value in declared.items():
        if is_secret_setting(name, value) and "${" not in value:
            raise BadInput(
                f"{settings.where}: env: {name} would store a secret",
                f"write {name}: ${{{name}}} and set it in the environment",
            )
    return dict(declared)


def _is_environment(value: Any) -> bool:
    return is_mapping_of_texts(value) and all(
        name and "=" not in name and "\0" not in name + text for name, text in value.items()
    )


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in sorted(variables.items()) if not is_secret_name(name)}

"""Controls of an active run, requested through the store: pause, resume, stop, retry, and other limits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pydantic

from abreast.errors import BadInput, StoreError
from abreast.execute.failures import Retry
from abreast.execute.limits.registry import ActiveLimits
from abreast.execute.scheduler import Scheduler
from abreast.execute.sources.lanes import Source
from abreast.execute.sources.trials import Trials
from abreast.execute.state import RunState
from abreast.spec.load import changed_limits
from abreast.spec.schema import Limits
from abreast.store import Store, open_store
from abreast.store.runs.controls import ACTIONS, Control
from abreast.text import many

CLOSE_S = 5.0  # how long to wait at the end for a store that may not reply
CHECK_S = 0.2  # between two checks of the store
STOPPED = "requested"  # the reason of a stop


class ControlAnswer(NamedTuple):
    outcome: str
    is_applied: bool


class Controller:
    """Applies controls, on the loop of the run."""

    def __init__(
        self,
        *,
        state: RunState,
        limits: ActiveLimits,
        trials: Trials,
        sources: Sequence[Source],
        retry: Retry,
        emit: Callable[..., Any],
        cancel: Callable[[], None],
        stops_early: bool = False,
    ) -> None:
        """`cancel` ends everything in flight."""
        self._state, self._limits, self._trials, self._sources = state, limits, trials, sources
        self._retry, self._emit, self._cancel, self._stops_early = retry, emit, cancel, stops_early
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._timeout: asyncio.TimerHandle | None = None
        self._scheduler: Scheduler | None = None
        self._has_ended = False
        functions = (self._pause, self._resume, self._stop, self._retry_failed, self._set)
        self._actions: dict[str, Callable[[Control], str]] = dict(zip(ACTIONS, functions, strict=True))

    async def run(self, scheduler: Scheduler) -> None:
        """Run a scheduler, to which controls apply."""
        self._scheduler = scheduler
        await scheduler.run()

    def end(self) -> None:
        """Refuse requests from now on."""
        self._has_ended = True
        if self._timeout is not None:
            self._timeout.cancel()

    def start_timeout(self) -> None:
        """Stop the run when its `run_timeout`, counted from the start of the run, is over."""
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        seconds = self._limits.settings.run_timeout
        if seconds is not None:
            message = f"run_timeout of {seconds:g} s reached"
            self._timeout = self._loop.call_at(self._began + seconds, self._state.stop, "run_timeout", message, "")

    def apply(self, control: Control) -> ControlAnswer:
        try:
            answer = ControlAnswer(self._apply(control), True)
        except BadInput as error:
            answer = ControlAnswer(f"{error.message}; {error.fix}" if error.fix else error.message, False)
        self._emit(
            "control",
            by=control.requested_by,
            action=control.action,
            value=control.value,
            outcome=answer.outcome,
            is_applied=answer.is_applied,
            is_paused=self._state.is_paused,
        )
        return answer

    def _apply(self, control: Control) -> str:
        if control.action not in self._actions:
            raise BadInput(f"unknown control {control.action!r}", f"choose one of {', '.join(self._actions)}")
        if self._has_ended:
            raise BadInput("not applied: nothing remains to be executed")
        if self._state.stopped is not None and control.action != "stop":
            raise BadInput("not applied: the run is stopping", "resume it with `abreast resume`")
        return self._actions[control.action](control)

    def _in_flight(self) -> str:
        return f"{many(self._state.in_flight, 'trial')} in flight"

    def _pause(self, control: Control) -> str:
        if self._state.is_paused:
            return "already paused"
        self._state.is_paused = True
        return f"paused; {self._in_flight()}"

    def _resume(self, control: Control) -> str:
        if not self._state.is_paused:
            return "not paused"
        self._state.is_paused = False
        self._state.wake()
        return "resumed"

    def _stop(self, control: Control) -> str:
        """Like Ctrl-C, without a grace period: the first lets trials in flight finish, the second cancels them."""
        if self._state.stopped is None:
            self._state.stop(STOPPED, f"stopped by {control.requested_by}")
            return f"stopping; {self._in_flight()}" + (", stop again to cancel" if self._state.in_flight else "")
        self._cancel()
        return f"stopping; cancelling {self._in_flight()}"

    def _retry_failed(self, control: Control) -> str:
        fix = "run `abreast resume` when the run has ended"
        if self._stops_early:
            raise BadInput("retry: until_decided has already counted the failed trials as lost", fix)
        if self._limits.settings.turns:
            raise BadInput("retry: with limits.turns the turn of the failed trials is over", fix)
        trials = self._trials.retry(self._loop.time())
        return f"executing {many(trials, 'failed trial')} again" if trials else "no trial was given up"

    def _set(self, control: Control) -> str:
        before = self._limits.settings
        if not isinstance(control.value, Mapping) or not control.value:
            raise BadInput("set: missing setting", "use NAME=VALUE, such as parallel=8")
        after = changed_limits(before, control.value, self._limits.target_names, "set")
        added = self._limits.change(after)
        limits = list(self._limits)
        for source in self._sources:
            source.use_limits(limits)
        if self._scheduler is not None:
            self._scheduler.change_limits(limits, added)
        self._retry.retries = after.retries
        if after.run_timeout != before.run_timeout:
            self.start_timeout()
        return ", ".join(
            f"{name}: {_setting_text(before, name)} → {_setting_text(after, name)}" for name in control.value
        )


def _setting_text(limits: Limits, name: str) -> str:
    key, _, target = name.partition(".")
    value = getattr(limits.of(target) if target else limits, key)
    if isinstance(value, pydantic.BaseModel):
        return ", ".join(f"{key} {item}" for key, item in value)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


class ControlWatch:
    """A thread that looks for requests in the store and answers them."""

    def __init__(self, store: Store, run_id: int, apply: Callable[[Control], ControlAnswer]) -> None:
        self._address, self._engine, self._run_id, self._apply = store.address, store.engine, run_id, apply
        self._loop = asyncio.get_running_loop()
        self._closing = threading.Event()
        self._answers: dict[int, ControlAnswer] = {}  # a control whose answer could not be stored is not applied again
        self._thread = threading.Thread(target=self._work, name="abreast-controls", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        self._closing.set()
        await asyncio.to_thread(self._thread.join, CLOSE_S)

    def _work(self) -> None:
        store: Store | None = None
        is_due = True
        while not self._closing.wait(CHECK_S):
            with suppress(StoreError):  # the writer reports a store that cannot be reached
                store = store or open_store(self._address, self._engine)
                is_due = store.wait_for_change(0.0) or is_due
                if is_due:
                    for control in store.pending_controls(self._run_id):
                        self._answer(store, control)
                    is_due = False
        if store is not None:
            with suppress(StoreError):
                store.close()

    def _answer(self, store: Store, control: Control) -> None:
        if control.number not in self._answers:
            answer = asyncio.run_coroutine_threadsafe(self._applied(control), self._loop)
            self._answers[control.number] = answer.result()
        store.answer_control(control.number, *self._answers[control.number])

    async def _applied(self, control: Control) -> ControlAnswer:
        return self._apply(control)

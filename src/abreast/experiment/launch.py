"""Executing a prepared run from Python: in a thread or on the caller's loop, with its progress and its log."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from abreast.view.log import LOGGER, event_log, log_findings, warn

if TYPE_CHECKING:
    from abreast.execute.listener import Listener
    from abreast.experiment.execution import RunExecution
    from abreast.experiment.preparation import Prepared
    from abreast.experiment.result import Result

Value = TypeVar("Value")


@contextmanager
def observed(prepared: Prepared) -> Iterator[list[Listener]]:
    """Listeners that log what happens, and show the progress if that is wanted."""
    options = prepared.setup.options
    log_findings(prepared.findings)
    listeners = [*options.listeners]
    if not options.progress or LOGGER.hasHandlers():  # without a handler Python would print what the display shows
        listeners.append(event_log())
    display = progress_display(prepared) if options.progress else None
    if display is not None:
        listeners.append(display)
    try:
        yield listeners
    finally:
        if display is not None:
            display.close()


def progress_display(prepared: Prepared) -> Any:
    from abreast.view.progress import progress

    done = prepared.done_before + len(prepared.reuses)
    return progress(len(prepared.setup.plan), done, [target.name for target in prepared.setup.targets])


def run_in_thread(execution: RunExecution) -> Result:
    """Execute in a thread with a loop of its own, and wait."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(asyncio.run(execution.run()))
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            outcome.append(error)
        over.set()

    over = threading.Event()  # an interrupted `join` would take the thread for ended
    context = contextvars.copy_context()  # a notebook finds the cell that output belongs to by it
    threading.Thread(target=context.run, args=(work,), name="abreast-run").start()
    while not over.is_set():
        try:
            over.wait()
        except KeyboardInterrupt:  # it ends as it does in a terminal: what is in flight may finish, or is cancelled
            if execution.interrupt is None:
                raise
            execution.interrupt()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    result: Result = outcome[0]
    return result


async def run_on_loop(execution: RunExecution) -> Result:
    """Execute on the running loop. If the caller is cancelled, cancel what is in flight and store what is finished
    first, which takes seconds at most."""
    task = asyncio.ensure_future(execution.run())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as cancelled:
        if execution.interrupt is None:  # it has not begun
            task.cancel()
        else:
            execution.interrupt()
        await _end_of(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise cancelled from error
        raise


async def _end_of(task: asyncio.Future[Any]) -> None:
    """Wait for the end of a task that cannot be left alone. Further cancellations of the caller change nothing."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])


async def in_thread(function: Callable[[], Value], abandon: Callable[[Value], object] | None = None) -> Value:
    """Call a function in a thread, which nothing can end: if the caller is cancelled, its value goes to `abandon`."""
    task = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _end_of(task)
        if abandon is not None and task.exception() is None:
            abandon(task.result())
        raise


def warn_if_useless(result: Result) -> None:
    """Log why a run has no answer or no score, and how to go on with one that is not complete."""
    analysis = result.analysis
    if result.status == "incomplete":
        reason = analysis.run["reason"] or "unknown reason"
        left = result.planned - analysis.stored
        fix = f" {result.fix}." if result.fix else ""
        stopped = f"{result.run}: stopped: {reason}; {left:,} of {result.planned:,} trials not run"
        warn(f"{stopped}.{fix} Run the experiment again to continue.")
    elif analysis.is_without_answer or analysis.is_without_score:
        from abreast.report.words.verdict_sentence import preface

        warn(f"{result.run}: {preface(analysis)[0]}")

"""Execution of a prepared run from Python: in a thread or on the caller's loop, with progress and log."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from abreast.progress.log import LOGGER, event_log, log_findings, warn

if TYPE_CHECKING:
    from abreast.execute.listener import Listener
    from abreast.experiment.execution import RunExecution
    from abreast.experiment.preparation import Prepared
    from abreast.experiment.result import Result

Value = TypeVar("Value")


@contextmanager
def observed(prepared: Prepared) -> Iterator[list[Listener]]:
    """Yield listeners that log events, and that show progress if the options request it."""
    options = prepared.setup.options
    log_findings(prepared.findings)
    listeners = [*options.listeners]
    if not options.progress or LOGGER.hasHandlers():  # without a handler, Python would print them, too
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
    from abreast.progress.displays import progress

    done = prepared.done_before + len(prepared.reuses)
    return progress(len(prepared.setup.plan), done, [target.name for target in prepared.setup.targets])


def run_in_thread(execution: RunExecution) -> Result:
    """Execute in a thread with its own loop, and wait."""
    future: Future[Result] = Future()

    def work() -> None:
        try:
            future.set_result(asyncio.run(execution.run()))
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            future.set_exception(error)

    context = contextvars.copy_context()  # a notebook finds the cell of an output by it
    threading.Thread(target=context.run, args=(work,), name="abreast-run").start()
    while not future.done():
        try:
            wait([future])
        except KeyboardInterrupt:  # as in a terminal: trials in flight may finish, or are cancelled
            if execution.interrupt is None:
                raise
            execution.interrupt()
    return future.result()


async def run_on_loop(execution: RunExecution) -> Result:
    """Execute on the running loop.

    If the caller is cancelled, first cancel trials in flight and store finished ones, which takes seconds at most.
    """
    task = asyncio.ensure_future(execution.run())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError as cancelled:
        if execution.interrupt is None:  # not begun
            task.cancel()
        else:
            execution.interrupt()
        await _end_of(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise cancelled from error
        raise


async def _end_of(task: asyncio.Future[Any]) -> None:
    """Wait until a task has ended, ignoring further cancellations of the caller."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])


async def in_thread(function: Callable[[], Value], abandon: Callable[[Value], object] | None = None) -> Value:
    """Call a function in a thread. If the caller is cancelled, wait for it and pass its value to `abandon`."""
    task = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _end_of(task)
        if abandon is not None and task.exception() is None:
            abandon(task.result())
        raise


def warn_without_result(result: Result) -> None:
    """Log why a run has no answer or no score, and how to continue an incomplete one."""
    analysis = result.analysis
    if result.status == "incomplete":
        reason = analysis.run["reason"] or "unknown reason"
        missing = result.planned - analysis.stored
        first = f"{result.fix}, then run" if result.fix else "run"
        stopped = f"{result.run}: stopped: {reason}; {missing:,} of {result.planned:,} trials not run"
        warn(f"{stopped}; {first} the experiment again to continue")
    elif analysis.is_without_answer or analysis.is_without_score:
        from abreast.report.words.verdict_sentence import preface

        warn(f"{result.run}: {preface(analysis)[0]}")

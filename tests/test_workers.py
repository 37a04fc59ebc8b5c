"""Threads for blocking calls: each result is returned whatever the other calls do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from abreast.execute.engine.workers import LocalWorkers


def with_workers(use: Callable[[LocalWorkers], Coroutine[Any, Any, Any]]) -> Any:
    async def main() -> Any:
        workers = LocalWorkers(asyncio.get_running_loop(), lambda moment, ago: None, lambda: lambda seconds: None)
        try:
            return await use(workers)
        finally:
            workers.close()

    return asyncio.run(main())


def test_every_short_call_is_made_once_and_gets_its_own_result() -> None:
    calls: list[int] = []

    def square(number: int) -> int:
        calls.append(number)
        return number * number

    async def use(workers: LocalWorkers) -> list[int]:
        return await asyncio.gather(*(workers.in_turn(square, number) for number in range(200)))

    assert with_workers(use) == [number * number for number in range(200)]
    assert sorted(calls) == list(range(200))


def test_a_blocking_call_does_not_delay_later_calls() -> None:
    """Each call but the last waits for the next one, so all of them have to run at the same time."""
    events = [threading.Event() for _ in range(20)]

    def wait_for_next(number: int) -> int:
        events[number].set()
        if number + 1 < len(events):
            events[number + 1].wait()
        return number

    async def use(workers: LocalWorkers) -> list[int]:
        return await asyncio.gather(*(workers.in_turn(wait_for_next, number) for number in range(len(events))))

    assert with_workers(use) == list(range(20))


def test_an_error_of_a_short_call_is_raised_where_it_is_awaited_and_the_next_call_is_made() -> None:
    async def use(workers: LocalWorkers) -> int:
        with pytest.raises(ValueError, match="invalid literal"):
            await workers.in_turn(int, "no number")
        return int(await workers.in_turn(int, "7"))

    assert with_workers(use) == 7

"""Waiting for what is asynchronous, from where nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Found = TypeVar("Found")


def waited_for(work: Callable[[], Coroutine[Any, Any, Found]]) -> Found:
    """What it comes to; also in a notebook, where this thread has a loop that cannot wait for another."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(work())).result()

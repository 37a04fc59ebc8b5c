"""Waiting for what is asynchronous, from where nothing is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Found = TypeVar("Found")


def waited_for(work: Callable[[], Coroutine[Any, Any, Found]]) -> Found:
    """What it comes to. Ctrl-C ends it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    with ThreadPoolExecutor(1) as thread:  # in a notebook this thread has a loop, which cannot wait for another
        return thread.submit(lambda: asyncio.run(work())).result()

"""Attempts that end as the input of their case says, for engines here and on other nodes."""

from __future__ import annotations

import asyncio

from abreast.errors import RateLimited, Skipped
from abreast.model import Answer, Case

SECRET = "sk-ant-api03-" + "x7Qz" * 20


async def behave(case: str) -> Answer:
    """Perform an attempt that ends as the input says."""
    if case == "error":
        raise RateLimited("slow down")
    if case == "skipped":
        raise Skipped("not for me")
    if case == "crash":
        raise ZeroDivisionError(f"broke with {SECRET}")
    await asyncio.sleep(1000.0 if case == "timeout" else 1.0)
    return Answer(f"the key is {SECRET}" if case == "secret" else "yes")


async def scripted(case: Case) -> Answer:
    return await behave(case.input)

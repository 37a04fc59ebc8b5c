"""Reports of the store's outages: when it cannot be reached, and when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from abreast.execute.state import RunState
from abreast.store import Writer

STALLED_S = 10.0  # a commit that takes longer is reported
CHECK_S = 1.0


class StoreOutages:
    """Reports outages. Meanwhile results wait in memory, and no trial replaces one that is not stored yet.

    Once the run has been stopped and nothing is in flight, the writer gives up after a short time.
    """

    def __init__(self, address: str, writer: Writer, state: RunState, emit: Callable[..., Any]) -> None:
        self._address, self._writer, self._state, self._emit = address, writer, state, emit
        self._clock = asyncio.get_running_loop().time
        self._began: float | None = None
        self._is_stall = False  # rather than a lost connection, whose end the writer reports

    async def watch(self) -> None:
        outages = self._state.acknowledgements.outages
        while True:
            try:
                async with asyncio.timeout(CHECK_S):
                    error = await outages.get()
            except TimeoutError:
                self._check_stall()
            else:
                self._is_stall = False
                if error is not None:
                    self._begin(error.message)
                else:
                    self._end()
            if self._began is not None and self._state.stopped is not None and not self._state.in_flight:
                self._writer.hurry()

    def _check_stall(self) -> None:
        is_stalled = self._writer.waiting_s() > STALLED_S
        if is_stalled and self._began is None:
            self._is_stall = True
            self._begin(f"{self._address}: no reply for {STALLED_S:.0f} s")
        elif self._is_stall and not is_stalled and self._writer.failure is None:
            self._end()

    def _begin(self, message: str) -> None:
        if self._began is None:
            self._began = self._clock()
            self._emit("store_lost", message=message)

    def _end(self) -> None:
        if self._began is not None:
            self._emit("store_back", seconds=round(self._clock() - self._began, 1))
            self._began = None

"""Reading the store in threads, each with its own connection, so that pages stay responsive."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

from abreast.errors import StoreError
from abreast.store import Store, open_store

READERS = 3
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class StoreReader:
    """Calls functions with a store that belongs to their thread."""

    def __init__(self, address: str, engine: str, threads: int = READERS, name: str = "abreast-view") -> None:
        self.address, self.engine = address, engine
        self._stores: list[Store] = []
        self._of_thread = threading.local()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    def submit(
        self,
        function: Callable[Concatenate[Store, Arguments], Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Future[Result]:
        return self._pool.submit(lambda: function(self._store(), *arguments, **options))

    async def read(
        self,
        function: Callable[Concatenate[Store, Arguments], Result],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        return await asyncio.wrap_future(self.submit(function, *arguments, **options))

    def _store(self) -> Store:
        store: Store | None = getattr(self._of_thread, "store", None)
        if store is None:
            store = self._of_thread.store = open_store(self.address, self.engine)
            self._stores.append(store)
        return store

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for store in self._stores:
            with suppress(StoreError):
                store.close()

"""Imports what the end of a run needs while its trials are in flight."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from abreast.execute.listener import Listener

if TYPE_CHECKING:
    from abreast.execute.job import Job

REPORT = (
    "abreast.analyse.run",
    "abreast.report.formats.terminal",
    "abreast.report.page.html",
    "abreast.report.results",
)


class Preloader(Listener):
    """Imports modules in a thread that starts with the first trial, so that trials do not wait for them."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._modules = modules
        self._has_started = False

    def started(self, job: Job, in_flight: int) -> None:
        if not self._has_started:
            self._has_started = True
            threading.Thread(target=self._load, name="abreast-imports").start()

    def _load(self) -> None:
        for module in self._modules:
            with suppress(ImportError):  # reported where the module is used
                import_module(module)

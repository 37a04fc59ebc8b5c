"""Resources that a call uses: CPU time and memory of the process, network traffic of the machine."""

from __future__ import annotations

import threading
import time
from typing import Any

import psutil

SAMPLE_S = 0.02


class ResourceMonitor:
    """Measures from its creation to `stop`. Concurrent calls are all included in each other's numbers."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._sent, self._received = _traffic()
        self._cpu = time.process_time()
        self._before = self._peak = self._memory()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="abreast-resources", daemon=True)
        self._thread.start()

    def _memory(self) -> int:
        return int(self._process.memory_info().rss)

    def _sample(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self._peak = max(self._peak, self._memory())

    def stop(self) -> dict[str, Any]:
        """Return CPU seconds, peak and growth of memory in MB, and bytes sent and received by the machine."""
        self._done.set()
        self._thread.join()
        now = self._memory()
        sent, received = _traffic()
        return {
            "cpu_s": time.process_time() - self._cpu,
            "memory_peak_mb": max(self._peak, now) / 1e6,
            "memory_grown_mb": (now - self._before) / 1e6,
            "bytes_sent": sent - self._sent,
            "bytes_recv": received - self._received,
        }


def _traffic() -> tuple[int, int]:
    counters = psutil.net_io_counters()
    return (int(counters.bytes_sent), int(counters.bytes_recv)) if counters else (0, 0)  # none without interfaces

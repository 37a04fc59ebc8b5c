"""Evaluate regular expressions and schemas of users with a timeout, in a helper process.

A regular expression may take years on a text crafted for it, and meanwhile blocks every thread of its process, even
Ctrl-C. Therefore all but the simplest run in a helper process that the kernel kills in time.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

SECONDS = 5.0
MAX_ATTEMPTS = 2  # the clean-up of a run may have ended the helper
TOO_SLOW = f"took longer than {SECONDS:g} s"
CPU_TIME, REAL_TIME = signal.ITIMER_VIRTUAL, signal.ITIMER_REAL
_SHORT_TEXT = 10_000  # characters; fast to search for a pattern with one repeat
_REPEAT = re.compile(r"[*+?{]")
_LENGTH = 8  # size in bytes of the length prefix of each message
_WHEN_PARENT_ENDS = 1  # PR_SET_PDEATHSIG
_SERVE = """\
import sys
sys.path.insert(0, sys.argv[1])
from abreast.regex_timeout import serve
serve(int(sys.argv[2]), sys.argv[3] == "True")
"""


class TooSlow(Exception):
    """The call timed out."""


def search(pattern: re.Pattern[str], text: str) -> str | None:
    """Return the first match of a pattern in a text; None if there is none. Raises TooSlow."""
    if len(text) <= _SHORT_TEXT and len(_REPEAT.findall(pattern.pattern)) <= 1:
        match = pattern.search(text)
        return match.group() if match else None
    matched: str | None = call("abreast.regex_timeout:search_in_helper", pattern.pattern, pattern.flags, text)
    return matched


def search_in_helper(pattern: str, flags: int, text: str) -> str | None:
    """The part of `search` that runs in the helper process."""
    match = re.compile(pattern, flags).search(text)
    return match.group() if match else None


def start() -> None:
    """Start the helper process in advance, so that the first call does not wait for it."""
    _HELPER.start()


def call(function: str, *arguments: Any, seconds: float | None = None, clock: int = CPU_TIME) -> Any:
    """Call `module:function` in the helper process, with JSON arguments and result. Raises TooSlow."""
    return _HELPER.call({"function": function, "arguments": arguments, "seconds": seconds or SECONDS, "clock": clock})


class _SearchProcess:
    """A process that serves one call after the other, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # process id; a forked copy needs its own helper

    def call(self, request: dict[str, Any]) -> Any:
        with self._lock:
            for _ in range(MAX_ATTEMPTS):
                process = self._start()
                assert process.stdin is not None
                assert process.stdout is not None
                with contextlib.suppress(OSError, EOFError):
                    _write(process.stdin, request)
                    return _read(process.stdout)
                self._end()
                if process.returncode in (-signal.SIGVTALRM, -signal.SIGALRM):
                    break
        raise TooSlow

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._owner = os.getpid()
            is_main = threading.current_thread() is threading.main_thread()
            arguments = [str(Path(__file__).parents[1]), str(self._owner), str(is_main)]
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", _SERVE, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._process

    def start(self) -> None:
        with self._lock:
            self._start()

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):
                self._process.kill()
            with contextlib.suppress(OSError):
                self._process.communicate()
        self._process = None


_HELPER = _SearchProcess()
atexit.register(_HELPER.close)


def _write(file: IO[bytes], message: Any) -> None:
    content = json.dumps(message, default=str).encode("ascii")
    file.write(len(content).to_bytes(_LENGTH, "big") + content)
    file.flush()


def _read(file: IO[bytes]) -> Any:
    length = file.read(_LENGTH)
    if len(length) < _LENGTH:
        raise EOFError
    return json.loads(file.read(int.from_bytes(length, "big")))


def serve(parent: int, ends_with_parent: bool) -> None:
    """Run the helper process until its input ends. The kernel kills it when a call times out, and when its parent ends
    if the parent's main thread started it, because the kernel takes that thread for the parent."""
    if ends_with_parent:
        end_with(parent)
    for number in (signal.SIGVTALRM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(EOFError):
        while True:
            request = _read(sys.stdin.buffer)
            module, _, name = request["function"].partition(":")
            function = getattr(importlib.import_module(module), name)
            signal.setitimer(request["clock"], request["seconds"])
            result = function(*request["arguments"])
            signal.setitimer(request["clock"], 0)
            _write(sys.stdout.buffer, result)


def end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends; exit if it has ended already."""
    if sys.platform == "linux":
        import ctypes  # imported late: only helper processes need it

        ctypes.CDLL(None).prctl(_WHEN_PARENT_ENDS, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)

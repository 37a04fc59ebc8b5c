"""Regular expressions and schemas of users, tried in a process that can be ended.

A regular expression may take years for a text that somebody chose for it, and blocks every thread of its process
meanwhile, even for Ctrl-C. So all but the plainest are tried in a helper process that the kernel ends in time.
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
ROUNDS = 2  # whoever ends the processes of a run may have ended this one
TOO_SLOW = f"took longer than {SECONDS:g} s"
CPU_TIME, REAL_TIME = signal.ITIMER_VIRTUAL, signal.ITIMER_REAL
_PLAIN_TEXT = 10_000  # characters that a pattern with one repeat searches in no time
_REPEAT = re.compile(r"[*+?{]")
_LENGTH = 8  # bytes before each message that say how long it is
_WHEN_PARENT_ENDS = 1  # PR_SET_PDEATHSIG
_SERVE = """\
import sys
sys.path.insert(0, sys.argv[1])
from abreast.regex_timeout import serve
serve(int(sys.argv[2]), sys.argv[3] == "True")
"""


class TooSlow(Exception):
    """It was not done in time."""


def search(pattern: re.Pattern[str], text: str) -> str | None:
    """Return the first match of a pattern in a text; None if there is none. Raises TooSlow."""
    if len(text) <= _PLAIN_TEXT and len(_REPEAT.findall(pattern.pattern)) <= 1:
        match = pattern.search(text)
        return match.group() if match else None
    matched: str | None = call("abreast.regex_timeout:search_again", pattern.pattern, pattern.flags, text)
    return matched


def search_again(pattern: str, flags: int, text: str) -> str | None:
    """Search in the helper process."""
    match = re.compile(pattern, flags).search(text)
    return match.group() if match else None


def start() -> None:
    """Start the helper process, so that the first question does not wait for it."""
    _HELPER.start()


def call(function: str, *arguments: Any, seconds: float | None = None, clock: int = CPU_TIME) -> Any:
    """Call `module:function` in the helper process. Arguments and result travel as JSON. Raises TooSlow."""
    return _HELPER.ask({"function": function, "arguments": arguments, "seconds": seconds or SECONDS, "clock": clock})


class _Helper:
    """A process that answers one question after the other, started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0  # a copy of this process has none yet

    def ask(self, question: dict[str, Any]) -> Any:
        with self._lock:
            for _ in range(ROUNDS):
                process = self._running()
                assert process.stdin is not None
                assert process.stdout is not None
                with contextlib.suppress(OSError, EOFError):
                    _write(process.stdin, question)
                    return _read(process.stdout)
                self._end()
                if process.returncode in (-signal.SIGVTALRM, -signal.SIGALRM):
                    break
        raise TooSlow

    def _running(self) -> subprocess.Popen[bytes]:
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
            self._running()

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


_HELPER = _Helper()
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
    """Run the helper process until its input ends. The kernel ends it when the time of a question is over, and with
    its parent if the main thread started it: for the kernel, the parent is the thread."""
    if ends_with_parent:
        end_with(parent)
    for number in (signal.SIGVTALRM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(EOFError):
        while True:
            question = _read(sys.stdin.buffer)
            module, _, name = question["function"].partition(":")
            function = getattr(importlib.import_module(module), name)
            signal.setitimer(question["clock"], question["seconds"])
            result = function(*question["arguments"])
            signal.setitimer(question["clock"], 0)
            _write(sys.stdout.buffer, result)


def end_with(parent: int) -> None:
    """Let the kernel end this process when its parent ends, which may have been just now."""
    if sys.platform == "linux":
        import ctypes  # late: only helper processes need it

        ctypes.CDLL(None).prctl(_WHEN_PARENT_ENDS, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)

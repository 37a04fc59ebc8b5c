"""Patterns and schemas of users, tried on words of models in a process that can be ended.

A regular expression may take years for a text that somebody chose for it, and holds up every thread of its process
meanwhile: not even Ctrl-C is heard. So all but the plainest are tried elsewhere, for so many seconds of a processor.
"""

from __future__ import annotations

import atexit
import contextlib
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
_PLAIN_TEXT = 10_000  # characters that a pattern with one repeat looks through in no time
_REPEAT = re.compile(r"[*+?{]")
_LENGTH = 8  # bytes
_SERVE = "import sys; sys.path.insert(0, sys.argv[1]); from abreast.scorers.parsing.regex_timeout import serve; serve()"


class TooSlow(Exception):
    """It was not done in time."""


def found(pattern: re.Pattern[str], text: str) -> str | None:
    """What of a text a pattern matches first; None if nothing. Raises TooSlow."""
    if len(text) <= _PLAIN_TEXT and len(_REPEAT.findall(pattern.pattern)) <= 1:
        match = pattern.search(text)
        return match.group() if match else None
    told: str | None = _ELSEWHERE.ask({"pattern": pattern.pattern, "flags": pattern.flags, "text": text})
    return told


def flaws(schema: Any, value: Any) -> list[str]:
    """How a value does not fit a schema, the first of them. Raises TooSlow."""
    told: list[str] = _ELSEWHERE.ask({"schema": schema, "value": value})
    return told


class _Elsewhere:
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
                    _write(process.stdin, {**question, "seconds": SECONDS})
                    return _read(process.stdout)
                self._end()
                if process.returncode == -signal.SIGVTALRM:
                    break
        raise TooSlow

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process, self._owner = _started(), os.getpid()
        return self._process

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


_ELSEWHERE = _Elsewhere()
atexit.register(_ELSEWHERE.close)


def _started() -> subprocess.Popen[bytes]:
    """It ends with its input."""
    place = str(Path(__file__).parents[3])
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _SERVE, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _write(file: IO[bytes], told: Any) -> None:
    content = json.dumps(told, default=str).encode("ascii")
    file.write(len(content).to_bytes(_LENGTH, "big") + content)
    file.flush()


def _read(file: IO[bytes]) -> Any:
    length = file.read(_LENGTH)
    if len(length) < _LENGTH:
        raise EOFError
    return json.loads(file.read(int.from_bytes(length, "big")))


def serve() -> None:
    """The process itself. The kernel ends it when the time of a question is over."""
    from abreast.scorers import form

    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
    with contextlib.suppress(EOFError):
        while True:
            asked = _read(sys.stdin.buffer)
            signal.setitimer(signal.ITIMER_VIRTUAL, asked["seconds"])
            if "pattern" in asked:
                match = re.compile(asked["pattern"], asked["flags"]).search(asked["text"])
                told: Any = match.group() if match else None
            else:
                told = form.flaws_of(asked["schema"], asked["value"])
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            _write(sys.stdout.buffer, told)

"""API keys: from the environment or from a command, never stored, never shown."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence

from abreast.errors import Unauthenticated
from abreast.redaction import declare_secret

COMMAND_S = 30.0  # time limit of a key command
RENEW_S = 60.0  # a key command is not run again within this time


class Key:
    """A key from the first of `variables` that is set, or from a command. An `optional` key may be missing: a local
    server may need none."""

    def __init__(self, variables: Sequence[str], command: Sequence[str] = (), optional: bool = False) -> None:
        self.variables, self.command, self.optional = tuple(variables), tuple(command), optional
        self._lock = threading.Lock()
        self._value: str | None = None
        self._renewed_at = -RENEW_S

    def value(self) -> str | None:
        """Return the key; None if none is needed. Runs the command the first time."""
        with self._lock:
            if self._value is None:
                self._value = self._check(self._run_command() if self.command else self._from_environment())
            return self._value

    @property
    def is_ready(self) -> bool:
        """Whether `value` runs no command."""
        return self._value is not None or not self.command

    def renew(self, refused: str | None) -> bool:
        """Run the command again after a key was refused; return whether the key differs now. The first of several
        concurrent requests renews it for all."""
        with self._lock:
            if not self.command:
                return False
            if self._value != refused:
                return True
            if time.monotonic() - self._renewed_at < RENEW_S:
                return False
            self._value = None
            self._value = self._check(self._run_command())
            return self._value != refused

    def _check(self, key: str | None) -> str | None:
        """Refuse a key that no header can contain, and register it as a secret."""
        if key and not (key.isascii() and key.isprintable()):
            source = f"the output of the key command {shlex.join(self.command)}" if self.command else self.variables[0]
            raise Unauthenticated(f"{source} contains characters that keys cannot have", fix=self.fix)
        if key:
            declare_secret("key", key)
        return key

    def missing(self) -> str | None:
        """Explain why the key is missing; None if it is set or not needed. Runs no command."""
        if self.command or self.optional or any(os.environ.get(name) for name in self.variables):
            return None
        return f"{' or '.join(self.variables)} is not set"

    def _from_environment(self) -> str | None:
        for name in self.variables:
            if os.environ.get(name):
                return os.environ[name].strip()
        if missing := self.missing():
            raise Unauthenticated(missing, fix=self.fix)
        return None

    def _run_command(self) -> str:
        command = shlex.join(self.command)
        fix = f"run it in a terminal: {command}"
        try:
            completed = subprocess.run(
                self.command, capture_output=True, errors="replace", timeout=COMMAND_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unauthenticated(f"the key command {command} failed: {error}", fix=fix) from None
        key = completed.stdout.strip()
        if completed.returncode or not key:  # its output may be a secret, so it is not shown
            output = "an output that is ignored" if key else "no output"
            raise Unauthenticated(f"the key command {command} exited with {completed.returncode} and {output}", fix=fix)
        self._renewed_at = time.monotonic()
        return key

    @property
    def fix(self) -> str:
        return f"export {self.variables[0]}=..., or name a key_command:"

    def fingerprint(self) -> str:
        """Return a short hash of the key, or of its command without running it; equal for the same account."""
        key = shlex.join(self.command) or next((os.environ[name] for name in self.variables if name in os.environ), "")
        return hashlib.blake2b(os.fsencode(key), digest_size=4, person=b"abreast-key").hexdigest() if key else "none"


def command_of(value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command; a string is split as a shell would."""
    return tuple(shlex.split(value)) if isinstance(value, str) else tuple(value)

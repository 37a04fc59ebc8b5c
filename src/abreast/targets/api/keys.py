"""Keys: from the environment or from a command, never stored, never shown."""

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

COMMAND_S = 30.0  # for a key command to answer
YOUNG_S = 60.0  # a key that was made so recently is not made again


class Key:
    """Where a key comes from: the first of `variables` that is set, unless a command makes it. If it is `optional`,
    there may be none: a server of one's own may want none."""

    def __init__(self, variables: Sequence[str], command: Sequence[str] = (), optional: bool = False) -> None:
        self.variables, self.command, self.optional = tuple(variables), tuple(command), optional
        self._lock = threading.Lock()
        self._value: str | None = None
        self._made_at = -YOUNG_S

    def value(self) -> str | None:
        """The key; None if none is needed. A command is run once; it may take a while."""
        with self._lock:
            if self._value is None:
                self._value = self._checked(self._made() if self.command else self._found())
            return self._value

    @property
    def known(self) -> bool:
        """Whether asking for it takes no time."""
        return self._value is not None or not self.command

    def renew(self, refused: str | None) -> bool:
        """A command may give another one after this was refused. Whether there is another one now: of several requests
        that were under way with the old one, the first renews it for all."""
        with self._lock:
            if not self.command:
                return False
            if self._value != refused:
                return True
            if time.monotonic() - self._made_at < YOUNG_S:
                return False
            self._value = None
            self._value = self._checked(self._made())
            return self._value != refused

    def _checked(self, key: str | None) -> str | None:
        """Refuse a key that no header can hold, and keep it out of everything that is stored."""
        if key and not (key.isascii() and key.isprintable()):
            source = f"what the key command {shlex.join(self.command)} gave" if self.command else self.variables[0]
            raise Unauthenticated(f"{source} has line breaks or characters in it that no key has", fix=self.fix)
        if key:
            declare_secret("key", key)
        return key

    def missing(self) -> str | None:
        """Why there is none, in words; None if there is one or none is needed. Runs no command."""
        if self.command or self.optional or any(os.environ.get(name) for name in self.variables):
            return None
        return f"{' or '.join(self.variables)} is not set"

    def _found(self) -> str | None:
        for name in self.variables:
            if os.environ.get(name):
                return os.environ[name].strip()
        if missing := self.missing():
            raise Unauthenticated(missing, fix=self.fix)
        return None

    def _made(self) -> str:
        shown = shlex.join(self.command)
        try:
            done = subprocess.run(self.command, capture_output=True, errors="replace", timeout=COMMAND_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unauthenticated(f"the key command {shown} failed: {error}", fix=f"try it by hand: {shown}") from None
        key = done.stdout.strip()
        if done.returncode or not key:  # what it printed may be a secret, so it is not repeated
            raise Unauthenticated(
                f"the key command {shown} ended with {done.returncode} and gave "
                f"{'no key' if not key else 'something all the same'}",
                fix=f"try it by hand: {shown}",
            )
        self._made_at = time.monotonic()
        return key

    @property
    def fix(self) -> str:
        return f"export {self.variables[0]}=..., or name a key_command:"

    def fingerprint(self) -> str:
        """Tells accounts apart, and says nothing of the key. A command is told by its words: it is not run for this."""
        told = shlex.join(self.command) or next((os.environ[name] for name in self.variables if name in os.environ), "")
        return hashlib.blake2b(os.fsencode(told), digest_size=4, person=b"abreast-key").hexdigest() if told else "none"


def command_of(value: str | Sequence[str]) -> tuple[str, ...]:
    """A command as a list of words; a text is split as a shell would, and no shell runs it."""
    return tuple(shlex.split(value)) if isinstance(value, str) else tuple(value)

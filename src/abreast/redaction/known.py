"""The secrets that this process knows: from its environment, and those that targets declare."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from abreast.redaction.names import describes
from abreast.redaction.redactor import Redactor
from abreast.redaction.values import is_redactable, secret_parts, secret_values, url_secrets


class KnownSecrets:
    """Collects secret values. A value once known stays known: texts may repeat a key that was replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._declared: dict[str, str] = {}  # names, by value
        self._inherited: dict[str, str] = {}
        self._environment: dict[Any, Any] = {}
        self._redactor = Redactor({})

    @property
    def redactor(self) -> Redactor:
        """A redactor for the environment as it is now."""
        if _raw_environment() != self._environment:
            self._read_environment()
        return self._redactor

    def declare(self, name: str, value: str) -> None:
        """Add a value that is a secret because of where it is used: as a key, or for `${NAME}` in a header."""
        parts = url_secrets(value) if describes(name) else secret_parts(name, value)
        with self._lock:
            self._add(self._declared, {part: name for part in parts if is_redactable(part)})

    def _read_environment(self) -> None:
        with self._lock:
            environment = dict(_raw_environment())
            names: dict[str, str] = {}
            for name, value in sorted(os.environ.items(), reverse=True):
                names |= dict.fromkeys(secret_values(name, value), name)
            self._add(self._inherited, names)
            self._environment = environment

    def _add(self, known: dict[str, str], names: dict[str, str]) -> None:
        if not names.items() <= known.items():
            known |= names
            self._redactor = Redactor({**self._inherited, **self._declared})


def _raw_environment() -> Mapping[Any, Any]:
    """The mapping behind `os.environ`: comparing it takes a microsecond, reading os.environ takes fifty."""
    raw: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
    return raw


KNOWN = KnownSecrets()

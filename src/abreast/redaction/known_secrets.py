"""The secrets known to this process: from its environment, and declared by targets."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from abreast.redaction.names import is_description
from abreast.redaction.redactor import Redactor
from abreast.redaction.values import is_redactable, secret_parts, secret_values, url_secrets


class KnownSecrets:
    """Collects secret values. They are never forgotten: texts may repeat a key that was rotated."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._declared: dict[str, str] = {}  # names, by value
        self._inherited: dict[str, str] = {}
        self._environment: dict[Any, Any] = {}
        self._redactor = Redactor({})

    @property
    def redactor(self) -> Redactor:
        if _raw_environment() != self._environment:
            self._read_environment()
        return self._redactor

    def declare(self, name: str, value: str) -> None:
        """Add a value that is a secret because of where it is used: as a key, or for `${NAME}` in a header."""
        parts = url_secrets(value) if is_description(name) else secret_parts(name, value)
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

    def _add(self, secrets: dict[str, str], names: dict[str, str]) -> None:
        if not names.items() <= secrets.items():
            secrets |= names
            self._redactor = Redactor({**self._inherited, **self._declared})


def _raw_environment() -> Mapping[Any, Any]:
    """The mapping behind `os.environ`: comparing it takes a microsecond, reading os.environ takes fifty."""
    raw: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
    return raw


KNOWN_SECRETS = KnownSecrets()

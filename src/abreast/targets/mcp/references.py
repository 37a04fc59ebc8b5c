"""`${NAME}` and `${NAME:-default}` in declarations, and names that promise a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

from abreast.errors import BadInput

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION")
_ABOUT = {"FILE", "PATH", "DIR", "LIMIT", "COUNT", "LENGTH", "SIZE"}  # MAX_TOKEN_COUNT is none


def is_secret(name: str) -> bool:
    """Whether a name promises a secret.

    >>> [is_secret(name) for name in ("API_KEY", "x-api-key", "apiToken", "Authorization", "OPENAI_APIKEY")]
    [True, True, True, True, True]
    >>> [is_secret(name) for name in ("MAX_TOKENS", "KEYBOARD", "TOKEN_LIMIT", "SSH_KEY_PATH", "PATH")]
    [False, False, False, False, False]
    """
    words = re.sub("([a-z0-9])([A-Z])", r"\1_\2", name).upper().replace("-", "_").split("_")
    return words[-1] not in _ABOUT and any(word.rstrip("0123456789").endswith(_SECRETS) for word in words)


class Variables:
    """The environment, and which values of it were used."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.used: dict[str, str] = {}  # names by value

    def fill(self, place: str, text: str) -> str:
        """The text with values for the variables in it. An empty one counts as not set if there is a default."""
        return REFERENCE.sub(lambda found: self._value(place, found), text)

    def _value(self, place: str, found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        value = self._environment.get(name)
        if value is None or (not value and default is not None):
            if default is None:
                fix = f"export {name}=..., or write ${{{name}:-default}}"
                raise BadInput(f"{place}: the environment variable {name} is not set", fix)
            return default
        if len(value) >= 4 or (value and is_secret(name)):  # a shorter one is found in any text
            self.used[value] = name
        return value

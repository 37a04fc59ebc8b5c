"""`${NAME}` and `${NAME:-default}` in declarations."""

from __future__ import annotations

import re
from collections.abc import Mapping

from abreast.errors import BadInput
from abreast.redaction import declare_secret

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class Variables:
    """Fills in environment variables. Every value that is filled in counts as a secret."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

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
        declare_secret(name, value)
        return value

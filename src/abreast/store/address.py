"""Which store is meant: one rule for commands, experiments and trackers."""

from __future__ import annotations

import os

VARIABLE = "ABREAST_STORE"
DEFAULT = "results.db"

Address = str | os.PathLike[str]


def named_store(*names: Address | None) -> Address | None:
    """Return the first store that is named, else the one in $ABREAST_STORE, else None.

    `names` are in order of precedence: a flag or an argument, then the spec. An empty variable counts as unset.
    """
    return next((name for name in names if name is not None), os.environ.get(VARIABLE) or None)

"""What whoever made the experiment wants to be known before it runs."""

from __future__ import annotations

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding


def check(context: Context) -> Finding | None:
    """The first of the notes; all of them for who asks."""
    if not context.notes:
        return None
    first, *others = context.notes
    more = f" (and {len(others):,} more)" if others else ""
    return Finding("suite", "note", f"{first}{more}", "", tuple(context.notes) if others else ())

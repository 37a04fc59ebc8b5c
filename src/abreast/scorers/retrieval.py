"""`retrieval`: which files, symbols, lines and quotations an answer claims, and which of them are right."""

from __future__ import annotations

from typing import Any


def flaw_of(expected: Any) -> tuple[str, str] | None:
    """What is wrong with a ground truth, after its name, and how to mend it; None if nothing is."""
    return None

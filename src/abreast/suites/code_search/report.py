"""What the report of a run has besides: the arms side by side, and the cases with their winners."""

from __future__ import annotations

from abreast.analyse import Analysis
from abreast.report.sections import Section


def sections(analysis: Analysis) -> list[Section]:
    """All of it, from the stored rows."""
    return []

"""Analysis: from rows to verdicts."""

from abreast.analyse.paired import Pairs
from abreast.analyse.rows import Rows
from abreast.analyse.run import Analysis, CaseDifference, Comparison, analyse
from abreast.analyse.segments import Segment
from abreast.analyse.variants import Repeats, VariantSummary

__all__ = [
    "Analysis",
    "CaseDifference",
    "Comparison",
    "Pairs",
    "Repeats",
    "Rows",
    "Segment",
    "VariantSummary",
    "analyse",
]

"""Analysis: from rows to verdicts."""

from abreast.analyse.calibration import Calibration
from abreast.analyse.paired import Pairs
from abreast.analyse.rows import Rows
from abreast.analyse.run import Analysis, CaseDifference, Comparison, analyse
from abreast.analyse.segments import Segment
from abreast.analyse.variants import Repeats, VariantSummary

__all__ = [
    "Analysis",
    "Calibration",
    "CaseDifference",
    "Comparison",
    "Pairs",
    "Repeats",
    "Rows",
    "Segment",
    "VariantSummary",
    "analyse",
]

"""Analysis: from rows to verdicts."""

from abreast.analyse.run import Analysis, CaseDifference, Comparison, VariantSummary, analyse

__all__ = ["Analysis", "CaseDifference", "Comparison", "VariantSummary", "analyse"]

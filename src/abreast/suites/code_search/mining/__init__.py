"""Propose cases from a repository without a model; two methods must agree on every ground truth."""

from abreast.suites.code_search.mining.proposal import KnownCases, Proposal
from abreast.suites.code_search.mining.selection import KINDS, LIMIT, propose

__all__ = ["KINDS", "LIMIT", "KnownCases", "Proposal", "propose"]

"""Cases proposed from a repository, without a model: every truth is found in two ways that must agree."""

from abreast.suites.code_search.mining.proposal import Known, Proposal
from abreast.suites.code_search.mining.selection import KINDS, LIMIT, propose

__all__ = ["KINDS", "LIMIT", "Known", "Proposal", "propose"]

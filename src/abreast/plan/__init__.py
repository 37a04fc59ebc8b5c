"""The plan: trials, order, keys, what is already done."""

from abreast.plan.keys import find_reusable, mark_done, variant_digest
from abreast.plan.plan import Plan

__all__ = ["Plan", "find_reusable", "mark_done", "variant_digest"]

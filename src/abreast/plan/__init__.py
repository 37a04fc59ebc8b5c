"""The plan: trials, order, keys, what is already done."""

from abreast.plan.carrying import Carrying
from abreast.plan.chains import chains_of
from abreast.plan.keys import final_positions, find_reusable, mark_done, variant_digest
from abreast.plan.plan import Plan
from abreast.plan.predecessor import find_extension

__all__ = [
    "Carrying",
    "Plan",
    "chains_of",
    "final_positions",
    "find_extension",
    "find_reusable",
    "mark_done",
    "variant_digest",
]

"""Keys: which answers may stand for which trials.

A key is composed of the contender's digest (target, its version, parameters), the digest of what the target sees of
the case, the repeat, and the occurrence. Renaming a variant or a case, or correcting an expected answer, changes no
key; the simulator alone is keyed by the whole case, because it knows the truth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abreast.digest import compose
from abreast.model import Variant
from abreast.plan.plan import Plan
from abreast.store import Reuse, Store
from abreast.targets import Target
from abreast.targets.request import digest_of_params


def variant_digest(variant: Variant, target: Target) -> str:
    """The contender itself, whatever it is called."""
    return compose("variant", target.name, target.version, digest_of_params(variant.params), variant.version)


def mark_done(plan: Plan, store: Store, run_id: int, failures_too: bool = True) -> None:
    """What this run has already: its final outcomes, the variants' own failures included unless told otherwise."""
    positions = [position for position in store.final_positions(run_id, failures_too) if position < len(plan)]
    plan.done[np.array(positions, dtype=np.int64)] = True


def find_reusable(plan: Plan, targets: Sequence[Target], store: Store, failures_too: bool = True) -> list[Reuse]:
    """Outcomes of earlier runs that stand for trials of this plan; the variants' own failures among them."""
    found: list[Reuse] = []
    for digest in dict.fromkeys(plan.digests):
        variants = [index for index, other in enumerate(plan.digests) if other == digest]
        whole = targets[variants[0]].keyed_by_expected
        known = {
            (case if whole else seen, repeat, occurrence): (run_id, position)
            for seen, case, repeat, occurrence, run_id, position in store.outcomes_of(digest, failures_too)
        }
        if known:
            for variant in variants:
                found.extend(_matches(plan, variant, whole, known))
    return found


def _matches(plan: Plan, variant: int, whole: bool, known: dict[tuple[str, int, int], tuple[int, int]]) -> list[Reuse]:
    matches = []
    for case in range(len(plan.cases)):
        seen = plan.cases.digest(case) if whole else plan.cases.input_digest(case)
        occurrence = plan.occurrence(case, variant)
        for repeat in range(plan.repeats):
            position = plan.position(case, repeat, variant)
            source = known.get((seen, repeat, occurrence))
            if source is not None and not plan.done[position]:
                matches.append(
                    Reuse(position, plan.cases.digest(case), variant, repeat, occurrence, source[0], source[1])
                )
    return matches

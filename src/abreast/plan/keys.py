"""Keys: which stored answers can be reused for which trials.

A key is composed of the variant's digest (target, its version, parameters), what the target sees of the case, the
repeat, and the occurrence. Renaming a variant or correcting an expected answer changes no key. Only the simulator,
which knows the expected answer, and agents that are tested with parts of the case are keyed by the whole case.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

from abreast.code.digest import source_digest
from abreast.digest import compose
from abreast.model import Variant
from abreast.plan.chains import reuses_in_chains, unbroken
from abreast.plan.plan import Plan
from abreast.store import Reuse, Store, StoredOutcome
from abreast.targets import Target
from abreast.targets.base import Sees
from abreast.targets.request import digest_of_params, params_as_mapping


def variant_digest(variant: Variant, target: Target) -> str:
    """Digest of a variant without its name."""
    keyed = variant.params if target.keyed_params is None else target.keyed_params
    params = compose(digest_of_params(keyed), *_code_in(keyed))
    return compose("variant", target.name, target.version, params, variant.version)


def _code_in(params: Any) -> Iterator[str]:
    """Digests of the classes of parameters, whose methods a function may call."""
    if isinstance(params, Mapping):
        for key in sorted(params, key=str):
            yield from _code_in(params[key])
    elif isinstance(params, list | tuple):
        for item in params:
            yield from _code_in(item)
    elif not (params is None or isinstance(params, str | int | float | bytes) or callable(params)):
        yield source_digest(type(params))
        yield from _code_in(params_as_mapping(params) if dataclasses.is_dataclass(params) else None)


def final_positions(
    plan: Plan, store: Store, run_id: int, failures_too: bool = True, repeated: Collection[int] = frozenset()
) -> list[int]:
    """Positions whose outcome is final, except `repeated`; in a chain only if the outcomes before them are."""
    stored = store.final_positions(run_id, failures_too)
    positions = [position for position in stored if position < len(plan) and position not in repeated]
    if not plan.is_chained:
        return positions
    return sorted(unbroken(plan, store, {position: (run_id, position) for position in positions}))


def find_reusable(plan: Plan, targets: Sequence[Target], store: Store, failures_too: bool = True) -> list[Reuse]:
    """Find outcomes of earlier runs to reuse; with `failures_too` also the variants' own failures."""
    reuses: list[Reuse] = []
    for digest in dict.fromkeys(plan.digests):
        variants = [index for index, other in enumerate(plan.digests) if other == digest]
        sees = targets[variants[0]].sees
        outcomes = store.outcomes_of(digest, failures_too)
        stored = {(_stored_key(sees, outcome), outcome.repeat, outcome.occurrence): outcome for outcome in outcomes}
        if stored:
            for variant in variants:
                reuses.extend(_matches(plan, variant, sees, stored))
    return reuses_in_chains(plan, store, reuses) if plan.is_chained else reuses


def _stored_key(sees: Sees, stored: StoredOutcome) -> Hashable:
    if sees == "case":
        return stored.input_digest, stored.case_id, tuple(sorted(json.loads(stored.tags).items())), stored.group
    return stored.input_digest if sees == "input" else stored.case_digest


def _planned_key(sees: Sees, plan: Plan, index: int) -> Hashable:
    if sees == "case":
        case = plan.cases[index]
        return plan.cases.input_digest(index), case.id, tuple(sorted(case.tags.items())), case.group
    return plan.cases.input_digest(index) if sees == "input" else plan.cases.digest(index)


def _matches(
    plan: Plan, variant: int, sees: Sees, stored: Mapping[tuple[Hashable, int, int], StoredOutcome]
) -> Iterator[Reuse]:
    for case in range(len(plan.cases)):
        key, occurrence = _planned_key(sees, plan, case), plan.occurrence(case, variant)
        for repeat in range(plan.repeats):
            position = plan.position(case, repeat, variant)
            source = stored.get((key, repeat, occurrence))
            if source is not None and not plan.done[position]:
                yield Reuse(
                    position=position,
                    case_digest=plan.cases.digest(case),
                    variant=variant,
                    repeat=repeat,
                    occurrence=occurrence,
                    block=plan.block(case, repeat),
                    run_id=source.run_id,
                    source=source.position,
                    failed=bool(source.failed),
                )

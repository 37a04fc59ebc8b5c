"""Keys: which answers may stand for which trials.

A key is composed of the contender's digest (target, its version, parameters), what the target sees of the case, the
repeat, and the occurrence. Renaming a variant or correcting an expected answer changes no key; keyed by the whole case
are only the simulator, which knows the truth, and agents whose work is tested by what the case brings along.
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
        for each in params:
            yield from _code_in(each)
    elif not (params is None or isinstance(params, str | int | float | bytes) or callable(params)):
        yield source_digest(type(params))
        yield from _code_in(params_as_mapping(params) if dataclasses.is_dataclass(params) else None)


def final_positions(
    plan: Plan, store: Store, run_id: int, failures_too: bool = True, again: Collection[int] = frozenset()
) -> list[int]:
    """Positions whose outcome is final, except `again`; in a chain only if the outcomes before them are."""
    stored = store.final_positions(run_id, failures_too)
    found = [position for position in stored if position < len(plan) and position not in again]
    if not plan.is_chained:
        return found
    return sorted(unbroken(plan, store, {position: (run_id, position) for position in found}))


def find_reusable(plan: Plan, targets: Sequence[Target], store: Store, failures_too: bool = True) -> list[Reuse]:
    """Find outcomes of earlier runs to reuse; with `failures_too` also the variants' own failures."""
    found: list[Reuse] = []
    for digest in dict.fromkeys(plan.digests):
        variants = [index for index, other in enumerate(plan.digests) if other == digest]
        sees = targets[variants[0]].sees
        outcomes = store.outcomes_of(digest, failures_too)
        known = {(_seen(sees, stored), stored.repeat, stored.occurrence): stored for stored in outcomes}
        if known:
            for variant in variants:
                found.extend(_matches(plan, variant, sees, known))
    return reuses_in_chains(plan, store, found) if plan.is_chained else found


def _seen(sees: Sees, stored: StoredOutcome) -> Hashable:
    if sees == "case":
        return _case_key(stored.input_digest, stored.case_id, json.loads(stored.tags), stored.group)
    return stored.input_digest if sees == "input" else stored.case_digest


def _case_key(input_digest: str, case_id: str, tags: Mapping[str, str], group: str | None) -> Hashable:
    return input_digest, case_id, tuple(sorted(tags.items())), group


def _planned(plan: Plan, case: int, sees: Sees) -> Hashable:
    if sees == "case":
        content = plan.cases[case]
        return _case_key(plan.cases.input_digest(case), content.id, content.tags, content.group)
    return plan.cases.input_digest(case) if sees == "input" else plan.cases.digest(case)


def _matches(
    plan: Plan, variant: int, sees: Sees, known: Mapping[tuple[Hashable, int, int], StoredOutcome]
) -> list[Reuse]:
    matches = []
    for case in range(len(plan.cases)):
        seen, occurrence = _planned(plan, case, sees), plan.occurrence(case, variant)
        for repeat in range(plan.repeats):
            position = plan.position(case, repeat, variant)
            source = known.get((seen, repeat, occurrence))
            if source is not None and not plan.done[position]:
                reuse = Reuse(
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
                matches.append(reuse)
    return matches

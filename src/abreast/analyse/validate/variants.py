"""Variants that are not what they seem: several differences, none, or another model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from abreast.analyse.validate import tools
from abreast.analyse.validate.evidence import Evidence, Variant
from abreast.analyse.validate.finding import SHOWN, Finding, listed, of_trials, of_variants
from abreast.targets import simulated
from abreast.text import many


def differences(evidence: Evidence) -> Iterator[Finding]:
    """Variants that differ from the baseline in several things at once, or in nothing."""
    confounded: dict[str, set[str]] = {}
    for variant in evidence.others:
        found = _treatments(variant, evidence.baseline)
        if len(found) > 1 and not found <= tools.PARAMS and not _is_in_a_grid(evidence, variant, found):
            confounded[variant.name] = found
    if confounded:
        told = "; ".join(f"{name}: {listed(sorted(found))}" for name, found in list(confounded.items())[:SHOWN])
        yield of_variants(
            "differences",
            "note",
            f"differ from {evidence.baseline.name} in several things at once, so that no difference can be put down to "
            f"one of them ({told})",
            "add variants that change one thing each, or read the verdict as one on the whole",
            confounded,
        )
    yield from exchanges(evidence)
    twins = [pair for pair in combinations(evidence.variants, 2) if not pair[0].differs_in(pair[1])]
    if twins and not str(evidence.run["experiment"]).endswith("(A/A)"):
        told = listed(f"{one.name} and {other.name}" for one, other in twins)
        yield of_variants(
            "differences",
            "note",
            f"do not differ at all: {told}",
            "a test of the set-up against itself is: abreast aa SPEC",
            dict.fromkeys(variant.name for pair in twins for variant in pair),
        )


def exchanges(evidence: Evidence) -> Iterator[Finding]:
    """Agents that have other tools than the baseline's, or MCP servers instead of some: that is one treatment, and what
    the verdict is on. A server more, or a single tool, needs no words."""
    found = {}
    for variant in evidence.others:
        keys = _treatments(variant, evidence.baseline)
        one = tools.exchange(variant, evidence.baseline)
        said = keys <= tools.PARAMS and one.differs_in_tools and not one.is_of_one
        if said and not (keys == {"mcp", "tools"} and _is_in_a_grid(evidence, variant, keys)):
            found[variant.name] = one
    if not found:
        return
    told = "; ".join(f"{name} {one.in_words()}" for name, one in list(found.items())[:SHOWN])
    what = " exchange" if all(one.is_mutual for one in found.values()) else " difference"
    verdict = f"the verdict is on that{what}" if len(found) == 1 else "the verdicts are on that"
    yield of_variants("differences", "note", f"{told}: {verdict}", _same_tools(evidence, found.values()), found)


def _same_tools(evidence: Evidence, found: Iterable[tools.Exchange]) -> str:
    """How to measure one thing alone."""
    if not any(one.servers for one in found):
        return "to measure one tool alone, add a variant that differs in that only"
    if evidence.spec.get("suite") == "code-search":
        return "to measure the server alone, give the search tools to both: --search-tools both"
    return "to measure the server alone, give the same tools: to both variants"


def _treatments(variant: Variant, other: Variant) -> set[str]:
    """What two variants differ in. A simulator told of another prompt and what it brings: the prompt. Servers and what
    is allowed for them alone: the servers; tools and how they may be called: the tools."""
    found = variant.differs_in(other)
    if variant.simulated and other.simulated:
        found = found - set(simulated.OWN) or found
    if "allowed_tools" in found and found & {"mcp", "tools"}:
        one = tools.exchange(variant, other)
        found = found - {"allowed_tools"} | ({"tools"} if one.differs_in_tools else set())
    return found


def _is_in_a_grid(evidence: Evidence, variant: Variant, keys: set[str]) -> bool:
    """Whether for each of these there is another variant that differs from this one in that alone."""
    return all(any(_treatments(variant, other) == {key} for other in evidence.variants) for key in keys)


def models(evidence: Evidence) -> Iterator[Finding]:
    """Which models answered: one for each variant, and not the same for two that ask for different ones."""
    arms = list(zip(evidence.variants, evidence.arms, strict=True))
    for variant, arm in arms:
        if arm["a_model"] != arm["another_model"]:
            yield _several_models(evidence, variant)
        if 0 < arm["model"] < arm["ok"]:
            count, ids = evidence.named(
                evidence.store.queries.trials_without_model(evidence.run_id, variant.index, SHOWN)
            )
            message = f"{many(count, 'answer')} of {variant.name} without a model, the others have one"
            yield of_trials("models", "note", message, "let the target report the model always", count, ids)
    told = {variant.target for variant, arm in arms if arm["model"]}
    unknown = [variant.name for variant, arm in arms if arm["ok"] and not arm["model"] and variant.target in told]
    if unknown:
        message = f"which model answered for {listed(unknown)} is not known, for others of the same target it is"
        yield of_variants("models", "note", message, "let the target report the model always", unknown)
    yield from _one_model_for_two(evidence)


def _several_models(evidence: Evidence, variant: Variant) -> Finding:
    names = evidence.store.queries.models(evidence.run_id, only_ok=True)[variant.index]
    return of_variants(
        "models",
        "serious" if variant.params.get("model") is not None else "note",
        f"{variant.name} was answered by {len(names)} models: {listed(names)}",
        "name a version that does not move, then run it anew with --fresh",
        (variant.name,),
    )


def _one_model_for_two(evidence: Evidence) -> Iterator[Finding]:
    for one, other in combinations(evidence.variants, 2):
        wanted = one.params.get("model"), other.params.get("model")
        first, second = evidence.arms[one.index], evidence.arms[other.index]
        answered = {arm[key] for arm in (first, second) for key in ("a_model", "another_model")}
        if len(answered) == 1 and None not in (*answered, *wanted) and wanted[0] != wanted[1] and not one.simulated:
            yield of_variants(
                "models",
                "serious",
                f"{one.name} asks for {wanted[0]} and {other.name} for {wanted[1]}, and {answered.pop()} answered both",
                "look at what is sent: the parameter may not reach the target, or both names mean one model",
                (one.name, other.name),
            )

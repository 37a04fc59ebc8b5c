"""Does a name of a model stand for another model than before?"""

from __future__ import annotations

from collections.abc import Iterator

from abreast.preflight.context import Context
from abreast.preflight.earlier import Earlier
from abreast.preflight.finding import Finding, listed

RUNS = 10  # looked at


def check(context: Context) -> Finding | None:
    """From what answered in the last runs; None if no answer said."""
    used = {
        (target.name, str(params.get("model", "")))
        for target, params in zip(context.targets, context.params, strict=True)
        if not target.simulated
    }
    seen: dict[tuple[str, str], list[tuple[str, set[str]]]] = {}  # by what was asked for: who answered, the last first
    for earlier in _runs(context.earlier):
        answered: dict[tuple[str, str], set[str]] = {}
        for target, asked, model in earlier.models():
            answered.setdefault((target, asked), set()).add(model)
        for key in answered.keys() & used:
            seen.setdefault(key, []).append((earlier.run, answered[key]))
    moved = []
    for (target, asked), runs in sorted(seen.items()):
        (run, now), (before, then) = runs[0], runs[min(1, len(runs) - 1)]
        if not now & then:
            told = f"answered as {listed(sorted(now))} in {run}, as {listed(sorted(then))} in {before}"
            moved.append(f"{asked or target} {told}")
    if moved:
        fix = "name the model by its full version to keep it"
        return Finding("models", "warn", "; ".join(moved[:2]), fix, tuple(moved))
    if seen:
        known = sorted({model for runs in seen.values() for model in runs[0][1]})
        return Finding("models", "pass", f"answers come from {listed(known)}", aside=True)
    return None


def _runs(earlier: Earlier | None) -> Iterator[Earlier]:
    for _ in range(RUNS):
        if earlier is None:
            return
        yield earlier
        earlier = earlier.before

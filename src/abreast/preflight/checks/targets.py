"""Check that targets can answer, that requests can be rendered, and that models have not changed."""

from __future__ import annotations

from collections.abc import Iterator

from abreast.errors import classify, location
from abreast.model import Failure, Request, Trial
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, first_of, listed, summarised
from abreast.targets import Target
from abreast.targets.base import may_render

RENDERED_CASES = 3  # cases rendered per variant
RUNS = 10  # most runs whose models are compared


def check_targets(context: Context) -> Finding | None:
    """Report what is missing for the targets, such as a key, a program or a folder."""
    notes: dict[str, list[str]] = {}
    problems: dict[str, str] = {}
    for user, target in _needed(context):
        for problem in target.problems():
            problems.setdefault(f"{user}: {problem.message.removeprefix(f'{user}: ')}", problem.fix)
        for note in target.notes():
            notes.setdefault(note, []).append(user)
    if problems:
        return summarised("targets", "fail", list(problems), next(iter(problems.values())))
    variants = len(context.plan.variants)
    messages = [note if len(users) >= variants > 1 else f"{listed(users)}: {note}" for note, users in notes.items()]
    return summarised("targets", "note", messages) if messages else None


def _needed(context: Context) -> Iterator[tuple[str, Target]]:
    """User and target: all variants if trials are left, and the judges that will be called."""
    if context.estimate.trials:
        for variant, target in zip(context.plan.variants, context.targets, strict=True):
            yield f'variant "{variant.name}"', target
    for name, target in context.open_judges():
        yield f'scorer "{name}"', target


def check_requests(context: Context) -> Finding | None:
    """Render the first few cases of each variant with trials left; nothing is sent."""
    plan = context.plan
    blocks = plan.open_blocks()[: RENDERED_CASES * plan.repeats]
    cases = list(dict.fromkeys(map(plan.case, blocks)))[:RENDERED_CASES]
    broken: list[str] = []
    partly: list[str] = []
    for index, _, target in context.open_variants():
        if not may_render(target):
            continue
        trials = [plan.trial(plan.position(case, 0, index)) for case in cases]
        crashes = [message for trial in trials if (message := _crash(target, trial))]
        if crashes:
            (broken if len(crashes) == len(trials) else partly).append(crashes[0])
    if broken:
        return Finding("requests", "fail", first_of(broken), "fix the template or the transform", tuple(broken))
    if partly:
        return Finding(
            "requests",
            "warn",
            first_of(partly),
            "fix the template or the transform, or such cases count as failures",
            tuple(partly),
        )
    return None


def render_request(target: Target, trial: Trial) -> Request | Failure:
    try:
        return target.request(trial)
    except Exception as error:  # noqa: BLE001 - from a user's transform or a plugin
        return classify(error)


def _crash(target: Target, trial: Trial) -> str:
    """Say why rendering fails, and where; empty if it does not, or if a transform refuses the case on purpose."""
    failure = render_request(target, trial)
    if isinstance(failure, Request) or failure.kind != "crash":
        return ""
    line = location(failure.detail)
    message = f'variant "{trial.variant.name}", case "{trial.case.id}": {failure.message}'
    return message + (f", at {line}" if line else "")


def check_models(context: Context) -> Finding | None:
    """Warn if a model name now refers to another model."""
    used = {
        (target.name, str(params.get("model", "")))
        for target, params in zip(context.targets, context.columns.params, strict=True)
        if not target.simulated
    }
    models: dict[tuple[str, str], list[tuple[str, set[str]]]] = {}  # runs and models by requested model, newest first
    for run in context.previous.with_earlier(RUNS) if context.previous else ():
        answered: dict[tuple[str, str], set[str]] = {}
        for target, requested, model in run.models():
            answered.setdefault((target, requested), set()).add(model)
        for key in answered.keys() & used:
            models.setdefault(key, []).append((run.run, answered[key]))
    changed = []
    for (target, requested), runs in sorted(models.items()):
        (name, now), (before, then) = runs[0], runs[min(1, len(runs) - 1)]
        if not now & then:
            change = f"answered as {listed(sorted(now))} in {name}, as {listed(sorted(then))} in {before}"
            changed.append(f"{requested or target} {change}")
    if changed:
        fix = "use the full version of the model name to pin it"
        return Finding("models", "warn", "; ".join(changed[:2]), fix, tuple(changed))
    if models:
        names = sorted({model for runs in models.values() for model in runs[0][1]})
        return Finding("models", "pass", f"answers come from {listed(names)}", is_check_only=True)
    return None

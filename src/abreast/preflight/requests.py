"""Can the request of every variant be rendered, by its transform and its template?"""

from __future__ import annotations

from abreast.errors import classify, location
from abreast.model import Failure, Request, Trial
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding
from abreast.targets import Target
from abreast.targets.base import may_render

NAME = "requests"
CASES = 3  # that are rendered, of each variant


def check(context: Context) -> Finding | None:
    """Render the first few cases of each variant with something left to execute; nothing is sent."""
    plan = context.plan
    blocks = plan.open_blocks()[: CASES * plan.repeats]
    cases = list(dict.fromkeys(map(plan.case, blocks)))[:CASES]
    left = {variant.variant for variant in context.estimate.variants}
    broken: list[str] = []
    partly: list[str] = []
    for index, (variant, target) in enumerate(zip(plan.variants, context.targets, strict=True)):
        if variant.name not in left or not may_render(target):
            continue
        trials = [plan.trial(plan.position(case, 0, index)) for case in cases]
        crashes = [message for trial in trials if (message := _crash(target, trial))]
        if crashes:
            (broken if len(crashes) == len(trials) else partly).append(crashes[0])
    if broken:
        return Finding(NAME, "fail", _first_of(broken), "fix the template or the transform", tuple(broken))
    if partly:
        return Finding(NAME, "warn", _first_of(partly), "such cases will count as failures", tuple(partly))
    return None


def render_request(target: Target, trial: Trial) -> Request | Failure:
    """The request of this trial, or why there is none."""
    try:
        return target.request(trial)
    except Exception as error:  # noqa: BLE001 - a user's transform, or a target from a package
        return classify(error)


def _crash(target: Target, trial: Trial) -> str:
    """Why rendering fails and where; empty if it does not, or if a transform refuses the case on purpose."""
    failure = render_request(target, trial)
    if isinstance(failure, Request) or failure.kind != "crash":
        return ""
    place = location(failure.detail)
    where = f'variant "{trial.variant.name}", case "{trial.case.id}"'
    return f"{where}: {failure.message}" + (f", at {place}" if place else "")


def _first_of(messages: list[str]) -> str:
    more = f" (and {len(messages) - 1:,} more)" if len(messages) > 1 else ""
    return f"{messages[0]}{more}"

"""Does the `setup:` command of the workspaces work? It is run here, so that its failure is never an agent's."""

from __future__ import annotations

from abreast.preflight.context import TRIED_CASES, Context
from abreast.preflight.finding import Finding, many
from abreast.targets.agents.agent import Agent
from abreast.targets.workspace import NoWorkspace

NAME = "setup"
LATE = "abreast check with the same words tries it"
FIX = "fix the command, or install what it needs"


def check(context: Context) -> Finding | None:
    """Create missing environments, once for all variants with the same start: for every case before a run, and for the
    first case in `abreast check`."""
    agents = [(at, agent) for at, agent in enumerate(context.targets) if isinstance(agent, Agent) and agent.has_setup]
    is_asked = context.try_tests > TRIED_CASES
    if not agents or not (context.estimate.trials or is_asked):
        return None
    if not context.try_setup:
        return Finding(NAME, "note", "not tried yet", LATE)
    plan, keys, known = context.plan, set[str | None](), set[str]()
    cases = len(plan.cases) if context.try_tests else 1
    for at, agent in agents:
        if agent.start in known:
            continue
        known.add(agent.start)
        for case in range(cases):
            trial = plan.trial(plan.position(case, at, 0))
            try:
                keys.add(agent.set_up(trial))
            except NoWorkspace as error:
                return Finding(NAME, "fail", f"case {trial.case.id}: {error}", FIX)
    if cases < len(plan.cases):
        tried = f"works for {plan.cases[0].id}; the run sets up the other {len(plan.cases) - 1:,}, as does --try-tests"
        return Finding(NAME, "pass", tried, aside=True)
    return Finding(NAME, "pass", f"{many(len(keys), 'environment')} for {many(len(plan.cases), 'case')}", aside=True)

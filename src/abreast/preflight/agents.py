"""Which programs work as agents, and is there room for their folders?"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed, many
from abreast.preflight.limits import likely_in_flight
from abreast.targets.agent import Agent
from abreast.targets.workspace import git, place

ENOUGH = 0.5  # of what is free on the disk


def check(context: Context) -> Finding | None:
    """Programs with their versions; whoever is not there is told by the check of targets."""
    agents = _agents(context)
    if not agents:
        return None
    versions: dict[str, None] = {}
    details: list[str] = []
    for name, agent in agents:
        told = [f"{program} {version}" for program, version in getattr(agent, "cli_versions", {}).items()]
        versions |= dict.fromkeys(told)
        details.append(f"{name}: {', '.join(told) or 'a program that is asked for no version'}")
    versions[f"git {_git_version()}" if git.installed() else "git missing"] = None
    judges = [f"{name}: {target.name}" for name, target in context.judges.items()]
    if judges:
        details += [f"judge {told}" for told in judges]
    message = f"{many(len(agents), 'agent')}: {listed(list(versions), 8)}"
    return Finding("agents", "pass", message, "", tuple(details), aside=True)


def check_room(context: Context) -> Finding | None:
    """So many folders at once, so large each, and what is free where they are made."""
    agents = _agents(context)
    if not agents or not context.estimate.trials:
        return None
    largest, whose = max(((_weight(context, agent), name) for name, agent in agents), key=lambda pair: pair[0])
    flying = likely_in_flight(context.limits, context.targets)
    root = place.root()
    free = shutil.disk_usage(_that_is_there(root)).free
    needed = largest * (flying + 1)  # one that they are copied from
    told = f"{many(flying, 'workspace')} of {_size(largest)} at once, {_size(free)} free in {root}"
    if needed > free:
        fix = f"set {place.ROOT} to a folder on a larger disk, or reduce parallel"
        return Finding("workspaces", "fail", f"{told}: there is no room for them ({whose})", fix)
    if needed > ENOUGH * free:
        return Finding("workspaces", "warn", f"{told}: agents that build or install may fill it", "reduce parallel")
    return Finding("workspaces", "pass", told, aside=True)


def _agents(context: Context) -> list[tuple[str, Agent]]:
    pairs = zip(context.plan.variants, context.targets, strict=True)
    return [(variant.name, target) for variant, target in pairs if isinstance(target, Agent)]


def _weight(context: Context, agent: Agent) -> int:
    """Bytes of a workspace; of starts that cases choose, those of the first."""
    plan = context.plan
    trial = plan.trial(0)
    return agent.workspace_bytes(trial)


def _that_is_there(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _git_version() -> str:
    try:
        told = subprocess.run(["git", "--version"], capture_output=True, timeout=10, check=False).stdout.decode()
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    found = re.search(r"\d+\.\d+(\.\d+)?", told)
    return found[0] if found else "unknown"


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"

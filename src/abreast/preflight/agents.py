"""Which programs work as agents, and is there room for their folders?"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from abreast.plan.concurrency import Concurrency
from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed, many
from abreast.store.user_state import drivers
from abreast.targets.agents.agent import Agent
from abreast.targets.processes import process_tree
from abreast.targets.sandbox import bubblewrap
from abreast.targets.workspace.git import git_command

ENOUGH = 0.5  # of what is free on the disk


def check(context: Context) -> Finding | None:
    """Programs with their versions. The check of targets refuses who is not there; what only the text of a shell names
    is warned of, for what becomes of it nobody knows for sure."""
    agents = _agents(context)
    if not agents:
        return None
    programs: dict[str, str] = {}
    details: list[str] = []
    missing: list[str] = []
    for name, agent in agents:
        own = agent.cli_versions
        programs |= own
        missing += [f"{name}: there is no program {one} on the path" for one in own if own[one] == "missing"]
        told = ", ".join(f"{program} ({version})" for program, version in own.items())
        details.append(f"{name}: {told or 'a program that is asked for no version'}")
    version = _git_version() if git_command.installed() else "missing"
    details.append(f"git ({version})")
    details += [f"judge {name}: {target.name}" for name, target in context.judges.items()]
    named = f": {listed([_shown(*each) for each in programs.items()], 8)}" if programs else ""
    message = f"{many(len(agents), 'agent')}{named}; git {version}"
    if missing:
        return Finding("agents", "warn", listed(missing), "install it, or mend its command", tuple(details))
    return Finding("agents", "pass", message, "", tuple(details), aside=True)


def _shown(program: str, version: str) -> str:
    """`claude 2.1.325`; of a program that is not asked for its version, its name."""
    return program if version.startswith(("content ", "of the system")) else f"{program} {version}"


def check_room(context: Context) -> Finding | None:
    """So many folders at once, so large each, and what is free where they are made."""
    agents = _agents(context)
    if not agents or not context.estimate.trials:
        return None
    largest, whose = max(((_weight(context, agent), name) for name, agent in agents), key=lambda pair: pair[0])
    flying = Concurrency(context.limits, context.targets).likely
    root = drivers.root()
    free = shutil.disk_usage(_that_is_there(root)).free
    needed = largest * (flying + 1)  # one that they are copied from
    told = f"{many(flying, 'workspace')} of {_size(largest)} at once, {_size(free)} free in {root}"
    if needed > free:
        fix = f"set {drivers.ROOT_VARIABLE} to a folder on a larger disk, or reduce parallel"
        return Finding("workspaces", "fail", f"{told}: there is no room for them ({whose})", fix)
    if needed > ENOUGH * free:
        return Finding("workspaces", "warn", f"{told}: agents that build or install may fill it", "reduce parallel")
    return Finding("workspaces", "pass", told, aside=True)


def check_containment(context: Context) -> Finding | None:
    """What ends the processes of a trial, and whether agents run in a sandbox."""
    agents = _agents(context)
    if not agents:
        return None
    open_agents = [name for name, agent in agents if agent.sandbox is None]
    messages = []
    if len(open_agents) < len(agents):
        messages.append("PID namespace of bubblewrap")
    if open_agents:
        messages.append(_OUTSIDE[process_tree.containment()])
    message = f"what a trial starts ends with it: {' and '.join(messages)}"
    if not open_agents:
        return Finding("containment", "pass", message, aside=True)
    message += f"; without a sandbox {listed(open_agents)} can read and change whatever you can"
    fix = "set sandbox: bubblewrap" if bubblewrap() else "install bubblewrap and set sandbox: bubblewrap"
    return Finding("containment", "note" if bubblewrap() else "pass", message, fix, aside=True)


_OUTSIDE = {
    "subreaper": "child subreaper",
    "group": "process group and a mark in the environment, from which a daemon can hide",
}


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

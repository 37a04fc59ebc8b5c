"""What a run of the suite is told, and the experiment that comes of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from abreast.errors import BadInput
from abreast.experiment.facade import Experiment
from abreast.model import Case
from abreast.preflight.finding import listed
from abreast.suites.coding_agents import history, judge, prompts, repository, selection, simulation
from abreast.suites.coding_agents.agents import Agent
from abreast.text import many

NAME = "coding-agents"
QUESTION = "which coding agent is better on our repository?"
TIMEOUT = 1200.0  # seconds of a run
LAST = 5  # pull requests, if their number is not said
# What a run takes where no earlier one tells: an agent at work for some minutes.
EXPECTS = {"seconds": 180.0, "output_tokens": 6_000.0}

_OF_FOLDER = re.compile(r"\{folder\}/([^\s\"']+)")

Mode = Literal["LLM_Evaluator", "PR_Recreate"]
PULL_REQUEST = "pull request"  # what a case of such a run is called
PROMPTS, PULL_REQUESTS = MODES = ("LLM_Evaluator", "PR_Recreate")


@dataclass(frozen=True, slots=True)
class PullRequests:
    last: int | None = None
    commits: list[str] = field(default_factory=list)
    tasks: str | None = None  # a file with the words of each
    cumulative: bool = False
    with_tests: bool | None = None  # only those whose tests say something; None: where tests decide


@dataclass(slots=True)
class Config:
    """All that can be set; what is left out is as documented. Paths are seen from `base`."""

    agents: list[Agent] = field(default_factory=list)
    mode: Mode = "LLM_Evaluator"
    prompts: list[Path] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)  # tasks in a few words, where there are no prompts
    pull_requests: PullRequests = PullRequests()
    repo: str | None = None  # a folder or an address; without one agents begin with an empty folder
    branch: str | None = None
    stage: str = repository.STAGE  # where a repository by address is cloned to
    runs: int = 1
    parallel_runs: int = 1  # of one agent
    parallel_agents: bool = True
    timeout: float = TIMEOUT
    check: str | None = None
    tests: list[str] | None = None  # globs of test files; None: by the usual names and folders
    setup: str | None = None  # installs what agents and tests need, once per environment
    dimensions: list[str] = field(default_factory=list)
    judge: str | Mapping[str, Any] | None = None
    passing: Mapping[str, float] = field(default_factory=dict)  # dimensions, and from which mark on they are good
    form: Mapping[str, Any] | None = None  # of answers: {regex: ...} or {json_schema: ...}
    limits: Mapping[str, Any] = field(default_factory=dict)  # as in a spec
    output: str | None = None  # the base name of the results file
    notes: list[str] = field(default_factory=list)  # on what was read and is not used
    mock: bool = False  # the simulator instead of agents
    base: Path = field(default_factory=Path.cwd)
    origin: Path | None = None  # the settings file
    store: str | Path | None = None
    tell: Callable[[str], None] = lambda line: None  # progress of what takes long before a run


def experiment(config: Config) -> Experiment:
    """The experiment that a configuration describes. The first agent is the baseline."""
    _check(config)
    limits: dict[str, Any] = {
        "timeout": config.timeout,
        "per_variant": config.parallel_runs,
        "parallel": config.parallel_runs * (len(config.agents) if config.parallel_agents else 1),
        **({} if config.parallel_agents else {"turns": True}),
    }
    own = {agent.name: {"timeout": agent.timeout} for agent in config.agents if agent.timeout is not None}
    limits |= {"variants": own} if own else {}
    tasks = _tasks(config)
    made = Experiment(
        name=config.output or NAME,
        description=QUESTION,
        suite=NAME,
        case_noun=tasks.noun,
        **(_simulated(config, tasks) if config.mock else _executed(config, tasks)),
        baseline=config.agents[0].name,
        repeats=config.runs,
        limits={**limits, **config.limits},
        output=config.output,
        store=config.store,
        base=config.base,
    )
    made.origin, made.notes = config.origin, tuple(_notes(config, tasks))
    return made


def _executed(config: Config, tasks: Tasks) -> dict[str, Any]:
    return {
        "cases": tasks.cases,
        "target": "command",
        "params": {"workspace": tasks.workspace, "on_silence": "go_on", **tasks.params},
        "variants": {agent.name: dict(agent.params) for agent in config.agents},
        "scorers": _scorers(config, tasks),
        "expects": EXPECTS,
    }


def _simulated(config: Config, tasks: Tasks) -> dict[str, Any]:
    """The same of the simulator, which needs no workspace and has to know how often it is right."""
    names = [agent.name for agent in config.agents]
    return {
        "cases": {"from": f"python:{simulation.__name__}:cases", "of": dict(tasks.cases)},
        "target": "simulated",
        "params": dict(tasks.params),
        "variants": {name: {"accuracy": simulation.accuracy(index)} for index, name in enumerate(names)},
        "scorers": [simulation.SCORER],
    }


@dataclass(frozen=True, slots=True)
class Tasks:
    cases: Mapping[str, Any]
    workspace: Any
    noun: str
    params: Mapping[str, Any] = field(default_factory=dict)
    tested: int = 0  # of them bring tests of their own
    notes: tuple[str, ...] = ()


def _check(config: Config) -> None:
    if not config.agents:
        raise BadInput("no agents", "name some: --agents claude-code,codex")
    names = [agent.name for agent in config.agents]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f'the agent "{name}" is there twice', "name each once; runs are for repeats")
    if config.mode == PULL_REQUESTS and config.repo is None:
        raise BadInput("PR_Recreate needs a repository", "name one: --repo PATH, or repo_path in the settings")
    if config.mode == PULL_REQUESTS and config.prompts:
        raise BadInput("prompts are for LLM_Evaluator: the tasks of PR_Recreate are pull requests", "leave them out")
    if config.mode == PROMPTS and not config.prompts and not config.topics:
        raise BadInput("no prompts", "name files or a folder: --prompts prompts/; or pull requests: --pull-requests 5")
    if config.repo is None and config.setup is not None:
        raise BadInput("setup: there is no repository to set up", "name one: --repo PATH, or leave setup out")
    if config.repo is None and config.branch is not None:
        raise BadInput(f"branch {config.branch}: there is no repository", "name one, or leave the branch out")


def _tasks(config: Config) -> Tasks:
    if config.mode == PULL_REQUESTS:
        return _pull_requests(config)
    topics = {"topics": config.topics} if config.topics else {}
    cases = {"from": f"python:{prompts.__name__}:cases", "files": list(map(str, config.prompts)), **topics}
    return Tasks(cases, _workspace(config), "prompt")


def _workspace(config: Config) -> Any:
    if config.repo is None:
        return "empty"
    if repository.is_address(config.repo):
        return {"git": config.repo, "commit": config.branch or repository.HEAD, **_setup(config)}
    repo = repository.folder(config.repo, config.base)
    if not repository.is_repository(repo):
        if config.branch is not None:
            raise BadInput(f"branch {config.branch}: {repo} is no git repository of its own", "leave the branch out")
        if config.setup is not None:
            raise BadInput(f"setup: {repo} is no git repository of its own", "make it one: git init, and commit")
        return {"copy": str(repo)}
    return {"git": str(repo), "commit": repository.commit_of(repo, config.branch or repository.HEAD), **_setup(config)}


def _setup(config: Config) -> dict[str, str]:
    return {} if config.setup is None else {"setup": config.setup}


def _pull_requests(config: Config) -> Tasks:
    """Pinned by the commit at which the branch is now: a resumed run asks the same, whatever is merged meanwhile."""
    assert config.repo is not None
    repo = repository.local(config.repo, config.base, config.stage)
    asked = config.pull_requests
    last = asked.last or (None if asked.commits or asked.tasks else LAST)
    which: dict[str, Any] = {
        "repo": str(repo),
        "branch": repository.commit_of(repo, config.branch or repository.HEAD),
        **({"last": last} if last else {}),
        **({"commits": asked.commits} if asked.commits else {}),
        **({"tests": config.tests} if config.tests else {}),
        **({"tasks": str((config.base / Path(asked.tasks).expanduser()).absolute())} if asked.tasks else {}),
        **({"cumulative": True} if asked.cumulative else {}),
    }
    begins: dict[str, Any] = {"git": str(repo), "commit": "{{ commit }}", **_setup(config)}
    notes: list[str] = []
    if selection.applies(config):
        which, notes = selection.with_tests(config, which, begins, _tests_scorer(config, True))
    found = list(history.cases(**which))
    if asked.cumulative:
        begins |= {"commit": "{{ start }}", "after": "{{ after }}"}
    tested = sum(bool(case.expected["tests"]) for case in found)
    return Tasks(
        cases={"from": f"python:{history.__name__}:cases", **which},
        workspace=begins,
        noun=PULL_REQUEST,
        params={"prompt": "{{ task }}"},
        tested=tested,
        notes=(*_about(found, tested, which), *notes),
    )


def _about(found: list[Case], tested: int, which: Mapping[str, Any]) -> Iterator[str]:
    without = f"; {len(found) - tested:,} of them without tests of their own" if tested < len(found) else ""
    untested = without if tested else "; none of them has tests of its own"
    yield f"{many(len(found), 'pull request')}: {listed([case.id for case in found])}{untested}"
    if which.get("cumulative"):
        yield "each of them on what the agent left of the one before: one chain, which compares no agents for sure"
    asked = {key: which[key] for key in ("repo", "last", "branch", "commits") if key in which}
    left = history.left_out(**asked) if "last" in which and "tasks" not in which else []
    if left:
        yield f"left out among them: {selection.counted(one.reason for one in left)}"


def _notes(config: Config, tasks: Tasks) -> Iterator[str]:
    yield from config.notes
    yield from tasks.notes
    if config.mock:
        yield "the simulator works instead of agents: every figure is made up"
        return
    if config.mode == PULL_REQUESTS and config.pull_requests.tasks is None:
        yield "tasks are the words of the messages: abreast cases new coding-agents writes them to a file, to be edited"
    if config.check is None and not tasks.tested and not config.dimensions and config.mode == PROMPTS:
        left = "changed a file" if config.repo is not None else "left words or files"
        yield f"nothing says what is right: the verdict is on who ended well and {left}; --check or --judge say more"
    if seen := _seen_by_agents(config, tasks):
        told = f"agents can read {listed(seen)}: it says what is right, and lies in what they begin with"
        yield f"{told}; keep it in a folder above, or beside"
    silent = [agent.name for agent in config.agents if "preset" not in agent.params]
    if silent:
        yield f"{listed(silent)} by a command: tokens, cost and turns of it are not known"


def _seen_by_agents(config: Config, tasks: Tasks) -> list[str]:
    """Files that the check names by the folder of the settings, and that agents begin with."""
    begins = tasks.workspace if isinstance(tasks.workspace, Mapping) else {}
    folder = Path(begins.get("copy") or begins.get("git") or "")
    names = [config.base.resolve() / name for name in _OF_FOLDER.findall(config.check or "")]
    inside = [name for name in names if folder.is_absolute() and name.is_relative_to(folder) and name.is_file()]
    if "git" in begins:
        commit = repository.commit_of(folder, config.branch or "HEAD") if inside else ""
        inside = [name for name in inside if repository.has(folder, commit, str(name.relative_to(folder)))]
    return [name.name for name in inside]


def _scorers(config: Config, tasks: Tasks) -> list[Any]:
    """Tests first: what passes them is right, however it looks. The first of all drives the verdict."""
    found: list[Any] = []
    if config.check is not None or tasks.tested:
        found.append({"tests": _tests_scorer(config, bool(tasks.tested))})
    if config.mode == PULL_REQUESTS:
        found.append("change_similarity")
    if config.dimensions:
        found.append({"judge": judge.judge_of(config.judge, config.dimensions, config.passing)})
    if config.form is not None:
        found.append({"format": dict(config.form)})
    return [*found, {"success": {"changes": config.repo is not None}}]


def _tests_scorer(config: Config, own: bool) -> dict[str, Any]:
    command = {} if config.check is None else {"command": config.check}
    files = {} if config.tests is None else {"tests": config.tests}
    return {**command, **({"own": True} if own else {}), **files, "fails_before": True}

"""The suite's configuration, and the experiment it describes."""

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
from abreast.suites.coding_agents.agents import AgentVariant
from abreast.text import many

NAME = "coding-agents"
QUESTION = "which coding agent is better on our repository?"
TIMEOUT = 1200.0  # timeout of a run in seconds
LAST = 5  # default number of pull requests
# The use of a run, for estimates without earlier runs.
EXPECTS = {"seconds": 180.0, "output_tokens": 6_000.0}

_OF_FOLDER = re.compile(r"\{folder\}/([^\s\"']+)")

Mode = Literal["LLM_Evaluator", "PR_Recreate"]
PULL_REQUEST = "pull request"  # the noun for cases of PR_Recreate
PROMPTS, PULL_REQUESTS = MODES = ("LLM_Evaluator", "PR_Recreate")


@dataclass(frozen=True, slots=True)
class PullRequests:
    last: int | None = None
    commits: list[str] = field(default_factory=list)
    tasks: str | None = None  # a task file
    cumulative: bool = False
    with_tests: bool | None = None  # only pull requests whose tests fail before and pass after; None: if tests decide


@dataclass(slots=True)
class SuiteConfig:
    """All settings with their defaults. Paths are relative to `base`."""

    agents: list[AgentVariant] = field(default_factory=list)
    mode: Mode = "LLM_Evaluator"
    prompts: list[Path] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)  # short tasks, used if there are no prompts
    pull_requests: PullRequests = PullRequests()
    repo: str | None = None  # a folder or URL; without one agents start in an empty folder
    branch: str | None = None
    stage: str = repository.STAGE  # where a repository given by URL is cloned to
    runs: int = 1
    parallel_runs: int = 1  # concurrent runs of one agent
    parallel_agents: bool = True
    timeout: float = TIMEOUT
    check: str | None = None
    tests: list[str] | None = None  # globs of test files; None: usual names and folders
    setup: str | None = None  # installs dependencies, once per environment
    dimensions: list[str] = field(default_factory=list)
    judge: str | Mapping[str, Any] | None = None
    passing: Mapping[str, float] = field(default_factory=dict)  # the passing mark of dimensions
    form: Mapping[str, Any] | None = None  # required form of answers: {regex: ...} or {json_schema: ...}
    limits: Mapping[str, Any] = field(default_factory=dict)  # as in a spec
    output: str | None = None  # the base name of the results file
    notes: list[str] = field(default_factory=list)  # on settings that are ignored
    mock: bool = False  # the simulator instead of agents
    base: Path = field(default_factory=Path.cwd)
    origin: Path | None = None  # the settings file
    store: str | Path | None = None
    show_progress: Callable[[str], None] = lambda line: None  # shows slow steps before a run


def experiment(config: SuiteConfig) -> Experiment:
    """Build the experiment. The first agent is the baseline."""
    _check(config)
    limits: dict[str, Any] = {
        "timeout": config.timeout,
        "per_variant": config.parallel_runs,
        "parallel": config.parallel_runs * (len(config.agents) if config.parallel_agents else 1),
        **({} if config.parallel_agents else {"turns": True}),
    }
    timeouts = {agent.name: {"timeout": agent.timeout} for agent in config.agents if agent.timeout is not None}
    limits |= {"variants": timeouts} if timeouts else {}
    tasks = _tasks(config)
    result = Experiment(
        name=config.output or NAME,
        description=QUESTION,
        suite=NAME,
        case_noun=tasks.noun,
        **(_simulate_agents(config, tasks) if config.mock else _run_agents(config, tasks)),
        baseline=config.agents[0].name,
        repeats=config.runs,
        limits={**limits, **config.limits},
        output=config.output,
        store=config.store,
        base=config.base,
    )
    result.origin, result.notes = config.origin, tuple(_notes(config, tasks))
    return result


def _run_agents(config: SuiteConfig, tasks: TaskSet) -> dict[str, Any]:
    return {
        "cases": tasks.cases,
        "target": "command",
        "params": {"workspace": tasks.workspace, "on_silence": "continue", **tasks.params},
        "variants": {agent.name: dict(agent.params) for agent in config.agents},
        "scorers": _scorers(config, tasks),
        "expects": EXPECTS,
    }


def _simulate_agents(config: SuiteConfig, tasks: TaskSet) -> dict[str, Any]:
    """Return the experiment for the simulator, which needs an accuracy and no workspace."""
    names = [agent.name for agent in config.agents]
    return {
        "cases": {"from": f"python:{simulation.__name__}:cases", "of": dict(tasks.cases)},
        "target": "simulated",
        "params": dict(tasks.params),
        "variants": {name: {"accuracy": simulation.accuracy(index)} for index, name in enumerate(names)},
        "scorers": [simulation.SCORER],
    }


@dataclass(frozen=True, slots=True)
class TaskSet:
    cases: Mapping[str, Any]
    workspace: Any
    noun: str
    params: Mapping[str, Any] = field(default_factory=dict)
    tested: int = 0  # number of cases with tests
    notes: tuple[str, ...] = ()


def _check(config: SuiteConfig) -> None:
    if not config.agents:
        raise BadInput("no agents", "add some: `--agents claude-code,codex`")
    names = [agent.name for agent in config.agents]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f'agent "{name}" is listed twice', "list each agent once; use `runs_per_prompt` for repeats")
    if config.mode == PULL_REQUESTS and config.repo is None:
        raise BadInput("PR_Recreate needs a repository", "use `--repo PATH`, or set `repo_path`")
    if config.mode == PULL_REQUESTS and config.prompts:
        raise BadInput("prompts cannot be combined with PR_Recreate", "remove them, or use LLM_Evaluator")
    if config.mode == PROMPTS and not config.prompts and not config.topics:
        raise BadInput("no prompts", "use `--prompts FILE_OR_FOLDER`, or `--pull-requests 5`")
    if config.repo is None and config.setup is not None:
        raise BadInput("setup: no repository to set up", "use `--repo PATH`, or remove `setup`")
    if config.repo is None and config.branch is not None:
        raise BadInput(f"branch {config.branch}: no repository", "use `--repo PATH`, or remove the branch")


def _tasks(config: SuiteConfig) -> TaskSet:
    if config.mode == PULL_REQUESTS:
        return _pull_requests(config)
    topics = {"topics": config.topics} if config.topics else {}
    cases = {"from": f"python:{prompts.__name__}:cases", "files": list(map(str, config.prompts)), **topics}
    return TaskSet(cases, _workspace(config), "prompt")


def _workspace(config: SuiteConfig) -> Any:
    if config.repo is None:
        return "empty"
    if repository.is_address(config.repo):
        return {"git": config.repo, "commit": config.branch or repository.HEAD, **_setup(config)}
    repo = repository.folder(config.repo, config.base)
    if not repository.is_repository(repo):
        if config.branch is not None:
            raise BadInput(f"branch {config.branch}: {repo} is not a git repository", "remove the branch")
        if config.setup is not None:
            raise BadInput(f"setup: {repo} is not a git repository", "run `git init` there and commit")
        return {"copy": str(repo)}
    return {"git": str(repo), "commit": repository.commit_of(repo, config.branch or repository.HEAD), **_setup(config)}


def _setup(config: SuiteConfig) -> dict[str, str]:
    return {} if config.setup is None else {"setup": config.setup}


def _pull_requests(config: SuiteConfig) -> TaskSet:
    """Build cases from pull requests, pinned to the branch's current commit, so that a resume ignores later merges."""
    assert config.repo is not None
    repo = repository.local(config.repo, config.base, config.stage)
    options = config.pull_requests
    last = options.last or (None if options.commits or options.tasks else LAST)
    tasks = (config.base / Path(options.tasks).expanduser()).absolute() if options.tasks else ""
    optional: dict[str, Any] = {"last": last, "commits": options.commits, "tests": config.tests, "tasks": str(tasks)}
    optional["cumulative"] = options.cumulative
    arguments: dict[str, Any] = {
        "repo": str(repo),
        "branch": repository.commit_of(repo, config.branch or repository.HEAD),
        **{key: value for key, value in optional.items() if value},
    }
    workspace: dict[str, Any] = {"git": str(repo), "commit": "{{ commit }}", **_setup(config)}
    notes: list[str] = []
    if selection.applies(config):
        arguments, notes = selection.with_tests(config, arguments, workspace, _tests_scorer(config, True))
    cases = list(history.cases(**arguments))
    if options.cumulative:
        workspace |= {"commit": "{{ start }}", "after": "{{ after }}"}
    tested = sum(bool(case.expected["tests"]) for case in cases)
    return TaskSet(
        cases={"from": f"python:{history.__name__}:cases", **arguments},
        workspace=workspace,
        noun=PULL_REQUEST,
        params={"prompt": "{{ task }}"},
        tested=tested,
        notes=(*_selection_notes(cases, tested, arguments), *notes),
    )


def _selection_notes(cases: list[Case], tested: int, arguments: Mapping[str, Any]) -> Iterator[str]:
    missing = f"; {len(cases) - tested:,} of them without tests" if tested < len(cases) else ""
    untested = missing if tested else "; none of them has tests"
    yield f"{many(len(cases), 'pull request')}: {listed([case.id for case in cases])}{untested}"
    if arguments.get("cumulative"):
        yield "cumulative: each starts from the agent's result for the previous one; a single chain gives no verdict"
    if "last" in arguments and "tasks" not in arguments:
        shared = {key: arguments[key] for key in ("repo", "last", "branch", "commits") if key in arguments}
        if exclusions := history.left_out(**shared):
            yield f"excluded: {selection.counted(exclusion.reason for exclusion in exclusions)}"


def _notes(config: SuiteConfig, tasks: TaskSet) -> Iterator[str]:
    yield from config.notes
    yield from tasks.notes
    if config.mock:
        yield "the simulator replaces the agents: all figures are made up"
        return
    if config.mode == PULL_REQUESTS and config.pull_requests.tasks is None:
        yield "tasks come from commit messages; to edit them, run `abreast cases new coding-agents`"
    if config.check is None and not tasks.tested and not config.dimensions and config.mode == PROMPTS:
        success = "changed a file" if config.repo is not None else "left text or files"
        yield f"no check: a run succeeds if it completes and {success}; use `--check` or `--judge` for more"
    if visible := _checks_in_workspace(config, tasks):
        yield f"agents can read {listed(visible)}, which the check uses; move it out of the workspace"
    unmeasured = [agent.name for agent in config.agents if "preset" not in agent.params]
    if unmeasured:
        yield f"{listed(unmeasured)}: tokens, cost and turns are unknown for custom commands"


def _checks_in_workspace(config: SuiteConfig, tasks: TaskSet) -> list[str]:
    """Return files that the check refers to with `{folder}` and that are in the agents' workspace."""
    workspace = tasks.workspace if isinstance(tasks.workspace, Mapping) else {}
    folder = Path(workspace.get("copy") or workspace.get("git") or "")
    names = [config.base.resolve() / name for name in _OF_FOLDER.findall(config.check or "")]
    inside = [name for name in names if folder.is_absolute() and name.is_relative_to(folder) and name.is_file()]
    if "git" in workspace:
        commit = repository.commit_of(folder, config.branch or "HEAD") if inside else ""
        inside = [name for name in inside if repository.has(folder, commit, str(name.relative_to(folder)))]
    return [name.name for name in inside]


def _scorers(config: SuiteConfig, tasks: TaskSet) -> list[Any]:
    """Return the scorers. The first one drives the verdict: tests, if there are any."""
    scorers: list[Any] = []
    if config.check is not None or tasks.tested:
        scorers.append({"tests": _tests_scorer(config, bool(tasks.tested))})
    if config.mode == PULL_REQUESTS:
        scorers.append("change_similarity")
    if config.dimensions:
        scorers.append({"judge": judge.judge_of(config.judge, config.dimensions, config.passing)})
    if config.form is not None:
        scorers.append({"format": dict(config.form)})
    return [*scorers, {"success": {"changes": config.repo is not None}}]


def _tests_scorer(config: SuiteConfig, own: bool) -> dict[str, Any]:
    command = {} if config.check is None else {"command": config.check}
    files = {} if config.tests is None else {"tests": config.tests}
    return {**command, **({"own": True} if own else {}), **files, "fails_before": True}

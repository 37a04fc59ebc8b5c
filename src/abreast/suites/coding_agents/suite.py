"""The suite on the command line: flags, experiment, report sections."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput
from abreast.output import say
from abreast.spec.schema import seconds_in
from abreast.suites import Suite
from abreast.suites.coding_agents import judge, prompts, settings
from abreast.suites.coding_agents.agents import named_agent, own_agent
from abreast.suites.coding_agents.config import (
    LAST,
    NAME,
    PROMPTS,
    PULL_REQUESTS,
    QUESTION,
    PullRequests,
    SuiteConfig,
    experiment,
)
from abreast.suites.coding_agents.new_tasks import NewTasks

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.experiment.facade import Experiment
    from abreast.report.results import ResultFile
    from abreast.report.sections import Section


class CodingAgents(Suite):
    name = NAME
    summary = QUESTION
    case_maker = NewTasks()
    epilog = """examples: abreast run coding-agents --agents claude-code,codex --prompts prompts/ --repo . --check make
          abreast run coding-agents --agents claude-code:haiku,claude-code:opus --repo . --pull-requests 10
          abreast run settings.json"""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument_group(f"suite {NAME}").add_argument
        repeatable: dict[str, Any] = {"action": "append", "default": []}
        several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
        add("--agents", metavar="A,B", **repeatable, help="agents by name, optionally with a model: claude-code:opus")
        add("--agent", metavar="NAME=COMMAND", **repeatable, help="a custom agent; repeatable")
        add("--prompts", metavar="PATH", **several, help="prompt files, or folders of them")
        add("--repo", metavar="PATH|URL", help="the repository that agents work on (an empty folder)")
        add("--branch", metavar="B", help="branch of the repository (the one checked out)")
        last = f"use the last N merged pull requests as tasks, instead of prompts ({LAST})"
        add("--pull-requests", metavar="N", type=int, help=last)
        add("--commits", metavar="A,B..C", **repeatable, help="use these commits as tasks, instead of the last ones")
        add("--tasks", metavar="FILE", help="task file, written by `abreast cases new coding-agents`")
        after = "start each pull request from the agent's own result for the previous one"
        add("--cumulative", action="store_true", help=after)
        check = "command that decides, by exit code 0, whether a run is right; runs in the agent's workspace"
        add("--check", metavar="COMMAND", help=check)
        tests = "test files, restored before the check, instead of the usual names; or: none"
        add("--tests", metavar="GLOB", **several, help=tests)
        add("--setup", metavar="COMMAND", help="install dependencies; runs once per set of dependencies")
        with_tests = "only pull requests whose tests fail before and pass after (default if tests decide)"
        add("--with-tests", action=argparse.BooleanOptionalAction, help=with_tests)
        add("--judge", metavar="MODEL", help="model that judges in five dimensions: claude-..., gpt-..., openai:MODEL")
        add("--dimensions", metavar="A,B", **repeatable, help="judge only these dimensions")
        add("--answer-format", metavar="REGEX|FILE", help="required format of answers; a .json file is a JSON Schema")
        add("--parallel-runs", metavar="N", type=int, help="run each agent at most N times at once (1)")
        add("--one-agent-at-a-time", action="store_true", help="do not run different agents at the same time")
        add("--timeout", metavar="T", help="timeout of a run: 90s, 20m, 1h (20m)")
        add("--mock", action="store_true", help="simulate the agents; needs no programs and no keys")
        add("--results", metavar="NAME", help="write NAME.json, NAME.csv, NAME.md and charts next to the store")

    def experiment(self, args: argparse.Namespace) -> Experiment:
        config = _with_flags(SuiteConfig() if args.spec == NAME else settings.read(Path(args.spec)), args)
        config.show_progress = (lambda line: None) if getattr(args, "quiet", False) else say
        return experiment(config)

    def reads(self, data: Any) -> bool:
        return settings.is_settings(data)

    def sections(self, analysis: Analysis) -> list[Section]:
        from abreast.suites.coding_agents.report import sections  # late: `--help` needs only the flags

        return sections(analysis)

    def files(self, analysis: Analysis, pictures: bool) -> list[ResultFile]:
        from abreast.suites.coding_agents.report.results import files

        return files(analysis, pictures)


def _with_flags(config: SuiteConfig, args: argparse.Namespace) -> SuiteConfig:
    overrides: dict[str, Any] = {
        "agents": [*map(named_agent, _split(args.agents)), *map(own_agent, args.agent)],
        "prompts": prompts.prompt_files("--prompts", args.prompts, Path.cwd()),
        "repo": _resolve_here(args.repo),
        "branch": args.branch,
        "parallel_runs": _at_least_1("--parallel-runs", args.parallel_runs),
        "parallel_agents": False if args.one_agent_at_a_time else None,
        "timeout": _seconds(args.timeout),
        "check": args.check,
        "setup": args.setup,
        "judge": args.judge,
        "dimensions": [judge.canonical_dimension("--dimensions", name) for name in _split(args.dimensions)],
        "form": _form(args.answer_format),
        "mock": args.mock or None,
        "output": None if args.results is None else settings.results_name("--results", args.results),
    }
    pull_requests = _pull_requests(config.pull_requests, args)
    if args.tests:
        config = replace(config, tests=[] if args.tests == ["none"] else args.tests)
    if args.prompts:
        config = replace(config, topics=[])
        overrides |= {"mode": PROMPTS}
    if pull_requests != config.pull_requests:
        config = replace(config, prompts=[], topics=[])
        overrides |= {"pull_requests": pull_requests, "mode": PULL_REQUESTS}
    changed = replace(config, **{key: value for key, value in overrides.items() if value not in (None, [])})
    if changed.judge is not None and not changed.dimensions:
        changed.dimensions = list(judge.RUBRIC)
    overridden = {
        "per_variant": args.parallel_runs,
        "parallel": args.parallel_runs or args.one_agent_at_a_time,
        "turns": args.one_agent_at_a_time,
        "timeout": args.timeout,
    }
    changed.limits = {key: value for key, value in config.limits.items() if not overridden.get(key)}
    return _with_examples(changed) if changed.mock else changed


def _with_examples(config: SuiteConfig) -> SuiteConfig:
    """Add example agents and tasks for the simulator where there are none."""
    has_tasks = config.prompts or config.topics or config.mode == PULL_REQUESTS
    return replace(
        config,
        agents=config.agents or [named_agent(name) for name in ("claude-code", "codex")],
        topics=config.topics if has_tasks else [f"Example task {number}" for number in range(1, 13)],
    )


def _split(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _resolve_here(repo: str | None) -> str | None:
    """Resolve a flag against the working folder, not the folder of the settings."""
    if repo is None or "://" in repo or "@" in repo:
        return repo
    return str(Path(repo).expanduser().absolute())


def _pull_requests(before: PullRequests, args: argparse.Namespace) -> PullRequests:
    overrides: dict[str, Any] = {
        "last": _at_least_1("--pull-requests", args.pull_requests),
        "commits": _split(args.commits),
        "tasks": None if args.tasks is None else str(Path(args.tasks).expanduser().absolute()),
        "cumulative": args.cumulative or None,
        "with_tests": args.with_tests,
    }
    return replace(before, **{key: value for key, value in overrides.items() if value not in (None, [])})


def _at_least_1(flag: str, number: int | None) -> int | None:
    if number is not None and number < 1:
        raise BadInput(f"{flag} {number}: must be a whole number of at least 1")
    return number


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return seconds_in(text)
    except ValueError as error:
        raise BadInput(f"--timeout {text}: {error}") from None


def _form(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    if text.endswith(".json"):
        return {"json_schema": str(Path(text).expanduser().absolute())}
    return {"regex": text}


SUITE = CodingAgents()

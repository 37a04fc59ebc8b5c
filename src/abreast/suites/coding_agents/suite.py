"""The suite at the command line: its flags, its experiment, its sections of the report."""

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
    Config,
    PullRequests,
    experiment,
)
from abreast.suites.coding_agents.new_tasks import NewTasks

if TYPE_CHECKING:
    from abreast.analyse.run import Analysis
    from abreast.experiment.facade import Experiment
    from abreast.report.results import ResultFile
    from abreast.report.sections import Section


class CodingAgents(Suite):
    """`abreast run coding-agents`, and `abreast run settings.json`."""

    name = NAME
    summary = QUESTION
    case_maker = NewTasks()
    epilog = """examples: abreast run coding-agents --agents claude-code,codex --prompts prompts/ --repo . --check make
          abreast run coding-agents --agents claude-code:haiku,claude-code:opus --repo . --pull-requests 10
          abreast run settings.json"""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add = parser.add_argument_group(f"of the suite {NAME}").add_argument
        add("--agents", metavar="A,B", action="append", default=[], help="by name, with a model: claude-code:opus")
        add("--agent", metavar="NAME=COMMAND", action="append", default=[], help="a program of your own; repeatable")
        add("--prompts", metavar="PATH", nargs="+", action="extend", default=[], help="files, or folders of them")
        add("--repo", metavar="PATH|URL", help="what agents work on; an empty folder if left out")
        add("--branch", metavar="B", help="of the repository (what is checked out)")
        last = f"the last N merged ones as tasks, instead of prompts ({LAST})"
        add("--pull-requests", metavar="N", type=int, help=last)
        add("--commits", metavar="A,B..C", action="append", default=[], help="these as tasks, instead of the last ones")
        add("--tasks", metavar="FILE", help="the words of pull requests: abreast cases new coding-agents")
        after = "each pull request on what the agent itself left of the one before"
        add("--cumulative", action="store_true", help=after)
        add(
            "--check", metavar="COMMAND", help="decides what is right: run where the agent worked; exit code 0 is right"
        )
        add(
            "--tests",
            metavar="GLOB",
            nargs="+",
            action="extend",
            default=[],
            help="files that decide the check and are restored before it, instead of all tests; or: none",
        )
        add("--setup", metavar="COMMAND", help="installs what agents and tests need, once per set of dependencies")
        add(
            "--with-tests",
            action=argparse.BooleanOptionalAction,
            help="only pull requests whose tests fail before and pass after them (where tests decide)",
        )
        add("--judge", metavar="MODEL", help="judges by five dimensions: claude-..., gpt-..., openai:MODEL")
        add("--dimensions", metavar="A,B", action="append", default=[], help="only these of them")
        add("--answer-format", metavar="REGEX|FILE", help="that answers shall have; a .json file is a JSON Schema")
        add("--parallel-runs", metavar="N", type=int, help="at most so many runs of one agent at once (1)")
        add("--one-agent-at-a-time", action="store_true", help="instead of all of them side by side")
        add("--timeout", metavar="T", help="of a run: 90s, 20m, 1h (20m)")
        add("--mock", action="store_true", help="the simulator instead of agents: nothing is called or needed")
        add("--results", metavar="NAME", help="write NAME.json, NAME.csv, NAME.md and charts beside the store")

    def experiment(self, args: argparse.Namespace) -> Experiment:
        config = _changed(Config() if args.spec == NAME else settings.read(Path(args.spec)), args)
        config.tell = (lambda line: None) if getattr(args, "quiet", False) else say
        return experiment(config)

    def reads(self, data: Any) -> bool:
        """Whether this is the content of a file that the suite takes instead of its flags."""
        return settings.is_one(data)

    def sections(self, analysis: Analysis) -> list[Section]:
        from abreast.suites.coding_agents.report import sections  # late: `--help` needs the flags, and nothing else

        return sections(analysis)

    def files(self, analysis: Analysis, pictures: bool) -> list[ResultFile]:
        from abreast.suites.coding_agents.report.results import files

        return files(analysis, pictures)


def _changed(config: Config, args: argparse.Namespace) -> Config:
    given: dict[str, Any] = {
        "agents": [*map(named_agent, _split(args.agents)), *map(own_agent, args.agent)],
        "prompts": prompts.prompt_files("--prompts", args.prompts, Path.cwd()),
        "repo": _from_here(args.repo),
        "branch": args.branch,
        "parallel_runs": _at_least_1("--parallel-runs", args.parallel_runs),
        "parallel_agents": False if args.one_agent_at_a_time else None,
        "timeout": _seconds(args.timeout),
        "check": args.check,
        "setup": args.setup,
        "judge": args.judge,
        "dimensions": [judge.dimension("--dimensions", name) for name in _split(args.dimensions)],
        "form": _form(args.answer_format),
        "mock": args.mock or None,
        "output": None if args.results is None else settings.results_name("--results", args.results),
    }
    pull_requests = _pull_requests(config.pull_requests, args)
    if args.tests:
        config = replace(config, tests=[] if args.tests == ["none"] else args.tests)
    if args.prompts:
        config = replace(config, topics=[])  # of the file
        given |= {"mode": PROMPTS}
    if pull_requests != config.pull_requests:
        config = replace(config, prompts=[], topics=[])
        given |= {"pull_requests": pull_requests, "mode": PULL_REQUESTS}
    found = replace(config, **{key: value for key, value in given.items() if value not in (None, [])})
    if found.judge is not None and not found.dimensions:
        found.dimensions = list(judge.RUBRIC)
    overridden = {
        "per_variant": args.parallel_runs,
        "parallel": args.parallel_runs or args.one_agent_at_a_time,
        "turns": args.one_agent_at_a_time,
        "timeout": args.timeout,
    }
    found.limits = {key: value for key, value in config.limits.items() if not overridden.get(key)}
    return _with_examples(found) if found.mock else found


def _with_examples(config: Config) -> Config:
    """With agents and tasks for the simulator where none are named."""
    has_tasks = config.prompts or config.topics or config.mode == PULL_REQUESTS
    return replace(
        config,
        agents=config.agents or [named_agent(name) for name in ("claude-code", "codex")],
        topics=config.topics if has_tasks else [f"Example task {number}" for number in range(1, 13)],
    )


def _split(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _from_here(repo: str | None) -> str | None:
    """A flag is seen from the working folder, whatever folder the settings are in."""
    if repo is None or "://" in repo or "@" in repo:
        return repo
    return str(Path(repo).expanduser().absolute())


def _pull_requests(before: PullRequests, args: argparse.Namespace) -> PullRequests:
    given: dict[str, Any] = {
        "last": _at_least_1("--pull-requests", args.pull_requests),
        "commits": _split(args.commits),
        "tasks": None if args.tasks is None else str(Path(args.tasks).expanduser().absolute()),
        "cumulative": args.cumulative or None,
        "with_tests": args.with_tests,
    }
    return replace(before, **{key: value for key, value in given.items() if value not in (None, [])})


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

"""The configuration of the suite, and its experiment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from abreast.errors import BadInput
from abreast.experiment.facade import Experiment
from abreast.suites.code_search import finding
from abreast.suites.code_search.arms import WITH, WITHOUT, arms_of
from abreast.suites.code_search.workspace import refuse_absent_files, report_folders, workspace_of

PROMPT = """{{ input }}

The code is in the current folder. Do not change anything. End your answer with one JSON object and nothing after it:
{"files": [paths from the current folder], "symbols": [names of functions, types or constants], \
"lines": {path: [line numbers]}, "content": [short quotations]}
List only what the question asks for, and all of it; leave out the keys that it does not ask for."""


NAME = "code-search"
MODEL, TURNS, TIMEOUT = "sonnet", 20, 300.0
MOCK = {WITHOUT: 0.6, WITH: 0.8}  # accuracy of the simulator; other variants have that of WITH
# The estimate for a trial before any has run: several turns of an agent.
EXPECTS = {"seconds": 60.0, "output_tokens": 1_500.0}


@dataclass(slots=True)
class CodeSearchConfig:
    """The options of the suite."""

    repo: Path = field(default_factory=Path.cwd)
    cases: str | list[str] | None = None  # folders or files; by default, `finding.CASE_FOLDERS`
    categories: list[str] = field(default_factory=list)
    mcp: list[str] = field(default_factory=list)  # NAME=COMMAND or a file of servers per variant
    tools: list[str] = field(default_factory=list)  # NAME=TOOL,TOOL per variant
    search_tools: Literal["control", "both"] = "control"
    model: str = MODEL
    max_turns: int = TURNS
    timeout: float = TIMEOUT
    start_timeout: float | None = None  # seconds for a server to start
    commit: str | None = None
    workspace: Literal["git", "copy"] | None = None  # default: git for a repository, else copy
    mock: bool = False
    mock_latency: float = 0.0
    store: str | Path | None = None


def experiment(config: CodeSearchConfig, base: Path | None = None) -> Experiment:
    """Build the experiment. Relative paths are resolved against `base`, the working folder."""
    base = base or Path.cwd()
    repo = finding.repository_folder(config.repo).resolve()
    if config.max_turns < 1:
        raise BadInput(f"--max-turns {config.max_turns}: must be a whole number of at least 1")
    if not config.model.strip():
        raise BadInput("--model is empty", f"set one, such as {MODEL}")
    files = finding.case_files([config.cases] if isinstance(config.cases, str) else config.cases or [], repo)
    workspace = workspace_of(
        repo, [*finding.hidden_paths(files, repo), *report_folders(base / "runs")], config.workspace, config.commit
    )
    refuse_absent_files(files, config.categories, workspace)
    common: dict[str, Any] = {"model": config.model, "max_turns": config.max_turns, "prompt": PROMPT}
    arms = arms_of(config.mcp, config.tools, config.search_tools == "both", base, config.start_timeout)
    return Experiment(
        name=NAME,
        description="does an MCP server help an agent to find code?",
        suite=NAME,
        cases={
            "from": f"python:{finding.__name__}:cases",
            "files": [str(file) for file in files],
            **({"categories": config.categories} if config.categories else {}),
        },
        target="simulated" if config.mock else "claude-code",
        params=common if config.mock else {**common, "workspace": workspace},
        variants={name: _simulate(name, arm, config) if config.mock else arm for name, arm in arms.items()},
        baseline=WITHOUT,
        scorers=[{"retrieval": {"root": str(repo)}}],
        expects=None if config.mock else EXPECTS,
        limits={"timeout": config.timeout},
        store=config.store,
        base=base,
    )


def _simulate(name: str, arm: dict[str, Any], config: CodeSearchConfig) -> dict[str, Any]:
    """Return the parameters for the simulator; tools and servers are only recorded."""
    recorded = {key: value for key, value in arm.items() if key in ("tools", "mcp")}
    return {**recorded, "accuracy": MOCK.get(name, MOCK[WITH]), "latency": config.mock_latency}

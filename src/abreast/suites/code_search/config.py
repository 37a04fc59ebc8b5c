"""What a run of the suite is told, and the experiment that comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from abreast.errors import BadInput
from abreast.experiment.facade import Experiment
from abreast.suites.code_search import finding
from abreast.suites.code_search.arms import WITH, WITHOUT, arms_of
from abreast.suites.code_search.workspace import refuse_absent_files, reports, workspace_of

PROMPT = """{{ input }}

The code is in the current folder. Do not change anything. End your answer with one JSON object and nothing after it:
{"files": [paths from the current folder], "symbols": [names of functions, types or constants], \
"lines": {path: [line numbers]}, "content": [short quotations]}
List only what the question asks for, and all of it; leave out the keys that it does not ask for."""


NAME = "code-search"
MODEL, TURNS, TIMEOUT = "sonnet", 20, 300.0
MOCK = {WITHOUT: 0.6, WITH: 0.8}  # how often the simulator is right; other variants as WITH
# What a trial takes where no earlier one tells: several turns of an agent.
EXPECTS = {"seconds": 60.0, "output_tokens": 1_500.0}


@dataclass(slots=True)
class CodeSearchConfig:
    """All that can be set; what is left out is as documented."""

    repo: Path = field(default_factory=Path.cwd)
    cases: str | list[str] | None = None  # folders or files; if empty, the first of `finding.PLACES` that has cases
    categories: list[str] = field(default_factory=list)
    mcp: list[str] = field(default_factory=list)  # NAME=COMMAND or a file of servers, a variant each
    tools: list[str] = field(default_factory=list)  # NAME=TOOL,TOOL, a variant each
    search_tools: Literal["control", "both"] = "control"
    model: str = MODEL
    max_turns: int = TURNS
    timeout: float = TIMEOUT
    start_timeout: float | None = None  # seconds a server may take to start
    commit: str | None = None
    workspace: Literal["git", "copy"] | None = None  # left out, git of a repository, copy of any other folder
    mock: bool = False
    mock_latency: float = 0.0
    store: str | Path | None = None


def experiment(config: CodeSearchConfig, base: Path | None = None) -> Experiment:
    """The experiment that a configuration describes. Its rows go into the store beside `base`, the working folder."""
    base = base or Path.cwd()
    repo = finding.repository_folder(config.repo).resolve()
    if config.max_turns < 1:
        raise BadInput(f"--max-turns {config.max_turns}: must be a whole number of at least 1")
    if not config.model.strip():
        raise BadInput("--model: is empty", f"name one, such as {MODEL}")
    files = finding.case_files([config.cases] if isinstance(config.cases, str) else config.cases or [], repo)
    workspace = workspace_of(
        repo, [*finding.hidden(files, repo), *reports(base / "runs")], config.workspace, config.commit
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
        variants={name: _simulated(name, own, config) if config.mock else own for name, own in arms.items()},
        baseline=WITHOUT,
        scorers=[{"retrieval": {"root": str(repo)}}],
        expects=None if config.mock else EXPECTS,
        limits={"timeout": config.timeout},
        store=config.store,
        base=base,
    )


def _simulated(name: str, own: dict[str, Any], config: CodeSearchConfig) -> dict[str, Any]:
    """The same for the simulator, which has to be told how good it is."""
    shown = {key: value for key, value in own.items() if key in ("tools", "mcp")}
    return {**shown, "accuracy": MOCK.get(name, MOCK[WITH]), "latency": config.mock_latency}

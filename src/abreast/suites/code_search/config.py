"""What a run of the suite is told, and the experiment that comes of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from abreast.errors import BadInput
from abreast.experiment import Experiment
from abreast.suites.code_search import asking, finding
from abreast.targets import mcp

NAME = "code-search"
WITHOUT, WITH = "without_mcp", "with_mcp"
DEMO = {"demo": {"command": "abreast-demo-mcp"}}  # the server if none is named
SEARCH = ("Bash(rg:*)", "Bash(grep:*)", "Bash(find:*)", "Read", "Glob", "Grep")
READ = ("Read",)  # what an agent with servers has besides them
MODEL, TURNS, TIMEOUT = "sonnet", 20, 300.0
MOCK = {WITHOUT: 0.6, WITH: 0.8}  # how often the simulator is right; other variants as WITH
# What a trial takes where no earlier one tells: several turns of an agent.
EXPECTS = {"seconds": 60.0, "output_tokens": 1_500.0}

Arms = Literal["control", "both"]


@dataclass(slots=True)
class Config:
    """All that can be set; what is left out is as documented."""

    repo: Path = field(default_factory=Path.cwd)
    cases: str | None = None  # a folder or a file; left out, where `finding.places` looks
    categories: list[str] = field(default_factory=list)
    mcp: list[str] = field(default_factory=list)  # NAME=COMMAND or a file of servers, a variant each
    tools: list[str] = field(default_factory=list)  # NAME=TOOL,TOOL, a variant each
    search_tools: Arms = "control"
    model: str = MODEL
    max_turns: int = TURNS
    timeout: float = TIMEOUT
    commit: str | None = None
    copy: bool = False
    quota: str | None = None
    mock: bool = False
    mock_latency: float = 0.0
    store: str | Path = "results.db"


def experiment(config: Config, base: Path | None = None) -> Experiment:
    """The experiment that a configuration describes. Its rows go into the store beside `base`, the working folder."""
    base = base or Path.cwd()
    repo = _repository(config.repo)
    if config.max_turns < 1:
        raise BadInput(f"--max-turns {config.max_turns}: must be a whole number of at least 1")
    files = finding.case_files(config.cases, repo)
    arms = _arms(config, base)
    limits: dict[str, Any] = {"timeout": config.timeout, **({"quota": config.quota} if config.quota else {})}
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
        params=_common(config)
        if config.mock
        else {**_common(config), "workspace": _workspace(config, repo, [*files, base / "runs"])},
        variants={name: _simulated(name, own, config) if config.mock else own for name, own in arms.items()},
        baseline=WITHOUT,
        scorers=[{"retrieval": {"root": str(repo)}}],
        expects=None if config.mock else EXPECTS,
        limits=limits,
        store=config.store,
        base=base,
    )


def _repository(path: Path) -> Path:
    found = path.expanduser().absolute()
    if not found.is_dir():
        what = "is a file, not a folder" if found.exists() else "there is no such folder"
        raise BadInput(f"--repo {path}: {what}", "name the folder of a repository")
    return found.resolve()


def _common(config: Config) -> dict[str, Any]:
    """What all arms have."""
    return {"model": config.model, "max_turns": config.max_turns, "prompt": asking.PROMPT}


def _workspace(config: Config, repo: Path, hidden: list[Path]) -> dict[str, Any]:
    """A checkout of the commit for each trial; of a folder that is no repository of its own, a copy. Neither has the
    cases, which say what is right, nor reports of earlier runs."""
    inside = [str(path.resolve().relative_to(repo)) for path in hidden if path.resolve().is_relative_to(repo)]
    without = sorted({finding.OWN, *inside})
    if config.copy or not (repo / ".git").exists():
        if config.commit is not None:
            why = "--workspace copy" if config.copy else f"{repo} is no git repository"
            raise BadInput(f"--commit {config.commit}: {why}", "leave --commit out")
        return {"copy": str(repo), "without": without}
    return {"git": str(repo), "commit": config.commit or "HEAD", "without": without}


# -- the arms ---------------------------------------------------------------------------------------------------------


def _arms(config: Config, base: Path) -> dict[str, dict[str, Any]]:
    """The variants by name: without servers, with those of each `--mcp`, with the tools of each `--tools`."""
    found: dict[str, dict[str, Any]] = {WITHOUT: _with_tools(SEARCH)}
    given = SEARCH if config.search_tools == "both" else READ
    for name, (declared, servers) in _server_sets(config.mcp, base).items():
        own = _with_tools(given)
        allowed = [*own["allowed_tools"], *(f"mcp__{server}" for server in servers)]
        _add(found, name, {**own, "allowed_tools": allowed, "mcp": declared})
    for text in config.tools:
        name, tools = _tool_set(text)
        _add(found, name, _with_tools(tools))
    return found


def _with_tools(tools: tuple[str, ...]) -> dict[str, Any]:
    """Built-in tools, and which calls of them are allowed: `Bash(rg:*)` is the tool Bash, for rg only."""
    there = dict.fromkeys(tool.partition("(")[0] for tool in tools)
    return {"tools": list(there), "allowed_tools": list(tools), "on_denied": "go_on"}


def _add(found: dict[str, dict[str, Any]], name: str, params: dict[str, Any]) -> None:
    if name in found:
        raise BadInput(f'two variants would be called "{name}"', "give one of them another name: NAME=...")
    found[name] = params


def _server_sets(words: list[str], base: Path) -> dict[str, tuple[Any, list[str]]]:
    """The servers of each variant, as `mcp:` takes them and by name. One set alone is called with_mcp, of several each
    by its own name."""
    sets: dict[str, tuple[Any, list[str]]] = {}
    for text in words:
        name, declared = _declared(text, base)
        if name in sets:
            raise BadInput(f'--mcp: "{name}" is there twice', "give one of them another name")
        sets[name] = declared, [server.name for server in mcp.servers("--mcp", declared, base)]
    if not sets:
        return {WITH: (DEMO, list(DEMO))}
    return {WITH if len(sets) == 1 else f"with_{name}": found for name, found in sets.items()}


def _declared(text: str, base: Path) -> tuple[str, Any]:
    """`NAME=COMMAND`, or a file in Claude's format, whose servers all belong to one variant."""
    name, equals, command = text.partition("=")
    how = 'write NAME="COMMAND ARGUMENTS", or a file with mcpServers'
    if not equals:
        if not (base / Path(text).expanduser()).is_file():
            raise BadInput(f"--mcp {text}: no such file", how)
        return Path(text).stem.strip(".") or "mcp", text
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(f"--mcp {text}: {str(error).lower()}", how) from None
    if not words:
        raise BadInput(f"--mcp {text}: there is no command", how)
    return name, {name: {"command": words[0], "args": words[1:]}}


def _tool_set(text: str) -> tuple[str, tuple[str, ...]]:
    name, equals, tools = text.partition("=")
    found = tuple(tool.strip() for tool in tools.split(",") if tool.strip())
    if not equals or not name or not found:
        raise BadInput(f"--tools {text}: must be NAME=TOOL,TOOL", "such as --tools plain=Read,Grep")
    return name, found


def _simulated(name: str, own: dict[str, Any], config: Config) -> dict[str, Any]:
    """The same for the simulator, which has to be told how good it is."""
    shown = {key: value for key, value in own.items() if key in ("tools", "mcp")}
    return {**shown, "accuracy": MOCK.get(name, MOCK[WITH]), "latency": config.mock_latency}

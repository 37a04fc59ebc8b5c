"""What a run of the suite is told, and the experiment that comes of it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from abreast.errors import BadInput
from abreast.experiment import Experiment
from abreast.report.folder import LEDGER
from abreast.suites.code_search import asking, finding
from abreast.targets import mcp
from abreast.targets.mcp.references import REFERENCE, is_secret

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
    workspace: Literal["git", "copy"] | None = None  # left out, git of a repository, copy of any other folder
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
    if not config.model.strip():
        raise BadInput("--model: is empty", f"name one, such as {MODEL}")
    files = finding.case_files(config.cases, repo)
    workspace = _workspace(config, repo, [*finding.hidden(files, repo), *_reports(base / "runs")])
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
        params=_common(config) if config.mock else {**_common(config), "workspace": workspace},
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
    without = sorted({finding.OWN, *(name for path in hidden for name in _inside(repo, path))})
    is_git = (repo / ".git").exists() or (
        (repo / "HEAD").is_file() and (repo / "objects").is_dir()
    )  # that is a bare one
    if config.workspace == "git" and not is_git:
        raise BadInput(
            f"--workspace git: {repo} is no git repository of its own", "name its root, or leave the flag out"
        )
    if config.workspace == "copy" or not is_git:
        if config.commit is not None:
            why = "--workspace copy" if config.workspace == "copy" else f"{repo} is no git repository of its own"
            raise BadInput(f"--commit {config.commit}: {why}", "leave --commit out")
        return {"copy": str(repo), "without": without}
    return {"git": str(repo), "commit": config.commit or "HEAD", "without": without}


def _inside(repo: Path, path: Path) -> Iterator[str]:
    """What a repository has of a path: the link that leads to it, and what it leads to."""
    near = path.absolute()
    if near.is_relative_to(repo):
        parts = near.relative_to(repo).parts
        steps = [repo.joinpath(*parts[: count + 1]) for count in range(len(parts))]
        yield str(next((step for step in steps if step.is_symlink()), near).relative_to(repo))
    for real in (near.resolve(), near.parent.resolve() / near.name):
        if real.is_relative_to(repo) and real != repo:
            yield str(real.relative_to(repo))


def _reports(runs: Path) -> list[Path]:
    """The folder of reports, or of one that has other things in it the reports."""
    inside = sorted(runs.iterdir()) if runs.is_dir() else []
    ours = [path for path in inside if (path / LEDGER).is_file()]
    return [runs] if ours == inside else ours


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
    count = next((index for index, word in enumerate(words) if not re.match(r"[A-Za-z_]\w*=", word)), len(words))
    if count == len(words):
        raise BadInput(f"--mcp {text}: there is no command", how)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        _refuse_secret(name, word, following)
    env = {"env": dict(word.split("=", 1) for word in words[:count])} if count else {}
    return name, {name: {"command": words[count], "args": words[count + 1 :], **env}}


def _refuse_secret(server: str, word: str, following: str) -> None:
    """What stands in a command is stored."""
    flag, equals, value = word.partition("=")
    value = value if equals else "" if following.startswith("-") else following
    if flag.startswith("-") and is_secret(flag.lstrip("-")) and value and not REFERENCE.search(value):
        raise BadInput(
            f"--mcp {server}: {flag} is a secret in plain text",
            "write '${NAME}' instead, in single quotes, and set NAME in the environment: what stands here is stored",
        )


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

"""`target: claude-code`: the Claude Code CLI without its terminal, one process a trial."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abreast import errors
from abreast.digest import compose, digest
from abreast.errors import BadInput
from abreast.model import Answer, CostBasis
from abreast.settings import Settings, is_count, is_flag, is_text, is_texts
from abreast.targets import mcp
from abreast.targets.agents.agent import Agent, Attempt, GiveTime, Invocation, Remains, program, public, version_of
from abreast.targets.agents.claude_stream import LOGIN, PARTIAL, PARTIAL_LINE, Stream
from abreast.targets.agents.file_digest import named_file
from abreast.targets.api.http_target import is_fake
from abreast.targets.api.prices import Prices
from abreast.targets.base import Problem
from abreast.targets.processes import process
from abreast.targets.processes.orphans import MARK
from abreast.targets.processes.process_tree import TRIAL
from abreast.targets.request import digest_of_params
from abreast.targets.sandbox import Needs

INSTALL = "npm install -g @anthropic-ai/claude-code, or name the program: command: /path/to/claude"
# Which of them is there decides who pays and whether somebody has to log in.
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
LOGINS = (*KEYS, "CLAUDE_CODE_OAUTH_TOKEN")
CREDENTIALS = ".credentials.json"
QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
_OURS = (
    *("-p", "--print", "--output-format", "--input-format", "--verbose", PARTIAL),
    *("--strict-mcp-config", "--mcp-config"),
)
ON_DENIED = ("fail", "go_on")  # what a call that was not allowed means for the trial
EFFORTS = ("low", "medium", "high", "xhigh", "max")
REVISION = 1


class ClaudeCode(Agent):
    """A single turn without tools, or an agent with those it is given; with the spec's MCP servers and no other."""

    name = "claude-code"
    needs_network = True
    start_cpu_s = 0.8  # what it takes to start: 0.55 to 1.0 s of a core

    def __init__(self, where: str, params: Mapping[str, Any], shared: dict[str, Any]) -> None:
        super().__init__(where, params, shared)
        self._file = program(self._command, self._base)
        said = version_of(self._file, shared) if self._file else "missing"
        self.cli_versions = {"claude": said}
        around = self.environment()
        self.subscription = not any(around.get(name) for name in KEYS)
        address = around.get("ANTHROPIC_BASE_URL", "")
        self.simulated = bool(address) and is_fake(address)
        self.endpoint = address or None
        self._prices = Prices(shared.get("prices"))
        self.version = compose(
            "claude-code",
            said,
            address,
            digest(self.told(around)),
            digest_of_params(params),
            self._renderer.version,
            self._workspaces.version,
            mcp.version(self.mcp_servers, self._base),
            digest(REVISION),
            *self.checks.version,
        )

    def told(self, around: Mapping[str, str]) -> dict[str, str]:
        """Variables by which the CLI behaves otherwise: which model an alias means, how long it thinks."""
        own = {name: value for name, value in around.items() if name.startswith(("ANTHROPIC_", "CLAUDE_CODE_"))}
        thinking = {name: around[name] for name in ("MAX_THINKING_TOKENS",) if name in around}
        return public({**super().told(around), **own, **thinking})

    def _take(self, settings: Settings) -> None:
        self._command: str = settings.take("command", "claude", is_text, "a program, as text")
        self._model = settings.take("model", None, is_text, "the name of a model, such as sonnet")
        tools = settings.take("tools", [], _is_tools, "a list of tools (empty: a single turn), or default")
        self._tools = "default" if tools == "default" else ",".join(tools)
        self.mcp_servers = mcp.servers(settings.where, settings.take("mcp", None, lambda _: True, ""), self._base)
        given = settings.take("allowed_tools", None, _is_list, "a list of tools")
        named = [] if tools == "default" else list(tools)
        allowed = [*named, *(f"mcp__{server.name}" for server in self.mcp_servers)] if given is None else list(given)
        denied = settings.take("disallowed_tools", [], _is_list, "a list of tools")
        denied_is = settings.take("on_denied", "fail", lambda value: value in ON_DENIED, " or ".join(ON_DENIED))
        self._goes_on = denied_is == "go_on"
        self._max_turns = settings.take("max_turns", None, is_count, "a whole number of at least 1")
        self._bare = settings.take("bare", False, is_flag, "true or false")
        flags = {
            "--model": self._model,
            "--system-prompt": settings.take("system", None, is_text, "text"),
            "--append-system-prompt": settings.take("append_system", None, is_text, "text"),
            "--max-turns": self._max_turns,
            "--effort": settings.take("effort", None, lambda value: value in EFFORTS, f"one of {', '.join(EFFORTS)}"),
            "--permission-mode": settings.take("permission_mode", None, is_text, "a mode such as acceptEdits"),
            "--allowedTools": ",".join(allowed) or None,
            "--disallowedTools": ",".join(denied) or None,
        }
        further = settings.take("args", [], _is_list, "a list of further arguments")
        for word in further:
            if word.split("=")[0] in (*_OURS, "--tools", *flags):
                raise BadInput(f"{settings.where}: args: {word} is set by abreast", "leave it out")
        self.is_single_turn = self.warmup = not (tools or self.mcp_servers)
        self.changes_files = self.asks_often = not self.is_single_turn
        self._arguments = [
            *("-p", "--output-format", "stream-json", "--verbose", PARTIAL, "--strict-mcp-config"),
            *("--tools", self._tools),
            *(word for flag, value in flags.items() if value is not None for word in (flag, str(value))),
            *(["--bare"] if self._bare else []),
            *further,
        ]

    def problems(self) -> list[Problem]:
        if self._file is None:
            return [Problem(f"claude-code: the program {self._command} is not found", INSTALL)]
        if not self._can_log_in():
            return [Problem("claude-code: not logged in", LOGIN)]
        return super().problems()

    def _can_log_in(self) -> bool:
        """Whether there is something to log in with; where keys are kept elsewhere, the first trial tells."""
        around = self.environment()
        if any(around.get(name) for name in LOGINS) or os.uname().sysname == "Darwin":
            return True
        return self._credentials().is_file()

    def _credentials(self) -> Path:
        return Path(self.environment().get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / CREDENTIALS

    def _invoke(self, attempt: Attempt, give_time: GiveTime) -> Invocation:
        if self._file is None:
            raise errors.Rejected(f"claude-code: the program {self._command} is not found", fix=INSTALL)
        stream, servers = Stream(), tuple(server.name for server in self.mcp_servers)

        def heard(line: bytes) -> bool:
            give_time(stream.hear(line))
            return bool(servers and (stream.failed_servers() or stream.missing_servers(servers)))

        def read(ended: process.Ended) -> Answer:
            answer = self._answer(stream, attempt, ended)
            trouble = self._trouble(stream, ended, servers)
            if trouble is not None:
                trouble.answer = answer
                raise trouble
            return answer

        arguments, environment = self._prepared(attempt)
        prompt = attempt.request.prompt.encode("utf-8", "replace")
        program = process.Program([self._file, *arguments], attempt.workspace.path, environment, prompt)
        return Invocation(program, read, heard, stream.silent_request, PARTIAL_LINE)

    def _needs(self) -> Needs:
        """The CLI, its login, and what the command lines of its MCP servers name."""
        programs, files = [Path(self._file)] if self._file else [], []
        with contextlib.suppress(BadInput):  # a variable that is not set; the check of MCP servers says so
            for server in map(mcp.expanded, self.mcp_servers):
                first, *words = server.command or ("",)
                if program_file := program(first, self._base):
                    programs.append(Path(program_file))
                files += [Path(word) for word in words if named_file(word)]
                files += [Path(server.cwd)] if server.cwd is not None else []
        return Needs(tuple(programs), tuple(files), (self._credentials().resolve(),))

    def _prepared(self, attempt: Attempt) -> tuple[list[str], dict[str, str]]:
        """The arguments and the environment of one attempt: a config dir of its own, and the servers in a file."""
        folder = attempt.scratch / "config"
        folder.mkdir(mode=0o700)
        environment = {**self.around(attempt), **QUIET}
        credentials = self._credentials()
        if credentials.is_file() and not any(environment.get(name) for name in LOGINS):
            (folder / CREDENTIALS).symlink_to(credentials.resolve())  # a renewed login is everybody's
        environment["CLAUDE_CONFIG_DIR"] = str(folder)
        if self.is_single_turn:
            environment["CLAUDE_CODE_MAX_RETRIES"] = "0"  # there is one back-off, and it is the scheduler's
        arguments = list(self._arguments)
        if self.mcp_servers:
            marks = {TRIAL: attempt.mark, MARK: os.environ.get(MARK, "")}
            file = attempt.scratch / "mcp.json"
            file.touch(0o600)
            configuration, values = mcp.config(self.mcp_servers, marks)
            environment |= values
            file.write_text(json.dumps(configuration), encoding="utf-8")
            arguments += ["--mcp-config", str(file)]
            timeouts = [server.start_timeout for server in self.mcp_servers if server.start_timeout is not None]
            if timeouts:  # in milliseconds; the CLI has one for all servers
                environment["MCP_TIMEOUT"] = str(round(max(timeouts) * 1000))
        return arguments, environment

    def _answer(self, stream: Stream, attempt: Attempt, ended: process.Ended | None) -> Answer:
        cost, basis = stream.cost_usd, self._basis(stream)
        if cost is None:  # it was cut off: what its messages used, at the list price
            price = self._prices.of(stream.model)
            cost = None if price is None else price.of(stream.usage)
            basis = "unknown" if cost is None else "estimated" if basis == "reported" else basis
        return Answer(
            stream.text,
            data={**stream.columns(), **({} if ended is None else ended.columns())},
            usage=stream.usage,
            cost_usd=cost,
            cost_basis=basis,
            model=stream.model,
            raw_response=process.content(attempt.scratch / "stdout") or None,
            waited_s=stream.retry_wait_s,
        )

    def _basis(self, stream: Stream) -> CostBasis:
        return "included" if self.subscription and not stream.is_paid_by_key else "reported"

    def _remains(self, attempt: Attempt) -> Remains:
        stream = Stream()  # it may not have begun
        with contextlib.suppress(OSError), process.printed(attempt.scratch / "stdout") as file:
            while line := file.readline(process.LONGEST_LINE):
                stream.hear(line)
        return Remains(self._answer(stream, attempt, None), stream.unanswered())

    def _trouble(self, stream: Stream, ended: process.Ended, servers: tuple[str, ...]) -> errors.TrialError | None:
        failed = [*stream.failed_servers(), *stream.missing_servers(servers)] if servers else []
        if failed:
            return errors.McpFailed(f"MCP server {', '.join(failed)}")
        if stream.end is not None:
            return stream.trouble(self._goes_on, self._max_turns)
        told = process.tail(ended.err).rpartition("\n")[2] or process.tail(ended.out).rpartition("\n")[2]
        told = f"the CLI ended without a result ({ended.description}): {told or 'no output'}"[:500]
        if ended.code > 0 and not stream.start:
            return errors.Rejected(told, fix=f"try it by hand: {self._command} {' '.join(self._arguments[:6])}")
        return errors.Transient(told) if ended.code < 0 else errors.Crashed(told)


def _is_tools(value: Any) -> bool:
    return value == "default" or _is_list(value)


def _is_list(value: Any) -> bool:
    return (isinstance(value, list | tuple) and not value) or is_texts(value)

"""`target: claude-code`: the Claude Code CLI without a terminal, one process per trial."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from abreast import errors
from abreast.digest import compose, digest
from abreast.errors import BadInput, TrialError
from abreast.settings import Settings, is_count, is_flag, is_text, is_texts
from abreast.targets import mcp
from abreast.targets.agents.agent import Agent, Attempt, cached_attribute, without_secrets
from abreast.targets.agents.presets.agent_output import AgentOutput, last_line
from abreast.targets.agents.presets.claude import INSTALL, KEYS, LOGIN, PARTIAL, QUIET, Stream, read_stream
from abreast.targets.api.http_target import is_fake
from abreast.targets.base import Problem
from abreast.targets.processes import process
from abreast.targets.processes.orphans import MARK
from abreast.targets.processes.process_tree import TRIAL
from abreast.targets.processes.programs import file_in_argument, find_program, version_of
from abreast.targets.request import digest_of_params
from abreast.targets.sandbox import Needs

LOGINS = (*KEYS, "CLAUDE_CODE_OAUTH_TOKEN")
CREDENTIALS = ".credentials.json"
_RESERVED = (
    *("-p", "--print", "--output-format", "--input-format", "--verbose", PARTIAL),
    *("--strict-mcp-config", "--mcp-config"),
)
ON_DENIED = ("fail", "continue")  # effects of a denied call on the trial
EFFORTS = ("low", "medium", "high", "xhigh", "max")
REVISION = 1


class ClaudeCode(Agent):
    """Claude Code with the tools and MCP servers of the spec and no others; without any, a single turn."""

    name = "claude-code"
    needs_network = True
    start_cpu_s = 0.8  # measured: 0.55 to 1.0 s

    def __init__(self, where: str, params: Mapping[str, Any], shared: dict[str, Any]) -> None:
        super().__init__(where, params, shared)
        address = self.environment().get("ANTHROPIC_BASE_URL", "")
        self.subscription = not self._has_key
        self.simulated = bool(address) and is_fake(address)
        self.endpoint = address or None

    @cached_property
    def _file(self) -> str | None:
        return find_program(self._command, self._base)

    @cached_attribute
    def cli_versions(self) -> Mapping[str, str]:
        return {"claude": version_of(self._file, self._shared) if self._file else "missing"}

    @cached_attribute
    def version(self) -> str:
        return compose(
            "claude-code",
            self.cli_versions["claude"],
            self.endpoint or "",
            digest(self.keyed_variables(self.environment())),
            digest_of_params(self._params),
            self._renderer.version,
            self._workspaces.version,
            mcp.version(self.mcp_servers, self._base),
            digest(REVISION),
            *self.checks.version,
        )

    def keyed_variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Variables that change the behaviour of the CLI, such as the models of aliases and how long it thinks."""
        own = {name: value for name, value in environment.items() if name.startswith(("ANTHROPIC_", "CLAUDE_CODE_"))}
        thinking = {name: environment[name] for name in ("MAX_THINKING_TOKENS",) if name in environment}
        return without_secrets({**super().keyed_variables(environment), **own, **thinking})

    def _read_parameters(self, settings: Settings) -> None:
        self._command: str = settings.take("command", "claude", is_text, "a program, as text")
        expects = "a list of tools (empty: a single turn), or default"
        tools = settings.take("tools", [], lambda value: value == "default" or _is_list(value), expects)
        self.mcp_servers = mcp.parse_servers(settings.where, settings.take("mcp", None, lambda _: True, ""), self._base)
        self._server_names = tuple(server.name for server in self.mcp_servers)
        named = [*([] if tools == "default" else tools), *(f"mcp__{name}" for name in self._server_names)]
        allowed = settings.take("allowed_tools", None, _is_list, "a list of tools")
        allowed = named if allowed is None else allowed
        denied = settings.take("disallowed_tools", [], _is_list, "a list of tools")
        denied_is = settings.take("on_denied", "fail", lambda value: value in ON_DENIED, " or ".join(ON_DENIED))
        self._ignores_denied = denied_is == "continue"
        self._max_turns = settings.take("max_turns", None, is_count, "an integer of at least 1")
        is_bare = settings.take("bare", False, is_flag, "true or false")
        flags = {
            "--model": settings.take("model", None, is_text, "the name of a model, such as sonnet"),
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
            if word.split("=")[0] in (*_RESERVED, "--tools", *flags):
                raise BadInput(f"{settings.where}: args: {word} is set by abreast", "remove it")
        self.is_single_turn = self.warmup = not (tools or self.mcp_servers)
        self.changes_files = self.asks_often = not self.is_single_turn
        self._arguments = [
            *("-p", "--output-format", "stream-json", "--verbose", PARTIAL, "--strict-mcp-config"),
            *("--tools", "default" if tools == "default" else ",".join(tools)),
            *(word for flag, value in flags.items() if value is not None for word in (flag, str(value))),
            *(["--bare"] if is_bare else []),
            *further,
        ]

    def problems(self) -> list[Problem]:
        if self._file is None:
            return [Problem(self._missing_program, INSTALL)]
        if not self._can_log_in():
            return [Problem("claude-code: not logged in", LOGIN)]
        return super().problems()

    @property
    def _missing_program(self) -> str:
        return f"claude-code: program {self._command} not found"

    def _can_log_in(self) -> bool:
        """Whether there is a key or a login. Assumed on macOS, where the keychain has the logins."""
        environment = self.environment()
        if any(environment.get(name) for name in LOGINS) or os.uname().sysname == "Darwin":
            return True
        return self._credentials().is_file()

    def _credentials(self) -> Path:
        return Path(self.environment().get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / CREDENTIALS

    def _new_stream(self) -> Stream:
        return Stream()

    def _should_stop(self, stream: Stream) -> bool:
        return bool(stream.failed_servers(self._server_names))

    def _needs(self) -> Needs:
        """Return the CLI, its login, and the programs and files in the commands of its MCP servers."""
        programs, files = [Path(self._file)] if self._file else [], []
        with contextlib.suppress(BadInput):  # a variable is not set: the check of MCP servers reports it
            for server in map(mcp.expand, self.mcp_servers):
                first, *words = server.command or ("",)
                if program_file := find_program(first, self._base):
                    programs.append(Path(program_file))
                files += [Path(word) for word in words if file_in_argument(word)]
                files += [Path(server.cwd)] if server.cwd is not None else []
        return Needs(tuple(programs), tuple(files), (self._credentials().resolve(),))

    def _program(self, attempt: Attempt) -> process.Program:
        """Return the CLI with its own config folder, and the MCP servers in a file."""
        if self._file is None:
            raise errors.Rejected(self._missing_program, fix=INSTALL)
        folder = attempt.scratch / "config"
        folder.mkdir(mode=0o700)
        environment = {**self.attempt_environment(attempt), **QUIET}
        credentials = self._credentials()
        if credentials.is_file() and not any(environment.get(name) for name in LOGINS):
            (folder / CREDENTIALS).symlink_to(credentials.resolve())  # shared, since the CLI may renew it
        environment["CLAUDE_CONFIG_DIR"] = str(folder)
        if self.is_single_turn:
            environment["CLAUDE_CODE_MAX_RETRIES"] = "0"  # only the scheduler retries
        arguments = list(self._arguments)
        if self.mcp_servers:
            marks = {TRIAL: attempt.mark, MARK: os.environ.get(MARK, "")}
            file = attempt.scratch / "mcp.json"
            file.touch(0o600)
            configuration, values = mcp.client_config(self.mcp_servers, marks)
            environment |= values
            file.write_text(json.dumps(configuration), encoding="utf-8")
            arguments += ["--mcp-config", str(file)]
            timeouts = [server.start_timeout for server in self.mcp_servers if server.start_timeout is not None]
            if timeouts:  # the CLI has one timeout for all servers, in milliseconds
                environment["MCP_TIMEOUT"] = str(round(max(timeouts) * 1000))
        prompt = attempt.request.prompt.encode("utf-8", "replace")
        return process.Program([self._file, *arguments], attempt.workspace.path, environment, prompt)

    def _read(self, out: Path, err: Path) -> AgentOutput:
        return self._output(read_stream(out))

    def _output(self, stream: Stream) -> AgentOutput:
        output, end = stream.output(), stream.end
        return replace(
            output,
            extra_columns={
                "tools_denied": len(stream.denied) or None,
                **output.extra_columns,
                "finish_reason": end.get("stop_reason"),
                "request_id": stream.request_id,
                "cli_version": stream.start.get("claude_code_version"),
            },
        )

    def _outcome(self, attempt: Attempt, ended: process.ProcessResult) -> tuple[AgentOutput, TrialError | None]:
        """Read the stream that was followed live: the CLI could have changed the file since."""
        assert attempt.stream is not None
        return self._output(attempt.stream), self._failure(attempt.stream, ended)

    def _failure(self, stream: Stream, ended: process.ProcessResult) -> TrialError | None:
        if failed := stream.failed_servers(self._server_names):
            return errors.McpFailed(f"MCP server {', '.join(failed)}")
        if stream.end:
            return stream.error(self._ignores_denied, self._max_turns)
        printed = last_line(ended.err) or last_line(ended.out) or "no output"
        message = f"the CLI ended without a result ({ended.description}): {printed}"[:500]
        if ended.code > 0 and not stream.start:
            return errors.Rejected(message, fix=f"try: {self._command} {' '.join(self._arguments[:6])}")
        return errors.Transient(message) if ended.code < 0 else errors.Crashed(message)


def _is_list(value: Any) -> bool:
    return (isinstance(value, list | tuple) and not value) or is_texts(value)

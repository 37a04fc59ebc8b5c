"""Output of Claude Code, and of Qwen Code in the same format: one object per line, the last with the result.

Versions print different things, so everything is optional.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abreast import errors
from abreast.errors import TrialError
from abreast.model import Usage
from abreast.targets.agents.presets.agent_output import (
    EMPTY,
    AgentOutput,
    error_from_message,
    read_lines,
    unanswered_error,
    uncached,
)
from abreast.targets.api.anthropic import usage_of
from abreast.targets.api.http_target import http_error
from abreast.targets.mcp.calls import PREFIX, McpCalls, message_of
from abreast.targets.untrusted_json import count, dollars, mapping, mappings, parsed, storable

PARTIAL = "--include-partial-messages"  # prints when a request is sent, and when its answer begins
PARTIAL_LINE = b'{"type":"stream_event"'  # start of a line with part of an answer; the full message follows
SILENT_S = 10.0  # a provider that does not begin to answer within this time counts as unreachable
INSTALL = "npm install -g @anthropic-ai/claude-code, or name the program: command: /path/to/claude"
LOGIN = "run `claude` once and log in, or: export ANTHROPIC_API_KEY=..."
QWEN_LOGIN = "run `qwen auth` once, or: export OPENAI_API_KEY=... and OPENAI_BASE_URL=..."
SLOWER = "reduce --parallel, or wait until the limit is reset, and resume"
# If none of these is set, a login is required, and its subscription pays.
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")
QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
_NOT_LOGGED_IN = re.compile(r"not logged in|invalid api key|please run /login|authentication|oauth token", re.I)
_LIMIT = re.compile(r"(usage|session|weekly|5-hour|hit your) limit", re.I)
_PASSING = re.compile(r"timed out|connection|overloaded|fetch failed|socket|network", re.I)
_STARTED = ("connected", "pending")  # states of MCP servers; pending ones are reported again when used
_QWEN_ERROR = re.compile(r"^\[API Error: (.*)\]$", re.S)


@dataclass(slots=True)
class Stream:
    """What the program has printed so far."""

    start: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] = field(default_factory=dict)  # empty until the result is printed
    tools: Counter[str] = field(default_factory=Counter)
    mcp_calls: McpCalls = field(default_factory=McpCalls)
    retries: int = 0
    retry_wait_s: float = 0.0  # total wait for answered retries
    last_retry: Mapping[str, Any] | None = None  # the last retry since the last answer of the provider
    _retry_delays_s: float = 0.0  # waits since the last answer
    _requested_at: float | None = None  # time of a request without any answer yet, if the output is followed live
    request_id: str | None = None
    last_text: str = ""  # last text of the assistant
    _usage_by_message: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def hear(self, line: bytes) -> float:
        """Read a line; anything but a JSON object of a known kind is ignored. If the line ends retries, return the
        seconds that the CLI waited for them."""
        before = self.retry_wait_s
        if line.startswith(PARTIAL_LINE):
            self._end_retries()
        else:
            self._hear(mapping(parsed(line)))
        return self.retry_wait_s - before

    def _hear(self, event: Mapping[str, Any]) -> None:
        kind, subtype = event.get("type"), event.get("subtype")
        if kind == "system" and subtype == "init":
            self.start = event
        elif kind == "system" and subtype == "api_retry":
            self.retries += 1
            self.last_retry = event
            self._retry_delays_s += (count(event.get("retry_delay_ms")) or 0) / 1_000
        elif kind == "system" and subtype == "status" and event.get("status") == "requesting":
            self._requested_at = time.monotonic()
        elif kind == "system" and subtype == "permission_denied":
            self.mcp_calls.deny(str(event.get("tool_use_id")))
        elif kind == "assistant":
            self._end_retries()
            self.request_id = event.get("request_id") or self.request_id
            self._hear_message(mapping(event.get("message")))
        elif kind == "user":
            for part in mappings(mapping(event.get("message")).get("content")):
                if part.get("type") == "tool_result":
                    text = message_of(part.get("content"))
                    self.mcp_calls.finish(str(part.get("tool_use_id")), part.get("is_error") is True, text)
        elif kind == "result":
            self._end_retries()
            self.end = event

    def _end_retries(self) -> None:
        self.retry_wait_s += self._retry_delays_s
        self.last_retry, self._retry_delays_s, self._requested_at = None, 0.0, None

    def _hear_message(self, message: Mapping[str, Any]) -> None:
        if isinstance(message.get("usage"), Mapping):
            self._usage_by_message[str(message.get("id"))] = message["usage"]
        for part in mappings(message.get("content")):
            if part.get("type") == "tool_use":
                self.tools[str(part.get("name"))] += 1
                self.mcp_calls.add(str(part.get("id")), str(part.get("name")))
            elif part.get("type") == "text":
                self.last_text = str(part.get("text"))

    # -- results ---------------------------------------------------------------------------------------------------

    @property
    def model(self) -> str | None:
        """The model that answered; of several, the most expensive one."""
        if usage := mapping(self.end.get("modelUsage")):
            return storable(max(usage, key=lambda name: dollars(mapping(usage[name]).get("costUSD")) or 0))
        return storable(self.start.get("model"))

    @property
    def usage(self) -> Usage:
        """The usage in the result; without one, that of the messages."""
        if isinstance(self.end.get("usage"), Mapping):
            return usage_of(self.end["usage"])
        messages = [usage_of(usage) for usage in self._usage_by_message.values()]
        if not messages:
            return Usage()
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        return Usage(*(sum(getattr(usage, name) or 0 for usage in messages) for name in names))

    @property
    def is_paid_by_key(self) -> bool:
        """Whether a key pays; otherwise a subscription does, unless the environment has a key."""
        return self.start.get("apiKeySource", "none") not in ("none", "oauth")

    @property
    def text(self) -> str:
        result = self.end.get("result")
        return result if isinstance(result, str) else self.last_text

    @property
    def denied(self) -> list[str]:
        """The tools of denied calls."""
        return [str(call.get("tool_name")) for call in mappings(self.end.get("permission_denials"))]

    def mcp_columns(self) -> dict[str, Any]:
        if not self.start.get("mcp_servers"):
            return {}
        tools = self.start.get("tools")
        names = [name for name in tools if isinstance(name, str)] if isinstance(tools, list) else []
        return self.mcp_calls.columns(sum(name.startswith(PREFIX) for name in names))

    def output(self) -> AgentOutput:
        return AgentOutput(
            text=self.text if self.end or self.last_text else None,
            usage=self.usage,
            cost_usd=dollars(self.end.get("total_cost_usd")),
            is_included=not self.is_paid_by_key,
            model=self.model,
            turns=count(self.end.get("num_turns")),
            tools=self.tools,
            extra_columns=self.mcp_columns(),
            api_retries=self.retries,
            retry_wait_s=self.retry_wait_s,
            unanswered=self.unanswered(),
        )

    # -- errors ----------------------------------------------------------------------------------------------------

    def failed_servers(self, expected: tuple[str, ...]) -> list[str]:
        """MCP servers that did not start, with their status, and expected ones that the CLI does not report."""
        if not expected or not self.start:
            return []
        servers = [(server.get("name"), server.get("status")) for server in mappings(self.start.get("mcp_servers"))]
        names = [name for name, _ in servers]
        failed = [f"{name}: {status}" for name, status in servers if status not in _STARTED]
        return [*failed, *(f"{name}: not started" for name in expected if name not in names)]

    def unanswered(self) -> TrialError | None:
        """Return the error of the request that was being retried when the program ended; None without one."""
        if self.last_retry is None or self.end:
            return None
        status, reason = count(self.last_retry.get("error_status")), storable(self.last_retry.get("error"))
        return unanswered_error(self.retries, status, "" if reason in (None, "unknown") else reason[:100], LOGIN)

    def silent_request(self) -> TrialError | None:
        """Return the error of a request whose answer has not begun within `SILENT_S` seconds; None without one."""
        seconds = 0.0 if self._requested_at is None else time.monotonic() - self._requested_at
        if seconds < SILENT_S:
            return None
        return errors.Transient(f"the provider did not begin to answer a request within {seconds:.0f} s")

    def error(self, denied_is_none: bool = False, max_turns: int | None = None) -> TrialError | None:
        """Return why there is no answer; None if there is one. The CLI's `subtype` does not show API errors.

        `max_turns` is the limit in the spec; the CLI also counts the turn that it did not take.
        """
        end = self.end
        if not end:
            return None
        if self.denied and not denied_is_none:
            names = ", ".join(sorted(set(self.denied)))
            fix = f"set allowed_tools: [{names}], or remove the tool by tools:"
            return errors.ToolDenied(f"denied: {names}", fix=fix)
        if end.get("subtype") == "error_max_turns":
            turns = max_turns or end.get("num_turns")
            return errors.NoAnswer(f"no answer within {turns} turn{'' if turns == 1 else 's'}")
        if end.get("stop_reason") == "refusal":
            return errors.Refused(self.text or "the model declined to answer")
        if end.get("is_error"):
            return _api_error(end, self.text)
        if not end.get("num_turns", 1) and not end.get("duration_api_ms"):
            fix = "begin it with another character than /"
            return errors.Rejected("the CLI took the prompt for one of its commands", fix=fix)
        return None if self.text.strip() else errors.NoAnswer(EMPTY)


def _api_error(end: Mapping[str, Any], text: str) -> TrialError:
    status, reason = count(end.get("api_error_status")), end.get("terminal_reason")
    message = " ".join(text.split())[:500] or f"{end.get('subtype')}, {reason}"
    if reason == "prompt_too_long" or "prompt is too long" in message.lower():
        return errors.TooLong(message)
    if status in (429, 529) or (status is None and _LIMIT.search(message)):
        return errors.RateLimited(message, fix=SLOWER)
    if status is None and _NOT_LOGGED_IN.search(message):
        return errors.Unauthenticated(message, fix=LOGIN)
    if status == 404:
        return errors.Rejected(message, fix="fix the variant: check the name of the model")
    if status is not None and status >= 400:
        return http_error(status, message, message, {}, LOGIN)
    return errors.Transient(message) if _PASSING.search(message) else errors.Crashed(message)


def read_stream(out: Path) -> Stream:
    stream = Stream()
    for line in read_lines(out):
        stream.hear(line)
    return stream


def read(out: Path, err: Path) -> AgentOutput:
    stream = read_stream(out)
    output = stream.output()
    output.is_included &= bool(stream.start)
    output.error = stream.error()
    return output


def read_qwen(out: Path, err: Path) -> AgentOutput:
    """Read the output of Qwen Code: errors are answers with exit code 0, and input tokens include cache reads."""
    stream = read_stream(out)
    output, end = stream.output(), stream.end
    output.is_included = False
    cached = output.usage.cache_read_tokens
    output.usage = Usage(uncached(output.usage.input_tokens, cached), output.usage.output_tokens, cached)
    output.api_retries = None  # not reported
    error = _QWEN_ERROR.match((output.text or "").strip())
    if error:
        output.error, output.text = error_from_message(error[1], QWEN_LOGIN), None
    elif end.get("is_error"):
        message = mapping(end.get("error")).get("message") or output.text or end.get("subtype")
        output.error = error_from_message(str(message), QWEN_LOGIN)
    else:
        output.error = stream.error()
    return output

"""What Claude Code prints, read line by line: who started, which tools were called, what it cost, how it ended.

Versions differ in what they print, so everything is optional here.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast import errors
from abreast.errors import TrialError
from abreast.model import Usage
from abreast.targets.agents.provider_retries import SILENT_S, silent, unanswered
from abreast.targets.api.anthropic import usage_of
from abreast.targets.api.http_target import refusal
from abreast.targets.mcp.calls import PREFIX, McpCalls, message_of
from abreast.targets.untrusted_json import count, dollars, mapping, storable
from abreast.text import parse_json

PARTIAL = "--include-partial-messages"  # so that it prints when it sends a request, and when the answer begins
PARTIAL_LINE = b'{"type":"stream_event"'  # begins a line with a piece of an answer, which comes again as a whole
LOGIN = "run `claude` once and log in, or: export ANTHROPIC_API_KEY=..."
SLOWER = "reduce --parallel, or wait until the limit is reset, and resume"
_NOT_LOGGED_IN = re.compile(
    r"not logged in|invalid api key|please run /login|authentication|oauth token", re.IGNORECASE
)
_LIMIT = re.compile(r"(usage|session|weekly|5-hour|hit your) limit", re.IGNORECASE)
_PASSING = re.compile(r"timed out|connection|overloaded|fetch failed|socket|network", re.IGNORECASE)
_STARTED = ("connected", "pending")  # of MCP servers; pending ones are told of again when they are used


@dataclass(slots=True)
class Stream:
    """What has been printed so far."""

    start: Mapping[str, Any] = field(default_factory=dict)
    end: Mapping[str, Any] | None = None
    tools: Counter[str] = field(default_factory=Counter)
    mcp_calls: McpCalls = field(default_factory=McpCalls)
    retries: int = 0
    retry_wait_s: float = 0.0  # that it waited for retries which were answered
    last_retry: Mapping[str, Any] | None = None  # since the last answer of the provider
    _retry_delays_s: float = 0.0  # since then
    _requested_at: float | None = None  # a request that nothing has come back for yet, if lines are heard as they come
    request_id: str | None = None
    said: str = ""  # the last text of the assistant
    _used: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by message

    def hear(self, line: bytes) -> float:
        """Read one line; anything but a JSON object of a known kind is ignored. Return the seconds that the CLI had
        waited for retries if this line ends them."""
        before = self.retry_wait_s
        if line.startswith(PARTIAL_LINE):
            self._end_retries()
            return self.retry_wait_s - before
        with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
            told = parse_json(line)
            if isinstance(told, Mapping):
                self._hear(told)
        return self.retry_wait_s - before

    def _hear(self, told: Mapping[str, Any]) -> None:
        kind, subtype = told.get("type"), told.get("subtype")
        if kind == "system" and subtype == "init":
            self.start = told
        elif kind == "system" and subtype == "api_retry":
            self.retries += 1
            self.last_retry = told
            self._retry_delays_s += (count(told.get("retry_delay_ms")) or 0) / 1_000
        elif kind == "system" and subtype == "status" and told.get("status") == "requesting":
            self._requested_at = time.monotonic()
        elif kind == "assistant" and isinstance(told.get("message"), Mapping):
            self._end_retries()
            self._hear_message(told["message"], told)
        elif kind == "user" and isinstance(told.get("message"), Mapping):
            self._hear_results(told["message"])
        elif kind == "system" and subtype == "permission_denied":
            self.mcp_calls.deny(str(told.get("tool_use_id")))
        elif kind == "result":
            self._end_retries()
            self.end = told

    def _end_retries(self) -> None:
        self.retry_wait_s += self._retry_delays_s
        self.last_retry, self._retry_delays_s, self._requested_at = None, 0.0, None

    def _hear_message(self, message: Mapping[str, Any], told: Mapping[str, Any]) -> None:
        self.request_id = told.get("request_id") or self.request_id
        if isinstance(message.get("usage"), Mapping):
            self._used[str(message.get("id"))] = message["usage"]
        for part in message.get("content") or ():
            if isinstance(part, Mapping) and part.get("type") == "tool_use":
                self.tools[str(part.get("name"))] += 1
                self.mcp_calls.add(str(part.get("id")), str(part.get("name")))
            elif isinstance(part, Mapping) and part.get("type") == "text":
                self.said = str(part.get("text"))

    def _hear_results(self, message: Mapping[str, Any]) -> None:
        for part in message.get("content") or ():
            if isinstance(part, Mapping) and part.get("type") == "tool_result":
                text = message_of(part.get("content"))
                self.mcp_calls.finish(str(part.get("tool_use_id")), part.get("is_error") is True, text)

    # -- what it says ----------------------------------------------------------------------------------------------

    @property
    def model(self) -> str | None:
        """The model that answered: of several the one that cost most."""
        used = (self.end or {}).get("modelUsage")
        if isinstance(used, Mapping) and used:
            return storable(str(max(used, key=lambda name: dollars(mapping(used[name]).get("costUSD")) or 0)))
        return storable(self.start.get("model"))

    @property
    def usage(self) -> Usage:
        """By the end of it, or, if there was none, by its messages."""
        if self.end is not None and isinstance(self.end.get("usage"), Mapping):
            return usage_of(self.end["usage"])
        each = [usage_of(used) for used in self._used.values()]
        if not each:
            return Usage()
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        return Usage(*(sum(getattr(one, name) or 0 for one in each) for name in names))

    @property
    def cost_usd(self) -> float | None:
        return dollars((self.end or {}).get("total_cost_usd"))

    @property
    def is_paid_by_key(self) -> bool:
        """Else a subscription pays, unless the environment has something else to pay with."""
        return self.start.get("apiKeySource", "none") not in ("none", "oauth")

    @property
    def text(self) -> str:
        result = (self.end or {}).get("result")
        return result if isinstance(result, str) else self.said

    def columns(self) -> dict[str, Any]:
        end = self.end or {}
        return {
            "turns": count(end.get("num_turns")),
            "tool_calls": self.tools.total(),
            "tools": dict(self.tools) or None,
            "tools_denied": len(self.denied) or None,
            **self.mcp_columns(),
            "api_retries": self.retries,
            "retry_wait_s": round(self.retry_wait_s, 3) or None,
            "finish_reason": end.get("stop_reason"),
            "request_id": self.request_id,
            "cli_version": self.start.get("claude_code_version"),
        }

    def mcp_columns(self) -> dict[str, Any]:
        if not self.start.get("mcp_servers"):
            return {}
        tools = self.start.get("tools")
        names = [name for name in tools if isinstance(name, str)] if isinstance(tools, list) else []
        return self.mcp_calls.columns(sum(name.startswith(PREFIX) for name in names))

    # -- what is wrong ---------------------------------------------------------------------------------------------

    def failed_servers(self) -> list[str]:
        """MCP servers that did not start, with what is said of them."""
        found = self.start.get("mcp_servers")
        servers = [server for server in found if isinstance(server, Mapping)] if isinstance(found, list) else []
        return [f"{one.get('name')}: {one.get('status')}" for one in servers if one.get("status") not in _STARTED]

    def missing_servers(self, names: tuple[str, ...]) -> list[str]:
        """Servers that should be there and that the CLI does not even name."""
        found = self.start.get("mcp_servers")
        there = {one.get("name") for one in found if isinstance(one, Mapping)} if isinstance(found, list) else set()
        return [f"{name}: not started" for name in names if self.start and name not in there]

    @property
    def denied(self) -> list[str]:
        """Tools that were asked for and not allowed, call by call."""
        found = (self.end or {}).get("permission_denials")
        return (
            [str(one.get("tool_name")) for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
        )

    def unanswered(self) -> TrialError | None:
        """The request that it was repeating when it was ended; None if the provider had answered."""
        if self.last_retry is None or self.end is not None:
            return None
        status, reason = count(self.last_retry.get("error_status")), storable(self.last_retry.get("error"))
        reason = "" if reason in (None, "unknown") else reason[:100]
        return unanswered(self.retries, status, reason, LOGIN)

    def silent_request(self) -> TrialError | None:
        """The request that the provider has not begun to answer for long; None if it has."""
        seconds = 0.0 if self._requested_at is None else time.monotonic() - self._requested_at
        return silent(seconds) if seconds >= SILENT_S else None

    def trouble(self, denied_is_none: bool = False, max_turns: int | None = None) -> TrialError | None:
        """Why the answer is none; None if it is one. What the CLI calls its subtype says nothing of API errors.
        `max_turns` is the limit that was set; the CLI counts one more, the turn it did not take."""
        end = self.end
        if end is None:
            return None
        if self.denied and not denied_is_none:
            names = sorted(set(self.denied))
            told = f"denied: {', '.join(names)}"
            return errors.ToolDenied(
                told, fix=f"allow it: allowed_tools: [{', '.join(names)}], or take it away by tools:"
            )
        if end.get("subtype") == "error_max_turns":
            turns = max_turns or end.get("num_turns")
            return errors.NoAnswer(f"no answer within {turns} turn{'' if turns == 1 else 's'}")
        if end.get("stop_reason") == "refusal":
            return errors.Refused(self.text or "the model declined to answer")
        if end.get("is_error"):
            return _api_trouble(end, self.text)
        if not end.get("num_turns", 1) and not end.get("duration_api_ms"):
            return errors.Rejected(
                "the CLI took the prompt for one of its commands", fix="begin it with another sign than /"
            )
        return None if self.text.strip() else errors.NoAnswer("an empty answer")


def _api_trouble(end: Mapping[str, Any], said: str) -> TrialError:
    status, reason = count(end.get("api_error_status")), end.get("terminal_reason")
    told = " ".join(said.split())[:500] or f"{end.get('subtype')}, {reason}"
    if reason == "prompt_too_long" or "prompt is too long" in told.lower():
        return errors.TooLong(told)
    if status in (429, 529) or (status is None and _LIMIT.search(told)):
        return errors.RateLimited(told, fix=SLOWER)
    if status is None and _NOT_LOGGED_IN.search(told):
        return errors.Unauthenticated(told, fix=LOGIN)
    if status == 404:
        return errors.Rejected(told, fix="mend the variant: is that the name of a model?")
    if status is not None and status >= 400:
        return refusal(status, "", told, told, {}, LOGIN)
    return errors.Transient(told) if _PASSING.search(told) else errors.Crashed(told)

"""The conversation in the raw output of an agent or an API: messages, thoughts, tool calls and their results.

Formats are recognised by their content; of what is not recognised nothing is shown here, because the page has it as
stored, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from abreast.targets.mcp.calls import qualified
from abreast.targets.untrusted_json import mapping, mappings, parsed

LONGEST = 6_000  # characters of each text of a turn
MOST = 2_000  # turns
_IMAGE = "(an image)"


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn: `kind` is `message`, `thought`, `call` (of a tool, with its result), `note` or `error`."""

    kind: str
    role: str = "assistant"
    text: str = ""
    tool: str = ""
    result: str | None = None  # None: none is known
    is_failed: bool = False
    detail: str = ""  # such as an exit code
    id: str = ""

    @property
    def summary(self) -> str:
        """The beginning of the arguments of a call, on one line."""
        value = parsed(self.text)
        if isinstance(value, Mapping):
            texts = [part for part in value.values() if isinstance(part, str) and part.strip()]
            return " ".join(next(iter(texts), "").split())[:120]
        return " ".join(self.text.split())[:120]


def turns(raw: str, prompt: str = "") -> list[Turn]:
    """The conversation in a raw response; empty if its format is unknown."""
    document = parsed(raw) if raw.lstrip()[:1] in ("{", "[") else None
    if isinstance(document, Mapping | list):
        found = _of_document(document)
    else:
        found = _of_events([event for line in raw.splitlines() if isinstance(event := parsed(line), Mapping)])
    has_question = any(turn.kind == "message" and turn.role == "user" for turn in found)
    if found and prompt and not has_question:
        found.insert(0, Turn(kind="message", role="user", text=cut(prompt)))
    return found[:MOST]


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text):,} characters in all)"


def readable(value: Any) -> str:
    """A value as text: itself, the texts of a list of parts, or JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return cut(value)
    parts = mappings(value)
    if parts and all(isinstance(part.get("type"), str) for part in parts):
        return cut("\n".join(_part_text(part) for part in parts))
    return cut(json.dumps(value, ensure_ascii=False, indent=2))


def _part_text(part: Mapping[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return _IMAGE if "image" in str(part["type"]) else json.dumps(part, ensure_ascii=False)


class _Calls:
    """Adds the results of calls to their turns."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._open: dict[str, Turn] = {}

    def add(self, turn: Turn) -> None:
        self.turns.append(turn)
        if turn.kind == "call" and turn.id:
            self._open[turn.id] = turn

    def finish(self, call: object, result: Any, is_failed: bool = False) -> None:
        turn = self._open.pop(str(call), None)
        if turn is None:
            turn = Turn(kind="call", tool="tool")
            self.turns.append(turn)
        turn.result, turn.is_failed = readable(result), is_failed


# -- one JSON document: a response of an API, or a list of messages ----------------------------------------------------


def _of_document(document: Mapping[str, Any] | list[Any]) -> list[Turn]:
    calls = _Calls()
    if isinstance(document, list):
        messages = mappings(document)
        if messages and all("role" in message for message in messages):
            _add_messages(calls, messages)
            return calls.turns
        return _of_events(messages)
    if choices := mappings(document.get("choices")):
        _add_messages(calls, [mapping(choice.get("message")) for choice in choices])
    elif output := mappings(document.get("output")):
        for item in output:
            _add_response_item(calls, item)
    elif messages := mappings(document.get("messages")):
        _add_messages(calls, messages)
    elif isinstance(document.get("content"), list) and document.get("role") == "assistant":
        _add_messages(calls, [document])
    elif isinstance(document.get("response"), str):
        calls.add(Turn(kind="message", text=cut(document["response"])))
    else:
        return _of_events([document])
    return calls.turns


def _add_messages(calls: _Calls, messages: list[Mapping[str, Any]]) -> None:
    """Messages of the APIs of OpenAI or Anthropic, and of tools that follow them."""
    for message in messages:
        role = str(message.get("role") or "assistant")
        if thought := message.get("reasoning_content") or message.get("reasoning"):
            calls.add(Turn(kind="thought", role=role, text=readable(thought)))
        content = message.get("content")
        if role == "tool":
            calls.finish(message.get("tool_call_id"), content)
        elif isinstance(content, str) and content:
            calls.add(Turn(kind="message", role=role, text=cut(content)))
        for part in mappings(content):
            _add_part(calls, role, part)
        if message.get("refusal"):
            calls.add(Turn(kind="error", role=role, text=readable(message["refusal"])))
        for call in mappings(message.get("tool_calls")):
            function = mapping(call.get("function"))
            name, arguments = str(function.get("name") or call.get("name")), function.get("arguments")
            calls.add(Turn(kind="call", role=role, tool=name, text=_arguments(arguments), id=str(call.get("id") or "")))


def _add_part(calls: _Calls, role: str, part: Mapping[str, Any]) -> None:
    """A part of a message in the format of Anthropic, or of Claude Code."""
    kind = part.get("type")
    if kind in ("text", "output_text", "input_text") and part.get("text"):
        calls.add(Turn(kind="message", role=role, text=readable(part["text"])))
    elif kind == "thinking" and part.get("thinking"):
        calls.add(Turn(kind="thought", role=role, text=readable(part["thinking"])))
    elif kind in ("tool_use", "server_tool_use"):
        tool = str(part.get("name"))
        calls.add(
            Turn(kind="call", role=role, tool=tool, text=_arguments(part.get("input")), id=str(part.get("id") or ""))
        )
    elif kind == "tool_result":
        calls.finish(part.get("tool_use_id"), part.get("content"), part.get("is_error") is True)
    elif kind == "refusal":
        calls.add(Turn(kind="error", role=role, text=readable(part.get("refusal"))))
    elif "image" in str(kind):
        calls.add(Turn(kind="note", role=role, text=_IMAGE))


def _add_response_item(calls: _Calls, item: Mapping[str, Any]) -> None:
    """An item of OpenAI's Responses API."""
    kind = str(item.get("type"))
    if kind == "message":
        for part in mappings(item.get("content")):
            _add_part(calls, str(item.get("role") or "assistant"), part)
    elif kind == "reasoning":
        if text := readable(item.get("summary")) or readable(item.get("content")):
            calls.add(Turn(kind="thought", text=text))
    elif kind.endswith("_call_output"):
        calls.finish(item.get("call_id"), item.get("output"))
    elif kind.endswith("_call"):
        arguments = item.get("arguments", item.get("action"))
        tool = str(item.get("name") or kind.removesuffix("_call"))
        calls.add(Turn(kind="call", tool=tool, text=_arguments(arguments), id=str(item.get("call_id") or "")))


def _arguments(value: Any) -> str:
    """The arguments of a call, with one line for each."""
    if isinstance(value, str) and isinstance(fields := parsed(value), Mapping):
        value = fields
    return readable(value)


# -- one event per line: the output of an agent ------------------------------------------------------------------------


def _of_events(events: list[Mapping[str, Any]]) -> list[Turn]:
    calls = _Calls()
    for event in events:
        for is_format, add in _FORMATS:
            if is_format(event):
                add(calls, event)
                break
        if len(calls.turns) > MOST:
            break
    return calls.turns


def _add_claude_event(calls: _Calls, event: Mapping[str, Any]) -> None:
    kind, message = event.get("type"), mapping(event.get("message"))
    if kind == "system" and event.get("subtype") == "init":
        servers = [f"{server.get('name')} ({server.get('status')})" for server in mappings(event.get("mcp_servers"))]
        facts = [str(event.get("model") or ""), f"MCP servers: {', '.join(servers)}" if servers else ""]
        calls.add(Turn(kind="note", role="system", text=cut(" · ".join(filter(None, facts)) or "start")))
    elif kind == "system" and event.get("subtype") == "api_retry":
        status = event.get("error_status") or event.get("error") or "no connection"
        calls.add(Turn(kind="error", role="system", text=f"the provider did not answer ({status}); tried again"))
    elif kind in ("assistant", "user") and message:
        _add_messages(calls, [{"role": kind, **message}])
    elif kind == "result" and (event.get("is_error") is True or event.get("subtype") not in (None, "success")):
        text = event.get("result") or event.get("errors") or event.get("subtype")
        calls.add(Turn(kind="error", role="system", text=readable(text)))


def _add_codex_event(calls: _Calls, event: Mapping[str, Any]) -> None:
    kind, item = event.get("type"), mapping(event.get("item"))
    if kind == "turn.failed" or (kind == "error" and "message" in event):
        error = event.get("message") or mapping(event.get("error")).get("message")
        calls.add(Turn(kind="error", role="system", text=readable(error)))
    if kind != "item.completed":
        return
    item_kind = str(item.get("type"))
    if item_kind in ("agent_message", "user_message"):
        role = "assistant" if item_kind == "agent_message" else "user"
        calls.add(Turn(kind="message", role=role, text=readable(item.get("text"))))
    elif item_kind == "reasoning":
        calls.add(Turn(kind="thought", text=readable(item.get("text"))))
    elif item_kind == "error":
        calls.add(Turn(kind="error", role="system", text=readable(item.get("message"))))
    elif item_kind == "todo_list":
        lines = [f"{'✓' if task.get('completed') else '·'} {task.get('text')}" for task in mappings(item.get("items"))]
        calls.add(Turn(kind="note", text=cut("\n".join(lines))))
    else:
        calls.add(_codex_call(item, item_kind))


def _codex_call(item: Mapping[str, Any], kind: str) -> Turn:
    is_failed = item.get("status") in ("failed", "declined")
    if kind == "command_execution":
        code = item.get("exit_code")
        return Turn(
            kind="call",
            tool="shell",
            text=readable(item.get("command")),
            result=readable(item.get("aggregated_output")),
            is_failed=is_failed or code not in (0, None),
            detail="" if code in (0, None) else f"exit code {code}",
        )
    if kind == "mcp_tool_call":
        problem = mapping(item.get("error")).get("message")
        result = item.get("result")
        content = mapping(result).get("content", result)
        tool = qualified(item.get("server"), item.get("tool"))
        text = _arguments(item.get("arguments"))
        result = readable(content if problem is None else problem)
        return Turn(kind="call", tool=tool, text=text, result=result, is_failed=is_failed or problem is not None)
    if kind == "file_change":
        lines = [f"{change.get('kind')} {change.get('path')}" for change in mappings(item.get("changes"))]
        return Turn(kind="call", tool="file change", text=cut("\n".join(lines)), is_failed=is_failed)
    rest = {key: value for key, value in item.items() if key not in ("id", "type", "status")}
    text = readable(rest["query"] if list(rest) == ["query"] else rest)
    return Turn(kind="call", tool=kind.replace("_", " "), text=text, is_failed=is_failed)


def _add_opencode_event(calls: _Calls, event: Mapping[str, Any]) -> None:
    kind, part = event.get("type"), mapping(event.get("part"))
    if kind == "text":
        calls.add(Turn(kind="message", text=readable(part.get("text"))))
    elif kind == "reasoning":
        calls.add(Turn(kind="thought", text=readable(part.get("text"))))
    elif kind == "tool_use":
        state = mapping(part.get("state"))
        is_failed = state.get("status") == "error"
        result = readable(state.get("error") if is_failed else state.get("output"))
        text = _arguments(state.get("input"))
        calls.add(Turn(kind="call", tool=str(part.get("tool")), text=text, result=result, is_failed=is_failed))
    elif kind == "error":
        error = mapping(event.get("error"))
        calls.add(Turn(kind="error", role="system", text=readable(mapping(error.get("data")).get("message") or error)))


def _is_claude(event: Mapping[str, Any]) -> bool:
    return event.get("type") in ("system", "assistant", "user", "result")


def _is_codex(event: Mapping[str, Any]) -> bool:
    return str(event.get("type")).startswith(("item.", "turn.", "thread.")) or "message" in event


def _is_opencode(event: Mapping[str, Any]) -> bool:
    return "part" in event or event.get("type") == "error"


Add = Callable[[_Calls, Mapping[str, Any]], None]
_FORMATS: tuple[tuple[Callable[[Mapping[str, Any]], bool], Add], ...] = (
    (_is_claude, _add_claude_event),
    (_is_codex, _add_codex_event),
    (_is_opencode, _add_opencode_event),
)

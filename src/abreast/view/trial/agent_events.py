"""Turns in the output of agents that print one event per line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from abreast.targets.mcp.calls import qualified
from abreast.targets.untrusted_json import mapping, mappings
from abreast.view.trial.messages import add_messages
from abreast.view.trial.turns import Turn, TurnList, arguments_text, cut, readable

MOST = 2_000  # turns


def of_events(events: list[Mapping[str, Any]]) -> list[Turn]:
    calls = TurnList()
    for event in events:
        for is_format, add in _FORMATS:
            if is_format(event):
                add(calls, event)
                break
        if len(calls.turns) > MOST:
            break
    return calls.turns


def _add_claude_event(calls: TurnList, event: Mapping[str, Any]) -> None:
    kind, message = event.get("type"), mapping(event.get("message"))
    if kind == "system" and event.get("subtype") == "init":
        servers = [f"{server.get('name')} ({server.get('status')})" for server in mappings(event.get("mcp_servers"))]
        facts = [str(event.get("model") or ""), f"MCP servers: {', '.join(servers)}" if servers else ""]
        calls.add(Turn(kind="note", role="system", text=cut(" · ".join(filter(None, facts)) or "start")))
    elif kind == "system" and event.get("subtype") == "api_retry":
        status = event.get("error_status") or event.get("error") or "no connection"
        calls.add(Turn(kind="error", role="system", text=f"the provider did not answer ({status}); tried again"))
    elif kind in ("assistant", "user") and message:
        add_messages(calls, [{"role": kind, **message}])
    elif kind == "result" and (event.get("is_error") is True or event.get("subtype") not in (None, "success")):
        text = event.get("result") or event.get("errors") or event.get("subtype")
        calls.add(Turn(kind="error", role="system", text=readable(text)))


def _add_codex_event(calls: TurnList, event: Mapping[str, Any]) -> None:
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
        text = arguments_text(item.get("arguments"))
        result = readable(content if problem is None else problem)
        return Turn(kind="call", tool=tool, text=text, result=result, is_failed=is_failed or problem is not None)
    if kind == "file_change":
        lines = [f"{change.get('kind')} {change.get('path')}" for change in mappings(item.get("changes"))]
        return Turn(kind="call", tool="file change", text=cut("\n".join(lines)), is_failed=is_failed)
    rest = {key: value for key, value in item.items() if key not in ("id", "type", "status")}
    text = readable(rest["query"] if list(rest) == ["query"] else rest)
    return Turn(kind="call", tool=kind.replace("_", " "), text=text, is_failed=is_failed)


def _add_opencode_event(calls: TurnList, event: Mapping[str, Any]) -> None:
    kind, part = event.get("type"), mapping(event.get("part"))
    if kind == "text":
        calls.add(Turn(kind="message", text=readable(part.get("text"))))
    elif kind == "reasoning":
        calls.add(Turn(kind="thought", text=readable(part.get("text"))))
    elif kind == "tool_use":
        state = mapping(part.get("state"))
        is_failed = state.get("status") == "error"
        result = readable(state.get("error") if is_failed else state.get("output"))
        text = arguments_text(state.get("input"))
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


Add = Callable[[TurnList, Mapping[str, Any]], None]
_FORMATS: tuple[tuple[Callable[[Mapping[str, Any]], bool], Add], ...] = (
    (_is_claude, _add_claude_event),
    (_is_codex, _add_codex_event),
    (_is_opencode, _add_opencode_event),
)

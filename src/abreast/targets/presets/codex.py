"""What `codex exec --json` prints: an event a line. It does not say which model answered."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from abreast.errors import TrialError
from abreast.model import Usage
from abreast.targets.presets.said import Said, objects, shown, status_in, trouble, without
from abreast.targets.provider_retries import unanswered
from abreast.targets.told import count, mapping

LOGIN = "run `codex login` once, or: export OPENAI_API_KEY=..."
_TALK = ("agent_message", "reasoning", "error", "todo_list", "user_message")  # items that are no calls of tools
_ANSWERED = ("item.started", "item.updated", "item.completed", "turn.completed", "turn.failed")
_AGAIN = "Reconnecting"


def read(out: Path, err: Path) -> Said:
    said, error, is_done = Said(tools=Counter(), api_retries=0), None, False
    for event in objects(out):
        kind, item = event.get("type"), mapping(event.get("item"))
        if kind in _ANSWERED:
            said.unanswered = None
        if kind == "item.completed" and item.get("type") == "agent_message" and isinstance(item.get("text"), str):
            said.text = item["text"]
        elif kind == "item.completed" and isinstance(item.get("type"), str) and item["type"] not in _TALK:
            said.tools[item["type"]] += 1  # type: ignore[index]
        elif kind == "turn.completed":
            is_done, said.usage, said.turns = True, _usage(mapping(event.get("usage"))), (said.turns or 0) + 1
        elif kind == "turn.failed":
            is_done, error = False, mapping(event.get("error")).get("message") or error
        elif kind == "error" and isinstance(event.get("message"), str):
            if event["message"].startswith(_AGAIN):
                said.api_retries = (said.api_retries or 0) + 1
                said.unanswered = _unanswered(event["message"], said.api_retries)
            is_done, error = False, event["message"]
    if error is not None and not is_done:
        said.trouble = trouble(str(error), LOGIN)
    return said


def _unanswered(message: str, retries: int) -> TrialError:
    """The request behind `Reconnecting... 2/5 (unexpected status 529 ...)`."""
    cause = message.partition("(")[2].removesuffix(")")
    return unanswered(retries, status_in(cause) or 503, shown(cause)[:200], LOGIN)


def _usage(told: object) -> Usage:
    used = mapping(told)
    given, cached, written = (
        count(used.get(name)) for name in ("input_tokens", "cached_input_tokens", "cache_write_input_tokens")
    )
    return Usage(
        without(given, (cached or 0) + (written or 0)),
        count(used.get("output_tokens")),
        cached,
        written,
        count(used.get("reasoning_output_tokens")),
    )

"""The conversation in the raw output of an agent or an API.

Formats are recognised by their content. Unrecognised output is omitted here, because the page also has it as stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abreast.targets.untrusted_json import mapping, mappings, parsed
from abreast.view.trial.agent_events import MOST, of_events
from abreast.view.trial.messages import add_messages, add_response_item
from abreast.view.trial.turns import Turn, TurnList, cut


def turns(raw: str, prompt: str = "") -> list[Turn]:
    """Return the turns in a raw response; empty if its format is unknown."""
    try:
        answer = _turns(raw)
    except RecursionError:  # JSON that is nested too deeply
        return []
    has_question = any(turn.kind == "message" and turn.role == "user" for turn in answer)
    question = [Turn(kind="message", role="user", text=cut(prompt))] if answer and prompt and not has_question else []
    return [*question, *answer][:MOST]


def _turns(raw: str) -> list[Turn]:
    document = parsed(raw) if raw.lstrip()[:1] in ("{", "[") else None
    if isinstance(document, Mapping | list):
        return _of_document(document)
    return of_events([event for line in raw.split("\n") if isinstance(event := parsed(line), Mapping)])


def _of_document(document: Mapping[str, Any] | list[Any]) -> list[Turn]:
    calls = TurnList()
    if isinstance(document, list):
        messages = mappings(document)
        if messages and all("role" in message for message in messages):
            add_messages(calls, messages)
            return calls.turns
        return of_events(messages)
    if choices := mappings(document.get("choices")):
        add_messages(calls, [mapping(choice.get("message")) for choice in choices])
    elif output := mappings(document.get("output")):
        for item in output:
            add_response_item(calls, item)
    elif messages := mappings(document.get("messages")):
        add_messages(calls, messages)
    elif isinstance(document.get("content"), list) and document.get("role") == "assistant":
        add_messages(calls, [document])
    elif isinstance(document.get("response"), str):
        calls.add(Turn(kind="message", text=cut(document["response"])))
    else:
        return of_events([document])
    return calls.turns

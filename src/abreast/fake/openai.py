"""OpenAI's APIs: `POST /v1/chat/completions` and `POST /v1/responses`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from abreast.fake.api_format import (
    ChatRequest,
    FakeAnswer,
    arguments_text,
    characters,
    chunks,
    dumps,
    event,
    joined_text,
    new_id,
    read_conversation,
    user_text,
)

_ENDINGS = {"end": "stop", "tool": "tool_calls", "cut": "length", "refusal": "stop"}
_ERRORS: dict[int, tuple[str, str | None, str]] = {
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", None, "You do not have access to this resource."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again later."),
    503: ("server_error", None, "The server is currently overloaded. Please try again later."),
}
MOST_RESPONSES = 10_000  # kept, so that later requests can continue them
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


def error_body(status: int, message: str | None, code: str | None = None) -> dict[str, Any]:
    default_kind = "invalid_request_error" if status < 500 else "server_error"
    default = (default_kind, None, "The server had an error while processing your request.")
    kind, default_code, text = _ERRORS.get(status, default)
    return {"error": {"message": message or text, "type": kind, "param": None, "code": code or default_code}}


def too_long(tokens: int) -> str:
    return (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        f"{max(tokens, 128_001)} tokens. Please reduce the length of the messages."
    )


def _model_problem(body: Mapping[str, Any]) -> str | None:
    return None if isinstance(body.get("model"), str) else "you must provide a model parameter"


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


# -- /v1/chat/completions ----------------------------------------------------------------------------------------------


class ChatCompletions:
    """`/v1/chat/completions`, streamed or not."""

    provider = "openai"

    def problem(self, body: Mapping[str, Any]) -> str | None:
        messages = body.get("messages")
        if not messages or not _are_objects(messages):
            return "Missing required parameter: 'messages'."
        return _model_problem(body)

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        size = characters((body["messages"], body.get("tools")))
        return read_conversation(body["messages"], _classify_message, size, ChatRequest(""))

    def response(self, body: Mapping[str, Any], answer: FakeAnswer) -> dict[str, Any]:
        refused = answer.ending == "refusal"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if refused or (answer.tool and not answer.text) else answer.text,
            "refusal": answer.text if refused else None,
            "annotations": [],
        }
        if answer.tool:
            message["tool_calls"] = [_call(answer)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _ENDINGS[answer.ending]}
        return {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(answer)}

    def events(self, body: Mapping[str, Any], answer: FakeAnswer) -> Iterator[bytes]:
        head = _head(body, "chat.completion.chunk")
        includes_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        no_usage: dict[str, Any] = {"usage": None} if includes_usage else {}
        for delta in _deltas(answer):
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
            yield _data({**head, "choices": [choice], **no_usage})
        last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _ENDINGS[answer.ending]}
        yield _data({**head, "choices": [last], **no_usage})
        if includes_usage:
            yield _data({**head, "choices": [], "usage": _usage(answer)})
        yield b"data: [DONE]\n\n"


def _classify_message(message: Mapping[str, Any]) -> tuple[int, str | None, str]:
    role, content = message.get("role"), message.get("content")
    calls = len(message.get("tool_calls") or ()) if role == "assistant" else 0
    return calls, joined_text(content) if role == "tool" else None, user_text(content) if role == "user" else ""


def _deltas(answer: FakeAnswer) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None if answer.tool else "", "refusal": None}
    field = "refusal" if answer.ending == "refusal" else "content"
    yield from ({field: chunk} for chunk in chunks(answer.text))
    if answer.tool:
        call = _call(answer)
        empty = {**call["function"], "arguments": ""}
        yield {"tool_calls": [{"index": 0, **call, "function": empty}]}
        for chunk in chunks(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": 0, "function": {"arguments": chunk}}]}


def _data(value: Mapping[str, Any]) -> bytes:
    return f"data: {dumps(value)}\n\n".encode("utf-8", "replace")


def _head(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {
        "id": new_id("chatcmpl-"),
        "object": kind,
        "created": int(time.time()),
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def _call(answer: FakeAnswer) -> dict[str, Any]:
    function = {"name": answer.tool, "arguments": arguments_text(answer.args)}
    return {"id": new_id("call_"), "type": "function", "function": function}


def _usage(answer: FakeAnswer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input,
        "completion_tokens": answer.output,
        "total_tokens": answer.input + answer.output,
        "prompt_tokens_details": {"cached_tokens": answer.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": answer.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


# -- /v1/responses -----------------------------------------------------------------------------------------------------


class Responses:
    """`/v1/responses`, streamed or not. Conversations are remembered for `previous_response_id`."""

    provider = "openai"

    def __init__(self) -> None:
        self._conversations: dict[str, ChatRequest] = {}

    def problem(self, body: Mapping[str, Any]) -> str | None:
        content = body.get("input")
        if not content or not (isinstance(content, str) or _are_objects(content)):
            return "Missing required parameter: 'input'."
        before = body.get("previous_response_id")
        if before is not None and before not in self._conversations:
            return f"Previous response with id '{before}' not found."
        return _model_problem(body)

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        content = body["input"]
        size = characters((body.get("instructions"), content, body.get("tools")))
        before = self._conversations.get(str(body.get("previous_response_id")), ChatRequest(""))
        if isinstance(content, str):
            return ChatRequest(content.strip(), 0, None, size + before.characters)
        return read_conversation(content, _classify_item, size, before)

    def response(self, body: Mapping[str, Any], answer: FakeAnswer) -> dict[str, Any]:
        return self._response(body, answer, new_id("resp_"), _items(body, answer))

    def events(self, body: Mapping[str, Any], answer: FakeAnswer) -> Iterator[bytes]:
        response_id, items = new_id("resp_"), _items(body, answer)
        started = _started_response(body, response_id)
        final_kind = "response.incomplete" if answer.ending == "cut" else "response.completed"
        events = (
            ("response.created", {"response": started}),
            ("response.in_progress", {"response": started}),
            *(item_event for index, item in enumerate(items) for item_event in _item_events(index, item)),
            (final_kind, {"response": self._response(body, answer, response_id, items)}),
        )
        for number, (kind, value) in enumerate(events):
            yield event(kind, {"sequence_number": number, **value})

    def _response(
        self, body: Mapping[str, Any], answer: FakeAnswer, response_id: str, items: list[dict[str, Any]]
    ) -> dict[str, Any]:
        if body.get("store") is not False:
            self._remember(response_id, body, answer)
        is_cut = answer.ending == "cut"
        return {
            **_started_response(body, response_id),
            "status": "incomplete" if is_cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "output": items,
            "usage": _response_usage(answer),
        }

    def _remember(self, response_id: str, body: Mapping[str, Any], answer: FakeAnswer) -> None:
        request = self.read(body)
        calls, size = request.calls + bool(answer.tool), request.characters + len(answer.text)
        self._conversations[response_id] = ChatRequest(request.text, calls, request.result, size)
        if len(self._conversations) > MOST_RESPONSES:
            del self._conversations[next(iter(self._conversations))]


def _started_response(body: Mapping[str, Any], response_id: str) -> dict[str, Any]:
    return {
        "id": response_id,
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store") is not False,
        "usage": None,
    }


def _items(body: Mapping[str, Any], answer: FakeAnswer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.text:
        part: dict[str, Any] = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        if answer.ending == "refusal":
            part = {"type": "refusal", "refusal": answer.text}
        status = "incomplete" if answer.ending == "cut" else "completed"
        message_id = new_id("msg_")
        items.append({"id": message_id, "type": "message", "status": status, "role": "assistant", "content": [part]})
    if answer.tool:
        items.append(_call_item(body, answer))
    return items


def _call_item(body: Mapping[str, Any], answer: FakeAnswer) -> dict[str, Any]:
    """Return a call of a function, or of a free-form tool if the request offers one of that name or `args` is text."""
    tool, namespace = _find_tool(_tools(body), answer.tool)
    args = answer.args
    if tool.get("type", "custom" if isinstance(args, str) else "function") == "custom":
        text = args if isinstance(args, str) else args.get("input", arguments_text(args))
        call = {"id": new_id("ctc_"), "type": "custom_tool_call", "input": text}
    else:
        call = {"id": new_id("fc_"), "type": "function_call", "arguments": arguments_text(args)}
    call |= {"status": "completed", "call_id": new_id("call_"), "name": tool.get("name", answer.tool)}
    return {**call, "namespace": namespace} if namespace else call


def _tools(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all tools that a request offers. Codex lists them among the input for newer models."""
    for part in [body, *(body["input"] if isinstance(body["input"], list) else [])]:
        tools = part.get("tools")
        yield from (tool for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()


def _find_tool(tools: Iterator[Mapping[str, Any]], name: str) -> tuple[Mapping[str, Any], str]:
    """Return the tool of that name and its namespace, which may be part of the name: `NAMESPACE__NAME`."""
    for tool in tools:
        namespace = str(tool.get("name"))
        if tool.get("type") != "namespace" and namespace == name:
            return tool, ""
        for inner in _tools({"tools": tool.get("tools"), "input": ""}):
            if name in (inner.get("name"), f"{namespace}__{inner.get('name')}", f"{namespace}{inner.get('name')}"):
                return inner, namespace
    return {}, ""


def _item_events(index: int, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events that stream an item."""
    position = {"item_id": item["id"], "output_index": index}
    started = {**item, "status": "in_progress"}
    if item["type"] == "message":
        yield "response.output_item.added", {"output_index": index, "item": {**started, "content": []}}
        yield from _part_events({**position, "content_index": 0}, item["content"][0])
    else:
        field, kind = ("arguments", "function_call_arguments")
        if item["type"] == "custom_tool_call":
            field, kind = ("input", "custom_tool_call_input")
        yield "response.output_item.added", {"output_index": index, "item": {**started, field: ""}}
        yield from _text_events(kind, field, position, item[field])
    yield "response.output_item.done", {"output_index": index, "item": item}


def _part_events(position: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    field, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
    yield "response.content_part.added", {**position, "part": {**part, field: ""}}
    yield from _text_events(kind, field, position, part[field])
    yield "response.content_part.done", {**position, "part": part}


def _text_events(kind: str, field: str, position: dict[str, Any], text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for chunk in chunks(text):
        yield f"response.{kind}.delta", {**position, "delta": chunk}
    yield f"response.{kind}.done", {**position, field: text}


def _classify_item(item: Mapping[str, Any]) -> tuple[int, str | None, str]:
    kind, output = item.get("type", "message"), item.get("output")
    if kind in _RESULTS:  # text, a list of parts, or an object with a text in it
        return 0, joined_text(output.get("content") if isinstance(output, dict) else output), ""
    is_user = kind == "message" and item.get("role") == "user"
    return int(kind in _CALLS), None, user_text(item.get("content")) if is_user else ""


def _response_usage(answer: FakeAnswer) -> dict[str, Any]:
    return {
        "input_tokens": answer.input,
        "input_tokens_details": {"cached_tokens": answer.cached},
        "output_tokens": answer.output,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning},
        "total_tokens": answer.input + answer.output,
    }

"""The fake provider mimics the APIs of Anthropic and OpenAI, follows its script, and marks its answers as fake."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from abreast.errors import BadInput
from abreast.fake import FakeProvider, Rate, Reply, Rule
from abreast.rate_headers import rate_limits, retry_after

MESSAGES, CHAT, RESPONSES = "/v1/messages", "/v1/chat/completions", "/v1/responses"
PATHS = [MESSAGES, CHAT, RESPONSES]
each_form = pytest.mark.parametrize("path", PATHS)


@dataclass(frozen=True)
class Got:
    status: int
    headers: dict[str, str]
    raw: str

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The streamed events, after a check that the name of each is the type in its data."""
        actual = []
        for block in self.raw.strip().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines())
            if lines["data"] == "[DONE]":
                actual.append({"type": "[DONE]"})
            else:
                actual.append(json.loads(lines["data"]))
                assert lines.get("event") == actual[-1].get("type")
        return actual


async def send(
    session: aiohttp.ClientSession,
    url: str,
    body: Any = None,
    method: str = "POST",
    key: str | None = "k",
    **headers: str,
) -> Got:
    if key is not None:
        headers |= {"x-api-key": key} if "/messages" in url else {"authorization": f"Bearer {key}"}
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    async with session.request(method, url, data=data, headers=headers) as response:
        return Got(
            response.status, {name.lower(): value for name, value in response.headers.items()}, await response.text()
        )


def ask(provider: FakeProvider, path: str, body: Any = None, method: str = "POST", **extra: Any) -> Got:
    async def go() -> Got:
        async with aiohttp.ClientSession() as session:
            return await send(session, provider.url + path, body, method, **extra)

    return asyncio.run(go())


def question(path: str, text: str, *more: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """A request body in the format of the API at this path."""
    turn = {"role": "user", "content": text}
    body: dict[str, Any] = {"input": [turn, *more]} if path == RESPONSES else {"messages": [turn, *more]}
    if path == MESSAGES:
        body["max_tokens"] = 100
    return {"model": "some-model", **body, **extra}


def answer_text(path: str, body: dict[str, Any]) -> str | None:
    """The text of an answer."""
    if path == MESSAGES:
        return "".join(block["text"] for block in body["content"] if block["type"] == "text")
    if path == CHAT:
        return body["choices"][0]["message"]["content"]
    return "".join(part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"])


def ending(path: str, body: dict[str, Any]) -> str:
    if path == MESSAGES:
        return str(body["stop_reason"])
    return str(body["choices"][0]["finish_reason"] if path == CHAT else body["status"])


def tokens(path: str, body: dict[str, Any]) -> tuple[int, int, int]:
    """Input, output and cached tokens, read by the provider's own field names."""
    used = body["usage"]
    if path == MESSAGES:
        return used["input_tokens"], used["output_tokens"], used["cache_read_input_tokens"]
    if path == CHAT:
        cached = used["prompt_tokens_details"]["cached_tokens"]
        return used["prompt_tokens"], used["completion_tokens"], cached
    return used["input_tokens"], used["output_tokens"], used["input_tokens_details"]["cached_tokens"]


def call(path: str, body: dict[str, Any]) -> tuple[str, Any, list[dict[str, Any]]]:
    """The called tool, its arguments, and the messages that continue the conversation."""
    if path == MESSAGES:
        block = body["content"][-1]
        result = {"type": "tool_result", "tool_use_id": block["id"], "content": [{"type": "text", "text": "RESULT"}]}
        reminder = {"type": "text", "text": "<system-reminder>[[fake: status=500]] be brief</system-reminder>"}
        turns = [{"role": "assistant", "content": body["content"]}, {"role": "user", "content": [result, reminder]}]
        return block["name"], block["input"], turns
    if path == CHAT:
        message = body["choices"][0]["message"]
        tool_call = message["tool_calls"][0]
        turns = [message, {"role": "tool", "tool_call_id": tool_call["id"], "content": "RESULT"}]
        return tool_call["function"]["name"], json.loads(tool_call["function"]["arguments"]), turns
    item = body["output"][-1]
    turns = [item, {"type": "function_call_output", "call_id": item["call_id"], "output": "RESULT"}]
    return item["name"], json.loads(item["arguments"]), turns


@pytest.fixture(scope="module")
def plain() -> Iterator[FakeProvider]:
    """A provider without a script."""
    with FakeProvider.in_thread() as provider:
        yield provider


# shapes


@each_form
def test_an_answer_has_the_shape_of_its_provider_and_is_marked_as_fake(plain: FakeProvider, path: str) -> None:
    response = ask(plain, path, question(path, "What is 2 + 2?"))
    assert (response.status, response.json["model"], response.headers["x-abreast-fake"]) == (200, "some-model", "1")
    assert answer_text(path, response.json) == answer_text(
        path, ask(plain, path, question(path, "What is 2 + 2?")).json
    )
    assert str(answer_text(path, response.json)).startswith("fake answer")
    assert ending(path, response.json) == {MESSAGES: "end_turn", CHAT: "stop", RESPONSES: "completed"}[path]
    assert response.headers["request-id" if path == MESSAGES else "x-request-id"].startswith("req_")
    assert response.json["id"].startswith({MESSAGES: "msg_", CHAT: "chatcmpl-", RESPONSES: "resp_"}[path])
    assert min(tokens(path, response.json)[:2]) > 0


@each_form
def test_every_base_path_reaches_the_same_api(plain: FakeProvider, path: str) -> None:
    for prefix in ("", "/v1", "/proxy/anything/v1"):
        assert ask(plain, prefix + path.removeprefix("/v1"), question(path, "hello")).status == 200


@each_form
def test_a_prompt_can_set_its_tokens(plain: FakeProvider, path: str) -> None:
    text = '[[fake: say="yes" input=100 output=20 cached=50 cache-write=7 reasoning=5]]'
    body = ask(plain, path, question(path, text)).json
    assert tokens(path, body) == (100, 20, 50)
    if path == MESSAGES:
        assert body["usage"]["cache_creation_input_tokens"] == 7
    else:
        details = "completion_tokens_details" if path == CHAT else "output_tokens_details"
        assert body["usage"][details]["reasoning_tokens"] == 5
        assert body["usage"]["total_tokens"] == 120


def test_tokens_are_counted_as_an_answer_reports_them(plain: FakeProvider) -> None:
    body = question(MESSAGES, "word " * 400, system="Be brief.")
    count = ask(plain, "/v1/messages/count_tokens", {key: body[key] for key in ("model", "messages", "system")})
    assert count.json == {"input_tokens": tokens(MESSAGES, ask(plain, MESSAGES, body).json)[0]}
    assert 450 < count.json["input_tokens"] < 550


def test_models_are_listed_in_the_format_of_the_client(plain: FakeProvider) -> None:
    assert ask(plain, "/v1/models", method="GET").json["data"][0]["object"] == "model"
    listed = ask(plain, "/v1/models", method="GET", **{"anthropic-version": "2023-06-01"}).json
    assert listed["data"][0]["type"] == "model"
    assert listed["has_more"] is False
    assert ask(plain, "/v1/models/any-name", method="GET").json["id"] == "any-name"


def test_start_up_requests_of_clients_are_answered_and_unknown_paths_are_404(plain: FakeProvider) -> None:
    assert ask(plain, "/", method="HEAD", key=None).status == 200
    assert ask(plain, "/api/hello", method="HEAD", key=None).status == 200
    unknown = ask(plain, "/v1/embeddings", {})
    assert (unknown.status, unknown.json["error"]["type"]) == (404, "invalid_request_error")
    unknown = ask(plain, "/v1/messages/batches", {})
    assert (unknown.status, unknown.json["error"]["type"]) == (404, "not_found_error")
    assert unknown.headers["x-abreast-fake"] == "1"


@each_form
def test_an_invalid_body_is_refused_in_the_format_of_the_provider(plain: FakeProvider, path: str) -> None:
    valid_body = question(path, "hello")
    for body in (b"{", [], {}, {**valid_body, "model": None}, {**valid_body, "messages": [], "input": []}):
        response = ask(plain, path, body)
        assert (response.status, response.json["error"]["type"]) == (400, "invalid_request_error"), body
    if path == MESSAGES:
        del valid_body["max_tokens"]
        assert "max_tokens" in ask(plain, path, valid_body).json["error"]["message"]


# streams


@each_form
def test_a_streamed_answer_adds_up_to_the_complete_one(plain: FakeProvider, path: str) -> None:
    text = "a long answer, in several pieces: äöü 🦦 and so on and so on"
    body = question(path, f"[[fake: say={json.dumps(text)} input=9 output=8 cached=7]]", stream=True)
    if path == CHAT:
        body["stream_options"] = {"include_usage": True}
    response = ask(plain, path, body)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-abreast-fake"] == "1"
    events = response.events
    kinds = [event.get("type") for event in events]
    if path == MESSAGES:
        pieces = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
        middle_events = ["content_block_start", *["content_block_delta"] * len(pieces), "content_block_stop"]
        assert kinds == ["message_start", "ping", *middle_events, "message_delta", "message_stop"]
        assert events[0]["message"]["model"] == "some-model"
        assert events[-2]["delta"]["stop_reason"] == "end_turn"
        assert tokens(path, events[-2]) == (9, 8, 7)
    elif path == CHAT:
        pieces = [event["choices"][0]["delta"].get("content") or "" for event in events[:-2]]
        assert events[-1] == {"type": "[DONE]"}
        assert events[-3]["choices"][0]["finish_reason"] == "stop"
        assert tokens(path, events[-2]) == (9, 8, 7)
        assert len({event["id"] for event in events[:-1]}) == 1
    else:
        pieces = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert kinds[:4] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
        ]
        assert kinds[-4:] == [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert answer_text(path, events[-1]["response"]) == text
        assert tokens(path, events[-1]["response"]) == (9, 8, 7)
    assert len(pieces) > 2
    assert "".join(pieces) == text


@each_form
def test_a_streamed_call_of_a_tool_has_its_arguments(plain: FakeProvider, path: str) -> None:
    args = {"command": "echo a rather long command line"}
    body = question(path, f'[[fake: tool=Bash args={json.dumps(args)} say="I look."]]', stream=True)
    events = ask(plain, path, body).events
    if path == MESSAGES:
        starts = [event["content_block"] for event in events if event["type"] == "content_block_start"]
        assert [(block["type"], block.get("name")) for block in starts] == [("text", None), ("tool_use", "Bash")]
        pieces = [event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta"]
        assert events[-2]["delta"]["stop_reason"] == "tool_use"
    elif path == CHAT:
        calls = [event["choices"][0]["delta"].get("tool_calls") for event in events[:-1]]
        pieces = [item[0]["function"]["arguments"] for item in calls if item]
        assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"
    else:
        pieces = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
        assert [item["type"] for item in events[-1]["response"]["output"]] == ["message", "function_call"]
    assert json.loads("".join(pieces)) == args


# errors


@each_form
@pytest.mark.parametrize(
    ("status", "anthropic", "openai"),
    [
        (401, "authentication_error", "invalid_request_error"),
        (403, "permission_error", "invalid_request_error"),
        (404, "not_found_error", "invalid_request_error"),
        (429, "rate_limit_error", "requests"),
        (500, "api_error", "server_error"),
        (529, "overloaded_error", "server_error"),
    ],
)
def test_an_error_has_the_type_of_its_provider(
    plain: FakeProvider, path: str, status: int, anthropic: str, openai: str
) -> None:
    for stream in (False, True):
        response = ask(plain, path, question(path, f"[[fake: status={status}]]", stream=stream))
        assert (response.status, response.json["error"]["type"]) == (status, anthropic if path == MESSAGES else openai)
        assert response.json["error"]["message"]
        assert "retry-after" not in response.headers
    if path == MESSAGES:
        assert response.json["type"] == "error"
        assert response.json["request_id"] == response.headers["request-id"]
    elif status in (401, 429):
        assert response.json["error"]["code"] == {401: "invalid_api_key", 429: "rate_limit_exceeded"}[status]


@each_form
def test_a_prompt_fails_a_set_number_of_times_and_is_then_answered(plain: FakeProvider, path: str) -> None:
    body = question(path, f'{path} [[fake: status=429 retry-after=1.5 times=2]] [[fake: say="at last"]]')
    response = [ask(plain, path, body) for _ in range(4)]
    assert [item.status for item in response] == [429, 429, 200, 200]
    assert [retry_after(item.headers) for item in response] == [1.5, 1.5, None, None]
    assert answer_text(path, response[-1].json) == "at last"


@each_form
def test_an_overlong_prompt_is_refused_in_the_words_of_the_provider(plain: FakeProvider, path: str) -> None:
    response = ask(plain, path, question(path, "[[fake: too-long]]"))
    assert (response.status, response.json["error"]["type"]) == (400, "invalid_request_error")
    if path == MESSAGES:
        assert response.json["error"]["message"].startswith("prompt is too long: 200001 tokens > 200000")
    else:
        assert response.json["error"]["code"] == "context_length_exceeded"


@each_form
def test_a_dropped_connection_has_no_response(plain: FakeProvider, path: str) -> None:
    with pytest.raises(aiohttp.ClientConnectionError):
        ask(plain, path, question(path, "[[fake: drop]]"))


@each_form
def test_a_hanging_request_ends_when_its_client_disconnects(path: str) -> None:
    async def go() -> None:
        async with FakeProvider(capacity=1) as provider, aiohttp.ClientSession() as session:
            url = provider.url + path
            hanging = asyncio.create_task(send(session, url, question(path, "[[fake: hang]]")))
            while not provider.requests:  # noqa: ASYNC110 - both ends are in this loop
                await asyncio.sleep(0)
            assert (await send(session, url, question(path, "hello"))).status == 429
            hanging.cancel()
            while (await send(session, url, question(path, "hello"))).status != 200:
                pass

    asyncio.run(asyncio.wait_for(go(), 20))


def test_a_hanging_request_does_not_keep_the_provider_from_closing() -> None:
    async def go() -> None:
        async with aiohttp.ClientSession() as session:
            async with FakeProvider() as provider:
                body = send(session, provider.url + CHAT, question(CHAT, "[[fake: hang]]"))
                hanging = asyncio.create_task(body)
                while not provider.requests:  # noqa: ASYNC110 - both ends are in this loop
                    await asyncio.sleep(0)
            with pytest.raises(aiohttp.ClientConnectionError):
                await hanging

    asyncio.run(asyncio.wait_for(go(), 20))


@each_form
@pytest.mark.parametrize("stream", [False, True])
def test_an_empty_answer_has_no_text(plain: FakeProvider, path: str, stream: bool) -> None:
    response = ask(plain, path, question(path, "[[fake: empty]]", stream=stream))
    assert response.status == 200
    if stream:
        assert not [event for event in response.events if "delta" in str(event.get("type")) and "text" in str(event)]
    else:
        assert answer_text(path, response.json) == ""


@each_form
def test_a_refusal_is_marked_as_by_the_provider(plain: FakeProvider, path: str) -> None:
    body = ask(plain, path, question(path, '[[fake: refusal say="No."]]')).json
    if path == MESSAGES:
        assert (body["stop_reason"], answer_text(path, body)) == ("refusal", "No.")
    elif path == CHAT:
        message = body["choices"][0]["message"]
        assert (message["refusal"], message["content"]) == ("No.", None)
    else:
        assert body["output"][0]["content"] == [{"type": "refusal", "refusal": "No."}]
    assert ask(plain, path, question(path, "[[fake: refusal]]", stream=True)).events


@each_form
def test_an_answer_may_be_truncated_at_the_token_limit(plain: FakeProvider, path: str) -> None:
    body = ask(plain, path, question(path, '[[fake: cut say="half an"]]')).json
    assert answer_text(path, body) == "half an"
    assert ending(path, body) == {MESSAGES: "max_tokens", CHAT: "length", RESPONSES: "incomplete"}[path]


# tools


@each_form
def test_after_a_tool_the_answer_is_the_text_of_its_result(plain: FakeProvider, path: str) -> None:
    prompt = '[[fake: tool=search args={"query": "x]]y", "deep": {"a": [1]}}]] please'
    first = ask(plain, path, question(path, prompt)).json
    name, args, turns = call(path, first)
    assert (name, args) == ("search", {"query": "x]]y", "deep": {"a": [1]}})
    assert ending(path, first) == {MESSAGES: "tool_use", CHAT: "tool_calls", RESPONSES: "completed"}[path]
    second = ask(plain, path, question(path, prompt, *turns)).json
    assert answer_text(path, second) == "RESULT"
    assert ending(path, second) == {MESSAGES: "end_turn", CHAT: "stop", RESPONSES: "completed"}[path]


@each_form
def test_a_prompt_may_script_several_tool_calls_with_errors_in_between(plain: FakeProvider, path: str) -> None:
    prompt = (
        f"{path} [[fake: tool=one times=2]] [[fake: status=529 times=1]] [[fake: tool=two args={{}} then='done it']]"
    )
    turns: list[dict[str, Any]] = []
    outcomes: list[Any] = []
    for _ in range(5):
        response = ask(plain, path, question(path, prompt, *turns))
        if response.status != 200:
            outcomes.append(response.status)
        elif answer_text(path, response.json):
            outcomes.append(answer_text(path, response.json))
        else:
            name, _, more = call(path, response.json)
            outcomes.append(name)
            turns += more
    assert outcomes == ["one", "one", 529, "two", "done it"]


@each_form
def test_each_conversation_goes_through_all_tools_of_a_rule(path: str) -> None:
    steps = [Reply(tool="look", args={"at": "it"}), Reply(tool="mend"), "mended"]
    with FakeProvider.in_thread([Rule("mend", steps)]) as provider:
        for _ in range(2):
            turns: list[dict[str, Any]] = []
            names = []
            for _ in range(2):
                name, _, more = call(path, ask(provider, path, question(path, "mend it", *turns)).json)
                names.append(name)
                turns += more
            assert names == ["look", "mend"]
            assert answer_text(path, ask(provider, path, question(path, "mend it", *turns)).json) == "mended"


@each_form
def test_only_the_last_user_message_counts(plain: FakeProvider, path: str) -> None:
    earlier = [
        {"role": "assistant", "content": "[[fake: status=500]]"},
        {"role": "user", "content": '<system-reminder>[[fake: status=500]]</system-reminder> now [[fake: say="this"]]'},
    ]
    body = question(path, "[[fake: status=500]]", *earlier, {"role": "user", "content": "<environment_context>x"})
    body["messages" if path != RESPONSES else "input"][-1]["content"] += "</environment_context>"
    assert answer_text(path, ask(plain, path, body).json) == "this"


@pytest.mark.parametrize(
    "urge",
    [
        "Your response above was stopped by a safety classifier.",
        "[Your previous response had no visible output. Please continue.]",
        "Output token limit hit. Resume directly, no apology.",
    ],
)
def test_messages_added_by_an_agent_do_not_count_as_user_messages(plain: FakeProvider, urge: str) -> None:
    own = {"role": "user", "content": [{"type": "text", "text": urge}]}
    body = question(MESSAGES, "[[fake: refusal]]", {"role": "assistant", "content": "No."}, own)
    assert ask(plain, MESSAGES, body).json["stop_reason"] == "refusal"


def test_a_response_continues_an_earlier_one_by_id(plain: FakeProvider) -> None:
    first = ask(plain, RESPONSES, {"model": "m", "input": "[[fake: tool=look args={}]]"}).json
    result = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "seen"}
    body = {"model": "m", "previous_response_id": first["id"], "input": [result]}
    assert answer_text(RESPONSES, ask(plain, RESPONSES, body).json) == "seen"
    assert ask(plain, RESPONSES, {**body, "previous_response_id": "resp_nowhere"}).status == 400


def test_a_tool_is_called_in_the_way_it_is_offered(plain: FakeProvider) -> None:
    inner = {"type": "function", "name": "lookup", "parameters": {}}
    tools = [{"type": "custom", "name": "apply_patch"}, {"type": "namespace", "name": "mcp__kv", "tools": [inner]}]
    patch = question(RESPONSES, '[[fake: tool=apply_patch args="*** Begin Patch"]]', tools=tools)
    item = ask(plain, RESPONSES, patch).json["output"][0]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", "*** Begin Patch")
    streamed = ask(plain, RESPONSES, {**patch, "stream": True}).events
    assert "response.custom_tool_call_input.done" in [event["type"] for event in streamed]
    lookup = question(RESPONSES, "[[fake: tool=mcp__kv__lookup args={}]]", {"type": "additional_tools", "tools": tools})
    item = ask(plain, RESPONSES, lookup).json["output"][0]
    assert (item["type"], item["name"], item["namespace"]) == ("function_call", "lookup", "mcp__kv")


# scripts


@each_form
def test_each_request_takes_the_next_reply_of_a_rule_and_the_last_repeats(path: str) -> None:
    rule = Rule(
        r"flaky \d", [Reply(status=429, retry_after=3), Reply(kind="empty"), Reply(status=500, times=2), "fine"]
    )
    with FakeProvider.in_thread([rule, Rule("flaky", ["second rule"])]) as provider:
        response = [ask(provider, path, question(path, f"a flaky {n} one")) for n in range(6)]
        assert [item.status for item in response] == [429, 200, 500, 500, 200, 200]
        assert response[0].headers["retry-after"] == "3"
        assert [answer_text(path, response[at].json) for at in (1, 4, 5)] == ["", "fine", "fine"]
        assert answer_text(path, ask(provider, path, question(path, "flaky")).json) == "second rule"


@each_form
def test_answers_are_found_by_the_longest_part_of_a_prompt(path: str) -> None:
    answers = {"question 1": "one", "question 12": "twelve", "{": '{"a": 1}'}
    with FakeProvider.in_thread(answers=answers) as provider:
        for body, expected in (("question 1", "one"), ("a question 12?", "twelve"), ("a { b", '{"a": 1}')):
            assert answer_text(path, ask(provider, path, question(path, body)).json) == expected


@each_form
def test_a_request_for_json_gets_the_scripted_reply(plain: FakeProvider, path: str) -> None:
    wish = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    body = question(path, '[[fake: say="not JSON"]]', response_format=wish) | {"text": {"format": wish}}
    assert answer_text(path, ask(plain, path, body).json) == "not JSON"


def test_times_are_counted_for_each_model(plain: FakeProvider) -> None:
    text = "of each model [[fake: status=500 times=1]]"
    response = [ask(plain, CHAT, question(CHAT, text, model=model)).status for model in ("a", "b", "a", "b")]
    assert response == [500, 500, 200, 200]


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ("[[fake: statsu=429]]", 'unknown word "statsu" (did you mean "status"?)'),
        ("[[fake: status=200]]", "status must be an error status from 400 to 599, got '200'"),
        ("[[fake: status=429 hang]]", "status and hang cannot be in one reply"),
        ("[[fake: times=often]]", "times must be an integer, got 'often'"),
        ("[[fake: latency=-1]]", "latency must be a number of seconds, got '-1'"),
        ("[[fake: tool=x args={nothing}]]", "invalid JSON"),
        ("[[fake: tool=x args=[1]]]", "args must be a JSON object"),
        ("[[fake: then=x]]", "then needs tool="),
        ("[[fake: hang=1]]", "hang takes no value"),
        ("[[fake: say=x", "directives end with ]]"),
    ],
)
def test_an_invalid_directive_is_explained(plain: FakeProvider, directive: str, message: str) -> None:
    for path in PATHS:
        response = ask(plain, path, question(path, directive))
        assert response.status == 400
        assert message in response.json["error"]["message"]


# settings


@each_form
def test_more_requests_at_once_than_the_capacity_get_a_429(path: str) -> None:
    async def go() -> None:
        async with FakeProvider(capacity=3, retry_after=2) as provider, aiohttp.ClientSession() as session:
            url, hang = provider.url + path, question(path, "[[fake: hang]]")
            hanging = [asyncio.create_task(send(session, url, hang)) for _ in range(3)]
            while len(provider.requests) < 3:  # noqa: ASYNC110 - both ends are in this loop
                await asyncio.sleep(0)
            response = await asyncio.gather(*(send(session, url, question(path, f"{n}")) for n in range(5)))
            assert [(item.status, item.headers["retry-after"]) for item in response] == [(429, "2")] * 5
            hanging.pop().cancel()
            while (await send(session, url, question(path, "later"))).status != 200:
                pass
            for task in hanging:
                task.cancel()

    asyncio.run(asyncio.wait_for(go(), 20))


@pytest.mark.parametrize("latency", [0.05, (0.05, 0.1), {"low": 0.05, "high": 0.1}])
def test_an_answer_takes_the_set_latency_unless_the_prompt_sets_another(latency: Any) -> None:
    with FakeProvider.in_thread(latency=latency) as provider:
        began = time.perf_counter()
        ask(provider, MESSAGES, question(MESSAGES, "hello"))
        assert time.perf_counter() - began >= 0.05
    with FakeProvider.in_thread(latency=3600) as provider:
        assert ask(provider, MESSAGES, question(MESSAGES, "[[fake: latency=0]]")).status == 200
        assert ask(provider, MESSAGES, question(MESSAGES, "[[fake: status=500]]")).status == 500


@each_form
def test_accepted_keys_are_any_listed_or_none(path: str) -> None:
    body = question(path, "hello")
    for keys, answers in (("any", [401, 200, 200]), (["right"], [401, 401, 200]), (None, [200, 200, 200])):
        with FakeProvider.in_thread(keys=keys) as provider:
            response = [ask(provider, path, body, key=key) for key in (None, "wrong", "right")]
            assert [item.status for item in response] == answers
    with FakeProvider.in_thread(keys=["right"]) as provider:
        kind = "authentication_error" if path == MESSAGES else "invalid_request_error"
        assert ask(provider, path, body, key="wrong").json["error"]["type"] == kind


@each_form
def test_announced_rate_limits_are_in_the_headers_and_enforced(path: str) -> None:
    with FakeProvider.in_thread(rate=Rate(requests=2, tokens=10_000, seconds=3600)) as provider:
        response = [ask(provider, path, question(path, "[[fake: input=10 output=100]]")) for _ in range(3)]
    assert [item.status for item in response] == [200, 200, 429]
    limits = [rate_limits(item.headers) for item in response]
    requests = [item.requests for item in limits if item and item.requests]
    assert [(item.limit, item.remaining) for item in requests] == [(2, 1), (2, 0), (2, 0)]
    assert all(3500 < (item.reset_s or 0) <= 3601 for item in requests)
    spent = [item.tokens.remaining for item in limits if item and item.tokens]
    assert 10_000 > spent[0] > spent[1] == spent[2]
    assert 3500 < (retry_after(response[-1].headers) or 0) <= 3600


def test_without_announced_rate_limits_there_are_no_such_headers(plain: FakeProvider) -> None:
    assert rate_limits(ask(plain, MESSAGES, question(MESSAGES, "hello")).headers) is None


def test_requests_are_kept_up_to_a_bound_without_their_keys() -> None:
    with FakeProvider.in_thread(keep=2) as provider:
        for n in range(3):
            ask(provider, CHAT, question(CHAT, f"number {n}"), key="secret")
        ask(provider, MESSAGES + "?beta=true", question(MESSAGES, "last"), key="secret")
        requests = provider.requests
    assert [item.path for item in requests] == [CHAT, MESSAGES]
    assert requests[0].body["messages"][0]["content"] == "number 2"
    assert abs(requests[0].at - time.time()) < 60
    assert "secret" not in repr(requests)
    assert requests[0].headers["authorization"] == requests[1].headers["x-api-key"] == "(hidden)"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacity": 0}, "capacity must be an integer"),
        ({"latency": (2, 1)}, "latency must be seconds"),
        ({"keys": "secret"}, "keys must be"),
        ({"port": 70_000}, "cannot listen on 127.0.0.1:70000"),
    ],
)
def test_nonsensical_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message), FakeProvider.in_thread(**settings):
        pass


def test_a_rule_needs_a_pattern_and_replies() -> None:
    with pytest.raises(BadInput, match="not a valid regular expression"):
        Rule("(", ["yes"])
    with pytest.raises(BadInput, match="a list of replies"):
        Rule("x", "yes")


# the command

COMMAND = [sys.executable, "-m", "abreast.fake"]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_the_command_prints_its_address_and_ends_on_a_signal(tmp_path: Path, end: signal.Signals) -> None:
    script = {
        "answers": {"capital": "Paris"},
        "rules": [{"match": "tool", "replies": [{"tool": "look", "args": {}}, {"status": 429, "retry-after": 1}, "x"]}],
        "rate": {"requests": 60},
        "keys": None,
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    words = ["--port", "0", "--script", "script.json", "--latency", "0", "--capacity", "4"]
    with subprocess.Popen([*COMMAND, *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        variables = dict(word.split("=", 1) for word in line.split() if "=" in word)
        assert variables["OPENAI_BASE_URL"] == variables["ANTHROPIC_BASE_URL"] + "/v1"
        assert variables["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1:")

        async def go() -> Got:
            async with aiohttp.ClientSession() as session:
                url = variables["OPENAI_BASE_URL"] + "/chat/completions"
                return await send(session, url, question(CHAT, "the capital?"), key=None)

        response = asyncio.run(go())
        running.send_signal(end)
        rest, _ = running.communicate(timeout=20)
    assert (answer_text(CHAT, response.json), response.headers["x-ratelimit-remaining-requests"]) == ("Paris", "59")
    assert (running.returncode, rest) == (0, "")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("{", "invalid JSON"),
        ("[]", "a script is an object"),
        ('{"rule": []}', 'unknown key "rule" (did you mean "rules"?)'),
        ('{"rules": [{"match": "x"}]}', "rules[0] must be such as"),
        ('{"rules": [{"match": "(", "replies": ["x"]}]}', "rules[0]: match '(' is not a valid regular expression"),
        ('{"rules": [{"match": "x", "replies": ["x", {"stats": 1}]}]}', 'rules[0].replies[1]: unknown word "stats"'),
        ('{"rules": [{"match": "x", "replies": []}]}', "needs a list of replies"),
        ('{"answers": {"a": 1}}', "answers must map"),
        ('{"latency": "long"}', "latency must be seconds"),
        ('{"rate": {"request": 1}}', 'unknown key "request" (did you mean "requests"?)'),
    ],
)
def test_a_bad_script_gives_one_clear_line(tmp_path: Path, script: str, message: str) -> None:
    (tmp_path / "script.json").write_text(script)
    done = subprocess.run(
        [*COMMAND, "--port", "0", "--script", "script.json"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: script.json: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_script_and_a_port_in_use_give_one_clear_line(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--script", "none.json"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "error: none.json: No such file or directory\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        done = subprocess.run([*COMMAND, "--port", port], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: cannot listen on 127.0.0.1:{port}")
    assert "\nhelp: " in done.stderr

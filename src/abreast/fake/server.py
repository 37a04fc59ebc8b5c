"""The fake provider: a local server with Anthropic's and OpenAI's APIs that calls no model."""

from __future__ import annotations

import asyncio
import json
import math
import random
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web

from abreast.errors import BadInput
from abreast.fake import anthropic, openai
from abreast.fake.anthropic import Messages
from abreast.fake.api_format import (
    CHARACTERS_PER_TOKEN,
    ApiFormat,
    ChatRequest,
    FakeAnswer,
    arguments_text,
    dumps,
    new_id,
)
from abreast.fake.openai import ChatCompletions, Responses
from abreast.fake.rate import Rate, Window
from abreast.fake.script import Reply, Rule, Script

HOST = "127.0.0.1"
MARK = "x-abreast-fake"
HIDDEN = "(hidden)"
NOT_AN_OBJECT = "the body is not a JSON object"
REFUSAL = "I can't help with that."
_SECRETS = ("x-api-key", "authorization", "api-key", "cookie")
_ENDINGS = {"answer": "end", "empty": "end", "refusal": "refusal", "cut": "cut", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that was received. `body` is the parsed JSON, or None if it is invalid; `headers` hide credentials."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    at: float


class FakeProvider:
    """Serves both providers' APIs on 127.0.0.1; rules and directives in the prompts choose the replies.

    `latency` is in seconds, or (low, high) to draw from. While `capacity` requests are running, further ones get a
    429. `keys` are the accepted API keys: "any" accepts every key that is not empty, a list only those in it; None
    requires no key. `keep` is how many of the latest requests stay in `requests`.

    >>> with FakeProvider.in_thread(answers={"capital of France": "Paris"}) as provider:
    ...     provider.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        answers: Mapping[str, str] | None = None,
        *,
        latency: float | tuple[float, float] | Mapping[str, float] = 0.0,
        capacity: int | None = None,
        keys: Collection[str] | None = "any",
        rate: Rate | None = None,
        retry_after: float | None = None,
        port: int = 0,
        keep: int = 1_000,
        seed: int = 0,
    ) -> None:
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise BadInput(f"capacity must be an integer of at least 1, got {capacity!r}")
        is_list = (
            isinstance(keys, Collection) and not isinstance(keys, str) and all(isinstance(key, str) for key in keys)
        )
        if keys not in (None, "any") and (isinstance(keys, str) or not is_list):
            raise BadInput(f'keys must be "any", a list of keys, or None, got {keys!r}')
        self._script = Script(rules, answers)
        self._latency = _bounds(latency)
        self._capacity, self._keys, self._retry_after = capacity, keys, retry_after
        self._window = None if rate is None else Window(rate)
        self._random = random.Random(seed)
        self._port, self._busy = port, 0
        self._requests: deque[RecordedRequest] = deque(maxlen=keep)
        self._models = ["fake-model"]
        self._messages = Messages()
        self._formats: dict[str, ApiFormat] = {
            "/messages": self._messages,
            "/chat/completions": ChatCompletions(),
            "/responses": Responses(),
        }
        self._closing = asyncio.Event()
        self._runner: web.ServerRunner | None = None

    async def __aenter__(self) -> Self:
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST, self._port, backlog=2_048).start()
        except (OSError, OverflowError) as error:
            await self._runner.cleanup()
            raise BadInput(f"cannot listen on {HOST}:{self._port}: {error}", "use another port, or 0") from None
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    @classmethod
    @contextmanager
    def in_thread(cls, *args: Any, **settings: Any) -> Iterator[Self]:
        """Serve from a thread with its own event loop, for synchronous code."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="fake provider", daemon=True)
        thread.start()
        try:
            provider = cls(*args, **settings)
            asyncio.run_coroutine_threadsafe(provider.__aenter__(), loop).result()
            try:
                yield provider
            finally:
                asyncio.run_coroutine_threadsafe(provider.__aexit__(), loop).result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    @property
    def url(self) -> str:
        """The base URL; OpenAI clients need `/v1` after it."""
        return f"http://{HOST}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that make clients use this server."""
        return {"ANTHROPIC_BASE_URL": self.url, "OPENAI_BASE_URL": f"{self.url}/v1"}

    @property
    def requests(self) -> list[RecordedRequest]:
        """The latest requests, oldest first."""
        return list(self._requests.copy())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.content.read()
        key = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        try:
            body = json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            body = None
        lowered = {name.lower(): value for name, value in request.headers.items()}
        headers = {name: HIDDEN if name in _SECRETS else value for name, value in lowered.items()}
        path = request.path.rstrip("/")
        self._requests.append(RecordedRequest(request.method, path, headers, body, time.time()))
        api = self._api_format(path) if request.method == "POST" else None
        provider = api.provider if api else _provider_of(path, headers)
        if request.method == "HEAD" or (request.method == "GET" and not path):
            return _json(200, {"fake": True}, provider)
        if self._keys is not None and not (key if self._keys == "any" else key in self._keys):
            return self._error(provider, 401)
        if api is None:
            return self._serve_other(request.method, path, body, provider)
        return await self._ask(request, api, body)

    def _api_format(self, path: str) -> ApiFormat | None:
        """Return the format for the end of a path, to which a base address may add a prefix."""
        if path.endswith("/completions"):
            return self._formats["/chat/completions"] if path.endswith("/chat/completions") else None
        return self._formats.get(path[path.rfind("/") :])

    def _serve_other(self, method: str, path: str, body: Any, provider: str) -> web.Response:
        """Count tokens or list models."""
        if method == "POST" and path.endswith("/messages/count_tokens"):
            problem = self._messages.problem(body) if isinstance(body, dict) else NOT_AN_OBJECT
            if problem:
                return self._error(provider, 400, problem)
            return _json(200, {"input_tokens": self._messages.read(body).tokens}, provider)
        if method == "GET" and path.endswith("/models"):
            listed = [_model(model, provider) for model in self._models]
            ends = {"has_more": False, "first_id": self._models[0], "last_id": self._models[-1]}
            return _json(200, {"object": "list", "data": listed, **(ends if provider == "anthropic" else {})}, provider)
        if method == "GET" and "/models/" in path:
            return _json(200, _model(path.partition("/models/")[2], provider), provider)
        return self._error(provider, 404, f"{method} {path} is not supported by the fake provider")

    async def _ask(self, request: web.BaseRequest, api: ApiFormat, body: Any) -> web.StreamResponse:
        problem = api.problem(body) if isinstance(body, dict) else NOT_AN_OBJECT
        if problem is None and api is self._messages:
            problem = self._messages.max_tokens_problem(body)
        if problem is not None:
            return self._error(api.provider, 400, problem)
        model = body["model"]
        if model not in self._models and len(self._models) < 100:
            self._models.append(model)
        chat = api.read(body)
        wait_s = None if self._window is None else self._window.take(chat.tokens)
        if wait_s is not None:
            return self._error(api.provider, 429, retry_after=math.ceil(wait_s))
        if self._capacity is not None and self._busy >= self._capacity:
            return self._error(api.provider, 429, retry_after=self._retry_after)
        self._busy += 1
        try:
            return await self._reply(request, api, body, chat)
        finally:
            self._busy -= 1

    async def _reply(
        self, request: web.BaseRequest, api: ApiFormat, body: dict[str, Any], chat: ChatRequest
    ) -> web.StreamResponse:
        try:
            reply = self._script.choose(chat, body["model"])
        except BadInput as error:
            return self._error(api.provider, 400, error.message)
        seconds = self._latency_of(reply)
        if seconds:
            await asyncio.sleep(seconds)
        if reply.kind == "hang":
            await self._closing.wait()
        if reply.kind in ("hang", "drop"):
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        if reply.kind == "error":
            return self._error(api.provider, reply.status, reply.say, reply.retry_after)
        if reply.kind == "too-long":
            message = (anthropic if api.provider == "anthropic" else openai).too_long(chat.tokens)
            return self._error(api.provider, 400, reply.say or message, code="context_length_exceeded")
        answer = _answer(reply, chat)
        if self._window is not None:
            self._window.spend(answer.output)
        headers = self._headers(api.provider)
        if not body.get("stream"):
            return _json(200, api.response(body, answer), api.provider, headers)
        return await _stream(request, api.events(body, answer), headers)

    def _latency_of(self, reply: Reply) -> float:
        """Return the latency of the reply: its own, else the provider's for answers, and zero for anything else."""
        if reply.latency is not None:
            return reply.latency
        low, high = self._latency
        if reply.kind not in _ENDINGS:
            return 0.0
        return low if low == high else self._random.uniform(low, high)

    def _error(
        self,
        provider: str,
        status: int,
        message: str | None = None,
        retry_after: float | None = None,
        code: str | None = None,
    ) -> web.Response:
        headers = self._headers(provider)
        if retry_after is not None:
            headers["retry-after"] = str(int(retry_after) if retry_after == int(retry_after) else retry_after)
        if provider == "anthropic":
            return _json(status, anthropic.error_body(status, message, headers["request-id"]), provider, headers)
        return _json(status, openai.error_body(status, message, code), provider, headers)

    def _headers(self, provider: str) -> dict[str, str]:
        headers = _common_headers(provider)
        if self._window is not None:
            headers.update(self._window.headers(provider))
        return headers


def _common_headers(provider: str) -> dict[str, str]:
    """Headers of every response: ids as the provider sends them, and the mark of the fake."""
    if provider == "anthropic":
        return {"request-id": new_id("req_"), "anthropic-organization-id": "fake", MARK: "1"}
    return {"x-request-id": new_id("req_"), "openai-version": "2020-10-01", "openai-organization": "fake", MARK: "1"}


def _json(status: int, value: Any, provider: str, headers: dict[str, str] | None = None) -> web.Response:
    body = dumps(value).encode("utf-8", "replace")
    headers = {**(headers or _common_headers(provider)), "content-type": "application/json"}
    return web.Response(status=status, body=body, headers=headers)


async def _stream(request: web.BaseRequest, events: Iterable[bytes], headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={**headers, "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    )
    await response.prepare(request)
    for event in events:
        await response.write(event)
    await response.write_eof()
    return response


def _answer(reply: Reply, chat: ChatRequest) -> FakeAnswer:
    """Build the answer of a reply. Token counts that it does not set are estimated."""
    text = "" if reply.kind == "empty" else reply.say or ""
    size = len(text) + (len(reply.tool) + len(arguments_text(reply.args)) if reply.tool else 0)
    return FakeAnswer(
        text=text or (REFUSAL if reply.kind == "refusal" else ""),
        ending=_ENDINGS[reply.kind],
        tool=reply.tool,
        args=reply.args if reply.tool else None,
        input=chat.tokens if reply.input is None else reply.input,
        output=max(1, size // CHARACTERS_PER_TOKEN) if reply.output is None else reply.output,
        cached=reply.cached or 0,
        cache_write=reply.cache_write or 0,
        reasoning=reply.reasoning or 0,
    )


def _provider_of(path: str, headers: Mapping[str, str]) -> str:
    """Guess the provider of a request whose path matches no API."""
    is_anthropic = "/messages" in path or "anthropic-version" in headers or "x-api-key" in headers
    return "anthropic" if is_anthropic else "openai"


def _model(model: str, provider: str) -> dict[str, Any]:
    if provider == "anthropic":
        return {"type": "model", "id": model, "display_name": model, "created_at": "2025-01-01T00:00:00Z"}
    return {"id": model, "object": "model", "created": 1_735_689_600, "owned_by": "abreast-fake"}


def _bounds(latency: Any) -> tuple[float, float]:
    """Parse the bounds of a latency in seconds.

    >>> _bounds(0.05), _bounds({"low": 0, "high": 1})
    ((0.05, 0.05), (0.0, 1.0))
    """
    is_named = isinstance(latency, Mapping) and set(latency) == {"low", "high"}
    ends = (latency["low"], latency["high"]) if is_named else latency
    pair = tuple(ends) if isinstance(ends, tuple | list) else (ends, ends)
    numbers = [number for number in pair if isinstance(number, int | float) and not isinstance(number, bool)]
    if len(pair) != 2 or len(numbers) != 2 or not 0 <= numbers[0] <= numbers[1] < math.inf:
        raise BadInput(f"latency must be seconds, or low and high in ascending order, got {latency!r}")
    return float(numbers[0]), float(numbers[1])

"""The fake provider: a server on this machine that looks like Anthropic's and OpenAI's, and calls no model."""

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
_SECRETS = ("x-api-key", "authorization", "api-key", "cookie")
_ENDINGS = {"answer": "end", "empty": "end", "refusal": "refusal", "cut": "cut", "tool": "tool"}


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request as it came. `body` is what its JSON says, None if it is none; keys are not in `headers`."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    at: float


class FakeProvider:
    """Answers on 127.0.0.1 in the manner of both providers, as its script and the prompts themselves say.

    `latency` is seconds, or (low, high) to draw from. With a `capacity`, more requests at once get a 429. `keys` are
    those accepted: "any" that is not empty, the ones listed, or None if none is needed. `keep` is how many of the
    latest requests stay in `requests`.

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
            raise BadInput(f"capacity must be a whole number of at least 1, got {capacity!r}")
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
        self._seen: deque[RecordedRequest] = deque(maxlen=keep)
        self._models = ["fake-model"]
        self._messages = Messages()
        self._forms: dict[str, ApiFormat] = {
            "/messages": self._messages,
            "/chat/completions": ChatCompletions(),
            "/responses": Responses(),
        }
        self._closing = asyncio.Event()
        self._runner: web.ServerRunner | None = None

    # its life

    async def __aenter__(self) -> Self:
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST, self._port, backlog=2_048).start()
        except (OSError, OverflowError) as error:
            await self._runner.cleanup()
            raise BadInput(f"port {self._port} of {HOST} cannot be used: {error}", "Use another, or 0.") from None
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        if self._runner is not None:
            await self._runner.cleanup()

    @classmethod
    @contextmanager
    def in_thread(cls, *args: Any, **settings: Any) -> Iterator[Self]:
        """The same for code that is not async: it serves from a thread with a loop of its own."""
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
        """Where it is; OpenAI's clients want `/v1` after it."""
        return f"http://{HOST}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead clients here."""
        return {"ANTHROPIC_BASE_URL": self.url, "OPENAI_BASE_URL": f"{self.url}/v1"}

    @property
    def requests(self) -> list[RecordedRequest]:
        """The latest requests, oldest first."""
        return list(self._seen.copy())

    # one request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.content.read()
        given = request.headers
        key = given.get("x-api-key") or given.get("authorization", "").removeprefix("Bearer ")
        try:
            body = json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            body = None
        headers = {each.lower(): value for each, value in given.items()}
        for secret in _SECRETS:
            if secret in headers:
                headers[secret] = HIDDEN
        path = request.path.rstrip("/")
        self._seen.append(RecordedRequest(request.method, path, headers, body, time.time()))
        form = self._form(path) if request.method == "POST" else None
        manner = form.provider if form else _manner(path, headers)
        if request.method == "HEAD" or (request.method == "GET" and not path):
            return _json(200, {"fake": True}, manner)
        if not self._admits(key):
            return self._error(manner, 401)
        if form is None:
            return self._other(request.method, path, body, manner)
        return await self._ask(request, form, body)

    def _form(self, path: str) -> ApiFormat | None:
        """By the end of the path: before it may stand whatever a base address has."""
        if path.endswith("/completions"):
            return self._forms["/chat/completions"] if path.endswith("/chat/completions") else None
        return self._forms.get(path[path.rfind("/") :])

    def _admits(self, key: str) -> bool:
        return self._keys is None or (bool(key) if self._keys == "any" else key in self._keys)

    def _other(self, method: str, path: str, body: Any, manner: str) -> web.Response:
        """What is no question to a model: the count of tokens and the list of models."""
        if method == "POST" and path.endswith("/messages/count_tokens"):
            wrong = self._messages.problem(body) if isinstance(body, dict) else "the body is no JSON object"
            if wrong:
                return self._error(manner, 400, wrong)
            return _json(200, {"input_tokens": self._messages.read(body).tokens}, manner)
        if method == "GET" and path.endswith("/models"):
            listed = [_model(model, manner) for model in self._models]
            ends = {"has_more": False, "first_id": self._models[0], "last_id": self._models[-1]}
            return _json(200, {"object": "list", "data": listed, **(ends if manner == "anthropic" else {})}, manner)
        if method == "GET" and "/models/" in path:
            return _json(200, _model(path.partition("/models/")[2], manner), manner)
        return self._error(manner, 404, f"{method} {path} is not known to the fake provider")

    async def _ask(self, request: web.BaseRequest, form: ApiFormat, body: Any) -> web.StreamResponse:
        wrong = form.problem(body) if isinstance(body, dict) else "the body is no JSON object"
        if wrong is None and form is self._messages:
            wrong = self._messages.lacks_limit(body)
        if wrong is not None:
            return self._error(form.provider, 400, wrong)
        model = body["model"]
        if model not in self._models and len(self._models) < 100:
            self._models.append(model)
        asked = form.read(body)
        left = None if self._window is None else self._window.take(asked.tokens)
        if left is not None:
            return self._error(form.provider, 429, retry_after=math.ceil(left))
        if self._capacity is not None and self._busy >= self._capacity:
            return self._error(form.provider, 429, retry_after=self._retry_after)
        self._busy += 1
        try:
            return await self._reply(request, form, body, asked)
        finally:
            self._busy -= 1

    async def _reply(
        self, request: web.BaseRequest, form: ApiFormat, body: dict[str, Any], asked: ChatRequest
    ) -> web.StreamResponse:
        try:
            step = self._script.choose(asked, body["model"])
        except BadInput as error:
            return self._error(form.provider, 400, error.message)
        seconds = self._wait_of(step)
        if seconds:
            await asyncio.sleep(seconds)
        if step.kind == "hang":
            await self._closing.wait()
        if step.kind in ("hang", "drop"):
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        if step.kind == "error":
            return self._error(form.provider, step.status, step.say, step.retry_after)
        if step.kind == "too-long":
            message = (anthropic if form.provider == "anthropic" else openai).too_long(asked.tokens)
            return self._error(form.provider, 400, step.say or message, code="context_length_exceeded")
        made = _made(step, asked)
        if self._window is not None:
            self._window.spend(made.output)
        headers = self._headers(form.provider)
        if not body.get("stream"):
            return _json(200, form.response(body, made), form.provider, headers)
        return await _stream(request, form.events(body, made), headers)

    def _wait_of(self, step: Reply) -> float:
        """Its own latency; else the provider's, if it answers."""
        if step.latency is not None:
            return step.latency
        low, high = self._latency
        if step.kind not in _ENDINGS:
            return 0.0
        return low if low == high else self._random.uniform(low, high)

    def _error(
        self,
        manner: str,
        status: int,
        message: str | None = None,
        retry_after: float | None = None,
        code: str | None = None,
    ) -> web.Response:
        headers = self._headers(manner)
        if retry_after is not None:
            headers["retry-after"] = str(int(retry_after) if retry_after == int(retry_after) else retry_after)
        if manner == "anthropic":
            return _json(status, anthropic.error(status, message, headers["request-id"]), manner, headers)
        return _json(status, openai.error(status, message, code), manner, headers)

    def _headers(self, manner: str) -> dict[str, str]:
        headers = _marked(manner)
        if self._window is not None:
            headers.update(self._window.headers(manner))
        return headers


def _marked(manner: str) -> dict[str, str]:
    """The headers of every response: an id in the provider's manner, and that it is a fake."""
    if manner == "anthropic":
        return {"request-id": new_id("req_"), "anthropic-organization-id": "fake", MARK: "1"}
    return {"x-request-id": new_id("req_"), "openai-version": "2020-10-01", "openai-organization": "fake", MARK: "1"}


def _json(status: int, value: Any, manner: str, headers: dict[str, str] | None = None) -> web.Response:
    body = dumps(value).encode("utf-8", "replace")
    told = _marked(manner) if headers is None else headers
    told["content-type"] = "application/json"
    return web.Response(status=status, body=body, headers=told)


async def _stream(request: web.BaseRequest, events: Iterable[bytes], headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={**headers, "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
    )
    await response.prepare(request)
    for each in events:
        await response.write(each)
    await response.write_eof()
    return response


def _made(step: Reply, asked: ChatRequest) -> FakeAnswer:
    """The answer that a step asks for, with the tokens it names and a guess at the others."""
    text = "" if step.kind == "empty" else step.say or ""
    said = len(text) + (len(step.tool) + len(arguments_text(step.args)) if step.tool else 0)
    return FakeAnswer(
        text=text,
        ending=_ENDINGS[step.kind],
        tool=step.tool,
        args=step.args if step.tool else None,
        input=asked.tokens if step.input is None else step.input,
        output=max(1, said // CHARACTERS_PER_TOKEN) if step.output is None else step.output,
        cached=step.cached or 0,
        cache_write=step.cache_write or 0,
        reasoning=step.reasoning or 0,
    )


def _manner(path: str, headers: Mapping[str, str]) -> str:
    """Whose client this is, where the path does not say it."""
    is_anthropic = "/messages" in path or "anthropic-version" in headers or "x-api-key" in headers
    return "anthropic" if is_anthropic else "openai"


def _model(model: str, manner: str) -> dict[str, Any]:
    if manner == "anthropic":
        return {"type": "model", "id": model, "display_name": model, "created_at": "2025-01-01T00:00:00Z"}
    return {"id": model, "object": "model", "created": 1_735_689_600, "owned_by": "abreast-fake"}


def _bounds(latency: Any) -> tuple[float, float]:
    """The least and the most seconds of a latency.

    >>> _bounds(0.05), _bounds({"low": 0, "high": 1})
    ((0.05, 0.05), (0.0, 1.0))
    """
    is_named = isinstance(latency, Mapping) and set(latency) == {"low", "high"}
    ends = (latency["low"], latency["high"]) if is_named else latency
    pair = tuple(ends) if isinstance(ends, tuple | list) else (ends, ends)
    numbers = [each for each in pair if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(pair) != 2 or len(numbers) != 2 or not 0 <= numbers[0] <= numbers[1] < math.inf:
        raise BadInput(f"latency must be seconds, or low and high in ascending order, got {latency!r}")
    return float(numbers[0]), float(numbers[1])

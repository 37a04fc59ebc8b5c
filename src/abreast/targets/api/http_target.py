"""Base of the targets that call model APIs: sending requests, reading answers and errors."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import importlib
import json
import mimetypes
import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from abreast import errors
from abreast.digest import compose, digest
from abreast.errors import BadInput, TrialError
from abreast.model import Answer, CostBasis, Request, Trial, Usage
from abreast.rate_headers import rate_limits
from abreast.redaction import excerpt, is_secret_setting, url_secrets
from abreast.settings import (
    Settings,
    is_count,
    is_encodable,
    is_flag,
    is_json,
    is_mapping_of_texts,
    is_number,
    is_text,
    is_texts,
)
from abreast.sizes import ANSWER_SIZE, EXCERPT, megabytes
from abreast.targets.api.http_client import HttpClient, HttpResponse, Sizes, make_client
from abreast.targets.api.keys import Key, command_of
from abreast.targets.api.prices import Prices, as_of
from abreast.targets.base import Problem, Target, Workers
from abreast.targets.mcp.declaration import Variables, is_literal
from abreast.targets.request import Renderer, Template, digest_of_params, seen_by
from abreast.targets.untrusted_json import dollars, parsed, storable
from abreast.text import parse_json

if TYPE_CHECKING:
    from yarl import URL

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
LONGEST_MESSAGE = 500  # characters of an error's body that are shown
ERROR_SIZE = 1_000_000  # bytes of an error's body that are read
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
UNKEYED_PARAMS = ("key_env", "key_command")  # parameters that do not change answers
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """A response of a model, parsed from the format of its API."""

    text: str
    usage: Usage
    model: str | None
    finish_reason: str | None
    refusal: str | None = None  # why the model declined
    cost_usd: float | None = None  # if the provider reports it


@dataclass(frozen=True, slots=True)
class Image:
    """An image to send: an address, or its content in base64."""

    url: str | None
    media_type: str = ""
    content: str = ""


class ApiTarget(Target):
    """A model behind HTTP. Subclasses build requests and parse responses."""

    variables: tuple[str, ...]  # environment variables that may hold the key
    address: str  # the default
    address_variable: str
    is_service = True

    def __init__(self, where: str, params: Mapping[str, Any], shared: dict[str, Any]) -> None:
        settings = Settings(where, params)
        settings.noun = "parameter"
        self._where, self._base = where, Path(shared.get("base", "."))
        self.model: str = settings.take("model", None, is_text, "the name of a model, as text")
        if self.model is None:
            raise BadInput(f"{where}: no model", f"set model: to a model of {self.name}")
        self.base_url, self._login = self._take_address(settings)
        self.endpoint = self.base_url
        self._system = settings.take("system", None, is_text, "text")
        self.sent_with_each = len(self._system or "")
        self._temperature = settings.take(
            "temperature", None, lambda value: is_number(value) and 0 <= value <= 2, "a number from 0 to 2"
        )
        self._max_tokens = settings.take("max_tokens", None, is_count, "an integer of at least 1")
        self._json = settings.take(
            "json", None, lambda value: is_flag(value) or _is_fields(value), "true, or a JSON Schema as a mapping"
        )
        expects = "a mapping of JSON values (dates as text)"
        self._extra: Mapping[str, Any] = settings.take("extra", {}, _is_fields, expects)
        images = settings.take("images", [], is_texts, "a list of templates such as ['{{ picture }}']")
        self._images = [Template(where, "images", text) for text in images]
        self._key = self._take_key(settings)
        self._headers = {**self._take_headers(settings), "content-type": "application/json"}
        self._headers_by_key: dict[str | None, Mapping[str, str]] = {}
        self._read_own_parameters(settings)
        self._renderer = Renderer(where, {key: settings.remaining.pop(key, None) for key in ("prompt", "transform")})
        settings.names += ["prompt", "transform"]
        settings.done()
        self.transforms, self.quick = self._renderer.transforms, self._renderer.quick
        self.sees = "case" if seen_by(*images) == "case" else self._renderer.sees
        self.keyed_params = {key: value for key, value in params.items() if key not in UNKEYED_PARAMS}
        self._prices = Prices(shared.get("prices"))
        self._price = self._prices.of(self.model)
        self._shared = shared
        self._answer_size: int = shared.get("answer_size", ANSWER_SIZE)
        self.simulated = is_fake(self.base_url)
        self.version = compose(
            self.name,
            self.base_url,
            digest_of_params(self.keyed_params),
            self._renderer.version,
            digest([_image_versions(text, self._base) for text in images]),
            str(self.revision),
        )
        self.account = f"{self.name}:{self._key.fingerprint()}"
        self.pool = f"{self.base_url}:{self.model}"
        importlib.import_module("yarl")  # now, so that it does not add to the latency of the first answer

    # -- of subclasses ---------------------------------------------------------------------------------------------

    _fixed_headers: Mapping[str, str] = {}
    revision = 1  # increase it when requests change, so that earlier answers are not reused

    def _read_own_parameters(self, settings: Settings) -> None:
        """Read the parameters that only this API has."""

    @property
    @abstractmethod
    def _url(self) -> str: ...

    @abstractmethod
    def _key_headers(self, key: str) -> dict[str, str]: ...

    @abstractmethod
    def _body(self, prompt: str, images: list[Image]) -> dict[str, Any]: ...

    @abstractmethod
    def _parse_output(self, body: Mapping[str, Any]) -> ModelOutput: ...

    # -- of `Target` -----------------------------------------------------------------------------------------------

    def request(self, trial: Trial) -> Request:
        return self._renderer.request(trial)

    def costs(self, input_tokens: float, output_tokens: float) -> float | None:
        """Return the cost of one request; None without a price, or with images, whose tokens are unknown beforehand."""
        if self._price is None or self._images:
            return None
        return self._price.of(Usage(round(input_tokens), round(output_tokens)))

    def problems(self) -> list[Problem]:
        missing = self._key.missing()
        problems = [Problem(f"{self.name}: {missing}", self._key.fix)] if missing else []
        try:
            self._expanded_headers()
        except BadInput as error:
            problems.append(Problem(error.message, error.fix))
        return problems

    def notes(self) -> list[str]:
        if self._price is not None or self.simulated:
            return []
        return [f'no price for "{self.model}" (table of {as_of()}), so its cost is unknown; set `prices:`']

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        key = self._key.value() if self._key.is_ready else await workers.in_thread(self._key.value)
        images: list[Image] = await workers.in_thread(self._load_images, trial, request) if self._images else []
        content = _ENCODER.encode(self._body(request.prompt, images)).encode("utf-8", "replace")
        response = await self._send(content, self._headers_with(key))
        status, headers, text = response.status, response.headers, response.body.decode("utf-8", "replace")
        if 300 <= status < 400:
            location = excerpt(headers.get("location") or "another address", LONGEST_MESSAGE)
            message = f"{self.name}: {status}: {self.base_url} redirects to {location}"
            raise errors.Rejected(message, fix="set base_url: to the final address")
        if status >= 400:
            raise await self._http_error(status, headers, text, key, workers)
        return self._answer(text, headers)

    async def close(self) -> None:
        client = self._shared.pop("http", None)
        if client is not None:
            await client.close()

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _send(self, content: bytes, headers: Mapping[str, str]) -> HttpResponse:
        client: HttpClient | None = self._shared.get("http")
        if client is None:
            client = self._shared["http"] = make_client()
        try:
            response = await client.post(self._request_url, headers, content, Sizes(self._answer_size, ERROR_SIZE))
        except (OSError, ValueError) as error:
            kind = errors.Rejected if isinstance(error, ValueError) else errors.Transient
            message = f"{self.name}: {type(error).__name__}: {error}".removesuffix(": ")
            raise kind(message, fix=self._check_server) from error
        if response.status < 300 and not response.is_complete:
            raise self._too_big(response.body)
        return response

    def _too_big(self, body: bytes) -> TrialError:
        """Return the error of a response whose end was not read; `body` is its beginning."""
        most = self._answer_size
        head = excerpt(body[: 2 * EXCERPT].decode("utf-8", "replace"), min(most, EXCERPT))
        answer = Answer("", model=self.model, raw_response=f"{head}\n… the rest was not read …")
        return errors.TooBig.of(f"{self.name}: the response has more than {megabytes(most)}", most, answer)

    @cached_property
    def _request_url(self) -> URL:
        from yarl import URL

        return URL(f"{self._url}?{self._query}" if self._query else self._url)

    def _headers_with(self, key: str | None) -> Mapping[str, str]:
        """Return the headers of a request, made once for a key: the HTTP client caches their encoding."""
        if key not in self._headers_by_key:
            try:
                expanded = self._expanded_headers()
            except BadInput as error:
                raise errors.Unauthenticated(error.message, fix=error.fix) from None
            headers = {**expanded, **self._fixed_headers, **(self._key_headers(key) if key else {}), **self._login}
            self._headers_by_key = {key: headers}
        return self._headers_by_key[key]

    def _expanded_headers(self) -> dict[str, str]:
        """Return the variant's own headers with environment variables expanded; they are never stored."""
        variables, where = Variables(os.environ), f"{self._where}: headers"
        headers = {name: variables.fill(where, value) for name, value in self._headers.items()}
        for name, value in headers.items():
            if not _is_header_value(value):
                message = f"{where}: {name} would contain characters that headers cannot have"
                raise BadInput(message, f"set the variable in {self._headers[name]} to another value")
        return headers

    @property
    def _check_server(self) -> str:
        return f"check the address {self.base_url} and that the server is up"

    def _answer(self, text: str, headers: Mapping[str, str]) -> Answer:
        failure = None
        try:
            body = parse_json(text)
            failure = self._failure(body, headers)
            output = self._parse_output(body)
            answer_text = storable(output.text)
            if answer_text is None:
                raise TypeError(f"{type(output.text).__name__} instead of text")
        except _UNREADABLE as error:
            reason = excerpt(f"{type(error).__name__}: {error}", LONGEST_MESSAGE)
            message = f"{self.name}: unreadable answer ({reason}): {excerpt(text, 200)}"
            raise failure or errors.Transient(message, fix=self._check_server) from error
        cost, basis = self._cost(output)
        answer = Answer(
            answer_text,
            data={"finish_reason": output.finish_reason, "request_id": _request_id(headers, body)},
            usage=output.usage,
            cost_usd=cost,
            cost_basis=basis,
            model=output.model or self.model,
            raw_response=text,
            rate=rate_limits(headers),
        )
        if failure is not None and (body.get("status") == "failed" or not answer_text.strip()):
            failure.answer = answer
            raise failure
        if output.refusal is not None:
            raise errors.Refused(output.refusal or "the model declined to answer", answer=answer)
        if not answer_text.strip():
            raise errors.NoAnswer(f"an empty answer (finish reason {output.finish_reason})", answer=answer)
        return answer

    def _cost(self, output: ModelOutput) -> tuple[float | None, CostBasis]:
        if output.cost_usd is not None:
            return output.cost_usd, "reported"
        price = self._price if output.model in (None, self.model) else self._prices.of(output.model, self.model)
        cost = None if price is None else dollars(price.of(output.usage))
        return cost, "unknown" if cost is None else "estimated"

    # -- errors ----------------------------------------------------------------------------------------------------

    async def _http_error(
        self, status: int, headers: Mapping[str, str], text: str, key: str | None, workers: Workers
    ) -> TrialError:
        kind, reason = _parse_error(text)
        message = excerpt(f"{self.name}: {status} {reason}", LONGEST_MESSAGE)
        if status in (401, 403) and self._key.command and await workers.in_thread(self._key.renew, key):
            return errors.Transient(f"{message} (the key has been renewed)")
        return http_error(status, f"{kind} {reason}", message, headers, self._key.fix)

    def _failure(self, body: Any, headers: Mapping[str, str]) -> TrialError | None:
        """Return the error in a response whose status means success, if any."""
        error = body.get("error")
        if not error and body.get("status") != "failed":
            return None
        kind, reason = _kind_and_message(error or {})
        text = f"{kind} {reason}".strip()
        message = excerpt(f"{self.name}: {text}", LONGEST_MESSAGE)
        return http_error(_status_of(error, text.lower()), text, message, headers, self._key.fix)

    # -- parameters ------------------------------------------------------------------------------------------------

    def _take_address(self, settings: Settings) -> tuple[str, dict[str, str]]:
        """Return the address of the API, and a header for the user and password that it may have in the environment."""
        expects = "an address such as http://127.0.0.1:8000/v1"
        literal = settings.values.get("base_url")
        if isinstance(literal, str) and (re.match("[^/]*//[^/?#]*@", literal) or any(url_secrets(literal))):
            raise BadInput(  # before a message could show its value
                f"{settings.where}: base_url would store a password",
                f"set the full address in the environment instead: export {self.address_variable}=...",
            )
        address = settings.take("base_url", None, _is_address, expects)
        if not address and (address := os.environ.get(self.address_variable)) and not _is_address(address):
            message = f"{settings.where}: {self.address_variable} in the environment must be {expects}"
            raise BadInput(message, f"correct it, or run `unset {self.address_variable}`")
        parts = urlsplit(address or self.address)
        login, _, host = parts.netloc.rpartition("@")
        self._query = parts.query
        base_url = urlunsplit(parts._replace(netloc=host, query="")).rstrip("/")
        if not login:
            return base_url, {}
        name, _, password = map(unquote, login.partition(":"))
        credentials = base64.b64encode(f"{name}:{password}".encode()).decode()
        return base_url, {"authorization": f"Basic {credentials}"}

    def _take_key(self, settings: Settings) -> Key:
        name = settings.take("key_env", None, _is_variable, "the name of an environment variable")
        command = settings.take("key_command", None, _is_command, "a command, as text or a list of words")
        is_local = urlsplit(self.base_url).hostname in LOOPBACK
        optional = (is_local or bool(self._login)) and not name
        return Key((name,) if name else self.variables, command_of(command) if command else (), optional)

    def _take_headers(self, settings: Settings) -> dict[str, str]:
        headers = settings.take("headers", {}, is_mapping_of_texts, "a mapping of texts")
        for name, value in headers.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not _is_header_value(value):
                message = f"{settings.where}: headers: {name!r} contains characters that headers cannot have"
                raise BadInput(message, "write it on one line, without spaces in its name")
            if is_secret_setting(name, value) and is_literal(value):
                variable = re.sub(r"\W", "_", name).upper()
                raise BadInput(
                    f"{settings.where}: headers: {name} would store a secret",
                    f"write ${{{variable}}} and set {variable} in the environment; for the key itself: key_env: MY_KEY",
                )
        return {str(name).lower(): value for name, value in headers.items()}

    def _load_images(self, trial: Trial, request: Request) -> list[Image]:
        return [self._load_image(template.render(trial.case, request.input)) for template in self._images]

    def _load_image(self, source: str) -> Image:
        if source.startswith(("https://", "http://")):
            return Image(source)
        if source.startswith("data:"):
            media_type, _, content = source[5:].partition(";base64,")
            return Image(None, media_type, content)
        path = self._base / source
        media_type = mimetypes.guess_type(path.name)[0] or ""
        if media_type not in IMAGE_TYPES:
            raise errors.Crashed(f"images: {source} is not a supported image ({', '.join(IMAGE_TYPES)})")
        try:
            return Image(None, media_type, base64.b64encode(path.read_bytes()).decode())
        except OSError as error:
            raise errors.Crashed(f"images: {source} cannot be read ({error.strerror})") from None


def http_error(status: int, text: str, message: str, headers: Mapping[str, str], fix: str = "") -> TrialError:
    """Return the error for a status and the text of its body, the same for every provider."""
    text = text.lower()
    if status == 413 or any(words in text for words in _TOO_LONG):
        return errors.TooLong(message)
    if any(words in text for words in ("content_filter", "content management policy", "content_policy_violation")):
        return errors.Refused(message)
    if "insufficient_quota" in text or "credit balance" in text or status == 402:
        return errors.Unauthenticated(message, fix="add credit, or use another key")
    if status in (429, 529):
        return errors.RateLimited(message, headers=headers)
    if status >= 500 or status in (408, 409, 425):
        return errors.Transient(message, headers=headers)
    if status in (401, 403):
        return errors.Unauthenticated(message, fix=fix)
    return errors.Rejected(message, fix="fix the variant: the provider does not accept this request")


_TOO_LONG = (
    "prompt is too long",
    "context_length_exceeded",
    "maximum context length",
    "request_too_large",
    "string_above_max_length",
    "exceeds the context window",
    "exceed context limit",
    "input length and max_tokens",
)
_STATUS_BY_KIND = (
    (429, r"rate_?limit|too_many_requests|insufficient_quota"),
    (529, r"overloaded"),
    (401, r"authentication|invalid_api_key|permission"),
    (400, r"invalid_(request|prompt|image|base64)|(^|\s)image_|unsupported|not_found|empty_image"),
)


def _status_of(error: Any, text: str) -> int:
    """Return the HTTP status for an error that came without one.

    >>> _status_of({"code": 429}, ""), _status_of({}, "rate_limit_exceeded slow down"), _status_of({}, "server_error")
    (429, 429, 500)
    """
    code = error.get("code") if isinstance(error, Mapping) else None
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return next((status for status, words in _STATUS_BY_KIND if re.search(words, text)), 500)


def _parse_error(text: str) -> tuple[str, str]:
    """Kind and message of an error's body, which may be anything.

    >>> _parse_error('{"error": {"type": "overloaded_error", "message": "Overloaded"}}')
    ('overloaded_error', 'Overloaded')
    >>> _parse_error("<html>Bad gateway</html>")
    ('', '<html>Bad gateway</html>')
    """
    body = parsed(text)
    if body is None:
        return "", " ".join(text[: 4 * LONGEST_MESSAGE].split())[:LONGEST_MESSAGE] or "with an empty body"
    if isinstance(body, list) and body:
        body = body[0]
    return _kind_and_message(body.get("error", body) if isinstance(body, Mapping) else body)


def _kind_and_message(error: Any) -> tuple[str, str]:
    if not isinstance(error, Mapping):
        return "", str(error)[:LONGEST_MESSAGE]
    kinds = [str(error[name]) for name in ("type", "code") if error.get(name)]
    return " ".join(kinds), " ".join(str(error.get("message") or kinds or "no message").split())


def _request_id(headers: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    return headers.get("request-id") or headers.get("x-request-id") or storable(body.get("id"))


def is_fake(address: str) -> bool:
    """Whether the fake provider answers at an address. Only addresses on this machine are tried."""
    if not _is_address(address):
        return False
    parts = urlsplit(address)
    if parts.hostname not in LOOPBACK or parts.scheme != "http":
        return False
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=2.0)
    try:
        connection.request("GET", "/")
        return connection.getresponse().getheader("x-abreast-fake") is not None
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _image_versions(template: str, base: Path) -> Any:
    """Return a value that changes with the images that a template can name: the hash of a file that is named literally,
    else the names, sizes and times of the images in the folder with which the template begins."""
    if template.startswith(("https://", "http://", "data:")):
        return None
    prefix = re.split(r"\{[{%#]", template, maxsplit=1)[0]
    try:
        if prefix == template:
            return hashlib.sha256((base / template).read_bytes()).hexdigest()
        return sorted(_images_in(base / prefix[: prefix.rfind("/") + 1]))
    except (OSError, ValueError):  # the trials will report it
        return None


def _images_in(top: Path) -> Iterator[tuple[str, int, int]]:
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(folder, name) for name in names if mimetypes.guess_type(name)[0] in IMAGE_TYPES):
            with contextlib.suppress(OSError):  # a broken link
                stat = path.stat()
                yield path.relative_to(top).as_posix(), stat.st_size, stat.st_mtime_ns


def _is_address(value: Any) -> bool:
    """Whether this is an HTTP URL with a host and a valid port."""
    if not isinstance(value, str) or not is_encodable(value) or re.search(r"[\x00-\x20\x7f]", value):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _is_variable(value: Any) -> bool:
    return is_text(value) and is_encodable(value) and "=" not in value


def _is_fields(value: Any) -> bool:
    return isinstance(value, Mapping) and is_json(value)


def _is_command(value: Any) -> bool:
    """Whether this is a command; an unterminated quote raises ValueError."""
    words = command_of(value) if is_text(value) or is_texts(value) else ()
    return bool(words) and bool(words[0]) and all(map(is_encodable, words))


def _is_header_value(value: str) -> bool:
    return re.fullmatch(r"[\t\x20-\x7e\xa0-\xff]*", value) is not None

"""What the targets of model APIs share: one session, one way to send, one reading of errors."""

from __future__ import annotations

import base64
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
from abreast.targets.api.http_client import HttpClient, Reply, Sizes, make_client
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
LONGEST_MESSAGE = 500  # characters of an error's body that are told
ERROR_SIZE = 1_000_000  # bytes of an error's body that are read
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NO_PART_OF_A_REQUEST = ("key_env", "key_command")  # parameters that change no answer
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


@dataclass(frozen=True, slots=True)
class Said:
    """What a response says, whatever API it came from."""

    text: str
    usage: Usage
    model: str | None
    finish_reason: str | None
    refusal: str | None = None  # why the model declined, if it did
    cost_usd: float | None = None  # if the provider says it


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture to send: an address, or its bytes as base64."""

    url: str | None
    media: str = ""
    content: str = ""


class ApiTarget(Target):
    """A model behind HTTP. A family says how a request and a response look; everything else is here."""

    variables: tuple[str, ...]  # of the environment, that may hold the key
    address: str  # where the API is, if nothing else is said
    address_variable: str
    is_service = True

    def __init__(self, where: str, params: Mapping[str, Any], shared: dict[str, Any]) -> None:
        settings = Settings(where, params)
        settings.noun = "parameter"
        self._where, self._base = where, Path(shared.get("base", "."))
        self.model: str = settings.take("model", None, is_text, "the name of a model, as text")
        if self.model is None:
            raise BadInput(f"{where}: no model", f"write model: with a name that {self.name} knows")
        self.base_url, self._login = self._take_address(settings)
        self.endpoint = self.base_url
        self._system = settings.take("system", None, is_text, "text")
        self.sent_with_each = len(self._system or "")
        self._temperature = settings.take("temperature", None, _is_temperature, "a number from 0 to 2")
        self._max_tokens = settings.take("max_tokens", None, is_count, "a whole number of at least 1")
        self._json = settings.take("json", None, _is_format, "true, or a JSON Schema as a mapping")
        expects = "a mapping of further fields that JSON can say (dates as text)"
        self._extra: Mapping[str, Any] = settings.take("extra", {}, _is_fields, expects)
        images = settings.take("images", [], is_texts, "a list of templates such as ['{{ picture }}']")
        self._images = [Template(where, "images", text) for text in images]
        self._key = self._take_key(settings)
        self._headers = {**self._take_headers(settings), "content-type": "application/json"}
        self._sent_headers: tuple[str | None, Mapping[str, str] | None] = (None, None)
        self._sent_to: URL | None = None
        self._take_own(settings)
        self._renderer = Renderer(where, {key: settings.remaining.pop(key, None) for key in ("prompt", "transform")})
        settings.names += ["prompt", "transform"]
        settings.done()
        self.transforms, self.quick = self._renderer.transforms, self._renderer.quick
        self.sees = "case" if seen_by(*images) == "case" else self._renderer.sees
        self.keyed_params = {key: value for key, value in params.items() if key not in NO_PART_OF_A_REQUEST}
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
            digest([_pictures_named(text, self._base) for text in images]),
            str(self.revision),
        )
        self.account = f"{self.name}:{self._key.fingerprint()}"
        self.pool = f"{self.base_url}:{self.model}"
        importlib.import_module("yarl")  # now, so that it is no part of the first answer's latency

    _fixed_headers: Mapping[str, str] = {}  # of the family
    revision = 1  # of what is sent: an answer to another request is another answer

    # -- of a family -----------------------------------------------------------------------------------------------

    def _take_own(self, settings: Settings) -> None:
        """Parameters that only this family has."""

    @property
    @abstractmethod
    def _url(self) -> str:
        """Where requests go."""

    @abstractmethod
    def _key_headers(self, key: str) -> dict[str, str]: ...

    @abstractmethod
    def _body(self, prompt: str, pictures: list[Picture]) -> dict[str, Any]: ...

    @abstractmethod
    def _said(self, body: Mapping[str, Any]) -> Said: ...

    # -- what a target is ------------------------------------------------------------------------------------------

    def request(self, trial: Trial) -> Request:
        return self._renderer.request(trial)

    def costs(self, input_tokens: float, output_tokens: float) -> float | None:
        """Dollars of one request; None without a price, or with pictures, whose tokens nobody counts beforehand."""
        if self._price is None or self._images:
            return None
        return self._price.of(Usage(round(input_tokens), round(output_tokens)))

    def problems(self) -> list[Problem]:
        missing = self._key.missing()
        found = [Problem(f"{self.name}: {missing}", self._key.fix)] if missing else []
        try:
            self._filled_headers()
        except BadInput as error:
            found.append(Problem(error.message, error.fix))
        return found

    def notes(self) -> list[str]:
        if self._price is not None or self.simulated:
            return []
        return [f'no price is known for "{self.model}" (table of {as_of()}): its cost will be unknown without prices:']

    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        key = self._key.value() if self._key.known else await workers.in_thread(self._key.value)
        pictures: list[Picture] = []
        if self._images:
            pictures = await workers.in_thread(self._pictures, trial, request)
        content = _ENCODER.encode(self._body(request.prompt, pictures)).encode("utf-8", "replace")
        reply = await self._send(content, self._headers_with(key))
        status, received, text = reply.status, reply.headers, reply.body.decode("utf-8", "replace")
        if 300 <= status < 400:
            there = excerpt(received.get("location") or "somewhere", LONGEST_MESSAGE)
            told = f"{self.name}: {status}: {self.base_url} sends requests on to {there}"
            raise errors.Rejected(told, fix="write the address that answers itself as base_url:")
        if status >= 400:
            raise await self._refusal(status, received, text, key, workers)
        return self._answer(text, received)

    async def close(self) -> None:
        client = self._shared.pop("http", None)
        if client is not None:
            await client.close()

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _send(self, content: bytes, headers: Mapping[str, str]) -> Reply:
        client: HttpClient | None = self._shared.get("http")
        if client is None:
            client = self._shared["http"] = make_client()
        try:
            reply = await client.post(self._address(), headers, content, Sizes(self._answer_size, ERROR_SIZE))
        except ValueError as error:
            raise errors.Rejected(f"{self.name}: {_told(error)}", fix=self._look) from error
        except OSError as error:
            raise errors.Transient(f"{self.name}: {_told(error)}", fix=self._look) from error
        if reply.status < 300 and not reply.is_complete:
            raise self._too_big(reply.body)
        return reply

    def _too_big(self, body: bytes) -> TrialError:
        """The error for a response that was not read to its end; `body` is its beginning."""
        most = self._answer_size
        head = excerpt(body[: 2 * EXCERPT].decode("utf-8", "replace"), min(most, EXCERPT))
        left = Answer("", model=self.model, raw_response=f"{head}\n… the rest was not read …")
        return errors.TooBig.of(f"{self.name}: the response has more than {megabytes(most)}", most, left)

    def _address(self) -> URL:
        """Where it goes, parsed once."""
        if self._sent_to is None:
            from yarl import URL

            self._sent_to = URL(f"{self._url}?{self._query}" if self._query else self._url)
        return self._sent_to

    def _headers_with(self, key: str | None) -> Mapping[str, str]:
        """Made once for a key: it stays the same from one request to the next."""
        known, headers = self._sent_headers
        if headers is None or known != key:
            try:
                filled = self._filled_headers()
            except BadInput as error:
                raise errors.Unauthenticated(error.message, fix=error.fix) from None
            headers = {**filled, **self._fixed_headers, **(self._key_headers(key) if key else {}), **self._login}
            self._sent_headers = key, headers
        return headers

    def _filled_headers(self) -> dict[str, str]:
        """The variant's own headers with the values of variables in them: only to be sent."""
        variables, place = Variables(os.environ), f"{self._where}: headers"
        filled = {name: variables.fill(place, value) for name, value in self._headers.items()}
        for name, value in filled.items():
            if not _is_header_value(value):
                told = f"{place}: {name} would have line breaks or characters in it that no header can hold"
                raise BadInput(told, f"set the variable in {self._headers[name]} to something else")
        return filled

    @property
    def _look(self) -> str:
        return f"check the address {self.base_url} and that the server is up"

    def _answer(self, text: str, received: Mapping[str, str]) -> Answer:
        failure = None
        try:
            body = parse_json(text)
            failure = self._failure(body, received)
            said = self._said(body)
            words = storable(said.text)
            if words is None:
                raise TypeError(f"{type(said.text).__name__} instead of text")
        except _UNREADABLE as error:
            reason = excerpt(f"{type(error).__name__}: {error}", LONGEST_MESSAGE)
            message = f"{self.name}: an answer that cannot be read ({reason}): {excerpt(text, 200)}"
            raise failure or errors.Transient(message, fix=self._look) from error
        cost, basis = self._cost(said)
        answer = Answer(
            words,
            data={"finish_reason": said.finish_reason, "request_id": _request_id(received, body)},
            usage=said.usage,
            cost_usd=cost,
            cost_basis=basis,
            model=said.model or self.model,
            raw_response=text,
            rate=rate_limits(received),
        )
        if failure is not None and (body.get("status") == "failed" or not words.strip()):
            failure.answer = answer
            raise failure
        if said.refusal is not None:
            raise errors.Refused(said.refusal or "the model declined to answer", answer=answer)
        if not words.strip():
            raise errors.NoAnswer(f"an empty answer (finish reason {said.finish_reason})", answer=answer)
        return answer

    def _cost(self, said: Said) -> tuple[float | None, CostBasis]:
        if said.cost_usd is not None:
            return said.cost_usd, "reported"
        price = self._price if said.model in (None, self.model) else self._prices.of(said.model, self.model)
        cost = None if price is None else dollars(price.of(said.usage))
        return cost, "unknown" if cost is None else "estimated"

    # -- errors ----------------------------------------------------------------------------------------------------

    async def _refusal(
        self, status: int, received: Mapping[str, str], text: str, key: str | None, workers: Workers
    ) -> TrialError:
        kind, message = _error_of(text)
        told = excerpt(f"{self.name}: {status} {message}", LONGEST_MESSAGE)
        if status in (401, 403) and self._key.command and await workers.in_thread(self._key.renew, key):
            return errors.Transient(f"{told} (with a key that is renewed now)")
        return refusal(status, kind, message, told, received, self._key.fix)

    def _failure(self, body: Any, received: Mapping[str, str]) -> TrialError | None:
        """The error that a response tells of although its status says that all is well; None if there is none."""
        error = body.get("error")
        if not error and body.get("status") != "failed":
            return None
        kind, message = _error_in(error or {})
        status = _status_of(error, f"{kind} {message}".lower())
        told = excerpt(f"{self.name}: {' '.join(filter(None, (kind, message)))}", LONGEST_MESSAGE)
        return refusal(status, kind, message, told, received, self._key.fix)

    # -- parameters ------------------------------------------------------------------------------------------------

    def _take_address(self, settings: Settings) -> tuple[str, dict[str, str]]:
        """Where the API is, and a header for the name and the password that the environment may have put before it."""
        expects = "an address such as http://127.0.0.1:8000/v1"
        written = settings.values.get("base_url")
        if isinstance(written, str) and (re.match("[^/]*//[^/?#]*@", written) or any(url_secrets(written))):
            raise BadInput(  # before a message could show its value
                f"{settings.where}: base_url would store a password",
                f"set the whole address in the environment instead: export {self.address_variable}=...",
            )
        given = settings.take("base_url", None, _is_address, expects)
        around = os.environ.get(self.address_variable)
        parts = urlsplit(given or self.address)
        if not given and around:
            if not _is_address(around):
                told = f"{settings.where}: {self.address_variable} in the environment must be {expects}"
                raise BadInput(told, f"correct it, or: unset {self.address_variable}")
            parts = urlsplit(around)
        login, _, host = parts.netloc.rpartition("@")
        self._query = parts.query
        public = urlunsplit(parts._replace(netloc=host, query="")).rstrip("/")
        if not login:
            return public, {}
        name, _, password = (unquote(each) for each in login.partition(":"))
        basic = base64.b64encode(f"{name}:{password}".encode()).decode()
        return public, {"authorization": f"Basic {basic}"}

    def _take_key(self, settings: Settings) -> Key:
        name = settings.take("key_env", None, _is_variable, "the name of an environment variable")
        command = settings.take("key_command", None, _is_command, "a command, as text or a list of words")
        local = urlsplit(self.base_url).hostname in LOOPBACK
        variables = (name,) if name else self.variables
        return Key(
            variables, command_of(command) if command else (), optional=(local or bool(self._login)) and not name
        )

    def _take_headers(self, settings: Settings) -> dict[str, str]:
        given = settings.take("headers", {}, is_mapping_of_texts, "a mapping of texts")
        for name, value in given.items():
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not _is_header_value(value):
                told = (
                    f"{settings.where}: headers: {name!r} has line breaks or characters in it that no header can hold"
                )
                raise BadInput(told, "write it in one line, without spaces in its name")
            if is_secret_setting(name, value) and is_literal(value):
                variable = re.sub(r"\W", "_", name).upper()
                raise BadInput(
                    f"{settings.where}: headers: {name} would store a secret",
                    f"write ${{{variable}}} and set {variable} in the environment; for the key itself: key_env: MY_KEY",
                )
        return {str(name).lower(): value for name, value in given.items()}

    def _pictures(self, trial: Trial, request: Request) -> list[Picture]:
        return [self._picture(template.render(trial.case, request.input)) for template in self._images]

    def _picture(self, place: str) -> Picture:
        if place.startswith(("https://", "http://")):
            return Picture(place)
        if place.startswith("data:"):
            media, _, content = place[5:].partition(";base64,")
            return Picture(None, media, content)
        path = self._base / place
        media = mimetypes.guess_type(path.name)[0] or ""
        if media not in PICTURES:
            raise errors.Crashed(f"images: {place} is no picture that can be sent ({', '.join(PICTURES)})")
        try:
            return Picture(None, media, base64.b64encode(path.read_bytes()).decode())
        except OSError as error:
            raise errors.Crashed(f"images: {place} cannot be read ({error.strerror})") from None


def refusal(status: int, kind: str, message: str, told: str, received: Mapping[str, str], fix: str = "") -> TrialError:
    """The error behind a status and what the body says, the same for every provider."""
    said = f"{kind} {message}".lower()
    if status == 413 or any(words in said for words in _TOO_LONG):
        return errors.TooLong(told)
    if any(words in said for words in ("content_filter", "content management policy", "content_policy_violation")):
        return errors.Refused(told)
    if "insufficient_quota" in said or "credit balance" in said or status == 402:
        return errors.Unauthenticated(told, fix="there is no credit left: add some, or use another key")
    if status in (429, 529):
        return errors.RateLimited(told, headers=received)
    if status >= 500 or status in (408, 409, 425):
        return errors.Transient(told, headers=received)
    if status in (401, 403):
        return errors.Unauthenticated(told, fix=fix)
    return errors.Rejected(told, fix="mend the variant: the provider does not take such a request")


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
_BY_KIND = (  # the status that an error would have, by what it calls itself
    (429, r"rate_?limit|too_many_requests|insufficient_quota"),
    (529, r"overloaded"),
    (401, r"authentication|invalid_api_key|permission"),
    (400, r"invalid_(request|prompt|image|base64)|(^|\s)image_|unsupported|not_found|empty_image"),
)


def _status_of(error: Any, said: str) -> int:
    """The status of an error that came without one; 500 if it says nothing that is known.

    >>> _status_of({"code": 429}, ""), _status_of({}, "rate_limit_exceeded slow down"), _status_of({}, "server_error")
    (429, 429, 500)
    """
    code = error.get("code") if isinstance(error, Mapping) else None
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return next((status for status, words in _BY_KIND if re.search(words, said)), 500)


def _error_of(text: str) -> tuple[str, str]:
    """Kind and message of an error's body, which may be anything.

    >>> _error_of('{"error": {"type": "overloaded_error", "message": "Overloaded"}}')
    ('overloaded_error', 'Overloaded')
    >>> _error_of("<html>Bad gateway</html>")
    ('', '<html>Bad gateway</html>')
    """
    body = parsed(text)
    if body is None:
        return "", " ".join(text[: 4 * LONGEST_MESSAGE].split())[:LONGEST_MESSAGE] or "without a word"
    if isinstance(body, list) and body:
        body = body[0]
    return _error_in(body.get("error", body) if isinstance(body, Mapping) else body)


def _error_in(error: Any) -> tuple[str, str]:
    """Kind and message of an error as a provider tells of it."""
    if not isinstance(error, Mapping):
        return "", str(error)[:LONGEST_MESSAGE]
    kinds = [str(error[name]) for name in ("type", "code") if error.get(name)]
    return " ".join(kinds), " ".join(str(error.get("message") or kinds or "without a word").split())


def _request_id(received: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    return received.get("request-id") or received.get("x-request-id") or storable(body.get("id"))


def is_fake(address: str) -> bool:
    """Whether the project's own fake provider answers there. Only this machine is asked."""
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


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _pictures_named(template: str, base: Path) -> Any:
    """What tells whether pictures that a template can name have changed: of a file named outright its content; of any
    other template the names, sizes and times of the pictures in the folder that it begins with."""
    if template.startswith(("https://", "http://", "data:")):
        return None
    begin = re.split(r"\{[{%#]", template, maxsplit=1)[0]
    try:
        if begin == template:
            return hashlib.sha256((base / template).read_bytes()).hexdigest()
        return sorted(_pictures_in(base / begin[: begin.rfind("/") + 1]))
    except (OSError, ValueError):  # not there, or no name of a file: a trial will say so
        return None


def _pictures_in(folder: Path) -> Iterator[tuple[str, int, int]]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if mimetypes.guess_type(name)[0] in PICTURES:
                path = Path(place, name)
                try:
                    found = path.stat()
                except OSError:  # a link to nowhere
                    continue
                yield path.relative_to(folder).as_posix(), found.st_size, found.st_mtime_ns


def _is_address(value: Any) -> bool:
    """Whether it is one that can be asked: with a host, and with a port that there is, if any."""
    if not isinstance(value, str) or not is_encodable(value) or re.search(r"[\x00-\x20\x7f]", value):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _is_variable(value: Any) -> bool:
    return is_text(value) and is_encodable(value) and "=" not in value


def _is_temperature(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 2


def _is_format(value: Any) -> bool:
    return is_flag(value) or _is_fields(value)


def _is_fields(value: Any) -> bool:
    return isinstance(value, Mapping) and is_json(value)


def _is_command(value: Any) -> bool:
    """Whether it can be run; a quote that does not end raises."""
    words = command_of(value) if is_text(value) or is_texts(value) else ()
    return bool(words) and bool(words[0]) and all(map(is_encodable, words))


def _is_header_value(value: str) -> bool:
    return re.fullmatch(r"[\t\x20-\x7e\xa0-\xff]*", value) is not None

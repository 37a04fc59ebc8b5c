"""Classification of exceptions: kind and blame."""

from __future__ import annotations

import errno
import http.client
import pickle
import socket
import ssl
import urllib.error
from collections.abc import Callable
from email.message import Message
from typing import Any

import pytest

from abreast.errors import Crashed, RateLimited, Refused, TrialError, classify


def make_error(name: str, *bases: type[BaseException], **attributes: Any) -> BaseException:
    """An exception of a new class with this name, as in an SDK."""
    return type(name, bases or (Exception,), attributes)("x")


def of(error: BaseException) -> tuple[str, str]:
    failure = classify(error)
    return failure.kind, failure.blame


NETWORK = ("network", "infrastructure")
RESOURCES = ("resources", "infrastructure")
TIMEOUT = ("timeout", "infrastructure")
CRASH = ("crash", "variant")
RATE_LIMIT = ("rate_limit", "infrastructure")


def http_error(code: int, **headers: str) -> urllib.error.HTTPError:
    message = Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError("http://x", code, "no", message, None)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("no"),
        BrokenPipeError("gone"),
        socket.gaierror(-2, "Name or service not known"),
        ssl.SSLError(1, "bad record"),
        http.client.IncompleteRead(b"half"),
        http.client.RemoteDisconnected("gone"),
        http.client.BadStatusLine("?"),
        urllib.error.URLError(ConnectionRefusedError("no")),
        urllib.error.URLError(socket.gaierror(-3, "try again")),
        urllib.error.ContentTooShortError("half", None),  # type: ignore[arg-type]
        *(OSError(number, "x") for number in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNRESET, errno.EPIPE)),
        OSError(errno.ETIMEDOUT, "the kernel gave up"),
        *(
            make_error(name)
            for name in ("ConnectError", "ReadError", "WriteError", "RemoteProtocolError", "ProtocolError")
        ),
        *(make_error(name) for name in ("ServerDisconnectedError", "ClientConnectorError", "ClientOSError")),
        *(make_error(name) for name in ("APIConnectionError", "ConnectionError", "NewConnectionError")),
        make_error("MyError", type(make_error("ReadError"))),
    ],
    ids=repr,
)
def test_network_errors_are_not_the_fault_of_the_variant(error: BaseException) -> None:
    assert of(error) == NETWORK


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        *(OSError(number, "x") for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EAGAIN)),
        RuntimeError("can't start new thread"),
        urllib.error.URLError(OSError(errno.EMFILE, "too many open files")),
    ],
    ids=repr,
)
def test_exhausted_resources_of_the_driver_are_not_the_fault_of_the_variant(error: BaseException) -> None:
    assert of(error) == RESOURCES


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("slow"),
        make_error("ReadTimeout"),
        make_error("APITimeoutError", type(make_error("APIConnectionError"))),
        make_error("Slow", type(make_error("ConnectTimeout", OSError))),
        urllib.error.URLError(TimeoutError("timed out")),
    ],
    ids=repr,
)
def test_timeouts_of_clients_are_retried(error: BaseException) -> None:
    assert of(error) == TIMEOUT


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        FileNotFoundError(errno.ENOENT, "no such file"),
        PermissionError(errno.EACCES, "no"),
        IsADirectoryError(errno.EISDIR, "x"),
        RuntimeError("boom"),
        urllib.error.URLError("unknown url type: ftps"),
        urllib.error.URLError(FileNotFoundError("no such file")),
        http.client.InvalidURL("no"),
        make_error("LocalProtocolError", type(make_error("ProtocolError"))),
        make_error("Coded", code=7),
        make_error("Flagged", status=True),
        SystemExit(503),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_other_exceptions_are_the_fault_of_the_variant(error: BaseException) -> None:
    assert of(error) == CRASH


class Response:
    def __init__(self, status_code: Any, headers: Any = None) -> None:
        self.status_code = status_code
        self.headers = headers


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (make_error("E", status_code=429), RATE_LIMIT),
        (make_error("E", status=529), RATE_LIMIT),
        (make_error("E", code=503), NETWORK),
        (make_error("E", response=Response(500)), NETWORK),
        (make_error("E", status_code=None, response=Response(401)), ("auth", "infrastructure")),
        (make_error("E", status_code=413), ("too_long", "variant")),
        (make_error("E", status_code=400), CRASH),
        (make_error("ReadError", status=200), NETWORK),
        (make_error("E", status_code=9999, status="429", code=lambda: 429), CRASH),
        (http_error(429), RATE_LIMIT),
        (http_error(404), CRASH),
        (http_error(502), NETWORK),
    ],
)
def test_an_http_status_decides(error: BaseException, expected: tuple[str, str]) -> None:
    assert of(error) == expected


def raised(error: BaseException, *, cause: BaseException | None = None, during: BaseException | None = None) -> Any:
    error.__cause__ = cause
    error.__context__ = during
    error.__suppress_context__ = cause is not None
    return error


def test_the_cause_of_an_error_decides_and_is_named() -> None:
    wrapped = raised(RuntimeError("call failed"), cause=raised(ValueError("inner"), cause=ConnectionResetError("peer")))
    assert of(wrapped) == NETWORK
    assert classify(wrapped).message == "RuntimeError: call failed (caused by ConnectionResetError: peer)"
    assert of(raised(RuntimeError("x"), cause=RateLimited("slow", retry_after=3))) == RATE_LIMIT
    assert of(raised(RuntimeError("x"), cause=Refused("no"))) == ("refused", "variant")
    assert of(raised(make_error("E", status_code=400), cause=ConnectionResetError())) == CRASH, (
        "the nearest word counts"
    )


def test_the_handled_exception_decides_only_if_it_was_infrastructure() -> None:
    assert of(raised(KeyError("x"), during=ConnectionResetError())) == NETWORK
    assert of(raised(KeyError("x"), during=Refused("no"))) == CRASH
    hidden = raised(KeyError("x"), during=ConnectionResetError())
    hidden.__suppress_context__ = True
    assert of(hidden) == CRASH, "raise ... from None"


def test_members_of_an_exception_group_decide() -> None:
    assert of(ExceptionGroup("tasks", [ValueError("x"), ExceptionGroup("more", [ConnectionResetError()])])) == NETWORK
    assert of(ExceptionGroup("tasks", [ValueError("x")])) == CRASH


def test_a_cycle_of_causes_ends() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert of(first) == CRASH
    reason = make_error("E")
    reason.reason = reason  # type: ignore[attr-defined]
    assert of(reason) == CRASH


class Hostile(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    @property
    def __class__(self) -> Any:
        raise RuntimeError("class")

    @property
    def status_code(self) -> int:
        raise RuntimeError("status")

    @property
    def response(self) -> Any:
        raise RuntimeError("response")


class HostileTrial(Crashed):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]

    @property
    def kind(self) -> str:  # type: ignore[override]
        raise RuntimeError("kind")


class OddText(str):
    __slots__ = ()

    def __format__(self, spec: str) -> str:
        raise RuntimeError("format")

    def __reduce__(self) -> Any:
        raise RuntimeError("pickle")


class Odd(Exception):
    def __str__(self) -> str:
        return OddText("odd")


def test_an_exception_whose_methods_raise_is_still_classified() -> None:
    assert of(Hostile()) == CRASH
    assert classify(Hostile()).message == "Hostile: (its message cannot be shown: ValueError)"
    broken = HostileTrial.__new__(HostileTrial)
    assert of(broken) == CRASH
    assert of(raised(Hostile(), cause=ConnectionResetError())) == NETWORK
    assert classify(Odd()).message == "Odd: odd"
    for error in (Hostile(), broken, Odd()):
        assert pickle.loads(pickle.dumps(classify(error))) == classify(error)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (2, 2.0),
        (0.5, 0.5),
        ("7", 7.0),
        (b"7", 7.0),
        (0, 0.0),
        (1e12, 3600.0),
        (10**400, None),
        (-1, None),
        (float("nan"), None),
        (float("inf"), None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("", None),
        (True, None),
        ([1], None),
        (None, None),
    ],
)
def test_only_valid_waits_are_used(header: Any, seconds: float | None) -> None:
    assert RateLimited("slow", retry_after=header).retry_after == seconds
    assert (
        classify(make_error("E", status_code=429, response=Response(429, {"Retry-After": header}))).retry_after
        == seconds
    )
    late: TrialError = RateLimited("slow")
    late.retry_after = header
    assert classify(late).retry_after == seconds


def test_the_wait_is_read_from_the_headers_of_any_client() -> None:
    assert classify(http_error(429, Retry_After="9")).retry_after == 9.0
    assert classify(make_error("E", status=503, headers={"retry-after": "4"})).retry_after == 4.0
    assert classify(make_error("E", status=503, headers=3)).retry_after is None


def crashing(depth: int) -> None:
    if depth:
        crashing(depth - 1)
    raise ValueError("deep down")


def caught(function: Callable[[], Any]) -> BaseException:
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def test_a_crash_has_a_short_location_however_deep_it_was() -> None:
    lines = classify(caught(lambda: crashing(100))).detail.splitlines()
    assert len(lines) == 17
    assert lines[-1].endswith('in crashing: raise ValueError("deep down")')
    assert "more calls" in lines[4]


def test_a_long_cause_is_truncated() -> None:
    def wordy() -> None:
        raise ValueError("short") from KeyError("x" * 5000)

    detail = classify(caught(wordy)).detail
    assert len(detail) == 4000
    assert 'raise ValueError("short")' in detail.splitlines()[1]


def test_a_crash_has_the_location_of_its_cause_too() -> None:
    def cause() -> None:
        try:
            {}["x"]
        except KeyError as error:
            raise ValueError("no x") from error

    detail = classify(caught(cause)).detail
    assert 'raise ValueError("no x") from error' in detail
    assert "caused by KeyError: 'x'" in detail


def test_typed_errors_have_no_location() -> None:
    def refuse() -> None:
        raise Refused("no")

    assert classify(caught(refuse)).detail == ""
    assert classify(ConnectionResetError("gone")).detail == ""


def test_a_location_that_is_already_set_is_kept() -> None:
    crash = Crashed("ValueError: no")
    crash.detail = "predict.py:3 in predict"  # type: ignore[attr-defined]
    assert classify(crash).detail == "predict.py:3 in predict"
    assert pickle.loads(pickle.dumps(classify(caught(lambda: crashing(0))))).detail

"""The live page answers nobody but its own user: hosts, origins, tokens, read-only mode, headers."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from abreast import Experiment
from view_server import LivePage, live_page

CASES = [{"id": f"c{number}", "input": f"{number} + 1", "expected": str(number + 1)} for number in range(3)]
CHANGES = ["/runs/latest/controls", "/deletion", "/runs/latest/trials/0/label", "/runs/latest/labels"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("view") / "results.db"
    variants = {"a": {"accuracy": 1.0}, "b": {"accuracy": 0.5}}
    Experiment(cases=CASES, variants=variants, target="simulated", scorers=["exact"]).run(store=path)
    return path


@pytest.fixture(scope="module")
def page(store: Path) -> Iterator[LivePage]:
    with live_page(store) as page:
        yield page


REBOUND = ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "10.0.0.1", ""]
INVALID = ["[", "127.0.0.1:abc", "127.0.0.1:99999999", "[::1"]


@pytest.mark.parametrize("host", [*REBOUND, *INVALID])
def test_a_name_that_was_rebound_to_this_machine_is_refused(page: LivePage, host: str) -> None:
    answer = page.get("/", Host=host)
    assert answer.status in (400, 403)
    assert "c1" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1234", "[::1]:8420", "LOCALHOST:99"])
def test_names_of_this_machine_are_answered_also_through_a_forwarded_port(page: LivePage, host: str) -> None:
    assert page.get("/", Host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "empty"},
        {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Dest": "iframe"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "script"},
    ],
)
def test_other_pages_in_the_browser_can_read_nothing(page: LivePage, headers: dict[str, str]) -> None:
    for path in ("/", "/runs/latest", "/static/run.js"):
        assert page.get(path, **headers).status == 403


def test_a_link_from_another_page_may_open_this_one(page: LivePage) -> None:
    assert page.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document").status == 200


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"},
        {"Host": "evil.example", "Origin": "http://evil.example"},
    ],
)
def test_a_change_requested_by_another_page_is_refused(page: LivePage, path: str, headers: dict[str, str]) -> None:
    assert page.post(path, {"action": "pause"}, **headers).status == 403


def test_a_change_without_an_origin_is_refused(page: LivePage) -> None:
    headers = {"Content-Type": "application/json"}
    assert page.request("POST", CHANGES[0], headers, {"action": "pause"}).status == 403


def test_every_response_forbids_scripts_frames_and_requests_elsewhere(page: LivePage) -> None:
    for path in ("/", "/runs/latest", "/static/run.js", "/static/missing.js", "/nothing", "/runs/missing"):
        answer = page.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"


def test_pages_have_no_inline_scripts_styles_or_foreign_addresses(page: LivePage) -> None:
    for path in ("/", "/runs/latest"):
        text = page.get(path).text.lower()
        assert "<script>" not in text
        assert " style=" not in text
        assert " onclick=" not in text
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text


@pytest.mark.parametrize("name", ["../server.py", "..%2fserver.py", "%2e%2e/rendering.py", "view.css/..", "nothing.js"])
def test_static_files_are_only_those_of_the_page(page: LivePage, name: str) -> None:
    answer = page.get(f"/static/{name}")
    assert answer.status == 404
    assert "import" not in answer.text


@pytest.mark.parametrize("path", CHANGES)
def test_a_read_only_page_changes_nothing(store: Path, path: str) -> None:
    with live_page(store, read_only=True) as page:
        assert "data-action" not in page.get("/runs/latest").text
        answer = page.post(path, {"action": "pause"})
        assert answer.status == 403
        assert "read-only" in answer.text


def test_beyond_this_machine_a_token_is_needed(store: Path) -> None:
    with live_page(store, host="0.0.0.0") as page:
        token = page.address.partition("?token=")[2]
        assert len(token) >= 32
        assert page.get("/").status == 403
        assert page.get("/?token=wrong").status == 403
        first = page.get(f"/?token={token}")
        assert first.status == 303
        assert token not in first.headers["Location"]
        cookie = first.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert page.get("/", Cookie=cookie.partition(";")[0]).status == 200
        assert page.get("/", Cookie=cookie.partition("=")[0] + "=wrong").status == 403


def test_a_name_of_the_network_is_answered_with_a_token(store: Path) -> None:
    with live_page(store, host="0.0.0.0") as page:
        token = page.address.partition("?token=")[2]
        assert page.get("/", Host="box.example:80", Cookie=f"abreast-80={token}").status == 200
        assert page.get("/", Host="box.example:80").status == 403


def test_other_users_of_this_machine_need_the_token_if_requested(store: Path) -> None:
    with live_page(store, needs_token=True) as page:
        assert page.get("/").status == 403
        token = page.address.partition("?token=")[2]
        assert page.get("/", Cookie=f"abreast-{page.port}={token}").status == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"[]", b'{"action": "format"}', b'{"action": ["pause"]}', b"[" * 100_000, b'"pause"'],
    ids=range(7),
)
def test_garbage_is_refused_with_a_message(page: LivePage, body: bytes) -> None:
    with closing(http.client.HTTPConnection(page.host, timeout=20)) as connection:
        headers = {"Origin": f"http://{page.host}", "Content-Type": "application/json"}
        connection.request("POST", "/runs/latest/controls", body, headers)
        answer = connection.getresponse()
        assert answer.status == 400
        assert b"message" in answer.read()

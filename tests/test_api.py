"""Model APIs as targets, against the fake provider."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast.errors import BadInput
from abreast.fake import FakeProvider, Rate
from abreast.model import Variant
from abreast.targets import build
from abreast.targets.api import keys
from conftest import Done, Folder

KEY = "sk-very-secret-0123456789"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

FAMILIES: dict[str, dict[str, Any]] = {
    "anthropic": {"target": "anthropic", "model": "claude-haiku-4-5"},
    "chat": {"target": "openai", "model": "gpt-4.1"},
    "responses": {"target": "openai", "api": "responses", "model": "gpt-5"},
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    with FakeProvider.in_thread() as running:
        connect(running, monkeypatch)
        yield running


def connect(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in provider.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)


def run(folder: Folder, prompts: list[Any], variant: dict[str, Any], *words: str, **spec: Any) -> Done:
    """Run one variant on these prompts."""
    cases = [{"id": f"c{n}", "input": prompt, "expected": "4"} for n, prompt in enumerate(prompts)]
    content = {"name": "api", "cases": cases, "variants": {"only": variant}, "scorers": ["exact"], **spec}
    folder.write("experiment.yaml", yaml.safe_dump(content, sort_keys=False))
    return folder.abreast("run", "experiment.yaml", *words)


def request_bodies(provider: FakeProvider) -> list[dict[str, Any]]:
    return [request.body for request in provider.requests if request.method == "POST"]


Responder = Callable[[Mapping[str, str], dict[str, Any]], tuple[int, dict[str, str], bytes]]


@contextlib.contextmanager
def server(respond: Responder, on_path: Callable[[str], object] = str) -> Iterator[str]:
    """A server that answers every request with what `respond` returns for its headers and body."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            on_path(self.path)
            self._say(*respond({name.lower(): value for name, value in self.headers.items()}, body))

        def do_GET(self) -> None:
            self._say(404, {}, b"")

        def _say(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        thread.join()
        running.server_close()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_has_its_tokens_cost_and_provenance(folder: Folder, provider: FakeProvider, family: str) -> None:
    say = '[[fake: say="4" input=1000 output=50 cached=400 reasoning=30]]'
    done = run(folder, [f"What is 2 + 2? {say}"], FAMILIES[family])
    assert done.code == 0, done.err
    (row,) = folder.sql("select * from predictions")
    assert (row["status"], row["answer"], row["score"]) == ("ok", "4", 1.0)
    assert row["model"] == FAMILIES[family]["model"]
    fresh = 1000 if family == "anthropic" else 600  # OpenAI counts cached tokens as input, too
    assert (row["input_tokens"], row["output_tokens"], row["cache_read_tokens"]) == (fresh, 50, 400)
    prices = {"anthropic": (1, 0.1, 5), "chat": (2, 0.5, 8), "responses": (1.25, 0.125, 10)}[family]
    assert row["cost_usd"] == pytest.approx((fresh * prices[0] + 400 * prices[1] + 50 * prices[2]) / 1e6)
    assert row["cost_basis"] == "estimated"
    assert row["finish_reason"] in ("end_turn", "stop", "completed")
    assert row["request_id"].startswith("req_")
    assert json.loads(row["raw_response"])["model"] == FAMILIES[family]["model"]
    if family != "anthropic":
        assert row["reasoning_tokens"] == 30


@pytest.mark.parametrize(
    ("directive", "kind", "blame", "attempts"),
    [
        ("status=429 retry-after=0 times=1", None, None, 2),
        ("status=429 times=1", None, None, 2),
        ("status=529 times=2", None, None, 3),
        ("status=500 times=1", None, None, 2),
        ("drop times=1", None, None, 2),
        ("status=401", "auth", "infrastructure", 1),
        ("status=400", "rejected", "infrastructure", 1),
        ("status=404", "rejected", "infrastructure", 1),
        ("too-long", "too_long", "variant", 1),
        ("empty", "no_answer", "variant", 1),
        ("refusal", "refused", "variant", 1),
        ("hang", "timeout", "infrastructure", 1),
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_errors_are_classified_and_only_transient_ones_are_retried(
    folder: Folder,
    provider: FakeProvider,
    family: str,
    directive: str,
    kind: str | None,
    blame: str | None,
    attempts: int,
) -> None:
    limits = {"timeout": 1.0} if directive == "hang" else {}
    run(folder, [f"[[fake: {directive}]] Hello"], FAMILIES[family], limits=limits)
    (row,) = folder.sql("select * from predictions")
    assert (row["error_kind"], row["error_blame"], row["attempts"]) == (kind, blame, attempts), row["error"]
    assert row["status"] == ("ok" if kind is None else "error")
    if kind in ("no_answer", "refused"):  # paid nevertheless
        assert row["cost_usd"] > 0
        assert row["raw_response"]


def test_the_parameters_of_a_variant_are_sent(folder: Folder, provider: FakeProvider) -> None:
    common = {"system": "Be brief.", "temperature": 0.5, "max_tokens": 77}
    for name, family in FAMILIES.items():
        done = run(folder, ["Hello"], {**family, **common, "json": True, "extra": {"top_p": 0.9}}, store=f"{name}.db")
        assert done.code == 0, done.err
    messages, chat, responses = request_bodies(provider)
    assert messages["messages"] == [{"role": "user", "content": "Hello"}]
    assert messages["system"].startswith("Be brief.")
    assert (messages["temperature"], messages["max_tokens"], messages["top_p"]) == (0.5, 77, 0.9)
    assert chat["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (chat["temperature"], chat["max_tokens"]) == (0.5, 77)
    assert chat["response_format"] == {"type": "json_object"}
    assert (responses["instructions"], responses["max_output_tokens"]) == ("Be brief.", 77)
    assert responses["text"] == {"format": {"type": "json_object"}}
    assert not any("tools" in body for body in (messages, chat, responses))


def test_a_json_schema_is_sent_in_the_form_of_each_api(folder: Folder, provider: FakeProvider) -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
    for name, family in FAMILIES.items():
        assert run(folder, ["Hello"], {**family, "json": schema}, store=f"{name}.db").code == 0
    messages, chat, responses = request_bodies(provider)
    assert messages["output_config"]["format"]["schema"] == schema
    assert chat["response_format"]["json_schema"]["schema"] == schema
    assert responses["text"]["format"]["schema"] == schema


def test_pictures_of_a_case_are_sent_with_its_prompt(folder: Folder, provider: FakeProvider) -> None:
    folder.write("pictures/dot.png", PIXEL)
    prompt = {"question": "What is it?", "picture": "pictures/dot.png", "link": "https://example.com/a.jpg"}
    for name, family in FAMILIES.items():
        variant = {**family, "prompt": "{{ question }}", "images": ["{{ picture }}", "{{ link }}"]}
        done = run(folder, [prompt], variant, store=f"{name}.db")
        assert done.code == 0, done.err
    encoded = base64.b64encode(PIXEL).decode()
    messages, chat, responses = request_bodies(provider)
    sources = [part["source"] for part in messages["messages"][0]["content"] if part["type"] == "image"]
    assert sources == [
        {"type": "base64", "media_type": "image/png", "data": encoded},
        {"type": "url", "url": "https://example.com/a.jpg"},
    ]
    of_chat = [part["image_url"]["url"] for part in chat["messages"][0]["content"] if part["type"] == "image_url"]
    of_responses = [part["image_url"] for part in responses["input"][0]["content"] if part["type"] == "input_image"]
    assert of_chat == of_responses == [f"data:image/png;base64,{encoded}", "https://example.com/a.jpg"]


@pytest.mark.parametrize(
    ("name", "message"), [("notes.txt", "not a supported image"), ("missing.png", "cannot be read")]
)
def test_a_picture_that_cannot_be_sent_is_reported(
    folder: Folder, provider: FakeProvider, name: str, message: str
) -> None:
    folder.write("notes.txt", "text")
    run(folder, [{"picture": name}], {**FAMILIES["chat"], "prompt": "Look", "images": ["{{ picture }}"]})
    (row,) = folder.sql("select status, error from predictions")
    assert row["status"] == "error"
    assert message in row["error"]
    assert not request_bodies(provider)


# -- what providers say that they should not -------------------------------------------------------------------------


def chat(content: Any = "4", usage: Any = None, message: Any = None, **more: Any) -> dict[str, Any]:
    fields = {"content": content, **(message or {})}
    used = {"prompt_tokens": 3, "completion_tokens": 2} if usage is None else usage
    return {"model": "gpt-4.1", "choices": [{"finish_reason": "stop", "message": fields}], "usage": used, **more}


def failed(code: str, **more: Any) -> dict[str, Any]:
    error = {"code": code, "message": "Something happened"}
    return {"status": "failed", "error": error, "output": [], "usage": None, "model": "gpt-5", **more}


ANSWERS: dict[str, Any] = {  # the answer of each is 4
    "an empty refusal": chat(message={"refusal": ""}),
    "a model that is a number": chat(model=5),
    "a model that is a list": chat(model=["x"]),
    "tokens without end": chat(usage={"prompt_tokens": 10**400, "completion_tokens": 1}),
    "usage that is a list": chat(usage=[1]),
    "details that are a list": chat(usage={"prompt_tokens": 3, "prompt_tokens_details": [1]}),
    "a cost without end": chat(usage={"cost": 10**400}),
    "an infinite cost": chat(usage={"cost": float("inf")}),
    "a cost that is none": chat(usage={"cost": float("nan")}),
    "an id that is a mapping": chat(id={"a": [1]}),
    "a reason that is a mapping": {"choices": [{"finish_reason": {}, "message": {"content": "4"}}]},
    "an empty error": chat(error={}),
}
NO_ANSWERS: dict[str, Any] = {  # none of them is the fault of the variant
    "content that is a number": chat(42),
    "content that is a mapping": chat({"a": 1}),
    "parts that are texts": chat(["4"]),
    "nothing but an error": {"error": {"message": "Upstream fell over", "code": 502}},
    "an array": [],
    "null": None,
    "brackets": b"[" * 100_000,
    "half of it": b'{"choices": [{"mess',
    "nothing": b"",
    "bytes": b"\xff\xfe\x00",
}


def scripted(bodies: Mapping[str, Any], status: int = 200) -> Responder:
    """A responder that returns the reply listed for the prompt."""

    def respond(_: Mapping[str, str], body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        reply = bodies[body["input"] if "input" in body else body["messages"][-1]["content"]]
        return status, {}, reply if isinstance(reply, bytes) else json.dumps(reply).encode()

    return respond


def test_a_good_answer_with_nonsensical_usage_is_an_answer(folder: Folder) -> None:
    with server(scripted(ANSWERS)) as url:
        done = run(folder, list(ANSWERS), {**FAMILIES["chat"], "base_url": url}, limits={"retries": 0})
    assert done.code == 0, done.err
    rows = folder.sql("select answer from predictions")
    assert {row["answer"] for row in rows} == {"4"}


def test_unreadable_replies_are_not_the_fault_of_the_variant(folder: Folder) -> None:
    for status in (200, 500):
        with server(scripted(NO_ANSWERS, status)) as url:
            limits = {"retries": 0, "breaker": 99}
            run(folder, list(NO_ANSWERS), {**FAMILIES["chat"], "base_url": url}, limits=limits, store=f"{status}.db")
        rows = folder.sql(
            "select error_kind k, error_blame b, count(*) n from predictions group by 1, 2", f"{status}.db"
        )
        assert rows == [{"k": "network", "b": "infrastructure", "n": len(NO_ANSWERS)}]


@pytest.mark.parametrize(
    ("code", "kind", "blame"),
    [
        ("server_error", "network", "infrastructure"),
        ("rate_limit_exceeded", "rate_limit", "infrastructure"),
        ("something_new", "network", "infrastructure"),
        ("invalid_prompt", "rejected", "infrastructure"),
        ("context_length_exceeded", "too_long", "variant"),
    ],
)
def test_a_response_that_failed_is_an_error_whatever_its_status(
    folder: Folder, code: str, kind: str, blame: str
) -> None:
    with server(scripted({"Hello": failed(code)})) as url:
        run(folder, ["Hello"], {**FAMILIES["responses"], "base_url": url}, limits={"retries": 0})
    (row,) = folder.sql("select error_kind, error_blame, error from predictions")
    assert (row["error_kind"], row["error_blame"]) == (kind, blame)
    assert "Something happened" in row["error"]


def test_a_redirecting_address_is_reported_with_its_destination(folder: Folder) -> None:
    with server(lambda *_: (308, {"location": "https://there.example/v1"}, b"moved")) as url:
        run(folder, ["Hello"], {**FAMILIES["chat"], "base_url": url})
    (row,) = folder.sql("select error_kind, error, attempts from predictions")
    assert (row["error_kind"], row["attempts"]) == ("rejected", 1)
    assert "https://there.example/v1" in row["error"]


# -- keys ----------------------------------------------------------------------------------------------------------


def everything_written(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file())


def test_a_key_is_stored_nowhere_even_if_the_provider_repeats_it(folder: Folder, provider: FakeProvider) -> None:
    with FakeProvider.in_thread(answers={"say it": f"your key is {KEY}"}) as talkative:
        done = run(folder, ["say it"], {**FAMILIES["anthropic"], "base_url": talkative.url}, "--verbose")
    assert done.code == 0, done.err
    (row,) = folder.sql("select answer, raw_response from predictions")
    assert row["answer"] == "your key is [key]"
    for command in (
        ["logs"],
        ["show", "latest"],
        ["report", "latest", "--format", "json"],
        ["check", "experiment.yaml"],
    ):
        assert KEY not in folder.abreast(*command).output
    assert KEY not in done.output
    assert KEY.encode() not in everything_written(folder.path)


@pytest.mark.parametrize("family", ["anthropic", "chat"])
def test_without_a_key_nothing_is_executed(folder: Folder, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    done = run(folder, ["Hello"], FAMILIES[family])
    assert done.code == 4
    variable = "ANTHROPIC_API_KEY" if family == "anthropic" else "OPENAI_API_KEY"
    assert f"{variable} is not set" in done.err
    assert f"export {variable}=..." in done.err
    assert not (folder.path / "results.db").exists()


def test_a_server_on_this_machine_needs_no_key(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with FakeProvider.in_thread(answers={"Hello": "4"}, keys=None) as local:
        done = run(folder, ["Hello"], {**FAMILIES["chat"], "base_url": f"{local.url}/v1"})
        assert done.code == 0, done.err
        assert "authorization" not in local.requests[-1].headers


def test_a_key_command_provides_the_key_and_a_new_one_after_a_refusal(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    script = folder.write("give-key", "#!/bin/sh\necho first-key-xyz\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    with FakeProvider.in_thread(answers={"Hello": "4"}, keys=["first-key-xyz"]) as provider:
        done = run(folder, ["Hello"], {**FAMILIES["anthropic"], "base_url": provider.url, "key_command": str(script)})
        assert done.code == 0, done.err
    assert b"first-key-xyz" not in everything_written(folder.path).replace(script.read_bytes(), b"")


def test_an_expired_key_is_renewed_once_for_all_requests_in_flight(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "RENEW_S", 0.0)
    file = tmp_path_factory.mktemp("outside") / "key"
    file.write_text("old-key-xyz")
    barrier = threading.Barrier(4, action=lambda: file.write_text("new-key-xyz") and None)

    def respond(headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        key = headers["x-api-key"]
        if key == "new-key-xyz":
            content = [{"type": "text", "text": f"4, and the old one was old-key-xyz, the new one {key}"}]
            return 200, {}, json.dumps({"model": "m", "content": content}).encode()
        barrier.wait(10)
        return 401, {}, json.dumps({"error": {"type": "authentication_error", "message": f"no: {key}"}}).encode()

    with server(respond) as url:
        variant = {**FAMILIES["anthropic"], "base_url": url, "key_command": ["cat", str(file)]}
        done = run(folder, ["a", "b", "c", "d"], variant, "--parallel", "4", limits={"breaker": 99})
    assert done.code == 0, done.err
    assert folder.sql("select distinct status, attempts, answer from predictions") == [
        {"status": "ok", "attempts": 2, "answer": "4, and the old one was [key], the new one [key]"}
    ]
    content = everything_written(folder.path)
    assert b"old-key-xyz" not in content
    assert b"new-key-xyz" not in content


def test_a_key_that_is_invalid_in_a_header_is_reported_without_showing_it(
    folder: Folder, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "first-half\nsecond-half")
    done = run(folder, ["Hello"], FAMILIES["anthropic"], limits={"breaker": 1})
    assert "ANTHROPIC_API_KEY contains characters" in done.err
    assert "second-half" not in done.output
    assert folder.sql("select error_kind k from predictions") == [{"k": "auth"}]


@pytest.mark.parametrize("command", ["false", "no-such-program --key", "true"])
def test_a_key_command_that_fails_is_named(folder: Folder, provider: FakeProvider, command: str) -> None:
    done = run(folder, ["Hello"], {**FAMILIES["anthropic"], "key_command": command}, limits={"breaker": 1})
    assert done.code == 3
    assert f"the key command {command}" in done.err
    assert not request_bodies(provider)


@pytest.mark.parametrize("name", ["Authorization", "x-goog-api-key", "Helicone-Auth", "X-Auth-Token", "Cookie"])
@pytest.mark.parametrize("value", [f"Bearer {KEY}", f"${{NAME:-{KEY}}}"])
def test_secrets_in_headers_are_refused(folder: Folder, provider: FakeProvider, name: str, value: str) -> None:
    done = run(folder, ["Hello"], {**FAMILIES["chat"], "headers": {name: value}})
    assert done.code == 2
    assert "would store a secret" in done.err
    assert "key_env" in done.err
    assert KEY not in done.output


def test_a_header_may_name_a_variable_whose_value_is_stored_nowhere(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def respond(headers: Mapping[str, str], _: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, json.dumps(chat(f"it is {headers['helicone-auth']}")).encode()

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with server(respond) as url:
        headers = {"Helicone-Auth": "Bearer ${GATE}", "x-team": "mine"}
        variant = {**FAMILIES["chat"], "base_url": url, "headers": headers}
        missing = run(folder, ["Hello"], variant)
        assert missing.code == 4
        assert "GATE is not set" in missing.err
        monkeypatch.setenv("GATE", "gate-secret-xyz")
        done = run(folder, ["Hello"], variant)
        assert done.code == 0, done.err
    assert folder.sql("select answer from predictions") == [{"answer": "it is Bearer [GATE]"}]
    assert "gate-secret-xyz" not in done.output
    assert b"gate-secret-xyz" not in everything_written(folder.path)


def test_a_password_in_an_address_comes_only_from_the_environment_and_is_stored_nowhere(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers_sent = []

    def respond(headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        headers_sent.append(headers["authorization"])
        if body["messages"][-1]["content"] == "Hello":
            return 200, {}, json.dumps(chat("open-sesame")).encode()
        return 400, {}, b"not with open-sesame"

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with server(respond) as url:
        address = url.replace("http://", "http://me:open-sesame@")
        refused = run(folder, ["Hello"], {**FAMILIES["chat"], "base_url": address})
        assert refused.code == 2
        assert "OPENAI_BASE_URL" in refused.err
        assert "open-sesame" not in refused.output
        broken = run(folder, ["Hello"], {**FAMILIES["chat"], "base_url": address + ":99999"})
        assert "open-sesame" not in broken.output
        monkeypatch.setenv("OPENAI_BASE_URL", address)
        done = run(folder, ["Hello", "Goodbye"], FAMILIES["chat"])
    assert headers_sent[0] == "Basic " + base64.b64encode(b"me:open-sesame").decode()
    assert folder.sql("select answer from predictions where status = 'ok'") == [{"answer": "[OPENAI_BASE_URL]"}]
    assert "open-sesame" not in done.output
    spec = folder.path / "experiment.yaml"
    assert b"open-sesame" not in everything_written(folder.path).replace(spec.read_bytes(), b"")


def test_a_wrong_key_stops_the_run_and_says_what_to_set(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with FakeProvider.in_thread(keys=["another"]) as provider:
        done = run(folder, [f"Hello {n}" for n in range(9)], {**FAMILIES["anthropic"], "base_url": provider.url})
        assert len(request_bodies(provider)) == 3
    assert done.code == 3
    assert "anthropic: auth: 401" in done.err
    assert "export ANTHROPIC_API_KEY=..." in done.err
    assert "abreast resume" in done.err


# -- prices --------------------------------------------------------------------------------------------------------


def test_prices_in_the_spec_take_precedence(folder: Folder, provider: FakeProvider) -> None:
    prices = {"gpt-4.1": {"input": 1000, "output": 0, "cache_read": 0}}
    run(folder, ["[[fake: input=100 output=10 cached=40]] Hello"], FAMILIES["chat"], prices=prices)
    (row,) = folder.sql("select cost_usd, cost_basis from predictions")
    assert (row["cost_usd"], row["cost_basis"]) == (pytest.approx(60 * 1000 / 1e6), "estimated")


def test_a_model_without_a_price_has_no_cost_and_gives_a_note_before_the_run(
    folder: Folder, provider: FakeProvider
) -> None:
    run(folder, ["Hello"], {"target": "openai", "model": "my-own-model"})
    (row,) = folder.sql("select cost_usd, cost_basis from predictions")
    assert (row["cost_usd"], row["cost_basis"]) == (None, "unknown")
    variant = {"target": "openai", "model": "my-own-model", "base_url": "https://models.example.com/v1"}
    done = run(folder, ["Hello"], variant, "--dry-run")
    assert 'no price for "my-own-model"' in done.output


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        ({"m": {"input": -1, "output": 1}}, "at least 0"),
        ({"m": {"input": 1}}, "output"),
        ({"m": {"input": 1, "output": 1, "inptu": 2}}, "inptu"),
    ],
)
def test_an_invalid_price_is_refused_with_its_location(
    folder: Folder, provider: FakeProvider, prices: dict[str, Any], message: str
) -> None:
    done = run(folder, ["Hello"], FAMILIES["chat"], prices=prices)
    assert done.code == 2
    assert message in done.err
    assert "experiment.yaml" in done.err


def test_usage_included_in_a_subscription_does_not_count_against_a_budget(folder: Folder) -> None:
    folder.write(
        "mine.py",
        """
        from abreast import Answer

        def included(case):
            return Answer("4", cost_usd=1.0, cost_basis="included")

        def paid(case):
            return Answer("4", cost_usd=1.0, cost_basis="reported")
        """,
    )
    free = run(folder, list("abcdefgh"), {"target": "python:mine:included"}, limits={"budget_usd": 2.0})
    assert free.code == 0, free.err
    assert "$8.00 included" in free.out
    done = run(folder, list("abcdefgh"), {"target": "python:mine:paid"}, limits={"budget_usd": 2.0})
    assert done.code == 3
    assert "budget $2.00" in done.err


def test_paid_attempts_that_failed_count_against_the_budget_and_are_reported(folder: Folder) -> None:
    folder.write(
        "mine.py",
        """
        from abreast import Answer
        from abreast.errors import Transient

        tried = set()

        def flaky(case):
            if case.id not in tried:
                tried.add(case.id)
                raise Transient("the line went dead", answer=Answer("", cost_usd=1.0, cost_basis="reported"))
            return Answer("4", cost_usd=0.5, cost_basis="reported")
        """,
    )
    limits = {"budget_usd": 5.0, "retries": 1}
    done = run(folder, list("abcdefgh"), {"target": "python:mine:flaky"}, limits=limits)
    assert done.code == 3, "eight would cost $12"
    totals = folder.sql("select total(cost_usd) usd from predictions") + folder.sql(
        "select total(cost_usd) usd from attempts"
    )
    spent = sum(row["usd"] for row in totals)
    assert 3.0 <= spent <= 5.0
    assert f"(and ${totals[1]['usd']:.2f} for failed attempts)" in done.out
    resumed = folder.abreast("resume")
    assert resumed.code == 3
    assert folder.sql("select count(*) n from trials")[0]["n"] < 8, "resume counts earlier spending"


# -- limits, marks, reuse ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["anthropic", "chat"])
def test_announced_rate_limits_are_respected(folder: Folder, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    with FakeProvider.in_thread(rate=Rate(requests=4, seconds=1)) as provider:
        connect(provider, monkeypatch)
        done = run(folder, [f"Hello {n}" for n in range(10)], FAMILIES[family], limits={"parallel": 2})
    assert done.code == 0, done.err
    refused = folder.sql("select sum(attempts - 1) n from predictions")[0]["n"]
    assert refused <= 1, "one request may be sent in one window and arrive in the next"
    assert folder.sql("select count(*) n from events where kind = 'announced'")[0]["n"] >= 1


def test_answers_of_the_fake_provider_are_marked_as_simulated(folder: Folder, provider: FakeProvider) -> None:
    done = run(folder, ["Hello"], FAMILIES["anthropic"])
    assert "SIMULATED" in done.out
    assert folder.sql("select distinct simulated from predictions") == [{"simulated": 1}]


def test_an_unreachable_address_stops_the_run_and_is_named(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeProvider.in_thread() as provider:
        url = provider.url
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    target = {**FAMILIES["anthropic"], "base_url": url}
    done = run(folder, ["a", "b", "c", "d"], target, "--force", limits={"parallel": 4})
    assert done.code == 3
    assert url in done.err
    assert folder.sql("select distinct error_kind k from predictions") == [{"k": "network"}]


def test_a_run_in_which_everything_failed_names_its_first_error(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeProvider.in_thread() as provider:
        url = provider.url
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    target = {**FAMILIES["anthropic"], "base_url": url}
    limits = {"retries": 0, "parallel": 4}  # too few attempts for the breaker
    done = run(folder, ["a", "b"], target, "--force", limits=limits)
    assert done.code == 3
    assert "first error: network: anthropic: ConnectionRefusedError" in done.err


def test_a_transform_and_a_template_make_a_treatment_in_two_lines(folder: Folder, provider: FakeProvider) -> None:
    folder.write("shorten.py", "def first(value):\n    return {'numbers': value['numbers'][:2]}\n")
    content = {
        "name": "transform",
        "cases": [{"id": "a", "input": {"numbers": [1, 2, 3]}, "expected": "4"}],
        "target": "anthropic",
        "params": {"model": "claude-haiku-4-5", "prompt": "Numbers: {{ numbers }}"},
        "variants": {"baseline": {}, "treatment": {"transform": "python:shorten:first"}},
        "scorers": ["exact"],
    }
    folder.write("experiment.yaml", yaml.safe_dump(content, sort_keys=False))
    assert folder.abreast("run", "experiment.yaml").code == 0
    prompts = {row["variant"]: row["prompt"] for row in folder.sql("select variant, prompt from predictions")}
    assert prompts == {"baseline": "Numbers: [1, 2, 3]", "treatment": "Numbers: [1, 2]"}
    assert sorted(body["messages"][0]["content"] for body in request_bodies(provider)) == sorted(prompts.values())


def test_a_template_with_an_unknown_name_is_refused_and_fails_if_forced(folder: Folder, provider: FakeProvider) -> None:
    misspelt = {**FAMILIES["chat"], "prompt": "{{ qestion }}"}
    refused = run(folder, [{"question": "?"}], misspelt)
    assert refused.code == 4
    assert 'did you mean "question"?' in refused.err
    run(folder, [{"question": "?"}], misspelt, "--force")
    (row,) = folder.sql("select status, error from predictions")
    assert row["status"] == "error"
    assert "qestion" in row["error"]
    assert not request_bodies(provider)


def test_a_template_that_uses_tags_is_not_reused_for_other_tags(folder: Folder, provider: FakeProvider) -> None:
    variant = {**FAMILIES["chat"], "prompt": "{{ tags.kind }}: {{ input }}"}
    for kind in ("easy", "hard"):
        cases = [{"id": "a", "input": "Hello", "expected": "4", "tags": {"kind": kind}}]
        assert run(folder, [], variant, cases=cases).code == 0
    assert [body["messages"][0]["content"] for body in request_bodies(provider)] == ["easy: Hello", "hard: Hello"]


@pytest.mark.parametrize("change", [{"model": "claude-opus-4-5"}, {"temperature": 1}, {"system": "Be long."}, {}])
def test_an_answer_is_reused_unless_the_request_changed(
    folder: Folder, provider: FakeProvider, change: dict[str, Any]
) -> None:
    run(folder, ["Hello"], FAMILIES["anthropic"])
    run(folder, ["Hello"], {**FAMILIES["anthropic"], **change})
    assert len(request_bodies(provider)) == (2 if change else 1)


def test_moving_the_key_does_not_change_the_request(
    folder: Folder, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    for more in ({}, {"key_env": "MY_KEY"}, {"key_command": f"echo {KEY}x"}):
        assert run(folder, ["Hello"], {**FAMILIES["anthropic"], **more}).code == 0
    assert len(request_bodies(provider)) == 1


@pytest.mark.parametrize("template", ["pictures/dot.png", "pictures/{{ picture }}", "{{ folder }}/{{ picture }}"])
def test_another_picture_under_the_same_name_is_another_request(
    folder: Folder, provider: FakeProvider, template: str
) -> None:
    question = {"picture": "dot.png", "folder": "pictures"}
    variant = {**FAMILIES["chat"], "prompt": "Look", "images": [template]}
    file = folder.write("pictures/dot.png", PIXEL)
    for _ in range(2):
        assert run(folder, [question], variant).code == 0
    assert len(request_bodies(provider)) == 1
    file.write_bytes(PIXEL + b"!")
    assert run(folder, [question], variant).code == 0
    assert len(request_bodies(provider)) == 2


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"extra": {"day": datetime.date(2024, 1, 1)}}, "extra must be a mapping .*dates as text"),
        ({"extra": {"top_p": float("nan")}}, "extra must be"),
        ({"json": {"enum": {1, 2}}}, "json must be true, or a JSON Schema"),
        ({"max_tokens": 10**5000}, "max_tokens must be an integer .* too many digits"),
        ({"key_env": "\ud800"}, "key_env must be the name"),
        ({"key_command": "echo \ud800"}, "key_command must be a command"),
        ({"headers": {"a": "\u20ac"}}, "that headers cannot have"),
    ],
)
def test_unsendable_parameters_are_refused_when_the_target_is_built(params: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        build(Variant("v", "openai", {"model": "m", **params}), 0, {})


def test_a_broken_address_in_the_environment_is_named(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for target, variant in (
        ("anthropic", FAMILIES["anthropic"]),
        ("command", {"target": "command", "command": ["cat"]}),
    ):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://me:open-sesame@[::1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        done = run(folder, ["Hello"], variant, store=f"{target}.db")
        assert done.code == (2 if target == "anthropic" else 0), done.output
        assert ("unset ANTHROPIC_BASE_URL" in done.err) == (target == "anthropic")
        assert "open-sesame" not in done.output


HOSTILE = st.sampled_from(
    [
        *("http://[::1", "http://127.0.0.1:99999", "http://127.0.0.1:abc", "http://a\ud800", "http://a b", "http://@"),
        *("'unclosed", "a\0b", "\ud800", "{{", "{%", "python:x", 10**400, float("nan"), b"bytes"),
        *(
            datetime.date(2024, 1, 1),
            {"a": datetime.date(2024, 1, 1)},
            {"a": "b\r\nc: d"},
            {"a b": "c"},
            {"a": "\ud800"},
        ),
        *({1: 2}, {None: 1}, ["\ud800"], ["a\0b"], [["x"]], {"a": {1, 2}}),
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())) | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
OF_APIS = (
    *("model", "base_url", "system", "temperature", "max_tokens", "json", "extra", "images", "headers"),
    *("key_env", "key_command", "prompt", "transform"),
)
OF_COMMANDS = ("command", "args", "preset", "shell", "stdin", "model", "output", "answer", "usage", "cost")
PARAMETERS = [
    *(("anthropic", name) for name in OF_APIS),
    *(("openai", name) for name in (*OF_APIS, "api")),
    *(("command", name) for name in OF_COMMANDS),
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parameter=st.sampled_from(PARAMETERS), value=ANYTHING)
def test_any_parameter_value_gives_a_target_or_a_clear_error(
    tmp_path: Path, parameter: tuple[str, str], value: Any
) -> None:
    target, name = parameter
    needed = {"command": [os.devnull]} if target == "command" else {"model": "m"}
    try:
        instance = build(Variant("v", target, {**needed, name: value}), 0, {"base": tmp_path})
    except BadInput as error:
        assert error.message  # noqa: PT017
        return
    assert instance.version


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ({"target": "anthropic"}, "no model"),
        ({"target": "anthropic", "model": "m", "base_url": "http://127.0.0.1:99999"}, "an address such as"),
        ({"target": "anthropic", "model": "m", "base_url": "http://[::1"}, "an address such as"),
        ({"target": "anthropic", "model": "m", "base_url": "http://127.0.0.1:abc"}, "an address such as"),
        ({"target": "anthropic", "model": "m", "key_command": "echo 'x"}, "key_command must be a command"),
        ({"target": "openai", "model": "m", "headers": {"a": "b\r\nc: d"}}, "that headers cannot have"),
        ({"target": "openai", "model": "m", "headers": {"a b": "c"}}, "that headers cannot have"),
        ({"target": "command", "preset": ["codex"]}, "preset must be one of"),
        ({"target": "anthropic", "model": "m", "temprature": 1}, 'did you mean "temperature"'),
        ({"target": "anthropic", "model": "m", "temperature": 3}, "a number from 0 to 2"),
        ({"target": "anthropic", "model": "m", "max_tokens": 0}, "at least 1"),
        ({"target": "anthropic", "model": "m", "base_url": "localhost"}, "an address such as"),
        ({"target": "openai", "model": "m", "api": "completions"}, "chat or responses"),
        ({"target": "openai", "model": "m", "images": "a.png"}, "a list of templates"),
        ({"target": "openai", "model": "m", "prompt": "{{ a"}, "template, line 1"),
        ({"target": "antropic", "model": "m"}, 'did you mean "anthropic"'),
    ],
)
def test_a_wrong_parameter_is_named_with_a_fix(
    folder: Folder, provider: FakeProvider, variant: dict[str, Any], message: str
) -> None:
    done = run(folder, ["Hello"], variant)
    assert done.code == 2
    assert message in done.err
    assert 'variant "only"' in done.err


def test_a_dry_run_shows_the_request_and_sends_nothing(folder: Folder, provider: FakeProvider) -> None:
    done = run(folder, ["Hello there"], FAMILIES["anthropic"], "--dry-run")
    assert done.code == 0, done.err
    assert "Hello there" in done.output
    assert not request_bodies(provider)

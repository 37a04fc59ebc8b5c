"""Secrets are stored nowhere, and ordinary words are left alone."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast import Case, Experiment, Reader, Tracker
from conftest import Done, Folder
from test_api import FAMILIES, server

SECRET = 'q7/Zk+"wX 9é-Lm2\\v'  # every encoding changes it
NAMES = [
    *("API_KEY", "ACME_KEY", "ACME_KEYS", "ACME_TOKEN", "ACME_SECRET", "ACME_PAT", "ACME_PASS", "ACME_PASSWORD"),
    *("ACME_PWD", "ACME_CREDENTIALS", "ACME_AUTH", "ACME_COOKIE", "ACME_JWT", "ACME_PASSPHRASE", "ACME_DSN"),
    *("DATABASE_URL", "acme-api-key", "AWS_ACCESS_KEY_ID", "API_KEY_2"),
    *("ACME_PAT_2", "ACME_PASS1", "ACME_PASS_PROD", "ACME_JWT_OLD", "ACME_PASSCODE"),
]


def as_base64(before: bytes, alphabet: bytes = b"+/") -> Callable[[str], str]:
    return lambda secret: base64.b64encode(before + secret.encode() + b"after", alphabet).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: secret,
    "json": lambda secret: json.dumps(secret),
    "json in json": lambda secret: json.dumps(json.dumps({"key": secret})),
    "json in utf-8": lambda secret: json.dumps(secret, ensure_ascii=False),
    "percent": lambda secret: quote(secret, safe=""),
    "path": quote,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 without padding": lambda secret: base64.b64encode(secret.encode()).decode().rstrip("="),
    "base64 after 1 byte": as_base64(b"a"),
    "base64 after 2 bytes": as_base64(b"ab"),
    "base64 after 3 bytes": as_base64(b"abc"),
    "url-safe base64": as_base64(b"user:", b"-_"),
}


def stored(path: Path) -> bytes:
    """Everything that a run wrote: stores, journals, reports."""
    return b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file() and file.suffix != ".py")


def run(folder: Folder, variant: dict[str, Any], expected: str = "yes", **spec: Any) -> Done:
    content = {
        "name": "redaction",
        "cases": [{"id": "a", "input": "Hello", "expected": expected}],
        "variants": {"only": variant},
        "scorers": ["exact"],
        **spec,
    }
    folder.write("experiment.yaml", yaml.safe_dump(content, sort_keys=False))
    return folder.abreast("run", "experiment.yaml")


def message(text: str) -> bytes:
    return json.dumps({"id": "msg_1", "model": "m", "content": [{"type": "text", "text": text}]}).encode()


def stored_answer(folder: Folder, text: str) -> str:
    """The stored form of an answer with this text."""
    folder.write("answer.txt", text)
    run(folder, {"target": "command", "command": ["cat", "{folder}/answer.txt"]})
    (row,) = folder.sql("select answer from predictions")
    (folder.path / "answer.txt").unlink()
    return str(row["answer"])


@pytest.fixture
def api(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Call an API that gives this response and return the stored row."""

    def ask(status: int, headers: dict[str, str], body: bytes, expected: str = "yes", **spec: Any) -> dict[str, Any]:
        with server(lambda *_: (status, headers, body)) as url:
            variant = {**FAMILIES["anthropic"], "base_url": url}
            run(folder, variant, expected, limits={"retries": 0, "breaker": 99}, **spec)
        (row,) = folder.sql("select * from predictions")
        return row

    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-0123456789")
    return ask


# -- what is not a secret ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["none", "x", "e", "true", "test", "1234", "changeme", "my-api-key", "sunshine", "{"])
def test_a_short_or_common_key_changes_no_answer(
    api: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    row = api(200, {}, message(key), expected=key)
    assert (row["status"], row["answer"], row["score"]) == ("ok", key, 1.0)
    assert row["raw_response"] == message(key).decode()


def test_an_existing_path_is_not_a_secret(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder.write("service-account-1.json", "{}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    run(folder, {"target": "command", "command": ["echo", str(path)]})
    assert folder.sql("select answer from predictions") == [{"answer": str(path)}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SORT_KEY", "createdAt2x"),
        ("STRIPE_PUBLIC_KEY", "pk_live_0a1b2c3d"),
        ("MODEL_KEY", "claude-sonnet-4-5"),
        ("COLUMN_KEYS", "created_at,updated_at"),
        ("LOOKUP_KEY", "production-eu"),
    ],
)
def test_names_of_columns_models_and_regions_are_not_secrets(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert stored_answer(folder, value) == value


def test_plain_words_are_a_secret_if_the_variable_name_is_unambiguous(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_PASSWORD", "production-eu")
    monkeypatch.setenv("ACME_KEY", "correct-horse-battery-staple")
    assert stored_answer(folder, "production-eu correct-horse-battery-staple") == "[ACME_PASSWORD] [ACME_KEY]"


def test_a_key_of_another_account_stays_in_an_answer_and_not_in_an_error(api: Callable[..., dict[str, Any]]) -> None:
    other = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    assert api(200, {}, message(f"use {other}"))["answer"] == f"use {other}"


def test_text_in_the_format_of_a_key_is_removed_from_errors(api: Callable[..., dict[str, Any]]) -> None:
    other = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    row = api(500, {}, json.dumps({"error": {"message": f"no access with {other}."}}).encode())
    assert row["error"].endswith("no access with [redacted github-pat].")


# -- API targets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_variables_with_these_names_are_secrets(
    api: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    secret = f"v4lue-of-{name.lower()}"
    monkeypatch.setenv(name, secret)
    row = api(200, {}, message(f"it is {secret}"))
    assert row["answer"] == f"it is [{name}]"
    assert secret not in str(row)


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("ACME_KEYS", '{"openai": "sk-map-1a2b3c"}', ["sk-map-1a2b3c"]),
        ("ACME_API_KEYS", '["sk-1a2b3c4d", "sk-5e6f7a8b"]', ["sk-1a2b3c4d", "sk-5e6f7a8b"]),
        ("ACME_CONFIG", '{"auths": {"r.example": {"auth": "YW5uOmh1bnRlcjIx"}}}', ["YW5uOmh1bnRlcjIx", "hunter21"]),
        ("ACME_AUTH", "ann:hunter-two", ["hunter-two"]),
        ("ACME_AUTH", "Basic YW5uOmh1bnRlcjIx", ["hunter21"]),
        ("ACME_AUTH", "Bearer a1b2c3d4", ["a1b2c3d4"]),
        ("ACME_COOKIE", "theme=dark; sid=a1b2c3d4; Path=/", ["a1b2c3d4"]),
        ("ACME_STORAGE", "Server=db;User Id=ann;Pwd=S3cr3t,pw;Encrypt=true", ["S3cr3t,pw"]),
        ("ACME_STORAGE", "host=db user=ann password=S3cr3t-pw dbname=shop", ["S3cr3t-pw"]),
    ],
)
def test_parts_of_a_value_are_secrets(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, name: str, value: str, secrets: list[str]
) -> None:
    monkeypatch.setenv(name, value)
    assert stored_answer(folder, "\n".join(secrets)) == "\n".join([f"[{name}]"] * len(secrets))


def test_public_fields_of_credentials_are_not_secrets(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_CREDENTIALS", '{"project_id": "shop-4711ab", "private_key": "a1b2c3d4e5"}')
    assert stored_answer(folder, "shop-4711ab a1b2c3d4e5") == "shop-4711ab [ACME_CREDENTIALS]"


@pytest.mark.parametrize(
    ("width", "line_template", "line_break"),
    [(64, "{}", "\n"), (76, "{}", "\r\n"), (76, "{}", "\\n"), (76, "+{}", "\n"), (64, "    {}", "\n")],
)
def test_a_secret_is_found_in_base64_across_lines(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, width: int, line_template: str, line_break: str
) -> None:
    secret = "s3cret-0123456789-abcdefghijklmnop"
    monkeypatch.setenv("ACME_KEY", secret)
    encoded = base64.b64encode(b"x" * 40 + secret.encode() + b"y" * 80).decode()
    lines = [line_template.format(encoded[at : at + width]) for at in range(0, len(encoded), width)]
    answer = stored_answer(folder, line_break.join(lines))
    assert "[ACME_KEY]" in answer
    assert base64.b64encode(b"y" * 60).decode()[4:40] in answer.replace(line_break + line_template[:-2], "")
    assert base64.b64encode(secret[2:].encode()).decode()[:12] not in answer


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_in_every_form(
    folder: Folder, api: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("ACME_KEY", SECRET)
    row = api(200, {"request-id": f"req-{quote(SECRET)}"}, message(FORMS[form](SECRET)))
    assert row["status"] == "ok"
    assert "[ACME_KEY]" in row["answer"]
    assert row["request_id"] == "req-[ACME_KEY]"
    assert json.loads(row["raw_response"])["content"][0]["text"] == row["answer"]
    for shape in FORMS.values():
        assert shape(SECRET).encode() not in stored(folder.path)


def test_a_response_with_unusual_escapes_is_redacted_too(
    api: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", "s3cret-value-xyz")
    escaped = "".join(f"\\u{ord(char):04X}" for char in "s3cret-value-xyz").encode()
    row = api(200, {}, message("HERE").replace(b"HERE", escaped))
    assert row["answer"] == "[ACME_KEY]"
    assert json.loads(row["raw_response"])["content"][0]["text"] == "[ACME_KEY]"


@pytest.mark.parametrize("separator", ["", "\n"])
def test_a_raw_response_with_unusual_escapes_beside_the_answer_is_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, separator: str
) -> None:
    secret = 'q7+Zk"wX&9é-Lm2'
    monkeypatch.setenv("ACME_KEY", secret)
    escaped = "".join(char if char.isascii() and char.isalnum() else f"\\u{ord(char):04X}" for char in secret)
    raw = f'{{"text": "yes"}}{separator}{{"debug": "{escaped}"}}'
    variants = {"only": {"target": lambda case: {"answer": "yes", "raw_response": raw}}}
    cases = [Case("a", "?", "yes")]
    Experiment(name="e", cases=cases, variants=variants, scorers=["exact"], store=tmp_path / "results.db").run()
    assert f'{{"text": "yes"}}{separator}{{"debug": "[ACME_KEY]"}}'.encode() in stored(tmp_path)
    assert escaped.encode() not in stored(tmp_path)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (500, {}, "no: {}"),
        (401, {}, '{{"error": {{"type": "authentication_error", "message": "bad key {}"}}}}'),
        (302, {"location": "https://there.example/?key={}"}, ""),
        (200, {}, "x" * 190 + "{}"),  # cut off inside the key
        (200, {}, '{{"error": {{"message": "' + "x" * 480 + '{}"}}}}'),
    ],
)
def test_errors_of_providers_contain_no_secret(
    folder: Folder,
    api: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    headers: dict[str, str],
    body: str,
) -> None:
    secret = "pr1vate-0123456789-abcdefghijklmnop"
    monkeypatch.setenv("ANTHROPIC_API_KEY", secret)
    filled = {name: value.format(secret) for name, value in headers.items()}
    assert api(status, filled, body.format(secret).encode())["status"] == "error"
    assert secret[:8].encode() not in stored(folder.path)


def test_a_score_is_computed_on_the_text_as_stored(
    folder: Folder, api: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_TOKEN", "s3cret-value-xyz")
    row = api(200, {}, message("it is s3cret-value-xyz"), expected="it is s3cret-value-xyz")
    assert (row["answer"], row["expected"], row["score"]) == ("it is [ACME_TOKEN]", "it is [ACME_TOKEN]", 1.0)
    assert folder.abreast("rescore", "latest").code == 0
    assert folder.sql("select score from predictions") == [{"score": 1.0}]


def test_a_password_in_the_address_of_an_api_is_a_secret(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = []

    def respond(headers: Mapping[str, str], _: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, message(f"pa55word-xyz, s1gned-query, {headers['authorization']}")

    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with server(respond, paths.append) as url:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", url.replace("//", "//ann:pa55word-xyz@") + "?v=1&api_key=s1gned-query")
        run(folder, FAMILIES["anthropic"])
    name = "[ANTHROPIC_BASE_URL]"
    assert folder.sql("select answer from predictions") == [{"answer": f"{name}, {name}, Basic {name}"}]
    assert paths[-1] == "/v1/messages?v=1&api_key=s1gned-query"
    assert b"pa55word-xyz" not in stored(folder.path)
    assert b"s1gned-query" not in stored(folder.path)


def test_a_secret_in_the_query_of_a_written_address_is_refused(folder: Folder) -> None:
    done = run(folder, {**FAMILIES["anthropic"], "base_url": "http://127.0.0.1:9/?api_key=s1gned-query"})
    assert done.code == 2
    assert "base_url would store a password" in done.err
    assert "s1gned-query" not in done.output


def test_passwords_in_any_url_of_the_environment_are_secrets(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM", "postgres://ann:p%40ssw0rd-xyz@db.example/shop?sslmode=require")
    run(folder, {"target": "command", "command": ["echo", "p@ssw0rd-xyz p%40ssw0rd-xyz db.example"]})
    assert folder.sql("select answer from predictions") == [{"answer": "[UPSTREAM] [UPSTREAM] db.example"}]


def test_labels_groups_and_names_of_tags_contain_no_secret(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "s3cret-value-xyz"
    monkeypatch.setenv("ACME_TOKEN", secret)
    case = {"id": "a", "input": "?", "expected": "yes", "group": secret, "tags": {secret: secret}}
    spec = {"name": "e", "cases": [case], "variants": {"only": {"target": "simulated"}}, "scorers": ["exact"]}
    folder.write("experiment.yaml", yaml.safe_dump(spec))
    assert folder.abreast("run", "experiment.yaml", "--label", f"v-{secret}").code in (0, 1)
    (folder.path / "experiment.yaml").unlink()
    (row,) = folder.sql("select r.label, c.case_group, c.tags from runs r, cases c")
    assert row == {"label": "v-[ACME_TOKEN]", "case_group": "[ACME_TOKEN]", "tags": '{"[ACME_TOKEN]":"[ACME_TOKEN]"}'}
    assert folder.abreast("tag", "latest", f"w-{secret}").out.endswith(": w-[ACME_TOKEN]\n")
    assert secret.encode() not in stored(folder.path)


@pytest.mark.parametrize(
    "words", [("s3cret-value-xyz",), ("run", "s3cret-value-xyz.yaml"), ("ls", "--s3cret-value-xyz")]
)
def test_an_error_message_contains_no_secret(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ACME_TOKEN", "s3cret-value-xyz")
    done = folder.abreast(*words)
    assert done.code == 2
    assert "[ACME_TOKEN]" in done.err
    assert "s3cret-value-xyz" not in done.output


# -- agents --------------------------------------------------------------------------------------------------------


def test_variables_referenced_in_the_environment_of_a_variant_are_secrets(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES", "wing3d-sandals")
    variant = {"command": "echo $LOGIN; echo $LOGIN >&2", "shell": True, "env": {"LOGIN": "${HERMES}"}}
    run(folder, {"target": "command", **variant})
    assert folder.sql("select answer from predictions") == [{"answer": "[HERMES]"}]
    assert b"wing3d-sandals" not in stored(folder.path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("content", ["", "\0\1\2 binary \0"])
def test_a_file_that_contains_a_secret_is_not_in_the_diff(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, encoding: str, content: str
) -> None:
    secret = "s3cret-0123456789-abcdefghijklmnop"
    monkeypatch.setenv("ACME_KEY", secret)
    folder.write(
        "agent.py",
        f"""
        import os
        text = {content!r} + os.environ["ACME_KEY"] + {content!r}
        open("key.bin", "wb").write(text.encode({encoding!r}))
        open("other.bin", "wb").write(b"\\0harmless")
        print("yes")
        """,
    )
    run(folder, {"target": "command", "command": ["python", "{folder}/agent.py"]})
    ((content,),) = [tuple(row.values()) for row in folder.sql("select content from artifacts where name = 'diff'")]
    assert "[ACME_KEY]" in content
    assert content.count("GIT binary patch") == 1, "the other file is kept"
    assert secret.encode() not in stored(folder.path)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("lost", [0, 6, 20, 33])
def test_output_cut_inside_a_secret_shows_no_part_of_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, stream: str, lost: int
) -> None:
    secret = "s3cret-0123456789-abcdefghijklmnopqrstu"
    monkeypatch.setenv("ACME_KEY", secret)
    size = {"stdout": 1_000_000, "stderr": 4_000}[stream]
    folder.write(
        "agent.py",
        f"""
        import os, sys
        after = {size} - len(os.environ["ACME_KEY"]) + {lost}
        sys.{stream}.write("x" * 2_000_000 + os.environ["ACME_KEY"] + "y" * after)
        """,
    )
    done = run(folder, {"target": "command", "command": ["python", "{folder}/agent.py"]})
    assert done.code in (0, 1, 3), done.err
    written = stored(folder.path)
    assert b"y" * 3_000 in written
    assert not any(secret[at : at + 6].encode() in written for at in range(len(secret) - 5))


# -- Python ---------------------------------------------------------------------------------------------------------


def returns_secret(case: Case) -> dict[str, Any]:
    secret = os.environ["ACME_SECRET"]
    return {"answer": f"it is {secret}", "details": {"nested": [secret]}, secret: 1, "object": Path(secret)}


def raises_secret(case: Case) -> str:
    raise ValueError(f"no access with {os.environ['ACME_SECRET']}")


@pytest.mark.parametrize("target", [returns_secret, raises_secret])
def test_a_python_target_cannot_store_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Callable[[Case], Any]
) -> None:
    monkeypatch.setenv("ACME_SECRET", "s3cret-value-xyz")
    cases = [Case("a", "is it s3cret-value-xyz?", "it is s3cret-value-xyz")]
    variants = {"only": {"target": target}}
    Experiment(name="e", cases=cases, variants=variants, scorers=["exact"], store=tmp_path / "results.db").run()
    (row,) = Reader(tmp_path / "results.db").to_df().to_dict("records")
    assert (row["answer"] or row["error"]).endswith("[ACME_SECRET]")
    assert row["prompt"] == "is it [ACME_SECRET]?"
    assert b"s3cret-value-xyz" not in stored(tmp_path)


def test_a_scorer_that_crashes_with_a_secret_does_not_store_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def score(case: Case, answer: Any) -> float:
        raise ValueError(os.environ["ACME_SECRET"])

    monkeypatch.setenv("ACME_SECRET", "s3cret-value-xyz")
    variants = {"only": {"target": lambda case: "yes"}}
    cases = [Case("a", "?")]
    Experiment(name="e", cases=cases, variants=variants, scorers=[score], store=tmp_path / "results.db").run()
    assert b"s3cret-value-xyz" not in stored(tmp_path)
    assert b"crashed: ValueError: [ACME_SECRET]" in stored(tmp_path)


def test_a_tracker_stores_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(word: str, fails: bool = False) -> dict[str, Any]:
        if fails:
            raise ValueError(f"no access with {word}")
        return {"text": word, "nested": {"list": [word]}, "bytes": word.encode("utf-16-le"), word: 1}

    with Tracker(tmp_path / "results.db", cache=tmp_path / "cache", params={"common": "s3cret-value-xyz"}) as tracker:
        monkeypatch.setenv("ACME_PAT", "s3cret-value-xyz")  # after the tracker was made
        with pytest.warns(UserWarning, match="it contains the value of ACME_PAT"):
            assert tracker.track(call, ["s3cret-value-xyz"])["text"] == "s3cret-value-xyz", "the caller gets it all"
        tracker.track(call, ["s3cret-value-xyz"], {"fails": True})
        tracker.log({"note": "s3cret-value-xyz"})
        frame = tracker.to_df()
    assert list(frame["word"])[:2] == ["[ACME_PAT]", "[ACME_PAT]"]
    assert frame["error"][1] == "ValueError: no access with [ACME_PAT]"
    assert frame["note"][2] == "[ACME_PAT]"
    written = stored(tmp_path)
    assert b"s3cret-value-xyz" not in written
    assert "s3cret-value-xyz".encode("utf-16-le") not in written


# -- anything ------------------------------------------------------------------------------------------------------

SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=("Cs", "Cc")), min_size=8)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, Any]:
    """A secret and a JSON document that contains it somewhere in some form."""
    secret = "s3cret" + draw(SECRETS)
    hidden = FORMS[draw(st.sampled_from(sorted(FORMS)))](secret)
    words = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
    leaf = st.tuples(words, words).map(lambda pair: pair[0] + hidden + pair[1])
    leaves = st.one_of(leaf, words, st.integers(), st.none())
    tree = draw(
        st.recursive(
            leaves,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner),
            max_leaves=5,
        )
    )
    return secret, {"tree": tree, "leaf": draw(leaf), hidden: 1}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents())
def test_no_stored_field_contains_a_secret(tmp_path_factory: pytest.TempPathFactory, document: tuple[str, Any]) -> None:
    secret, content = document
    folder = tmp_path_factory.mktemp("property")

    def target(case: Case, fails: bool) -> dict[str, Any]:
        if fails:
            raise ValueError(json.dumps(content))
        return {"answer": content["leaf"], "data": content, "raw_response": json.dumps(content)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACME_TOKEN", secret)
        Experiment(
            name="e",
            cases=[Case("a", content, content["leaf"])],
            variants={"ok": {"fails": False}, "failed": {"fails": True}},
            target=target,
            scorers=["exact"],
            store=folder / "results.db",
        ).run()
    written = stored(folder)
    assert not [form for form, shape in FORMS.items() if shape(secret).encode() in written]

"""The suite code-search end to end: the real Claude Code CLI, the demo server and the fake provider."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from abreast.fake import FakeProvider, Reply, Rule
from abreast.suites.code_search import SUITE
from abreast.suites.starters import write_starter
from clis import real_cli
from conftest import Done, Folder

BIN = Path(sys.executable).parent


@pytest.fixture
def shop(folder: Folder) -> Folder:
    """The repository that `abreast init code-search` writes, committed."""
    write_starter("code-search", folder.path)
    commit(folder.path / "shop")
    return folder


def commit(repo: Path) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "all")):
        subprocess.run(["git", "-C", repo, *words], check=True, capture_output=True)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProvider]:
    """A model that calls the tools of the demo server and answers what they returned. Without the server there is no
    such tool; for the last question everybody uses Grep, and says it in the form that is asked for."""
    monkeypatch.setenv("PATH", f"{real_cli('claude').parent}:{BIN}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    for name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    right = '{"files": ["config.toml"], "lines": {"config.toml": [6]}}'
    rules = [
        Rule("class `OrderBook`", [Reply(tool="mcp__demo__find_symbol", args={"name": "OrderBook"}, cached=7)]),
        Rule("call `line_total`", [Reply(tool="mcp__demo__find_references", args={"name": "line_total"})]),
        Rule("delivery is free", [Reply(tool="Grep", args={"pattern": "free_delivery"}), right]),
    ]
    with FakeProvider.in_thread(rules) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nobody-0123456789")
        yield running


def run(folder: Folder, *words: str) -> Done:
    return folder.abreast("run", "code-search", "--repo", "shop", *words)


def request_bodies(provider: FakeProvider) -> list[dict[str, Any]]:
    return [
        request.body for request in provider.requests if request.method == "POST" and request.path.endswith("/messages")
    ]


CASES = ("--case", "search-001", "--case", "nav-001", "--case", "search-003")


def test_an_agent_finds_code_with_the_demo_server_and_not_without_it(shop: Folder, provider: FakeProvider) -> None:
    done = run(shop, *CASES, "--parallel", "4", "--verbose")
    assert done.code == 0, done.err
    assert "mcp: demo: 4 tools (search_code, find_symbol, find_references, outline_file)" in done.err
    assert "each trial gets 10 files" in done.err, "the shop without its cases"
    rows = {(row["case_id"], row["variant"]): row for row in shop.sql("select * from predictions")}
    assert len(rows) == 6
    assert all(row["status"] == "ok" for row in rows.values()), [row["error"] for row in rows.values()]
    for case in ("search-001", "nav-001"):
        assert rows[case, "with_mcp"]["score_retrieval_recall"] == 1.0, rows[case, "with_mcp"]["answer"]
        assert rows[case, "without_mcp"]["score"] == 0.0
    assert rows["search-001", "with_mcp"]["score"] == 1.0
    assert json.loads(rows["nav-001", "with_mcp"]["tools"]) == {"mcp__demo__find_references": 1}
    assert rows["search-003", "without_mcp"]["score"] == 1.0
    assert {row["model"] for row in rows.values()} == {rows["search-001", "with_mcp"]["model"]}
    assert "with_mcp vs without_mcp" in done.out
    assert "SIMULATED" in done.out
    for case, variant in rows:  # verbose lines name the case and variant that starts or ends
        assert re.search(rf"^start  {case} {variant}$", done.err, re.M)
        assert re.search(rf"^end    {case} {variant}: ok \(", done.err, re.M)


def test_both_arms_differ_only_in_the_server_and_its_tools(shop: Folder, provider: FakeProvider) -> None:
    done = run(shop, "--case", "search-003", "--model", "haiku")
    assert done.code == 0, done.err
    first = [
        body
        for body in request_bodies(provider)
        if body.get("tools") and "tool_result" not in json.dumps(body["messages"])
    ]
    tools = [{tool["name"] for tool in body["tools"]} - {"DeferredToolPlaceholder"} for body in first]  # the CLI's own
    servers = {
        "mcp__demo__search_code",
        "mcp__demo__find_symbol",
        "mcp__demo__find_references",
        "mcp__demo__outline_file",
    }
    assert sorted(tools, key=len) == [{"Bash", "Glob", "Grep", "Read"}, {"Read", *servers}]
    assert len({body["model"] for body in first}) == 1
    questions = ["delivery is free" in json.dumps(body["messages"]) for body in first]
    assert questions == [True, True]
    variants = shop.sql("select name, params from variants")
    text = {row["name"]: json.loads(row["params"]) for row in variants}
    shared = ("model", "max_turns", "prompt", "workspace", "on_denied")
    assert all(text["with_mcp"][key] == text["without_mcp"][key] for key in shared)
    assert (text["with_mcp"]["model"], text["with_mcp"]["max_turns"]) == ("haiku", 20)


def test_search_tools_can_be_given_to_both_arms(shop: Folder, provider: FakeProvider) -> None:
    done = run(shop, "--case", "search-003", "--search-tools", "both")
    assert done.code == 0, done.err
    rows = {row["variant"]: row for row in shop.sql("select variant, score, tools from predictions")}
    assert rows["with_mcp"] == {"variant": "with_mcp", "score": 1.0, "tools": '{"Grep":1}'}
    run_name = shop.sql("select distinct run from predictions")[0]["run"]
    results = shop.abreast("validate", run_name, "--json").json
    assert not [result for result in results if result["check"] == "differences"]


def test_neither_arm_sees_the_cases_or_earlier_answers(shop: Folder, provider: FakeProvider) -> None:
    """The cases with their answers are in the repository; an agent must not be able to read them there."""
    look = 'find . -not -path "./.git/*" -type f'
    case = {
        "id": "look",
        "prompt": f"[[fake: tool=Bash args={json.dumps({'command': look})}]] What is there?",
        "ground_truth": {"files": ["app/"]},
    }
    shop.write("shop/evals/cases/look.jsonl", json.dumps(case) + "\n")
    shop.write("shop/.abreast/notes.txt", "answers")
    for words in ((), ("--workspace", "copy")):
        done = run(shop, "--cases", "shop/evals/cases/look.jsonl", "--variant", "without_mcp", *words, "--fresh")
        assert done.code == 0, done.err
    rows = shop.sql("select answer, files_changed from predictions")
    assert len(rows) == 2
    for row in rows:
        assert "app/orders.py" in row["answer"]
        assert "look.jsonl" not in row["answer"]
        assert ".abreast" not in row["answer"]
        assert row["files_changed"] == 0, "excluded files do not count as changes of the agent"


def excluded_paths(folder: Path, *words: str) -> list[str]:
    """The paths of the repository that are excluded from the workspaces of trials."""
    parser = argparse.ArgumentParser()
    SUITE.arguments(parser)
    with contextlib.chdir(folder):
        results: list[str] = SUITE.experiment(parser.parse_args(words)).spec.params["workspace"]["without"]
    return results


def test_another_case_file_does_not_change_the_workspaces_of_trials(shop: Folder) -> None:
    assert excluded_paths(shop.path, "--repo", "shop") == [".abreast", "evals/cases"]
    shop.write("shop/evals/cases/more.jsonl", one_case("more"))
    assert excluded_paths(shop.path, "--repo", "shop") == [".abreast", "evals/cases"]
    cases_flag = ("--cases", "shop/evals/cases/more.jsonl")
    assert excluded_paths(shop.path, "--repo", "shop", *cases_flag) == [".abreast", "evals/cases"]


def test_code_next_to_cases_and_reports_is_not_excluded(shop: Folder) -> None:
    shop.write("shop/cases/models.py", "class Case: ...\n")
    shop.write("shop/cases/[a]*.jsonl", one_case("odd"))
    shop.write("shop/data/one.jsonl", one_case("one"))
    shop.write("shop/data/two.jsonl", "{}\n")
    hidden = excluded_paths(shop.path, "--repo", "shop", "--cases", "shop/data/one.jsonl")
    assert hidden == [".abreast", "cases/[a]*.jsonl", "data/one.jsonl", "evals/cases"]
    shop_folder = shop.path / "shop"
    assert "runs" in excluded_paths(shop_folder, "--cases", "data/one.jsonl")
    shop.write("shop/runs/engine.py", "def run(): ...\n")
    assert "runs" not in excluded_paths(shop_folder, "--cases", "data/one.jsonl")
    shop.write("shop/runs/calm-owl-1/.abreast.json", "{}")
    assert "runs/calm-owl-1" in excluded_paths(shop_folder, "--cases", "data/one.jsonl")


def test_links_to_cases_are_excluded_too(shop: Folder) -> None:
    shop.write("elsewhere/some.jsonl", one_case("some"))
    shutil.rmtree(shop.path / "shop/evals")
    (shop.path / "shop/cases").symlink_to(shop.path / "elsewhere")
    assert excluded_paths(shop.path, "--repo", "shop") == [".abreast", "cases"]
    (shop.path / "shop/cases").unlink()
    (shop.path / "shop/cases").mkdir()
    shop.write("shop/cases/code.py", "")
    (shop.path / "shop/cases/x.jsonl").symlink_to(shop.path / "elsewhere/some.jsonl")
    assert excluded_paths(shop.path, "--repo", "shop") == [".abreast", "cases/x.jsonl"]


def test_committing_a_case_keeps_answers_reusable_and_changing_code_does_not(
    shop: Folder, provider: FakeProvider
) -> None:
    words = ("--case", "search-003", "--variant", "without_mcp", "--json")
    assert run(shop, *words).json[0]["executed"] == 1
    shop.write("shop/evals/cases/more.jsonl", one_case("more"))
    commit(shop.path / "shop")
    assert run(shop, *words).json[0]["executed"] == 0
    shop.write("shop/app/more.py", "x = 1\n")
    commit(shop.path / "shop")
    assert run(shop, *words).json[0]["executed"] == 1


def test_a_tool_that_is_not_allowed_is_counted_and_the_agent_goes_on(shop: Folder, provider: FakeProvider) -> None:
    case = {
        "id": "denied",
        "prompt": '[[fake: tool=Bash args={"command": "rm -f README.md"}]] [[fake: say="app/orders.py"]]',
        "ground_truth": {"files": ["app/orders.py"]},
    }
    shop.write("mine/one.jsonl", json.dumps(case) + "\n")
    done = run(shop, "--cases", "mine", "--variant", "without_mcp")
    assert done.code == 0, done.err
    assert shop.sql("select status, score, tools_denied, files_changed from predictions") == [
        {"status": "ok", "score": 1.0, "tools_denied": 1, "files_changed": 0}
    ]


def test_a_server_that_does_not_start_is_refused_before_any_paid_request(shop: Folder, provider: FakeProvider) -> None:
    done = run(shop, "--mcp", "broken=false", "--case", "search-001")
    assert done.code == 4
    assert "broken" in done.err
    assert not request_bodies(provider)


def test_without_a_login_the_error_suggests_mock(
    shop: Folder, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    done = run(shop)
    assert done.code == 4
    assert "not logged in" in done.err
    assert "abreast run code-search --mock" in done.err


# -- the variants ----


def variants(folder: Folder) -> dict[str, dict[str, Any]]:
    results = folder.sql("select name, params from variants where run_id = (select max(run_id) from variants)")
    return {row["name"]: json.loads(row["params"]) for row in results}


def test_further_servers_and_tool_sets_are_further_variants(shop: Folder) -> None:
    shop.write("servers.json", json.dumps({"mcpServers": {"a": {"command": "one"}, "b": {"command": "two"}}}))
    mcp = ("--mcp", "near=codetect mcp --quick", "servers.json")
    done = run(shop, "--mock", *mcp, "--tools", "plain=Read,Grep", "--tools", "none=Read")
    assert done.code == 0, done.err
    results = variants(shop)
    assert list(results) == ["without_mcp", "with_near", "with_servers", "plain", "none"]
    assert results["with_near"]["mcp"] == {"near": {"command": "codetect", "args": ["mcp", "--quick"]}}
    assert results["with_servers"]["mcp"] == "servers.json"
    assert run(shop, "--mock", "--mcp", "near=codetect", "mcp", "--store", "one.db").code == 0
    (row,) = shop.sql("select params from variants where name = 'with_mcp'", "one.db")
    assert json.loads(row["params"])["mcp"] == {"near": {"command": "codetect", "args": ["mcp"]}}
    assert results["plain"]["tools"] == ["Read", "Grep"]
    assert "mcp" not in results["plain"]


def test_a_command_may_have_quotes_variables_and_settings_of_its_environment(shop: Folder) -> None:
    command = "a=MODE=fast x --name 'two words' --query=a=b --token '${SHOP_TOKEN}'"
    done = run(shop, "--mock", "--mcp", command)
    assert done.code == 0, done.err
    args = ["--name", "two words", "--query=a=b", "--token", "${SHOP_TOKEN}"]
    assert variants(shop)["with_mcp"]["mcp"] == {"a": {"command": "x", "args": args, "env": {"MODE": "fast"}}}


def test_a_server_may_be_an_address_with_headers_from_the_environment(shop: Folder) -> None:
    done = run(shop, "--mock", "--mcp", "near=http://127.0.0.1:9/mcp")
    assert done.code == 0, done.err
    assert variants(shop)["with_mcp"]["mcp"] == {"near": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}
    done = run(shop, "--mock", "--mcp", "near=Authorization='Bearer ${SHOP_TOKEN}' X-Team=a https://example.com/mcp")
    assert done.code == 0, done.err
    assert variants(shop)["with_mcp"]["mcp"]["near"]["headers"] == {
        "Authorization": "Bearer ${SHOP_TOKEN}",
        "X-Team": "a",
    }


def test_an_address_where_nothing_listens_fails_the_check(shop: Folder, provider: FakeProvider) -> None:
    done = run(shop, "--mcp", "near=http://127.0.0.1:9/mcp", "--start-timeout", "5s")
    assert done.code == 4
    assert "near" in done.err
    assert not request_bodies(provider)


def test_slow_servers_may_get_more_time_to_start(shop: Folder) -> None:
    assert (
        run(shop, "--mock", "--mcp", "a=x --quick", "b=https://example.com/mcp", "--start-timeout", "1m30s").code == 0
    )
    results = variants(shop)
    assert results["with_a"]["mcp"]["a"]["start_timeout"] == 90
    assert results["with_b"]["mcp"]["b"]["start_timeout"] == 90
    assert run(shop, "--mock", "--start-timeout", "45s").code == 0
    assert variants(shop)["with_mcp"]["mcp"]["demo"]["start_timeout"] == 45


def test_short_flags_equal_the_long_ones(shop: Folder) -> None:
    for words in (("-j", "4", "-v"), ("-j4", "-v"), ("--parallel", "4", "--verbose")):
        done = run(shop, "--mock", "--fresh", *words)
        assert done.code == 0, done.err
        assert "4 requested" in done.err
        assert "search-001" in done.err, "verbose: a line for each trial"


def test_the_limit_of_turns_is_named_when_it_is_reached(shop: Folder, provider: FakeProvider) -> None:
    done = run(shop, "--case", "search-003", "--variant", "with_mcp", "--variant", "without_mcp", "--max-turns", "1")
    assert done.code in (0, 1, 3), done.err
    errors = {row["error"] for row in shop.sql("select error from predictions where error_kind = 'no_answer'")}
    assert errors == {"no answer within 1 turn"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--mcp", "a=https://me:pass@example.com/mcp"), "contains a secret"),
        (("--mcp", "a=Authorization=abcdef https://example.com/mcp"), "is a secret in plain text"),
        (("--start-timeout", "soon"), "--start-timeout soon"),
        (("--mcp", "codetect"), "--mcp codetect: no such file"),
        (("--mcp", "a=x", "serverz.json"), "--mcp serverz.json: no such file"),
        (("--mcp", "a="), "--mcp a=: the command is missing"),
        (("--mcp", 'a="x'), "no closing quotation"),
        (("--mcp", "a b=x"), '"a b" is not a valid server name'),
        (("--mcp", "a=x", "--mcp", "a=y"), '"a" is used twice'),
        (("--tools", "Read"), "--tools Read: must be NAME=TOOL,TOOL"),
        (("--tools", "x="), "must be NAME=TOOL,TOOL"),
        (("--tools", "without_mcp=Read"), 'two variants are called "without_mcp"'),
        (("--timeout", "soon"), "--timeout soon: must be a duration such as 90s, 5m or 1h30m"),
        (("--timeout", "0s"), "--timeout 0s"),
        (("--max-turns", "0"), "--max-turns 0: must be a whole number of at least 1"),
        (("--category", "serach"), '--category serach: no such category (did you mean "search"?)'),
        (("--cases", "nowhere"), "--cases nowhere: no such file or folder"),
        (("--cases", "shop/app"), "no .jsonl file in it"),
        (("--repo", "nowhere"), "--repo nowhere: no such folder"),
        (("--quota", "lots"), "quota"),
        (("--workspace", "copy", "--commit", "HEAD"), "--commit HEAD: a copy has no commits"),
        (
            ("--repo", "shop/app", "--cases", "shop/evals/cases", "--workspace", "git"),
            "is not the root of a git repository",
        ),
        (
            ("--repo", "shop/app", "--cases", "shop/evals/cases", "--commit", "HEAD"),
            "is not the root of a git repository",
        ),
        (("--model", " "), "--model is empty"),
        (("--category", ","), "--category ,: no category named"),
        (("--mcp", "a=FOO=1"), "the command is missing"),
        (("--mcp", "a=API_KEY=abc x"), "API_KEY is a secret in plain text"),
        (("--mcp", "a=x --api-key abc"), "--mcp a: --api-key is a secret in plain text"),
        (("--mcp", "a=x --token=abc"), "--mcp a: --token is a secret in plain text"),
    ],
)
def test_an_invalid_flag_is_refused(shop: Folder, words: tuple[str, ...], message: str) -> None:
    done = run(shop, "--mock", *words)
    assert done.code == 2, done.err
    assert message in done.err
    assert not (shop.path / "results.db").exists()


def test_the_timeout_is_read_in_minutes(shop: Folder) -> None:
    assert run(shop, "--mock", "--timeout", "5m").code == 0
    assert json.loads(shop.sql("select spec from runs")[0]["spec"])["limits"]["timeout"] == 300.0


# -- the cases -------


def one_case(case_id: str = "c", **more: Any) -> str:
    truth = {
        "files": ["app/orders.py"],
        "symbols": ["OrderBook"],
        "lines": {"app/orders.py": [11]},
        "content": ["class"],
    }
    return json.dumps({"id": case_id, "prompt": "Where is OrderBook?", "ground_truth": truth, **more}) + "\n"


def test_cases_are_searched_in_a_stated_order_and_named_ones_win(shop: Folder) -> None:
    def ids(*words: str) -> set[str]:
        done = run(shop, "--mock", "--fresh", *words)
        assert done.code == 0, done.err
        latest = "select case_id from predictions where run = (select run from runs order by run_id desc limit 1)"
        return {row["case_id"] for row in shop.sql(latest)}

    shutil.rmtree(shop.path / "shop" / "evals")
    for folder_name in ("cases", "evals/cases", ".abreast/cases"):
        shop.write(f"shop/{folder_name}/some.jsonl", one_case(folder_name))
        assert ids() == {folder_name}
    shop.write("named/some.jsonl", one_case("named"))
    assert ids("--cases", "named") == {"named"}
    assert ids("--cases", "named/some.jsonl") == {"named"}


def test_cases_are_found_in_sub_folders_and_where_codetect_keeps_them(shop: Folder) -> None:
    shutil.rmtree(shop.path / "shop" / "evals")
    for folder_name in (".repo_search/evals/cases", ".codetect/evals/cases"):
        shop.write(f"shop/{folder_name}/auth/search.jsonl", one_case("auth"))
        shop.write(f"shop/{folder_name}/api/deep/navigate.jsonl", one_case("api"))
        shop.write(f"shop/{folder_name}/../results/2026-01-01-results.json", "{}")
        listed = shop.abreast("cases", "list", "--repo", "shop", "--json")
        assert [row["id"] for row in listed.json] == ["api", "auth"], listed.err
    hidden = excluded_paths(shop.path, "--repo", "shop")
    assert hidden == [".abreast", ".codetect/evals", ".repo_search/evals"], "results name the answers too"


def test_several_folders_and_files_of_cases_are_combined(shop: Folder) -> None:
    for name in ("a", "b", "c"):
        shop.write(f"mine/{name}/some.jsonl", one_case(name))
    words = ("--cases", "mine/a", "mine/b/some.jsonl", "--cases", "mine/c", "mine/a/some.jsonl")
    assert run(shop, "--mock", *words).code == 0
    assert {row["case_id"] for row in shop.sql("select case_id from predictions")} == {"a", "b", "c"}
    listed = shop.abreast("cases", "list", "--repo", "shop", *words, "--json")
    assert len(listed.json) == 3


def test_a_ground_truth_with_files_missing_from_the_commit_is_refused(shop: Folder) -> None:
    truth = {"files": ["app/gone.py", "app/orders.py", "app/"], "lines": {"lib/old.py": [3]}}
    shop.write("mine/some.jsonl", one_case("fine") + one_case("stale", ground_truth=truth))
    for words in (("run", "code-search", "--mock"), ("cases", "list")):
        done = shop.abreast(*words, "--repo", "shop", "--cases", "mine")
        assert done.code == 2
        assert "mine/some.jsonl:2: stale: app/gone.py, lib/old.py" in done.err
        assert "fine" not in done.err
        assert "--commit" in done.err
    assert not (shop.path / "results.db").exists()
    shop.write("shop/app/gone.py", "")
    shop.write("shop/lib/old.py", "")
    assert run(shop, "--mock", "--cases", "mine").code == (2 if (shop.path / "shop/.git").exists() else 0)
    commit(shop.path / "shop")
    assert run(shop, "--mock", "--cases", "mine").code == 0
    before = run(shop, "--mock", "--cases", "mine", "--commit", "HEAD~1")
    assert before.code == 2
    assert "at HEAD~1" in before.err


def test_without_cases_the_error_says_how_to_get_some(shop: Folder) -> None:
    shutil.rmtree(shop.path / "shop" / "evals")
    done = run(shop, "--mock")
    assert done.code == 2
    assert "no cases in .abreast/cases, evals/cases, cases" in done.err
    assert "abreast cases new --repo" in done.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oops", "bad.jsonl:3"),
        ('{"id": "x", "prompt": "Where?"}', "bad.jsonl:3: ground_truth is missing"),
        (
            '{"id": "x", "prompt": "Where?", "ground_truth": {"file": []}}',
            'bad.jsonl:3: ground_truth: unknown key "file"',
        ),
        (
            '{"id": "x", "prompt": "Where?", "ground_truth": {"lines": {"a.py": [0]}}}',
            "bad.jsonl:3: ground_truth.lines",
        ),
        ('{"id": "x", "promt": "Where?", "ground_truth": {"files": []}}', "bad.jsonl:3"),
        (one_case("fine").strip(), 'bad.jsonl:3: duplicate case id "fine"'),
    ],
)
def test_a_bad_line_is_refused_with_its_number_and_comments_are_allowed(shop: Folder, line: str, message: str) -> None:
    shop.write("mine/bad.jsonl", f"// what is right was checked\n{one_case('fine')}{line}\n")
    done = run(shop, "--mock", "--cases", "mine")
    assert done.code == 2
    assert message in done.err
    assert not (shop.path / "results.db").exists()


def test_categories_and_difficulties_select_cases_and_become_tags(shop: Folder) -> None:
    assert run(shop, "--mock", "--category", "search,navigate", "--category", "understand").code == 0
    counts = shop.sql("select tag_category, count(*) n from predictions group by 1 order by 1")
    assert [(row["tag_category"], row["n"]) for row in counts] == [("navigate", 6), ("search", 10), ("understand", 4)]
    assert run(shop, "--mock", "--category", "navigate", "--store", "few.db").code == 0
    assert {row["case_id"][:3] for row in shop.sql("select case_id from predictions", "few.db")} == {"nav"}


def test_accepted_cases_are_added_to_those_of_the_repository(shop: Folder) -> None:
    assert shop.abreast("cases", "new", "--repo", "shop", "--limit", "3", "--yes").code == 0
    assert (shop.path / "shop/evals/cases/mined.jsonl").is_file()
    listed = shop.abreast("cases", "list", "--repo", "shop", "--json").json
    assert len(listed) == 10 + 3
    assert all(row["expected"]["files"] for row in listed)


def test_the_ground_truth_of_the_shop_holds(shop: Folder) -> None:
    """Check the ground truth of the cases that we ship."""
    repo = shop.path / "shop"
    for line in (repo / "evals/cases/shop.jsonl").read_text().splitlines()[1:]:
        truth = json.loads(line)["ground_truth"]
        texts = [path.read_text() for path in map(repo.joinpath, truth["files"]) if path.is_file()]
        assert all((repo / name).exists() for name in truth["files"])
        for path, numbers in truth.get("lines", {}).items():
            lines = (repo / path).read_text().splitlines()
            assert all(lines[number - 1].strip() for number in numbers), path
        for symbol in truth.get("symbols", []):
            shop_folder = texts or [path.read_text() for path in (repo / truth["files"][0]).glob("*.py")]
            assert any(re.search(rf"\b{symbol.rpartition('.')[2]}\b", text) for text in shop_folder), symbol
        assert all(any(content in text for text in texts) for content in truth.get("content", []))


# -- in parallel -----


def rows_of(folder: Folder, *words: str) -> list[dict[str, Any]]:
    store = f"p{len(list(folder.path.glob('*.db')))}.db"
    done = run(folder, "--mock", "--store", store, *words)
    assert done.code == 0, done.err
    return folder.sql("select case_id, variant, repeat, status, answer, score from predictions", store)


@pytest.mark.parametrize("parallel", ["2", "8", "100", "0", "-3", "auto"])
def test_the_rows_are_the_same_and_in_plan_order_at_any_parallelism(shop: Folder, parallel: str) -> None:
    assert rows_of(shop, "--parallel", parallel) == rows_of(shop)


def test_one_case_runs_in_parallel_too(shop: Folder) -> None:
    assert len(rows_of(shop, "--case", "nav-001", "--parallel", "8")) == 2


def test_zero_or_negative_parallelism_means_one_with_a_note(shop: Folder) -> None:
    for word in ("0", "-3"):
        done = run(shop, "--mock", "--fresh", "--parallel", word)
        assert done.code == 0
        assert f"parallel {word} means 1" in done.err
        assert "1 at most" in done.err

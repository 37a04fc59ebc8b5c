"""`abreast run settings.json`: the settings file of coding-agent benchmarks, and the equivalent flags."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from abreast.suites.coding_agents import settings
from abreast.suites.coding_agents.agents import PRODUCTS, from_template, preset_of
from abreast.suites.coding_agents.config import SuiteConfig, experiment
from abreast.targets.agents.presets import PRESETS
from conftest import Done, Folder

DOCUMENTED = {
    "num_prompts": 3,
    "prompts": ["prompt1.md", "prompt2.md", "prompt3.md"],
    "assistants": ["Claude Code", "Augment CLI"],
    "runs_per_prompt": 10,
    "parallel_runs": 4,
    "parallel_agents": True,
    "output_filename": "bench_results",
}
WRITES = 'cat "{prompt}" > done.txt'
TWO = {"writes": {"commandTemplate": WRITES}, "talks": {"commandTemplate": "cat {prompt}"}}


@pytest.fixture
def prompts(folder: Folder) -> Folder:
    for number in (1, 2, 3):
        folder.write(f"prompt{number}.md", f"task number {number}\n")
    return folder


def write(folder: Folder, **changed: Any) -> None:
    """Write a settings file without the keys that are None."""
    content = {key: value for key, value in ({**DOCUMENTED, **changed}).items() if value is not None}
    folder.write("settings.json", json.dumps(content, indent=2))


def read(folder: Folder, **changed: Any) -> SuiteConfig:
    write(folder, **changed)
    return settings.read(folder.path / "settings.json")


def refused(folder: Folder, *words: str, **changed: Any) -> Done:
    """Run the command, which must exit with 2 and print the reason in two lines."""
    write(folder, **changed)
    done = folder.abreast("run", "settings.json", *words)
    assert done.code == 2, done.output
    assert len(done.err.splitlines()) <= 2, done.err
    return done


def test_the_documented_settings_file_has_the_documented_meaning(prompts: Folder) -> None:
    spec = experiment(read(prompts)).spec
    assert spec.repeats == 10
    assert (spec.limits.per_variant, spec.limits.parallel, spec.limits.turns) == (4, 8, False)
    assert list(spec.variants) == ["Claude Code", "Augment CLI"]
    assert [variant["preset"] for variant in spec.variants.values()] == ["claude-code", "auggie"]
    assert spec.baseline == "Claude Code", "the first one"
    assert (spec.output, spec.suite) == ("bench_results", "coding-agents")
    assert spec.params["workspace"] == "empty"
    assert spec.scorers == [{"success": {"changes": False}}], "no judge, nothing else"


def test_omitted_keys_have_the_documented_defaults(prompts: Folder) -> None:
    actual = read(prompts, num_prompts=None, runs_per_prompt=None, parallel_runs=None, parallel_agents=None)
    assert (actual.runs, actual.parallel_runs, actual.parallel_agents, actual.mode) == (1, 1, True, "LLM_Evaluator")
    limits = experiment(actual).spec.limits
    assert (limits.per_variant, limits.parallel) == (1, 2)


def test_one_agent_at_a_time_takes_turns(prompts: Folder) -> None:
    limits = experiment(read(prompts, parallel_agents=False)).spec.limits
    assert (limits.turns, limits.parallel, limits.per_variant) == (True, 4, 4)


def test_both_generations_of_keys_are_the_same_experiment(prompts: Folder) -> None:
    (prompts.path / "repo").mkdir()
    older = read(prompts, mode="standard", repo_path="repo")
    newer = read(
        prompts, assistants=None, agents=["Claude Code", "Augment CLI"], mode="LLM_Evaluator", repo_path="repo"
    )
    assert experiment(older).spec == experiment(newer).spec


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_a_product_name(preset: str) -> None:
    names = [name for name, target in PRODUCTS.items() if target == preset]
    assert names
    for name in (*names, preset, names[0].upper(), names[0].replace(" ", "-").lower()):
        assert preset_of(name) == preset


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_prompts": 4}, "settings.json:2: num_prompts is 4, but prompts has 3"),
        ({"num_prompts": "3"}, "num_prompts must be a whole number of at least 1, got '3'"),
        ({"prompts": ["prompt1.md", "prompt9.md", "x.md"]}, "prompt9.md: no such file (did you mean"),
        ({"prompts": ["prompt1.md"] * 3}, "prompt1.md is listed twice"),
        ({"prompts": []}, "prompts must be a list of files"),
        ({"prompts": None}, "no prompts"),
        ({"assistants": ["Claude Code", "Cloud Cod"]}, 'no agent "Cloud Cod" (did you mean "Claude Code"?)'),
        ({"assistants": ["Claude Code", "Claude Code"]}, 'agent "Claude Code" is listed twice'),
        ({"assistants": []}, "assistants must be a list of names"),
        ({"assistants": None}, "no agents"),
        ({"agents": ["Codex CLI"]}, "agents and assistants are both set"),
        ({"runs_per_prompt": 0}, "runs_per_prompt must be a whole number of at least 1, got 0"),
        ({"runs_per_prompt": True}, "runs_per_prompt must be a whole number"),
        ({"parallel_runs": 1.5}, "parallel_runs must be a whole number"),
        ({"parallel_agents": "yes"}, "parallel_agents must be true or false, got 'yes'"),
        ({"paralel_runs": 2}, 'unknown key "paralel_runs" (did you mean "parallel_runs"?)'),
        ({"mode": "PR_recreate"}, "mode must be one of LLM_Evaluator, PR_Recreate, got 'PR_recreate'"),
        ({"mode": "PR_Recreate"}, "PR_Recreate needs a repository"),
        ({"repo_path": "nowhere"}, "repository nowhere: no such folder"),
        ({"repo_path": "a", "repo_url": "https://x/y"}, "repo_path and repo_url are both set"),
        ({"repo_path": "https://host/repo"}, "is a URL"),
        ({"branch": "main"}, "branch main: no repository"),
        ({"metrics": ["completness"]}, 'no metric "completness" (did you mean "completeness"?)'),
        (
            {"metrics_config": {"output_format": {"regex": "x", "json_schema": "y"}}},
            "output_format has both regex and json_schema",
        ),
        ({"limits": {"paralel": 3}}, 'settings.json:17: unknown key "paralel" (did you mean "parallel"?)'),
        ({"limits": {"retries": -1}}, "limits.retries must be"),
        ({"tests": "checks"}, "tests must be a list such as"),
        ({"ref": 7}, "ref must be a commit or tag, got 7"),
        ({"metrics_config": {"agent_succes": {}}}, 'unknown key "agent_succes"'),
        ({"output_filename": "../x"}, "is not a plain name"),
        ({"output_filename": ".hidden"}, "is not a plain name"),
        ({"output_filename": "ü" * 61}, "is longer than 120 bytes"),
        ({"prompts": ["/dev/zero"], "num_prompts": 1}, "/dev/zero: not a file"),
        ({"metrics_config": {"output_format": {"json_schema": "/dev/zero"}}}, "json_schema /dev/zero: not a file"),
        ({"judge": "my-model"}, 'judge "my-model": unknown provider'),
        ({"agent_config": {"Claude Code": {"timeout": 600}}}, "timeout 600 is in milliseconds"),
        ({"agent_config": {"Claude Code": {"timeout": "soon"}}}, "timeout must be a duration such as"),
        ({"agent_config": {"Claude Code": {"modle": "x"}}}, 'unknown key "modle" (did you mean "model"?)'),
        ({"agent_config": {"Claude Code": {"commandTemplate": "x {promt}"}}}, "unknown placeholder {promt}"),
        ({"agent_config": {"Claude Code": {"commandTemplate": "x", "preset": "codex"}}}, "are both set"),
        ({"agent_config": {"Claude Code": {"commandTemplate": "x", "command": "y"}}}, "are both set"),
        ({"agent_config": {"Claude Code": {"command": 3}}}, "command must be the name or path of the agent's"),
        ({"agent_config": []}, "agent_config must be an object such as"),
        ({"prompts": None, "LLM_Evaluator": {"generate_prompts": "true"}}, "no prompts"),
        ({"prompts": None, "LLM_Evaluator": {"generate_prompts": False, "prompt_topics": ["x"]}}, "no prompts"),
        ({"metrics_config": {"agent_success": {"threshold": 11}}}, "threshold must be a number from 0 to 10"),
        ({"metrics_config": {"agent_success": {"mode": "best"}}}, "mode must be quality or completion, got 'best'"),
        ({"metrics_config": {"output_format": {"json_schema_path": {}}}}, "must be the path of a file"),
    ],
)
def test_invalid_settings_are_refused_with_their_location_and_a_fix(
    prompts: Folder, changed: dict[str, Any], message: str
) -> None:
    done = refused(prompts, **changed)
    assert message in done.err
    assert not (prompts.path / "results.db").exists()


def test_common_variations_of_the_settings_file_are_accepted(prompts: Folder) -> None:
    """Flags as strings, a name with its extension, success criteria, prompts that need no generation."""
    actual = read(
        prompts,
        parallel_agents="false",
        output_filename="benchmark.json",
        stage_dir="./stage",
        metrics=["response_time", "output_quality", "context_adherence", "output_format_success", "steps_per_task"],
        metrics_config={
            "agent_success": {"threshold": 7, "mode": "quality"},
            "output_format": {"regex": "^.{1,}$"},
        },
        LLM_Evaluator={"generate_prompts": "true", "prompt_topics": ["Create unit tests"]},
    )
    assert (actual.parallel_agents, actual.output) == (False, "benchmark")
    assert actual.dimensions == ["output_quality", "context_adherence"]
    assert actual.passing == {"output_quality": 7}
    assert actual.form == {"regex": "^.{1,}$"}
    completed = read(prompts, metrics_config={"agent_success": {"mode": "completion"}})
    assert completed.passing == {}, "agents that ended well are reported anyway"
    tasks = {"num_prs": 3, "generate_prompts": True}
    prs = read(prompts, num_prompts=None, prompts=None, mode="PR_Recreate", repo_path=".", PR_Recreate=tasks)
    assert (prs.pull_requests.last, prs.pull_requests.tasks) == (3, None)


def test_the_file_written_by_the_original_tool_is_read(prompts: Folder) -> None:
    """Empty strings count as not set."""
    actual = read(
        prompts,
        mode="standard",
        assistants=["Claude Code", "Augment CLI", "Cursor CLI"],
        **dict.fromkeys(("repo_url", "repo_path", "branch", "ref"), ""),
        stage_dir="./stage",
        metrics=["response_time", "output_quality", "output_format_success", "steps_per_task"],
        metrics_config={"agent_success": {"threshold": 7, "mode": "quality"}, "output_format": {"regex": "^.{1,}$"}},
    )
    assert (actual.repo, actual.branch, actual.mode, len(actual.agents)) == (None, None, "LLM_Evaluator", 3)
    assert actual.notes == []


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        (
            {"agent_config": {"Codex CLI": {"model": "x"}}},
            'agent_config: "Codex CLI" is ignored, it is not in assistants',
        ),
        ({"num_prs": 3}, "num_prs is ignored"),
        ({"metrics": ["ast_similarity"]}, "ast_similarity is not measured"),
        ({"metrics": ["output_format_success"]}, "output_format_success is not measured"),
        ({"metrics_config": {"output_format": {}}, "metrics": ["output_format_success"]}, "is not measured"),
        ({"metrics_config": {"agent_success": {"threshold": 0}}}, "agent_success is not measured"),
        ({"mode": "pr_recreate", "target_repo_url": "https://h/x.git"}, "num_prompts is ignored"),
    ],
)
def test_keys_that_the_original_tool_ignores_give_a_note(prompts: Folder, changed: dict[str, Any], note: str) -> None:
    assert any(note in line for line in read(prompts, **changed).notes)


def test_topics_replace_missing_prompts(folder: Folder) -> None:
    topics = {"prompt_topics": ["Write unit tests", "Write a guide"]}
    write(folder, prompts=None, num_prompts=2, LLM_Evaluator=topics, assistants=list(TWO), agent_config=TWO)
    listed = folder.abreast("cases", "list", "settings.json", "--json").json
    assert [(case["id"], case["question"]) for case in listed] == [
        ("topic-1", "Write unit tests"),
        ("topic-2", "Write a guide"),
    ]
    assert "prompt_topics are used as prompts unchanged" in folder.abreast("check", "settings.json", "--verbose").output
    folder.write("prompts/own.md", "mine")
    assert read(folder, prompts=None, num_prompts=1, LLM_Evaluator=topics).topics == [], "files come first"


def test_the_ref_of_the_settings_is_checked_out(prompts: Folder, project: Path) -> None:
    first = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, text=True).stdout.strip()
    (project / "later.txt").write_text("later")
    for words in (["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "Later"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    settings = {"assistants": list(TWO), "agent_config": TWO, "repo_path": str(project)}
    write(prompts, **settings, branch="main", ref=first)
    spec = prompts.abreast("check", "settings.json", "--verbose")
    assert spec.code == 0, spec.output
    assert read(prompts, **settings, branch="main", ref=first).branch == first


def test_limits_in_the_file_and_flags_of_run_apply_as_in_any_spec(prompts: Folder) -> None:
    agents = {"assistants": list(TWO), "agent_config": TWO, "runs_per_prompt": 1}
    write(prompts, **agents, limits={"parallel": 3, "quota": "4/1h", "budget_usd": 2})
    assert "at most 3 trials in flight" in prompts.abreast("check", "settings.json").output
    assert "at most 1 trial in flight" in prompts.abreast("check", "settings.json", "--parallel", "1").output
    flag = prompts.abreast("check", "settings.json", "--parallel-runs", "2").output
    assert "at most 4 trials in flight" in flag, "the flag replaces the limit of the file"
    done = prompts.abreast("run", "settings.json", "--on-quota", "stop")
    assert done.code == 3
    assert "the quota of 4 in 1 h is used up" in done.output
    other = prompts.abreast("run", "settings.json", "--fresh", "--quota", "5/2h", "--on-quota", "stop", "--yes")
    assert other.code == 3, "earlier usage counts for the account"
    assert "the quota of 5 in 2 h is used up" in other.output
    limits = json.loads(prompts.sql("select spec from runs order by run_id desc")[0]["spec"])["limits"]
    assert (limits["quota"], limits["budget_usd"], limits["parallel"]) == ("5/2h", 2, 3)
    assert prompts.abreast("run", "settings.json", "--free-cores", "-1").code == 2
    assert "limits.quota must be" in prompts.abreast("run", "settings.json", "--quota", "soon").err


def test_the_simulator_needs_neither_agents_nor_prompts(folder: Folder) -> None:
    done = folder.abreast("run", "coding-agents", "--mock")
    assert done.code == 0, done.output
    assert "SIMULATED" in done.out
    assert "12 cases × 2 variants" in done.err


@pytest.mark.parametrize("words", [["--mock"], ["--mock", "--check", "false", "--judge", "claude-x", "--tests", "a"]])
def test_the_simulator_replaces_agents_that_are_not_installed(
    prompts: Folder, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    write(prompts, assistants=["Claude Code", "Codex CLI", "Cursor CLI"])
    done = prompts.abreast("run", "settings.json", *words)
    assert done.code == 0, done.output
    assert "SIMULATED" in done.out
    rows = prompts.sql("select variant, sum(score) as solved, count(*) as n from predictions group by variant")
    assert {row["variant"]: row["n"] for row in rows} == dict.fromkeys(["Claude Code", "Codex CLI", "Cursor CLI"], 30)
    assert prompts.sql("select distinct simulated from runs") == [{"simulated": 1}]
    assert json.loads((prompts.path / "bench_results.json").read_text())["metadata"]["simulated"] is True


@pytest.mark.parametrize("content", ["[]", '{"agents": 3', "{}", "\ufeffnull", '{"agents": "x", "prompts": 1}'])
def test_a_file_other_than_a_settings_file_is_refused(prompts: Folder, content: str) -> None:
    prompts.write("settings.json", content)
    done = prompts.abreast("run", "settings.json")
    assert done.code == 2
    assert "settings.json" in done.err


def test_an_endless_file_is_refused_as_a_settings_file(folder: Folder) -> None:
    assert "/dev/zero: larger than 16 MB" in folder.abreast("run", "/dev/zero").err


def test_empty_and_undecodable_prompts_are_refused(prompts: Folder) -> None:
    for content, message in ((b" \n", "prompt2.md: empty file"), (b"\xff\xfe", "prompt2.md: not valid UTF-8")):
        prompts.write("prompt2.md", content)
        assert message in refused(prompts).err


def test_a_folder_of_prompts_is_found_without_being_named(folder: Folder) -> None:
    for name in ("b.md", "a.txt", "notes.json"):
        folder.write(f"prompts/{name}", "do it")
    actual = read(folder, prompts=None, num_prompts=2)
    assert [file.name for file in actual.prompts] == ["a.txt", "b.md"]


def test_prompts_with_the_same_file_name_are_distinguished_by_their_folders(folder: Folder) -> None:
    for name in ("easy/one.md", "hard/one.md", "two.md"):
        folder.write(name, "do it")
    agents = {"assistants": list(TWO), "agent_config": TWO}
    write(folder, prompts=["easy/one.md", "hard/one.md", "two.md"], runs_per_prompt=1, **agents)
    assert folder.abreast("run", "settings.json").code == 0
    trials = {row["case_id"] for row in folder.sql("select distinct case_id from predictions")}
    assert trials == {"easy/one.md", "hard/one.md", "two.md"}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ('cat "{prompt}" | claude -p', 'cat "${ABREAST_PROMPT_FILE}" | claude -p'),
        ("auggie -if {prompt}", 'auggie -if "$ABREAST_PROMPT_FILE"'),
        ("x '{prompt}' {cwd}", "x ''\"$ABREAST_PROMPT_FILE\"'' \"$ABREAST_WORKSPACE\""),
        (r'x \"{prompt} "a\"{model}"', r'x \""$ABREAST_PROMPT_FILE" "a\"${ABREAST_MODEL}"'),
        ("awk '{print}' {runs_dir}", None),
        ("awk '{ print $1 }' {runs_dir}", "awk '{ print $1 }' \"$TMPDIR\""),
    ],
)
def test_a_command_template_gets_paths_as_variables_in_quotes(template: str, text: str | None) -> None:
    if text is None:
        with pytest.raises(Exception, match="unknown placeholder"):
            from_template("here", template)
    else:
        assert from_template("here", template) == {"command": text, "shell": True}


@pytest.mark.parametrize(
    "template",
    [
        *("cat {prompt}", 'cat "{prompt}"', "cat '{prompt}'", "( cat {prompt} )", 'x={prompt}; cat "$x"'),
        *('printf %s "$(cat {prompt})"', 'printf %s "$(cat "{prompt}")"', "printf %s \"$(cat '{prompt}')\""),
        *('printf %s "`cat {prompt}`"', 'printf %s "$(printf %s "$(cat {prompt})")"'),
        *("# don't\ncat {prompt}", "cat {prompt} # don't", 'echo "it\'s" >&2; cat {prompt}', "a='\\'; cat {prompt}"),
        *("case x in x) cat {prompt};; esac", "sh -c 'cat \"$1\"' sh {prompt}", "echo a#'b' >&2; cat {prompt}"),
    ],
)
def test_a_shell_gets_the_path_of_the_prompt_file_whatever_the_quoting(template: str, tmp_path: Path) -> None:
    file = tmp_path / 'it\'s "odd" $(touch x) `touch x` *'
    file.write_text("words")
    text = from_template("here", template)["command"]
    env = {**os.environ, "ABREAST_PROMPT_FILE": str(file)}
    done = subprocess.run(["/bin/sh", "-c", text], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.stdout, list(tmp_path.iterdir())) == ("words", [file])


def test_command_agents_work_in_odd_folders_with_their_own_timeout(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The prompt file is in a folder whose name a shell would split."""
    monkeypatch.setenv("ABREAST_WORKSPACES", str(tmp_path_factory.mktemp("work spaces $(touch x)")))
    folder.write("prompt1.md", "say $HOME and `this`")
    own = {
        "plain": {"commandTemplate": "cat {prompt}"},
        "double": {"commandTemplate": 'cat "{prompt}"'},
        "single": {"commandTemplate": "cat '{prompt}'"},
        "slow": {"commandTemplate": "cat {prompt} && sleep 60", "timeout": 1000},
    }
    write(folder, num_prompts=1, prompts=["prompt1.md"], assistants=list(own), agent_config=own, runs_per_prompt=1)
    assert folder.abreast("run", "settings.json").code == 0
    trials = {row["variant"]: row for row in folder.sql("select variant, answer, status, error_kind from predictions")}
    for name in ("plain", "double", "single"):
        assert trials[name]["answer"] == "say $HOME and `this`"
    assert (trials["slow"]["status"], trials["slow"]["error_kind"]) == ("error", "timeout")


def test_the_number_of_trials_is_prompts_times_agents_times_runs(prompts: Folder) -> None:
    write(prompts, assistants=list(TWO), agent_config=TWO, runs_per_prompt=4)
    done = prompts.abreast("run", "settings.json")
    assert done.code == 0, done.err
    rows = prompts.sql("select case_id, variant, repeat, status, score, files_changed from predictions")
    assert len(rows) == 3 * 2 * 4
    assert {row["status"] for row in rows} == {"ok"}
    assert {(row["variant"], row["files_changed"]) for row in rows} == {("writes", 1), ("talks", 0)}
    assert prompts.abreast("run", "settings.json").code == 0, "a second time"
    assert prompts.sql("select count(*) as n from trials where reused_from is null") == [{"n": 24}], (
        "nothing is paid twice"
    )


def test_flags_and_the_settings_file_are_equivalent(prompts: Folder) -> None:
    """Except for the names of the experiment and of the results file."""
    same = ["--agents", "claude-code,codex", "--prompts", "prompt1.md", "prompt2.md", "prompt3.md"]
    same += ["--repo", ".", "--repeats", "2", "--parallel-runs", "3", "--timeout", "10m", "--check", "make test"]
    flags = prompts.abreast("run", "coding-agents", *same, "--dry-run")
    write(
        prompts,
        assistants=["claude-code", "codex"],
        repo_path=".",
        runs_per_prompt=2,
        parallel_runs=3,
        check="make test",
    )
    file = prompts.abreast("run", "settings.json", "--timeout", "10m", "--dry-run")
    assert flags.code == file.code == 0, flags.err + file.err
    assert flags.out == file.out
    assert flags.out


def test_a_flag_wins_over_the_file(prompts: Folder) -> None:
    write(prompts, assistants=list(TWO), agent_config=TWO, runs_per_prompt=3)
    words = ["--agent", "other=cat {prompt_file}", "--prompts", "prompt2.md", "--repeats", "1"]
    done = prompts.abreast("run", "settings.json", *words)
    assert done.code == 0, done.err
    assert prompts.sql("select case_id, variant, answer from predictions") == [
        {"case_id": "prompt2.md", "variant": "other", "answer": "task number 2"}
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--agents", "claude-code"], "no prompts"),
        (["--prompts", "prompt1.md"], "no agents"),
        (["--agents", "claude-code,codx", "--prompts", "prompt1.md"], 'no agent "codx" (did you mean "codex"?)'),
        (["--agent", "mine", "--prompts", "prompt1.md"], "--agent mine: must be NAME=COMMAND"),
        (["--agent", "mine='x", "--prompts", "prompt1.md"], "no closing quotation"),
        (["--agents", "codex", "--prompts", "nowhere"], "--prompts: nowhere: no such file"),
        (["--agents", "codex", "--pull-requests", "3"], "PR_Recreate needs a repository"),
        (["--agents", "codex", "--repo", ".", "--pull-requests", "0"], "--pull-requests 0: must be a whole number"),
        (["--agents", "codex", "--repo", ".", "--pull-requests", "3"], "not a git repository"),
        (["--agents", "codex", "--prompts", "prompt1.md", "--timeout", "soon"], "--timeout soon: must be a duration"),
        (["--agents", "codex", "--prompts", "prompt1.md", "--dimensions", "clarty"], 'no dimension "clarty"'),
        (["--agents", "codex", "--prompts", "prompt1.md", "--parallel-runs", "0"], "--parallel-runs 0: must be"),
    ],
)
def test_invalid_flags_are_refused(prompts: Folder, words: list[str], message: str) -> None:
    done = prompts.abreast("run", "coding-agents", *words)
    assert done.code == 2, done.output
    assert message in done.err


def test_a_model_after_the_agent_name_makes_another_variant(prompts: Folder) -> None:
    words = ["--agents", "claude-code:haiku,claude-code:opus", "--prompts", "prompt1.md"]
    done = prompts.abreast("run", "coding-agents", *words, "--dry-run")
    assert done.code == 0, done.err
    assert "claude-code:haiku" in done.output
    assert "claude-code:opus" in done.output


def test_check_reports_programs_disk_space_and_what_the_verdict_will_rest_on(prompts: Folder) -> None:
    write(prompts, assistants=list(TWO), agent_config={**TWO, "talks": {"commandTemplate": "no-such-agent {prompt}"}})
    done = prompts.abreast("check", "settings.json", "--verbose")
    assert done.code == 0, done.err
    assert "talks: no-such-agent (missing)" in done.err
    assert "git (2." in done.err
    assert "8 workspaces of 0.0 MB at once" in done.err
    assert "no check: a run succeeds if it completes" in done.err
    assert "no program no-such-agent on the path" in done.err
    assert "tokens, cost and turns are unknown for custom commands" in done.err


def test_another_version_of_an_agent_in_a_template_is_not_reused(
    prompts: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"a": {"commandTemplate": 'cat "{prompt}" | claude -p'}, "b": {"commandTemplate": "my-agent {prompt}"}}
    write(prompts, assistants=list(own), agent_config=own, runs_per_prompt=1)
    monkeypatch.setenv("PATH", f"{prompts.path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    counts = []
    for claude, own_version in (("1.0", "one"), ("1.0", "one"), ("1.1", "one"), ("1.1", "two")):
        for name, command in (("claude", f"echo {claude}"), ("my-agent", f"echo {own_version}")):
            prompts.write(f"bin/{name}", f"#!/bin/sh\n{command}\n").chmod(0o755)
        assert f"claude {claude}" in prompts.abreast("check", "settings.json").err
        assert prompts.abreast("run", "settings.json").code == 0
        counts.append(prompts.sql("select count(*) as n from trials where reused_from is null")[0]["n"])
    assert counts == [6, 6, 9, 12], "three prompts, and each agent runs again only if it changed"


def test_a_missing_program_is_no_failure_of_the_variant_and_resume_continues_once_it_is_installed(
    prompts: Folder,
) -> None:
    installed = prompts.path / "there"
    late = {"commandTemplate": f"if [ -e '{installed}' ]; then cat {{prompt}}; else ./no-such-agent; fi"}
    write(prompts, assistants=list(TWO), agent_config={**TWO, "talks": late}, runs_per_prompt=1)
    done = prompts.abreast("run", "settings.json")
    assert done.code == 3
    actual = prompts.sql("select distinct variant, error_kind, error_blame from predictions where status = 'error'")
    assert actual == [{"variant": "talks", "error_kind": "rejected", "error_blame": "infrastructure"}]
    installed.touch()
    done = prompts.abreast("resume", "settings.json")
    assert done.code == 0, done.output
    actual = prompts.sql("select variant, count(*) as n from predictions where status = 'ok' group by variant")
    assert {row["variant"]: row["n"] for row in actual} == {"writes": 3, "talks": 3}


def test_the_self_test_and_rescore_follow_the_settings_file(prompts: Folder) -> None:
    own = {"writes": {**TWO["writes"], "timeout": 60000}, "talks": {**TWO["talks"], "timeout": 50000}}
    write(prompts, assistants=list(own), agent_config=own, runs_per_prompt=1)
    assert prompts.abreast("run", "settings.json").code == 0
    done = prompts.abreast("aa", "settings.json", "--store", "other.db")
    assert done.code == 0, done.output
    assert "writes again" in done.out
    form = {"output_format": {"regex": "number 2"}}
    write(prompts, assistants=list(own), agent_config=own, runs_per_prompt=1, metrics_config=form)
    done = prompts.abreast("rescore", "--store", "results.db")
    assert done.code == 0, done.output
    actual = prompts.sql("select case_id, score_format as f from predictions where variant = 'talks' order by case_id")
    assert [row["f"] for row in actual] == [0.0, 1.0, 0.0]


def test_a_preset_that_is_not_installed_is_refused_before_anything_runs(
    prompts: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(prompts)
    monkeypatch.setenv("PATH", os.defpath)
    for command in ("check", "run"):
        done = prompts.abreast(command, "settings.json")
        assert done.code == 4
        assert "program claude not found" in done.err
        assert "npm install" in done.err


def test_a_repository_is_pinned_at_its_branch_and_later_commits_change_nothing(prompts: Folder, project: Path) -> None:
    write(prompts, assistants=list(TWO), agent_config=TWO, repo_path="project", branch="main", runs_per_prompt=1)
    assert prompts.abreast("run", "settings.json").code == 0
    rows = prompts.sql("select distinct params_workspace from predictions")
    assert len(rows) == 1
    assert len(json.loads(rows[0]["params_workspace"])["commit"]) == 40
    (project / "app.py").write_text("print('not committed')\n")
    done = prompts.abreast("check", "settings.json", "--fresh")
    note = "trials do not see 1 uncommitted change in "
    assert note in done.err, "once for all agents"
    done = refused(prompts, assistants=list(TWO), agent_config=TWO, repo_path="project", branch="mian")
    assert 'no branch "mian"' in done.err


def test_an_unreadable_repository_is_refused_with_the_cause(
    prompts: Folder, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {"assistants": list(TWO), "agent_config": TWO}
    subprocess.run(["git", "init", "-q", str(prompts.path / "new")], check=True)
    assert "no commits yet" in refused(prompts, repo_path="new", **changes).err
    monkeypatch.setenv("PATH", "")
    done = refused(prompts, repo_path="project", **changes)
    assert done.err == "error: git is not installed\nhelp: install git\n"


def test_tasks_from_flags_replace_those_of_the_file(prompts: Folder, project: Path) -> None:
    """Pull requests given by a flag replace the prompts of the file, and the other way round."""
    identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    (project / "app.py").write_text("print('good day')\n")
    subprocess.run(
        ["git", "-C", str(project), *identity, "commit", "-qam", "Greet everybody politely (#7)"], check=True
    )
    write(prompts, assistants=list(TWO), agent_config=TWO, repo_path="project")
    dry_run = prompts.abreast("run", "settings.json", "--pull-requests", "1", "--dry-run")
    assert "pr-7" in dry_run.output
    only = dict.fromkeys(("num_prompts", "prompts"))
    write(prompts, assistants=list(TWO), agent_config=TWO, repo_path="project", mode="PR_Recreate", **only)
    assert "prompt2.md" in prompts.abreast("run", "settings.json", "--prompts", "prompt2.md", "--dry-run").output


@pytest.fixture
def project(folder: Folder) -> Path:
    """A repository with one commit."""
    path = folder.path / "project"
    folder.write("project/app.py", "print('hello')\n")
    identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", str(path), *words], check=True)
    return path


JUDGED = {"target": "python:opinion:judge", "samples": 1}


def test_a_check_that_agents_could_read_gives_a_warning(prompts: Folder, project: Path) -> None:
    prompts.write("checks.py", "")
    agents = {"assistants": list(TWO), "agent_config": TWO, "check": "python3 {folder}/checks.py {case}"}

    def is_warned(repo: str | None) -> bool:
        write(prompts, **agents, repo_path=repo)
        return "agents can read checks.py" in prompts.abreast("check", "settings.json").output

    assert [is_warned("./"), is_warned("project"), is_warned(None)] == [True, False, False]
    (prompts.path / "checks.py").rename(project / "checks.py")
    identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    agents["check"] = "python3 {folder}/project/checks.py {case}"
    assert not is_warned("project")  # it is not committed
    for words in (["add", "-A"], [*identity, "commit", "-qm", "two"]):
        subprocess.run(["git", "-C", str(project), *words], check=True)
    assert is_warned("project")


def test_passwords_in_addresses_are_neither_stored_nor_shown(
    prompts: Folder, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repository is served as plain files, which git can read."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (project / "app.py").write_text("print('hello, you')\n")
    identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    for words in ([*identity, "commit", "-qam", "Greet people by their name (#1)"], ["update-server-info"]):
        subprocess.run(["git", "-C", str(project), *words], check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(project))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://ann:pass-w0rd@127.0.0.1:{server.server_port}/.git"
        agents = {"assistants": list(TWO), "agent_config": TWO}
        output = refused(prompts, **agents, repo_url=address).output
        assert "contains a password or token, which would be stored" in output
        output += refused(prompts, **agents, repo_path=address).output
        write(prompts, **agents, repo_url=address, mode="PR_Recreate", prompts=None, num_prompts=None)
        done = prompts.abreast("run", "settings.json", "--repeats", "1")
        assert done.code == 0, done.err
        server.shutdown()
    output += done.output + "".join(file.read_text("latin-1") for file in prompts.path.rglob("*") if file.is_file())
    assert output.count("pass-w0rd") == 1  # in the settings themselves


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Keep log messages out of the test output."""


def test_subjective_metrics_use_a_judge_that_sees_the_change(prompts: Folder) -> None:
    prompts.write(
        "opinion.py",
        """
        import json

        def judge(case):
            asked = case.input
            good = "+task number" in asked
            score = 10 if good else 1
            names = [name for name in ("completeness", "output_quality") if f"- {name}:" in asked]
            return json.dumps({name: {"justification": "seen", "score": score} for name in names})
        """,
    )
    write(
        prompts,
        assistants=list(TWO),
        agent_config=TWO,
        runs_per_prompt=1,
        metrics=["response_time", "diff_metrics", "completeness", "output_quality"],
        metrics_config={"agent_success": {"threshold": 7}},
        judge=JUDGED,
    )
    done = prompts.abreast("run", "settings.json")
    assert done.code == 0, done.err
    actual = prompts.sql(
        "select distinct variant, score, score_judge_completeness as c, score_judge_output_quality_passed as p "
        "from predictions"
    )
    assert {row["variant"]: (row["score"], row["c"], row["p"]) for row in actual} == {
        "writes": (1.0, 1.0, 1.0),
        "talks": (0.0, 0.0, 0.0),
    }


def test_the_judge_comes_from_the_environment_by_default(prompts: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_MODEL", raising=False)
    (judge,) = [
        item["judge"] for item in experiment(read(prompts, metrics=["clarity"])).spec.scorers if "judge" in item
    ]
    assert (judge["target"], list(judge["rubric"]), judge["scale"]) == ("anthropic", ["clarity"], [1, 10])
    for name, value in (
        ("LLM_MODEL", "qwen3"),
        ("LLM_PROVIDER", "openai-compatible"),
        ("LLM_OPENAI_ENDPOINT", "http://127.0.0.1:9/v1"),
        ("LLM_API_KEY", "secret"),
    ):
        monkeypatch.setenv(name, value)
    (judge,) = [
        item["judge"] for item in experiment(read(prompts, metrics=["clarity"])).spec.scorers if "judge" in item
    ]
    assert (judge["target"], judge["model"], judge["key_env"]) == ("openai", "qwen3", "LLM_API_KEY")
    assert judge["base_url"] == "http://127.0.0.1:9/v1"
    assert "secret" not in json.dumps(judge)


def test_a_known_agent_may_be_installed_anywhere(prompts: Folder) -> None:
    event = '{"type": "item.completed", "item": {"type": "agent_message", "text": "from elsewhere"}}'
    program = prompts.write(
        "tools/my-codex", f"#!/bin/sh\n[ \"$1\" = --version ] && echo codex-cli 1.2.3 || echo '{event}'\n"
    )
    program.chmod(0o755)
    write(prompts, assistants=["Codex CLI"], agent_config={"Codex CLI": {"command": str(program)}}, runs_per_prompt=1)
    done = prompts.abreast("run", "settings.json")
    assert done.code == 0, done.output
    assert {row["answer"] for row in prompts.sql("select answer from predictions")} == {"from elsewhere"}
    assert "codex codex-cli 1.2.3" in prompts.abreast("check", "settings.json").err

"""The settings file of Augbench: `abreast run settings.json`. Two generations of its keys are read, both strictly.

The older one has `assistants`, `target_repo_url`, `num_prs` and the modes `standard` and `pr_recreate`; the newer one
`agents`, `repo_url` or `repo_path`, `agent_config`, a mapping for each mode and the modes `LLM_Evaluator` and
`PR_Recreate`. Times are milliseconds, and an empty string means unset. What Augbench ignores, or only warns
about, becomes a note. Our own keys are `check`, `setup`, `tests`, `judge`, `limits`, `preset`, `command`, `args`,
and in `PR_Recreate` `commits`, `cumulative`, `tasks` and `with_tests`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from abreast.errors import BadInput, did_you_mean, suggestion
from abreast.filenames import relative_path
from abreast.settings import Settings, is_count, is_flag, is_mapping_of_texts, is_number, is_text, is_texts
from abreast.spec.schema import Limits, seconds_in
from abreast.spec.syntax import KeyLines, parse, read_text
from abreast.spec.values import KeyPath, name_problem, quote
from abreast.suites.coding_agents import judge, prompts, repository
from abreast.suites.coding_agents.agents import AgentVariant, from_template, preset_agent
from abreast.suites.coding_agents.config import MODES, PROMPTS, PULL_REQUESTS, Mode, PullRequests, SuiteConfig
from abreast.targets.workspace.git.git_command import strip_credentials

_OLDER_MODES: Mapping[str, Mode] = {"standard": "LLM_Evaluator", "pr_recreate": "PR_Recreate"}
MEASURED = ("response_time", "diff_metrics", "steps_per_task")  # metrics of every run
SIMILARITY, FORM = "ast_similarity", "output_format_success"
METRICS = (*MEASURED, SIMILARITY, FORM, *judge.DIMENSIONS, *judge.SAME)
SHORTEST_MS = 1000
_MAY_BE_EMPTY = ("repo_url", "repo_path", "target_repo_url", "stage_dir", "branch", "ref")
_COUNT = "a whole number of at least 1"
_OWN_KEYS = {  # not in specs
    *("assistants", "agents", "runs_per_prompt", "num_prompts", "parallel_agents", "parallel_runs", "agent_config"),
}
QUALITY = "output_quality"
LONGEST_RESULTS = 120  # bytes; names of metrics are appended, and file systems allow 255


def is_settings(data: Any) -> bool:
    """Whether this is the content of a settings file, not of a spec."""
    return isinstance(data, Mapping) and bool(_OWN_KEYS & set(data)) and not {"cases", "variants", "grid"} & set(data)


def read(path: Path) -> SuiteConfig:
    data, places = parse(path, read_text(path, "name prompts by their files"))
    if not isinstance(data, Mapping):
        raise BadInput(f"{relative_path(path)}: must be an object with agents and prompts, got {quote(data)}")
    return _SettingsFile(path, data, places).config()


def results_name(where: str, name: str) -> str:
    if not re.fullmatch(r"\w[\w. -]*", name):
        raise BadInput(f"{where}: {quote(name)} is not a plain name", "use a name such as bench_results")
    if len(name.encode()) > LONGEST_RESULTS:
        raise BadInput(
            f"{where}: {quote(name)} is longer than {LONGEST_RESULTS} bytes", "use a name such as bench_results"
        )
    return name.removesuffix(".json")


class _SettingsSection(Settings):
    """One object of the file; error messages have the line of the key."""

    noun = "key"

    def __init__(self, locate: Callable[[KeyPath], str], at: KeyPath, values: Any, example: str = "{...}") -> None:
        if not isinstance(values, Mapping):
            key = ".".join(map(str, at))
            raise BadInput(f"{locate(at)}: {key} must be an object such as {example}, got {quote(values)}")
        super().__init__(locate(at), values)
        self._locate, self._at = locate, at

    def position(self, key: str) -> str:
        """Return the file and line of a key."""
        return self._locate((*self._at, key))

    def take(self, key: str, default: Any, check: Callable[[Any], bool], expects: str) -> Any:
        self.where = self.position(key)
        return super().take(key, default, check, expects)

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, default, lambda value: is_flag(value) or value in ("true", "false"), "true or false")
        return value is True or value == "true"

    def one_of(self, keys: tuple[str, ...], check: Callable[[Any], bool], expects: str) -> tuple[str, Any]:
        """Return the key and value of a setting that has several names."""
        values = [(key, self.take(key, None, check, expects)) for key in keys]
        present = [(key, value) for key, value in values if value is not None]
        if len(present) > 1:
            (first, _), (second, _) = present[:2]
            raise BadInput(f"{self.position(second)}: {first} and {second} are both set", "keep one of them")
        return present[0] if present else (keys[0], None)

    def section(self, key: str, example: str) -> _SettingsSection:
        """Return the object with this key; empty if it is missing."""
        self.names.append(key)
        values = self.remaining.pop(key, None)
        return _SettingsSection(self._locate, (*self._at, key), {} if values is None else values, example)

    def done(self) -> None:
        for key in self.remaining:
            self.where = self.position(str(key))
            super().done()


class _SettingsFile:
    def __init__(self, path: Path, data: Mapping[str, Any], places: KeyLines) -> None:
        self._path, self._base = path, path.resolve().parent
        self._source, self._places = relative_path(path), places
        values = {key: value for key, value in data.items() if not (key in _MAY_BE_EMPTY and value == "")}
        self._root = _SettingsSection(self._position, (), values)
        self._notes: list[str] = []

    def _position(self, at: KeyPath) -> str:
        line = self._places.line(at)
        return f"{self._source}:{line}" if line else self._source

    def config(self) -> SuiteConfig:
        take = self._root.take
        mode = self._mode()
        agents = self._agents()
        repo_key, repo = self._root.one_of(("repo_path", "repo_url", "target_repo_url"), is_text, "text")
        branch = take("branch", None, is_text, "the name of a branch")
        files, topics = self._prompts(mode)
        output = take("output_filename", None, is_text, "a name such as bench_results")
        config = SuiteConfig(
            agents=agents,
            mode=mode,
            prompts=files,
            topics=topics,
            pull_requests=self._pull_requests(mode),
            repo=repo,
            branch=take("ref", branch, is_text, "a commit or tag"),
            stage=take("stage_dir", repository.STAGE, is_text, "a folder"),
            runs=take("runs_per_prompt", 1, is_count, _COUNT),
            parallel_runs=take("parallel_runs", 1, is_count, _COUNT),
            parallel_agents=self._root.flag("parallel_agents", True),
            check=take("check", None, is_text, 'a command such as "pytest -q"'),
            tests=take("tests", None, _is_list_of_texts, 'a list such as ["checks/**"]'),
            limits=self._limits(),
            setup=take("setup", None, is_text, 'a command such as "uv sync"'),
            judge=take("judge", None, _is_text_or_object, "a model, or settings"),
            output=None if output is None else results_name(self._root.position("output_filename"), output),
            notes=self._notes,
            base=self._base,
            origin=self._path,
        )
        self._metrics(config)
        self._root.done()
        if repo_key == "repo_path" and repo is not None and "://" in repo:
            message = f"{self._root.position('repo_path')}: {strip_credentials(repo)} is a URL"
            raise BadInput(message, "set `repo_url` instead")
        return config

    def _mode(self) -> Mode:
        modes = (*MODES, *_OLDER_MODES)
        mode: Mode = self._root.take("mode", PROMPTS, modes.__contains__, f"one of {', '.join(MODES)}")
        return _OLDER_MODES.get(mode, mode)

    def _agents(self) -> list[AgentVariant]:
        key, names = self._root.one_of(("agents", "assistants"), is_texts, 'a list of names such as ["Claude Code"]')
        where = self._root.position(key)
        if not names:
            raise BadInput(f"{where}: no agents", f'set "{key}": ["Claude Code", "Codex CLI"]')
        example = '{"model": "opus"}'
        configs = self._root.section("agent_config", f'{{"Claude Code": {example}}}')
        agents = [
            self._agent(self._position((key, at)), name, configs.section(name, example))
            for at, name in enumerate(names)
        ]
        self._notes += [
            f'agent_config: "{name}" is ignored, it is not in {key}{did_you_mean(name, names)}'
            for name in configs.remaining
        ]
        return agents

    def _agent(self, where: str, name: str, section: _SettingsSection) -> AgentVariant:
        if problem := name_problem(name):
            raise BadInput(f"{where}: the name of an agent {problem}")
        model = section.take("model", None, is_text, "the name of a model")
        template = section.take("commandTemplate", None, is_text, 'a command such as "my-agent {prompt}"')
        preset = section.take("preset", None, is_text, "the name of a known agent")
        timeout = section.take(
            "timeout", None, lambda value: is_count(value) or is_text(value), 'milliseconds, or a string such as "20m"'
        )
        options = {
            "command": section.take("command", None, is_text, "the name or path of the agent's program"),
            "env": section.take("env", None, is_mapping_of_texts, "an object of strings"),
            "args": section.take("args", None, is_texts, "a list of strings"),
        }
        section.done()
        if template is None:
            preset_where = where if preset is None else section.position("preset")
            params = preset_agent(preset_where, preset or name, model=model, **options).params
        else:
            for key, value in {"preset": preset, **options}.items():
                if value and key != "env":
                    message = f"{section.position(key)}: {key} and commandTemplate are both set"
                    raise BadInput(message, "keep one of them")
            command = from_template(section.position("commandTemplate"), template)
            optional = {"model": model, "env": options["env"]}
            params = {**command, **{key: value for key, value in optional.items() if value is not None}}
        return AgentVariant(name, params, None if timeout is None else _seconds(section.position("timeout"), timeout))

    def _prompts(self, mode: Mode) -> tuple[list[Path], list[str]]:
        number = self._root.take("num_prompts", None, is_count, _COUNT)
        names = self._root.take("prompts", None, is_texts, 'a list of files such as ["prompt1.md"]')
        where = self._root.position("prompts")
        topics = self._topics(self._root.section(PROMPTS, "{}"))
        if mode == PULL_REQUESTS:
            unused = [key for key, value in (("num_prompts", number), ("prompts", names)) if value is not None]
            self._notes += [f"{key} is ignored: the tasks of PR_Recreate are pull requests" for key in unused]
            return [], []
        if names is not None or prompts.prompts_in(self._base / prompts.FOLDER):
            files = prompts.prompt_files(where, names or [prompts.FOLDER], self._base)
            source = "prompts" if names is not None else f"the folder {prompts.FOLDER}"
            self._check_number(number, len(files), source)
            return files, []
        if not topics:
            fix = f'set "prompts": ["prompt1.md"], or create the folder {prompts.FOLDER}, or set prompt_topics'
            raise BadInput(f"{self._source}: no prompts", fix)
        self._check_number(number, len(topics), "prompt_topics")
        self._notes.append("prompt_topics are used as prompts unchanged: no model expands them")
        return [], topics

    def _check_number(self, number: int | None, actual: int, source: str) -> None:
        if number is not None and number != actual:
            message = f"num_prompts is {number:,}, but {source} has {actual:,}"
            raise BadInput(f"{self._root.position('num_prompts')}: {message}", "fix or remove num_prompts")

    def _topics(self, part: _SettingsSection) -> list[str]:
        """Short tasks; Augbench lets a model write prompts from them."""
        generates = part.flag("generate_prompts", True)
        topics = part.take("prompt_topics", [], _is_list_of_texts, "a list of strings")
        part.done()
        return [topic for topic in topics if topic.strip()] if generates else []

    def _pull_requests(self, mode: Mode) -> PullRequests:
        older = self._root.take("num_prs", None, is_count, _COUNT)
        part = self._root.section(PULL_REQUESTS, '{"num_prs": 5}')
        if older is not None and mode != PULL_REQUESTS:
            self._notes.append("num_prs is ignored: it is for PR_Recreate")
        number = part.take("num_prs", older, is_count, _COUNT)
        tasks = part.take("tasks", None, is_text, "a file of tasks")
        part.flag("generate_prompts", True)  # ignored: tasks come from messages or a task file
        commits = part.take("commits", [], is_texts, 'a list such as ["1a2b3c4", "v1..v2"]')
        cumulative = part.flag("cumulative", False)
        with_tests = part.flag("with_tests", False) if "with_tests" in part.remaining else None
        part.names.append("with_tests")
        part.done()
        return PullRequests(number, list(commits), tasks, cumulative, with_tests)

    def _metrics(self, config: SuiteConfig) -> None:
        names = self._root.take("metrics", [], _is_list_of_texts, "a list of metrics")
        section = self._root.section("metrics_config", '{"output_format": {"regex": "..."}}')
        config.form = self._form(section.section("output_format", '{"regex": "..."}'))
        has_passing = "agent_success" in section.remaining
        passing = section.section("agent_success", '{"threshold": 7, "mode": "quality"}')
        section.done()
        for at, name in enumerate(names):
            self._metric(self._position(("metrics", at)), name, config)
        if config.judge is not None and not config.dimensions:
            config.dimensions = list(judge.RUBRIC)
        if has_passing:
            self._passing(passing, config)

    def _passing(self, part: _SettingsSection, config: SuiteConfig) -> None:
        """Success: a minimum judged quality, or completion, which is always reported."""
        mode = part.take("mode", "quality", ("quality", "completion").__contains__, "quality or completion")
        low, high = judge.SCALE
        mark = part.take(
            "threshold", 7, lambda value: is_number(value) and 0 <= value <= high, f"a number from 0 to {high}"
        )
        part.done()
        if mode == "completion":
            return
        if QUALITY not in config.dimensions:
            self._notes.append(f"agent_success is not measured: mode quality needs the metric {QUALITY}")
        elif mark > low:  # otherwise every judged run would pass
            config.passing = {QUALITY: float(mark)}

    def _metric(self, where: str, name: str, config: SuiteConfig) -> None:
        if name not in METRICS:
            raise BadInput(
                f'{where}: no metric "{name}"{suggestion(name, METRICS)}', f"use one of {', '.join(METRICS)}"
            )
        if name == SIMILARITY and config.mode == PROMPTS:
            self._notes.append(f"{name} is not measured: it needs the human change of PR_Recreate")
        if name == FORM and config.form is None:
            self._notes.append(f"{name} is not measured: set regex or json_schema in metrics_config.output_format")
        if name in judge.DIMENSIONS or name in judge.SAME:
            dimension = judge.canonical_dimension(where, name)
            if dimension not in config.dimensions:
                config.dimensions.append(dimension)

    def _form(self, part: _SettingsSection) -> Mapping[str, Any] | None:
        regex = part.take("regex", None, is_text, "a regular expression")
        key, schema = part.one_of(("json_schema", "json_schema_path"), _is_text_or_object, "a schema")
        part.done()
        if key == "json_schema_path" and not is_text(schema):
            raise BadInput(f"{part.position(key)}: json_schema_path must be the path of a file, got {quote(schema)}")
        if regex is None and schema is None:
            return None
        if regex is not None and schema is not None:
            raise BadInput(f"{part.where}: output_format has both regex and {key}", "keep one of them")
        return {"regex": regex} if regex is not None else {"json_schema": schema}

    def _limits(self) -> Mapping[str, Any]:
        part = self._root.section("limits", '{"parallel": 4}')
        part.names += list(Limits.model_fields)
        limits = {key: part.remaining.pop(key) for key in Limits.model_fields if key in part.remaining}
        part.done()
        return limits


def _is_text_or_object(value: Any) -> bool:
    return is_text(value) or isinstance(value, Mapping)


def _is_list_of_texts(value: Any) -> bool:
    return value == [] or is_texts(value)


def _seconds(where: str, timeout: int | str) -> float:
    if isinstance(timeout, str):
        try:
            return seconds_in(timeout)
        except ValueError as error:
            raise BadInput(f"{where}: timeout {error}") from None
    if timeout < SHORTEST_MS:
        message = f"{where}: timeout {timeout} is in milliseconds: no agent finishes in {timeout / 1000:g} s"
        raise BadInput(message, f'write {timeout * 1000}, or "{timeout}s"')
    return timeout / 1000

"""The settings file: `abreast run settings.json`. Two generations of its keys are read, each strictly.

The older one has `assistants`, `target_repo_url`, `num_prs` and the modes `standard` and `pr_recreate`; the newer one
`agents`, `repo_url` or `repo_path`, `agent_config`, a mapping for each mode and the modes `LLM_Evaluator` and
`PR_Recreate`. Times are milliseconds, and an empty text means that nothing is set. What the original ignores, or
only warns of, becomes a note. Our own are `check`, `setup`, `tests`, `judge`, `limits`, `preset`, `command`, `args`,
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
from abreast.suites.coding_agents.agents import Agent, from_template, known_agent
from abreast.suites.coding_agents.config import MODES, PROMPTS, PULL_REQUESTS, Config, Mode, PullRequests
from abreast.targets.workspace.git.git_command import without_secret

_OLDER_MODES: Mapping[str, Mode] = {"standard": "LLM_Evaluator", "pr_recreate": "PR_Recreate"}
# Metrics that every run has, whether they are named or not.
MEASURED = ("response_time", "diff_metrics", "steps_per_task")

SIMILARITY, FORM = "ast_similarity", "output_format_success"
METRICS = (*MEASURED, SIMILARITY, FORM, *judge.DIMENSIONS, *judge.SAME)
SHORTEST_MS = 1000
_MAY_BE_EMPTY = ("repo_url", "repo_path", "target_repo_url", "stage_dir", "branch", "ref")
_MANY = "a whole number of at least 1"
_OWN_KEYS = {  # that no spec has
    *("assistants", "agents", "runs_per_prompt", "num_prompts", "parallel_agents", "parallel_runs", "agent_config"),
}
_TEXT_FLAGS = {"true": True, "false": False}  # as some files write them
QUALITY = "output_quality"
LONGEST_RESULTS = 120  # bytes; the names of metrics follow, and a file system takes 255


def is_one(data: Any) -> bool:
    """Whether a file with these keys is a settings file, and not a spec."""
    return isinstance(data, Mapping) and bool(_OWN_KEYS & set(data)) and not {"cases", "variants", "grid"} & set(data)


def read(path: Path) -> Config:
    data, places = parse(path, read_text(path, "name prompts by their files"))
    if not isinstance(data, Mapping):
        raise BadInput(f"{relative_path(path)}: must be an object with agents and prompts, got {quote(data)}")
    return _File(path, data, places).config()


def results_name(where: str, name: str) -> str:
    if not re.fullmatch(r"\w[\w. -]*", name):
        raise BadInput(f"{where}: {quote(name)} is no plain name", "write bench_results")
    if len(name.encode()) > LONGEST_RESULTS:
        raise BadInput(f"{where}: {quote(name)} is longer than {LONGEST_RESULTS} bytes", "write bench_results")
    return name.removesuffix(".json")


class _Part(Settings):
    """One object of the file; each message names the line of its key."""

    noun = "key"

    def __init__(self, place: Callable[[KeyPath], str], at: KeyPath, given: Any, example: str = "{...}") -> None:
        if not isinstance(given, Mapping):
            raise BadInput(
                f"{place(at)}: {'.'.join(map(str, at))} must be an object such as {example}, got {quote(given)}"
            )
        super().__init__(place(at), given)
        self._place, self._at = place, at

    def place(self, key: str) -> str:
        return self._place((*self._at, key))

    def take(self, key: str, default: Any, check: Callable[[Any], bool], expects: str) -> Any:
        self.where = self.place(key)
        return super().take(key, default, check, expects)

    def flag(self, key: str, default: bool) -> bool:
        found = self.take(key, default, lambda value: is_flag(value) or value in ("true", "false"), "true or false")
        return found if isinstance(found, bool) else _TEXT_FLAGS[found]

    def one_of(self, keys: tuple[str, ...], check: Callable[[Any], bool], expects: str) -> tuple[str, Any]:
        """What is known by several names, and by which it is given."""
        found = [(key, self.take(key, None, check, expects)) for key in keys]
        given = [(key, value) for key, value in found if value is not None]
        if len(given) > 1:
            raise BadInput(
                f"{self.place(given[1][0])}: {given[0][0]} and {given[1][0]} are both given", "keep one of them"
            )
        return given[0] if given else (keys[0], None)

    def part(self, key: str, example: str) -> _Part | None:
        self.names.append(key)
        given = self.remaining.pop(key, None)
        return None if given is None else _Part(self._place, (*self._at, key), given, example)

    def done(self) -> None:
        for key in self.remaining:
            self.where = self.place(str(key))
            super().done()


class _File:
    def __init__(self, path: Path, data: Mapping[str, Any], places: KeyLines) -> None:
        self._path, self._base = path, path.resolve().parent
        self._source, self._places = relative_path(path), places
        given = {key: value for key, value in data.items() if not (key in _MAY_BE_EMPTY and value == "")}
        self._all = _Part(self._place, (), given)
        self._notes: list[str] = []

    def _place(self, at: KeyPath) -> str:
        line = self._places.line(at)
        return f"{self._source}:{line}" if line else self._source

    def config(self) -> Config:
        take = self._all.take
        mode = self._mode()
        agents = self._agents()
        address_or_folder, repo = self._all.one_of(("repo_path", "repo_url", "target_repo_url"), is_text, "text")
        branch = take("branch", None, is_text, "the name of a branch")
        files, topics = self._prompts(mode)
        output = take("output_filename", None, is_text, "a name such as bench_results")
        found = Config(
            agents=agents,
            mode=mode,
            prompts=files,
            topics=topics,
            pull_requests=self._pull_requests(mode),
            repo=repo,
            branch=take("ref", branch, is_text, "a commit or tag"),
            stage=take("stage_dir", repository.STAGE, is_text, "a folder"),
            runs=take("runs_per_prompt", 1, is_count, _MANY),
            parallel_runs=take("parallel_runs", 1, is_count, _MANY),
            parallel_agents=self._all.flag("parallel_agents", True),
            check=take("check", None, is_text, 'a command such as "pytest -q"'),
            tests=take("tests", None, lambda value: value == [] or is_texts(value), 'a list such as ["checks/**"]'),
            limits=self._limits(),
            setup=take("setup", None, is_text, 'a command such as "uv sync"'),
            judge=take(
                "judge", None, lambda value: is_text(value) or isinstance(value, Mapping), "a model, or settings"
            ),
            output=None if output is None else results_name(self._all.place("output_filename"), output),
            notes=self._notes,
            base=self._base,
            origin=self._path,
        )
        self._metrics(found)
        self._all.done()
        if address_or_folder == "repo_path" and repo is not None and "://" in repo:
            told = f"{without_secret(repo)} is an address"
            raise BadInput(f"{self._all.place('repo_path')}: {told}", "write it as repo_url")
        return found

    def _mode(self) -> Mode:
        known = (*MODES, *_OLDER_MODES)
        word: Mode = self._all.take("mode", PROMPTS, known.__contains__, f"one of {', '.join(MODES)}")
        return _OLDER_MODES.get(word, word)

    # -- agents ----------------------------------------------------------------------------------------------------

    def _agents(self) -> list[Agent]:
        key, names = self._all.one_of(("agents", "assistants"), is_texts, 'a list of names such as ["Claude Code"]')
        where = self._all.place(key)
        if not names:
            raise BadInput(f"{where}: no agents", f'write "{key}": ["Claude Code", "Codex CLI"]')
        config = self._all.part("agent_config", '{"Claude Code": {"model": "opus"}}')
        own = {}
        if config is not None:
            own = {name: config.part(name, '{"model": "opus"}') for name in list(config.remaining)}
        unused = [name for name in own if name not in names]
        self._notes += [
            f'agent_config: "{name}" is not among {key} and not used{did_you_mean(name, names)}' for name in unused
        ]
        return [self._agent(f"{self._place((key, at))}", name, own.get(name)) for at, name in enumerate(names)]

    def _agent(self, where: str, name: str, own: _Part | None) -> Agent:
        if wrong := name_problem(name):
            raise BadInput(f"{where}: the name of an agent {wrong}")
        if own is None:
            return known_agent(where, name)
        model = own.take("model", None, is_text, "the name of a model")
        template = own.take("commandTemplate", None, is_text, 'a command such as "my-agent {prompt}"')
        preset = own.take("preset", None, is_text, "the name of a known agent")
        timeout = own.take(
            "timeout", None, lambda value: is_count(value) or is_text(value), "milliseconds, or text: 20m"
        )
        further = {
            "command": own.take("command", None, is_text, "the name or path of the known agent's program"),
            "env": own.take("env", None, is_mapping_of_texts, "an object of texts"),
            "args": own.take("args", None, is_texts, "a list of further words"),
        }
        own.done()
        if template is None:
            found = known_agent(
                where if preset is None else own.place("preset"), preset or name, model=model, **further
            )
            return Agent(name, found.params, self._timeout(own, timeout))
        if preset is not None or further["args"] or further["command"]:
            key = "preset" if preset is not None else "args" if further["args"] else "command"
            raise BadInput(f"{own.place(key)}: {key} and commandTemplate are both given", "keep one of them")
        params = {**from_template(own.place("commandTemplate"), template), "model": model, "env": further["env"]}
        kept = {key: value for key, value in params.items() if value is not None}
        return Agent(name, kept, self._timeout(own, timeout))

    def _timeout(self, own: _Part, given: int | str | None) -> float | None:
        if given is None:
            return None
        if isinstance(given, str):
            try:
                return seconds_in(given)
            except ValueError as error:
                raise BadInput(f"{own.place('timeout')}: timeout {error}") from None
        if given < SHORTEST_MS:
            raise BadInput(
                f"{own.place('timeout')}: timeout {given} is in milliseconds: no agent ends in {given / 1000:g} s",
                f'write {given * 1000}, or "{given}s"',
            )
        return given / 1000

    # -- tasks -----------------------------------------------------------------------------------------------------

    def _prompts(self, mode: Mode) -> tuple[list[Path], list[str]]:
        number = self._all.take("num_prompts", None, is_count, _MANY)
        names = self._all.take("prompts", None, is_texts, 'a list of files such as ["prompt1.md"]')
        where = self._all.place("prompts")
        topics = self._topics(self._all.part(PROMPTS, "{}"))
        if mode == PULL_REQUESTS:
            unused = [key for key, value in (("num_prompts", number), ("prompts", names)) if value is not None]
            self._notes += [f"{key} is not used: the tasks of PR_Recreate are pull requests" for key in unused]
            return [], []
        if names is not None or prompts.prompts_in(self._base / prompts.FOLDER):
            files = prompts.prompt_files(where, names or [prompts.FOLDER], self._base)
            source = "prompts" if names is not None else f"the folder {prompts.FOLDER}"
            self._agree(number, len(files), source)
            return files, []
        if not topics:
            fix = f'write "prompts": ["prompt1.md"], or a folder {prompts.FOLDER}, or prompt_topics'
            raise BadInput(f"{self._source}: no prompts", fix)
        self._agree(number, len(topics), "prompt_topics")
        self._notes.append("prompt_topics are the prompts, word for word: no model writes longer ones")
        return [], topics

    def _agree(self, number: int | None, there: int, source: str) -> None:
        if number is not None and number != there:
            message = f"num_prompts is {number:,}, and {source} has {there:,}"
            raise BadInput(f"{self._all.place('num_prompts')}: {message}", "make them agree")

    def _topics(self, part: _Part | None) -> list[str]:
        """Tasks in a few words, from which the original has a model write prompts where there are none."""
        if part is None:
            return []
        generates = part.flag("generate_prompts", True)
        topics = part.take("prompt_topics", [], lambda value: value == [] or is_texts(value), "a list of texts")
        part.done()
        return [topic for topic in topics if topic.strip()] if generates else []

    def _pull_requests(self, mode: Mode) -> PullRequests:
        older = self._all.take("num_prs", None, is_count, _MANY)
        part = self._all.part(PULL_REQUESTS, '{"num_prs": 5}')
        if older is not None and mode != PULL_REQUESTS:
            self._notes.append("num_prs is not used: it is for PR_Recreate")
        if part is None:
            return PullRequests(last=older)
        number = part.take("num_prs", older, is_count, _MANY)
        tasks = part.take("tasks", None, is_text, "a file of tasks")
        part.flag("generate_prompts", True)  # tasks are always made of the messages; a file of tasks wins
        commits = part.take("commits", [], is_texts, 'a list such as ["1a2b3c4", "v1..v2"]')
        cumulative = part.flag("cumulative", False)
        with_tests = part.flag("with_tests", False) if "with_tests" in part.remaining else None
        part.names.append("with_tests")
        part.done()
        return PullRequests(number, list(commits), tasks, cumulative, with_tests)

    # -- scores ----------------------------------------------------------------------------------------------------

    def _metrics(self, config: Config) -> None:
        names = self._all.take("metrics", [], lambda value: value == [] or is_texts(value), "a list of metrics")
        forms = self._all.part("metrics_config", '{"output_format": {"regex": "..."}}')
        form = None if forms is None else forms.part("output_format", '{"regex": "..."}')
        if form is not None:
            config.form = self._form(form)
        passing = None if forms is None else forms.part("agent_success", '{"threshold": 7, "mode": "quality"}')
        if forms is not None:
            forms.done()
        for at, name in enumerate(names):
            self._metric(self._place(("metrics", at)), name, config)
        if config.judge is not None and not config.dimensions:
            config.dimensions = list(judge.RUBRIC)
        if passing is not None:
            self._passing(passing, config)

    def _passing(self, part: _Part, config: Config) -> None:
        """What counts as success: a judged quality from a mark on, or to have ended well, which is always told."""
        mode = part.take("mode", "quality", ("quality", "completion").__contains__, "quality or completion")
        low, high = judge.SCALE
        mark = part.take(
            "threshold", 7, lambda value: is_number(value) and 0 <= value <= high, f"a number from 0 to {high}"
        )
        part.done()
        if mode == "completion":
            return
        if QUALITY not in config.dimensions:
            self._notes.append(f"agent_success by quality is not measured: it needs the metric {QUALITY}")
        elif mark > low:  # any judged quality is at least the lowest mark
            config.passing = {QUALITY: float(mark)}

    def _metric(self, where: str, name: str, config: Config) -> None:
        if name not in METRICS:
            raise BadInput(f'{where}: no metric "{name}"{suggestion(name, METRICS)}', f"known: {', '.join(METRICS)}")
        if name == SIMILARITY and config.mode == PROMPTS:
            self._notes.append(f"{name} is not measured: it is for PR_Recreate, where there is a human change")
        if name == FORM and config.form is None:
            self._notes.append(f"{name} is not measured: metrics_config.output_format has no regex and no json_schema")
        if name in judge.DIMENSIONS or name in judge.SAME:
            found = judge.dimension(where, name)
            if found not in config.dimensions:
                config.dimensions.append(found)

    def _form(self, part: _Part) -> Mapping[str, Any] | None:
        regex = part.take("regex", None, is_text, "a regular expression")
        key, schema = part.one_of(
            ("json_schema", "json_schema_path"), lambda value: is_text(value) or isinstance(value, Mapping), "a schema"
        )
        part.done()
        if key == "json_schema_path" and not is_text(schema):
            raise BadInput(f"{part.place(key)}: json_schema_path must be the path of a file, got {quote(schema)}")
        if regex is None and schema is None:
            return None
        if regex is not None and schema is not None:
            raise BadInput(f"{part.where}: output_format has regex and {key}", "keep one of them")
        return {"regex": regex} if regex is not None else {"json_schema": schema}

    def _limits(self) -> Mapping[str, Any]:
        part = self._all.part("limits", '{"parallel": 4}')
        if part is None:
            return {}
        part.names += list(Limits.model_fields)
        given = {key: part.remaining.pop(key) for key in Limits.model_fields if key in part.remaining}
        part.done()
        return given

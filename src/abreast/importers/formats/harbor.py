"""Job folders of Harbor, the harness of Terminal-Bench: `jobs/NAME/` with a folder for each trial."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from abreast.errors import BadInput
from abreast.importers.base import LogFormat, LoggedTrial, LogHeader, as_written_by, failure_from_message
from abreast.importers.log_file import LogFile
from abreast.model import Answer, Blame, Case, Failure, Score, Usage
from abreast.targets.untrusted_json import count, dollars, mapping, mappings
from abreast.text import many

_RESULT, _CONFIG, _LOCK = "result.json", "config.json", "lock.json"
_TRIAL = {"task_name", "trial_name"}  # keys in the result of a trial
_JOB = {"n_total_trials", "stats"}  # keys in the result of a job
CANCELLED = "CancelledError"

FAILURES: dict[str, tuple[str, Blame]] = {  # exceptions of Harbor, as kind and blame
    "AgentTimeoutError": ("timeout", "variant"),
    "NonZeroAgentExitCodeError": ("crash", "variant"),
    "OutputTokenExceededError": ("too_long", "variant"),
    "OutputLengthExceededError": ("too_long", "variant"),
    "ContextWindowExceededError": ("too_long", "variant"),
    "ContextLengthExceededError": ("too_long", "variant"),
    "AgentSafetyRefusalError": ("refused", "variant"),
    "ApiRateLimitError": ("rate_limit", "infrastructure"),
    "ApiUsageLimitError": ("rate_limit", "infrastructure"),
    "ApiOverloadedError": ("network", "infrastructure"),
    "ApiInternalServerError": ("network", "infrastructure"),
    "ApiConnectionError": ("network", "infrastructure"),
    "ApiConnectionClosedError": ("network", "infrastructure"),
    "ApiResponseStalledError": ("network", "infrastructure"),
    "NetworkConnectionError": ("network", "infrastructure"),
    "AgentAuthenticationError": ("auth", "infrastructure"),
    "ModelNotFoundError": ("auth", "infrastructure"),
    "ApiProviderResourceNotFoundError": ("auth", "infrastructure"),
    "EnvironmentStartTimeoutError": ("environment", "infrastructure"),
    "AgentSetupTimeoutError": ("environment", "infrastructure"),
    "HealthcheckError": ("environment", "infrastructure"),
    "SandboxBuildFailedError": ("environment", "infrastructure"),
    "AddTestsDirError": ("environment", "infrastructure"),
    "DownloadVerifierDirError": ("environment", "infrastructure"),
    "RewardFileNotFoundError": ("verifier", "unknown"),  # the tests may be broken, or the agent may have broken them
    "RewardFileEmptyError": ("verifier", "unknown"),
    "VerifierOutputParseError": ("verifier", "unknown"),
    "VerifierTimeoutError": ("verifier", "unknown"),
}

Json = Mapping[str, Any]


class HarborJob(LogFormat):
    name = "harbor"
    title = "Harbor job folder"
    error_rule = (
        "a trial with a reward counts with its reward, even if its agent timed out; of the others, exceptions before "
        "the agent started and those of the provider, the network or keys are infrastructure; timeouts, crashes and "
        "refusals of the agent are the variant's fault; the rest, such as a verifier without a reward, count for "
        "neither side"
    )

    def recognises(self, log: LogFile) -> bool:
        if log.kind == "json":
            return log.path.name == _RESULT and log.keys.keys() >= _JOB
        if log.kind != "folder":
            return False
        results = (name for name in log.members if name.endswith(_RESULT) and name.count("/") <= 1)
        return any(_is_part(LogFile(log.path / name)) for name in results)

    def digest(self, log: LogFile) -> str:
        return _folder(log).digest()

    def header(self, log: LogFile) -> LogHeader:
        folder = _folder(log)
        job, config = _optional(folder, _RESULT), _optional(folder, _CONFIG)
        trials = _Trials(folder, config)
        variants = trials.variants()
        if not variants:
            jobs = [
                name.partition("/")[0] for name in folder.members if name.count("/") == 1 and name.endswith(_RESULT)
            ]
            raise folder.error("no results of trials", f"name the folder of one job: {', '.join(jobs)}" if jobs else "")
        attempts = config.get("n_attempts")
        total = job.get("n_total_trials")
        repeats = attempts if isinstance(attempts, int) and attempts > 0 else None
        is_planned = repeats and isinstance(total, int) and total % (len(variants) * repeats) == 0
        finished_at = _seconds(job.get("finished_at"))
        stats = mapping(job.get("stats"))
        return LogHeader(
            tool="Harbor",
            tool_version=mapping(_optional(folder, _LOCK).get("harbor")).get("version"),
            task=str(config.get("job_name") or folder.path.resolve().name),
            created_at=_seconds(job.get("started_at")) or trials.started_at(),
            finished_at=finished_at,
            status="complete" if finished_at or (not job and not trials.unfinished) else "incomplete",
            reason=_reason(trials),
            variants={variant.name: variant.params for variant in variants},
            planned_cases=total // (len(variants) * repeats) if is_planned and total and repeats else None,
            repeats=repeats,
            primary=trials.primary,
            facts={
                "job": job.get("id"),
                "results": {
                    name: mapping(evaluation).get("metrics") for name, evaluation in mapping(stats.get("evals")).items()
                },
                "errors": stats.get("n_errored_trials", stats.get("n_errors")),
            },
        )

    def trials(self, log: LogFile, header: LogHeader) -> Iterator[LoggedTrial]:
        folder = _folder(log)
        trials = _Trials(folder, _optional(folder, _CONFIG))
        names = {variant.key: variant.name for variant in trials.variants()}
        for summary in trials.summaries:
            result = _trial_result(folder, summary.member)
            with as_written_by("Harbor", folder, summary.member):
                trial = _trial(folder, summary, result, names[summary.key], trials.has_several_sources)
            yield trial


@dataclass(frozen=True, slots=True)
class _Summary:
    """The facts of a trial that determine the order and the variants of a job."""

    member: str
    started_at: float
    source: str
    agent: str
    model: str
    options: str  # further settings of the agent
    configured: str  # the agent's name or import path in the configuration of the job

    @property
    def key(self) -> tuple[str, str, str]:
        return self.agent, self.model, self.options


@dataclass(frozen=True, slots=True)
class _Variant:
    name: str
    key: tuple[str, str, str]
    params: dict[str, Any]


class _Trials:
    """The trials of a job, in the order of their starts."""

    def __init__(self, folder: LogFile, config: Json) -> None:
        names = [name for name in folder.members if name.count("/") <= 1]
        results = {PurePosixPath(name).parent for name in names if name.endswith(_RESULT)}
        configs = {PurePosixPath(name).parent for name in names if name.endswith(_CONFIG)}
        self._config = config
        self.unfinished = len(configs - results - {PurePosixPath()})
        summaries = []
        self.primary: str | None = None
        for name in names:
            if PurePosixPath(name).name == _RESULT and LogFile(folder.path / name).keys.keys() >= _TRIAL:
                result = _trial_result(folder, name)
                with as_written_by("Harbor", folder, name):
                    summaries.append(_summary(name, result))
                    rewards = _rewards(result)
                self.primary = self.primary or ("reward" if "reward" in rewards else next(iter(rewards), None))
        self.summaries = sorted(summaries, key=lambda summary: (summary.started_at, summary.member))
        self.has_several_sources = len({summary.source for summary in summaries}) > 1

    def started_at(self) -> float | None:
        return next((summary.started_at for summary in self.summaries if summary.started_at), None)

    def variants(self) -> list[_Variant]:
        """Return the agents, models and settings in the order of the configuration, named by their differences."""
        order = [
            (agent.get("name") or agent.get("import_path"), agent.get("model_name"))
            for agent in mappings(self._config.get("agents"))
        ]
        places: dict[tuple[str, str, str], tuple[int, float]] = {}
        for summary in self.summaries:
            configured = summary.configured, summary.model
            place = order.index(configured) if configured in order else len(order)
            places.setdefault(summary.key, (place, summary.started_at))
        keys = sorted(places, key=places.__getitem__)
        agents, models = {agent for agent, _, _ in keys}, {model for _, model, _ in keys}
        variants: dict[str, _Variant] = {}
        for key in keys:
            agent, model, options = key
            parts = [
                agent if len(agents) > 1 or not model else "",
                model if len(models) > 1 or len(agents) == 1 else "",
            ]
            name = base = " / ".join(filter(None, parts)) or "agent"
            number = 1
            while name in variants:  # the same agent and model with other settings
                number += 1
                name = f"{base} {number}"
            params = {"agent": agent, "model": model, **mapping(json.loads(options))}
            variants[name] = _Variant(name, key, {key: value for key, value in params.items() if value not in ("", {})})
        return list(variants.values())


def _is_part(result: LogFile) -> bool:
    """Whether this is the result of a job or of a trial."""
    return result.keys.keys() >= _TRIAL or result.keys.keys() >= _JOB


def _folder(log: LogFile) -> LogFile:
    """Return the folder of the job, even if its result was named."""
    return log if log.kind == "folder" else LogFile(log.path.parent)


def _optional(folder: LogFile, name: str) -> Json:
    return mapping(folder.json(name)) if name in folder.members else {}


def _trial_result(folder: LogFile, member: str) -> Json:
    result = folder.json(member)
    if not isinstance(result, dict) or not isinstance(result.get("task_name"), str):
        raise folder.error("not the result of a Harbor trial: has no task_name", member=member)
    return result


def _reason(trials: _Trials) -> str:
    if trials.unfinished:
        trial_count = many(trials.unfinished, "trial")
        return f"Harbor did not finish this job: {trial_count} without a result"
    return "Harbor did not finish this job: it was stopped, or is still running"


def _summary(member: str, result: Json) -> _Summary:
    agent = mapping(mapping(result.get("config")).get("agent"))
    info, model = mapping(result.get("agent_info")), mapping(mapping(result.get("agent_info")).get("model_info"))
    options = {name: agent[name] for name in ("kwargs", "mcp_servers", "skills", "env") if agent.get(name)}
    name = str(model.get("name") or "")
    qualified = f"{model['provider']}/{name}" if name and model.get("provider") else name
    return _Summary(
        member=member,
        started_at=_seconds(result.get("started_at")) or 0.0,
        source=str(result.get("source") or ""),
        agent=str(info.get("name") or agent.get("name") or ""),
        model=str(agent.get("model_name") or qualified),
        options=json.dumps(options, sort_keys=True),
        configured=str(agent.get("name") or agent.get("import_path") or ""),
    )


def _trial(folder: LogFile, summary: _Summary, result: Json, variant: str, names_source: bool) -> LoggedTrial:
    task = str(result["task_name"])
    rewards = _rewards(result)
    exception = mapping(result.get("exception_info"))
    has_started = bool(mapping(result.get("agent_execution")) or result.get("step_results"))
    failure = _failure(exception, has_started) if exception and not rewards else None
    is_cancelled = failure is not None and exception.get("exception_type") == CANCELLED
    conversation = _Conversation(folder, str(PurePosixPath(summary.member).parent))
    execution = mapping(result.get("agent_execution"))
    started_at, finished_at = _seconds(execution.get("started_at")), _seconds(execution.get("finished_at"))
    return LoggedTrial(
        case=Case(
            f"{summary.source}/{task}" if names_source and summary.source else task,
            {"task": task, "checksum": result.get("task_checksum")},
            tags={"dataset": summary.source} if names_source and summary.source else {},
        ),
        variant=variant,
        prompt=conversation.prompt,
        answer=_answer(result, exception if failure is None else {}, conversation, summary.model),
        failure=None if is_cancelled else failure,
        skipped="cancelled in Harbor" if is_cancelled else None,
        scores=[Score(name, value) for name, value in rewards.items()],
        started_at=summary.started_at or None,
        latency_s=max(0.0, finished_at - started_at) if started_at and finished_at else None,
    )


def _rewards(result: Json) -> dict[str, float]:
    verifier = mapping(result.get("verifier_result"))
    rewards = verifier.get("rewards")
    if not isinstance(rewards, dict):
        rewards = {"reward": verifier.get("reward")}  # early versions
    return {
        str(name): float(value)
        for name, value in rewards.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _failure(exception: Json, has_started: bool) -> Failure:
    name, message = str(exception.get("exception_type")), str(exception.get("exception_message") or "")
    text = f"{name}: {message}" if message else name
    if name in FAILURES:
        kind, blame = FAILURES[name]
        return Failure(kind, blame, text)
    return failure_from_message(text) if has_started else Failure("environment", "infrastructure", text)


def _answer(result: Json, exception: Json, conversation: _Conversation, model: str) -> Answer:
    contexts = [mapping(result.get("agent_result"))]
    if not contexts[0]:
        contexts = [mapping(step.get("agent_result")) for step in mappings(result.get("step_results"))]
    sent, cached, output = (_total(contexts, f"n_{name}_tokens") for name in ("input", "cache", "output"))
    costs = [cost for context in contexts if (cost := dollars(context.get("cost_usd"))) is not None]
    data = {"trial": result.get("trial_name")}
    if exception:
        data["exception"] = exception.get("exception_type")
    return Answer(
        text=conversation.answer,
        data=data | ({"trajectory_error": conversation.problem} if conversation.problem else {}),
        usage=Usage(
            input_tokens=None if sent is None else max(0, sent - (cached or 0)),  # Harbor includes cached ones
            output_tokens=output,
            cache_read_tokens=cached,
        ),
        cost_usd=sum(costs) if costs else None,
        cost_basis="reported" if costs else "unknown",
        model=model or None,
    )


def _total(contexts: list[Json], name: str) -> int | None:
    counts = [number for context in contexts if (number := count(context.get(name))) is not None]
    return sum(counts) if counts else None


class _Conversation:
    """The first message and the last answer of an agent, from its trajectory if there is one (ATIF)."""

    def __init__(self, folder: LogFile, trial: str) -> None:
        self.prompt = self.answer = self.problem = ""
        member = str(PurePosixPath(trial) / "agent/trajectory.json")
        if member not in folder.members:
            return
        try:
            for path, step in folder.json_values(["steps"], member):
                if path == "steps":
                    self._add(mapping(step))
        except BadInput as error:  # a stopped agent may leave an incomplete file
            self.problem = str(error)

    def _add(self, step: Json) -> None:
        message = _message(step.get("message"))
        if step.get("source") == "user" and not self.prompt:
            self.prompt = message
        elif step.get("source") == "agent" and message:
            self.answer = message


def _message(message: Any) -> str:
    if isinstance(message, str):
        return message
    return "\n".join(str(part.get("text") or "") for part in mappings(message))


def _seconds(date: Any) -> float | None:
    """Seconds since the epoch; a date without a zone is in UTC."""
    try:
        moment = datetime.fromisoformat(date) if isinstance(date, str) else None
    except ValueError:
        return None
    if moment is None:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

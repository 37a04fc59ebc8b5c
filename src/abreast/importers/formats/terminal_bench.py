"""Runs of Terminal-Bench's own harness (`tb run`), before Harbor: `results.json` and `run_metadata.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from abreast.importers.base import LogFormat, LoggedTrial, LogHeader, as_written_by
from abreast.importers.log_file import LogFile
from abreast.model import Answer, Blame, Case, Failure, Score, Usage
from abreast.targets.untrusted_json import count, mapping

_RESULTS, _METADATA = "results.json", "run_metadata.json"

FAILURES: dict[str, tuple[str, Blame]] = {  # failure modes of trials without a result, as kind and blame
    "agent_timeout": ("timeout", "variant"),
    "context_length_exceeded": ("too_long", "variant"),
    "output_length_exceeded": ("too_long", "variant"),
    "fatal_llm_parse_error": ("no_answer", "variant"),
    "agent_installation_failed": ("environment", "infrastructure"),
    "test_timeout": ("verifier", "unknown"),
    "parse_error": ("verifier", "unknown"),
}

Json = Mapping[str, Any]


class TerminalBenchRun(LogFormat):
    name = "terminal-bench"
    title = "Terminal-Bench run folder"
    error_rule = (
        "a trial whose tests ran counts with their result, even if its agent timed out; of the others, an agent that "
        "could not be installed is infrastructure; a timeout or an exceeded context is the variant's fault; the rest, "
        "such as tests that did not end, count for neither side"
    )

    def recognises(self, log: LogFile) -> bool:
        results = LogFile(log.path / _RESULTS) if log.kind == "folder" and _RESULTS in log.members else log
        return results.kind == "json" and "results" in results.keys and b'"is_resolved"' in results.head

    def header(self, log: LogFile) -> LogHeader:
        folder, _ = _files(log)
        metadata = mapping(folder.json(_METADATA)) if (folder.path / _METADATA).is_file() else {}
        with as_written_by("Terminal-Bench", folder, _METADATA):
            has_ended = not metadata or metadata.get("end_time") is not None
            dataset = " ".join(
                str(metadata[name]) for name in ("dataset_name", "dataset_version") if metadata.get(name)
            )
            parts = [metadata.get("agent_name"), metadata.get("model_name")]
            variant = " / ".join(str(part) for part in parts if part) or folder.path.resolve().name
            params = {"agent": metadata.get("agent_name"), "model": metadata.get("model_name")}
            return LogHeader(
                tool="Terminal-Bench",
                task=dataset or str(metadata.get("run_id") or folder.path.resolve().name),
                created_at=_seconds(metadata.get("start_time")),
                finished_at=_seconds(metadata.get("end_time")),
                status="complete" if has_ended else "incomplete",
                reason=None if has_ended else "Terminal-Bench did not finish: it was stopped, or is still running",
                variants={variant: {**params, **mapping(metadata.get("agent_kwargs"))}},
                planned_cases=count(metadata.get("dataset_size")) or None,
                repeats=count(metadata.get("n_attempts")) or None,
                primary="resolved",
                facts={"commit": metadata.get("commit_hash"), "accuracy": metadata.get("accuracy")},
            )

    def trials(self, log: LogFile, header: LogHeader) -> Iterator[LoggedTrial]:
        (variant,) = header.variants
        folder, member = _files(log)
        for path, result in folder.json_values(["results"], member):
            if path != "results":
                continue
            if not isinstance(result, dict) or not isinstance(result.get("task_id"), str):
                raise folder.error("not a result of Terminal-Bench: has no task_id", member=member)
            with as_written_by("Terminal-Bench", folder, f"trial {result.get('trial_name')}"):
                trial = _trial(result, variant, header.variants[variant].get("model"))
            yield trial


def _files(log: LogFile) -> tuple[LogFile, str]:
    """Return the folder of the run and the name of its results, even if the results were named."""
    return (log, _RESULTS) if log.kind == "folder" else (LogFile(log.path.parent), log.path.name)


def _trial(result: Json, variant: str, model: str | None) -> LoggedTrial:
    is_resolved, mode = result.get("is_resolved"), str(result.get("failure_mode"))
    kind, blame = FAILURES.get(mode, ("error", "unknown"))
    failure = None if is_resolved is not None else Failure(kind, blame, f"Terminal-Bench reports {mode}")
    started_at, ended_at = _seconds(result.get("agent_started_at")), _seconds(result.get("agent_ended_at"))
    tests = mapping(result.get("parser_results"))
    scores = [] if is_resolved is None else [Score("resolved", float(bool(is_resolved)))]
    if tests:
        passed = sum(status == "passed" for status in tests.values())
        scores.append(Score("tests", passed / len(tests), f"{passed} of {len(tests)} tests passed"))
    return LoggedTrial(
        case=Case(result["task_id"], result.get("instruction")),
        variant=variant,
        prompt=str(result.get("instruction") or ""),
        answer=Answer(
            text="",
            data={"trial": result.get("trial_name"), "failure_mode": mode},
            usage=Usage(count(result.get("total_input_tokens")), count(result.get("total_output_tokens"))),
            model=model,
        ),
        failure=failure,
        scores=scores,
        started_at=_seconds(result.get("trial_started_at")),
        latency_s=max(0.0, ended_at - started_at) if started_at and ended_at else None,
    )


def _seconds(date: Any) -> float | None:
    try:
        return datetime.fromisoformat(date).timestamp() if isinstance(date, str) else None
    except ValueError:
        return None

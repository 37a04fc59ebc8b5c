"""Runs as Inspect logs: one archive per variant, for `inspect view` and `read_eval_log`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from abreast import __version__
from abreast.analyse.rows import Rows
from abreast.digest import compose
from abreast.errors import BadInput
from abreast.filenames import FileNames
from abreast.store import Store
from abreast.text import storable

VERSION = 2  # of the log format
_TOKENS = {  # columns by their names in Inspect
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "input_tokens_cache_read": "cache_read_tokens",
    "input_tokens_cache_write": "cache_write_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "total_cost": "cost_usd",
}
_PARTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

Json = dict[str, Any]


def export_inspect(store: Store, run: str, output: str | None) -> list[tuple[Path, int]]:
    """Write a log for each variant; return the files and their numbers of samples.

    `output` is a folder, or the file if the run has one variant; by default the working folder. Nothing is overwritten.
    """
    rows = Rows(store, run)
    paths = _paths(rows, output)
    for path in paths:
        if path.exists():
            raise BadInput(f"{path}: exists already", "name another file or folder with --output")
    return [(path, _LogWriter(rows, variant).write(path)) for variant, path in enumerate(paths)]


def _paths(rows: Rows, output: str | None) -> list[Path]:
    if output is not None and output.endswith(".eval"):
        if len(rows.variants) > 1:
            raise BadInput(
                f"--output {output}: {rows.meta['run']} has {len(rows.variants)} variants, and each becomes a log",
                "name a folder",
            )
        return [Path(output)]
    folder, names = Path(output or "."), FileNames()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--output {output}: cannot make the folder ({error.strerror})") from None
    run = rows.meta["run"]
    return [folder / f"{names.of(f'{run}-{variant}')}.eval" for variant in rows.variants]


class _LogWriter:
    def __init__(self, rows: Rows, variant: int) -> None:
        self._rows, self._variant = rows, variant
        self._name = rows.variants[variant]
        self._model = str(rows.params[variant].get("model") or self._name)
        self._ids: dict[str, None] = {}
        self._summaries: list[Json] = []
        self._usage: dict[str, float] = {}
        self._values: dict[str, dict[str, list[float]]] = {}  # by score and case

    def write(self, path: Path) -> int:
        partial = path.with_name(f".{path.name}.partial")
        try:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
                for sample in self._samples():
                    archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", _text(sample))
                start = {"version": VERSION, "eval": self._spec(), "plan": self._plan()}
                archive.writestr("_journal/start.json", _text(start))
                archive.writestr("summaries.json", _text(self._summaries))
                archive.writestr("header.json", _text({**start, **self._ending()}))
            partial.replace(path)
        except OSError as error:
            raise BadInput(f"{path}: cannot write ({error.strerror})") from None
        finally:
            partial.unlink(missing_ok=True)
        return len(self._summaries)

    def _samples(self) -> Iterator[Json]:
        rows, queries = self._rows, self._rows.store.queries
        by_trial = groupby(queries.scores_of_variant(rows.run_id, self._variant), key=lambda row: row[0])
        scored = next(by_trial, None)
        for trial in queries.full_trials(rows.run_id, self._variant):
            scores: Json = {}
            while scored is not None and scored[0] <= trial["position"]:
                if scored[0] == trial["position"]:
                    scores = {name: self._score(trial, name, value, text) for _, name, value, text in scored[1]}
                scored = next(by_trial, None)
            if trial["status"] in ("ok", "error"):
                yield self._sample(trial, scores)

    def _score(self, trial: Mapping[str, Any], name: str, value: float | None, explanation: str) -> Json:
        if value is not None:
            self._values.setdefault(name, {}).setdefault(trial["case_id"], []).append(value)
        return {
            "value": float("nan") if value is None else value,
            "answer": trial["answer"],
            "explanation": explanation,
        }

    def _sample(self, trial: Mapping[str, Any], scores: Json) -> Json:
        prompt, answer = trial["prompt"] or "", trial["answer"] or ""
        question, choices = _question(json.loads(trial["input"]), prompt)
        expected = json.loads(trial["expected"])
        usage = self._usage_of(trial)
        shared = {
            "id": trial["case_id"],
            "epoch": trial["repeat"] + 1,
            "input": question,
            "choices": choices,
            "target": _target(expected),
            "metadata": json.loads(trial["tags"]),
            "scores": scores or None,
            "model_usage": {self._model: usage} if usage else {},
            "started_at": _time(trial["started_at"]),
            "completed_at": _time(trial["finished_at"]),
            "total_time": trial["latency_s"],
            "working_time": trial["service_s"],
            "uuid": compose("sample", self._rows.meta["run"], self._name, trial["position"])[:22],
        }
        error = trial["error"] if trial["status"] == "error" else None
        if error is not None:
            error = f"{trial['error_kind']} ({trial['error_blame']}): {error}"
        self._ids[trial["case_id"]] = None
        self._summaries.append({**shared, "error": error, "completed": True, "message_count": 2})
        model = trial["model"] or self._model
        reply = {"role": "assistant", "content": answer, "source": "generate", "model": model}
        return {
            **shared,
            "messages": self._messages(trial)
            or [{"role": "user", "content": prompt, "source": "input"}, *([] if error else [reply])],
            "output": {
                "model": model,
                "choices": [] if error else [{"message": reply, "stop_reason": "stop"}],
                "completion": answer,
                "usage": usage or None,
            },
            "error": error
            and {
                "message": error,
                "traceback": trial["error_detail"] or "",
                "traceback_ansi": trial["error_detail"] or "",
            },
            "store": {},
            "events": [],
            "attachments": {},
        }

    def _messages(self, trial: Mapping[str, Any]) -> Any:
        """The conversation, if Inspect wrote it."""
        record = self._rows.imported
        is_logged = record is not None and record.format == "inspect" and trial["raw_response"]
        return json.loads(trial["raw_response"])["messages"] if is_logged else None

    def _usage_of(self, trial: Mapping[str, Any]) -> Json:
        usage = {name: trial[column] for name, column in _TOKENS.items() if trial[column] is not None}
        if usage:
            usage["total_tokens"] = sum(trial[column] or 0 for column in _PARTS)
        for name, value in usage.items():
            self._usage[name] = self._usage.get(name, 0) + value
        return usage

    def _spec(self) -> Json:
        rows, run = self._rows, self._rows.meta
        identity = compose("log", run["run"], self._name)
        commit = rows.provenance.get("commit")
        revision = {"type": "git", "origin": "", "commit": commit, "dirty": rows.provenance.get("dirty")}
        return {
            "eval_id": identity,
            "run_id": compose("run", run["run"]),
            "task_id": compose("task", run["experiment"], self._name),
            "created": _time(run["created_at"]),
            "task": run["experiment"],
            "task_args": {},
            "dataset": {
                "name": run["experiment"],
                "samples": rows.planned_cases,
                "sample_ids": list(self._ids) if len(self._ids) == rows.planned_cases else None,
            },
            "model": self._model,
            "config": {"epochs": rows.repeats},
            "revision": revision if commit else None,
            "packages": {"abreast": __version__},
            "scorers": [{"name": name} for name in self._values],
            "metadata": {"abreast_run": run["run"], "variant": self._name, "simulated": bool(run["simulated"])}
            | {f"param_{key}": value for key, value in rows.params[self._variant].items()},
        }

    def _plan(self) -> Json:
        return {"name": "plan", "steps": [{"solver": self._rows.targets[self._variant]}]}

    def _status(self) -> str:
        """Return `success` even if infrastructure failed, as Inspect does."""
        run = self._rows.meta
        if run["status"] == "running":
            return "started"
        is_whole = run["status"] == "stopped_early" or int(self._rows.present.sum()) == self._rows.planned
        return "success" if is_whole else "cancelled"

    def _ending(self) -> Json:
        run, primary = self._rows.meta, self._rows.primary
        names = sorted(self._values, key=lambda name: (name != primary, name))
        total = self._rows.planned_cases * self._rows.repeats
        done = sum(summary["error"] is None for summary in self._summaries)
        return {
            "status": self._status(),
            "results": {
                "total_samples": total,
                "completed_samples": done,
                "scores": [
                    {
                        "name": name,
                        "scorer": name,
                        "params": {},
                        "metrics": {"mean": {"name": "mean", "value": fmean(map(fmean, self._values[name].values()))}},
                    }
                    for name in names
                ],
            },
            "stats": {
                "started_at": _time(run["created_at"]),
                "completed_at": _time(run["finished_at"]) or "",
                "model_usage": {self._model: self._usage} if self._usage else {},
            },
        }


def _question(value: Any, prompt: str) -> tuple[Any, Any]:
    """Return input and choices in Inspect's form; the prompt instead of an input that Inspect cannot express."""
    if isinstance(value, str):
        return value, None
    if isinstance(value, list) and value and all(isinstance(item, dict) and "role" in item for item in value):
        return value, None
    if isinstance(value, dict) and value.keys() == {"question", "choices"}:
        return _question(value["question"], prompt)[0], value["choices"]
    return prompt, None


def _target(expected: Any) -> Any:
    """The expected answer as Inspect has it: a text, or several that are right."""
    if isinstance(expected, list) and expected and all(isinstance(item, str) for item in expected):
        return expected
    return expected if isinstance(expected, str) else "" if expected is None else _text(expected)


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def _text(value: Any) -> str:
    return storable(json.dumps(value, ensure_ascii=False))

"""Logs of lm-evaluation-harness: `samples_TASK_DATE.jsonl` with or without `results_DATE.json`, and their folders."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from abreast.digest import digest
from abreast.importers.base import LogFormat, LoggedTrial, LogHeader, as_written_by
from abreast.importers.log_file import LogFile
from abreast.model import Answer, Case, Failure, Score
from abreast.targets.untrusted_json import mapping, mappings, parsed

_DATE = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
_SAMPLES = re.compile(rf"samples_(?P<task>.+)_(?P<date>{_DATE})\.jsonl")
_RESULTS = re.compile(rf"results(?:_(?P<date>{_DATE}))?\.json")
_ROW = {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
_ROW |= {"doc_hash", "prompt_hash", "target_hash"}  # columns that are not metrics
_REQUIRED = ("doc_id", "resps", "filtered_resps")
_MODEL = ("peft", "delta", "pretrained", "model", "path", "engine")  # arguments that name the model
NO_FILTER = "none"
NO_METRIC = "bypass"  # of --predict_only
COMBINED = "score"  # the main metric of each task, if the tasks have different ones

Row = Mapping[str, Any]


class LmEvalLog(LogFormat):
    name = "lm-eval"
    title = "lm-evaluation-harness log"
    error_rule = (
        "lm-evaluation-harness stops at an error, so every row is an answer, even an empty one; a request whose "
        "response is null has failed and counts for neither side"
    )

    def recognises(self, log: LogFile) -> bool:
        if log.kind == "folder":
            return bool(_names_by_folder(log))
        if log.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            return b'"doc_id"' in log.head and b'"doc"' in log.head
        return ("doc_id" in log.keys and len(_ROW & log.keys.keys()) > 1) or _is_results(log)

    def digest(self, log: LogFile) -> str:
        if log.kind == "folder":
            return log.digest()
        files = _sample_files(log)  # the samples of a summary, or the summary of samples
        rows = [LogFile(file.log.path / file.member).digest() for file in files]
        return digest([rows, [file.results for file in files]])

    def header(self, log: LogFile) -> LogHeader:
        with as_written_by("lm-evaluation-harness", log, "its summary"):
            return self._header(log)

    def _header(self, log: LogFile) -> LogHeader:
        files = _sample_files(log)
        first = files[0].results
        variants = {file.variant: _params(file.results) for file in files}
        mains = {file.task: _main_score(file) for file in files}
        names = set(mains.values())
        tasks = list(dict.fromkeys(file.task for file in files))
        sizes = [_size(file.results, file.task) for file in files if file.variant == files[0].variant]
        return LogHeader(
            tool="lm-evaluation-harness",
            tool_version=first.get("lm_eval_version"),
            task=", ".join(filter(None, tasks[:3])) + (", …" if len(tasks) > 3 else "") or log.path.stem,
            created_at=_created_at(files[0]),
            variants=variants,
            planned_cases=None if None in sizes else sum(filter(None, sizes)),
            repeats=1,
            primary=names.pop() if len(names) == 1 else COMBINED,
            facts={
                "commit": first.get("git_hash"),
                "versions": first.get("versions"),
                "n-shot": first.get("n-shot"),
                "task_hashes": {file.variant: mapping(file.results.get("task_hashes")) for file in files},
                "main": mains,
                "results": {
                    f"{file.variant}/{file.task}/{name}": value
                    for file in files
                    for name, value in _figures(file).items()
                    if name != "alias"
                },
            },
        )

    def trials(self, log: LogFile, header: LogHeader) -> Iterator[LoggedTrial]:
        files = _sample_files(log)
        for file in files:
            main = _main_score(file) if header.primary == COMBINED else None
            yield from file.trials(main)


@dataclass(frozen=True, slots=True)
class _SampleFile:
    """The rows of one task and model. Each filter of the task has a row for each document."""

    log: LogFile
    member: str
    task: str  # empty if unknown
    date: str | None
    variant: str
    results: Row

    def rows(self) -> Iterator[Row]:
        for row in self._values():
            if not isinstance(row, dict) or any(name not in row for name in _REQUIRED):
                names = ", ".join(map(str, row)) if isinstance(row, dict) else type(row).__name__
                needed = ", ".join(_REQUIRED)
                raise self.log.error(
                    f"not a row of lm-evaluation-harness 0.4: needs {needed}; has {names[:200]}",
                    member=self.member,
                )
            if not isinstance(row["doc_id"], int | str):
                raise self.log.error(f"doc_id is not a number: {row['doc_id']!r:.50}", member=self.member)
            yield row

    def _values(self) -> Iterator[Any]:
        with self.log.open(self.member) as file:
            is_array = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        if is_array:  # until 0.4.2
            yield from self.log.json_items(self.member)
        else:
            yield from (row for _, row in self.log.json_lines(self.member))

    def filters(self) -> list[str]:
        """Return the task's filters according to the summary, in the order of the rows."""
        names = [name.partition(",")[2] for name in _figures(self) if "," in name]
        return list(dict.fromkeys(names))

    def trials(self, main: str | None) -> Iterator[LoggedTrial]:
        later = self._later_scores()
        for row, name in self._named_rows():
            if name is None:
                with as_written_by("lm-evaluation-harness", self.log, f"document {row['doc_id']}"):
                    scores = _metrics(row, self._first_filter(row))
                    scores |= {
                        score: value for score, of in later.items() if (value := of.get(row["doc_id"])) is not None
                    }
                    trial = self._trial(row, scores, main)
                yield trial

    def _named_rows(self) -> Iterator[tuple[Row, str | None]]:
        """Yield the rows with their filter, which is None for the first one."""
        filters = self.filters()
        times: dict[Any, int] = defaultdict(int)
        first: str | None = None
        for row in self.rows():
            if "filter" in row:
                name = str(row["filter"])
                first = name if first is None else first
                yield row, None if name == first else name
            else:  # until 0.4.2 the rows of the filters follow each other
                number = times[row["doc_id"]]
                times[row["doc_id"]] += 1
                yield row, None if not number else filters[number] if number < len(filters) else str(number + 1)

    def _first_filter(self, row: Row) -> str:
        return str(row["filter"]) if "filter" in row else next(iter(self.filters()), NO_FILTER)

    def _later_scores(self) -> dict[str, _ByDocument]:
        """Return the scores by later filters than the first one, by name and document."""
        later: dict[str, _ByDocument] = defaultdict(_ByDocument)
        if "filter" in next(self.rows(), {}) and len(self.filters()) == 1:
            return later
        for row, name in self._named_rows():
            if name is not None:
                for score, value in _metrics(row, name).items():
                    later[score].add(row["doc_id"], value)
        return later

    def _trial(self, row: Row, scores: dict[str, float], main: str | None) -> LoggedTrial:
        requests, text = _requests(row), _answer(row)
        if main is not None and main in scores:
            scores = {COMBINED: scores[main], **scores}
        failure = None
        if text is None:
            failure = Failure("no_answer", "unknown", "lm-evaluation-harness recorded no response")
        identifier = f"{self.task}/{row['doc_id']}" if self.task else str(row["doc_id"])
        return LoggedTrial(
            case=Case(
                identifier,
                row["doc"] if "doc" in row else {"doc_hash": row.get("doc_hash")},
                row.get("target"),
                {"task": self.task} if self.task else {},
            ),
            variant=self.variant,
            prompt=_text(requests[0][0]) if requests and requests[0] else "",
            answer=Answer(
                text=text or "",
                model=_model_name(self.results) or None,
                raw_response=json.dumps({"resps": row["resps"], "filtered_resps": row["filtered_resps"]}),
            ),
            failure=failure,
            scores=[Score(name, value) for name, value in scores.items()],
            repeat=0,
        )


class _ByDocument:
    """A number for each document, compact for ids that count from 0."""

    def __init__(self) -> None:
        self._values = array("d")  # by id, while they come in order
        self._others: dict[int | str, float] = {}

    def add(self, document: int | str, value: float) -> None:
        if document == len(self._values):
            self._values.append(value)
        else:
            self._others[document] = value

    def get(self, document: int | str) -> float | None:
        if isinstance(document, int) and 0 <= document < len(self._values):
            return self._values[document]
        return self._others.get(document)


def _is_results(log: LogFile) -> bool:
    """Whether this is the summary of a run."""
    return "results" in log.keys and (
        bool({"versions", "configs", "n-shot"} & log.keys.keys()) or b'"alias"' in log.head
    )


def _names_by_folder(log: LogFile) -> dict[str, list[str]]:
    """Return the files with samples in each folder below this one. Until 0.4.2, they are next to `results.json`."""
    folders: dict[str, list[str]] = defaultdict(list)
    for name in log.members:
        path = PurePosixPath(name)
        if _SAMPLES.fullmatch(path.name):
            folders[str(path.parent)].append(name)
    for name in log.members:
        path = PurePosixPath(name)
        if path.name == "results.json" and str(path.parent) not in folders:
            rows = [other for other in log.members if PurePosixPath(other).match(f"{path.parent}/*.jsonl")]
            rows = [other for other in rows if PurePosixPath(other).parent == path.parent]
            if rows and _is_results(LogFile(log.path / name)):
                folders[str(path.parent)] = rows
    return folders


def _sample_files(log: LogFile) -> list[_SampleFile]:
    """Return the files with samples in a log, in order of variants and tasks."""
    if log.kind == "folder":
        files = [
            file for folder, names in _names_by_folder(log).items() for file in _files_of_folder(log, folder, names)
        ]
    elif log.kind == "json" and _is_results(log) and "doc_id" not in log.keys:
        files = _files_of_results(log)
    else:
        folder = LogFile(log.path.parent)
        (file,) = _files_of_folder(folder, ".", [log.path.name])
        files = [_replaced(file, log)]
    return _with_distinct_variants(files)


def _files_of_results(log: LogFile) -> list[_SampleFile]:
    """Return the samples in the same folder that belong to a summary."""
    folder = LogFile(log.path.parent)
    match = _RESULTS.fullmatch(log.path.name)
    date = match["date"] if match else None
    names = sorted(path.name for path in log.path.parent.iterdir() if path.suffix == ".jsonl")
    if date:
        names = [name for name in names if (match := _SAMPLES.fullmatch(name)) and match["date"] == date]
    if not names:
        raise log.error("a summary without samples next to it", "run lm_eval with --log_samples")
    return _files_of_folder(folder, ".", names)


def _files_of_folder(log: LogFile, folder: str, names: Iterable[str]) -> list[_SampleFile]:
    """Return the files of one folder, which belongs to one model. `log` is the folder above."""
    files: dict[str, _SampleFile] = {}
    for name in names:
        path = PurePosixPath(name)
        match = _SAMPLES.fullmatch(path.name)
        date = match["date"] if match else None
        summary = path.with_name(f"results_{date}.json" if date else "results.json")
        results = mapping(log.json(str(summary))) if (log.path / summary).is_file() else {}
        task = match["task"] if match else _task_at_end(path.stem, results)
        model = _model_name(results) or (log.path.resolve() / folder).name if match or results else path.stem
        file = _SampleFile(log, name, task, date, model, results)
        if task in files:
            dates = f"{files[task].date} and {date}"
            raise log.error(f"several runs of the task {task}: {dates}", "name the samples file of one of them", folder)
        files[task] = file
    return list(files.values())


def _replaced(file: _SampleFile, log: LogFile) -> _SampleFile:
    """Return the file as a log of its own, so that errors name it as the user did."""
    return _SampleFile(log, "", file.task, file.date, file.variant, file.results)


def _with_distinct_variants(files: list[_SampleFile]) -> list[_SampleFile]:
    """Name the variants; two folders with results of one model are two variants, named after the folders."""
    folders: dict[str, set[str]] = defaultdict(set)
    for file in files:
        folders[file.variant].add(str(PurePosixPath(file.member).parent))
    distinct = []
    for file in files:
        folder = str(PurePosixPath(file.member).parent)
        variant = file.variant if len(folders[file.variant]) == 1 else folder
        distinct.append(_SampleFile(file.log, file.member, file.task, file.date, variant, file.results))
    return distinct


def _task_at_end(stem: str, results: Row) -> str:
    """Return the task in a file name of old versions, `MODEL-ARGUMENTS_TASK`."""
    tasks = [task for task in mapping(results.get("results")) if stem == task or stem.endswith(f"_{task}")]
    return max(tasks, key=len, default="")


def _arguments(results: Row) -> dict[str, Any]:
    """Return the arguments of the model, which old versions store as one text."""
    arguments = mapping(results.get("config")).get("model_args")
    if isinstance(arguments, str):
        return dict(part.partition("=")[::2] for part in arguments.split(",") if part)
    return dict(mapping(arguments))


def _model_name(results: Row) -> str:
    named = next((value for name, value in _arguments(results).items() if name in _MODEL and value), None)
    return str(results.get("model_name") or named or mapping(results.get("config")).get("model") or "")


def _params(results: Row) -> dict[str, Any]:
    """Return the parameters that distinguish this run from others of the same tasks."""
    config = mapping(results.get("config"))
    params = {"model": _model_name(results), "backend": config.get("model")}
    params |= {name: value for name, value in _arguments(results).items() if name not in _MODEL}
    params |= {name: config.get(name) for name in ("gen_kwargs", "limit")}
    params |= {name: results.get(name) for name in ("system_instruction", "chat_template_sha")}
    shots = list(mapping(results.get("n-shot")).values())
    if shots and all(number == shots[0] for number in shots):
        params["num_fewshot"] = shots[0]
    return {name: value for name, value in params.items() if value not in (None, {}, "")}


def _figures(file: _SampleFile) -> Row:
    """Return the task's summary, with keys such as `exact_match,strict-match`."""
    return mapping(mapping(file.results.get("results")).get(file.task))


def _size(results: Row, task: str) -> int | None:
    size = mapping(mapping(results.get("n-samples")).get(task)).get("effective")
    return size if isinstance(size, int) else None


def _created_at(file: _SampleFile) -> float | None:
    date = file.results.get("date")
    if isinstance(date, int | float):
        return float(date)
    if file.date is None:
        return None
    return datetime.strptime(file.date.partition(".")[0], "%Y-%m-%dT%H-%M-%S").timestamp()


def _main_score(file: _SampleFile) -> str | None:
    """Return the task's first metric for which more is better, with the first filter; None if there is no metric."""
    row = next(file.rows(), None)
    if row is None:
        raise file.log.error("the file has no samples", member=file.member)
    is_better = mapping(mapping(file.results.get("higher_is_better")).get(file.task))
    filter_name = file._first_filter(row)
    first = next(filter(None, (_metrics(row, filter_name) for row in file.rows())), {})  # a row may have NaN
    worse = {_score_name(str(name), filter_name) for name, higher in is_better.items() if higher is False}
    chosen = [name for name in first if name not in worse]
    if first and not chosen:
        raise file.log.error(f"no metric for which more is better (metrics: {', '.join(first)})", member=file.member)
    return next(iter(chosen), None)


def _metrics(row: Row, filter_name: str) -> dict[str, float]:
    """Return the metrics of a row that are numbers; a perplexity, for example, exists only for all documents."""
    names = row.get("metrics")
    if not isinstance(names, list):
        names = [name for name in row if name not in _ROW]
    values = {name: row.get(name) for name in names if isinstance(name, str) and name != NO_METRIC}
    return {
        _score_name(name, filter_name): float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _score_name(metric: str, filter_name: str) -> str:
    """Return the column of a metric and filter: `acc`, `exact_match_strict_match`."""
    return metric if filter_name == NO_FILTER else re.sub(r"\W", "_", f"{metric}_{filter_name}")


def _requests(row: Row) -> list[list[Any]]:
    """Return the arguments of each request; the first argument is the prompt."""
    arguments = row.get("arguments")
    if isinstance(arguments, dict):
        return [list(mapping(item).values()) for item in arguments.values()]
    return [list(item) for item in arguments or () if isinstance(item, list)]


def _answer(row: Row) -> str | None:
    """Return the generated text or the likeliest choice; None if there was no response."""
    firsts = [response[0] if isinstance(response, list) and response else response for response in _list(row["resps"])]
    if not firsts or firsts[0] is None:
        return None
    likelihoods = [_number(first[0]) for first in firsts if isinstance(first, list) and first]
    if len(likelihoods) == len(firsts) > 1:
        best = max(range(len(firsts)), key=likelihoods.__getitem__)
        requests = _requests(row)
        return _text(requests[best][1]).strip() if best < len(requests) and len(requests[best]) > 1 else str(best)
    if len(likelihoods) == 1:
        return f"log-likelihood {likelihoods[0]:g}"
    return _text(firsts[0])


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return -math.inf


def _text(value: Any) -> str:
    """Convert to text; chat messages to their contents."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        value = parsed(value[0]) or value[0]  # chat messages as JSON
    if isinstance(value, str):
        return value
    contents = [str(message.get("content", "")) for message in mappings(value)]
    return "\n\n".join(contents) if contents else json.dumps(value, ensure_ascii=False, default=str)

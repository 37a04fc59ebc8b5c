"""Import of a log as a run of a store, with its trials as rows.

Trials are first read into a temporary file, because their positions depend on the number of variants and repeats.
Therefore a damaged log leaves nothing in the store.
"""

from __future__ import annotations

import json
import math
import pickle
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from abreast.digest import compose, digest
from abreast.errors import StoreError, suggestion
from abreast.execute.job import TrialJob
from abreast.execute.records import TrialRecords
from abreast.importers import catalogue
from abreast.importers.base import ImportOptions, LogFormat, LoggedTrial, LogHeader, Range
from abreast.importers.log_file import LogFile
from abreast.model import Answer, Case, Failure, Outcome, Score, Trial, Usage, Variant
from abreast.plan.run_names import new_name
from abreast.redaction import is_secret_setting, redact, redact_log, redact_outcome
from abreast.spec.cases import CaseTable
from abreast.store import Lease, NewRun, Store
from abreast.store.rows import Timing, columns_of, score_rows, to_json
from abreast.store.runs import leases
from abreast.store.runs.provenance import ImportRecord
from abreast.store.schema import Column
from abreast.text import many, printable

MOST_CASES = 10_000_000
MOST_QUEUED = 2_000  # trials waiting to be committed
MOST_MISSING = 4  # missing trials per logged one; more means that the columns are mapped wrongly
LONGEST_ID = 60  # characters in a message
MOST_LISTED = 5  # ids in a note
REDACTED = "***"
UNKNOWN = math.nan  # a time missing in the log
LATEST = 253_402_300_800.0  # the start of the year 10000, in seconds since 1970
MOST_TOKENS = 2.0**63  # what integers of databases hold


@dataclass(frozen=True, slots=True)
class Imported:
    """The run of a log in the store."""

    run: str
    file: str
    tool: str
    trials: int
    is_new: bool  # false if the store already had it
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _SpooledTrial:
    case: int
    variant: int
    repeat: int
    prompt: str
    outcome: Outcome
    scores: Sequence[Score]


@dataclass(slots=True)
class _Spool:
    """The trials of a log in a temporary file, with facts about all of them."""

    file: IO[bytes]
    cases: CaseTable
    variants: dict[str, int]
    repeats: int
    trials: int = 0
    duplicates: int = 0
    changed: Sequence[str] = ()  # ids of cases whose input differs from that of an earlier case with the same id
    failed: Counter[str] = field(default_factory=Counter)  # errors by blame
    skipped: int = 0
    scores: dict[str, Range | None] = field(default_factory=dict)  # lowest and highest value by name
    tags: dict[str, str] = field(default_factory=dict)

    def add(self, case: int, variant: int, repeat: int, trial: LoggedTrial) -> None:
        outcome = _outcome(trial)
        self.trials += 1
        self.repeats = max(self.repeats, repeat + 1)
        self.tags.update(dict.fromkeys(trial.case.tags, ""))
        self.skipped += outcome.status == "skipped"
        if outcome.status == "error" and outcome.failure is not None:
            self.failed[outcome.failure.blame] += 1
        for score in trial.scores if outcome.status == "ok" else ():
            self.scores[score.name] = _widened(self.scores.get(score.name), score.value)
        spooled = _SpooledTrial(case, variant, repeat, redact(trial.prompt), redact_outcome(outcome), trial.scores)
        pickle.dump(spooled, self.file, pickle.HIGHEST_PROTOCOL)

    def __iter__(self) -> Iterator[_SpooledTrial]:
        self.file.seek(0)
        for _ in range(self.trials):
            yield pickle.load(self.file)

    def position(self, trial: _SpooledTrial) -> int:
        return (trial.case * self.repeats + trial.repeat) * len(self.variants) + trial.variant


def import_log(store: Store, path: Path, options: ImportOptions | None = None, run_name: str | None = None) -> Imported:
    """Import a log into a store, unless the store already has it.

    Without `run_name`, the run gets a generated name.
    """
    options = options or ImportOptions()
    log = LogFile(path, options.columns)
    try:
        log_format = catalogue.load(options.format) if options.format else catalogue.recognise(log)
        return _Import(store, log, log_format, options, run_name).run()
    finally:
        log.close()


class _Import:
    def __init__(
        self, store: Store, log: LogFile, log_format: LogFormat, options: ImportOptions, run_name: str | None
    ) -> None:
        self._store, self._log, self._format, self._options = store, log, log_format, options
        self._ranges, self._run_name = options.ranges, run_name

    def run(self) -> Imported:
        content = self._format.digest(self._log)
        options = self._options
        settings = json.dumps([sorted(options.columns.items()), sorted(options.ranges.items()), options.score])
        fingerprint = compose("import", self._format.name, content, settings)
        existing = self._existing(fingerprint)
        if existing is not None:
            facts = json.loads(existing["provenance"])["imported"]
            return Imported(existing["run"], str(self._log), facts["tool"], existing["stored_trials"], is_new=False)
        header = self._format.header(self._log)
        header = replace(header, variants={_one_line(name): params for name, params in header.variants.items()})
        if header.planned_cases is not None and header.planned_cases > MOST_CASES:
            raise self._log.error(f"{header.planned_cases:,} planned cases; at most {MOST_CASES:,} are allowed")
        cases = CaseTable()
        try:
            with tempfile.TemporaryFile(prefix="abreast-import-") as file:
                spool = _Spool(
                    file, cases, {name: index for index, name in enumerate(header.variants)}, header.repeats or 1
                )
                self._read(header, spool)
                return self._write(header, spool, content, fingerprint)
        finally:
            cases.close()

    def _existing(self, fingerprint: str) -> dict[str, Any] | None:
        """Find the run of an earlier import of the same log; remove the remains of one that was killed."""
        for run in self._store.runs() if self._store.exists() else ():
            if run["fingerprint"] == fingerprint:
                if self._store.is_executed(run["owner"], run["heartbeat_at"]):
                    raise leases.active_error(run["run"], run["owner"], "wait until the import has ended")
                if run["finished_at"] is not None:
                    return run
                self._store.delete([run["run"]])
        return None

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read(self, header: LogHeader, spool: _Spool) -> None:
        index = _CaseIndex(spool.cases)
        counts: Counter[tuple[int, int]] = Counter()
        seen: set[int] = set()
        for trial in self._format.trials(self._log, header):
            if problem := _impossible_value(trial):
                raise self._log.error(f"case {printable(str(trial.case.id))[:LONGEST_ID]}: {problem}")
            case = index.of(replace(trial.case, id=_one_line(trial.case.id)))
            variant = spool.variants.setdefault(_one_line(trial.variant), len(spool.variants))
            repeat = counts[case, variant] if trial.repeat is None else trial.repeat
            counts[case, variant] += 1
            key = (case << 40) | (variant << 20) | repeat
            spool.duplicates += key in seen
            seen.add(key)
            spool.add(case, variant, repeat, trial)
        spool.cases.seal()
        spool.changed = index.changed
        if not spool.trials:
            raise self._log.error(f"the {self._format.title} has no trials")
        if len(spool.cases) * len(spool.variants) * spool.repeats > (1 + MOST_MISSING) * len(seen):
            (_, most), *_ = counts.most_common(1)
            cases = many(len(spool.cases), "case")
            raise self._log.error(
                f"{many(spool.trials, 'trial')} of {cases}, {most:,} of them of one case and variant",
                "each case needs a distinct id; with --map, check the columns of case and variant",
            )

    # -- writing ---------------------------------------------------------------------------------------------------

    def _write(self, header: LogHeader, spool: _Spool, content: str, fingerprint: str) -> Imported:
        primary = self._primary(header, spool)
        self._refuse_range(primary, spool)
        planned = max(len(spool.cases), header.planned_cases or 0) * len(spool.variants) * spool.repeats
        notes = self._notes(header, spool)
        names = self._store.queries.run_names() if self._store.exists() else set()
        variants = {
            name: _without_nan(_without_secrets(dict(header.variants.get(name, {})))) for name in spool.variants
        }
        lease = self._store.begin(
            NewRun(
                run=self._run_name or new_name(names),
                experiment=redact(header.task) or self._log.path.stem,
                debug=False,
                simulated=False,
                label=None,
                fingerprint=fingerprint,
                planned_trials=planned,
                primary_score=primary,
                baseline=next(iter(variants)),
                seed=0,
                spec=_spec(header, spool),
                provenance=self._provenance(header, spool, content, notes),
                variants=[
                    (
                        index,
                        name,
                        header.tool,
                        to_json(params),
                        compose("imported", header.tool, to_json(params)),
                        index,
                    )
                    for index, (name, params) in enumerate(variants.items())
                ],
                columns=[
                    *(column for params in variants.values() for column in columns_of("params", params)),
                    *(Column("score", name, "real") for name in spool.scores),
                    *columns_of("tag", spool.tags),
                ],
                created_at=header.created_at,
            )
        )
        try:
            stored = self._write_trials(lease, header, spool)
        except BaseException:
            self._store.release_lease(lease)
            self._store.delete([lease.run])
            raise
        status, reason = _status(header, planned - stored)
        self._store.finish(lease, status, reason, header.finished_at or header.created_at)
        self._store.materialise()
        return Imported(lease.run, str(self._log), header.tool, spool.trials, is_new=True, notes=notes)

    def _write_trials(self, lease: Lease, header: LogHeader, spool: _Spool) -> int:
        """Write the rows; return the number of positions that have one."""
        queue = _Queue()
        writer = self._store.writer(lease, queue.committed, queue.failed, lambda _: None)
        try:
            records = TrialRecords(spool.cases, writer)
            variants = [Variant(name) for name in spool.variants]
            version = f"{header.tool} {header.tool_version or ''}".strip()
            is_written = bytearray(len(spool.cases) * spool.repeats * len(variants))
            for spooled in spool:
                position = spool.position(spooled)
                is_written[position] = True
                scores = [self._scaled(score) for score in spooled.scores] if spooled.outcome.status == "ok" else []
                of_trial = score_rows(lease.run_id, position, version, scores)
                queue.wait()
                records.outcome(_job(spool, spooled, variants), spooled.outcome)
                writer.put_together([("scores", row) for row in of_trial])
            if header.status == "complete":
                for spooled in _missing(spool, is_written):
                    queue.wait()
                    is_written[spool.position(spooled)] = True
                    records.outcome(_job(spool, spooled, variants), spooled.outcome)
        finally:
            writer.close()
        return sum(is_written)

    def _scaled(self, score: Score) -> Score:
        value = None if score.value is None or math.isnan(score.value) else float(score.value)
        if value is not None and score.name in self._ranges:
            low, high = self._ranges[score.name]
            value = (value - low) / (high - low)
        return replace(score, value=value)

    def _primary(self, header: LogHeader, spool: _Spool) -> str | None:
        """Return the score that the verdict uses."""
        chosen = self._options.score
        if chosen is not None and chosen not in spool.scores:
            raise self._log.error(f"--score {chosen}: no such score{suggestion(chosen, spool.scores)}")
        return chosen or (header.primary if header.primary in spool.scores else next(iter(spool.scores), None))

    def _refuse_range(self, primary: str | None, spool: _Spool) -> None:
        """Refuse a primary score with values outside 0 to 1, which would not count."""
        for name in self._ranges:
            if name not in spool.scores:
                raise self._log.error(f"--range {name}: no score {name}{suggestion(name, spool.scores)}")
        extent = spool.scores.get(primary or "")
        low, high = self._ranges.get(primary or "", (0.0, 1.0))
        if extent is not None and not (low <= extent[0] and extent[1] <= high):
            raise self._log.error(
                f"the score {primary} ranges from {extent[0]:g} to {extent[1]:g}, outside {low:g} to {high:g}",
                f"declare its lowest and highest possible values: --range {primary}=LOWEST..HIGHEST",
            )

    # -- describing ------------------------------------------------------------------------------------------------

    def _provenance(self, header: LogHeader, spool: _Spool, content: str, notes: Sequence[str]) -> dict[str, Any]:
        record = ImportRecord(
            format=self._format.name,
            tool=header.tool,
            tool_version=header.tool_version,
            file=str(self._log.path.resolve()),
            sha256=content,
            task=header.task,
            notes=tuple(notes),
            columns=self._log.columns,
            ranges=dict(self._ranges),
            facts=_without_nan(header.facts),
        )
        return {
            **record.recorded(),
            "commit": header.facts.get("commit"),
            "dirty": header.facts.get("dirty"),
            "branch": None,
            "data_hash": spool.cases.hash,
            "cases": len(spool.cases),
            "seed": 0,
            "python": None,
            "packages": {},
            "host": None,
        }

    def _notes(self, header: LogHeader, spool: _Spool) -> list[str]:
        """Return notes for readers of the results, stored with the run."""
        notes = []
        if spool.failed or spool.skipped:
            notes.append(f"errors: {self._format.error_rule}")
        expected = len(spool.cases) * spool.repeats * len(spool.variants)
        missing = expected - (spool.trials - spool.duplicates)
        if missing and header.status == "complete":
            notes.append(f"not in the log, counted as skipped: {many(missing, 'trial')} of {expected:,}")
        if spool.changed:
            ids = ", ".join(spool.changed[:MOST_LISTED])
            more = f" and {len(spool.changed) - MOST_LISTED:,} more" if len(spool.changed) > MOST_LISTED else ""
            notes.append(f"not paired, because the same case id has several inputs: {ids}{more}")
        if spool.duplicates:
            notes.append(f"more than once in the log (the last one counts): {many(spool.duplicates, 'trial')}")
        for name, extent in spool.scores.items():
            if extent is not None and name not in self._ranges and not 0 <= extent[0] <= extent[1] <= 1:
                option = f"--range {name}=LOWEST..HIGHEST"
                notes.append(
                    f"the score {name} ranges from {extent[0]:g} to {extent[1]:g}: to compare it, add {option}"
                )
        return notes


class _CaseIndex:
    """Finds the index of a case by its id and input. A case with the id of another case but a different input is a
    separate case, so that its trials are paired with nothing else."""

    def __init__(self, cases: CaseTable) -> None:
        self.changed: list[str] = []
        self._cases = cases
        self._indexes: dict[tuple[str, str], int] = {}
        self._versions: Counter[str] = Counter()

    def of(self, case: Case) -> int:
        key = case.id, digest(case.input)
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = len(self._cases)
            self._versions[case.id] += 1
            version = self._versions[case.id]
            if version > 1:
                self.changed.append(case.id)
                case = replace(case, id=f"{case.id} (input {version})")
            self._cases.add(case)
        return index


class _Queue:
    """Limits the trials that wait to be committed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0
        self._failure: StoreError | None = None

    def wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting < MOST_QUEUED or self._failure)
            if self._failure is not None:
                raise self._failure
            self._waiting += 1

    def committed(self, tokens: list[Any]) -> None:
        with self._changed:
            self._waiting -= len(tokens)
            self._changed.notify()

    def failed(self, error: StoreError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify()


def _impossible_value(trial: LoggedTrial) -> str:
    """Describe the first value that cannot be stored, as in `the model is 5, not text`; empty if there is none."""
    answer = trial.answer or Answer("")
    texts = {
        "id": trial.case.id,
        "group": trial.case.group,
        "variant": trial.variant,
        "prompt": trial.prompt,
        "answer": answer.text,
        "model": answer.model,
        "raw response": answer.raw_response,
        "reason": trial.skipped,
        **{f"explanation of {score.name}": score.explanation for score in trial.scores},
    }
    numbers = {
        "start": trial.started_at,
        "latency": trial.latency_s,
        "service time": trial.service_s,
        "cost": answer.cost_usd,
        **{f"score {score.name}": score.value for score in trial.scores},
        **{name.replace("_", " "): getattr(answer.usage, name) for name in Usage.__slots__},
    }
    for kind, values, types in (("text", texts, str), ("a number", numbers, (int, float))):
        for name, value in values.items():
            if value is not None and not isinstance(value, types):
                return f"the {name} is {printable(repr(value))[:LONGEST_ID]}, not {kind}"
    limits = dict.fromkeys(("start", "latency", "service time"), LATEST)
    limits |= {"cost": math.inf, **dict.fromkeys((name.replace("_", " ") for name in Usage.__slots__), MOST_TOKENS)}
    for name, limit in limits.items():
        if (number := numbers[name]) is not None and not 0 <= number < limit and not math.isnan(number):
            problem = "below 0" if number < 0 else "too large for a time in seconds" if limit == LATEST else "too large"
            return f"the {name} is {number:g}, {problem}"
    return ""


def _one_line(name: str) -> str:
    """A name without line breaks: at the start of a line of a log, GitHub would execute `::error::`."""
    return " ".join(name.splitlines())


def _outcome(trial: LoggedTrial) -> Outcome:
    started_at = UNKNOWN if trial.started_at is None else trial.started_at
    latency_s = UNKNOWN if trial.latency_s is None else trial.latency_s
    answer, failure = trial.answer, trial.failure
    if trial.skipped is not None:
        failure = Failure("skipped", "variant", trial.skipped)
    elif failure is None and answer is None:
        answer = Answer("")
    return Outcome(
        status="skipped" if trial.skipped is not None else "error" if failure is not None else "ok",
        answer=answer,
        failure=failure,
        started_at=started_at,
        finished_at=started_at + latency_s,
        service_s=latency_s if trial.service_s is None else trial.service_s,
    )


def _job(spool: _Spool, spooled: _SpooledTrial, variants: Sequence[Variant]) -> TrialJob:
    case, outcome = spool.cases[spooled.case], spooled.outcome
    return TrialJob(
        trial=Trial(spool.position(spooled), case, variants[spooled.variant], spooled.repeat, spooled.variant),
        variant=spooled.variant,
        block=-1,  # the order of starts is unknown
        slot=0,
        case=spooled.case,
        prompt=spooled.prompt,
        timing=Timing(outcome.started_at, queue_s=UNKNOWN, backoff_s=UNKNOWN, attempts=1),
    )


def _missing(spool: _Spool, is_written: bytearray) -> Iterator[_SpooledTrial]:
    """Yield the trials that are missing in the log, as skipped ones."""
    outcome = _outcome(LoggedTrial(case=Case("", None), variant="", skipped="not in the log"))
    for position in range(len(is_written)):
        if not is_written[position]:
            block, variant = divmod(position, len(spool.variants))
            case, repeat = divmod(block, spool.repeats)
            yield _SpooledTrial(case, variant, repeat, "", outcome, ())


def _without_secrets(value: Any, name: str = "") -> Any:
    """Redact keys and passwords, which other tools log, in the parameters of a variant."""
    if isinstance(value, dict):
        return {key: _without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item, name) for item in value]
    if isinstance(value, str):
        return REDACTED if is_secret_setting(name, value) and "${" not in value else redact_log(value)
    return value


def _without_nan(value: Any) -> Any:
    """Facts that reports can write as JSON: figures that are no numbers, which other tools log, as null."""
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _widened(extent: Range | None, value: float | None) -> Range | None:
    if value is None or math.isnan(value):
        return extent
    return (value, value) if extent is None else (min(extent[0], value), max(extent[1], value))


def _status(header: LogHeader, missing: int) -> tuple[str, str | None]:
    """Return the status and its reason. A log that ended is complete, even with infrastructure failures: nothing can
    continue it."""
    if header.status == "incomplete":
        return "incomplete", header.reason or "the log is incomplete"
    if missing:
        return "incomplete", f"{many(missing, 'trial')} are not in the log"
    return "complete", None


def _spec(header: LogHeader, spool: _Spool) -> dict[str, Any]:
    """Return the parts of a run's spec that other commands read."""
    return {
        "name": header.task,
        "description": None,
        "repeats": spool.repeats,
        "baseline": next(iter(spool.variants)),
        "primary": None,
        "weight": "case",
        "margin": None,
        "cases": None,
        "variants": None,
        "scorers": [],
        "base": str(Path.cwd()),
        "origin": None,
        "options": {"case": [], "tag": {}, "variant": [], "limit": None, "debug": None},
    }

"""Human labels for a blind random sample of the answers that a judge scored, stored as score rows."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from abreast.analyse.human_labels.labels import (
    SAMPLED,
    SKIPPED,
    judge_of,
    label_author,
    label_column,
    label_explanation,
    random_order,
    recorded_sample,
)
from abreast.analyse.rows import Rows
from abreast.errors import BadInput, suggestion
from abreast.scorers.base import clipped
from abreast.scorers.judge import Judge
from abreast.store import Store
from abreast.store.queries.answers import JudgedTrial
from abreast.store.rows import Row
from abreast.store.schema import LABEL_VERSION

DEFAULT_SAMPLE = 60  # cases
NO_ANSWER = "no answer: nothing to label"
OF_THE_BASELINE = "the baseline of a pair"
UNOPPOSED = "the baseline gave no answer"
WITHDRAWN = "withdrawn"
PREFERENCES = {"1": 0, "2": 1, "t": None, "tie": None}  # index of the better answer


@dataclass(frozen=True, slots=True)
class BlindAnswer:
    """An answer without its variant."""

    position: int
    text: str


@dataclass(frozen=True, slots=True)
class LabelBlock:
    """Answers that are shown together: those of all variants to a case in one repeat, in random order.

    `number` is the position of the case in the sample, from 1. A pair has two answers, of which only the contender's
    (at `labelled`) gets a label.
    """

    number: int
    case_id: str
    repeat: int
    task: str
    expected: str
    answers: tuple[BlindAnswer, ...]
    labelled: tuple[int, ...]  # positions


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """A label to enter: for an answer in a block, on one dimension of the rubric."""

    block: LabelBlock
    position: int
    dimension: str

    @property
    def answer_number(self) -> int:
        return 1 + next(at for at, answer in enumerate(self.block.answers) if answer.position == self.position)


@dataclass(frozen=True, slots=True)
class LabelProgress:
    """Progress of the labelling of a sample, in cases."""

    run: str
    scorer: str
    seed: int
    sample: int
    labelled: int
    skipped: int

    @property
    def left(self) -> int:
        return self.sample - self.labelled - self.skipped


Labels = dict[str, float | None]
"""The labels of an answer: a value in [0, 1] by dimension; None if it was skipped."""


class Labelling:
    """A sample of a run for one judged score. Nothing is stored before the first label."""

    def __init__(
        self, *, store: Store, rows: Rows, by: str, scorer: str, judge: Judge, seed: int, size: int, is_recorded: bool
    ) -> None:
        self._store, self._rows, self.by = store, rows, by
        self.run, self.scorer, self.judge, self.seed = str(rows.meta["run"]), scorer, judge, seed
        self.dimensions = judge.dimensions_of(scorer)
        derived = judge.columns_of(dict.fromkeys(self.dimensions, 0.0))
        self._columns = {column: label_column(column) for column in derived}  # by column of the judge
        self._score = rows.scores.get(scorer, rows.score)
        self._cases = random_order(rows, seed, self._score)[:size].tolist()
        self._recorded = is_recorded
        self._notes: dict[int, str] = {}  # by position
        self._reached = -1  # index of the last case whose failures are stored

    @classmethod
    def open(
        cls,
        store: Store,
        run: str,
        by: str,
        scorer: str | None = None,
        sample: int | None = None,
        seed: int | None = None,
    ) -> Labelling:
        """Read a run that has ended, and draw its sample or continue the recorded one."""
        rows = _finished_rows(store, run)
        name, judge = _judged_score(rows, scorer)
        seed, size, is_recorded = _sample(rows, sample, seed)
        labelling = cls(
            store=store, rows=rows, by=by, scorer=name, judge=judge, seed=seed, size=size, is_recorded=is_recorded
        )
        _refuse_name_clash(rows, labelling._columns.values())
        if not labelling._cases:
            raise BadInput(f"{labelling.run}: no cases to label, because none can be compared")
        return labelling

    # -- questions -------------------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> list[LabelBlock]:
        """The sample in random order, labelled or not."""
        positions = [position for case in self._cases for position in self._answered(case)]
        texts = self._store.queries.judged_trials(self._rows.run_id, positions)
        return [block for number, case in enumerate(self._cases, 1) for block in self._blocks_of(number, case, texts)]

    def _blocks_of(self, number: int, case: int, texts: Mapping[int, JudgedTrial]) -> Iterator[LabelBlock]:
        answered = self._answered(case)
        for repeat in range(self._rows.repeats):
            positions = [position for position in answered if self._trial[position].repeat == repeat]
            if self.judge.pairwise:
                baselines = [position for position in positions if self._is_baseline(position)]
                for contender in positions if baselines else ():
                    if contender not in baselines:
                        yield self._block(number, repeat, [contender, baselines[0]], [contender], texts)
            elif positions:
                yield self._block(number, repeat, positions, positions, texts)

    def _block(
        self,
        number: int,
        repeat: int,
        positions: Sequence[int],
        labelled: Sequence[int],
        texts: Mapping[int, JudgedTrial],
    ) -> LabelBlock:
        order = sorted(positions)
        random.Random(f"{self.seed}:{self.run}:{labelled}").shuffle(order)
        first = texts[order[0]]
        return LabelBlock(
            number=number,
            case_id=first.case_id,
            repeat=repeat,
            task=_readable(first.input) if self.judge.shows("input") else "",
            expected=_readable(first.expected) if self.judge.shows("expected") and first.expected != "null" else "",
            answers=tuple(BlindAnswer(position, self._text_of(texts[position])) for position in order),
            labelled=tuple(position for position in order if position in labelled),
        )

    def _text_of(self, trial: JudgedTrial) -> str:
        """The answer as the judge sees it."""
        parts = [clipped(trial.answer or "")[0]] if self.judge.shows("answer") else []
        if self.judge.sees_change:
            parts.append(clipped(trial.change or "")[0] or "(no files were changed)")
        return "\n\n".join(parts)

    def pending(self) -> Iterator[LabelQuestion]:
        """The missing labels, block by block."""
        for block in self.blocks:
            yield from self.questions(block)

    def questions(self, block: LabelBlock) -> list[LabelQuestion]:
        """The missing labels of a block."""
        return [
            LabelQuestion(block, position, dimension)
            for position in block.labelled
            for dimension in self.dimensions
            if dimension not in self._labels[position]
        ]

    def token(self, position: int) -> str:
        """The id of an answer in a sheet; it does not reveal the variant."""
        return hashlib.sha256(f"{self.seed}:{self.run}:{self.scorer}:{position}".encode()).hexdigest()[:12]

    # -- labels ----------------------------------------------------------------------------------------------------

    def parse(self, question: LabelQuestion, entry: str) -> float | None:
        """Parse an entry to a value in [0, 1], or None to skip. Raises ValueError with what is expected."""
        word = entry.strip().lower().replace(",", ".")
        if word in ("s", "skip"):
            return None
        if self.judge.pairwise:
            if word not in PREFERENCES:
                raise ValueError("1, 2 or t (tie)")
            preferred = PREFERENCES[word]
            return 0.5 if preferred is None else float(preferred + 1 == question.answer_number)
        low, high = self.judge.scale
        word = {"y": "1", "yes": "1", "n": "0", "no": "0"}.get(word, word) if (low, high) == (0, 1) else word
        try:
            rating = float(word)
        except ValueError:
            rating = float("nan")
        if not low <= rating <= high:
            raise ValueError(self.expects)
        return (rating - low) / (high - low)

    @property
    def expects(self) -> str:
        """`a number from 1 (worst) to 5 (best)`."""
        if self.judge.pairwise:
            return "1 or 2, whichever is better, or t for a tie"
        low, high = self.judge.scale
        return f"a number from {low:g} (worst) to {high:g} (best)"

    def entry(self, position: int, dimension: str) -> str:
        """A label as it would be typed; empty if there is none."""
        values = self._labels[position]
        if dimension not in values:
            return ""
        value = values[dimension]
        if value is None:
            return "s"
        if not self.judge.pairwise:
            return self._on_scale(value, dimension)
        block = next(block for block in self.blocks if position in block.labelled)
        number = LabelQuestion(block, position, dimension).answer_number
        return {0.5: "t", 1.0: str(number), 0.0: str(3 - number)}[value]

    def record(self, labels: Iterable[tuple[LabelQuestion, float | None]], note: str | None = None) -> int:
        """Store labels, all or none; return how many are new or changed. A note replaces those of the answers."""
        answer_rows: list[Row] = []
        changed, last = 0, -1
        for question, value in labels:
            values = self._labels[question.position]
            last = max(last, question.block.number - 1)
            is_same = question.dimension in values and values[question.dimension] == value
            if is_same and note in (None, self.note(question.position)):
                continue
            if note is not None:
                self._notes[question.position] = note
            values[question.dimension] = value
            changed += 1
            answer_rows += self._answer_rows(question.position, None if note is not None else question.dimension)
        if rows := list({(row[1], row[2]): row for row in [*self._failures(last), *answer_rows]}.values()):
            self._write(rows)
        return changed

    def note(self, position: int) -> str:
        """The note of the person who labelled an answer; empty if there is none."""
        return self._notes.get(position, "") if self._labels[position] else ""

    def withdraw(self, question: LabelQuestion) -> None:
        """Withdraw a label, so that it is missing again."""
        self._labels[question.position].pop(question.dimension, None)
        self._write(self._answer_rows(question.position, is_withdrawn=True))

    def finish(self) -> None:
        """At the end of the sample, label the cases without any answer too."""
        if not any(self.pending()) and (rows := self._failures(len(self._cases) - 1)):
            self._write(rows)
        self._store.materialise()

    def progress(self) -> LabelProgress:
        """The progress in cases; a case is labelled when all its answers are."""
        complete = set(range(1, len(self._cases) + 1)) - {question.block.number for question in self.pending()}
        skipped = {
            block.number
            for block in self.blocks
            if any(None in self._labels[position].values() for position in block.labelled)
        } & complete
        return LabelProgress(
            run=self.run,
            scorer=self.scorer,
            seed=self.seed,
            sample=len(self._cases),
            labelled=len(complete) - len(skipped),
            skipped=len(skipped),
        )

    def _answer_rows(self, position: int, changed: str | None = None, is_withdrawn: bool = False) -> list[Row]:
        """The rows of an answer: a value for each column that follows from its labels, without those of other
        dimensions if only one `changed`."""
        values = self._labels[position]
        scored = {dimension: value for dimension, value in values.items() if value is not None}
        columns: dict[str, float | None] = dict(self.judge.columns_of(scored))
        if is_withdrawn or None in values.values():
            columns = dict.fromkeys(self._columns) | columns
        elif changed is not None:
            others = {self.judge.column(dimension) for dimension in self.dimensions if dimension != changed}
            columns = {column: value for column, value in columns.items() if column not in others}
        words = WITHDRAWN if is_withdrawn else SKIPPED
        return [
            self._row(position, column, value, words if value is None else self._on_scale(value, column))
            for column, value in columns.items()
            if column in self._columns
        ]

    def _on_scale(self, value: float, column: str) -> str:
        low, high = (0.0, 1.0) if self.judge.pairwise or column.endswith("_passed") else self.judge.scale
        return f"{low + value * (high - low):g}"

    def _row(self, position: int, column: str, value: float | None, words: str) -> Row:
        explanation = label_explanation(words, self.by, self._notes.get(position, ""), seed=self.seed)
        return (self._rows.run_id, position, self._columns[column], value, explanation, LABEL_VERSION)

    def _failures(self, last: int) -> list[Row]:
        """Rows of trials that need no labeller, in the cases up to this index: a variant's own failures, and the
        baseline of pairs."""
        rows = []
        for case in self._cases[self._reached + 1 : last + 1]:
            for position, trial in self._by_case[case]:
                label = self._automatic_label(position, trial)
                if label is not None:
                    value, words = label
                    rows += [
                        self._row(position, column, value, words)
                        for column, name in self._columns.items()
                        if self._stored_words.get((position, name)) != words
                    ]
        self._reached = max(self._reached, last)
        return rows

    def _automatic_label(self, position: int, trial: _LabelledTrial) -> tuple[float | None, str] | None:
        if trial.failed:
            return None, NO_ANSWER
        if not self.judge.pairwise or not trial.ok:
            return None
        if self._is_baseline(position):
            return 0.5, OF_THE_BASELINE
        block = [other for other, sibling in self._by_case[trial.case] if sibling.repeat == trial.repeat]
        unopposed = any(self._is_baseline(other) and self._trial[other].failed for other in block)
        return (1.0, UNOPPOSED) if unopposed else None

    def _write(self, rows: Sequence[Row]) -> None:
        detail = {"seed": self.seed, "sample": len(self._cases), "scorer": self.scorer, "by": self.by}
        self._store.add_labels(self._rows.run_id, rows, None if self._recorded else (SAMPLED, detail))
        self._recorded = True

    def record_sample(self) -> None:
        """Store seed and size of the sample, if not yet stored: an exported sheet belongs to this sample."""
        if not self._recorded:
            self._write([])

    # -- the trials of the sample ----------------------------------------------------------------------------------

    @cached_property
    def _trial(self) -> dict[int, _LabelledTrial]:
        """The trials with the judge's score, and failed ones that would have it."""
        rows, is_scored = self._rows, ~np.isnan(self._score)
        columns = (rows.position, rows.case, rows.variant, rows.repeat, rows.ok, rows.own_failure)
        trials = zip(*(column[is_scored].tolist() for column in columns), strict=True)
        return {position: _LabelledTrial(*facts) for position, *facts in trials}

    @cached_property
    def _by_case(self) -> Mapping[int, list[tuple[int, _LabelledTrial]]]:
        trials = defaultdict[int, list[tuple[int, _LabelledTrial]]](list)
        for position, trial in self._trial.items():
            trials[trial.case].append((position, trial))
        return trials

    def _answered(self, case: int) -> list[int]:
        return [position for position, trial in self._by_case[case] if trial.ok]

    def _is_baseline(self, position: int) -> bool:
        return bool(self._rows.variants[self._trial[position].variant] == self._rows.meta["baseline"])

    @cached_property
    def _stored_words(self) -> dict[tuple[int, str], str]:
        """The words of the labels that were stored before this session, by position and name."""
        labels = self._store.queries.labels(self._rows.run_id)
        return {(label.position, label.name): label_author(label.explanation).words for label in labels}

    @cached_property
    def _labels(self) -> dict[int, Labels]:
        """The labels by position: those stored, and those of this session."""
        labels: dict[int, Labels] = {position: {} for case in self._cases for position in self._answered(case)}
        dimensions = {label_column(self.judge.column(dimension)): dimension for dimension in self.dimensions}
        for position, name, value, explanation in self._store.queries.labels(self._rows.run_id):
            author = label_author(explanation)
            is_given = author.is_blind and (value is not None or author.is_skipped)
            if position in labels and name in dimensions and is_given:
                labels[position][dimensions[name]] = value
                if author.note:
                    self._notes[position] = author.note
        return labels


class _LabelledTrial(NamedTuple):
    case: int
    variant: int
    repeat: int
    ok: bool
    failed: bool  # by the variant's own fault


def _finished_rows(store: Store, run: str) -> Rows:
    meta = store.run(run)
    if meta["status"] == "running":
        raise BadInput(f"{meta['run']} is still running", "label its answers once it has ended")
    rows = Rows(store, meta["run"])
    if len(rows.variants) < 2:
        raise BadInput(f"{meta['run']} has one variant, so there is no comparison to correct")
    return rows


def _judged_score(rows: Rows, scorer: str | None) -> tuple[str, Judge]:
    """The score to label, and its judge."""
    judged = {name: judge for name in rows.scores if (judge := judge_of(rows.spec, name)) is not None}
    run = rows.meta["run"]
    if not judged:
        raise BadInput(f"{run}: no score comes from a judge", "add the scorer `judge`; labels calibrate it")
    name = (scorer or (rows.primary if rows.primary in judged else next(iter(judged)))).removeprefix("score_")
    if name not in judged:
        raise BadInput(f'{run}: no judge gives the score "{name}"{suggestion(name, judged)}')
    return name, judged[name]


def _sample(rows: Rows, sample: int | None, seed: int | None) -> tuple[int, int, bool]:
    """Seed and size of the sample, and whether both are already recorded."""
    recorded, run = recorded_sample(rows), rows.meta["run"]
    if recorded is None:
        seed = int(rows.meta["seed"]) if seed is None else seed
        return seed, DEFAULT_SAMPLE if sample is None else sample, False
    problem = ""
    if seed is not None and seed != recorded.seed:
        problem = f"its sample was drawn with seed {recorded.seed}, not {seed}"
    elif sample is not None and sample < recorded.size:
        problem = f"its sample already has {recorded.size} cases; it can grow but not shrink"
    if problem:
        raise BadInput(f"{run}: {problem}", f"run `abreast label {run}` to continue with it")
    return recorded.seed, sample or recorded.size, sample in (None, recorded.size)


def _refuse_name_clash(rows: Rows, names: Iterable[str]) -> None:
    for name in names:
        if name in rows.scores:
            raise BadInput(
                f"{rows.meta['run']}: score_{name} belongs to a scorer, so labels cannot use that name",
                f"give the scorer another name, then run `abreast rescore {rows.meta['run']}`",
            )


def _readable(content: str) -> str:
    """The JSON of an input or expected answer, formatted for people."""
    value = json.loads(content)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)

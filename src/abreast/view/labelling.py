"""Cases to label, one at a time. For blind labels, answers are in an order that depends on the case and the person."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from abreast.analyse.human_labels.labels import LabelAuthor
from abreast.errors import BadInput
from abreast.experiment.labels.answer_labels import AnswerLabels, is_calibrated, label_words
from abreast.experiment.labels.labelling import LabelBlock, Labelling, LabelQuestion
from abreast.report.page.answers import beginning
from abreast.report.page.trial_artifacts import cut
from abreast.store import Store
from abreast.view.rendering import run_path
from abreast.view.trial.texts import read_first

LONGEST = 60_000  # characters of an answer
MOST_MARKS = 10  # on a scale of buttons; finer scales have a text field
UNSURE = "unsure"
_TEXT_SIZES = {"error": 0, "prompt": 4 * LONGEST, "answer": 4 * LONGEST}  # bytes


class Choice(NamedTuple):
    value: str
    words: str
    key: str


@dataclass(slots=True, kw_only=True)
class Question:
    """A label to enter: one of the choices, or else a number."""

    dimension: str
    title: str
    choices: tuple[Choice, ...]
    current: str
    expects: str = ""


@dataclass(slots=True, kw_only=True)
class ShownAnswer:
    token: str
    position: int
    title: str
    text: str
    path: str = ""  # of the trial's page; empty while its variant is hidden
    questions: list[Question] = field(default_factory=list)
    note: str = ""


@dataclass(slots=True, kw_only=True)
class LabelItem:
    """The answers to a case in one repeat."""

    case_id: str
    repeat: str
    task: str
    expected: str
    answers: list[ShownAnswer]

    @property
    def open_questions(self) -> int:
        return sum(not question.current for answer in self.answers for question in answer.questions)


class LabelSource(ABC):
    """The cases to label, in order."""

    is_sample = False  # whether the labels correct a judge
    rubric: Sequence[tuple[str, str]] = ()

    def __init__(self, run: str, by: str) -> None:
        self.run, self.by = run, by

    @property
    @abstractmethod
    def total(self) -> int: ...

    @abstractmethod
    def is_done(self, index: int) -> bool: ...

    @abstractmethod
    def item(self, index: int, with_names: bool) -> LabelItem: ...

    @abstractmethod
    def record(
        self, index: int, answer: ShownAnswer, dimension: str, value: str, note: str | None, with_names: bool
    ) -> None:
        """Store a label; `value` is the value of a choice."""

    def done(self) -> int:
        return sum(map(self.is_done, range(self.total)))

    def next_open(self, after: int) -> int | None:
        """Return the index of the next case that lacks a label; None if there is none."""
        order = [*range(after + 1, self.total), *range(min(after + 1, self.total))]
        return next((index for index in order if not self.is_done(index)), None)

    def token(self, position: int) -> str:
        """Return the id of an answer on the page, which does not reveal its variant."""
        return hashlib.sha256(f"{self.run}:{self.by}:{position}".encode()).hexdigest()[:16]

    def shuffled(self, positions: Sequence[int]) -> list[int]:
        """Return the order in which this person always sees the answers."""
        order = sorted(positions)
        random.Random(f"{self.run}:{order[0]}:{self.by}").shuffle(order)
        return order


def open_source(store: Store, run: str, by: str) -> LabelSource:
    """Open the random sample of a judged run, whose verdict needs blind labels, or else all answers."""
    if is_calibrated(store.run(run)) and len(store.queries.variants(int(store.run(run)["run_id"]))) > 1:
        return JudgedSample(Labelling.open(store, run, by))
    return AllAnswers(store, run, by)


class AllAnswers(LabelSource):
    """Every answer of a run: right, wrong or unsure."""

    _CHOICES = (Choice("right", "right", "1"), Choice("wrong", "wrong", "2"), Choice(UNSURE, UNSURE, "u"))

    def __init__(self, store: Store, run: str, by: str) -> None:
        self._store, self._labels = store, AnswerLabels(store, run)
        self._run_id = int(self._labels.run["run_id"])
        self._variants = [variant.name for variant in store.queries.variants(self._run_id)]
        super().__init__(str(self._labels.run["run"]), by)

    @property
    def total(self) -> int:
        return len(self._labels.order)

    def is_done(self, index: int) -> bool:
        return self._labels.is_labelled(self._labels.order[index])

    def item(self, index: int, with_names: bool) -> LabelItem:
        positions = self._labels.blocks[self._labels.order[index]]
        queries = self._store.queries
        texts = {trial.position: trial for trial in queries.trial_texts(self._run_id, positions, _TEXT_SIZES)}
        first = queries.trial(self._run_id, positions[0]) or {}
        expected = read_first(self._store, self._run_id, positions[0], "expected")
        order = positions if with_names else self.shuffled(positions)
        return LabelItem(
            case_id=str(first["case_id"]),
            repeat=f"repeat {first['repeat'] + 1}" if first["repeat"] else "",
            task=beginning(*texts[positions[0]].prompt, LONGEST),
            expected=expected.text if expected else "",
            answers=[
                self._answer(number, position, beginning(*texts[position].answer, LONGEST), with_names)
                for number, position in enumerate(order, 1)
            ],
        )

    def _answer(self, number: int, position: int, text: str, with_names: bool) -> ShownAnswer:
        value, author = self._labels.labels.get(position, (None, LabelAuthor("")))
        return ShownAnswer(
            token=self.token(position),
            position=position,
            title=self._variants[position % len(self._variants)] if with_names else f"answer {number}",
            text=text,
            path=run_path(self.run, "trials", position) if with_names else "",
            questions=[Question(dimension="", title="", choices=self._CHOICES, current=label_words(value, author))],
            note=author.note,
        )

    def record(
        self, index: int, answer: ShownAnswer, dimension: str, value: str, note: str | None, with_names: bool
    ) -> None:
        words = answer.note if note is None else note
        self._labels.record(answer.position, value, self.by, words, is_blind=not with_names)


class JudgedSample(LabelSource):
    """The random sample that `abreast label` draws, labelled on the judge's scale. Names are always hidden."""

    is_sample = True

    def __init__(self, labelling: Labelling) -> None:
        super().__init__(labelling.run, labelling.by)
        self._labelling = labelling
        judge = labelling.judge
        self.rubric = [(name, judge.rubric[name]) for name in labelling.dimensions]

    @property
    def total(self) -> int:
        return len(self._labelling.blocks)

    def is_done(self, index: int) -> bool:
        return not self._labelling.questions(self._labelling.blocks[index])

    def item(self, index: int, with_names: bool) -> LabelItem:
        block = self._labelling.blocks[index]
        texts = {answer.position: answer.text for answer in block.answers}
        order = self.shuffled(list(texts))
        answers = [
            ShownAnswer(
                token=self.token(position),
                position=position,
                title=f"answer {number}",
                text=cut(texts[position], LONGEST),
                note=self._labelling.note(position) if position in block.labelled else "",
            )
            for number, position in enumerate(order, 1)
        ]
        for answer in answers:
            if self._labelling.judge.pairwise and answer is not answers[-1]:
                continue  # one question for both answers, below the second
            labelled = block.labelled[0] if self._labelling.judge.pairwise else answer.position
            answer.questions = list(self._questions(block, labelled, answers))
            answer.note = self._labelling.note(labelled)
        return LabelItem(
            case_id=block.case_id,
            repeat=f"repeat {block.repeat + 1}" if block.repeat else "",
            task=block.task,
            expected=block.expected,
            answers=answers,
        )

    def _questions(self, block: LabelBlock, position: int, answers: Sequence[ShownAnswer]) -> Iterator[Question]:
        judge, is_one = self._labelling.judge, len(self._labelling.dimensions) == 1
        for dimension in self._labelling.dimensions:
            entry = self._labelling.entry(position, dimension)
            if judge.pairwise:
                choices = [
                    Choice(answer.token, f"{answer.title} is better", str(number))
                    for number, answer in enumerate(answers, 1)
                ]
                choices.append(Choice("t", "a tie", "t"))
                if entry in ("1", "2"):
                    entry = self.token(block.answers[int(entry) - 1].position)
            else:
                choices = _marks(*judge.scale)
            current = UNSURE if entry == "s" else entry
            yield Question(
                dimension=dimension,
                title="" if is_one else dimension,
                choices=(*choices, Choice(UNSURE, UNSURE, "u")),
                current=current,
                expects="" if choices else self._labelling.expects,
            )

    def record(
        self, index: int, answer: ShownAnswer, dimension: str, value: str, note: str | None, with_names: bool
    ) -> None:
        block = self._labelling.blocks[index]
        is_pair = self._labelling.judge.pairwise
        if dimension not in self._labelling.dimensions:
            raise BadInput(f"the rubric has no dimension {dimension[:40]!r}")
        question = LabelQuestion(block, block.labelled[0] if is_pair else answer.position, dimension)
        tokens = {self.token(answer.position): str(number) for number, answer in enumerate(block.answers, 1)}
        entry = "s" if value == UNSURE else tokens.get(value, value) if is_pair else value
        try:
            mark = self._labelling.parse(question, entry)
        except ValueError as error:
            raise BadInput(f"a label is {error}, not {value[:40]!r}") from None
        self._labelling.record([(question, mark)], note)
        self._labelling.finish()


def _marks(low: float, high: float) -> list[Choice]:
    """Return a choice for each mark of an integer scale; none for finer scales."""
    if not (low.is_integer() and high.is_integer() and 0 <= low < high < MOST_MARKS):
        return []
    ends = {low: "wrong" if high - low == 1 else "worst", high: "right" if high - low == 1 else "best"}
    return [
        Choice(f"{mark}", f"{mark} {ends[mark]}" if mark in ends else f"{mark}", f"{mark}")
        for mark in range(int(low), int(high) + 1)
    ]

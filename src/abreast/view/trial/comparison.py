"""A trial's answer and code changes next to those of another variant."""

from __future__ import annotations

from dataclasses import replace

from abreast.errors import BadInput
from abreast.report.page.answers import LARGE, LINES, Answered, CaseAnswers, beginning, side_by_side
from abreast.report.page.changes import ON_ITS_OWN, Changes
from abreast.report.page.trial_artifacts import TrialArtifacts
from abreast.report.words.verdict_sentence import failure
from abreast.store.queries.answers import TrialTexts
from abreast.view.trial.place import TrialPlace


def comparison(place: TrialPlace, opposite: str | None) -> CaseAnswers | None:
    """Return the answers and code changes of two variants, the baseline or earlier one first; None if only one variant
    has been executed."""
    names = [variant.name for variant in place.variants]
    if opposite is None:
        baseline = place.run["baseline"]
        others = [name for name in names if name != place.trial["variant_name"]]
        opposite = baseline if baseline in others else next(iter(others), None)
    if opposite is None or opposite == place.trial["variant_name"]:
        return None
    if opposite not in names:
        raise BadInput(f"{place.run['run']} has no variant {opposite[:60]!r}")
    other = place.at(names.index(opposite), place.trial["repeat"])
    pair = sorted((place.position, other), key=lambda position: (position % len(names) != _baseline(place), position))
    queries = place.store.queries
    most = {"error": LARGE.answer * 4, "prompt": 0, "answer": LARGE.answer * 4}
    texts = {trial.position: trial for trial in queries.trial_texts(place.run_id, pair, most)}
    if other not in texts:
        return None
    sides = tuple(_side(place, position, texts[position]) for position in pair)
    changes = Changes(queries, place.run_id, place.name, LINES)
    blocks = changes.of_two([_trial_artifacts(place, position) for position in pair], ON_ITS_OWN)
    return replace(side_by_side(sides, "", 0, 1), blocks=blocks)


def _baseline(place: TrialPlace) -> int:
    return next((variant.index for variant in place.variants if variant.name == place.run["baseline"]), 0)


def _side(place: TrialPlace, position: int, stored: TrialTexts) -> Answered:
    is_ok = stored.status == "ok"
    text = beginning(*(stored.answer if is_ok else stored.error), LARGE.answer)
    words = text if is_ok else failure({**stored._asdict(), "error": text})
    of_trial = range(position, position + 1)
    (row,) = place.store.queries.trials_between(place.run_id, of_trial, place.run["primary_score"])
    name = place.variants[position % len(place.variants)].name
    return Answered(name, words, is_ok, row["score"], "")


def _trial_artifacts(place: TrialPlace, position: int) -> TrialArtifacts:
    in_block = position - place.of_case.start
    return TrialArtifacts(
        position=position,
        case=position // len(place.of_case),
        variant=in_block % len(place.variants),
        repeat=in_block // len(place.variants),
        outcome="",
        scores=(),
        artifacts=tuple(place.store.queries.artifact_sizes(place.run_id, 100, range(position, position + 1))),
    )

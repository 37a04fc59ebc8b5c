"""The content of a trial's page, read from the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from abreast.analyse.human_labels.labels import LabelAuthor, label_author
from abreast.experiment.labels.answer_labels import NAME, is_calibrated, label_words
from abreast.report.charts.drawing import Picture
from abreast.report.page.trial_artifacts import cut, in_bytes
from abreast.report.words.variant_figures import dollars, short_score
from abreast.report.words.verdict_sentence import SIMULATED, failure
from abreast.text import moment
from abreast.view.rendering import run_path
from abreast.view.trial import timing
from abreast.view.trial.comparison import comparison
from abreast.view.trial.conversation import turns
from abreast.view.trial.place import TrialPlace
from abreast.view.trial.texts import ARTIFACT, TextPart, read_first, read_part
from abreast.view.trial.turns import Turn

TITLES = {"prompt": "Prompt", "expected": "Expected", "answer": "Answer"}
MOST_ARTIFACTS = 200
MOST_PARSED = 4_000_000  # bytes of a raw response; no conversation is shown for larger ones
MOST_AT_ONCE = 400_000  # bytes of a raw response; the conversation in larger ones is loaded on demand
JUDGE_TEXT = 8_000  # bytes of each question and reply of a judge
MOST_REPEATS = 50  # columns in the table of the other trials


class Cell(NamedTuple):
    """A trial in the table of its case; without a path if it is not stored."""

    words: str
    path: str
    position: int
    is_current: bool


class Opinion(NamedTuple):
    """A score or a label."""

    name: str
    value: float | None
    words: str
    author: LabelAuthor | None  # None for a scorer


def details(place: TrialPlace, opposite: str | None) -> dict[str, Any]:
    """Return the values for the template."""
    store, trial, run_id, position = place.store, place.trial, place.run_id, place.position
    before, after = store.queries.neighbours(run_id, position)
    parts = {name: read_first(store, run_id, position, name) for name in TITLES}
    attempts = store.queries.attempts_of(run_id, position)
    return {
        "run": place.run,
        "trial": trial,
        "path": place.path(),
        "title": f"{trial['case_id']} · {place.name(trial['variant'], trial['repeat'])}",
        "banner": SIMULATED if place.run["simulated"] else "",
        "problem": "" if trial["status"] == "ok" else failure(trial),
        "texts": [(TITLES[name], text(place, part)) for name, part in parts.items() if part is not None],
        "data": text(place, read_first(store, run_id, position, "data")),
        "raw": text(place, read_first(store, run_id, position, "raw_response")),
        "figures": _figures(trial, attempts),
        "facts": _facts(place),
        "attempts": attempts,
        "timing": _figure(timing.picture(trial, attempts)),
        "conversation": conversation(place, MOST_AT_ONCE),
        "has_conversation": (trial["sizes"]["raw_response"] or 0) > MOST_AT_ONCE,
        "artifacts": _artifacts(place),
        "table": _table(place),
        "comparison": comparison(place, opposite),
        "others": [variant.name for variant in place.variants if variant.index != trial["variant"]],
        "previous": None if before is None else (before, run_path(place.run["run"], "trials", before)),
        "following": None if after is None else (after, run_path(place.run["run"], "trials", after)),
        **opinions(place),
    }


def text(place: TrialPlace, part: TextPart | None) -> dict[str, Any] | None:
    """Return a text for the template: its beginning, and where the rest is."""
    if part is None:
        return None
    path = place.path("texts", part.name)
    return {"text": part.text, "size": in_bytes(part.size), "next": part.next, "path": path}


def _figure(picture: Picture | None) -> dict[str, Any] | None:
    return None if picture is None else {"picture": picture, "svg": Markup(picture.inline(""))}


def _figures(trial: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return tokens, cost and times, as far as known."""
    names = {"input": "input", "output": "output", "cache_read": "read from the cache", "cache_write": "cache writes"}
    names["reasoning"] = "of them reasoning"
    figures = [
        (f"tokens: {title}" if name == "input" else title, f"{trial[f'{name}_tokens']:,}")
        for name, title in names.items()
        if trial[f"{name}_tokens"] is not None
    ]
    if trial["cost_usd"] is not None:
        basis = {"reported": "", "unknown": " (basis unknown)"}.get(trial["cost_basis"], f" ({trial['cost_basis']})")
        figures.append(("cost", f"{dollars(trial['cost_usd'])}{basis}"))
    if wasted := sum(attempt["cost_usd"] or 0.0 for attempt in attempts):
        figures.append(("failed attempts", dollars(wasted)))
    for name, title in (("service_s", "service"), ("queue_s", "queue"), ("backoff_s", "back-off")):
        if trial[name] is not None and (trial[name] > 0 or name == "service_s"):
            figures.append((title, timing.in_seconds(trial[name])))
    return figures


def _facts(place: TrialPlace) -> list[tuple[str, str, str]]:
    """Return names and values, each with a link or an empty text."""
    trial = place.trial
    facts = [("target", str(trial["target"]), ""), ("model", str(trial["model"] or ""), "")]
    facts += [("tags", ", ".join(f"{key} {value}" for key, value in trial["tags"].items()), "")]
    facts += [("group", str(trial["case_group"] or ""), ""), ("started", moment(trial["started_at"]) or "", "")]
    in_flight = trial["in_flight"]
    facts += [("in flight", f"{in_flight:,}" if in_flight else "", "")]
    parameters = {key: value for key, value in trial["params"].items() if key not in ("target", "model")}
    facts += [("parameters", cut(json.dumps(parameters, ensure_ascii=False), 2_000) if parameters else "", "")]
    if trial["reused_from"]:
        facts += [("answer reused from", str(trial["reused_from"]), run_path(trial["reused_from"]))]
    return [fact for fact in facts if fact[1]]


def _table(place: TrialPlace) -> dict[str, Any]:
    """Return the table of the case's trials: variants and repeats."""
    stored = {
        row["position"]: row
        for row in place.store.queries.trials_between(place.run_id, place.of_case, place.run["primary_score"])
    }
    repeats = range(min(place.repeats, MOST_REPEATS))

    def cell(position: int) -> Cell:
        row = stored.get(position)
        if row is None:
            return Cell("not run", "", position, False)
        score = short_score(row["score"]) if row["score"] is not None else ""
        words = score or ("answered" if row["status"] == "ok" else str(row["error_kind"] or row["status"]))
        path = run_path(place.run["run"], "trials", position)
        return Cell(words, path, position, position == place.position)

    rows = [(variant.name, [cell(place.at(variant.index, repeat)) for repeat in repeats]) for variant in place.variants]
    return {"repeats": [repeat + 1 for repeat in repeats], "rows": rows, "count": len(stored)}


def _artifacts(place: TrialPlace) -> list[dict[str, str]]:
    of_trial = range(place.position, place.position + 1)
    return [
        {
            "name": artifact.name,
            "size": in_bytes(artifact.size),
            "path": place.path("texts", f"{ARTIFACT}{artifact.name}"),
        }
        for artifact in place.store.queries.artifact_sizes(place.run_id, MOST_ARTIFACTS, of_trial)
    ]


# -- opinions ----------------------------------------------------------------------------------------------------------


def opinions(place: TrialPlace) -> dict[str, Any]:
    """Return scores, labels and replies of judges."""
    queries = place.store.queries
    labels = queries.labelled_names(place.run_id, place.position)
    items = []
    for row in queries.scores_of(place.run_id, place.position):
        explanation = row["explanation"] or ""
        author = label_author(explanation) if row["name"] in labels else None
        words = label_words(row["value"], author) if author else ""
        if author is None or words:
            items.append(Opinion(row["name"], row["value"], words or explanation, author))
    own = next((item for item in items if item.name == NAME and item.author), None)
    return {
        "scores": sorted(items, key=lambda item: (item.name != place.run["primary_score"], item.author is not None)),
        "primary": place.run["primary_score"],
        "judgements": queries.judgements_of(place.run_id, place.position, JUDGE_TEXT),
        "label": own,
        "label_is_fixed": bool(own and own.author and own.author.is_blind)
        and len(place.variants) > 1
        and is_calibrated(place.run),
        "history": [
            (label_words(old.value, author) or author.words, author, old.name)
            for old in queries.old_labels(place.run_id, place.position)
            for author in [label_author(old.explanation)]
        ],
    }


# -- the conversation --------------------------------------------------------------------------------------------------


def conversation(place: TrialPlace, most: int) -> list[Turn]:
    """Return the turns in the raw response; none if it exceeds `most` bytes or has an unknown format."""
    size = place.trial["sizes"]["raw_response"] or 0
    if not size or size > most:
        return []
    raw = read_part(place.store, place.run_id, place.position, "raw_response", 0, most)
    prompt = read_part(place.store, place.run_id, place.position, "prompt", 0, 64_000)
    result = turns(raw.text if raw else "", prompt.text if prompt else "")
    has_calls = any(turn.kind != "message" for turn in result)
    return result if has_calls or len(result) > 2 else []  # else the page shows both messages above

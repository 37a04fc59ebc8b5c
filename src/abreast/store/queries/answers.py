"""Queries for prompts, answers and returned values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from abreast.model import Answer, Case, Usage
from abreast.store.dialect import placeholders
from abreast.store.queries.base import CASE, PAYLOAD, VARIANT, Matches, QueryGroup, in_batches

_COMPARED = 2_000  # characters of an answer that are compared
_BEGINNING = f"substr(p.answer, 1, {_COMPARED})"
_CHANGE = "artifacts a ON a.run_id = t.run_id AND a.position = t.position AND a.name = 'diff'"


class JudgedTrial(NamedTuple):
    """The parts of a trial that judges and labellers see, with input and expected answer as JSON."""

    status: str
    blame: str | None
    case_id: str
    input: str
    expected: str
    answer: str | None
    change: str | None


class TrialTexts(NamedTuple):
    """The beginnings of the texts of a trial, each with its size in bytes; the expected answer as JSON."""

    position: int
    status: str
    error_kind: str | None
    error_blame: str | None
    expected: str
    error: tuple[bytes | None, int | None]
    prompt: tuple[bytes | None, int | None]
    answer: tuple[bytes | None, int | None]


class AnswerQueries(QueryGroup):
    def answer_data(
        self, run_id: int, mentioning: Sequence[str] = (), only_ok: bool = False
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Position and returned values of the answers that have values, or one of these; in plan order."""
        condition = " OR ".join("p.data LIKE ?" for _ in mentioning) or "p.data IS NOT NULL"
        ok = "JOIN trials t ON t.run_id = p.run_id AND t.position = p.position AND t.status = 'ok' " if only_ok else ""
        rows = self._store.stream(
            f"SELECT p.position, p.data FROM payloads p {ok}WHERE p.run_id = ? AND ({condition}) ORDER BY p.position",
            (run_id, *(f'%"{name}"%' for name in mentioning)),
        )
        for position, text in rows:
            data = json.loads(text)
            if isinstance(data, Mapping):
                yield position, data

    def returned_columns(self, run_id: int, variants: int) -> Counter[tuple[int, str]]:
        """Number of answers with a returned value, by variant and name of the value."""
        counts: Counter[tuple[int, str]] = Counter()
        for position, data in self.answer_data(run_id, only_ok=True):
            counts.update((position % variants, name) for name in data)
        return counts

    def answers_without(self, run_id: int, variant: int, name: str, most: int) -> Matches:
        with_value = {position for position, data in self.answer_data(run_id, only_ok=True) if name in data}
        query = "SELECT position FROM trials WHERE run_id = ? AND variant = ? AND status = 'ok' ORDER BY position"
        positions = [
            position for (position,) in self._store.rows(query, (run_id, variant)) if position not in with_value
        ]
        return Matches(len(positions), tuple(positions[:most]))

    def first_answers(self, run_id: int, most: int) -> list[tuple[str, bool, bool, bool, bool, Mapping[str, Any]]]:
        """Target, whether there are a raw response, tokens, a cost and a model, and the returned values of the first
        answers."""
        rows = self._store.rows(
            "SELECT v.target, p.raw_response IS NOT NULL, t.input_tokens IS NOT NULL OR t.output_tokens IS NOT NULL, "
            f"t.cost_usd IS NOT NULL, t.model IS NOT NULL, p.data FROM trials t JOIN {VARIANT} JOIN {PAYLOAD} "
            "WHERE t.run_id = ? AND t.status = 'ok' ORDER BY t.position LIMIT ?",
            (run_id, most),
        )
        return [(target, *map(bool, flags), json.loads(data) if data else {}) for target, *flags, data in rows]

    def prompts(self, run_id: int) -> Iterator[tuple[int, str | None]]:
        """Position and prompt of the trials that were not skipped, in plan order."""
        return self._store.stream(
            f"SELECT t.position, p.prompt FROM trials t JOIN {PAYLOAD} WHERE t.run_id = ? AND t.status <> 'skipped' "
            "ORDER BY t.position",
            (run_id,),
        )

    def prompt_length(self, run_id: int, per_case: int, step: int, most: int) -> float:
        """The mean length of the prompts of every `step`-th case, each counted as at most `most`."""
        query = (
            f"SELECT AVG(CASE WHEN length(p.prompt) < ? THEN length(p.prompt) ELSE ? END) FROM trials t JOIN {PAYLOAD} "
            "WHERE t.run_id = ? AND t.repeat = 0 AND (t.position / ?) % ? = 0 AND p.prompt IS NOT NULL"
        )
        return self._scalar(query, most, most, run_id, per_case, step) or 0.0

    def sample_prompts(
        self, run_id: int, per_case: int, step: int, ends: int
    ) -> Iterator[tuple[int, str, str, int, str | None]]:
        """Case index, case id, expected answer, variant and prompt of every `step`-th case with a short expected
        answer. A long prompt is cut to `ends` characters at either end."""
        rows = self._store.stream(
            "SELECT t.position / ?, c.id, c.expected, t.variant, "
            "CASE WHEN length(p.prompt) > ? THEN substr(p.prompt, 1, ?) ELSE p.prompt END, "  # substr stops at a NUL
            "CASE WHEN length(p.prompt) > ? THEN substr(p.prompt, length(p.prompt) - ? + 1) END "
            f"FROM trials t JOIN {CASE} JOIN {PAYLOAD} "
            "WHERE t.run_id = ? AND t.repeat = 0 AND (t.position / ?) % ? = 0 AND c.expected <> 'null' "
            "AND length(c.expected) < 1000 ORDER BY t.position",
            (per_case, 2 * ends, ends, 2 * ends, ends, run_id, per_case, step),
        )
        for *row, begin, end in rows:
            yield (*row, begin if end is None else f"{begin}\n{end}")

    def sample_answers(self, run_id: int, per_case: int, step: int) -> list[tuple[int, int, str | None]]:
        """Variant, case index and beginning of the answer for every `step`-th case."""
        return self._store.rows(
            f"SELECT t.variant, t.position / ?, {_BEGINNING} FROM trials t JOIN {PAYLOAD} "
            "WHERE t.run_id = ? AND t.repeat = 0 AND t.status = 'ok' AND (t.position / ?) % ? = 0 ORDER BY t.position",
            (per_case, run_id, per_case, step),
        )

    def same_answers(self, run_id: int, variant: int, answer: str, score: str | None) -> tuple[int, ...]:
        """Counts for a variant: answers, and of those equal to this one: all, different expected answers, right ones,
        scored ones."""
        (counts,) = self._store.rows(
            "SELECT COUNT(*), COUNT(CASE WHEN same THEN 1 END), COUNT(DISTINCT CASE WHEN same THEN expected END), "
            "COUNT(CASE WHEN same AND value > 0.5 THEN 1 END), COUNT(CASE WHEN same THEN value END) FROM ("
            f"SELECT {_BEGINNING} = ? AS same, c.expected, s.value FROM trials t JOIN {PAYLOAD} JOIN {CASE} "
            "LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = ? "
            "WHERE t.run_id = ? AND t.variant = ? AND t.status = 'ok' AND t.repeat = 0) answers",
            (answer, score, run_id, variant),
        )
        return counts

    def trials_answering(self, run_id: int, variant: int, answer: str, most: int) -> Matches:
        """Trials of the first repeat in which a variant gives this answer."""
        condition = (
            "t.variant = ? AND t.status = 'ok' AND t.repeat = 0 AND EXISTS (SELECT 1 FROM payloads p "
            f"WHERE p.run_id = t.run_id AND p.position = t.position AND {_BEGINNING} = ?)"
        )
        return self._matches(run_id, condition, (variant, answer), most)

    def alike_answers(self, run_id: int, first: int, second: int, score: str | None, short: int) -> tuple[int, ...]:
        """Counts for pairs of answers of two variants: all, different ones, and the unexplained ones by case and by
        answer. An answer is explained if it is right and at most `short` characters long, or is the expected text."""
        (counts,) = self._store.rows(
            "SELECT COUNT(*), COUNT(CASE WHEN p.answer <> q.answer THEN 1 END), "
            "COUNT(DISTINCT CASE WHEN NOT explained THEN case_digest END), "
            f"COUNT(DISTINCT CASE WHEN NOT explained THEN {_BEGINNING} END) FROM ("
            "SELECT t.run_id, t.position AS mine, u.position AS theirs, t.case_digest, "
            "COALESCE((s.value >= 1 AND length(p.answer) <= ?) OR "
            f"trim(p.answer) = {self._dialect.document_text('c.expected')}, FALSE) AS explained FROM trials t "
            "JOIN trials u ON u.run_id = t.run_id AND u.position = t.position + ? AND u.status = 'ok' "
            f"JOIN {CASE} JOIN {PAYLOAD} "
            "LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = ? "
            "WHERE t.run_id = ? AND t.variant = ? AND t.status = 'ok') pair "
            "JOIN payloads p ON p.run_id = pair.run_id AND p.position = pair.mine "
            "JOIN payloads q ON q.run_id = pair.run_id AND q.position = pair.theirs",
            (short, second - first, score, run_id, first),
        )
        return counts

    def judged_trials(self, run_id: int, positions: Iterable[int]) -> dict[int, JudgedTrial]:
        """These trials as judges and labellers see them, by position."""
        return {
            row[0]: JudgedTrial(*row[1:])
            for batch in in_batches(positions)
            for row in self._store.rows(
                "SELECT t.position, t.status, t.error_blame, c.id, c.input, c.expected, p.answer, a.content "
                f"FROM trials t JOIN {CASE} LEFT JOIN {PAYLOAD} LEFT JOIN {_CHANGE} "
                f"WHERE t.run_id = ? AND t.position IN ({placeholders(batch)}) ORDER BY t.position",
                (run_id, *batch),
            )
        }

    def trial_texts(self, run_id: int, positions: Iterable[int], most: Mapping[str, int]) -> Iterator[TrialTexts]:
        """The texts of these trials, each cut to the number of bytes in `most`."""
        texts = {"error": "t.error", "prompt": "p.prompt", "answer": "p.answer"}
        chosen = ", ".join(f"{self._dialect.byte_range(source)}, octet_length({source})" for source in texts.values())
        for batch in in_batches(positions):
            rows = self._store.stream(  # expected answers may be large
                f"SELECT {chosen}, t.position, t.status, t.error_kind, t.error_blame, c.expected FROM trials t "
                f"JOIN {CASE} LEFT JOIN {PAYLOAD} WHERE t.run_id = ? AND t.position IN ({placeholders(batch)}) "
                "ORDER BY t.position",
                (*(most[name] for name in texts), run_id, *batch),
            )
            for row in rows:
                yield TrialTexts(*row[6:], row[0:2], row[2:4], row[4:6])  # type: ignore[call-arg]

    def expected_answer(self, run_id: int, position: int) -> Any:
        """The expected answer of a trial; None if the trial is not stored."""
        query = f"SELECT c.expected FROM trials t JOIN {CASE} WHERE t.run_id = ? AND t.position = ?"
        rows = self._store.rows(query, (run_id, position))
        return json.loads(rows[0][0]) if rows else None

    def unscored_answers(self, run_id: int, versions: Sequence[tuple[str, str]]) -> Iterator[tuple[int, Case, Answer]]:
        """Position, case and answer of the trials that lack one of these scores, given by name and version."""
        scored = " + ".join(
            "(SELECT COUNT(*) FROM scores s WHERE s.run_id = t.run_id AND s.position = t.position "
            "AND s.name = ? AND s.version = ?)"
            for _ in versions
        )
        rows = self._store.stream(
            "SELECT t.position, c.id, c.input, c.expected, c.tags, c.case_group, p.answer, p.value, p.data, t.model, "
            "t.input_tokens, t.output_tokens, t.cache_read_tokens, t.cache_write_tokens, t.reasoning_tokens, "
            f"t.cost_usd, t.cost_basis, p.raw_response FROM trials t JOIN {CASE} JOIN {PAYLOAD} "
            f"WHERE t.run_id = ? AND t.status = 'ok' AND {scored} < ? ORDER BY t.position",
            (run_id, *(part for pair in versions for part in pair), len(versions)),
        )
        has_artifacts = self._exists("SELECT 1 FROM artifacts WHERE run_id = ?", run_id)
        artifacts_of_trial = "SELECT name, content FROM artifacts WHERE run_id = ? AND position = ?"
        for position, case_id, input_, expected, tags, group, text, value, data, model, *rest in rows:
            *tokens, cost, basis, raw = rest
            yield (
                position,
                Case(case_id, json.loads(input_), json.loads(expected), json.loads(tags), group),
                Answer(
                    text,
                    value=None if value is None else json.loads(value),
                    data=json.loads(data) if data else {},
                    usage=Usage(*tokens),
                    cost_usd=cost,
                    cost_basis=basis or "unknown",
                    model=model,
                    raw_response=raw,
                    artifacts=dict(self._store.rows(artifacts_of_trial, (run_id, position))) if has_artifacts else {},
                ),
            )

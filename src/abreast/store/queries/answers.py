"""Questions about what was asked and answered: prompts, answers and the values returned with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from abreast.model import Answer, Case, Usage
from abreast.store.queries.base import CASE, PAYLOAD, VARIANT, Matches, QueryGroup, in_batches, placeholders

_COMPARED = 2_000  # characters of an answer that are looked at to tell whether two are the same
_BEGINNING = f"substr(p.answer, 1, {_COMPARED})"
_CHANGE = "artifacts a ON a.run_id = t.run_id AND a.position = t.position AND a.name = 'diff'"


class JudgedTrial(NamedTuple):
    """A trial as far as judges and labellers have to do with it; input and expected as JSON."""

    status: str
    blame: str | None
    case_id: str
    input: str
    expected: str
    answer: str | None
    change: str | None


class TrialTexts(NamedTuple):
    """The beginnings of the texts of a trial; the expected answer as JSON."""

    position: int
    status: str
    error_kind: str | None
    error_blame: str | None
    expected: str
    error: tuple[bytes | None, int | None]  # and how many bytes there are
    prompt: tuple[bytes | None, int | None]
    answer: tuple[bytes | None, int | None]


class AnswerQueries(QueryGroup):
    def answer_data(
        self, run_id: int, mentioning: Sequence[str] = (), only_ok: bool = False
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Position and returned values of the answers that have some, or one of these; in plan order."""
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
        """How many answers of a variant come with a value of this name, by variant and name."""
        found: Counter[tuple[int, str]] = Counter()
        for position, data in self.answer_data(run_id, only_ok=True):
            found.update((position % variants, name) for name in data)
        return found

    def answers_without(self, run_id: int, variant: int, name: str, most: int) -> Matches:
        """Answers of a variant that do not come with a value of this name."""
        found = {position for position, data in self.answer_data(run_id, only_ok=True) if name in data}
        asked = "SELECT position FROM trials WHERE run_id = ? AND variant = ? AND status = 'ok' ORDER BY position"
        positions = [position for (position,) in self._store.rows(asked, (run_id, variant)) if position not in found]
        return Matches(len(positions), tuple(positions[:most]))

    def first_answers(self, run_id: int, most: int) -> list[tuple[str, bool, bool, bool, bool, Mapping[str, Any]]]:
        """What came with the first answers: target, whether there are a raw response, tokens, a cost and a model, and
        the returned values."""
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
        """The mean length of the prompts of every so-many-th case, none counted longer than `most`."""
        ((length,),) = self._store.rows(
            f"SELECT AVG(CASE WHEN length(p.prompt) < ? THEN length(p.prompt) ELSE ? END) FROM trials t JOIN {PAYLOAD} "
            "WHERE t.run_id = ? AND t.repeat = 0 AND (t.position / ?) % ? = 0 AND p.prompt IS NOT NULL",
            (most, most, run_id, per_case, step),
        )
        return length or 0.0

    def sample_prompts(
        self, run_id: int, per_case: int, step: int, ends: int
    ) -> Iterator[tuple[int, str, str, int, str | None]]:
        """Case index, case id, expected answer, variant and prompt of every so-many-th case with a short expected
        answer; of a long prompt so many characters of either end."""
        rows = self._store.stream(
            "SELECT t.position / ?, c.id, c.expected, t.variant, "
            "CASE WHEN length(p.prompt) > ? THEN substr(p.prompt, 1, ?) ELSE p.prompt END, "  # substr ends at a NUL
            "CASE WHEN length(p.prompt) > ? THEN substr(p.prompt, length(p.prompt) - ? + 1) END "
            f"FROM trials t JOIN {CASE} JOIN {PAYLOAD} "
            "WHERE t.run_id = ? AND t.repeat = 0 AND (t.position / ?) % ? = 0 AND c.expected <> 'null' "
            "AND length(c.expected) < 1000 ORDER BY t.position",
            (per_case, 2 * ends, ends, 2 * ends, ends, run_id, per_case, step),
        )
        for *row, begin, end in rows:
            yield (*row, begin if end is None else f"{begin}\n{end}")

    def sample_answers(self, run_id: int, per_case: int, step: int) -> list[tuple[int, int, str | None]]:
        """Variant, case index and the beginning of the answer to every so-many-th case."""
        return self._store.rows(
            f"SELECT t.variant, t.position / ?, {_BEGINNING} FROM trials t JOIN {PAYLOAD} "
            "WHERE t.run_id = ? AND t.repeat = 0 AND t.status = 'ok' AND (t.position / ?) % ? = 0",
            (per_case, run_id, per_case, step),
        )

    def same_answers(self, run_id: int, variant: int, answer: str, score: str | None) -> tuple[int, ...]:
        """How many answers a variant gives, how many of them are this one, to how many different expected answers, how
        many are right, and how many have a score."""
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
        """The trials in which a variant gives this answer, in the first repeat."""
        condition = (
            "t.variant = ? AND t.status = 'ok' AND t.repeat = 0 AND EXISTS (SELECT 1 FROM payloads p "
            f"WHERE p.run_id = t.run_id AND p.position = t.position AND {_BEGINNING} = ?)"
        )
        return self._matches(run_id, condition, (variant, answer), most)

    def alike_answers(self, run_id: int, one: int, other: int, score: str | None, short: int) -> tuple[int, ...]:
        """How many answers of two variants can be compared, how many differ, and the number of cases and of answers
        that are not explained: two who are right say the same, if the answer has at most `short` characters or is the
        expected text."""
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
            (short, other - one, score, run_id, one),
        )
        return counts

    def judged_trials(self, run_id: int, positions: Iterable[int]) -> dict[int, JudgedTrial]:
        """What a judge or a labeller may see of these trials, by position."""
        return {
            row[0]: JudgedTrial(*row[1:])
            for batch in in_batches(positions)
            for row in self._store.rows(
                "SELECT t.position, t.status, t.error_blame, c.id, c.input, c.expected, p.answer, a.content "
                f"FROM trials t JOIN {CASE} LEFT JOIN {PAYLOAD} LEFT JOIN {_CHANGE} "
                f"WHERE t.run_id = ? AND t.position IN ({placeholders(batch)})",
                (run_id, *batch),
            )
        }

    def trial_texts(self, run_id: int, positions: Iterable[int], most: Mapping[str, int]) -> Iterator[TrialTexts]:
        """The texts of these trials, of each no more bytes than `most` says."""
        texts = {"error": "t.error", "prompt": "p.prompt", "answer": "p.answer"}
        chosen = ", ".join(f"{self._dialect.first_bytes(source)}, octet_length({source})" for source in texts.values())
        for batch in in_batches(positions):
            rows = self._store.stream(  # one at a time: what is expected may be large
                f"SELECT {chosen}, t.position, t.status, t.error_kind, t.error_blame, c.expected FROM trials t "
                f"JOIN {CASE} LEFT JOIN {PAYLOAD} WHERE t.run_id = ? AND t.position IN ({placeholders(batch)})",
                (*(most[name] for name in texts), run_id, *batch),
            )
            for row in rows:
                yield TrialTexts(*row[6:], row[0:2], row[2:4], row[4:6])  # type: ignore[call-arg]

    def expected_answer(self, run_id: int, position: int) -> Any:
        """The expected answer of the case of a trial."""
        asked = f"SELECT c.expected FROM trials t JOIN {CASE} WHERE t.run_id = ? AND t.position = ?"
        rows = self._store.rows(asked, (run_id, position))
        return json.loads(rows[0][0]) if rows else None

    def unscored_answers(self, run_id: int, wanted: Sequence[tuple[str, str]]) -> Iterator[tuple[int, Case, Answer]]:
        """Position, case and answer of the trials that lack one of these scores, each a name and a version."""
        known = " + ".join(
            "(SELECT COUNT(*) FROM scores s WHERE s.run_id = t.run_id AND s.position = t.position "
            "AND s.name = ? AND s.version = ?)"
            for _ in wanted
        )
        rows = self._store.stream(
            "SELECT t.position, c.id, c.input, c.expected, c.tags, c.case_group, p.answer, p.value, p.data, t.model, "
            "t.input_tokens, t.output_tokens, t.cache_read_tokens, t.cache_write_tokens, t.reasoning_tokens, "
            f"t.cost_usd, t.cost_basis, p.raw_response FROM trials t JOIN {CASE} JOIN {PAYLOAD} "
            f"WHERE t.run_id = ? AND t.status = 'ok' AND {known} < ?",
            (run_id, *(part for pair in wanted for part in pair), len(wanted)),
        )
        has_artifacts = bool(self._store.rows("SELECT 1 FROM artifacts WHERE run_id = ? LIMIT 1", (run_id,)))
        asked = "SELECT name, content FROM artifacts WHERE run_id = ? AND position = ?"
        for position, case_id, given, expected, tags, group, text, value, data, model, *rest in rows:
            *tokens, cost, basis, raw = rest
            yield (
                position,
                Case(case_id, json.loads(given), json.loads(expected), json.loads(tags), group),
                Answer(
                    text,
                    value=None if value is None else json.loads(value),
                    data=json.loads(data) if data else {},
                    usage=Usage(*tokens),
                    cost_usd=cost,
                    cost_basis=basis or "unknown",
                    model=model,
                    raw_response=raw,
                    artifacts=dict(self._store.rows(asked, (run_id, position))) if has_artifacts else {},
                ),
            )

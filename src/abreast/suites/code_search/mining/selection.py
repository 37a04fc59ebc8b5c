"""Select proposals: verified cases, spread over kinds, languages and folders, reproducible by a seed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

from abreast.errors import BadInput
from abreast.languages import LANGUAGES, SymbolDefinition
from abreast.suites.code_search.finding import repository_folder
from abreast.suites.code_search.mining import grep_agent
from abreast.suites.code_search.mining.kinds import (
    callers,
    configuration,
    definitions,
    history,
    impact,
    implementations,
    reexports,
)
from abreast.suites.code_search.mining.name_index import NameIndex
from abreast.suites.code_search.mining.proposal import KnownCases, Proposal, is_readable_truth
from abreast.suites.code_search.mining.repository import CodeRepository, RepositoryFile

KINDS = (*("impact", "implementations", "tests", "history", "reexports", "callers", "definitions", "configuration"),)
ROUNDS = 3  # rounds after which deferred cases are accepted
LIMIT = 20
FILES_PER_CASE = 4  # source files to read per requested case, at first

Item = TypeVar("Item")


def propose(
    repo: Path,
    *,
    limit: int = LIMIT,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    languages: Sequence[str] = (),
    excluded: KnownCases | None = None,
) -> list[Proposal]:
    """Propose up to `limit` new cases about a repository; without `languages`, about all, and configuration files."""
    if limit < 1:
        raise BadInput(f"--limit {limit}: must be a whole number of at least 1")
    repository = CodeRepository.open(repository_folder(repo))
    if not repository.files:
        raise BadInput(f"{repo}: no files to ask about", "use a repository with tracked files (`git add`)")
    selection = _CaseSelection(repository, excluded or KnownCases(), limit)
    for number, streams in enumerate(_rounds(repository, limit, Random(seed), kinds, languages), 1):
        selection.add_from(streams)
        if selection.is_full or (selection.could_be_full and number >= ROUNDS):
            break
    return selection.proposals + selection.deferred[: limit - len(selection.proposals)]


class _CaseSelection:
    """The selected proposals. Easy ones beyond half of the limit are deferred, as are settings beyond a tenth."""

    def __init__(self, repository: CodeRepository, excluded: KnownCases, limit: int) -> None:
        self.proposals: list[Proposal] = []
        self.deferred: list[Proposal] = []
        self._repository = repository
        self._existing = excluded
        self._limit = limit
        self._ids: set[str] = set()
        self._prompts = set(excluded.prompts)

    @property
    def is_full(self) -> bool:
        return len(self.proposals) >= self._limit

    @property
    def could_be_full(self) -> bool:
        return len(self.proposals) + len(self.deferred) >= self._limit

    def add_from(self, streams: list[Iterator[Proposal]]) -> None:
        while streams and not self.is_full:
            stream = streams.pop(0)
            proposal = next((proposal for proposal in stream if self._is_new(proposal)), None)
            if proposal is None:
                continue
            self._add(proposal)
            if len(self.deferred) < self._limit or proposal is not self.deferred[-1]:
                streams.append(stream)

    def _is_new(self, proposal: Proposal) -> bool:
        is_known = proposal.id in self._existing.ids or proposal.case["prompt"] in self._prompts
        return not is_known and not _reveals(proposal) and is_readable_truth(proposal)

    def _add(self, proposal: Proposal) -> None:
        base, number = proposal.id, 2
        while proposal.id in self._ids or proposal.id in self._existing.ids:
            proposal.case["id"] = f"{base}-{number}"
            number += 1
        self._ids.add(proposal.id)
        self._prompts.add(proposal.case["prompt"])
        score = grep_agent.measure(self._repository, proposal.case)
        proposal.case["difficulty"] = grep_agent.difficulty(score)
        proposal.case["tags"] = {"kind": proposal.kind, "grep_f1": f"{score:.2f}"}
        (self.deferred if self._is_deferred(proposal) else self.proposals).append(proposal)

    def _is_deferred(self, proposal: Proposal) -> bool:
        easy = sum(proposal.case["difficulty"] == "easy" for proposal in self.proposals)
        settings = sum(proposal.kind == "configuration" for proposal in self.proposals)
        return (proposal.case["difficulty"] == "easy" and easy >= self._limit // 2) or (
            proposal.kind == "configuration" and settings >= max(1, self._limit // 10)
        )


def _reveals(proposal: Proposal) -> bool:
    paths = proposal.case["ground_truth"]["files"]
    return any(path in proposal.case["prompt"] or path.rpartition("/")[2] in proposal.case["prompt"] for path in paths)


def _rounds(
    repository: CodeRepository, limit: int, random: Random, kinds: Sequence[str], languages: Sequence[str]
) -> Iterator[list[Iterator[Proposal]]]:
    """Yield streams of verified proposals from growing batches of source files, to read large repositories in part."""
    sources = [file for file in repository.files if file.kind == "source" and file.language in (languages or LANGUAGES)]
    order = spread(sources, random, lambda file: str(file.language), lambda file: file.folder)
    settings = [file for file in repository.files if file.kind == "config" and repository.may_be_asked_about(file)]
    once = [] if languages else [kind for kind in ("history", "configuration") if kind in kinds]
    size, start = limit * FILES_PER_CASE, 0
    while start < len(order) or once:
        batch = [file for file in order[start : start + size] if repository.may_be_asked_about(file)]
        if batch or once:
            chosen = [kind for kind in kinds if kind in once or kind not in ("history", "configuration")]
            yield _streams(repository, batch, settings, random, chosen)
        once = []
        start, size = start + size, size * 2


def _streams(
    repository: CodeRepository,
    sources: list[RepositoryFile],
    settings: list[RepositoryFile],
    random: Random,
    kinds: Sequence[str],
) -> list[Iterator[Proposal]]:
    names = definitions.candidates(repository, sources) if set(kinds) & set(_KINDS_BY_NAME) else []
    entries = configuration.candidates(repository, settings) if "configuration" in kinds else []
    index = NameIndex(repository, {proposal.name for _, proposal in names} | {entry.key for entry in entries})
    streams = {
        kind: propose_kind(index, spread(names, random, *_SPREAD_KEYS))
        for kind, propose_kind in _KINDS_BY_NAME.items()
        if kind in kinds
    }
    streams["history"] = history.proposals(repository, random)
    streams["reexports"] = reexports.proposals(repository, sources, random)
    streams["configuration"] = configuration.proposals(
        repository,
        spread(entries, random, lambda entry: entry.language, lambda entry: entry.file.path),
        index.files_with,
    )
    return [streams[kind] for kind in KINDS if kind in kinds]


_KINDS_BY_NAME = {
    "impact": impact.impact,
    "implementations": implementations.proposals,
    "tests": impact.tests,
    "callers": callers.proposals,
    "definitions": definitions.proposals,
}


_SPREAD_KEYS: tuple[Callable[[tuple[RepositoryFile, SymbolDefinition]], Hashable], ...] = (
    lambda item: item[0].language,
    lambda item: item[0].folder,
    lambda item: item[0].path,
    lambda item: item[1].kind,
)


def spread(items: Sequence[Item], random: Random, *keys: Callable[[Item], Hashable]) -> list[Item]:
    """Order items so that neighbours differ: groups by the first key alternate, recursively by the other keys."""
    if not keys:
        shuffled = list(items)
        random.shuffle(shuffled)
        return shuffled
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(keys[0](item), []).append(item)
    names = list(groups)
    random.shuffle(names)
    turns = [spread(groups[name], random, *keys[1:]) for name in names]
    longest = max(map(len, turns), default=0)
    return [turn[index] for index in range(longest) for turn in turns if index < len(turn)]

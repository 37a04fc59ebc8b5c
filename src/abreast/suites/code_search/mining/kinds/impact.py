"""Questions about the functions that a change affects, and the tests that call a function, directly or indirectly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from abreast.languages import SymbolDefinition
from abreast.suites.code_search.mining.kinds.callers import calls_of
from abreast.suites.code_search.mining.name_index import Calls, NameIndex
from abreast.suites.code_search.mining.proposal import Proposal, make_proposal
from abreast.suites.code_search.mining.repository import CodeRepository, RepositoryFile

MOST_FUNCTIONS = 20  # functions in an answer
FUNCTIONS_AT_ONCE = 100  # functions to search for in one pass over all files

Function = tuple[RepositoryFile, SymbolDefinition]

_TEST_NAME = {"python": re.compile(r"test"), "go": re.compile(r"Test(?![a-z])")}
_TEST_FILE = {"python": re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$"), "go": re.compile(r"_test\.go$")}
_TEST_MARK = {"java": re.compile(r"@(?:Test|ParameterizedTest)\b"), "rust": re.compile(r"#\[(?:\w+::)?test\b")}
_LINES_ABOVE = 3  # lines to search for an annotation
_IMPLICITLY_CALLED = re.compile(r"__\w+__$|constructor$|init$|main$|fmt$|drop$")


def impact(index: NameIndex, order: Sequence[Function]) -> Iterator[Proposal]:
    """Propose a case for each function with known callers, and known callers of these."""
    for function, direct, indirect in _with_callers(index, order):
        if indirect - direct.callers and 2 <= len(direct.callers | indirect) <= MOST_FUNCTIONS:
            yield _proposal(
                index,
                function,
                sorted(direct.callers | indirect, key=_location),
                kind="impact",
                question="Which functions and methods can a change of {target} affect: those that call it, and those "
                "that call one of these? Give the name of each of them and its file. Tests count too.",
                description="Find the functions that a change of {target} affects.",
                why=f"{len(direct.callers)} direct callers, and theirs; every occurrence of these names is explained",
            )


def tests(index: NameIndex, order: Sequence[Function]) -> Iterator[Proposal]:
    """Propose a case for each function that tests call, directly or through one other function."""
    for function, direct, indirect in _with_callers(index, order):
        covering = {caller for caller in direct.callers | indirect if is_test(index.repository, *caller)}
        if not is_test_file(function[0]) and 1 <= len(covering) <= MOST_FUNCTIONS:
            yield _proposal(
                index,
                function,
                sorted(covering, key=_location),
                kind="tests",
                question="Which tests call {target}, directly or through one other function? Give the name of each "
                "test function and its file.",
                description="Find the tests that call {target}.",
                why=f"{len(covering & direct.callers)} tests call it directly, {len(covering - direct.callers)} "
                "through one other function",
            )


def is_test_file(file: RepositoryFile) -> bool:
    pattern = _TEST_FILE.get(file.language or "")
    return pattern.search(file.path) is not None if pattern else "test" in file.path.lower()


def is_test(repository: CodeRepository, file: RepositoryFile, definition: SymbolDefinition) -> bool:
    """Whether a function is a test; False for languages in which tests have no names."""
    language = file.language or ""
    if language in _TEST_NAME:
        return is_test_file(file) and _TEST_NAME[language].match(definition.name) is not None
    above = repository.text(file.path).split("\n")[max(0, definition.line - 1 - _LINES_ABOVE) : definition.line]
    return language in _TEST_MARK and any(_TEST_MARK[language].search(line) for line in above)


def _with_callers(index: NameIndex, order: Sequence[Function]) -> Iterator[tuple[Function, Calls, set[Function]]]:
    for start in range(0, len(order), FUNCTIONS_AT_ONCE):
        batch = order[start : start + FUNCTIONS_AT_ONCE]
        functions = [(function, calls) for function in batch if (calls := calls_of(index, *function)) and calls.callers]
        index.load(caller.name for _, calls in functions for _, caller in calls.callers)
        for function, calls in functions:
            if len(calls.callers) <= MOST_FUNCTIONS:
                indirect = _common_callers(index, calls.callers)
                if indirect is not None and function not in indirect:
                    yield function, calls, indirect


def _common_callers(index: NameIndex, functions: set[Function]) -> set[Function] | None:
    """Return the callers of all functions but tests; None if those of one are not known."""
    callers: set[Function] = set()
    for file, definition in functions:
        if is_test(index.repository, file, definition):
            continue
        calls = None if _IMPLICITLY_CALLED.match(definition.name) else calls_of(index, file, definition)
        if calls is None:
            return None
        callers |= calls.callers
    return callers


def _location(function: Function) -> tuple[str, int]:
    return function[0].path, function[1].line


def _proposal(
    index: NameIndex, target: Function, answer: list[Function], *, kind: str, question: str, description: str, why: str
) -> Proposal:
    noun = f"the {target[1].kind} `{target[1].name}`"
    return make_proposal(
        index.repository,
        kind=kind,
        language=target[0].language,
        name=(kind, target[1].qualified),
        category="understand",
        description=description.format(target=noun),
        prompt=question.format(target=noun),
        symbols=sorted({definition.qualified for _, definition in answer}),
        files=[file.path for file, _ in answer],
        why=why,
        locations=map(_location, [target, *answer]),
    )

"""Cases proposed from a repository: their ground truths, and how a person accepts or rejects them."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from abreast.errors import BadInput
from abreast.model import Answer, Case
from abreast.scorers import build
from abreast.scorers.retrieval.truth import check_truth
from abreast.suites.code_search import finding, mining
from abreast.suites.code_search.mining import casefile, grep_agent, proposal, selection
from abreast.suites.code_search.mining.repository import CodeRepository
from conftest import ABREAST, Done, Folder

FILES = {
    "app/store.py": """\
        LINE_LIMIT = 3


        class LedgerStore:
            def open_ledger(self, path):
                return parse_entry(path)

            def close_ledger(self):
                return self.open_ledger("none of it")


        def parse_entry(text):
            # parse_entry is called twice
            return split_entry(text)


        def split_entry(text):
            return text.split("parse_entry of a text")
    """,
    "app/main.py": """\
        from app.store import LedgerStore, parse_entry
        from app import store


        def start_everything():
            return parse_entry("a"), LedgerStore().open_ledger("b")


        def finish_everything():
            return store.split_entry("c")
    """,
    "server/ledger.go": """\
        package server

        const RetryBudget = 3

        type LedgerServer struct{ n int }

        func (s *LedgerServer) ServeLedger(key string) int {
        \treturn computeBalance(key)
        }

        func computeBalance(key string) int {
        \treturn len(key)
        }
    """,
    "server/more.go": """\
        package server

        func totalBalance() int {
        \treturn computeBalance("a") + computeBalance("b")
        }
    """,
    "web/src/price.ts": """\
        import { roundPrice } from "./rounding";
        export const PRICE_STEP = 5;
        export const showPrice = (value: number) => {
          return roundPrice(value);
        };
        export class PriceList {
          renderList(): string {
            return showPrice(3);
          }
        }
        export interface PriceSource {
          fetchPrice(id: string): number;
        }
    """,
    "web/src/rounding.ts": "export function roundPrice(value: number) {\n  return Math.round(value);\n}\n",
    "jvm/Clock.java": """\
        package jvm;
        public class WallClock {
            static final int TICK_LENGTH = 3;
            public WallClock(int start) { this.start = start; }
            public int tickForward(int steps) {
                return addSteps(steps);
            }
            int addSteps(int steps) {
                return steps * TICK_LENGTH;
            }
        }
    """,
    "native/src/codec.rs": """\
        pub const FRAME_SIZE: usize = 8;
        pub struct FrameCodec { n: usize }
        impl FrameCodec {
            pub fn encode_frame(&self) -> usize {
                frame_checksum(self.n)
            }
        }
        pub fn frame_checksum(n: usize) -> usize {
            n % FRAME_SIZE
        }
        pub fn check_all() {
            assert_eq!(frame_checksum(1), 1);
        }
    """,
    "pyproject.toml": '[tool.ruff]\nline-length = 100\n\n[tool.other]\nretry_ceiling = 7\nshared_setting = "a"\n',
    "deploy/service.yaml": "replica_count: 3\nshared_setting: b\ngrace_seconds: 30\n",
    "Makefile": "rebuild-index:\n\techo done\n",
    ".env.example": "LEDGER_ADDRESS=localhost\n",
    "go.mod": "module example.com/server\n\nrequire example.com/lib/ledgers v1.2.3\n",
    "README.md": "The function `parse_entry` reads an entry.\n",
}


def written(folder: Folder, files: dict[str, str], *, tracked: bool = True) -> Path:
    """A repository with these files."""
    for name, text in files.items():
        folder.write(f"repo/{name}", text)
    if tracked:
        add(folder.path / "repo")
    return folder.path / "repo"


def add(repo: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    subprocess.run(["git", "add", "-A"], cwd=repo, check=True)


def ids(repo: Path, **how: Any) -> set[str]:
    return {candidate.id for candidate in mining.propose(repo, limit=500, **how)}


def truths(repo: Path, **how: Any) -> dict[str, dict[str, Any]]:
    return {candidate.id: candidate.case["ground_truth"] for candidate in mining.propose(repo, limit=500, **how)}


def hits(repo: Path, word: str) -> set[tuple[str, int]]:
    """The occurrences of a word according to `git grep`."""
    done = subprocess.run(
        ["git", "grep", "-n", "-w", "-z", "-F", "-e", word], cwd=repo, capture_output=True, text=True, check=False
    )
    return {(line.split("\0")[0], int(line.split("\0")[1])) for line in done.stdout.splitlines()}


@pytest.fixture
def repo(folder: Folder) -> Path:
    return written(folder, FILES)


# -- what is proposed is true ----------------------------------------------------------------------------------------


def test_every_truth_matches_git_grep_and_unclaimed_matches_are_explained(repo: Path) -> None:
    proposals = mining.propose(repo, limit=60, kinds=["definitions", "callers", "configuration"])
    assert len(proposals) > 20
    for candidate in proposals:
        name = re.search(r"`([^`]+)`", candidate.case["prompt"])
        assert name is not None
        truth = {(path, line) for path, lines in candidate.case["ground_truth"]["lines"].items() for line in lines}
        matches = hits(repo, name[1])
        assert truth <= matches, candidate.id
        for path, line in matches - truth:
            text = (repo / path).read_text().split("\n")[line - 1]
            is_said = path == "README.md" or "#" in text or '"' in text or "import" in text
            if candidate.kind == "definitions":
                assert not re.search(rf"(def|class|func|fn|function|const|struct) +{name[1]}\b", text), candidate.id
            elif candidate.kind == "callers":
                defines = re.search(rf"(def|func|fn|function|const|int) +(\([^)]*\) +)?{name[1]}\b", text)
                assert is_said or defines, (candidate.id, text)
            else:
                assert not path.endswith((".toml", ".yaml")), candidate.id


def test_definitions_are_found_in_all_five_languages(repo: Path) -> None:
    proposals = truths(repo, kinds=["definitions"])
    assert proposals["def-ledger-store-open-ledger"] == {
        "files": ["app/store.py"],
        "symbols": ["LedgerStore.open_ledger"],
        "lines": {"app/store.py": [5]},
    }
    assert proposals["def-ledger-server-serve-ledger"]["lines"] == {"server/ledger.go": [7]}
    assert proposals["def-show-price"]["lines"] == {"web/src/price.ts": [3]}
    assert proposals["def-wall-clock"]["lines"] == {"jvm/Clock.java": [2]}, "a constructor is not a second definition"
    assert proposals["def-frame-codec-encode-frame"]["symbols"] == ["FrameCodec.encode_frame"]
    assert {"def-line-limit", "def-retry-budget", "def-price-step", "def-frame-size"} <= proposals.keys()


def test_callers_are_named_with_their_class_and_all_their_lines(repo: Path) -> None:
    proposals = truths(repo, kinds=["callers"])
    assert proposals["callers-parse-entry"] == {
        "files": ["app/main.py", "app/store.py"],
        "symbols": ["LedgerStore.open_ledger", "start_everything"],
        "lines": {"app/main.py": [6], "app/store.py": [6]},
    }
    assert proposals["callers-split-entry"]["symbols"] == ["finish_everything", "parse_entry"]
    assert proposals["callers-compute-balance"] == {
        "files": ["server/ledger.go", "server/more.go"],
        "symbols": ["LedgerServer.ServeLedger", "totalBalance"],
        "lines": {"server/ledger.go": [8], "server/more.go": [4]},
    }
    assert proposals["callers-round-price"]["symbols"] == ["showPrice"]
    assert proposals["callers-show-price"]["symbols"] == ["PriceList.renderList"]
    assert proposals["callers-wall-clock-add-steps"]["symbols"] == ["WallClock.tickForward"]
    assert proposals["callers-frame-checksum"]["symbols"] == ["FrameCodec.encode_frame", "check_all"]


def test_settings_are_asked_about_if_exactly_one_line_sets_them(repo: Path) -> None:
    proposals = truths(repo, kinds=["configuration"])
    assert proposals["config-line-length"] == {
        "files": ["pyproject.toml"],
        "lines": {"pyproject.toml": [2]},
        "content": ["line-length = 100"],
    }
    assert {"config-replica-count", "config-rebuild-index", "config-ledger-address"} <= proposals.keys()
    assert "config-example-com-lib-ledgers" in proposals
    assert "config-shared-setting" not in proposals


def test_the_suite_reads_every_case_and_no_question_names_its_answer(repo: Path) -> None:
    proposals = mining.propose(repo, limit=60)
    file = repo / "cases.jsonl"
    casefile.append(file, [casefile.as_line(candidate.case) for candidate in proposals])
    read = list(finding.cases([str(file)]))
    assert [case.id for case in read] == [candidate.id for candidate in proposals]
    assert len({case.id for case in read}) == len(read)
    assert all(check_truth(case.expected) is None for case in read)
    for candidate in proposals:
        assert set(candidate.case) == {"id", "category", "description", "prompt", "difficulty", "ground_truth", "tags"}
        assert candidate.case["category"] in ("search", "navigate", "understand")
        assert candidate.case["difficulty"] in ("easy", "medium", "hard")
        assert candidate.case["description"].count(".") == 1 + candidate.case["description"].count("`example.com")
        assert not any(
            path.split("/")[-1] in candidate.case["prompt"] for path in candidate.case["ground_truth"]["files"]
        )
        for evidence in candidate.evidence:
            path, line, text = evidence.split(":", 2)
            assert text.strip() == (repo / path).read_text().split("\n")[int(line) - 1].strip()


QUOTED = {
    "package.json": """\
        {
          "longSetting": "a \\"b\\"",
          "retryPolicy": "slow and steady",
          "runScript": "node scripts/reset.js",
          "shortOne": "x",
          "theLastOne": true
        }
        """,
    "a.toml": 'first_limit = 3  # why\nsecond_list = ["a", "b"]\nthird_name = \'single\'\n',
}


def test_the_right_answer_gets_the_full_score_in_json_and_in_prose(folder: Folder, repo: Path) -> None:
    """Also with characters that JSON escapes and with file names in a line."""
    scorer = build("retrieval", {})
    written(folder, QUOTED)
    proposals = mining.propose(repo, limit=100)
    assert len(proposals) > 30
    for candidate in proposals:
        case = Case(candidate.id, candidate.case["prompt"], expected=candidate.case["ground_truth"])
        truth = candidate.case["ground_truth"]
        for answer in (
            json.dumps(truth),
            f"It is\n```json\n{json.dumps(truth, indent=2)}\n```",
            proposal.as_prose(truth),
        ):
            assert [score.value for score in scorer.score(case, Answer(answer))] == [1.0] * 3, (candidate.id, answer)
    content = {candidate.id: candidate.case["ground_truth"].get("content") for candidate in proposals}
    assert content["config-the-last-one"] == ['"theLastOne": true']
    assert content["config-first-limit"] == ["first_limit = 3"]
    assert content["config-third-name"] == ["third_name = 'single'"]
    assert content["config-second-list"] == ['second_list = ["a", "b"]']
    assert all(matches[0][-1] != "," for matches in content.values() if matches)


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": "class Store:\n    def sql(self):\n        compute_it()\n"},
        {"a.js": "class Files {\n  #open() {\n    return compute_it();\n  }\n}\n"},
    ],
    ids=["may be a file", "a private name"],
)
def test_names_that_the_scorer_would_misread_are_not_asked_about(folder: Folder, files: dict[str, str]) -> None:
    home = {"a.js": "function compute_it() {}\n"} if "a.js" in files else {"a.py": "def compute_it():\n    pass\n\n\n"}
    parts = {name: home.get(name, "") + files.get(name, "") for name in {**home, **files}}
    proposals = ids(written(folder, parts))
    assert "def-compute-it" in proposals
    assert "callers-compute-it" not in proposals


# -- questions that need more than one search ------------------------------------------------------------------------

SHAPES = {
    "lib/shapes.py": """\
        class BaseShape:
            def compute_area(self):
                raise NotImplementedError

            def describe(self):
                return "shape"


        class SquareShape(BaseShape):
            def compute_area(self):
                return 4
    """,
    "lib/round.py": """\
        from lib import shapes
        from lib.shapes import BaseShape


        class RoundShape(BaseShape):
            pass


        class CircleShape(RoundShape):
            def compute_area(self):
                return 3


        class TileShape(shapes.SquareShape):
            pass
    """,
}


def test_classes_derived_directly_or_not_are_asked_for_with_their_overrides(folder: Folder) -> None:
    proposals = truths(written(folder, SHAPES), kinds=["implementations"])
    assert proposals["impl-base-shape"] == {
        "files": ["lib/round.py", "lib/shapes.py"],
        "symbols": ["CircleShape", "RoundShape", "SquareShape", "TileShape"],
        "lines": {"lib/round.py": [5, 9, 14], "lib/shapes.py": [9]},
    }
    assert proposals["overrides-base-shape-compute-area"] == {
        "files": ["lib/round.py", "lib/shapes.py"],
        "symbols": ["CircleShape.compute_area", "SquareShape.compute_area"],
        "lines": {"lib/round.py": [10], "lib/shapes.py": [10]},
    }


@pytest.mark.parametrize(
    ("name", "text", "symbols"),
    [
        (
            "a.ts",
            "export interface PriceFeed {\n  readPrice(): number;\n}\n"
            "export class LiveFeed implements PriceFeed {\n"
            "  readPrice() { return 1; }\n}\nexport class SlowFeed extends LiveFeed {\n"
            "  readPrice() { return 2; }\n}\n",
            ["LiveFeed", "SlowFeed"],
        ),
        (
            "A.java",
            "interface PriceFeed { int readPrice(); }\nclass LiveFeed implements PriceFeed {\n"
            "    public int readPrice() { return 1; }\n}\n"
            "class SlowFeed extends LiveFeed {\n    public int readPrice() { return 2; }\n}\n",
            ["LiveFeed", "SlowFeed"],
        ),
        (
            "a.rs",
            "pub trait PriceFeed { fn read_price(&self); }\npub struct LiveFeed;\npub struct SlowFeed;\n"
            "impl PriceFeed for LiveFeed { fn read_price(&self) {} }\n"
            "impl PriceFeed for SlowFeed { fn read_price(&self) {} }\n",
            ["LiveFeed", "SlowFeed"],
        ),
    ],
    ids=["typescript", "java", "rust"],
)
def test_implementations_are_found_in_other_languages(folder: Folder, name: str, text: str, symbols: list[str]) -> None:
    proposals = truths(written(folder, {name: text}), kinds=["implementations"])
    assert proposals["impl-price-feed"]["symbols"] == symbols
    if name != "a.rs":
        assert proposals["overrides-price-feed-read-price"]["symbols"] == ["LiveFeed.readPrice", "SlowFeed.readPrice"]


@pytest.mark.parametrize(
    "text",
    [
        "from lib.shapes import BaseShape as Other\n\n\nclass OddShape(Other):\n    pass\n",
        "from library import BaseShape\n\n\nclass BaseShape(BaseShape):\n    pass\n",
        "class OddShape(BaseShape):\n    pass\n",
        "from lib.shapes import BaseShape\n\nALIAS = BaseShape\n",
        "from lib.shapes import BaseShape\n\n\nclass SquareShape(BaseShape):\n    pass\n",
    ],
    ids=["renamed", "defined twice", "not imported", "another name", "two of a name"],
)
def test_a_class_whose_subclasses_are_not_certain_is_not_asked_about(folder: Folder, text: str) -> None:
    proposals = ids(written(folder, {**SHAPES, "odd.py": text}), kinds=["implementations"])
    assert "impl-base-shape" not in proposals


LAYERS = {
    "app/core.py": """\
        def parse_number(text):
            return int(text)


        def parse_numbers(text):
            return [parse_number(part) for part in text.split()]


        def total_of_text(text):
            return sum(parse_numbers(text))
    """,
    "tests/test_core.py": """\
        from app.core import parse_number, parse_numbers


        def test_one_number():
            assert parse_number("1") == 1


        def test_many_numbers():
            assert parse_numbers("1 2") == [1, 2]
    """,
}


def test_a_change_affects_the_callers_and_their_callers(folder: Folder) -> None:
    proposals = truths(written(folder, LAYERS), kinds=["impact"])
    assert proposals["impact-parse-number"] == {
        "files": ["app/core.py", "tests/test_core.py"],
        "symbols": ["parse_numbers", "test_many_numbers", "test_one_number", "total_of_text"],
    }
    assert "impact-parse-numbers" not in proposals, "nothing calls its callers: the question for callers says it all"


def test_tests_are_asked_for_that_call_directly_or_through_one_function(folder: Folder) -> None:
    proposals = truths(written(folder, LAYERS), kinds=["tests"])
    assert proposals["tests-parse-number"] == {
        "files": ["tests/test_core.py"],
        "symbols": ["test_many_numbers", "test_one_number"],
    }
    assert proposals["tests-parse-numbers"]["symbols"] == ["test_many_numbers"]


@pytest.mark.parametrize(
    "text",
    [
        "from app.core import parse_numbers\n\n\ndef other():\n    return map(parse_numbers, [])\n",
        "def parse_numbers():\n    pass\n",
    ],
    ids=["passed on", "defined twice"],
)
def test_nothing_is_asked_if_the_callers_of_a_caller_are_not_certain(folder: Folder, text: str) -> None:
    proposals = ids(written(folder, {**LAYERS, "app/more.py": text}), kinds=["impact", "tests"])
    assert not {"impact-parse-number", "tests-parse-number"} & proposals


@pytest.mark.parametrize(
    ("files", "symbol"),
    [
        (
            {
                "a.go": "package a\n\nfunc countWords(s string) int { return len(s) }\n",
                "a_test.go": 'package a\n\nfunc TestCount(t *T) {\n\tcountWords("a")\n}\n\n'
                'func helper() {\n\tcountWords("b")\n}\n',
            },
            "TestCount",
        ),
        (
            {
                "A.java": "class Counter {\n    static int countWords(int s) { return s; }\n}\n",
                "ATest.java": "class CounterTest {\n    @Test\n    void counts() {\n"
                "        Counter.countWords(1);\n    }\n}\n",
            },
            "CounterTest.counts",
        ),
        (
            {
                "a.rs": "fn count_words(n: usize) -> usize { n }\n\n#[test]\nfn counts_all() {\n"
                "    count_words(1);\n}\n\n"
                "fn other_user() {\n    count_words(2);\n}\n"
            },
            "counts_all",
        ),
    ],
    ids=["go", "java", "rust"],
)
def test_tests_are_distinguished_from_other_functions_in_each_language(
    folder: Folder, files: dict[str, str], symbol: str
) -> None:
    proposals = truths(written(folder, files), kinds=["tests"])
    assert [truth["symbols"] for truth in proposals.values()] == [[symbol]]


def commit(repo: Path, message: str, files: dict[str, str | None]) -> None:
    """Commit these contents; None deletes a file."""
    for name, text in files.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    add(repo)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, "commit", "-qm", message], cwd=repo, check=True)


def test_commits_of_moderate_size_are_asked_about_by_their_subject(folder: Folder) -> None:
    repo = folder.path / "repo"
    repo.mkdir()
    many = {f"m{number}.py": "x = 1\n" for number in range(12)}
    commit(repo, "Start of everything that follows here", many)
    commit(repo, "Retry requests after a timeout (#12)", {"m1.py": "x = 2\n", "m2.py": "x = 2\n", "old.py": "x = 1\n"})
    commit(repo, "Bump the version to be released", {"m1.py": "x = 3\n", "m2.py": "x = 3\n"})
    commit(repo, "Reindent two of the modules", {"m3.py": "x  =  1\n", "m4.py": "x   = 1\n"})
    commit(repo, "Handle one more kind of failure", {"m5.py": "x = 4\n"})
    commit(repo, "Speed up what m6.py does with rows", {"m6.py": "x = 5\n", "m7.py": "x = 5\n"})
    commit(repo, "Drop the module that is left over", {"old.py": None})
    proposals = mining.propose(repo, limit=50, kinds=["history"])
    assert [candidate.case["ground_truth"] for candidate in proposals] == [{"files": ["m1.py", "m2.py"]}]
    assert '"Retry requests after a timeout"' in proposals[0].case["prompt"]
    assert not mining.propose(repo, limit=50, kinds=["history"], languages=["python"])


def test_a_commit_is_not_asked_about_if_a_merge_has_its_subject(folder: Folder) -> None:
    repo = folder.path / "repo"
    repo.mkdir()
    commit(repo, "Start of everything that follows here", {f"m{number}.py": "x = 1\n" for number in range(12)})
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "checkout", "-qb", "topic"], cwd=repo, check=True)
    commit(repo, "Retry requests after a timeout", {"m1.py": "x = 2\n", "m2.py": "x = 2\n"})
    commit(repo, "Count what was retried by then", {"m3.py": "x = 2\n", "m4.py": "x = 2\n"})
    subprocess.run(["git", "checkout", "-q", "-"], cwd=repo, check=True)
    message = "Retry requests after a timeout (#12)"
    subprocess.run(["git", *identity, "merge", "-q", "--no-ff", "-m", message, "topic"], cwd=repo, check=True)
    proposals = mining.propose(repo, limit=50, kinds=["history"])
    assert [candidate.case["ground_truth"] for candidate in proposals] == [{"files": ["m3.py", "m4.py"]}]


def test_a_name_behind_reexports_is_asked_for_where_it_is_defined(folder: Folder) -> None:
    repo = written(
        folder,
        {
            "pack/__init__.py": "from ._api import open_store as connect\nfrom .deep import Ledger\nimport os\n",
            "pack/_api.py": "def open_store():\n    pass\n",
            "pack/deep/__init__.py": "from .inner import Ledger\n",
            "pack/deep/inner.py": "class Ledger:\n    pass\n",
            "other/ledger.py": "class Ledger:\n    pass\n",
            "web/index.ts": "export {default as makeClient} from './create.js';\n"
            "export {Timer as Clock} from './timer';\n",
            "web/create.ts": "const buildIt = () => 1;\nexport default buildIt;\n",
            "web/timer.ts": "export class Timer {}\n",
        },
    )
    proposals = truths(repo, kinds=["reexports"])
    assert {key: (truth["symbols"], truth["lines"]) for key, truth in proposals.items()} == {
        "reexport-pack-connect": (["open_store"], {"pack/_api.py": [1]}),
        "reexport-pack-ledger": (["Ledger"], {"pack/deep/inner.py": [1]}),
        "reexport-deep-ledger": (["Ledger"], {"pack/deep/inner.py": [1]}),
        "reexport-web-make-client": (["buildIt"], {"web/create.ts": [1]}),
        "reexport-web-clock": (["Timer"], {"web/timer.ts": [1]}),
    }


def test_difficulty_is_what_a_grep_agent_scores(folder: Folder) -> None:
    repo = written(folder, LAYERS)
    proposals = {candidate.id: candidate.case for candidate in mining.propose(repo, limit=50)}
    assert (proposals["def-parse-number"]["difficulty"], proposals["def-parse-number"]["tags"]["grep_f1"]) == (
        "easy",
        "1.00",
    )
    scorer = build("retrieval", {})
    for case in proposals.values():
        answer = grep_agent.answer(CodeRepository.open(repo), case["prompt"])
        score, *_ = scorer.score(Case("c", case["prompt"], expected=case["ground_truth"]), Answer(json.dumps(answer)))
        assert score.value is not None
        assert case["tags"]["grep_f1"] == f"{score.value:.2f}"
        expected = "easy" if score.value >= 0.8 else "medium" if score.value >= 0.3 else "hard"
        assert case["difficulty"] == expected
    assert float(proposals["impact-parse-number"]["tags"]["grep_f1"]) < 1, (
        "one search does not find the callers of callers"
    )


def test_at_least_half_of_the_cases_of_a_repository_of_200_files_are_not_easy(folder: Folder) -> None:
    core = "def {0}_read(text):\n    return text\n\n\ndef {0}_check(text):\n    return {0}_read(text)\n"
    api = (
        "from core.module{1} import {0}_check\n\n\ndef {0}_store(text):\n    return {0}_check(text)\n\n\n"
        "def {0}_apply(text):\n    return {0}_check(text)\n"
    )
    files = {f"core/module{number}.py": core.format(f"unit{number}") for number in range(95)}
    files |= {f"api/service{number}.py": api.format(f"unit{number}", number) for number in range(95)}
    settings = {f"deploy/s{number}.yaml": f"setting_number_{number}: 3\n" for number in range(10)}
    proposals = mining.propose(written(folder, {**files, **settings}), limit=40)
    assert len(proposals) == 40
    assert sum(candidate.case["difficulty"] == "easy" for candidate in proposals) <= 20
    assert 0 < sum(candidate.kind == "configuration" for candidate in proposals) <= 4


# -- what is not sure is not proposed --------------------------------------------------------------------------------

HELPER = "def shared_helper(x):\n    return x\n\n\ndef first_user():\n    return shared_helper(1)\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.py", "def shared_helper(y):\n    pass\n"),
        ("b.go", "package b\n\nfunc shared_helper() {\n}\n"),
        ("b.py", "shared_helper = None\n"),
        ("b.py", "class A:\n    async def shared_helper(self):\n        pass\n"),
        ("b.kt", "fun shared_helper() = 3\n"),
        ("b.rs", "macro_rules! shared_helper { () => {} }\n"),
        ("vendor/b.py", "def shared_helper(y):\n    pass\n"),
        ("notes.md", "    def shared_helper(y):\n"),
        ("b.py", "def broken(:\n\nshared_helper(\n"),
        ("b.pyx", "cdef int shared_helper(int x):\n    return x\n"),
        ("b.c", "static char *shared_helper(int x) {\n    return 0;\n}\n"),
        ("large.py", "x = 1\n" * 200_000 + "def shared_helper():\n    pass\n"),
    ],
)
def test_a_name_that_may_be_defined_elsewhere_is_not_asked_about(folder: Folder, name: str, text: str) -> None:
    assert "def-shared-helper" in ids(written(folder, {"a.py": HELPER}))
    proposals = ids(written(folder, {name: text}))
    assert not {"def-shared-helper", "callers-shared-helper"} & proposals


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("b.py", "from a import shared_helper\n\n\ndef other_user():\n    return map(shared_helper, [])\n"),
        ("b.py", "from a import shared_helper as other\n\n\ndef other_user():\n    return other(1)\n"),
        ("b.py", "import a\n\n\ndef other_user():\n    return getattr(a, 'shared_helper')(1)\n"),
        ("b.py", "def other_user(thing):\n    return thing.shared_helper(1)\n"),
        ("b.py", "def other_user():\n    return shared_helper(1)\n"),
        ("b.py", "from a import shared_helper\n\nprint(shared_helper(1))\n"),
        ("b.py", "from a import shared_helper\n\n\ndef other_user():\n    def inner():\n        shared_helper(1)\n"),
        ("b.py", "from a import shared_helper\n\n\n@shared_helper\ndef other_user():\n    pass\n"),
        ("b.py", "from library import shared_helper\n\n\ndef other_user():\n    return shared_helper(1)\n"),
        ("b.py", "from library import *\n\n\ndef other_user():\n    return shared_helper(1)\n"),
        ("b.py", "def other_user():\n    a = open_it()\n    return a.shared_helper(1)\n"),
        ("bin/tool", "#!/usr/bin/env python\nfrom a import shared_helper\n\nshared_helper(1)\n"),
        ("large.py", "from a import shared_helper\n\n\ndef b():\n    shared_helper(1)\n" + "x = 1\n" * 200_000),
        ("page.vue", "<p>{{ shared_helper(1) }}</p>\n"),
        ("b.ts", "export function other() {\n  return shared_helper(1);\n}\n"),
    ],
)
def test_callers_are_not_asked_for_if_one_occurrence_is_ambiguous(folder: Folder, name: str, text: str) -> None:
    assert "callers-shared-helper" in ids(written(folder, {"a.py": HELPER}))
    assert "callers-shared-helper" not in ids(written(folder, {name: text}))


@pytest.mark.parametrize(
    "text",
    [
        "# shared_helper of old\n",
        '"""What shared_helper does."""\n',
        "from a import shared_helper\n",
        "from a import *\n\n\ndef other_user():\n    return shared_helper(1)\n",
        "import a\n\n\ndef other_user():\n    return a.shared_helper(f'{a.shared_helper(2)}')\n",
    ],
)
def test_comments_strings_and_imports_do_not_make_a_call_ambiguous(folder: Folder, text: str) -> None:
    repo = written(folder, {"a.py": HELPER, "b.py": text})
    assert "callers-shared-helper" in ids(repo)


@pytest.mark.parametrize(
    ("name", "home", "call"),
    [
        (
            "a.py",
            "class Page:\n    def fetch_rows(self):\n        pass\n",
            "def load(page: {}):\n    return page.fetch_rows()\n",
        ),
        (
            "a.go",
            "package a\n\nfunc (p *Page) FetchRows() int { return 1 }\n",
            "package a\n\nfunc load(page *{}) int {{ return page.FetchRows() }}\n",
        ),
        (
            "a.java",
            "class Page {\n    int fetchRows() { return 1; }\n}\n",
            "class Other {{\n    int load({} page) {{ return page.fetchRows(); }}\n}}\n",
        ),
        (
            "a.ts",
            "export class Page {\n  fetchRows() { return 1; }\n}\n",
            "export function load(page: {}) {{ return page.fetchRows(); }}\n",
        ),
        (
            "a.rs",
            "impl Page {\n    fn fetch_rows(&self) {}\n}\n",
            "fn load(page: &{}) {{ page.fetch_rows(); }}\n",
        ),
    ],
)
def test_a_method_of_an_object_that_may_come_from_a_library_is_not_asked_about(
    folder: Folder, name: str, home: str, call: str
) -> None:
    """An object belongs to the class only if the file declares its type."""
    other = f"b{Path(name).suffix}"
    assert "callers-page-fetch-rows" not in ids(written(folder, {name: home, other: call.format("Other")}))
    assert "callers-page-fetch-rows" in ids(written(folder, {other: call.format("Page")}))


def test_a_method_name_that_libraries_use_too_is_not_asked_about(folder: Folder) -> None:
    text = "class Page:\n    def read_text(self):\n        pass\n\n\ndef show(page):\n    return page.read_text()\n"
    assert "callers-page-read-text" not in ids(written(folder, {"a.py": text}))


def test_a_call_on_a_library_object_is_not_a_call_of_a_method_in_the_same_file(folder: Folder) -> None:
    text = (
        "export class Page {\n  fetchRows() { return 1; }\n  show() { return this.fetchRows(); }\n}\n"
        "export function load(library) {\n  return library.fetchRows();\n}\n"
    )
    assert "callers-page-fetch-rows" not in ids(written(folder, {"a.ts": text}))
    assert "callers-page-fetch-rows" in ids(
        written(folder, {"a.ts": text.replace("load(library)", "load(library: Page)")})
    )


def test_a_setting_that_another_file_gives_a_value_is_not_asked_about(folder: Folder) -> None:
    repo = written(folder, {"a.toml": "retry_ceiling = 7\n", "b.py": "print('retry_ceiling')\n"})
    assert "config-retry-ceiling" in ids(repo)
    assert "config-retry-ceiling" not in ids(written(folder, {"b.py": "settings['retry_ceiling'] = 3\n"}))


@pytest.mark.parametrize("name", [".env", ".flake8", "Procfile", "other.properties"])
def test_a_setting_in_a_file_of_unknown_format_makes_its_name_ambiguous(folder: Folder, name: str) -> None:
    assert "config-retry-ceiling" in ids(
        written(folder, {".env.example": "RETRY_CEILING=7\n", "README": "RETRY_CEILING=8"})
    )
    assert "config-retry-ceiling" not in ids(written(folder, {name: "RETRY_CEILING=8\n"}))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "retry_ceiling: 7\nbroken: [\n"),
        ("a.toml", "retry_ceiling = 7\nbroken = \n"),
        ("a.toml", 'text = """\nretry_ceiling = 7\n"""\n'),
        ("package.json", '{\n  "retry_ceiling": 7,\n}\n'),
        ("a.toml", "api_token_value = 7\n"),
    ],
)
def test_a_setting_that_a_real_parser_does_not_find_is_not_asked_about(folder: Folder, name: str, text: str) -> None:
    assert not ids(written(folder, {name: text}))


def test_generated_vendored_and_minified_files_are_not_asked_about(folder: Folder) -> None:
    code = "def lonely_function():\n    pass\n"
    repo = written(
        folder,
        {
            "made.py": f"# Code generated by a tool. DO NOT EDIT.\n{code}",
            "vendor/b.py": code.replace("lonely", "vendored"),
            "node_modules/x/index.js": "export function installedFunction() {}\n",
            "app.min.js": "export function minifiedFunction() {}\n",
            "long.js": "export function longLineFunction() {}\n" + "x();" * 1_000 + "\n",
            "package-lock.json": '{\n  "lockfileSetting": 1\n}\n',
            ".abreast/cases/settings.yaml": "case_setting: 3\n",
        },
    )
    assert ids(repo) == set()


# -- any repository --------------------------------------------------------------------------------------------------


def test_an_empty_repository_is_reported_as_empty(folder: Folder) -> None:
    (folder.path / "repo").mkdir()
    done = folder.abreast("cases", "new", "--repo", "repo")
    assert done.code == 2
    assert "no files to ask about" in done.err
    done = folder.abreast("cases", "new", "--repo", "nowhere")
    assert (done.code, "no such folder" in done.err) == (2, True)


def test_a_repository_without_any_of_the_languages_has_nothing_to_propose(folder: Folder) -> None:
    written(folder, {"a.c": "int main(void) { return 0; }\n", "README.md": "# x\n"})
    done = folder.abreast("cases", "new", "--repo", "repo")
    assert (done.code, done.out) == (0, "")
    assert "nothing to propose" in done.err


def test_without_git_the_folder_is_walked_except_hidden_and_installed_files(folder: Folder) -> None:
    code = "def {}_function():\n    pass\n"
    functions = {"a.py": "plain", ".hidden/b.py": "hidden", "node_modules/c.py": "installed", "venv/d.py": "virtual"}
    repo = written(folder, {path: code.format(name) for path, name in functions.items()}, tracked=False)
    assert ids(repo) == {"def-plain-function"}


def test_untracked_files_do_not_count(folder: Folder) -> None:
    repo = written(folder, {"a.py": HELPER})
    folder.write("repo/b.py", "def shared_helper():\n    pass\n")
    assert "def-shared-helper" in ids(repo)


def test_links_are_not_followed_and_file_names_may_contain_any_character(folder: Folder) -> None:
    outside = folder.write("outside/secret.py", "def outside_function():\n    pass\n")
    repo = written(folder, {"a b/ü ñ.py": "def spaced_function():\n    pass\n"}, tracked=False)
    (repo / "link.py").symlink_to(outside)
    (repo / "folder").symlink_to(outside.parent)
    (repo / "loop").symlink_to(repo)
    (repo / "line\nbreak.py").write_text("def broken_name_function():\n    pass\n")
    (repo / "gone.py").write_text("def gone_function():\n    pass\n")
    (repo / os.fsdecode(b"\xff.py")).write_text("def bytes_function():\n    pass\n")
    expected = {"def-spaced-function": {"files": ["a b/ü ñ.py"]}}
    for tracked in (False, True):
        if tracked:
            add(repo)
            (repo / "gone.py").unlink()
        proposals = truths(repo)
        assert {key: {"files": truth["files"]} for key, truth in proposals.items() if "gone" not in key} == expected
    assert "def-gone-function" not in proposals


def test_a_folder_replaced_by_a_link_is_not_followed(folder: Folder) -> None:
    outside = folder.write("outside/a.py", "def outside_function():\n    pass\n")
    repo = written(folder, {"inner/a.py": "def inside_function():\n    pass\n", "b.py": HELPER})
    (repo / "inner/a.py").unlink()
    (repo / "inner").rmdir()
    (repo / "inner").symlink_to(outside.parent)
    assert ids(repo, kinds=["definitions"]) == {"def-shared-helper", "def-first-user"}


def test_broken_binary_and_huge_files_do_no_harm(folder: Folder) -> None:
    repo = written(folder, {"a.py": HELPER}, tracked=False)
    (repo / "b.py").write_bytes(b"\0\xff" * 1_000)
    (repo / "c.py").write_bytes(b"\xff\xfe def other_function(:\n")
    (repo / "d.py").write_bytes(b"x = 1\n" * 400_000)
    (repo / "deep.json").write_text("[" * 100_000)
    (repo / "package.json").write_text('{"a":\n"deep_setting": ' + "[" * 100_000)
    (repo / "deep.toml").write_text("deep_setting = 1\nx = " + "[" * 50_000)
    assert ids(repo, kinds=["definitions", "configuration"]) == {"def-shared-helper", "def-first-user"}


# -- which are chosen ------------------------------------------------------------------------------------------------


def test_the_same_seed_chooses_the_same_cases_and_another_seed_others(repo: Path) -> None:
    first = [candidate.case for candidate in mining.propose(repo, limit=9)]
    assert [candidate.case for candidate in mining.propose(repo, limit=9)] == first
    assert any([candidate.case for candidate in mining.propose(repo, limit=9, seed=seed)] != first for seed in (1, 2))


def test_a_few_cases_are_spread_over_kinds_languages_and_folders(repo: Path) -> None:
    proposals = mining.propose(repo, limit=15)
    assert {candidate.kind for candidate in proposals} >= {"impact", "callers", "definitions", "configuration"}
    assert max(sum(candidate.kind == kind for candidate in proposals) for kind in mining.KINDS) <= 6
    folders = {path.split("/")[0] for candidate in proposals for path in candidate.case["ground_truth"]["files"]}
    assert len(folders) > 6
    of_names = mining.propose(repo, limit=10, kinds=["definitions"])
    assert {candidate.language for candidate in of_names} == {"python", "go", "typescript", "java", "rust"}


def test_only_the_requested_kinds_and_languages_are_proposed(repo: Path) -> None:
    proposals = mining.propose(repo, limit=60, kinds=["definitions"], languages=["go", "rust"])
    assert {candidate.language for candidate in proposals} == {"go", "rust"}
    assert {candidate.kind for candidate in proposals} == {"definitions"}
    with pytest.raises(BadInput, match="--limit 0"):
        mining.propose(repo, limit=0)


def test_more_files_are_read_until_there_are_enough_cases(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "FILES_PER_CASE", 1)
    files = {f"m{n}.py": "def twice_defined():\n    pass\n" for n in range(20)}
    repo = written(folder, {**files, "z.py": "def lonely_function():\n    pass\n"})
    assert [candidate.id for candidate in mining.propose(repo, limit=1, kinds=["definitions"])] == [
        "def-lonely-function"
    ]


def test_colliding_ids_get_a_number(folder: Folder) -> None:
    repo = written(folder, {"a.py": "def parse_line():\n    pass\n", "b.py": "def parseLine():\n    pass\n"})
    assert ids(repo) == {"def-parse-line", "def-parse-line-2"}


# -- the command -----------------------------------------------------------------------------------------------------

MINED = "repo/.abreast/cases/mined.jsonl"


def on_terminal(folder: Folder, message: str, *words: str) -> Done:
    """The real command with a person at the keyboard."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, message.encode())
        done = subprocess.run(
            [*ABREAST, "cases", "new", "--repo", "repo", *words],
            cwd=folder.path,
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return Done(done.returncode, done.stdout, done.stderr)


def lines_of(folder: Folder) -> list[str]:
    return (folder.path / MINED).read_text().splitlines()


def test_without_a_terminal_cases_go_to_standard_output_and_no_file_is_written(folder: Folder, repo: Path) -> None:
    done = folder.abreast("cases", "new", "--repo", "repo", "--limit", "4")
    assert done.code == 0
    assert [json.loads(line) for line in done.out.splitlines()] == [
        candidate.case for candidate in mining.propose(repo, limit=4)
    ]
    assert "4 cases proposed, none saved; to accept them all into" in done.err
    assert not (repo / ".abreast").exists()


def test_with_yes_all_are_accepted_and_none_is_proposed_twice(folder: Folder, repo: Path) -> None:
    done = folder.abreast("cases", "new", "--repo", "repo", "--limit", "4", "--yes")
    assert done.out == f"accepted 4 cases: {MINED}\n"
    first = lines_of(folder)
    folder.abreast("cases", "new", "--repo", "repo", "--limit", "100", "--yes")
    assert lines_of(folder)[:4] == first
    cases = [json.loads(line) for line in lines_of(folder)]
    assert len({case["prompt"] for case in cases}) == len({case["id"] for case in cases}) == len(cases) > 20
    last = folder.abreast("cases", "new", "--repo", "repo", "--yes")
    assert (last.code, last.out) == (0, "")
    assert "nothing to propose" in last.err
    assert finding.case_files(None, repo) == [folder.path / MINED]


def test_json_has_the_evidence_and_writes_nothing(folder: Folder, repo: Path) -> None:
    done = folder.abreast("cases", "new", "--repo", "repo", "--limit", "2", "--json", "--kind", "definitions")
    assert len(done.json) == 2
    assert re.fullmatch(r"\S+:\d+: .+", done.json[0]["evidence"][0])
    assert not (repo / ".abreast").exists()


def test_a_person_accepts_rejects_and_stops(folder: Folder, repo: Path) -> None:
    proposed = [candidate.id for candidate in mining.propose(repo)]
    done = on_terminal(folder, "y\nmaybe\nn\ny\nq\n")
    assert (done.code, done.out) == (0, f"accepted 2 cases, rejected 1: {MINED}\n")
    assert "y accepts, n rejects, q quits" in done.err
    written_lines = lines_of(folder)
    assert [json.loads(written_lines[at])["id"] for at in (0, 2)] == [proposed[0], proposed[2]]
    assert written_lines[1] == f"// rejected: {proposed[1]}"
    assert not set(proposed[:3]) & ids(repo, excluded=casefile.known_cases(folder.path / MINED))
    assert [case.id for case in finding.cases([str(folder.path / MINED)])] == [proposed[0], proposed[2]]


def test_a_proposal_is_shown_with_the_lines_it_rests_on(folder: Folder, repo: Path) -> None:
    done = on_terminal(folder, "q\n", "--kind", "callers", "--language", "go")
    assert "question  Which functions and methods call the function `computeBalance`?" in done.err
    assert "symbols   LedgerServer.ServeLedger, totalBalance" in done.err
    assert "server/ledger.go:8: return computeBalance(key)" in done.err
    assert re.search(r"\(navigate, easy: git grep scores [01]\.\d\d\)", done.err)
    assert done.out == "accepted 0 cases, rejected 0\n"
    assert not (repo / ".abreast").exists()


@pytest.mark.parametrize(("message", "code"), [("y\n\x04", 0), ("y\n\x03", 130)])
def test_end_of_input_and_an_interrupt_keep_the_accepted_cases(
    folder: Folder, repo: Path, message: str, code: int
) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder.path)
        os.execve(ABREAST[0], [*ABREAST, "cases", "new", "--repo", "repo"], dict(os.environ))
    output, sent = b"", 0
    try:
        while chunk := os.read(terminal, 65536):
            output += chunk
            answers = [message[:2], message[2:]]
            if output.count(b"[y/n/q]") > sent and sent < 2:
                os.write(terminal, answers[sent].encode())
                sent += 1
    except OSError:  # its end
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == code
    assert b"accepted 1 case, rejected 0" in output
    assert b"Traceback" not in output
    assert len(lines_of(folder)) == 1


def test_cases_written_by_others_are_kept_and_not_proposed_again(folder: Folder, repo: Path) -> None:
    first, second, *_ = mining.propose(repo)
    theirs = f'// ours\n{{"id": "x", "prompt": {json.dumps(first.case["prompt"])}}}\nnot json\n// rejected: {second.id}'
    path = folder.write(MINED, theirs.encode() + b" \n\xff\xfe")
    path.chmod(0o640)
    folder.write("repo/.abreast/cases/other.jsonl", json.dumps({"id": "config-line-length", "prompt": "?"}) + "\n")
    assert folder.abreast("cases", "new", "--repo", "repo", "--limit", "100", "--yes").code == 0
    content = path.read_bytes()
    assert content.startswith(theirs.encode() + b" \n\xff\xfe\n")
    added = [json.loads(line) for line in content.split(b"\n")[5:] if line]
    assert not {first.id, second.id, "config-line-length"} & {case["id"] for case in added}
    assert path.stat().st_mode & 0o777 == 0o640
    assert [candidate.name for candidate in sorted(path.parent.iterdir())] == ["mined.jsonl", "other.jsonl"]


def test_an_output_that_cannot_be_written_is_named(folder: Folder, repo: Path) -> None:
    folder.write("file", "x")
    done = folder.abreast("cases", "new", "--repo", "repo", "--yes", "--output", "file/cases.jsonl")
    assert (done.code, "file/cases.jsonl: cannot be" in done.err) == (2, True)
    done = folder.abreast("cases", "new", "--repo", "repo", "--yes", "--output", "repo")
    assert (done.code, "--output repo: is a folder" in done.err) == (2, True)


@pytest.mark.parametrize("words", [["--limit", "3"], ["--kind", "callers"], ["--yes"], ["--output", "x.jsonl"]])
def test_list_refuses_flags_that_would_have_no_effect(folder: Folder, repo: Path, words: list[str]) -> None:
    folder.abreast("cases", "new", "--repo", "repo", "--yes")
    assert folder.abreast("cases", "list", "--repo", "repo").code == 0
    done = folder.abreast("cases", "list", "--repo", "repo", *words)
    assert (done.code, f"abreast cases list: {words[0]} is for abreast cases new" in done.err) == (2, True)


def test_a_path_that_is_not_a_case_file_is_not_touched(folder: Folder, repo: Path) -> None:
    """Especially not a pipe or a device."""
    os.mkfifo(folder.path / "pipe.jsonl")
    done = folder.abreast("cases", "new", "--repo", "repo", "--yes", "--output", "pipe.jsonl")
    assert (done.code, "--output pipe.jsonl: not a regular file" in done.err) == (2, True)
    assert (folder.path / "pipe.jsonl").is_fifo()
    notes = folder.write("notes.txt", "Buy milk.\n")
    done = folder.abreast("cases", "new", "--repo", "repo", "--yes", "--output", "notes.txt")
    assert (done.code, "notes.txt: not a case file" in done.err) == (2, True)
    assert notes.read_text() == "Buy milk.\n"


def test_concurrent_writers_lose_nothing(folder: Folder, repo: Path) -> None:
    path = folder.path / "cases.jsonl"
    words = [*ABREAST, "cases", "new", "--repo", "repo", "--yes", "--limit", "6", "--output", str(path)]
    running = [subprocess.Popen([*words, "--seed", str(seed)], cwd=folder.path) for seed in (0, 0, 1)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    proposals = [case.id for case in finding.cases([str(path)])]
    proposed = {candidate.id for seed in (0, 1) for candidate in mining.propose(repo, limit=6, seed=seed)}
    assert proposed <= set(proposals)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: casefile.append(path, [f'{{"id": "n{number}", "prompt": "?"}}']), range(100)))
    assert {f"n{number}" for number in range(100)} <= casefile.known_cases(path).ids


def test_a_file_with_a_byte_order_mark_and_crlf_is_read(folder: Folder, repo: Path) -> None:
    """As Windows editors write it."""
    first, second, *_ = mining.propose(repo)
    lines = [json.dumps({"id": first.id, "prompt": "?"}), f"// rejected: {second.id}"]
    path = folder.write(MINED, b"\xef\xbb\xbf" + "".join(f"{line}\r\n" for line in lines).encode())
    assert casefile.known_cases(path).ids == {first.id, second.id}
    casefile.append(path, [casefile.as_line({**first.case}), '{"id": "new", "prompt": "?"}'])
    assert path.read_bytes().count(first.id.encode()) == 1


def test_text_in_source_files_cannot_command_the_terminal(folder: Folder) -> None:
    written(folder, {"a.py": "def hostile_function(): return '\x1b]0;owned\x07\x1b[31m'  # \x9b31m\n"})
    done = on_terminal(folder, "n\n")
    assert "hostile_function" in done.err
    assert not {"\x1b", "\x07", "\x9b"} & set(done.output)


def test_uncommitted_changes_are_a_warning(folder: Folder, repo: Path) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, "commit", "-qm", "all"], cwd=repo, check=True)
    assert "warning" not in folder.abreast("cases", "new", "--repo", "repo").err
    folder.write("repo/server/more.go", FILES["server/more.go"] + "\n")
    done = folder.abreast("cases", "new", "--repo", "repo", "--language", "go")
    assert "warning: uncommitted changes in more.go" in done.err

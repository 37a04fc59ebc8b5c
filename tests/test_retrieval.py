"""The scorer `retrieval`: the claims of an answer about code, and how many are right."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.model import Answer, Case
from abreast.scorers import build
from abreast.scorers.retrieval.claims import read_claims
from abreast.scorers.retrieval.names import distinct, path_of, symbol_of
from abreast.scorers.retrieval.truth import check_truth
from conftest import Folder

ROOT = "/home/me/shop"
POOL = ["a.py", "b/a.py", "c/b/a.py", "b.py", "c/b.py", "x/a.py", "x/y.go", "y.go", "x/z.ts", "w.ts"]
NAMES = st.lists(st.sampled_from(POOL), unique=True, max_size=6)


def scores(answer: Any, truth: Any, question: str = "Where is it?", **settings: Any) -> tuple[float, float, float]:
    """F1, precision and recall."""
    reply = answer if isinstance(answer, Answer) else Answer(answer)
    results = build("retrieval", settings).score(Case("c", question, expected=truth), reply)
    assert [score.name for score in results] == ["retrieval_f1", "retrieval_precision", "retrieval_recall"]
    assert all(score.value is not None for score in results), results[0].explanation
    return tuple(round(score.value, 3) for score in results)  # type: ignore[arg-type, return-value]


FOUR = {
    "files": ["src/auth.py", "src/db/pool.py"],
    "symbols": ["Store.get", "load"],
    "lines": {"src/auth.py": [12]},
    "content": ["token expired"],
}


def test_all_four_fields_count_and_an_answer_with_all_of_them_is_right() -> None:
    fields = {**FOUR, "content": ["Token  expired"]}
    assert scores(json.dumps(fields), FOUR) == (1, 1, 1)
    for left_out in FOUR:
        fields = {name: value for name, value in FOUR.items() if name != left_out}
        _, precision, recall = scores(f"{json.dumps(fields)}", FOUR)
        assert recall < 1, left_out
        assert precision == 1, left_out


def test_precision_is_the_share_of_claims_and_recall_the_share_of_the_truth() -> None:
    truth = {"files": ["a.py", "b.py", "c.py", "d.py"]}
    assert scores('{"files": ["a.py"]}', truth) == (0.4, 1, 0.25)
    assert scores('{"files": ["a.py", "x.py", "y.py", "z.py"]}', truth) == (0.25, 0.25, 0.25)
    assert scores('{"files": ["x.py"]}', truth) == (0, 0, 0)
    assert scores("I could not find it.", truth) == (0, 0, 0)


def test_a_claim_about_a_field_missing_from_the_truth_is_not_judged() -> None:
    assert scores('{"files": ["a.py"], "symbols": ["f"], "lines": {"a.py": [3]}}', {"files": ["a.py"]}) == (1, 1, 1)


def test_an_answer_that_claims_nothing_is_right_if_there_is_nothing_to_find() -> None:
    assert scores('{"files": []}', {"files": []}) == (1, 1, 1)
    assert scores("No file does that.", {"files": []}) == (1, 1, 1)
    assert scores("It is in a.py.", {"files": []}) == (0, 0, 0)


@pytest.mark.parametrize(
    "written",
    [
        "src/auth.py",
        "./src/auth.py",
        "src//auth.py",
        "src/db/../auth.py",
        "src\\auth.py",
        "`src/auth.py`",
        f"{ROOT}/src/auth.py",
        f"file://{ROOT}/src/auth.py",
        "shop/src/auth.py",
        "auth.py",  # what it ends with, and nothing else does
        "src/auth.py:12",
        "src/auth.py#L12-L20",
    ],
)
def test_a_path_is_the_same_however_it_is_written(written: str) -> None:
    truth = {"files": ["src/auth.py"]}
    assert scores(json.dumps({"files": [written]}), truth, root=ROOT) == (1, 1, 1)
    if not written.startswith("file:"):
        assert scores(f"You find it in {written}, I think.", truth, root=ROOT) == (1, 1, 1)


def test_the_same_file_name_elsewhere_is_another_path() -> None:
    truth = {"files": ["src/auth.py"]}
    assert scores("/elsewhere/src/auth.py", truth, root=ROOT) == (0, 0, 0)
    assert scores("other/src/auth.py", truth, root=ROOT) == (0, 0, 0)
    assert scores("/elsewhere/src/auth.py", truth) == (1, 1, 1), "without a root, whole paths are taken by their end"
    assert scores("src/auth.pyi", truth) == (0, 0, 0)
    assert scores("index.ts", {"files": ["a/index.ts", "b/index.ts"]}) == (0, 0, 0), "which of them is not said"


def test_a_folder_in_the_truth_stands_for_its_contents() -> None:
    truth = {"files": ["src/db/", "a.py"]}
    assert scores('{"files": ["src/db/pool.py", "src/db/x/y.py", "a.py"]}', truth) == (1, 1, 1)
    assert scores('{"files": ["src/db", "a.py"]}', truth) == (1, 1, 1)
    assert scores('{"files": ["src/dbx/pool.py", "a.py"]}', truth) == (0.5, 0.5, 0.5)
    assert scores('{"files": ["src/"]}', {"files": ["src/a.py"]}) == (0, 0, 0), "a folder says not which file"


@pytest.mark.parametrize(
    ("written", "right"),
    [
        (12, True),
        (14, True),
        (15, False),
        ("10-14", True),
        ([[10, 14]], True),
        ([9, 12], True),
        ("L12", True),
        ([[1, 30]], True),
        ([[1, 900]], False),  # not a line range any more
        ([[12, 400]], True),  # it begins there
        ([[12, 40_000]], False),
        ("none", False),
    ],
)
def test_a_line_is_found_within_a_tolerance(written: Any, right: bool) -> None:
    result = scores(json.dumps({"lines": {"a.py": written}}), {"lines": {"a.py": [12]}})
    assert (result[2] == 1) is right


def test_the_tolerance_can_be_set_and_every_line_counts() -> None:
    truth = {"lines": {"a.py": [12, "40-52"], "b.py": [3]}}
    assert scores('{"lines": {"a.py": [12, 45], "b.py": [3]}}', truth) == (1, 1, 1)
    assert scores('{"lines": {"a.py": [12]}}', truth) == (0.5, 1, 0.333)
    assert scores('{"lines": {"b.py": [12]}}', truth) == (0, 0, 0), "right number, wrong file"
    assert scores('{"lines": {"a.py": [13]}}', {"lines": {"a.py": [12]}}, line_tolerance=0) == (0, 0, 0)
    assert scores('{"lines": {"a.py": [17]}}', {"lines": {"a.py": [12]}}, line_tolerance=5) == (1, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "See src/a.py:12.",
        "See `src/a.py:12-14`.",
        "src/a.py#L12",
        "In src/a.py, line 12, it begins.",
        "In `src/a.py` (line 12)",
        "in **src/a.py** lines 11-13",
        "On line 12 of `src/a.py`.",
        "| src/a.py:12 | yes |",
        "`src/a.py` L12",
        "`src/a.py` (L12-L14)",
        "`src/a.py`:12",
        "**src/a.py**: line 12",
        "`src/a.py` — line 12",
        "`load` in `src/a.py` is around line 12",
        "src/a.py:12:5: error",
        "**File:** `src/a.py`\n**Line:** 12",
        "| File | Line |\n|---|---|\n| `src/a.py` | 12 |",
        "### `src/a.py`\n\n- `load` (line 12)",
        "line 12 (`src/a.py`)",
        "@src/a.py#L12",
        "{'src/a.py': [12]}",
        '{"files": ["src/a.py:12"]}',
        '{"files": [{"path": "src/a.py", "line": 12}]}',
        '{"lines": [{"file": "src/a.py", "line": 12}]}',
        '{"lines": ["src/a.py:12"]}',
        '{"file": "src/a.py", "lines": [12]}',
        '{"files": ["src/a.py"], "lines": [12]}',
        '{"files": ["src/a.py"], "lines": "12"}',
        '{"answer": {"files": ["src/a.py"], "lines": {"src/a.py": [12]}}}',
        '```json\n{"files": ["src/a.py",], // there\n "lines": {"src/a.py": [12]},}\n```',
        'I looked at x.py:30 too. It is src/a.py:12.\n{"files": ["src/a.py"]}',
        'First {"files": ["x.py"]}, no: ```json\n{"files": ["src/a.py"], "lines": {"src/a.py": "12"}}\n```',
    ],
)
def test_lines_are_read_in_all_common_notations(text: str) -> None:
    assert scores(text, {"files": ["src/a.py"], "lines": {"src/a.py": [12]}}) == (1, 1, 1)


def test_locations_given_as_separate_objects_all_count() -> None:
    truth = {"files": ["src/a.py", "src/b.py"], "lines": {"src/a.py": [12], "src/b.py": [3]}}
    first, second = '{"file": "src/a.py", "line": 12}', '{"file": "src/b.py", "line": 3}'
    for text in (
        f"[{first}, {second}]",
        f"{first}\n{second}",
        f'So: {{"files": [{first}, {second}], "symbols": ["x"]}}',
    ):
        assert scores(text, truth) == (1, 1, 1)


def test_a_line_belongs_to_the_path_it_is_mentioned_with() -> None:
    truth = {"lines": {"src/a.py": [12, 40], "src/b.py": [300]}}
    assert scores("`src/a.py`: lines 12 and 40; it ends on line 300 of src/b.py", truth) == (1, 1, 1)
    assert scores("src/a.py:12, 40\nsrc/b.py:300:7", truth) == (1, 1, 1)
    assert scores("src/a.py:12, 40 callers in src/b.py", truth)[2] == 0.333, "40 is not a line"
    assert scores("src/a.py:12, src/b.py:40", truth) == (0.4, 0.5, 0.333)


def test_repeated_or_excessive_claims_do_not_pay() -> None:
    truth = {"lines": {"a.py": [12]}}
    assert scores('{"lines": {"a.py": [10, 11, 12, 13, 14, 100, 200, 300]}}', truth)[1] == 0.25
    assert scores('{"lines": {"a.py": ["1-100", "101-200"]}}', truth) == (0, 0, 0)
    assert scores('{"lines": {"a.py": [12]}}', {"lines": {"a.py": [10, 12, 14]}})[2] == 0.333, "one line is one place"
    assert scores('{"lines": {"a.py": [9, 11, 13]}}', {"lines": {"a.py": [10, 12, 14]}}) == (1, 1, 1)
    assert scores('{"files": ["db/a", "db/b", "db/c", "x"]}', {"files": ["db/"]})[1] == 0.5
    assert scores('{"files": ["index.ts"]}', {"files": ["index.ts", "a/index.ts"]})[2] == 0.5
    assert scores('{"symbols": ["Store.get"]}', {"symbols": ["get", "Store.get"]})[2] == 0.5


def test_names_from_the_question_count_as_neither_right_nor_wrong() -> None:
    truth = {
        "files": ["src/a.py"],
        "symbols": ["OrderBook"],
        "lines": {"src/a.py": [12]},
        "content": ["class OrderBook"],
    }
    question = "Where is `class OrderBook` defined?"
    assert scores("I could not find `OrderBook`, sorry: no class OrderBook.", truth, question) == (0, 0, 0)
    assert scores('{"symbols": ["OrderBook"], "content": ["class OrderBook"]}', truth, question) == (0, 0, 0)
    for rest in ("", ', "symbols": ["OrderBook"]', ', "symbols": []'):
        answer = f'{{"files": ["src/a.py"], "lines": {{"src/a.py": [12]}}{rest}}}'
        assert scores(f"`OrderBook` keeps `items: dict`. {answer}", truth, question) == (1, 1, 1)
    only = {"symbols": ["OrderBook"]}
    assert scores('{"symbols": ["OrderBook"]}', only, "Is it `OrderBook` or `Basket`?") == (1, 1, 1), (
        "else nothing is left"
    )


def test_a_word_that_is_also_a_name_must_be_written_as_one() -> None:
    truth = {"symbols": ["load"]}
    assert scores("I could not load it.", truth) == (0, 0, 0)
    for text in ("It is load().", "It is **load**.", "1. load - reads it", "| load |", "```\ndef load(path):\n```"):
        assert scores(text, truth) == (1, 1, 1), text


def test_owners_of_symbols_and_parent_folders_in_prose_are_not_claims() -> None:
    assert scores("the `get` method of the `Store` class returns `None`", {"symbols": ["Store.get"]}) == (1, 1, 1)
    assert scores("Under src/db/, see src/db/pool.py.", {"files": ["src/db/pool.py"]}) == (1, 1, 1)


def test_paths_of_frameworks_and_paths_with_spaces_are_read() -> None:
    text = "It is in `app/[slug]/page.tsx` and app/(shop)/x.ts."
    assert scores(text, {"files": ["app/[slug]/page.tsx", "app/(shop)/x.ts"]}) == (1, 1, 1)
    assert scores("See `my docs/guide.md`.", {"files": ["my docs/guide.md"]})[2] == 1


def test_a_quotation_is_recognised_in_json_and_in_prose() -> None:
    truth = {"content": ['raise Expired("token")']}
    assert scores(json.dumps({"content": ['  raise  Expired("token")']}), truth) == (1, 1, 1)
    assert scores('```\n    raise Expired("token")\n```', truth) == (1, 1, 1)


def test_an_empty_field_beside_others_is_not_judged() -> None:
    truth = {"files": ["a.py"], "symbols": [], "lines": {}, "content": []}
    assert scores('{"files": ["a.py"], "symbols": ["f"], "lines": {"a.py": [3]}}', truth) == (1, 1, 1)


@pytest.mark.parametrize(
    "part",
    ["a ", "a/", ".", "`", "a.", "line 1", '{"', '{"a":', '{"files":', "[a", "(a", "a.py:1, ", " ", "src/{}.py:{} ",
     "`a` ", "`pub ", "| 1 ", "[1]/", "\ud800", "\0a.py ", ",  ", '"', "//", "A<B>", "func (", "lines 1 and ",
     "not `a` ", "`a` only b ", "`a`, but it is not b ", "~~a.py~~ ", "| a.py | no |\n",
     "```\n", "- not a.py:\n", "no ", "https://a/b/c/blob/", "rather than a.py, ", "{'files': ", "calls ", "**a"],
)  # fmt: skip
@pytest.mark.matrix(quick=6)
def test_long_texts_are_read_quickly(part: str) -> None:
    """A hundred thousand characters take a fraction of a second, or a little more on a busy machine."""
    text = "".join(part.replace("{}", str(index)) for index in range(100_000 // len(part)))
    truth = {**FOUR, "files": [f"src/x{index}.py" for index in range(200)]}
    begun = time.process_time()
    scores(text, truth)
    scores(json.dumps({name: [text, text] for name in FOUR}), truth)
    assert time.process_time() - begun < 5


def test_numbers_beyond_any_file_are_not_lines() -> None:
    for number in (10**5000, -(10**5000), 10**12):
        answer = Answer("", value={"lines": {"a.py": [number, [1, number]]}})
        assert scores(answer, {"lines": {"a.py": [1]}}) == (0, 0, 0)


@pytest.mark.parametrize(
    ("written", "right"),
    [
        ("Store.get", True),
        ("`Store.get()`", True),
        ("Store::get", True),
        ("Store#get", True),
        ("(*Store).get", True),
        ("func (s *Store) get", True),
        ("pkg.Store.get", True),
        ("get", True),  # said shorter, and nothing else ends so
        ("def get(self, key) -> str", True),
        ("Store<K, V>::get", True),
        ("Store[K].get", True),
        ("Store.prototype.get", True),
        ("<Store as Shelf>::get", True),
        ("crate::shelf::Store::get", True),
        ("com.shop.Store#get", True),
        ("public List<Order> get(String key)", True),
        ("pub(crate) fn get", True),
        ("src/store.rs::Store::get", True),
        ("get - reads a key", True),
        ("com.Cache::get", False),
        ("Store.get_all", False),
        ("Cache.get", False),
        ("Store.getter", False),
        ("forget", False),
    ],
)
def test_a_symbol_is_a_whole_identifier(written: str, right: bool) -> None:
    result = scores(json.dumps({"symbols": [written]}), {"symbols": ["Store.get"]})
    assert result == ((1, 1, 1) if right else (0, 0, 0))


def test_names_in_prose_are_the_marked_ones_and_the_right_ones() -> None:
    truth = {"symbols": ["load", "save"]}
    assert scores("`load` and save() do it.", truth, "Who calls `check`?") == (1, 1, 1)
    assert scores("`check` is called by `load`.", truth, "Who calls `check`?") == (0.667, 1, 0.5)
    assert scores("`load` and `store` do it, not reload.", truth) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    "ruled_out",
    [
        "It is in {right}, but not in {wrong}.",
        "It is in {right} rather than {wrong}.",
        "Unlike {wrong}, {right} has it.",
        "~~{wrong}~~ {right}",
        "I checked {wrong}, but it does not have it. It is in {right}.",
        "My first guess was {wrong}. Actually, it is {right}.",
        "- {right}\n\nFiles that do not:\n- {wrong}",
        "| file | has it |\n|---|---|\n| {right} | yes |\n| {wrong} | no |",
        "- {wrong}: no\n- {right}: yes",
        "```\n{wrong}:3: x\n{right}:9: y\n```\nSo the answer is {right}.",
        "It is neither in {wrong} nor anywhere else but in {right}.",
    ],
)
def test_names_ruled_out_in_prose_are_not_claims(ruled_out: str) -> None:
    for right, wrong in (("src/a.py", "lib/b.go"), ("`src/a.py`", "`lib/b.go`"), ("b.go", "src/a.py")):
        text = ruled_out.format(right=right, wrong=wrong)
        assert scores(text, {"files": [right.strip("`")]}, "Which file has it?") == (1, 1, 1), text
        assert scores(text, {"files": [wrong.strip("`")]}, "Which file has it?")[0] == 0, text


def test_a_declaration_names_what_it_declares() -> None:
    for code in (
        "type Server struct",
        "type Server struct {",
        "class Server(Base):",
        "pub struct Server",
        "interface Server",
    ):
        assert scores(f"It is `{code}`.", {"symbols": ["Server"]}) == (1, 1, 1), code


def test_words_that_only_look_like_paths_are_not_claims() -> None:
    text = "Node.js and/or v1.2.3 (see https://example.com/x.py, 1/2, e.g. os.path) use a.py."
    assert scores(text, {"files": ["a.py"]}) == (1, 1, 1)
    assert scores("It is the Makefile.", {"files": ["Makefile"]}) == (1, 1, 1)
    assert scores("It is bin/serve.", {"files": ["bin/serve"]}) == (1, 1, 1)


def test_a_repeated_claim_counts_once() -> None:
    assert scores("In src/a.py: see a.py:3 and ./src/a.py:9.", {"files": ["src/a.py"]}) == (1, 1, 1)
    assert distinct(["b.py", "a/b.py", "b.py"], "/") == ["a/b.py"]


def test_values_returned_by_a_function_are_read_directly() -> None:
    assert scores(Answer("", value={"files": ["a.py"]}), {"files": ["a.py"]}) == (1, 1, 1)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (None, " is missing"),
        ("src/a.py", " must be a mapping"),
        ({}, " is empty"),
        ({"file": ["a.py"]}, ': unknown key "file" (did you mean "files"?)'),
        ({"files": "a.py"}, ".files must be a list"),
        ({"files": [3]}, ".files[0] must be a non-empty string"),
        ({"files": ["/etc/passwd"]}, ".files[0] is outside the repository"),
        ({"files": ["../a.py"]}, ".files[0] is outside the repository"),
        ({"symbols": [""]}, ".symbols[0] must be a non-empty string"),
        ({"content": [None]}, ".content[0] must be a non-empty string"),
        ({"lines": [3]}, ".lines must be a mapping"),
        ({"lines": {"a.py": [0]}}, ".lines.a.py has 0, which is not a line"),
        ({"lines": {"a.py": ["x"]}}, ".lines.a.py has 'x', which is not a line"),
        ({"lines": {"a.py": [True]}}, "which is not a line"),
        ({"lines": {".": [1]}}, ".lines is not a path"),
    ],
)
def test_an_unusable_ground_truth_is_refused_before_any_cost(folder: Folder, truth: Any, message: str) -> None:
    problem = check_truth(truth)
    assert problem is not None
    assert problem[0].startswith(message) or message in problem[0]
    case = {"id": "nav-1", "input": "Where?", **({} if truth is None else {"expected": truth})}
    folder.write(
        "spec.yaml",
        json.dumps({"cases": [case], "target": "simulated", "variants": {"a": {}}, "scorers": ["retrieval"]}),
    )
    done = folder.abreast("run", "spec.yaml")
    assert done.code == 2
    assert "nav-1" in done.err or truth is None
    assert not (folder.path / "results.db").exists()


def test_an_invalid_setting_is_refused(folder: Folder) -> None:
    for settings in ({"line_tolerance": -1}, {"line_tolerance": True}, {"root": 3}, {"tolerance": 3}):
        spec = {
            "cases": [{"input": "Where?", "expected": {"files": ["a.py"]}}],
            "target": "simulated",
            "variants": {"a": {}},
            "scorers": [{"retrieval": settings}],
        }
        folder.write("spec.yaml", json.dumps(spec))
        assert folder.abreast("run", "spec.yaml").code == 2


@given(NAMES, NAMES)
def test_scores_of_listed_files_are_set_precision_and_recall(claimed: list[str], true: list[str]) -> None:
    claims, truth = set(claimed), set(true)
    if any(claim != other and other.endswith(f"/{claim}") for claim in claims for other in claims | truth):
        return  # said shorter
    f1, precision, recall = scores(json.dumps({"files": claimed}), {"files": true})
    right = len(claims & truth)
    if claims and truth and right:
        assert (precision, recall) == (round(right / len(claims), 3), round(right / len(truth), 3))
        assert f1 == round(2 * right / (len(claims) + len(truth)), 3)
    else:
        assert f1 == float(not claims and not truth)


@given(NAMES)
def test_an_answer_that_lists_the_truth_is_right(true: list[str]) -> None:
    assert scores(json.dumps({"files": true}), {"files": true}) == (1, 1, 1)
    assert scores(" ".join(f"`{path}`" for path in true), {"files": true}) == (1, 1, 1)


@given(st.text(max_size=200), st.dictionaries(st.sampled_from(["files", "lines", "symbols", "content"]), st.none()))
def test_any_answer_gets_scores_between_0_and_1(text: str, fields: dict[str, Any]) -> None:
    for answer in (
        text,
        json.dumps(dict.fromkeys(fields, text)),
        json.dumps({name: [text, 1, None] for name in fields}),
    ):
        assert all(0 <= value <= 1 for value in scores(answer, FOUR))


@given(st.text(max_size=60))
def test_normalizing_is_idempotent(text: str) -> None:
    assert path_of(path_of(text)) == path_of(text)
    assert symbol_of(symbol_of(text)) == symbol_of(text)


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)))
def test_json_of_any_shape_is_read(value: Any) -> None:
    for key in ("files", "lines", "symbols", "content"):
        for claims in (
            read_claims(json.dumps({key: value, "x": {"y": value}}), None, lambda _: False, ""),
            read_claims("", {key: {"a.py": value, "file": value}}, lambda _: False, ""),
        ):
            assert key in claims.listed
            assert all(type(name) is str and name for name in (*claims.files, *claims.symbols))
            assert all(0 < span.first <= span.last for _, span in claims.lines)

"""`abreast validate` finds what makes a result untrustworthy and has no false alarms."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.analyse.validate.evidence import ExaminedVariant
from abreast.analyse.validate.variants import exchange
from conftest import Folder

Case = dict[str, Any]

ECHO = """
def answer(case, style="plain", **_):
    return f"{style} {case.input}"
"""


def write_cases(folder: Folder, cases: list[Case]) -> None:
    folder.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))


def numbered(count: int, **more: Any) -> list[Case]:
    return [{"id": f"c{n}", "input": f"question {n}", "expected": f"thing {n}", **more} for n in range(count)]


def run(
    folder: Folder, variants: str, target: str = "simulated", more: str = "", *flags: str, scorer: str = "exact"
) -> None:
    spec = f"name: tried\ncases: cases.jsonl\ntarget: {target}\nvariants: {variants}\nscorers: ['{scorer}']\n{more}"
    folder.write("experiment.yaml", spec)
    done = folder.abreast("run", "experiment.yaml", "--yes", *flags)
    assert done.code in (0, 1, 3), done.output


def findings(folder: Folder, *words: str) -> list[dict[str, Any]]:
    done = folder.abreast("validate", "--json", *words)
    items: list[dict[str, Any]] = done.json
    assert done.code == int(any(finding["level"] == "serious" for finding in items)), done.output
    return items


def only_finding(folder: Folder, check: str, level: str) -> dict[str, Any]:
    """Return the only finding, after checking its check and severity."""
    items = findings(folder)
    assert [(finding["check"], finding["level"]) for finding in items] == [(check, level)], items
    return items[0]


def change(folder: Folder, query: str) -> None:
    assert folder.abreast("sql", "--write", "results.db", query).code == 0


TWO = "{plain: {accuracy: 0.6}, better: {accuracy: 0.9}}"


# -- nothing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 40])
@pytest.mark.parametrize("repeats", [1, 3])
def test_a_clean_run_has_no_findings_however_small(folder: Folder, count: int, repeats: int) -> None:
    write_cases(folder, numbered(count))
    run(folder, TWO, "simulated", f"repeats: {repeats}")
    assert findings(folder) == []
    done = folder.abreast("validate")
    assert done.code == 0
    output = " ".join(done.out.split())
    assert f"no problems found in {count * 2 * repeats} trials; checked for duplicate inputs, prompts that" in output
    assert done.out.startswith("SIMULATED")


@pytest.mark.parametrize("kind", ["function", "demo"])
def test_the_starters_have_no_findings(folder: Folder, kind: str) -> None:
    assert folder.abreast("init", kind).code == 0
    assert folder.abreast("run", "experiment.yaml", "--yes").code == 0
    assert findings(folder) == []


def test_the_demo_has_no_findings(folder: Folder) -> None:
    assert folder.abreast("demo").code == 0
    assert findings(folder, "--store", "demo/results.db") == []


@pytest.mark.parametrize("store", ["results.duckdb", "results.db"])
def test_every_engine_is_read(folder: Folder, store: str) -> None:
    write_cases(folder, [{"id": "a", "input": "x", "expected": "1"}, {"id": "b", "input": "x", "expected": "2"}])
    run(folder, TWO, "simulated", f"store: {store}")
    assert only_finding(folder, "duplicates", "serious")["ids"] == ["a", "b"]


def test_the_latest_run_is_validated_unless_one_is_named(folder: Folder) -> None:
    write_cases(folder, [{"id": "a", "input": "x", "expected": "1"}, {"id": "b", "input": "x", "expected": "2"}])
    run(folder, TWO)
    first = folder.sql("select run from runs")[0]["run"]
    write_cases(folder, numbered(5))
    run(folder, TWO)
    assert findings(folder) == []
    assert len(findings(folder, first)) == 1
    done = folder.abreast("validate", "nobody-0000")
    assert done.code == 2
    assert "no run" in done.err


def test_a_run_without_trials_is_not_a_result(folder: Folder) -> None:
    write_cases(folder, numbered(5))
    run(folder, TWO)
    change(folder, "delete from trials")
    assert "no stored trials" in only_finding(folder, "balance", "serious")["message"]


# -- cases -------------------------------------------------------------------------------------------------------------


def test_one_input_with_two_truths_is_serious(folder: Folder) -> None:
    write_cases(folder, [*numbered(100), {"id": "twin", "input": "question 7", "expected": "another"}])
    run(folder, TWO)
    finding = only_finding(folder, "duplicates", "serious")
    assert finding["ids"] == ["c7", "twin"]
    assert (finding["concerns"], finding["count"]) == ("cases", 2)
    assert "no answer can be right for both" in finding["message"]
    done = folder.abreast("validate")
    assert done.code == 1
    assert "serious: duplicates: 2 cases share an input" in done.out
    assert "    cases: c7, twin\n" in done.out
    assert done.out.endswith("1 serious, 0 notes in 202 trials\n")


@pytest.mark.parametrize(("copies", "level"), [(2, "note"), (20, "serious")])
def test_the_severity_of_copies_depends_on_how_much_they_narrow_the_interval(
    folder: Folder, copies: int, level: str
) -> None:
    cases = numbered(100)
    write_cases(folder, cases + [{**case, "id": f"copy of {case['id']}"} for case in cases[:copies]])
    run(folder, TWO)
    finding = only_finding(folder, "duplicates", level)
    assert finding["count"] == 2 * copies
    assert finding["ids"][:2] == ["c0", "copy of c0"]
    assert len(finding["ids"]) <= 5


def test_copies_in_one_group_are_a_note(folder: Folder) -> None:
    cases = [{**case, "group": case["id"]} for case in numbered(20)]
    write_cases(folder, cases + [{**case, "id": f"copy of {case['id']}"} for case in cases])
    run(folder, TWO)
    assert "of one group" in only_finding(folder, "duplicates", "note")["message"]


def test_cases_with_different_tags_are_not_copies(folder: Folder) -> None:
    both = [
        {"id": f"{n} {to}", "input": f"word {n}", "expected": f"{to} {n}", "tags": {"to": to}}
        for n in range(5)
        for to in "ab"
    ]
    write_cases(folder, both)
    run(folder, "{plain: {prompt: '{{ input }} in {{ tags.to }}'}, better: {prompt: '{{ tags.to }}: {{ input }}'}}")
    assert [finding for finding in findings(folder) if finding["check"] == "duplicates"] == []
    run(folder, "{plain: {accuracy: 0.5}, better: {accuracy: 0.9}}")
    assert only_finding(folder, "duplicates", "serious")["count"] == 10


@pytest.mark.parametrize(
    "form",
    [
        "Which thing? Answer: {own}",
        "Which thing is it? The correct answer is {own}. Now say it.",
        '{{"question": "which?", "expected": "{own}", "more": 3}}',
        "Which thing? (solution = {own})",
        "correct_answer: {own}\nquestion: which?",
        "**Answer:** {own}",
        "Header\0 and more. Answer: {own}",
    ],
)
def test_a_prompt_that_announces_its_own_answer_is_serious(folder: Folder, form: str) -> None:
    write_cases(
        folder, [{**case, "input": f"{case['id']}: {form.format(own=case['expected'])}"} for case in numbered(30)]
    )
    run(folder, TWO)
    finding = only_finding(folder, "leaks", "serious")
    assert finding["count"] == 30
    assert "plain, better" in finding["message"]


@pytest.mark.parametrize(("count", "is_reported"), [(2, False), (3, True)])
def test_three_cases_that_leak_are_enough(folder: Folder, count: int, is_reported: bool) -> None:
    write_cases(folder, [{**case, "input": f"{case['input']} answer: {case['expected']}"} for case in numbered(count)])
    run(folder, TWO)
    assert bool(findings(folder)) == is_reported


@pytest.mark.parametrize("count", [10, 40])
def test_one_leaking_case_among_many_is_found(folder: Folder, count: int) -> None:
    cases = numbered(count)
    cases[7]["input"] += " (expected: thing 7)"
    write_cases(folder, cases)
    run(folder, TWO)
    assert only_finding(folder, "leaks", "serious")["ids"] == ["c7"]


def test_a_few_cases_that_contain_their_answer_stand_out(folder: Folder) -> None:
    cases = numbered(12)
    cases[7]["input"] = "thing 7, remember; which thing is it?"
    write_cases(folder, cases)
    run(folder, TWO)
    finding = only_finding(folder, "leaks", "serious")
    assert (finding["ids"], finding["count"]) == (["c7"], 1)
    assert folder.abreast("validate").code == 1
    for case in cases[:8]:
        case["input"] = f"{case['expected']}, remember; which thing is it?"
    write_cases(folder, cases)
    run(folder, TWO)
    assert findings(folder) == [], "then finding it in the text is the task"


def test_numbers_leak_as_whole_numbers_only(folder: Folder) -> None:
    def cases(text: str) -> list[Case]:
        return [{"id": f"c{n}", "input": f"{n}: answer = {text.format(n=n * 7)}", "expected": n * 7} for n in range(30)]

    write_cases(folder, cases("{n}.0"))
    run(folder, TWO)
    assert only_finding(folder, "leaks", "serious")["count"] == 30
    write_cases(folder, cases("{n}99"))
    run(folder, TWO)
    assert findings(folder) == []


def labelled(count: int, form: str) -> list[Case]:
    """Cases of two classes with inputs in this form."""
    kinds = ["positive", "negative"]
    return [
        {"id": f"c{n}", "input": form.format(n=n, own=kinds[n % 2]), "expected": kinds[n % 2]} for n in range(count)
    ]


@pytest.mark.parametrize(
    "cases",
    [
        labelled(40, "Film {n}. Is it positive or negative? Answer: positive or negative"),
        labelled(40, "Example: a great film. Label: positive\nFilm {n}. Label:"),
        labelled(40, "Good. Answer: positive\nBad. Answer: negative\nFilm {n}. Answer:"),
        labelled(40, "Film {n}. Answer with one word."),
        labelled(40, "Film {n} is {own}, they say. What do they say?"),
        labelled(40, "Film {n}. Student answer: {own}. What did the student say?"),
        [{"id": f"c{n}", "input": f"Text {n}: Ada {n} lives here. Who?", "expected": f"Ada {n}"} for n in range(40)],
        [{"id": f"c{n}", "input": f"{n} apples and 4 pears; how many pears?", "expected": 4} for n in range(40)],
        [{"id": f"c{n}", "input": f"Is {n} even? yes or no", "expected": "yes" if n % 2 else "no"} for n in range(40)],
    ],
    ids=["classes listed", "one example", "two examples", "no value", "sentiment", "judging", "extraction", "4", "yes"],
)
def test_text_that_belongs_to_a_task_is_not_a_leak(folder: Folder, cases: list[Case]) -> None:
    write_cases(folder, cases)
    run(folder, TWO)
    assert findings(folder) == []


def test_a_variant_that_gets_more_information_than_the_baseline_is_noted(folder: Folder) -> None:
    folder.write("told.py", "def told(text):\n    return text + ' Remember thing ' + text.split()[-1] + ' well.'\n")
    write_cases(folder, numbered(30))
    run(folder, "{plain: {accuracy: 0.5}, more: {accuracy: 0.9, transform: 'python:told:told'}}")
    finding = only_finding(folder, "leaks", "note")
    assert "prompts of more contain the expected answer where those of plain do not" in finding["message"]


def test_a_variant_that_lists_the_classes_leaks_nothing(folder: Folder) -> None:
    write_cases(folder, labelled(40, "Film {n}"))
    run(folder, "{plain: {accuracy: 0.5}, listed: {accuracy: 0.9, prompt: '{{ input }}: positive or negative?'}}")
    assert findings(folder) == []


# -- columns -----------------------------------------------------------------------------------------------------------


def test_scores_out_of_range_are_serious(folder: Folder) -> None:
    write_cases(folder, numbered(12))
    run(folder, TWO)
    change(folder, "update scores set value = 1.5 where position = 3")
    change(folder, "update scores set value = 9e999 where position = 4")
    finding = only_finding(folder, "scores", "serious")
    assert "score_exact is outside of 0 to 1" in finding["message"]
    assert finding["count"] == 2
    assert finding["ids"] == ["c1 · better · repeat 0", "c2 · plain · repeat 0"]


def test_a_score_without_any_value_is_serious(folder: Folder) -> None:
    folder.write("grading.py", "def grade(case, answer):\n    raise ValueError('\\x1b[31mno')\n")
    write_cases(folder, numbered(3))
    run(folder, TWO, scorer="python:grading:grade")
    message = only_finding(folder, "scores", "serious")["message"]
    assert "score_grade has no value in any trial (crashed: ValueError" in message
    assert "\x1b" not in folder.abreast("validate").out


def test_some_answers_without_a_score_are_counted(folder: Folder) -> None:
    write_cases(folder, numbered(100))
    run(folder, TWO)
    change(folder, "update scores set value = null where position = 3")
    assert only_finding(folder, "scores", "note")["ids"] == ["c1 · better · repeat 0"]
    change(folder, "update scores set value = null where position < 40")
    lost = {item["check"]: item for item in findings(folder)}
    assert (set(lost), lost["scores"]["count"]) == ({"scores", "verdict"}, 40)
    assert lost["verdict"]["message"] == "better would be better, but the lost trials could change that"


@pytest.mark.parametrize(("accuracy", "level"), [(0, "serious"), (1, "note")])
def test_a_score_that_is_the_same_everywhere_is_reported(folder: Folder, accuracy: int, level: str) -> None:
    write_cases(folder, numbered(12))
    run(folder, f"{{plain: {{accuracy: {accuracy}}}, better: {{accuracy: {accuracy}, latency: 0.001}}}}")
    assert f"score_exact is {accuracy} for every answer" in only_finding(folder, "scores", level)["message"]


def test_a_tag_that_a_few_lack_is_noted_and_a_rare_one_is_not(folder: Folder) -> None:
    cases = numbered(20, tags={"level": "hard"})
    cases[4]["tags"] = {"odd": "yes"}
    write_cases(folder, cases)
    run(folder, TWO)
    finding = only_finding(folder, "columns", "note")
    assert (finding["ids"], finding["count"]) == (["c4"], 1)
    assert "lack the tag level" in finding["message"]


def test_a_returned_value_that_a_few_lack_is_noted(folder: Folder) -> None:
    folder.write(
        "predict.py",
        "def predict(case, style):\n"
        "    found = {'answer': style + case.input, 'confidence': 0.5, 'words': 3}\n"
        "    if case.id == 'c4': del found['confidence']\n"
        "    if case.id != 'c5': del found['words']\n"
        "    return found\n",
    )
    write_cases(folder, numbered(20))
    run(folder, "{v1: {style: a}, v2: {style: b}}", "python:predict:predict")
    items = [finding for finding in findings(folder) if finding["check"] == "columns"]
    assert [finding["ids"] for finding in items] == [["c4 · v1 · repeat 0"], ["c4 · v2 · repeat 0"]]
    assert "lack confidence" in items[0]["message"]


def test_a_parameter_that_one_of_three_leaves_out_is_noted(folder: Folder) -> None:
    folder.write("predict.py", ECHO)
    write_cases(folder, numbered(4))
    run(folder, "{v1: {style: a}, v2: {style: b}, v3: {}}", "python:predict:answer")
    finding = only_finding(folder, "columns", "note")
    assert finding["ids"] == ["v3"]
    assert "params_style is NULL there" in finding["message"]


def test_a_feature_switched_on_in_one_variant_is_not_a_finding(folder: Folder) -> None:
    folder.write("predict.py", ECHO)
    write_cases(folder, numbered(4))
    run(folder, "{without: {style: a}, with: {style: a, tool: {command: search}}}", "python:predict:answer")
    assert findings(folder) == []


PAID = """
def answer(case, known):
    number = int(case.id[1:])
    costs = {"all": True, "some": number % 2 == 0, "none": False}[known]
    said = {"answer": f"{known} {case.input}" if number % 2 else case.expected}
    return {**said, "cost_usd": 0.01, "input_tokens": 5, "output_tokens": 5} if costs else said
"""


def test_costs_known_for_only_some_answers_are_serious(folder: Folder) -> None:
    folder.write("predict.py", PAID)
    write_cases(folder, numbered(12))
    run(folder, "{v1: {known: all}, v2: {known: some}}", "python:predict:answer")
    items = [(finding["check"], finding["level"], finding["ids"]) for finding in findings(folder)]
    assert items == [("costs", "serious", ["v2"]), ("costs", "note", ["v2"]), ("costs", "note", ["v2"])]


def test_a_variant_without_costs_beside_one_with_them_is_noted(folder: Folder) -> None:
    folder.write("predict.py", PAID)
    write_cases(folder, numbered(12))
    run(folder, "{v1: {known: all}, v2: {known: none}}", "python:predict:answer")
    items = findings(folder)
    assert {(finding["check"], finding["level"]) for finding in items} == {("costs", "note")}
    assert "do not compare them" in items[0]["message"]


def test_costs_computed_in_two_ways_are_noted(folder: Folder) -> None:
    write_cases(folder, numbered(4))
    run(folder, "{plain: {cost_usd: 0.1}, better: {cost_usd: 0.2}}")
    assert findings(folder) == []
    change(folder, "update trials set cost_basis = 'reported' where variant = 1")
    assert "plain estimated, better reported" in only_finding(folder, "costs", "note")["message"]


# -- answers -----------------------------------------------------------------------------------------------------------


def test_one_answer_to_cases_that_expect_different_ones_is_serious(folder: Folder) -> None:
    refusal = "'\\x1b[2JI cannot help with that.'"
    folder.write(
        "predict.py", f"def predict(case, style):\n    return case.expected if style == 'good' else {refusal}\n"
    )
    write_cases(folder, numbered(20))
    run(folder, "{v1: {style: good}, v2: {style: bad}}", "python:predict:predict")
    finding = only_finding(folder, "answers", "serious")
    assert "in 20 of 20 cases" in finding["message"]
    output = folder.abreast("validate").out
    assert "\x1b" not in output
    assert "I cannot help with that." in output


def test_a_variant_that_always_answers_the_same_class_is_not_a_finding(folder: Folder) -> None:
    folder.write(
        "predict.py", "def predict(case, style):\n    return case.expected if style == 'good' else 'positive'\n"
    )
    write_cases(folder, labelled(30, "Film {n}"))
    run(folder, "{v1: {style: good}, v2: {style: bad}}", "python:predict:predict")
    assert findings(folder) == []


def test_variants_that_answer_alike_although_they_differ_are_serious(folder: Folder) -> None:
    folder.write("predict.py", "def predict(case, temperature):\n    return f'about {case.input}, nothing is known'\n")
    write_cases(folder, numbered(9))
    run(folder, "{cold: {temperature: 0}, warm: {temperature: 1}}", "python:predict:predict")
    finding = only_finding(folder, "answers", "serious")
    assert finding["ids"] == ["cold", "warm"]
    assert "differ in temperature and give the same answer in all 9 blocks" in finding["message"]


def test_variants_that_agree_on_the_right_answer_are_not_a_finding(folder: Folder) -> None:
    folder.write(
        "predict.py", "def predict(case, temperature):\n    return case.expected if case.id != 'c3' else 'no'\n"
    )
    write_cases(folder, numbered(30))
    run(folder, "{cold: {temperature: 0}, warm: {temperature: 1}}", "python:predict:predict")
    assert findings(folder) == []


# -- blocks and variants -----------------------------------------------------------------------------------------------

FAILING = """
from abreast.errors import Skipped, Unauthenticated

def answer(case, style, failing=0, kind="auth"):
    if int(case.id[1:]) < failing:
        raise Skipped("not for me") if kind == "skip" else Unauthenticated("no key")
    return case.expected if int(case.id[1:]) % 3 else f"{style} {failing} {case.input}"
"""


@pytest.mark.parametrize(("failing", "level"), [(2, "note"), (20, "serious")])
def test_infrastructure_that_fails_one_arm_is_counted_by_arm(folder: Folder, failing: int, level: str) -> None:
    folder.write("predict.py", FAILING)
    write_cases(folder, numbered(50))
    more = "limits: {retries: 0, breaker: 1000}"
    run(
        folder, f"{{v1: {{style: a, failing: 0}}, v2: {{style: a, failing: {failing}}}}}", "python:predict:answer", more
    )
    finding = only_finding(folder, "balance", level)
    assert finding["count"] == failing
    assert f"outcomes: v1 50, v2 {50 - failing}" in finding["message"]
    assert f"failures by infrastructure: v1 0, v2 {failing}" in finding["message"]
    assert "abreast resume" in finding["fix"]


def test_cases_that_one_arm_skips_are_counted(folder: Folder) -> None:
    folder.write("predict.py", FAILING)
    write_cases(folder, numbered(50))
    variants = "{v1: {style: a, kind: skip, failing: 0}, v2: {style: a, kind: skip, failing: 20}}"
    run(folder, variants, "python:predict:answer")
    assert (
        "20 blocks of 50 cannot be compared: one side skipped it"
        in only_finding(folder, "balance", "serious")["message"]
    )


def test_trials_that_have_not_run_yet_are_a_note(folder: Folder) -> None:
    write_cases(folder, numbered(20))
    run(folder, TWO, "simulated", "repeats: 2")
    change(folder, "delete from trials where variant = 1 and position < 40")
    finding = only_finding(folder, "balance", "note")
    assert finding["count"] == 10
    assert "20 blocks of 40 cannot be compared: one side was not run yet" in finding["message"]


def test_a_variant_that_hardly_answers_is_reported(folder: Folder) -> None:
    write_cases(folder, numbered(20))
    run(
        folder, "{v1: {accuracy: 0.9}, v2: {accuracy: 0.8, errors: {crash: 1.0}}}", more="limits: {allow_failing: true}"
    )
    finding = next(row for row in findings(folder) if row["check"] == "failures")
    assert (finding["level"], finding["ids"]) == ("serious", ["v2"])
    assert "v2 gave no answer at all: 20 of 20 trials failed by its own fault" in finding["message"]
    assert folder.abreast("validate").code == 1


def test_several_differences_at_once_are_noted(folder: Folder) -> None:
    folder.write("predict.py", ECHO + "\ndef other(case, **_):\n    return case.input\n")
    write_cases(folder, numbered(4))
    variants = (
        "{v1: {style: a, size: 1}, v2: {style: b, size: 2}, v3: {style: c, size: 1}, "
        "v4: {style: a, size: 2, target: 'python:predict:other'}}"
    )
    run(folder, variants, "python:predict:answer")
    finding = only_finding(folder, "differences", "note")
    assert finding["ids"] == ["v2", "v4"]
    assert "v2: size, style; v4: size, target" in finding["message"]


AGENT = """
def answer(case, model="m", mcp=None, tools=(), allowed_tools=(), disallowed_tools=()):
    return f"{case.input} {tools} {mcp} {model}"
"""
SEARCH = "tools: [Bash, Read, Glob, Grep], allowed_tools: ['Bash(rg:*)', 'Bash(find:*)', Read, Glob, Grep]"
SERVED = "tools: [Bash, Read, Glob, Grep], allowed_tools: ['Bash(rg:*)', 'Bash(find:*)', Read, Glob, Grep, mcp__demo]"
DEMO = "mcp: {demo: {command: demo}}"


def agent_findings(folder: Folder, variants: str, more: str = "") -> list[str]:
    """The findings about the differences between such agents, each with its fix."""
    folder.write("agent.py", AGENT)
    write_cases(folder, numbered(4))
    run(folder, variants, "python:agent:answer", more, "--fresh")
    return [f"{row['message']} · {row['fix']}" for row in findings(folder)]


def test_an_extra_server_with_its_allowed_tools_is_one_difference(folder: Folder) -> None:
    assert agent_findings(folder, f"{{plain: {{{SEARCH}}}, served: {{{SERVED}, {DEMO}}}}}") == []
    one_tool = SERVED.replace("mcp__demo", "mcp__demo__search, mcp__demo__read")
    assert agent_findings(folder, f"{{plain: {{{SEARCH}}}, served: {{{one_tool}, {DEMO}}}}}") == []
    assert agent_findings(folder, f"{{served: {{{SERVED}, {DEMO}}}, plain: {{{SEARCH}}}}}") == []


def test_a_server_instead_of_tools_is_reported_as_one_exchange(folder: Folder) -> None:
    variants = f"{{plain: {{{SEARCH}}}, served: {{tools: [Read], allowed_tools: [Read, mcp__demo], {DEMO}}}}}"
    message = "served has the MCP server demo instead of Bash, Glob and Grep: the verdict is on this exchange · "
    alone = "to measure the server alone"
    assert agent_findings(folder, variants) == [f"{message}give both variants the same `tools:` {alone}"]
    suite = agent_findings(folder, variants, "suite: code-search")
    assert suite == [f"{message}use `--search-tools both` {alone}"]


def test_several_servers_instead_of_tools_are_one_exchange_too(folder: Folder) -> None:
    (line,) = agent_findings(
        folder,
        f"{{plain: {{{SEARCH}}}, one: {{tools: [Read], allowed_tools: [Read, mcp__demo], {DEMO}}}, "
        "two: {tools: [Read], allowed_tools: [Read, mcp__a, mcp__b], mcp: gone.json}}",
    )
    assert line.startswith(
        "one has the MCP server demo instead of Bash, Glob and Grep; "
        "two has the MCP servers a and b instead of Bash, Glob and Grep: the verdicts are on these differences"
    )


def test_different_tools_are_one_finding_and_a_single_tool_is_none(folder: Folder) -> None:
    few = "tools: [Read, Grep], allowed_tools: [Read, Grep]"
    (line,) = agent_findings(folder, f"{{plain: {{{SEARCH}}}, few: {{{few}}}}}")
    assert line.startswith("few lacks Bash and Glob: the verdict is on this difference · add a variant")
    assert agent_findings(folder, f"{{few: {{{few}}}, one: {{tools: [Read], allowed_tools: [Read]}}}}") == []


def test_a_server_and_another_model_are_confounded(folder: Folder) -> None:
    (line,) = agent_findings(folder, f"{{plain: {{{SEARCH}, model: m}}, served: {{{SERVED}, {DEMO}, model: n}}}}")
    assert "differ from plain in several things at once" in line
    assert "(served: mcp, model)" in line


def test_servers_and_tools_in_a_full_grid_are_not_an_exchange(folder: Folder) -> None:
    lines = agent_findings(
        folder,
        f"{{neither: {{tools: []}}, tools: {{tools: [Glob, Grep]}}, server: {{tools: [], {DEMO}}}, "
        f"both: {{tools: [Glob, Grep], {DEMO}}}}}",
    )
    assert [line.partition(":")[0] for line in lines] == ["tools also has Glob and Grep"]


def test_simulated_agents_are_reported_like_real_ones(folder: Folder) -> None:
    write_cases(folder, numbered(4))
    tools = "[Bash, Read, Glob, Grep]"
    run(
        folder,
        f"{{without_mcp: {{tools: {tools}, accuracy: 0.6}}, with_mcp: {{tools: [Read], {DEMO}, accuracy: 0.8}}}}",
    )
    finding = only_finding(folder, "differences", "note")
    assert finding["message"].startswith("with_mcp has the MCP server demo instead of Bash, Glob and Grep")
    assert (finding["concerns"], finding["ids"]) == ("variants", ["with_mcp"])
    run(folder, f"{{without_mcp: {{tools: {tools}}}, with_mcp: {{tools: {tools}, {DEMO}, accuracy: 0.8}}}}")
    assert findings(folder) == []


@pytest.mark.parametrize(
    ("plain", "other", "difference"),
    [
        (
            "tools: [Bash, Grep, Read], mcp: {demo: {command: old}}",
            "tools: [Read], mcp: {demo: {command: new}}",
            "has the MCP server demo (declared otherwise) instead of Bash and Grep",
        ),
        ("tools: [Bash, Read]", "tools: default", "has the default tools instead of only Bash and Read"),
        (
            "tools: default",
            f"tools: [Read], {DEMO}",
            "has the MCP server demo and only Read instead of the default tools",
        ),
        ("tools: default", "tools: []", None),  # a single thing less
        (
            "tools: [Bash, Read]",
            "tools: [Bash, Read], allowed_tools: ['Bash(rg:*)', Read]",
            "has Bash(rg:*) instead of Bash",
        ),
        (
            "tools: [Bash, Read], allowed_tools: ['Bash(rg:*)', Read]",
            "tools: [Bash, Grep, Read], allowed_tools: [Bash, Grep, Read]",
            "has Grep and Bash instead of Bash(rg:*)",
        ),
        (
            "tools: [Bash, Grep, Read], disallowed_tools: [Bash]",
            f"tools: [Read], disallowed_tools: [Bash], {DEMO}",
            "has the MCP server demo instead of Grep",
        ),
        (
            "tools: [Glob, Grep]",
            "tools: [], mcp: servers.json",
            "has the MCP server of servers.json instead of Glob and Grep",
        ),
        (
            "tools: [Glob, Grep]",
            "tools: [], mcp: servers.json, allowed_tools: ['mcp__*']",
            "has the MCP server of servers.json instead of Glob and Grep",
        ),
        ("tools: [Glob, Grep], mcp: false", "tools: [], mcp: {}", "lacks Glob and Grep"),
        (
            "tools: [Glob, Grep]",
            "tools: [], mcp: [a.json, {mcpServers: {x: {command: y}}}]",
            "has the MCP servers of a.json and x instead of Glob and Grep",
        ),
        ("allowed_tools: [Glob, Grep]", "allowed_tools: [Read]", "has Read instead of Glob and Grep"),
    ],
)
def test_differences_in_tools_and_servers_are_described_correctly(
    folder: Folder, plain: str, other: str, difference: str | None
) -> None:
    lines = agent_findings(folder, f"{{plain: {{{plain}}}, other: {{{other}}}}}")
    assert [line.partition(": the verdict")[0] for line in lines] == ([f"other {difference}"] if difference else [])


def test_a_merely_allowed_tool_is_not_a_tool_of_claude_code() -> None:
    only, none = (
        ExaminedVariant(at, str(at), "claude-code", {"allowed_tools": texts}, "")
        for at, texts in enumerate((["Bash", "Grep"], []))
    )
    assert not exchange(only, none).differs_in_tools
    of_another = replace(only, target="command")
    assert exchange(of_another, none).in_words() == "also has Bash and Grep"


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["", "default", "Bash(rg:*)", "mcp__", "mcp__x__y", "a.json"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["mcpServers", "x"]), inner),
    max_leaves=6,
)
SETTINGS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("tools", "mcp", "allowed_tools", "disallowed_tools"), ANYTHING)
)


@given(st.tuples(SETTINGS, SETTINGS), st.sampled_from(["claude-code", "command"]))
def test_any_tools_and_servers_can_be_compared(both: tuple[Any, Any], target: str) -> None:
    first, second = (ExaminedVariant(at, "v", target, params, "") for at, params in enumerate(both))
    forward, back = exchange(first, second), exchange(second, first)
    assert (forward.tools, forward.tools_missing) == (back.tools_missing, back.tools)
    assert (forward.in_words(), exchange(first, first).differs_in_tools) == (exchange(first, second).in_words(), False)


def test_function_parameters_named_like_tools_cause_no_crash(folder: Folder) -> None:
    assert agent_findings(folder, "{v1: {tools: 1, mcp: false}, v2: {tools: all, mcp: true, allowed_tools: 7}}")
    agent_findings(folder, "{v1: {tools: null}, v2: {tools: default, mcp: [a.json, {x: {command: y}}]}}")


def test_a_simulator_with_two_changes_is_confounded_unless_they_belong_to_one_treatment(folder: Folder) -> None:
    write_cases(folder, numbered(4))
    run(folder, "{v1: {accuracy: 0.5, latency: 0}, v2: {accuracy: 0.9, latency: 0.001}}")
    assert "v2: accuracy, latency" in only_finding(folder, "differences", "note")["message"]
    run(folder, "{v1: {accuracy: 0.5, prompt: 'x {{ input }}'}, v2: {accuracy: 0.9, prompt: 'y {{ input }}'}}")
    assert findings(folder) == []


def test_a_full_grid_is_not_confounded(folder: Folder) -> None:
    folder.write("predict.py", ECHO)
    write_cases(folder, numbered(4))
    folder.write(
        "experiment.yaml",
        "cases: cases.jsonl\ntarget: python:predict:answer\ngrid: {style: [a, b], size: [1, 2]}\nscorers: [exact]\n",
    )
    assert folder.abreast("run", "experiment.yaml").code == 0
    assert findings(folder) == []


def test_identical_variants_are_noted_unless_the_run_tests_exactly_that(folder: Folder) -> None:
    write_cases(folder, numbered(12))
    run(folder, "{one: {accuracy: 0.5}, other: {accuracy: 0.5}}")
    assert only_finding(folder, "differences", "note")["ids"] == ["one", "other"]
    assert folder.abreast("aa", "experiment.yaml", "--fresh", "--store", "aa.db").code == 0
    assert findings(folder, "--store", "aa.db") == []


MODELS = """
def answer(case, model, resolved):
    found = {"one": "m-1", "two": f"m-{int(case.id[1:]) % 2}", "some": None if case.id == "c1" else "m-1"}[resolved]
    return {"answer": case.expected if case.id > "c2" else model + case.input, "model": found}
"""


@pytest.mark.parametrize(
    ("variants", "level", "message"),
    [
        ("{v1: {model: m, resolved: one}, v2: {model: m, resolved: two}}", "serious", "answered by 2 models: m-0, m-1"),
        (
            "{v1: {model: m, resolved: one}, v2: {model: m, resolved: some}}",
            "note",
            "model missing from 1 answer of v2",
        ),
        ("{v1: {model: m, resolved: one}, v2: {model: n, resolved: one}}", "serious", "and m-1 answered both"),
    ],
)
def test_changing_missing_or_identical_models_are_reported(
    folder: Folder, variants: str, level: str, message: str
) -> None:
    folder.write("predict.py", MODELS)
    write_cases(folder, numbered(6))
    run(folder, variants, "python:predict:answer")
    assert message in only_finding(folder, "models", level)["message"]


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("update trials set latency_s = -5 where position = 3", "has a negative duration"),
        ("update trials set queue_s = -5 where position = 3", "has a negative duration"),
        ("update trials set finished_at = started_at - 20 where position = 3", "finished before it started"),
        ("update trials set service_s = 500 where position = 3", "took longer than the time between"),
        (
            "update trials set started_at = started_at - 7200, latency_s = 7200 where position = 3",
            "started before the run began",
        ),
        (
            "update trials set finished_at = finished_at + 7200 where seq = (select max(seq) from trials)",
            "in the future",
        ),
    ],
)
def test_impossible_times_are_serious(folder: Folder, query: str, message: str) -> None:
    write_cases(folder, numbered(6))
    run(folder, TWO)
    change(folder, query)
    finding = only_finding(folder, "clock", "serious")
    assert message in finding["message"]
    assert finding["count"] == 1
    if "position" in query:
        assert finding["ids"] == ["c1 · better · repeat 0"]


def test_a_clock_that_was_set_back_is_noted(folder: Folder) -> None:
    write_cases(folder, numbered(6))
    run(folder, TWO)
    change(folder, "update runs set created_at = created_at - 9000")
    last = "seq > (select max(seq) - 3 from trials)"
    change(folder, f"update trials set started_at = started_at - 300, finished_at = finished_at - 300 where {last}")
    finding = only_finding(folder, "clock", "note")
    assert finding["count"] == 3
    assert "stored after others" in finding["message"]


def test_a_long_silence_that_nothing_explains_is_noted(folder: Folder) -> None:
    write_cases(folder, numbered(6))
    run(folder, TWO)
    change(folder, "update runs set created_at = created_at - 9000")
    first = "seq < (select min(seq) + 4 from trials)"
    change(folder, f"update trials set started_at = started_at - 7200, finished_at = finished_at - 7200 where {first}")
    change(folder, "delete from events")
    assert "nothing was in flight for 120 minutes" in only_finding(folder, "clock", "note")["message"]
    change(
        folder, "insert into events (run_id, happened_at, kind) select run_id, created_at + 5000, 'paused' from runs"
    )
    assert findings(folder) == []


def test_variants_that_were_not_interleaved_are_noted(folder: Folder) -> None:
    write_cases(folder, numbered(6))
    run(folder, TWO)
    change(folder, "update runs set created_at = created_at - 900")
    change(folder, "update trials set started_at = started_at - 50, finished_at = finished_at - 50 where variant = 0")
    assert "plain ended before better began" in only_finding(folder, "order", "note")["message"]


def test_old_answers_of_one_arm_beside_new_ones_are_noted(folder: Folder) -> None:
    write_cases(folder, numbered(6))
    run(folder, TWO)
    run(folder, "{plain: {accuracy: 0.6}, better: {accuracy: 0.95}}")
    finding = only_finding(folder, "order", "note")
    assert finding["ids"] == ["plain"]
    assert "plain 6 of 6, better 0 of 6" in finding["message"]


def test_old_answers_of_all_arms_alike_are_not_a_finding(folder: Folder) -> None:
    write_cases(folder, numbered(12))
    run(folder, TWO, "simulated", "", "--limit", "6")
    run(folder, TWO)
    assert {row["n"] for row in folder.sql("select count(reused_from) as n from predictions group by run")} == {0, 12}
    assert findings(folder) == []


def test_a_debug_run_is_reported_as_such(folder: Folder) -> None:
    write_cases(folder, numbered(12))
    run(folder, TWO, "simulated", "", "--debug", "5")
    assert "a debug run" in only_finding(folder, "run", "note")["message"]


def test_text_from_a_target_cannot_move_the_cursor_or_forge_a_finding(folder: Folder) -> None:
    forged = "\\x1b[2Jm\\nserious: all is well "
    folder.write(
        "predict.py",
        f"def predict(case, style):\n    return {{'answer': style + case.input, 'model': '{forged}' + case.id}}\n",
    )
    write_cases(folder, numbered(4))
    run(folder, "{v1: {style: a}, v2: {style: b}}", "python:predict:predict")
    assert [finding["check"] for finding in findings(folder)] == ["models", "models"]
    output = folder.abreast("validate").out
    assert "\x1b" not in output
    assert not any(line.startswith("serious") for line in output.splitlines())

"""Which stored answers are reused, and which spec a resumed run uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from abreast import Case, Experiment
from conftest import Folder


def by_language(case: Case) -> str:
    return f"{case.input} in {case.tags['lang']}"


def rows(store: Path, cases: list[Case], target: Any = by_language, **options: Any) -> dict[str, tuple[str, Any]]:
    experiment = Experiment(cases=cases, target=target, variants={"a": {}}, scorers=["exact"], store=store)
    return {row["case_id"]: (row["answer"], row["reused_from"]) for row in experiment.run(**options).rows()}


GERMAN = Case("de", "hello", "hello in de", {"lang": "de"})
FRENCH = Case("fr", "hello", "hello in fr", {"lang": "fr"})


def test_cases_with_the_same_input_keep_their_own_answers_in_any_order_and_selection(tmp_path: Path) -> None:
    store = tmp_path / "results.db"
    rows(store, [GERMAN, FRENCH])
    for cases in ([FRENCH, GERMAN], [FRENCH], [GERMAN]):
        stored = rows(store, cases)
        for case in cases:
            answer, reused = stored[case.id]
            assert answer == case.expected
            assert reused is not None


def test_a_changed_tag_is_seen_by_a_function_that_gets_the_case(tmp_path: Path) -> None:
    store = tmp_path / "results.db"
    rows(store, [GERMAN])
    stored = rows(store, [Case("de", "hello", "x", {"lang": "at"})])
    assert stored["de"] == ("hello in at", None)


def test_changes_a_target_makes_to_its_case_are_not_shared(tmp_path: Path) -> None:
    def spoil(case: Case, mutate: bool, words: list[str]) -> str:
        words.append("more")
        if mutate:
            case.input.pop("question")
            return "yes"
        return str(case.input["question"]) if len(words) == 2 else "the parameters were spoilt"

    cases = [Case(f"c{n}", {"question": "yes"}, expected="yes") for n in range(12)]
    result = Experiment(
        cases=cases,
        target=spoil,
        variants={"rude": {"mutate": True, "words": ["a"]}, "polite": {"mutate": False, "words": ["a"]}},
        scorers=["exact"],
        store=tmp_path / "results.db",
    ).run(parallel=8)
    assert {row["answer"] for row in result.rows()} == {"yes"}
    with_inputs = Experiment(cases=cases, target=spoil, variants={"x": {"mutate": False, "words": ["a"]}})
    assert with_inputs.spec.cases[0].input == {"question": "yes"}


def test_a_resumed_run_uses_the_current_scorers_and_baseline_of_the_spec(folder: Folder) -> None:
    folder.cases(12)
    folder.write(
        "flaky.py",
        """
        import pathlib
        from abreast.errors import Transient
        def predict(case, word):
            if case.id == "c3" and not pathlib.Path("mended").exists():
                raise Transient("gone")
            return word
        """,
    )
    spec = """
        cases: cases.jsonl
        target: python:flaky:predict
        baseline: %s
        variants: {a: {word: "yes"}, b: {word: "well, yes"}}
        scorers: [%s]
        limits: {retries: 0}
        """
    folder.write("spec.yaml", spec % ("a", "exact"))
    assert folder.rerun("run", "spec.yaml").code == 3
    (folder.path / "mended").touch()
    folder.write("spec.yaml", spec % ("b", "contains"))
    done = folder.rerun("run", "spec.yaml")
    assert done.code == 0, done.err
    assert "continuing " in done.err
    assert "a vs b" in done.out
    assert folder.sql("select count(*) n, avg(score) s from predictions") == [{"n": 24, "s": 1.0}]


def test_retried_failures_are_reported_by_every_later_run_that_reuses_them(folder: Folder) -> None:
    folder.cases(4)
    folder.write(
        "moody.py",
        """
        import pathlib
        def predict(case):
            if not pathlib.Path("mended").exists():
                raise ValueError("not today")
            return "yes"
        """,
    )
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: python:moody:predict}}\nscorers: [exact]\n")
    folder.rerun("run", "spec.yaml")
    (folder.path / "mended").touch()
    marker = "were retried (--retry-failed)"
    reused = folder.rerun("run", "spec.yaml")
    assert "4 failures; --retry-failed" in reused.err
    assert marker not in reused.out
    assert marker in folder.rerun("run", "spec.yaml", "--retry-failed").out
    assert marker in folder.rerun("run", "spec.yaml").out
    assert marker not in folder.rerun("run", "spec.yaml", "--fresh").out


def test_a_reused_row_has_no_cost_and_no_latency_of_its_own(folder: Folder) -> None:
    folder.cases(5)
    folder.write("spec.yaml", "cases: cases.jsonl\nvariants: {a: {target: simulated, cost_usd: 1}}\nscorers: [exact]\n")
    folder.abreast("run", "spec.yaml")
    folder.abreast("run", "spec.yaml")
    assert folder.sql("select sum(cost_usd) c, count(latency_s) l, count(*) n from predictions") == [
        {"c": 5.0, "l": 5, "n": 10}
    ]


def test_an_edited_method_of_a_parameter_object_is_executed_again(folder: Folder) -> None:
    script = """
        from dataclasses import dataclass
        from abreast import Case, Experiment, Variant
        @dataclass(frozen=True)
        class Style:
            word: str = "please"
            def ask(self, text):
                return f"{text}, {self.word}"  # %s
        def predict(item, style):
            return style.ask(item)
        cases = [Case("c", "tea", expected="tea, please")]
        variants = [Variant("a", predict, Style())]
        experiment = Experiment(cases=cases, variants=variants, scorers=["exact"], store="r.db")
        print(*((row["answer"], row["reused_from"] is not None) for row in experiment.run().rows()))
    """
    polite = script % "a comment"
    curt = polite.replace('f"{text}, {self.word}"', "text")
    answers = []
    for text in (polite, polite.replace("a comment", "another"), curt):
        folder.write("script.py", text)
        done = subprocess.run(
            [sys.executable, "script.py"], cwd=folder.path, capture_output=True, text=True, timeout=60, check=True
        )
        answers.append(done.stdout.strip().splitlines()[-1])
    assert answers == ["('tea, please', False)", "('tea, please', True)", "('tea', False)"]

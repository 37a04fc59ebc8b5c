"""What comes after a run: the analysis of very many trials, the page of very many cases, the search for faults."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks import measure

WORDS = "the quick brown fox jumps over the lazy dog and thinks about what the question might have meant "


def fill(store: Path, cases: int, padding: int = 0) -> None:
    """A run of two variants with two tags a case; answers are padded to so many characters."""
    from abreast import Case, Experiment, Variant

    def answer(case: Case, right: int) -> dict[str, Any]:
        number = int(case.id[1:])
        text = case.expected if (number * 7919) % 10 < right else f"not {number}"
        return {"answer": text, "thoughts": (WORDS * (padding // len(WORDS) + 1))[:padding]}

    def padded(case: Case, right: int) -> str:
        found = answer(case, right)
        return f"{found['thoughts']}\nanswer: {found['answer']}"

    made = [
        Case(
            f"c{number}",
            f"What is {number}? " + "x" * (number % 400),
            expected=str(number),
            tags={"kind": ("navigate", "search", "read")[number % 3], "level": str(number % 5)},
        )
        for number in range(cases)
    ]
    if padding:
        variants, target = [Variant("a", params={"right": 6}), Variant("b", params={"right": 7})], padded
        Experiment(name="pages", cases=made, variants=variants, target=target, scorers=["contains"], store=store).run(
            parallel=8
        )
    else:
        sides = {"a": {"accuracy": 0.6}, "b": {"accuracy": 0.7}}
        Experiment(name="rows", cases=made, variants=sides, target="simulated", scorers=["exact"], store=store).run(
            parallel=200
        )


def analyse_large(cases: int) -> dict[str, Any]:
    from abreast.analyse.run import analyse
    from abreast.analyse.validate import validate
    from abreast.report.formats import catalogue
    from abreast.store import open_store

    with measure.folder() as path:
        fill(path / "results.db", cases)
        with open_store(path / "results.db") as store:
            started = time.perf_counter()
            rows = store.rows("SELECT * FROM trials")
            bare = time.perf_counter() - started
            del rows
            started = time.perf_counter()
            found = analyse(store, "latest")
            analysis = time.perf_counter() - started
            assert found.comparisons[0].cases == cases
            started = time.perf_counter()
            for _ in catalogue.pieces(catalogue.ReportRequest(found), "json"):
                pass
            written = time.perf_counter() - started
            started = time.perf_counter()
            validate(store, "latest")
            validation = time.perf_counter() - started
    return {"bare": bare, "analysis": analysis, "json": written, "validation": validation}


def page_large(cases: int, padding: int) -> dict[str, Any]:
    from abreast.analyse.run import analyse
    from abreast.report.page.html import page
    from abreast.store import open_store

    with measure.folder() as path:
        fill(path / "results.db", cases, padding)
        with open_store(path / "results.db") as store:
            analysis = analyse(store, "latest")
            started = time.perf_counter()
            text = page(analysis)
            seconds = time.perf_counter() - started
    return {"seconds": seconds, "bytes": len(text.encode())}


def analysis() -> bool:
    found = measure.apart("reports", "analyse_large", 50_000).extra
    figure = f"{found['analysis']:.2f} s, {found['analysis'] / found['bare']:.1f} × reading the rows"
    reached = measure.line("analysis of 100,000 trials", figure, "< 2 s", found["analysis"] < 2)
    figure = f"{found['validation']:.2f} s"
    measure.line("validation of 100,000 trials", figure, "told", True)
    measure.line("the report as JSON, all trials", f"{found['json']:.2f} s more", "told", True)
    return reached


def page() -> bool:
    found = measure.apart("reports", "page_large", 1_000, 4_000).extra
    figure = f"{found['bytes'] / 1e6:.2f} MB, {found['seconds']:.1f} s"
    return measure.line("page of 1,000 cases, answers of 4 KB", figure, "< 5 MB", found["bytes"] < 5e6)


ALL = [analysis, page]

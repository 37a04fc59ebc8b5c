"""What comes after a run: the analysis of very many trials, the page of very many cases, the search for faults."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks import measure

WORDS = "the quick brown fox jumps over the lazy dog and thinks about what the question might have meant "


def fill(store: Path | str, cases: int, padding: int = 0) -> None:
    """A run of two variants with two tags a case; answers are padded to so many characters."""
    from abreast import Case, Experiment, Variant

    def answer(case: Case, right: int) -> dict[str, Any]:
        number = int(case.id[1:])
        text = case.expected if (number * 7919) % 10 < right else f"not {number}"
        return {"answer": text, "thoughts": (WORDS * (padding // len(WORDS) + 1))[:padding]}

    def padded(case: Case, right: int) -> str:
        row = answer(case, right)
        return f"{row['thoughts']}\nanswer: {row['answer']}"

    planned = [
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
        Experiment(
            name="pages", cases=planned, variants=variants, target=target, scorers=["contains"], store=store
        ).run(parallel=8)
    else:
        sides = {"a": {"accuracy": 0.6}, "b": {"accuracy": 0.7}}
        Experiment(name="rows", cases=planned, variants=sides, target="simulated", scorers=["exact"], store=store).run(
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
            analysed = analyse(store, "latest")
            analysis = time.perf_counter() - started
            assert analysed.comparisons[0].cases == cases
            started = time.perf_counter()
            for _ in catalogue.pieces(catalogue.ReportRequest(analysed), "json"):
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
    figures = measure.in_own_process("reports", "analyse_large", 50_000).extra
    figure = f"{figures['analysis']:.2f} s, {figures['analysis'] / figures['bare']:.1f} × reading the rows"
    reached = measure.line("analysis of 100,000 trials", figure, "< 2 s", figures["analysis"] < 2)
    figure = f"{figures['validation']:.2f} s"
    measure.line("validation of 100,000 trials", figure, "reported", True)
    measure.line("the report as JSON, all trials", f"{figures['json']:.2f} s more", "reported", True)
    return reached


def page() -> bool:
    figures = measure.in_own_process("reports", "page_large", 1_000, 4_000).extra
    figure = f"{figures['bytes'] / 1e6:.2f} MB, {figures['seconds']:.1f} s"
    return measure.line("page of 1,000 cases, answers of 4 KB", figure, "< 5 MB", figures["bytes"] < 5e6)


ALL = [analysis, page]

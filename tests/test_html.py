"""The HTML report and its charts: complete, safe, small, reproducible, and readable in a real browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import playwright.sync_api
import pytest

from abreast.analyse.run import analyse
from abreast.report.page import html
from abreast.store import open_store
from abreast.text import printable
from browser import DESKTOP, PHONE, Browser, overflow
from conftest import Folder

MARK = "SIMULATED · no model was called"
VOID = {"meta", "br", "link", "img", "hr", "input", "line", "rect", "circle", "path"}


class Page(HTMLParser):
    """A parsed page: its elements in order, and the text inside each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []  # path of enclosing elements, and text
        self._open: list[str] = []
        self.faults: list[str] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{name}> is not closed" for name in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        self.texts.append(("/".join(self._open), data))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def within(self, tag: str) -> list[str]:
        return [text for path, text in self.texts if tag in path.split("/")]

    @property
    def visible_text(self) -> str:
        return " ".join(" ".join(text for path, text in self.texts if "style" not in path).split())


def page_of(folder: Folder, *words: str) -> Page:
    done = folder.abreast("report", "--format", "html", "--output", "pages", *words)
    assert done.code == 0, done.err
    return Page((folder.path / done.out.strip()).read_text(encoding="utf-8"))


MODEL = """\
from abreast import Answer, Usage

def predict(case, level):
    number = int(case.id[1:])
    if number == 7 and level:
        raise ValueError("could not be parsed")
    right = number % 3 == 0 or (level and number % 5 != 0)
    text = "yes" if right else f"no, because the answer to {number} is another one"
    return Answer(text, usage=Usage(100 + number, 20), cost_usd=0.01 * (1 + level), cost_basis="estimated", model="m-1")
"""
SPEC = """\
name: page
cases: cases.jsonl
target: python:model:predict
variants: {plain: {level: 0}, clever: {level: 1}}
scorers: [exact, contains]
"""


@pytest.fixture
def finished_run(folder: Folder) -> Folder:
    """A run of 60 cases with tags, costs, two scores and a failure; no simulation."""
    lines = [
        {
            "id": f"c{n}",
            "input": "word " * (n + 1),
            "expected": "yes",
            "tags": {"kind": "even" if n % 2 == 0 else "odd"},
        }
        for n in range(60)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write("model.py", MODEL)
    folder.write("spec.yaml", SPEC)
    assert folder.abreast("run", "spec.yaml", "--parallel", "4").code == 0
    return folder


def test_the_page_shows_the_verdict_first_and_then_its_evidence(finished_run: Folder) -> None:
    page = page_of(finished_run)
    assert not page.faults
    verdict = next(
        line
        for line in finished_run.abreast("report").out.splitlines()
        if line.strip().startswith("clever is ") or " clever vs " in line
    )
    sentence = " ".join(verdict.split())[:60]
    order = [
        sentence,
        "cost per correct answer",
        "Difference in score",
        "Wins, ties and losses",
        "The interval as cases were added",
        "Variants",
        "Other scores",
        "Where it helps and where it hurts exploratory",
        "Cases that differ most",
        "Errors and wrong answers",
        "Cost and quality",
        "Latency",
        "Score against the size of the input",
        "All cases",
        "How it was run",
        "The experiment as executed",
    ]
    offsets = [page.visible_text.find(part) for part in order]
    assert -1 not in offsets, order[offsets.index(-1)]
    assert offsets == sorted(offsets)
    for fact in (
        "60 cases, hash",
        "in flight",
        "1 requested" if "1 requested" in page.visible_text else "4 requested",
        "seed",
    ):
        assert fact in page.visible_text
    assert "m-1" in page.visible_text
    assert "crash" in page.visible_text
    assert "variant's fault" in page.visible_text
    assert MARK not in page.visible_text, "a real run"


def test_answers_are_side_by_side_and_differences_do_not_depend_on_colour(finished_run: Folder) -> None:
    page = page_of(finished_run)
    assert "no, because the answer to 14 is another one" in page.visible_text
    assert page.within("del")
    assert "yes" in "".join(page.within("ins"))
    assert "expected" in page.visible_text


def test_every_case_is_listed_with_its_answers_in_its_group(finished_run: Folder) -> None:
    page = page_of(finished_run)
    listed = re.findall(r"\bc\d+\b", page.visible_text[page.visible_text.index("All cases") :])
    assert {f"c{n}" for n in range(60)} <= set(listed)
    assert re.search(r"wins \d+", page.visible_text)
    assert re.search(r"losses \d+", page.visible_text)
    assert re.search(r"ties \d+", page.visible_text)
    assert "listed without answers" not in page.visible_text


def test_every_chart_has_a_text_alternative(finished_run: Folder) -> None:
    page = page_of(finished_run)
    charts = page.all("svg")
    assert len(charts) >= 14, "seven charts, each for wide and for narrow screens"
    assert all(picture["role"] == "img" and len(picture["aria-label"]) > 20 for picture in charts)
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(charts) / 2


def test_the_page_loads_no_resources_and_runs_no_scripts(finished_run: Folder) -> None:
    page = page_of(finished_run)
    assert "http" not in page.source
    assert not re.search(r"@import|url\(|expression\(|javascript:", page.source)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "iframe", "img", "object", "embed", "base", "form", "a", "image", "use"}
    assert not [
        name
        for _, attributes in page.elements
        for name in attributes
        if name.startswith("on") or name in ("src", "href")
    ]


def test_the_same_rows_give_the_same_bytes(finished_run: Folder) -> None:
    first = page_of(finished_run).source
    second = finished_run.command("report", "--format", "html", "--output", "again").out.strip()
    assert (finished_run.path / second).read_text(encoding="utf-8") == first


EVIL = "<script>alert(1)</script>\"'&amp;\u202egnp.exe\u0000\u001b[31m</pre></svg></style><img src=x onerror=alert(2)>"

NAME = EVIL.replace("\0", "").replace("\x1b", "")  # ids and names have no invisible characters


def test_foreign_text_is_shown_and_never_executed(folder: Folder) -> None:
    lines = [
        {"id": f"{n}{NAME}", "input": f"{EVIL} {n}", "expected": "yes", "tags": {"t<i>": f"{EVIL}{n % 2}"}}
        for n in range(30)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write(
        "evil.py",
        f"EVIL = {EVIL!r}\n\ndef predict(case, bad):\n    if bad and case.id.startswith('3'):\n"
        "        raise ValueError(EVIL)\n"
        "    return EVIL + chr(0xD800) + str(len(case.id)) if bad else 'yes'\n",
    )
    names = {NAME: {"bad": False}, "b</title><b>": {"bad": True}}
    spec = {
        "name": "x</title><script>",
        "cases": "cases.jsonl",
        "target": "python:evil:predict",
        "variants": names,
        "scorers": ["exact"],
    }
    folder.write("spec.json", json.dumps(spec))
    done = folder.abreast("run", "spec.json")
    assert done.code == 0, done.err
    page = page_of(folder)
    assert not page.faults, page.faults[:3]
    assert {"script", "img", "i"}.isdisjoint(tag for tag, _ in page.elements)
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.source)
    assert "‹U+202E›" in page.visible_text
    assert "<script>alert(1)</script>" in page.visible_text, "as text"
    assert folder.abreast("report", "--format", "svg", "--output", "drawn").code == 0
    for path in (folder.path / "drawn" / "charts").iterdir():
        attributes = ElementTree.parse(path)
        assert {"script", "img"}.isdisjoint(element.tag.split("}")[1] for element in attributes.iter())


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, 0x85, 0x200B, 0x200E, 0x202E, 0x2066, 0xFEFF, 0xD800, 0xFFFF])
def test_invisible_characters_are_made_visible(code: int) -> None:
    text = printable(f"a{chr(code)}b")
    assert text == f"a{chr(code)}b" if code in (9, 10) else chr(code) not in text
    assert text.encode()
    assert len(text) > 2


BIG = """\
def predict(case, level):
    number = int(case.id.split("-")[0])
    words = "<b>'&\\" " * (150_000 if number < 3 else 1_000 if number % 2 else 40)
    return ("yes" if number % 7 or level else "no") + words + str(level)
"""


@pytest.mark.heavy
def test_a_thousand_cases_with_large_answers_fit_five_megabytes(folder: Folder) -> None:
    lines = [
        {"id": f"{n}-" + "&" * 150, "input": "<" * 900, "expected": "yes", "tags": {"long": '"' * 300}}
        for n in range(1_000)
    ]
    folder.write("cases.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    folder.write("big.py", BIG)
    folder.write("spec.yaml", SPEC.replace("model:", "big:").replace("[exact, contains]", "[contains]"))
    assert folder.abreast("run", "spec.yaml", "--parallel", "4").code == 0
    page = page_of(folder)
    assert 1_500_000 < len(page.source.encode()) < 5_000_000
    assert not page.faults
    assert re.search(r"[\d,]+ cases listed without answers, to keep this file small", page.visible_text)
    assert re.search(r"[\d,]+ further cases not listed", page.visible_text)
    assert "abreast show" in page.visible_text
    assert "bytes in all" in page.visible_text or "characters in all" in page.visible_text


DEGENERATE = {
    "one variant": "variants: {a: {target: simulated, accuracy: 0.5}}\nscorers: [exact]\n",
    "no scorer": "variants: {a: {target: simulated}, b: {target: simulated}}\n",
    "all failed": "variants: {a: {target: simulated, errors: {crash: 1.0}}, b: {target: simulated, errors: "
    "{refused: 1.0}}}\nscorers: [exact]\n",
    "infrastructure": "variants: {a: {target: simulated}, b: {target: simulated, errors: {network: 1.0}}}\n"
    "scorers: [exact]\nlimits: {retries: 0}\n",
    "all alike": "variants: {a: {target: simulated}, b: {target: simulated}}\nscorers: [exact]\n",
    "thirty repeats": "variants: {a: {target: simulated, accuracy: 0.5}, b: {target: simulated, accuracy: 0.7}}\n"
    "scorers: [exact]\nrepeats: 30\n",
    "three scores": "variants: {a: {target: simulated, accuracy: 0.5}, b: {target: simulated}}\n"
    "scorers: [exact, contains, text]\n",
    "other scripts": "variants: {'日本語の長い名前': {target: simulated}, 'اسم': {target: simulated, accuracy: 0.4}}\n"
    "scorers: [exact]\n",
    "twenty variants": "variants: {"
    + ", ".join(f"v{n}: {{target: simulated, accuracy: {0.3 + n / 40}, cost_usd: {n % 4}}}" for n in range(20))
    + "}\nscorers: [exact]\n",
}


@pytest.mark.parametrize("cases", [2, 40])
@pytest.mark.parametrize("kind", DEGENERATE)
@pytest.mark.matrix(quick=6)
def test_runs_of_every_kind_have_a_page(folder: Folder, kind: str, cases: int) -> None:
    folder.cases(cases)
    folder.write("spec.yaml", "cases: cases.jsonl\n" + DEGENERATE[kind])
    folder.abreast("run", "spec.yaml", "--yes")
    page = page_of(folder, "--all-pairs")
    assert not page.faults
    assert page.visible_text.startswith(("page", "spec", MARK)) or MARK in page.visible_text
    for word in ("nan", "None", "inf "):
        assert not re.search(rf"\b{word}\b", page.visible_text.split("The experiment as executed")[0]), word
    assert page.source.count(MARK) >= 1 + len(page.all("svg")), "on the page and on every picture"


def test_the_page_shows_what_was_not_run_and_marks_debug_runs(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml", "--debug")
    assert "DEBUG run of a few cases: not a result" in page_of(simulated).visible_text
    simulated.write("experiment.yaml", (simulated.path / "experiment.yaml").read_text() + "limits: {budget_usd: 1}\n")
    text = (simulated.path / "experiment.yaml").read_text().replace("accuracy: 0.6", "accuracy: 0.6, cost_usd: 0.1")
    simulated.write("experiment.yaml", text)
    assert simulated.abreast("run", "experiment.yaml", "--yes").code == 3
    page = page_of(simulated)
    assert re.search(r"\d+ of 80 trials were not run: budget", page.visible_text)
    assert "Scheduler events" in page.visible_text
    assert "stop 1×" in page.visible_text


def test_a_margin_is_drawn_and_mentioned(finished_run: Folder) -> None:
    with open_store(finished_run.path / "results.db") as store:
        page = Page(html.page(analyse(store, "latest", margin=0.05)))
    assert "the shaded band is the margin of ±5 points" in page.visible_text
    assert "The margin is 5.0 points." in page.all("svg")[0]["aria-label"]
    assert any(element.get("class") == "margin" for element in page.all("line"))
    assert "margin" not in page_of(finished_run).visible_text.split("The experiment as executed")[0]


def test_repeats_pairs_and_ranking_are_shown(folder: Folder) -> None:
    folder.cases(30)
    variants = ", ".join(f"v{n}: {{target: simulated, accuracy: {0.4 + n / 10}}}" for n in range(4))
    folder.write("spec.yaml", f"cases: cases.jsonl\nvariants: {{{variants}}}\nscorers: [exact]\nrepeats: 3\n")
    assert folder.abreast("run", "spec.yaml").code == 0
    page = page_of(folder, "--all-pairs")
    for part in ("v3 against v2", "ranking by wins (Bradley–Terry", "pass@3", "v0: pass^k", "repeat 1 of 3", "k = 2"):
        assert part in page.visible_text, part


def test_reused_answers_are_mentioned(simulated: Folder) -> None:
    for _ in range(2):
        assert simulated.abreast("run", "experiment.yaml").code == 0
    page = page_of(simulated)
    assert "reused" in page.visible_text
    assert "40" in page.visible_text


def test_every_chart_is_a_separate_file_that_describes_itself(simulated: Folder) -> None:
    simulated.abreast("run", "experiment.yaml")
    done = simulated.abreast("report", "--format", "svg,png", "--output", "drawn")
    assert done.code == 0, done.err
    paths = [simulated.path / line for line in done.out.split()]
    charts = [path for path in paths if path.suffix == ".svg"]
    assert {path.stem for path in charts} >= {"difference", "outcomes", "closing-in-1-better"}
    for path in charts:
        text = path.read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)
        texts = {element.tag.split("}")[1]: element.text or "" for element in root.iter()}
        assert texts["title"]
        assert len(texts["desc"]) > 20
        assert MARK in [element.text for element in root.iter() if element.tag.endswith("}text")]
        assert "prefers-color-scheme:dark" in texts["style"]
        assert text.count("http") == 1, "only the name of the format"
        assert "var(" not in text
    pixels = [path for path in paths if path.suffix == ".png"]
    assert {path.stem for path in pixels} == {path.stem for path in charts}
    for path in pixels:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5_000


# In a real browser.


def open_everything(browser: Browser, page: Path, width: int, scheme: str = "light") -> playwright.sync_api.Page:
    """Open a file and expand everything in it."""
    opened = browser.open(page, width=width, scheme=scheme)
    opened.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    return opened


def test_the_browser_detects_a_broken_page(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    page.write_text("<!doctype html><meta name=viewport content='width=device-width'><div style='width:3000px'>x</div>")
    assert overflow(browser.open(page, width=PHONE)) > 2_000
    assert not browser.problems()
    for fault, problem in (
        ("<script>throw new Error('x')</script>", "exception: x"),
        ("<script>console.error('x')</script>", "error: x"),
        ("<img src=missing.png>", "ERR_FILE_NOT_FOUND"),
        ("<img src=http://127.0.0.1:1/x>", "another origin"),
        ("<meta http-equiv=Content-Security-Policy content='script-src none'><script>1</script>", "Content Security"),
    ):
        page.write_text(f"<!doctype html><title>t</title>{fault}")
        browser.open(page)
        assert any(problem in line for line in browser.problems()), (fault, browser.problems())
    browser.expect_problem("")


def test_the_page_reads_well_in_a_real_browser(browser: Browser, finished_run: Folder) -> None:
    folder = finished_run
    done = folder.abreast("report", "--format", "html", "--output", "pages")
    papers = {}
    for width in (PHONE, DESKTOP):
        for scheme in ("light", "dark"):
            page = open_everything(browser, folder.path / done.out.strip(), width, scheme)
            assert overflow(page) <= 0, (width, scheme)
            papers[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            visible_pictures = page.evaluate(
                "[...document.querySelectorAll('svg')].filter(each => each.getBoundingClientRect().width > 0).length"
            )
            assert visible_pictures == page.evaluate("document.querySelectorAll('figure').length")
            smallest = page.evaluate(
                "Math.min(...[...document.querySelectorAll('svg text')].map(each => each.getBoundingClientRect())"
                ".filter(box => box.width > 0).map(box => box.height))"
            )
            assert smallest >= 11, "words in pictures can be read"
    assert papers["light"] != papers["dark"]


def test_long_names_without_a_space_do_not_widen_the_page(browser: Browser, folder: Folder) -> None:
    folder.write(
        "cases.jsonl",
        "".join(
            json.dumps(
                {"id": f"{n}" + "i" * 180, "input": "x" * 3_000, "expected": "y" * 900, "tags": {"t" * 90: "v" * 90}}
            )
            + "\n"
            for n in range(20)
        ),
    )
    names = ", ".join(f"{'n' * 70}{n}: {{target: simulated, accuracy: {0.4 + n / 10}}}" for n in range(3))
    folder.write("spec.yaml", f"cases: cases.jsonl\nvariants: {{{names}}}\nscorers: [exact]\n")
    assert folder.abreast("run", "spec.yaml").code == 0
    done = folder.abreast("report", "--format", "html", "--output", "pages", "--all-pairs")
    for width in (PHONE, DESKTOP):
        assert overflow(open_everything(browser, folder.path / done.out.strip(), width)) <= 0, width

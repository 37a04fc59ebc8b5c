"""Artifacts of agents: files beside the page, and their changes side by side with those of a human."""

from __future__ import annotations

import difflib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.filenames import FileNames
from abreast.report.page import artifact_files, trial_artifacts
from abreast.report.page.changes import ON_ITS_OWN, Block
from abreast.report.page.rendering import environment
from abreast.report.page.side_by_side import GAP, FilePair, ParsedDiff, SizeLimits, side_by_side
from browser import Browser, overflow
from conftest import ABREAST, WITHOUT_VERSION_5, Folder
from scripted import pairs, scripted
from test_html import Page

START = "".join(f"line {number}\n" for number in range(1, 31))
HUMAN = """\
diff --git a/code.txt b/code.txt
--- a/code.txt
+++ b/code.txt
@@ -1,30 +1,31 @@
{before}-line 10
+human 10
+shared
{after}diff --git a/old.txt b/fresh.txt
similarity index 100%
rename from old.txt
rename to fresh.txt
""".format(
    before="".join(f" line {number}\n" for number in range(1, 10)),
    after="".join(f" line {number}\n" for number in range(11, 31)),
)
AGENT = """\
import pathlib, sys
path, who = pathlib.Path("code.txt"), sys.argv[1]
text = path.read_text().replace("line 10\\n", f"{who} <b>10</b>\\nmore\\nshared\\n")
if who == "second":
    text = text.replace("line 30\\n", "the end")
    pathlib.Path("old.txt").unlink()
    pathlib.Path("picture.png").write_bytes(b"\\x89PNG\\0\\0")
    print("<script>alert(1)</script>", file=sys.stderr)
path.write_text(text)
print("done")
"""
SPEC = """\
name: changes
cases: cases.jsonl
target: command
params: {workspace: {copy: start}}
variants:
  first: {command: [python, "{folder}/agent.py", first]}
  second: {command: [python, "{folder}/agent.py", second]}
scorers: [change_similarity, {tests: {command: "cat code.txt"}}]
repeats: 2
"""


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two agents that changed files that a human changed, too; two repeats."""
    path = tmp_path_factory.mktemp("ended")
    cases = [{"id": name, "input": "Do it.", "expected": {"diff": HUMAN}} for name in ("easy", "a/b <i>")]
    (path / "start").mkdir()
    (path / "start" / "code.txt").write_text(START)
    (path / "start" / "old.txt").write_text("kept\n" * 9)
    (path / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    (path / "agent.py").write_text(AGENT)
    (path / "spec.yaml").write_text(SPEC)
    words = [*ABREAST, "run", "spec.yaml", "--parallel", "2", "--quiet"]
    subprocess.run(words, cwd=path, check=True, capture_output=True, timeout=60)
    return path


@pytest.fixture
def changed(folder: Folder, finished_run: Path) -> Folder:
    shutil.copytree(finished_run, folder.path, dirs_exist_ok=True)
    return folder


def home(folder: Folder) -> Path:
    (run_folder,) = (folder.path / "runs").iterdir()
    return run_folder


def links_of(path: Path) -> dict[str, Path]:
    """The links of a page, with the files they refer to."""
    hrefs = [link["href"] for link in Page(path.read_text(encoding="utf-8")).all("a")]
    assert all(re.fullmatch(r"(\.\./)?(artifacts|changes)/[A-Za-z0-9._/-]+", href) for href in hrefs), hrefs
    return {href: path.parent / unquote(href) for href in hrefs}


def stored_artifacts(folder: Folder) -> list[dict[str, Any]]:
    return folder.sql(
        "select c.id, v.name variant, t.repeat, a.name, a.content from artifacts a "
        "join trials t on t.run_id = a.run_id and t.position = a.position join cases c on c.digest = t.case_digest "
        "join variants v on v.run_id = t.run_id and v.variant = t.variant order by a.position, a.name"
    )


def words(page: Page, *inside: str) -> list[str]:
    return [text for path, text in page.texts if set(inside) <= set(path.split("/"))]


def test_artifacts_are_linked_unchanged_and_deleted_with_the_run(changed: Folder) -> None:
    report = home(changed) / "report.html"
    files = links_of(report)
    artifacts = {path for href, path in files.items() if href.startswith("artifacts/")}
    assert all(path.is_file() for path in files.values())
    rows = stored_artifacts(changed)
    assert len(rows) == len(artifacts) == 2 * (2 * 2 + 2 * 3)
    for row in rows:
        suffix = ".diff" if row["name"] == "diff" else f".{row['name']}.txt"
        case = "easy" if row["id"] == "easy" else "a-b-i-*"
        (path,) = report.parent.glob(f"artifacts/{case}/{row['variant']}-{row['repeat'] + 1}{suffix}")
        assert path.read_bytes() == row["content"].encode()
        artifacts.remove(path)
    assert not artifacts, "and nothing else"
    second = changed.command("report", "--format", "html", "--output", "again").out.strip()
    for path in (changed.path / "again").rglob("*.*"):
        assert path.read_bytes() == (home(changed) / path.relative_to(changed.path / "again")).read_bytes()
    assert second == "again/report.html", "one line, however many files are beside it"
    assert changed.abreast("report", "--format", "html").out.strip().endswith("report.html"), "nothing new, no new file"
    changed.abreast("delete", home(changed).name, "--yes")
    assert not (changed.path / "runs").exists()


def test_each_change_is_shown_line_by_line_beside_the_human_one(changed: Folder) -> None:
    report = Page((home(changed) / "report.html").read_text(encoding="utf-8"))
    own = Page((home(changed) / "changes" / "easy.html").read_text(encoding="utf-8"))
    for page in (report, own):
        assert not page.faults
        text = page.visible_text.replace(" : ", ": ")
        assert "the human: renamed from old.txt to fresh.txt" in text
        assert "second, repeat 1: deleted" in text
        assert "first, repeat 1: not changed" in text
        assert "second, repeat 1: added, binary, not shown" in text
        assert {"−", "line 10"} <= set(words(page, "del"))
        assert {"+", "human 10", "shared", "first <b>10</b>"} <= set(words(page, "ins"))
        assert "(no line break at the end)" in page.visible_text
        assert "line 5" not in words(page, "span"), "far from any change"
        assert "… 6 lines" in page.visible_text.replace("⋯", "…")
    assert "first, repeat 2 next to the human" in own.visible_text
    assert '{"diff"' not in report.visible_text.split("The experiment as executed")[0], "it is shown below"
    row = re.search(
        r"second 2 diff stderr tests ok 0\.\d+ 0\.\d+ 1\b",
        report.visible_text[report.visible_text.index("Artifacts of trials") :],
    )
    assert row, "outcome, scores and links of each trial"


def test_a_page_without_artifact_files_says_how_to_see_them(changed: Folder) -> None:
    done = changed.abreast("report", "--format", "html", "--no-artifacts", "--output", "alone")
    assert [path.name for path in (changed.path / "alone").iterdir()] == ["report.html"]
    page = Page((changed.path / done.out.strip()).read_text(encoding="utf-8"))
    assert not page.all("a")
    assert "20 artifacts in the store, none written: abreast show" in page.visible_text
    assert "human 10" in words(page, "ins"), "changes are part of the page"


def test_files_beside_a_page_are_never_overwritten_and_foreign_ones_are_kept(changed: Folder) -> None:
    path = home(changed) / "artifacts" / "easy" / "first-1.diff"
    path.write_text("mine")
    done = changed.abreast("report", "--format", "html")
    assert path.read_text() == "mine"
    hrefs = links_of(changed.path / done.out.strip())
    assert hrefs["artifacts/easy/first-1-2.diff"].read_text().startswith("diff --git")
    output = changed.abreast("delete", home(changed).name, "--yes").out
    assert "artifacts/easy/first-1.diff was not written by abreast, or changed since" in output
    assert path.exists()


def test_without_a_human_change_the_agents_are_side_by_side(folder: Folder) -> None:
    folder.write("greet.md", "Write a greeting into answer.txt.")
    command = {"commandTemplate": "printf 'hello\\n%s\\n' NAME > answer.txt"}
    names = ("polite", "brief", "silent")
    config = {name: {"commandTemplate": command["commandTemplate"].replace("NAME", name)} for name in names[:2]}
    folder.write(
        "settings.json",
        json.dumps(
            {
                "num_prompts": 1,
                "prompts": ["greet.md"],
                "assistants": list(names),
                "agent_config": {**config, "silent": {"commandTemplate": "true"}},
            }
        ),
    )
    assert folder.abreast("run", "settings.json", "--quiet", "--check", "test -s answer.txt").code == 0
    (path,) = (home(folder) / "changes").iterdir()
    page = Page(path.read_text(encoding="utf-8"))
    assert "Left: the change of the baseline polite" in page.visible_text
    assert "brief next to polite" in page.visible_text
    assert words(page, "ins").count("hello") == 2
    assert {"polite", "brief"} <= set(words(page, "ins"))
    assert "silent" not in page.visible_text, "it left no change, and nothing was printed"


HOSTILE = "<script>alert(1)</script>\"'&amp;\u202egnp\u001b[31m</pre></style><img src=x onerror=alert(2)>"
WRITES = """\
from abreast import Answer

def act(case, told):
    told = dict(told)
    if "lines" in told:
        told["diff"] = "--- a/x\\n+++ b/x\\n@@ -0,0 +1,9 @@\\n" + "+y\\n" * told.pop("lines")
    return Answer("done", artifacts=told)
"""


def leave(folder: Folder, ids: list[str], variants: dict[str, dict[str, Any]], expected: Any = "done") -> Path:
    """Run trials that leave these artifacts; return the page of the run."""
    folder.write("cases.jsonl", "".join(json.dumps({"id": i, "input": "?", "expected": expected}) + "\n" for i in ids))
    folder.write("writes.py", WRITES)
    spec = {
        "cases": "cases.jsonl",
        "target": "python:writes:act",
        "variants": {name: {"told": artifacts} for name, artifacts in variants.items()},
        "scorers": ["exact"],
    }
    folder.write("spec.json", json.dumps(spec))
    done = folder.abreast("run", "spec.json", "--quiet", "--parallel", "4")
    assert done.code == 0, done.err
    return home(folder) / "report.html"


def test_hostile_names_and_contents_stay_in_their_folder_and_are_never_executed(folder: Folder) -> None:
    visible = HOSTILE.replace("\u001b", "")  # names have no invisible characters
    ids = ["../../../etc/passwd", visible, "case", "CASE", "x" * 200, "con", "日本語", "a b", "a?b#c"]
    header = f"diff --git a/{visible} b/{visible}\nnew file mode 100644\n--- /dev/null\n+++ b/{visible}\n"
    diff = f"{header}@@ -0,0 +1 @@\n+{HOSTILE}\n"
    hostile = {"diff": diff, visible: HOSTILE, "index.html": "<script>alert(3)</script>", "../up": "x"}
    report = leave(folder, ids, {f"v{visible}": hostile, "b/../..": {**hostile, "diff": HOSTILE}})
    files = links_of(report)
    inside = report.parent.resolve()
    assert len(set(files.values())) == len(ids) * (2 * 4 + 1)
    assert all(path.resolve().is_relative_to(inside) and path.is_file() for path in files.values())
    assert len({str(path).lower() for path in files.values()}) == len(set(files.values())), "on any file system"
    beside_it = [path for path in inside.rglob("*") if path.is_file() and path.parent != inside]
    assert {path.suffix for path in beside_it if path.parent.name != "changes"} == {".diff", ".txt"}
    assert all(len(path.name) < 200 for path in beside_it)
    assert sorted(path.name for path in folder.path.iterdir() if "passwd" in path.name) == []
    for path in (report, *(inside / "changes").iterdir()):
        page = Page(path.read_text(encoding="utf-8"))
        assert not page.faults, page.faults[:3]
        assert {"script", "img"}.isdisjoint(tag for tag, _ in page.elements)
        assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.source)
    own = Page((inside / "changes" / "case.html").read_text(encoding="utf-8"))
    assert "cannot be parsed as a diff" in own.visible_text
    assert "‹U+202E›" in own.visible_text
    assert "<script>alert(1)</script>" in " ".join(words(own, "ins"))
    folder.abreast("delete", home(folder).name, "--yes")
    assert not (folder.path / "runs").exists()


def test_oversized_artifacts_are_omitted_with_a_note(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_artifacts, "LISTED", 12)
    monkeypatch.setattr(artifact_files, "MAX_ARTIFACT_BYTES", 3_000)
    monkeypatch.setattr(artifact_files, "MAX_TOTAL_BYTES", 10_000)
    monkeypatch.setattr(artifact_files, "MAX_PAGES_BYTES", 40_000)
    report = leave(folder, [f"c{n}" for n in range(9)], {"a": {"lines": 9, "log": "x" * 2_000}, "b": {"lines": 2_000}})
    page = Page(report.read_text(encoding="utf-8"))
    files = links_of(report)
    written = [path for path in files.values() if path.parent.name != "changes"]
    assert 0 < sum(path.stat().st_size for path in written) <= 10_000
    assert f"{27 - len(set(written))} artifacts of 27 not written, to save space" in page.visible_text
    assert "diff 6 kB, not written" in page.visible_text
    assert "--artifact NAME" in page.visible_text
    pages = [path for path in files.values() if path.parent.name == "changes"]
    assert 0 < sum(path.stat().st_size for path in set(pages)) <= 40_000
    assert re.search(r"\d cases? without a page of changes", page.visible_text)
    assert not page.faults


def test_the_line_limit_is_respected_and_every_case_keeps_its_human_change(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_files, "LINES", 200)
    human = "--- a/x\n+++ b/x\n@@ -1,40 +1,41 @@\n" + " y\n" * 40 + "+z\n"
    report = leave(folder, [f"c{n}" for n in range(5)], {"a": {"lines": 9}, "b": {"lines": 5}}, {"diff": human})
    pages = list((report.parent / "changes").iterdir())
    assert 0 < len(pages) < 5
    for path in pages:
        assert "Left: the human's change" in Page(path.read_text(encoding="utf-8")).visible_text


def test_an_unfinished_report_is_removed_with_its_run(changed: Folder) -> None:
    run_folder = home(changed)
    shutil.rmtree(run_folder)
    run_folder.mkdir()
    (run_folder / "changes").write_text("in the way")
    done = changed.abreast("report", "--format", "html")
    assert done.code == 2
    assert "cannot write the report" in done.err
    assert any((run_folder / "artifacts").rglob("*.diff"))
    (run_folder / "changes").unlink()
    changed.abreast("delete", home(changed).name, "--yes")
    assert not (changed.path / "runs").exists()


def test_a_partly_stored_diff_is_mentioned(folder: Folder) -> None:
    start = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    lost = start + "@@ -9,999 +9,1 @@\n???\n-lost\n"
    report = leave(folder, ["c"], {"a": {"diff": lost}, "b": {"diff": start * 2}}, {"diff": start})
    page = Page((report.parent / "changes" / "c.html").read_text(encoding="utf-8"))
    assert "a: parts of the diff cannot be parsed and are left out" in page.visible_text
    assert "b next to the human" in page.visible_text


def test_runs_without_artifacts_and_stores_of_older_versions_have_a_page(folder: Folder) -> None:
    scripted(folder, pairs(3, 2, 2))
    connection = apsw.Connection(str(folder.path / "results.db"))
    connection.execute("DROP VIEW metrics; DROP VIEW predictions")
    connection.execute(WITHOUT_VERSION_5)
    connection.execute("CREATE VIEW predictions AS SELECT 1 AS one; CREATE VIEW metrics AS SELECT 1 AS one")
    connection.execute("PRAGMA user_version=4")
    connection.close()
    done = folder.abreast("report", "--format", "html", "--output", "pages")
    assert done.code == 0, done.err
    page = Page((folder.path / done.out.strip()).read_text(encoding="utf-8"))
    assert "Artifacts of trials" not in page.visible_text
    assert "All cases" in page.visible_text
    assert [path.name for path in (folder.path / "pages").iterdir()] == ["report.html"]


# Arbitrary text.

BLOCK = environment().from_string('{% import "diff.html.j2" as diff %}{{ diff.block(block) }}')
TAGS = {"div", "p", "h5", "span", "ins", "del", "i", "b", "small", "pre"}
FEW = SizeLimits(3_000, 40, 60, 500)


def render(human: str | None, agent: str, limits: SizeLimits = FEW) -> tuple[list[FilePair], str]:
    """Render two changes side by side; return their file pairs and the HTML."""
    first, second = None if human is None else ParsedDiff.read(human), ParsedDiff.read(agent)
    pairs = side_by_side(first, second, limits)
    plain = [("x", diff.plain[: limits.plain]) for diff in (first, second) if diff and diff.plain]
    block = Block("" if first is None else "the human", "x", pairs, second.notes, plain)
    text = BLOCK.render(block=block)
    page = Page(text)
    assert not page.faults
    assert {tag for tag, _ in page.elements} <= TAGS
    attributes = {name for _, attrs in page.elements for name in attrs}
    assert attributes <= {"class", "style"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)
    for pair in pairs.pairs:
        assert not pair.aligned or len(pair.left) == len(pair.right)
        assert max(len(pair.left), len(pair.right)) <= limits.rows
    return pairs.pairs, text


odd_lines = st.sampled_from(
    [
        *("diff --git a/x b/x", "diff --git a/x b/y", 'diff --git "a/\\303" "b/\\"', "diff --cc x", "diff --git "),
        *("--- a/x", "+++ b/x", "--- /dev/null", "+++ /dev/null", "rename from x", "rename to <b>", "copy from x"),
        *("copy to y", "new file mode 100755", "deleted file mode 100644", "new mode <i>", "GIT binary patch"),
        *("@@ -1 +1 @@", "@@ -1,3 +1,2 @@", "@@ -0,0 +1,99 @@", "@@ -999999999 +1 @@", "@@ -2,2 +1 @@ x", "@@@ -1 @@@"),
        *(" kept", "-gone", "+new", "+<script>x</script>", "\\ No newline at end of file", "", "\r", "\x00", "-" * 300),
    ]
)
diffs = st.one_of(st.text(max_size=80), st.lists(odd_lines | st.text(max_size=9), max_size=40).map("\n".join))


@settings(max_examples=250, deadline=None)
@given(diffs | st.none(), diffs)
def test_any_text_as_a_diff_is_shown_bounded_and_escaped(human: str | None, agent: str) -> None:
    _, text = render(human, agent)
    assert len(text.encode()) < 40_000


@settings(max_examples=150, deadline=None)
@given(*[st.lists(st.sampled_from(["a", "b", "c", "d", "{", "}", ""]), max_size=12)] * 3)
def test_two_changes_of_the_same_lines_are_complete_and_aligned_to_the_original(
    before: list[str], human: list[str], agent: list[str]
) -> None:
    def diff(after: list[str], context: int) -> str:
        lines = difflib.unified_diff(before, after, "a/x", "b/x", lineterm="", n=context)
        return "".join(f"{line}\n" for line in lines)

    if before in (human, agent):
        return
    (pair,), _ = render(diff(human, 1_000), diff(agent, 3), ON_ITS_OWN)
    assert pair.aligned
    for side, after in ((pair.left, human), (pair.right, agent)):
        cells = [cell for cell in side if cell.sign]
        at, lines = 0, []
        for cell in cells:
            if cell.sign == GAP:
                lines += before[at : at + int(cell.text.split()[0])]
                at += int(cell.text.split()[0])
            elif cell.sign == "+":
                lines.append(cell.text)
            else:
                assert (cell.number, cell.text) == (at + 1, before[at])
                at += 1
                lines += [cell.text] if cell.sign == " " else []
        assert lines + before[at:] == after
    assert all(a.number == b.number for a, b in zip(pair.left, pair.right, strict=True) if a.number)


def test_lines_added_by_both_are_aligned() -> None:
    first_diff = "--- a/x\n+++ b/x\n@@ -1 +1,4 @@\n keep\n+a\n+same\n+end\n"
    other = "--- a/x\n+++ b/x\n@@ -1 +1,6 @@\n keep\n+1\n+2\n+3\n+same\n+end\n"
    ((pair,), _) = render(first_diff, other)
    rows = [(a.text, b.text) for a, b in zip(pair.left, pair.right, strict=True)]
    assert rows == [("keep", "keep"), ("a", "1"), ("", "2"), ("", "3"), ("same", "same"), ("end", "end")]


def test_changes_of_different_original_lines_are_shown_separately() -> None:
    first_diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    other = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n eins\n-zwei\n+2\n"
    ((pair,), text) = render(first_diff, other)
    assert not pair.aligned
    assert "did not start from the same lines" in text
    assert "zwei" in text
    assert "one" in text


def test_large_changes_are_truncated_with_a_note() -> None:
    many = "".join(f"diff --git a/f{n} b/f{n}\nnew file mode 100755\n" for n in range(40_000))
    pairs_, text = render(None, many)
    assert 0 < len(pairs_) < 20
    assert re.search(r"files not shown: f\d+, .* and 39,9\d\d further files", text)
    line = "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+" + "<" * 2_000_000 + "\n"
    _, text = render(None, line)
    assert len(text) < 2_000
    assert "(2,000,000 characters in all)" in text
    tall = "--- a/x\n+++ b/x\n@@ -0,0 +1,100000 @@\n" + "+x\n" * 100_000
    _, text = render(tall, tall)
    assert text.count("<ins>") <= 2 * FEW.rows
    assert "further lines of this file are left out" in text


@given(st.lists(st.text(max_size=70), unique=True, max_size=20))
def test_file_names_of_any_texts_are_safe_and_differ_everywhere(texts: list[str]) -> None:
    names = FileNames()
    results = [names.of(text) for text in texts]
    assert [names.of(text) for text in texts] == results
    assert len({name.lower() for name in results}) == len(texts)
    assert all(re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,120}[A-Za-z0-9])?", name) for name in results)


def test_changes_read_well_in_a_real_browser(browser: Browser, changed: Folder) -> None:
    shutil.copytree(home(changed), changed.path / "moved away")
    report = changed.path / "moved away" / "report.html"
    own = report.parent / "changes" / "easy.html"
    sides = """() => {
        const lines = [...document.querySelector(".aligned").querySelectorAll("ins, del, span")];
        const places = lines.map((line) => line.getBoundingClientRect()).filter((place) => place.width > 0);
        return [places[0].left, places.at(-1).left];
    }"""
    for page in (report, own):
        for width, scheme in ((400, "light"), (1280, "dark"), (400, "dark"), (1280, "light")):
            opened = browser.open(page, width=width, scheme=scheme)
            assert overflow(opened) <= 0, (page.name, width)
            begin, end = opened.evaluate(sides)
            assert (end > begin + 100) == (width > 1_000), "beside each other, or one below the other"
    assert all(path.is_file() for path in links_of(report).values()), "links work wherever the folder is"

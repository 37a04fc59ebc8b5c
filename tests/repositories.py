"""Repositories for tests: one in which every commit has its date, and one with pull requests in all three styles."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

QUIET = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
BEGINNING = 1_700_000_000
SQUASHED = """Greet people by their name (#12)

A greeting without a name is cold, see src/app.py:2 and [the discussion](https://github.com/us/shop/pull/12).
It goes back to 0123abcd4567, and `greet` needs a name.

- keep the comma
    also on the second line of an item

```python
def greet(name): return "SECRET fenced"
```

    return "SECRET indented"

diff --git a/src/app.py b/src/app.py
@@ -1 +1 @@
-SECRET old
+SECRET new

See us/shop#12.
---------
Co-authored-by: Ann <ann@example.org>
Signed-off-by: Bob <bob@example.org>
"""


class Project:
    """A repository in which every commit has its date."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = BEGINNING
        path.mkdir(parents=True)
        self.git("init", "--quiet", "-b", "main")

    def git(self, *words: str, author: str = "ann", check: bool = True) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        people = {"GIT_AUTHOR_NAME": author, "GIT_AUTHOR_EMAIL": f"{author}@example.org"}
        people |= {"GIT_COMMITTER_NAME": "host", "GIT_COMMITTER_EMAIL": "host@example.org"}
        dates = {f"GIT_{role}_DATE": f"{self.now} +0000" for role in ("AUTHOR", "COMMITTER")}
        done = subprocess.run(
            ["git", *words], cwd=self.path, env={**clean, **QUIET, **people, **dates}, capture_output=True
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.decode().strip()

    def file_text(self, commit: str, path: str) -> str:
        """The text of a file at a commit; empty if it does not exist."""
        done = subprocess.run(["git", "show", f"{commit}:{path}"], cwd=self.path, capture_output=True)
        return done.stdout.decode()

    def write(self, **files: str | bytes) -> None:
        for name, content in files.items():
            self.put(name.replace("__", "/").replace("_", "."), content)

    def put(self, name: str, content: str | bytes) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self, message: str, after: int = 3600, author: str = "ann") -> str:
        self.now += after
        self.git("add", "-A")
        self.git("commit", "--quiet", "--allow-empty", "-m", message, author=author)
        return self.head()

    def merge(self, message: str, *words: str) -> str:
        self.now += 3600
        self.git("merge", "--quiet", "--no-ff", "-m", message, *words)
        return self.head()

    def branch(self, name: str) -> None:
        self.git("checkout", "--quiet", "-b", name)

    def main(self) -> None:
        self.git("checkout", "--quiet", "main")

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")


def app(*lines: str) -> str:
    return "".join(f"{line}\n" for line in ("# the shop", *lines))


class Shop(Project):
    """A repository with six pull requests, two of each style, among other commits."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.base: dict[str, str] = {}
        self.head_of: dict[str, str] = {}
        self.write(src__app_py=app("def greet(): pass"), VERSION="1.0.0\n", CHANGELOG="1.0.0\n")
        self.put("src/old_helper.py", "".join(f"line {n}\n" for n in range(30)))
        self.put("logo.bin", b"\0\1\2")
        self.commit("Begin")
        self._merged_by_a_host()
        self._squashed()
        self._rebased()
        self.write(VERSION="1.1.0\n", CHANGELOG="1.1.0: names\n1.0.0\n")
        self.commit("Release 1.1.0 (#13)")
        self._merged_by_hand()
        self._taken_back()
        self._octopus()
        self._squashed_again()
        self._pulled()
        self._rebased_again()
        self._merged_for_nothing()

    def begin(self, name: str) -> None:
        self.base[name] = self.head()

    def end(self, name: str) -> None:
        self.head_of[name] = self.head()

    def _merged_by_a_host(self) -> None:
        self.branch("prices")
        self.write(src__prices_py="PRICE = 1\n")
        self.commit("wip")
        self.main()
        self.write(README="A shop.\n")
        self.commit("A lone commit")
        self.git("checkout", "--quiet", "prices")
        self.merge("Merge branch 'main' into prices", "main")  # the trap: main in a feature branch
        self.write(src__prices_py="PRICE = 2\n")
        self.commit("more wip")
        self.main()
        self.begin("pr-11")
        self.merge("Merge pull request #11 from ann/prices\n\nPrices for everything\n\nEach thing has one.", "prices")
        self.end("pr-11")

    def _squashed(self) -> None:
        self.begin("pr-12")
        self.write(src__app_py=app("def greet(name): return f'Hello, {name}'"))
        self.put("tests/test_app.py", "def test_greet(): pass\n")
        self.put("größe/naïve name.txt", "ü\n")
        self.commit(SQUASHED)
        self.end("pr-12")

    def _rebased(self) -> None:
        self.begin("rebase-1")
        self.write(src__basket_py="ITEMS = []\n")
        self.commit("Add a basket\n\nPeople buy several things.", author="bob")
        self.write(src__basket_py="ITEMS = []\nLIMIT = 5\n")
        self.commit("Limit the basket to five", after=0, author="bob")
        self.end("rebase-1")

    def _merged_by_hand(self) -> None:
        self.branch("rename-helper")
        self.git("mv", "src/old_helper.py", "src/new_helper.py")
        self.put("src/new_helper.py", "".join(f"line {n}\n" for n in range(29)) + "without end")
        self.put("logo.bin", b"\0\1\3")
        self.commit("Call the helper by its new name")
        self.main()
        self.begin("merge-2")
        self.merge("Merge branch 'rename-helper'", "rename-helper")
        self.end("merge-2")

    def _taken_back(self) -> None:
        self.write(src__shout_py="SHOUT = True\n")
        self.commit("Shout at everyone (#15)")
        self.git("rm", "--quiet", "src/shout.py")
        self.commit('Revert "Shout at everyone (#15)" (#16)\n\nReverts us/shop#15')

    def _octopus(self) -> None:
        for name in ("one", "two"):
            self.git("checkout", "--quiet", "-b", name, "main")
            self.put(f"{name}.txt", name)
            self.commit(f"Add {name}")
        self.main()
        self.merge("Merge branches 'one' and 'two'", "one", "two")

    def _squashed_again(self) -> None:
        self.begin("pr-17")
        self.git("rm", "--quiet", "README")
        self.put("src/app.spec.ts", "it('works')\n")
        self.commit("Remove the outdated readme (#17)")
        self.end("pr-17")

    def _pulled(self) -> None:
        self.git("checkout", "--quiet", "-b", "elsewhere", "main~1")
        self.put("elsewhere.txt", "x")
        self.commit("Work of others")
        self.main()
        self.merge("Merge branch 'main' of https://example.org/us/shop", "elsewhere")

    def _rebased_again(self) -> None:
        self.begin("rebase-2")
        for number in range(3):
            self.write(src__basket_py=f"ITEMS = []\nLIMIT = {6 + number}\n")
            subject = ("Let people buy more", "fixup! Let people buy more", "Count to eight")[number]
            self.commit(subject, after=2 if number else 3600, author="cleo")
        self.end("rebase-2")
        self.write(src__app_py=app("def greet(name): return f'Hello, {name}!'"))
        self.commit("Another lone commit", after=3, author="bob")

    def _merged_for_nothing(self) -> None:
        self.branch("forgotten")
        self.put("forgotten.txt", "x")
        self.commit("Forget this")
        self.main()
        self.merge("Merge pull request #18 from ann/forgotten\n\nNothing of it is taken", "-s", "ours", "forgotten")

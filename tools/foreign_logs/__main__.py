"""Make the logs of other tools in `tests/logs`: `python tools/foreign_logs [TOOL ...]`.

Each tool runs our own small task in an environment of its own, without network: `questions.py` has the questions and
the canned replies. The environments go to `.tools/foreign`; they need about 3 GB, npm, and Python 3.12 for Harbor.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]


class Log(NamedTuple):
    """One folder of logs: the script that writes it, and the packages that its environment needs."""

    folder: str
    script: str
    packages: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    python: str = "python3.11"


LOGS = [
    Log("inspect", "inspect_logs.py", ("inspect-ai==0.3.285",)),
    Log("inspect/0.3.60", "inspect_logs.py", ("inspect-ai==0.3.60", "textual<1"), ("json",)),
    Log("lm-eval", "lm_eval_logs.py", ("lm-eval==0.4.13",)),
    Log("lm-eval/0.4.2", "lm_eval_logs.py", ("lm-eval==0.4.2", "datasets<3", "transformers<4.50")),
    Log("promptfoo", "promptfoo_logs.py", ("npm:promptfoo@0.121.20",)),
    Log("promptfoo/0.57.1", "promptfoo_logs.py", ("npm:promptfoo@0.57.1",), ("0.57.1",)),
    Log("pydantic-evals", "pydantic_evals_logs.py", ("pydantic-evals==2.62.0",)),
    Log(
        "pydantic-evals/1.0.0",
        "pydantic_evals_logs.py",
        ("pydantic-evals==1.0.0", "opentelemetry-api<1.37", "opentelemetry-sdk<1.37"),
    ),
    Log("harbor", "harbor_logs.py", ("harbor==0.24.0",), python="python3.12"),
]
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    "HARBOR_TELEMETRY": "0",
    "DO_NOT_TRACK": "1",
}


def environment(log: Log, folder: Path) -> Path:
    """The folder of executables in which the packages of a log are installed."""
    place = folder / log.folder.replace("/", "-")
    npm = [package.removeprefix("npm:") for package in log.packages if package.startswith("npm:")]
    executables = place / "node_modules/.bin" if npm else place / "bin"
    if (place / "ready").exists():
        return executables
    if npm:
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--prefix", str(place), "--no-audit", "--no-fund", *npm], check=True)
    else:
        subprocess.run([log.python, "-m", "venv", str(place)], check=True)
        subprocess.run([str(executables / "pip"), "install", "--quiet", *log.packages], check=True)
    (place / "ready").touch()
    return executables


def make(log: Log, environments: Path) -> None:
    """Run the script in a temporary folder, remove what identifies this machine, and replace the committed logs."""
    executables = environment(log, environments.resolve())
    python = executables / "python"
    with tempfile.TemporaryDirectory(prefix="logs-") as name:
        scratch = Path(name)
        for source in [*HERE.glob("*.py"), *HERE.glob("*.cjs")]:
            if source.name != "__main__.py":
                shutil.copy(source, scratch)
        home = scratch / "home"
        home.mkdir()
        variables = {**os.environ, **OFFLINE, "HOME": name + "/home", "PATH": f"{executables}:{os.environ['PATH']}"}
        command = [str(python) if python.exists() else sys.executable, log.script, "out", *log.arguments]
        (scratch / "out").mkdir()
        subprocess.run(command, cwd=scratch, env=variables, check=True)
        for path in [path for path in (scratch / "out").rglob("*") if path.is_file()]:
            remove_machine(path, name, environments)
        target = REPOSITORY / "tests/logs" / log.folder
        target.mkdir(parents=True, exist_ok=True)
        for path in target.iterdir():
            if path.is_file() or not any(other.folder == f"{log.folder}/{path.name}" for other in LOGS):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in (scratch / "out").iterdir():
            shutil.move(path, target / path.name)
    print(log.folder, sum(path.stat().st_size for path in target.rglob("*") if path.is_file()), "bytes")


def remove_machine(path: Path, scratch: str, environments: Path) -> None:
    """Replace folders and the names of the host and the user in a text file."""
    if path.suffix == ".eval":  # a zip archive; its script leaves no paths in it
        return
    text = path.read_text(encoding="utf-8")
    for folder in (f"/private{scratch}", scratch, str(environments.resolve()), str(REPOSITORY), sys.base_prefix):
        text = text.replace(folder, "FOLDER")
    text = text.replace(str(Path.home()), "HOME").replace(os.uname().nodename + "/", "HOST/")
    path.write_text(re.sub(r"/(?:tmp|work|home|root)/[\w.-]+", "FOLDER", text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", nargs="*", help="folders in tests/logs; all by default")
    parser.add_argument("--environments", type=Path, default=REPOSITORY / ".tools/foreign")
    options = parser.parse_args()
    for log in LOGS:
        if not options.tools or log.folder in options.tools:
            make(log, options.environments)


if __name__ == "__main__":
    main()

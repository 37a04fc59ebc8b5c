"""GitHub for tests of the action: its runner, its cache and its API, as far as the action needs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
TOKEN = "ghs_" + "t0ken" * 8
PAGE = 2  # comments per page, fewer than the action asks for


class Api:
    """The API for comments on issues."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.refuse: tuple[int, str] | None = None  # status and message of every answer
        self.next_page: str | None = None  # instead of the real one
        self.requests: list[str] = []
        self.url = ""

    def add(self, body: str, kind: str = "User", association: str = "NONE") -> dict[str, Any]:
        user = {"login": "github-actions[bot]" if kind == "Bot" else "stranger", "type": kind}
        item = {"id": len(self.comments) + 1, "body": body, "user": user, "author_association": association}
        self.comments.append(item)
        return item

    @property
    def own(self) -> list[str]:
        """The comments that the action wrote."""
        return [item["body"] for item in self.comments if item["user"]["type"] == "Bot"]


def _handler(api: Api) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def _reply(self, status: int, value: Any, **headers: str) -> None:
            content = json.dumps(value).encode()
            self.send_response(status)
            for name, text in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(content)

        def _handle(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
            api.requests.append(f"{self.command} {self.path}")
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._reply(401, {"message": "Bad credentials"})
            elif api.refuse is not None:
                status, message = api.refuse
                self._reply(status, {"message": message}, Location=f"{api.url}/elsewhere")
            elif self.command == "GET" and (
                match := re.search(r"/repos/o/r/issues/7/comments\?.*?(?:&page=(\d+))?$", self.path)
            ):
                page = int(match[1] or 1)
                link = f'<{api.url}/repos/o/r/issues/7/comments?per_page={PAGE}&page={page + 1}>; rel="next"'
                more = {"Link": api.next_page or link} if page * PAGE < len(api.comments) else {}
                self._reply(200, api.comments[(page - 1) * PAGE : page * PAGE], **more)
            elif self.command == "POST" and self.path == "/repos/o/r/issues/7/comments":
                self._reply(201, api.add(body["body"], "Bot"))
            elif self.command == "PATCH" and (match := re.fullmatch(r"/repos/o/r/issues/comments/(\d+)", self.path)):
                api.comments[int(match[1]) - 1]["body"] = body["body"]
                self._reply(200, api.comments[int(match[1]) - 1])
            else:
                self._reply(404, {"message": "Not Found"})

        do_GET = do_POST = do_PATCH = _handle

    return Handler


@contextmanager
def serving() -> Iterator[Api]:
    api = Api()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Job:
    """What a job that used the action left behind."""

    code: int
    log: str
    summary: str
    outputs: dict[str, str]
    steps: dict[str, str]  # the outcome of each step, by its name

    @property
    def commands(self) -> list[str]:
        """The workflow commands that a runner would execute."""
        found, stopped = [], None
        for line in self.log.splitlines():
            match = re.match(r"\s*::([\w-]+)(?: [^:]*)?::(.*)", line)
            if stopped is not None:
                stopped = None if match and match[1] == stopped else stopped
            elif match and match[1] == "stop-commands":
                stopped = match[2]
            elif match or re.search(r"##\[[\w-]+[ \]]", line):
                found.append(line)
        assert stopped is None, "commands stayed switched off"
        return found


@dataclass
class Runner:
    """Executes the steps of the action in a checkout, as a runner does."""

    checkout: Path
    state: Path  # what GitHub keeps: the cache
    api: Api
    jobs: int = 0
    skip: tuple[str, ...] = ("Install abreast",)
    cache: list[tuple[str, Path]] = field(default_factory=list)  # keys with their files, oldest first

    def push(self, branch: str = "main", **inputs: str) -> Job:
        return self._job({"GITHUB_EVENT_NAME": "push", "GITHUB_REF_NAME": branch}, {"after": "0" * 40}, inputs)

    def pull_request(self, base: str = "main", **inputs: str) -> Job:
        variables = {
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_REF_NAME": "7/merge",
            "GITHUB_BASE_REF": base,
            "GITHUB_HEAD_REF": "feature",
        }
        return self._job(variables, {"pull_request": {"number": 7}}, inputs)

    def _job(self, variables: Mapping[str, str], event: Mapping[str, Any], inputs: Mapping[str, str]) -> Job:
        self.jobs += 1
        folder = self.state / f"job-{self.jobs}"
        (folder / "temp").mkdir(parents=True)
        (folder / "event.json").write_text(json.dumps(event))
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(folder),
            "ABREAST_STATE": os.environ.get("ABREAST_STATE", str(folder / "state")),
            "NO_PROXY": "127.0.0.1",
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_API_URL": self.api.url,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": str(1000 + self.jobs),
            "GITHUB_WORKSPACE": str(self.checkout),
            "RUNNER_TEMP": str(folder / "temp"),
            **variables,
        }
        defaults = {name: setting.get("default", "") for name, setting in ACTION["inputs"].items()}
        context = {"github.token": TOKEN}
        context |= {f"inputs.{name}": _filled(text, context) for name, text in defaults.items()}
        context |= {f"inputs.{name.replace('_', '-')}": text for name, text in inputs.items()}
        return self._steps(folder, environment, context)

    def _steps(self, folder: Path, environment: dict[str, str], context: dict[str, str]) -> Job:
        code, log, summary, outcomes = 0, "", "", {}
        for number, step in enumerate(ACTION["runs"]["steps"]):
            name, identity = step["name"], step.get("id", f"step-{number}")
            if name in self.skip or not _holds(step.get("if", "true"), context, failed=code != 0):
                outcomes[name] = context[f"steps.{identity}.outcome"] = "skipped"
                continue
            if "uses" in step:
                settings = {key: _filled(text, context) for key, text in step["with"].items()}
                outputs, done = self._use(step["uses"], settings, folder, number), 0
            else:
                files = {key: folder / f"{key}-{number}" for key in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
                own = {key: _filled(str(text), context) for key, text in step.get("env", {}).items()}
                result = subprocess.run(
                    ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                    cwd=self.checkout,
                    env={**environment, **own, **{key: str(path) for key, path in files.items()}},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=120,
                )
                done, log = result.returncode, f"{log}{result.stdout}"
                outputs = _outputs(files["GITHUB_OUTPUT"])
                summary += files["GITHUB_STEP_SUMMARY"].read_text() if files["GITHUB_STEP_SUMMARY"].exists() else ""
            outcomes[name] = context[f"steps.{identity}.outcome"] = "failure" if done else "success"
            context |= {f"steps.{identity}.outputs.{key}": text for key, text in outputs.items()}
            code = code or done
        values = {key: _filled(output["value"], context) for key, output in ACTION["outputs"].items()}
        return Job(code, log, summary, values, outcomes)

    def _use(self, action: str, settings: dict[str, str], folder: Path, number: int) -> dict[str, str]:
        """actions/cache: keys with a comma are refused, and the newest one that begins with the prefix is restored."""
        assert "," not in settings["key"]
        if action == "actions/cache/save@v4":
            copy = folder / f"cache-{number}"
            for path in sorted(self.checkout.glob(settings["path"])):
                copy.mkdir(exist_ok=True)
                shutil.copy(path, copy)
            self.cache.append((settings["key"], copy))
            return {}
        assert action == "actions/cache/restore@v4", action
        for key, copy in reversed(self.cache):
            if key == settings["key"] or key.startswith(settings["restore-keys"]):
                shutil.copytree(copy, self.checkout / Path(settings["path"]).parent, dirs_exist_ok=True)
                return {"cache-matched-key": key}
        return {}


def _outputs(path: Path) -> dict[str, str]:
    text = path.read_text() if path.exists() else ""
    return {match[1]: match[3] for match in re.finditer(r"^(\w+)<<(\S+)\n(.*?)\n\2$", text, re.M | re.S)}


def _filled(text: str, context: Mapping[str, str]) -> str:
    """The text with its expressions evaluated."""
    return re.sub(r"\$\{\{ (.+?) \}\}", lambda match: _value(match[1], context), text)


def _value(expression: str, context: Mapping[str, str]) -> str:
    if expression.startswith("'"):
        return expression.strip("'")
    is_output = re.fullmatch(r"steps\.[\w-]+\.(outputs\.[\w-]+|outcome)", expression)
    return context.get(expression, "") if is_output else context[expression]


def _holds(condition: str, context: Mapping[str, str], failed: bool) -> bool:
    """Whether the `if` of a step holds: terms joined by `&&`."""
    terms = [term.strip() for term in condition.split("&&")]
    if failed and "always()" not in terms:
        return False
    for term in terms:
        match = re.fullmatch(r"(\S+) (==|!=) (\S+)", term)
        if match and (_value(match[1], context) == _value(match[3], context)) != (match[2] == "=="):
            return False
        assert match or term in ("always()", "true"), term
    return True

"""A job folder of Harbor: two models, two attempts, two rewards; an overloaded provider, a timeout, a failed set-up.

Runs in an environment of Harbor: `python harbor_logs.py FOLDER`. Harbor itself plans, runs and records the trials; the
containers are replaced by an environment that does nothing, and the agent and the verifier are canned.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities
from harbor.models.trajectories import Agent, Step, Trajectory
from harbor.models.verifier.result import VerifierResult
from harbor.verifier.base import BaseVerifier
from questions import BY_TEXT, MODELS, QUESTIONS, REPEATS, exact, includes, reply

ASKED = QUESTIONS[4:16]
TIMEOUT = ("careful", "product-03", 1)  # the agent does not end in time; its answer is verified all the same
BROKEN = ("quick", "product-04", 0)  # the environment does not start
KEPT = ["config.json", "result.json", "lock.json", "*/result.json", "*/agent/trajectory.json"]

TASK = """\
version = "1.0"
[metadata]
category = "{kind}"
[agent]
timeout_sec = 2.0
[verifier]
timeout_sec = 20.0
"""


class FolderEnvironment(BaseEnvironment):
    """No container: commands succeed and do nothing."""

    @staticmethod
    def type() -> str:
        return "folder"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(mounted=True)

    def _validate_definition(self) -> None:
        return

    async def start(self, force_build: bool) -> None:
        """Start, unless it is the environment that is broken."""
        if self.environment_name == BROKEN[1]:
            config = json.loads((self.trial_paths.trial_dir / "config.json").read_text())
            if (
                config["agent"]["model_name"].endswith(BROKEN[0])
                and repeat_of("environments", *BROKEN[:2]) == BROKEN[2]
            ):
                raise RuntimeError("Docker compose command failed: no space left on device")

    async def stop(self, delete: bool) -> None:
        return

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        return

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        return

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        return

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        return

    async def exec(self, command: str, **_: object) -> ExecResult:
        return ExecResult(stdout="", stderr="", return_code=0)


class CannedAgent(BaseAgent):
    @staticmethod
    def name() -> str:
        return "canned"

    def version(self) -> str:
        return "1.2.3"

    async def setup(self, environment: BaseEnvironment) -> None:
        return

    async def run(self, instruction: str, environment: BaseEnvironment, context) -> None:
        question = BY_TEXT[instruction.strip()]
        model = self.model_name.rpartition("/")[2]
        repeat = repeat_of("agents", model, question.id)
        if (model, question.id) == BROKEN[:2]:
            repeat += 1  # the first attempt did not get here
        answer = reply(model, question, repeat)
        context.n_input_tokens, context.n_cache_tokens, context.n_output_tokens = 100, 40, len(answer)
        context.cost_usd = 0.001
        agent = Agent(name=self.name(), version=self.version(), model_name=self.model_name)
        steps = [Step(step_id=1, source="user", message=instruction), Step(step_id=2, source="agent", message=answer)]
        trajectory = Trajectory(session_id="1", agent=agent, steps=steps).to_json_dict()
        (self.logs_dir / "trajectory.json").write_text(json.dumps(trajectory))
        if (model, question.id, repeat) == TIMEOUT:
            await asyncio.sleep(60)


class AnswerVerifier(BaseVerifier):
    async def verify(self) -> VerifierResult:
        trajectory = json.loads((self.trial_paths.agent_dir / "trajectory.json").read_text())
        answer = trajectory["steps"][-1]["message"]
        expected = BY_TEXT[self.task.instruction.strip()].expected
        return VerifierResult(rewards={"reward": includes(answer, expected), "exact": exact(answer, expected)})


def repeat_of(*key: str) -> int:
    """How often this was called with the key: trials run one at a time."""
    counts = Path("counts")
    counts.mkdir(exist_ok=True)
    file = counts / "-".join(key)
    file.write_text(file.read_text() + "x" if file.exists() else "x")
    return len(file.read_text()) - 1


def main(folder: Path) -> None:
    for question in ASKED:
        place = Path("tasks") / question.id
        for name in ("environment", "tests"):
            (place / name).mkdir(parents=True)
        (place / "task.toml").write_text(TASK.format(kind=question.kind))
        (place / "instruction.md").write_text(question.text + "\n")
        (place / "environment/Dockerfile").write_text("FROM scratch\n")
        (place / "tests/test.sh").write_text("exit 0\n")
    command = ["harbor", "run", "--path", "tasks", "--jobs-dir", "jobs", "--job-name", "arithmetic", "--yes", "--quiet"]
    command += ["--agent", "harbor_logs:CannedAgent", "--n-attempts", str(REPEATS), "--n-concurrent", "1"]
    command += ["--env", "harbor_logs:FolderEnvironment", "--verifier", "harbor_logs:AnswerVerifier"]
    for model in MODELS:
        command += ["--model", f"canned/{model}"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": "."})
    job = Path("jobs/arithmetic")
    for path in [path for pattern in KEPT for path in job.glob(pattern)]:
        kept = folder / path.relative_to(job)
        kept.parent.mkdir(parents=True, exist_ok=True)
        record = json.loads(path.read_text())
        if record.get("exception_info"):
            record["exception_info"]["exception_traceback"] = ""
        kept.write_text(json.dumps(record, separators=(",", ":")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

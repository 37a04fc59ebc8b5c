"""Logs of Inspect: two models, two epochs, two scorers, a sample with an error; cancelled, killed and failed runs.

Runs in an environment of Inspect: `python inspect_logs.py FOLDER` (every kind of log) or `... FOLDER json` (two logs).
"""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from inspect_ai import Task, eval, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import (
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)
from inspect_ai.scorer import Score, Scorer, Target, exact, includes, mean, model_graded_qa, scorer
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver, use_tools
from inspect_ai.tool import Tool, tool
from questions import BY_TEXT, MODELS, QUESTIONS, REPEATS, reply

LAST = "sum-05"  # the question at which a run is cancelled or killed
SIGNALS = {"cancelled": signal.SIGINT, "killed": signal.SIGKILL}


@modelapi(name="canned")
class CannedAPI(ModelAPI):
    async def generate(self, input, tools, tool_choice, config: GenerateConfig) -> ModelOutput:
        question = BY_TEXT[next(message.text for message in input if isinstance(message, ChatMessageUser))]
        if question.id == LAST and (ending := os.environ.get("ENDING")) in SIGNALS:
            os.kill(os.getpid(), SIGNALS[ending])
        text = reply(self.model_name, question, config.seed or 0)
        output = ModelOutput.from_content(f"canned/{self.model_name}", text)
        output.usage = ModelUsage(input_tokens=10, output_tokens=len(text), total_tokens=10 + len(text))
        return output


@solver
def answer_of_epoch() -> Solver:
    """Generate with the epoch as the seed, which the canned model takes for the repeat."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        return await generate(state, seed=state.epoch - 1)

    return solve


@task
def arithmetic() -> Task:
    samples = [
        Sample(id=question.id, input=question.text, target=question.expected, metadata={"kind": question.kind})
        for question in QUESTIONS
    ]
    return Task(
        dataset=MemoryDataset(samples, name="arithmetic"),
        solver=answer_of_epoch(),
        scorer=[includes(), exact()],
        epochs=REPEATS,
    )


@tool
def multiply() -> Tool:
    async def execute(first: int, second: int) -> int:
        """Multiply two numbers.

        Args:
            first: The first number.
            second: The second number.
        """
        return first * second

    return execute


@scorer(metrics={"length": [mean()], "unknown": [mean()]})
def measures() -> Scorer:
    """A dictionary of scores; one of them is not a number."""

    async def score(state: TaskState, target: Target) -> Score:
        return Score(value={"length": float(len(state.output.completion)), "unknown": math.nan})

    return score


@task
def conversation() -> Task:
    """Chat messages as input, a tool call, choices, a model that grades, and two scorers of other kinds."""
    system = ChatMessageSystem(content="You are good at arithmetic.")
    samples = [
        Sample(id=1, input=[system, ChatMessageUser(content="What is 6 * 7?")], target="42"),
        Sample(id=2, input="Which one is a fruit?", choices=["apple", "chair"], target=["A", "apple"]),
    ]
    call = ModelOutput.for_tool_call("mockllm/model", "multiply", {"first": 6, "second": 7})
    outputs = [call, *(ModelOutput.from_content("mockllm/model", text) for text in ("6 * 7 is 42.", "apple"))]
    grades = [ModelOutput.from_content("mockllm/grader", f"It is right.\n\nGRADE: {grade}") for grade in "CP"]
    for output in [*outputs, *grades]:
        output.usage = ModelUsage(
            input_tokens=10, output_tokens=5, total_tokens=15
        )  # else Inspect counts, and downloads
    grader = get_model("mockllm/grader", custom_outputs=grades)
    return Task(
        dataset=MemoryDataset(samples, name="conversation"),
        solver=[use_tools(multiply()), generate()],
        scorer=[model_graded_qa(partial_credit=True, model=grader), measures()],
        model=get_model("mockllm/model", custom_outputs=outputs),
    )


def run(folder: Path, model: str, log_format: str, fails: bool = False) -> None:
    eval(
        arithmetic(),
        model=f"canned/{model}",
        log_dir=str(folder),
        log_format=log_format,
        fail_on_error=fails,
        display="none",
        max_samples=1,
        max_retries=0,
        log_buffer=1,
    )


def keep(folder: Path, written: Path) -> None:
    """Write the log again by Inspect, without its bulk: events, attachments and tracebacks with paths."""
    log = read_eval_log(str(written))
    log.eval.task_file = None
    for sample in log.samples or []:
        sample.events, sample.attachments = [], {}
        if sample.error:
            sample.error.traceback = sample.error.traceback_ansi = ""
    if log.error:
        log.error.traceback = log.error.traceback_ansi = ""
    kept = folder / written.name
    write_eval_log(log, str(kept))
    if kept.suffix == ".json":
        kept.write_text(json.dumps(json.loads(kept.read_text()), separators=(",", ":"), ensure_ascii=False))


def main(folder: Path, *formats: str) -> None:
    if formats[:1] == ("one",):
        run(folder, "quick", "eval", fails=os.environ["ENDING"] == "failed")
        return
    runs = [(model, name) for model in MODELS for name in formats or ("eval",)]
    for model, log_format in runs:
        place = folder / model
        run(place, model, log_format)
        (written,) = place.glob("*." + log_format)
        keep(folder, written.rename(place / f"{model}.{log_format}"))
    if not formats:
        eval(conversation(), log_dir=str(folder / "more"), display="none", max_samples=1)
        (written,) = (folder / "more").glob("*.eval")
        keep(folder, written.rename(folder / "more/conversation.eval"))
    for ending in () if formats else ("cancelled", "failed", "killed"):
        place = folder / ending
        subprocess.run([sys.executable, __file__, str(place), "one"], env={**os.environ, "ENDING": ending}, check=False)
        (written,) = place.glob("*.eval")
        if ending == "killed":  # has no header: kept as it is
            written.rename(folder / f"{ending}.eval")
        else:
            keep(folder, written.rename(place / f"{ending}.eval"))
    for place in [path for path in folder.iterdir() if path.is_dir()]:
        shutil.rmtree(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

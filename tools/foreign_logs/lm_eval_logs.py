"""Logs of lm-evaluation-harness: two models, a task of answers with two filters, one of choices with two metrics.

Runs in an environment of lm-eval: `python lm_eval_logs.py FOLDER`. The harness ends at the first error, so that there
is none in its logs.
"""

import importlib.util
import json
import re
import sys
from pathlib import Path

if importlib.util.find_spec("evaluate"):
    import evaluate

    class ExactMatch:
        """The metric that old versions download when they are imported."""

        def compute(self, predictions: list[str], references: list[str], **_: object) -> dict[str, float]:
            equal = [prediction == reference for prediction, reference in zip(predictions, references, strict=True)]
            return {"exact_match": sum(equal) / len(equal)}

    evaluate.load = lambda name: ExactMatch()

import lm_eval
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from questions import BY_TEXT, MODELS, QUESTIONS, reply

ANSWERS = """\
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{text}}"
doc_to_target: "{{expected}}"
generation_kwargs: {until: ["\\n"], do_sample: false}
filter_list:
  - {name: strict, filter: [{function: take_first}]}
  - {name: flexible, filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0}
"""
CHOICES = """\
task: choices
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{text}}"
doc_to_choice: choices
doc_to_target: 0
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
  - {metric: acc_norm, aggregation: mean, higher_is_better: true}
metadata: {version: 1.0}
"""


@register_model("canned")
class CannedLM(LM):
    def __init__(self, model: str = "", **_: object) -> None:
        super().__init__()
        self.name = model

    def _reply(self, text: str) -> str:
        return reply(self.name, BY_TEXT[text], 1)  # the repeat that has no error

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        return [self._reply(request.args[0]) for request in requests]

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """The choice that is part of the reply is likelier."""
        results = []
        for request in requests:
            context, continuation = request.args
            is_likelier = continuation.split()[0] in self._reply(context)
            results.append((-1.0 if is_likelier else -9.0, is_likelier))
        return results

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        raise NotImplementedError


def main(folder: Path) -> None:
    tasks = Path("tasks")
    tasks.mkdir()
    (tasks / "sums.yaml").write_text(ANSWERS)
    (tasks / "choices.yaml").write_text(CHOICES)
    with Path("questions.jsonl").open("w") as file:
        for number, question in enumerate(QUESTIONS):
            wrong = f"{int(question.expected) + 1}" + (" or another number" if number % 3 == 0 else "")
            file.write(json.dumps({**question._asdict(), "choices": [question.expected, wrong]}) + "\n")
    makes_folders = (Path(lm_eval.__file__).parent / "loggers").exists()
    for model in MODELS:
        output = str(folder if makes_folders else folder / model)
        sys.argv = ["lm_eval", "--model", "canned", "--model_args", f"model={model}", "--tasks", "sums,choices"]
        sys.argv += ["--include_path", "tasks", "--output_path", output, "--log_samples"]
        cli_evaluate()
    for path in list(folder.rglob("*.json*")):  # the name tells the time
        path.rename(path.with_name(re.sub(r"_20[\d.T-]+(?=\.json)", "_2026-11-19T12-00-00.000000", path.name)))
    for path in folder.rglob("results*.json"):  # describes the machine
        results = json.loads(path.read_text())
        for name in ("pretty_env_info", "git_hash", "upper_git_hash"):
            results.pop(name, None)
        path.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

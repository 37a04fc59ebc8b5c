"""Reports of pydantic-evals: two models, two repeats, a score, assertions, a label and a task that raises.

Runs in an environment of pydantic-evals: `python pydantic_evals_logs.py FOLDER`.
"""

import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected, Evaluator, EvaluatorContext
from pydantic_evals.reporting import EvaluationReport
from questions import BY_TEXT, MODELS, QUESTIONS, REPEATS, includes, reply


@dataclass
class Judgement(Evaluator):
    """A score, an assertion and a label; it raises for one case."""

    fails_at: str = ""

    def evaluate(self, ctx: EvaluatorContext) -> dict[str, float | bool | str]:
        if self.fails_at and ctx.name.startswith(self.fails_at):
            raise ValueError("the evaluator fails")
        return {
            "includes": includes(ctx.output, ctx.expected_output),
            "brief": len(ctx.output) <= 4,
            "style": "number" if ctx.output.isdigit() else "sentence",
        }


def supported(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """The options that this version of the function accepts."""
    parameters = inspect.signature(function).parameters
    return {name: value for name, value in options.items() if name in parameters}


def main(folder: Path) -> None:
    averages = {}
    for model in MODELS:
        repeats: dict[str, int] = {}

        def canned(text: str, model: str = model, repeats: dict[str, int] = repeats) -> str:
            repeats[text] = repeats.get(text, -1) + 1
            return reply(model, BY_TEXT[text], repeats[text])

        cases = [
            Case(
                name=question.id,
                inputs=question.text,
                expected_output=question.expected,
                metadata={"kind": question.kind},
            )
            for question in QUESTIONS
        ]
        judgement = Judgement(fails_at="product-11" if model == "careful" else "")
        evaluators = [EqualsExpected(), judgement]
        dataset = Dataset(cases=cases, evaluators=evaluators, **supported(Dataset, name="arithmetic"))
        options = supported(dataset.evaluate_sync, repeat=REPEATS, metadata={"model": model}, progress=False)
        report = dataset.evaluate_sync(canned, name=model, max_concurrency=1, **options)
        for failure in getattr(report, "failures", []):
            failure.error_stacktrace = ""
        for case in report.cases:
            for evaluator_failure in getattr(case, "evaluator_failures", []):
                evaluator_failure.error_stacktrace = ""
        text = TypeAdapter(EvaluationReport).dump_json(report, indent=1)
        (folder / f"{model}.json").write_bytes(text)
        averages[model] = report.averages().model_dump()
    (folder / "averages.txt").write_text(json.dumps(averages, indent=1))  # what its table shows, for a test


if __name__ == "__main__":
    main(Path(sys.argv[1]))

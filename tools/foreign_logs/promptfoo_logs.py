"""Results of promptfoo: two providers, two prompts, two repeats, several assertions and an error of a provider.

Runs with promptfoo's executables on the path: `python promptfoo_logs.py FOLDER`.
"""

import json
import subprocess
import sys
from pathlib import Path

from questions import MODELS, QUESTIONS, REPEATS, Overloaded, Question, reply

PROMPTS = ["{{question}}", "Answer with a number. {{question}}"]


def write_replies(path: Path) -> None:
    """What `canned.cjs` answers, by provider and prompt: one reply for each repeat."""
    replies: dict[str, dict[str, list[dict[str, str]]]] = {model: {} for model in MODELS}
    for model in MODELS:
        for prefix in ("", "Answer with a number. "):
            for question in QUESTIONS:
                answers = []
                for repeat in range(REPEATS):
                    try:
                        answers.append({"output": reply(model, question, repeat, prefix)})
                    except Overloaded as error:
                        answers.append({"error": str(error)})
                replies[model][prefix + question.text] = answers
    path.write_text(json.dumps(replies))


def main(folder: Path, version: str = "") -> None:
    """Write the results of one prompt and many questions; and an export of two prompts and few questions."""
    write_replies(Path("replies.json"))
    evaluate(folder / "results.json", PROMPTS[:1], QUESTIONS[:16])
    if version:  # an old one
        return
    evaluate(Path("two-prompts.json"), PROMPTS, QUESTIONS[12:16])
    identifier = json.loads(Path("two-prompts.json").read_text())["evalId"]
    export = folder / "export.json"
    subprocess.run(["promptfoo", "export", "eval", identifier, "--output", str(export)], check=True)
    make_compact(export)


def evaluate(output: Path, prompts: list[str], questions: list[Question]) -> None:
    Path("promptfooconfig.json").write_text(json.dumps(config(prompts, questions)))
    options = ["--repeat", str(REPEATS), "--no-cache", "--max-concurrency", "1", "--no-progress-bar", "--no-table"]
    subprocess.run(["promptfoo", "eval", *options, "--output", str(output)], check=False)  # 100: an assertion failed
    make_compact(output)


def make_compact(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()), separators=(",", ":"), ensure_ascii=False))


def config(prompts: list[str], questions: list[Question]) -> dict[str, object]:
    return {
        "description": "arithmetic",
        "prompts": prompts,
        "providers": [{"id": "file://canned.cjs", "label": model, "config": {"model": model}} for model in MODELS],
        "tests": [
            {
                "description": question.id,
                "vars": {"question": question.text, "expected": question.expected},
                "metadata": {"kind": question.kind},
                "threshold": 0.5,
                "assert": [
                    {"type": "contains", "value": question.expected, "metric": "includes"},
                    {"type": "equals", "value": question.expected, "metric": "exact"},
                ],
            }
            for question in questions
        ],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])

"""Run the experiment against the fake provider: no key, no model, no cost."""

import json
import os
import subprocess
from pathlib import Path

from abreast.fake import FakeProvider

CASES = [json.loads(line) for line in Path("cases.jsonl").read_text().splitlines()]
ANSWERS = {case["input"]["question"]: str(case["expected"]) for case in CASES}

with FakeProvider.in_thread(answers=ANSWERS) as provider:
    subprocess.run(
        ["abreast", "run", "experiment.yaml", "--store", "offline.db", "--fresh"],
        env={**os.environ, **provider.environment, "ANTHROPIC_API_KEY": "any"},
        check=True,
    )

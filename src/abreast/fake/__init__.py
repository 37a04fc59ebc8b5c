"""A fake provider for tests, benchmarks and demos: Anthropic's and OpenAI's APIs without a model.

Its replies are scripted by rules, by answers, or by the prompts themselves (`[[fake: status=429 times=2]]`).
"""

from abreast.fake.rate import Rate
from abreast.fake.script import Reply, Rule, read_script
from abreast.fake.server import FakeProvider, RecordedRequest

__all__ = ["FakeProvider", "Rate", "RecordedRequest", "Reply", "Rule", "read_script"]

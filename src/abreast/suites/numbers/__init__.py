"""Suite `numbers`: does a data transform help a model read numbers?

>>> config = BenchmarkConfig.quick_mode()
>>> config.parallel_workers, config.trial_parallelism = 2, 4
>>> BenchmarkRunner(config, backend=BackendType.MOCK).config.n_trials
5
"""

from abreast.suites.numbers.runner import (
    ApiClient,
    BenchmarkRunner,
    ClaudeCodeClient,
    Client,
    MockClient,
    Response,
    client_of,
)
from abreast.suites.numbers.suite import SUITE, BackendType, BenchmarkConfig

__all__ = [
    "SUITE",
    "ApiClient",
    "BackendType",
    "BenchmarkConfig",
    "BenchmarkRunner",
    "ClaudeCodeClient",
    "Client",
    "MockClient",
    "Response",
    "client_of",
]

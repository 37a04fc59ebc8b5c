"""The Python interface of the suite: a runner, and clients for single queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from abreast.errors import BadInput, Incomplete
from abreast.experiment.facade import Experiment
from abreast.experiment.result import Result
from abreast.output import emit
from abreast.report.folder import keep
from abreast.store.user_state.drivers import temporary_folder
from abreast.suites.numbers import conditions
from abreast.suites.numbers.suite import BackendType, BenchmarkConfig, experiment, target_settings

READY = "Reply with the one word: ready"


@dataclass(frozen=True, slots=True)
class Response:
    """The response to one query; None for what the backend does not report."""

    text: str
    latency_s: float
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    model: str | None = None


_MEASURED = ("latency_s", "input_tokens", "output_tokens", "cost_usd", "model")


class Client:
    """A backend. A query runs as an experiment of one case, with the usual retries, limits and errors."""

    backend: BackendType

    def __init__(self, model: str = "sonnet", timeout: float | None = None) -> None:
        self.model, self.timeout = model, timeout

    def query(self, prompt: str, system: str | None = None) -> Response:
        return self._ask(prompt, {"system": system} if system is not None else {})

    def query_baseline(self, raw_data: str, query: str) -> Response:
        """Ask about raw numbers with the suite's prompt."""
        params = {"prompt": conditions.PROMPT, "system": conditions.SYSTEM}
        return self._ask({"data": raw_data, "question": query}, params)

    def query_treatment(self, semantic_output: str, query: str) -> Response:
        """Ask about a description of the numbers."""
        return self.query_baseline(semantic_output, query)

    def _ask(self, case_input: Any, params: dict[str, Any]) -> Response:
        with temporary_folder() as folder:
            result = Experiment(
                name="query",
                cases=[{"id": "query", "input": case_input, "expected": "simulated"}],
                variants={"query": {**target_settings(self.backend, self.model), "warmup": False, **params}},
                limits={} if self.timeout is None else {"timeout": float(self.timeout)},
                store="query.db",
                base=folder,
            ).run()
            (row,) = result.rows()
        if row["status"] != "ok":
            raise Incomplete(f"{row['error_kind']}: {row['error']}", result.fix)
        return Response(text=row["answer"], **{name: row[name] for name in _MEASURED})


class ApiClient(Client):
    """The API, with the key from the environment."""

    backend = BackendType.API


class ClaudeCodeClient(Client):
    """The Claude Code CLI: a single turn without tools."""

    backend = BackendType.CLAUDE_CODE


class MockClient(Client):
    """The simulator: always answers "simulated"."""

    backend = BackendType.MOCK


def client_of(backend: BackendType | str, model: str = "sonnet", timeout: float | None = None) -> Client:
    kinds = {BackendType.API: ApiClient, BackendType.CLAUDE_CODE: ClaudeCodeClient, BackendType.MOCK: MockClient}
    return kinds[BackendType(backend)](model, timeout)


class BenchmarkRunner:
    """Runs the suite. Stored answers are reused, and an interrupted run is continued."""

    def __init__(self, config: BenchmarkConfig | None = None, backend: BackendType | str = BackendType.API) -> None:
        self.config = BenchmarkConfig() if config is None else config
        self.backend = BackendType(backend)
        self.client = client_of(self.backend, self.config.model, self.config.timeout)
        self.result: Result | None = None  # the result of the last run

    def run_all(self, tasks: Sequence[str] | None = None, n_trials: int | None = None) -> Result:
        """Run all tasks of the configuration, or these; the result has a `verdict` and `rows()`."""
        config = self.config if tasks is None else replace(self.config, tasks=list(tasks))
        config = config if n_trials is None else replace(config, n_trials=n_trials)
        self.result = experiment(config, self.backend).run(
            parallel="variants" if config.parallel_workers > 1 else None,
            trial_parallelism=config.trial_parallelism if config.trial_parallelism != 1 else None,
        )
        return self.result

    def run_task(self, task: str, n_trials: int | None = None) -> Result:
        return self.run_all([task], n_trials)

    def print_summary(self) -> None:
        """Print the report of the last run, as the command line does."""
        emit(f"{self._last().report()}\n")

    def save_results(self, output_dir: str | Path | None = None, prefix: str = "benchmark") -> Path:
        """Write the last run as JSON to a new file named after the run, and return its path."""
        result = self._last()
        home = Path("runs") / result.run if output_dir is None else Path(output_dir)
        return keep(home, f"{prefix}_{result.run}.json", [result.report("json").encode()])

    def _last(self) -> Result:
        if self.result is None:
            raise BadInput("no results yet", "call run_all() first")
        return self.result

    def warmup(self) -> Response:
        """Send one query before measuring. Runs on the CLI do this themselves."""
        return self.client.query(READY)

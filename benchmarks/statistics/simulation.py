"""Many experiments of a scenario, and how often their verdicts were right. Results depend on the seed alone."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pool

import numpy as np

from abreast.analyse.decision.verdicts import Decided
from benchmarks.statistics.experiment import Stage, extend, run
from benchmarks.statistics.scenarios import SCENARIOS, Scenario

SEED = 18
CHUNK = 25  # experiments that a process takes at once
ROUNDING = 1e-9


@dataclass(frozen=True)
class Outcome:
    """One experiment; over several runs or variants, all of them must be right."""

    is_wrong: bool
    covered: float  # share of the intervals that contain the truth
    is_right: bool  # every effect found
    is_demoted: bool
    is_consistent: bool  # word, estimate, interval and scores agree
    saved: float  # share of the cases


@dataclass(frozen=True)
class Rate:
    """A share of experiments, with its standard error."""

    share: float
    error: float

    def __str__(self) -> str:
        return f"{self.share * 100:.1f} ± {self.error * 100:.1f}"


@dataclass(frozen=True)
class Summary:
    """How often the verdicts of a scenario were wrong, covered the truth, and found the effect."""

    scenario: Scenario
    experiments: int
    wrong: Rate
    coverage: Rate | None  # None where no interval is claimed to hold
    right: Rate | None  # None where there is nothing to find
    demoted: Rate
    inconsistent: int
    saved: float

    @property
    def claims(self) -> dict[str, bool]:
        """What has to hold, allowing for two standard errors."""
        claims = {
            "at most 5 % wrong": self.wrong.share <= 0.05 + 2 * _error(0.05, self.experiments),
            "word, estimate, interval and scores agree": not self.inconsistent,
        }
        if self.coverage is not None:
            claims["at least 95 % covered"] = self.coverage.share >= 0.95 - 2 * _error(0.05, self.experiments)
        if self.scenario.power is not None and self.right is not None:
            claims["power"] = self.right.share >= self.scenario.power - 2 * _error(
                self.scenario.power, self.experiments
            )
        return claims

    @property
    def holds(self) -> bool:
        return all(self.claims.values())


def simulate(scenario: Scenario, experiments: int | None = None) -> Summary:
    """Simulate a scenario in this process."""
    count = experiments or scenario.experiments
    return _summarise(scenario, [simulate_once(scenario, number) for number in range(count)])


def simulate_all(scenarios: Sequence[Scenario] = SCENARIOS, experiments: int | None = None) -> Iterator[Summary]:
    """Simulate scenarios on all cores, one after the other."""
    with Pool(os.cpu_count()) as pool:
        for scenario in scenarios:
            numbers = range(experiments or scenario.experiments)
            yield _summarise(scenario, pool.starmap(simulate_once, ((scenario, n) for n in numbers), CHUNK))


def simulate_once(scenario: Scenario, number: int) -> Outcome:
    """Draw and analyse one experiment."""
    random = np.random.default_rng([SEED, zlib.crc32(f"{scenario.topic}: {scenario.name}".encode()), number])
    scores = scenario.draw(random)
    if scenario.sizes:
        stages = extend(scores, scenario.rule, scenario.sizes)
    else:
        stages = [run(scores, scenario.rule, int(random.integers(2**32)), scenario.until_decided)]
    return _outcome(scenario, stages, scores.cases)


def _outcome(scenario: Scenario, stages: Sequence[Stage], planned: int) -> Outcome:
    verdicts = [pair for stage in stages for pair in zip(stage.decided, scenario.truth, strict=True)]
    margin = scenario.rule.margin
    return Outcome(
        is_wrong=any(_is_wrong(decided, truth, margin) for decided, truth in verdicts),
        covered=_coverage(verdicts, bool(scenario.sizes)),
        is_right=all(
            _is_right(decided, truth, margin) for decided, truth in zip(stages[-1].decided, scenario.truth, strict=True)
        ),
        is_demoted=any(decided.verdict.demoted for decided, _ in verdicts),
        is_consistent=all(_is_consistent(decided) for decided, _ in verdicts),
        saved=1 - stages[-1].cases / planned,
    )


def _is_wrong(decided: Decided, truth: float, margin: float) -> bool:
    false = {
        "better": truth <= 0,
        "worse": truth >= 0,
        "equivalent": abs(truth) >= margin,
        "not worse": truth <= -margin,
    }
    return false.get(decided.verdict.word, False)


def _is_right(decided: Decided, truth: float, margin: float) -> bool:
    """Whether an effect, or the absence of one that matters, is found; without a margin, 0 cannot be found."""
    word = decided.verdict.word
    if truth:
        return word == ("better" if truth > 0 else "worse")
    return not margin or word == "equivalent"


def _covers(decided: Decided, truth: float) -> bool:
    interval = decided.verdict.interval
    return interval is None or interval.low - ROUNDING <= truth <= interval.high + ROUNDING


def _coverage(verdicts: Sequence[tuple[Decided, float]], together: bool) -> float:
    """The share of intervals that contain the truth; those of a series hold together or not at all."""
    covered = [_covers(decided, truth) for decided, truth in verdicts]
    return float(all(covered)) if together else sum(covered) / len(covered)


def _is_consistent(decided: Decided) -> bool:
    """The word has the sign of the estimate, the estimate lies in the interval and is the difference of the scores."""
    verdict, interval, scores = decided.verdict, decided.verdict.interval, decided.scores
    if interval is None or scores is None:
        return verdict.word == "no comparison"
    signs = {"better": interval.low > 0, "worse": interval.high < 0}
    return (
        interval.low - ROUNDING <= interval.estimate <= interval.high + ROUNDING
        and signs.get(verdict.word, True)
        and abs(scores[1] - scores[0] - interval.estimate) < ROUNDING
    )


def _summarise(scenario: Scenario, outcomes: Sequence[Outcome]) -> Summary:
    finds = any(scenario.truth) or bool(scenario.rule.margin)
    return Summary(
        scenario=scenario,
        experiments=len(outcomes),
        wrong=_rate([outcome.is_wrong for outcome in outcomes]),
        coverage=None if scenario.is_biased else _rate([outcome.covered for outcome in outcomes]),
        right=_rate([outcome.is_right for outcome in outcomes]) if finds else None,
        demoted=_rate([outcome.is_demoted for outcome in outcomes]),
        inconsistent=sum(not outcome.is_consistent for outcome in outcomes),
        saved=float(np.mean([outcome.saved for outcome in outcomes])),
    )


def _rate(values: Sequence[float]) -> Rate:
    share = float(np.mean(values))
    return Rate(share, _error(share, len(values)))


def _error(share: float, experiments: int) -> float:
    return math.sqrt(share * (1 - share) / experiments)

"""What is simulated: each scenario draws experiments with known true effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from abreast.analyse.decision.verdicts import DecisionRule
from abreast.stats import Weight
from abreast.stats.intervals.population import THESE_CASES
from benchmarks.statistics import draws
from benchmarks.statistics.draws import Random
from benchmarks.statistics.experiment import Scores

GROUP_SIZES = {
    "8 groups of 29, 4, 4, 4, 3, 3, 2, 1": (29, 4, 4, 4, 3, 3, 2, 1),
    "5 groups of 30, 10, 5, 3, 2": (30, 10, 5, 3, 2),
    "40 groups, two of 60 and 40, others of 2": (60, 40, *[2] * 38),
    "10 groups of 10": (10,) * 10,
}
SINGLES = (60, 60, *[1] * 40)
OPPOSED = (-0.4 / 3, -0.4 / 3, *[0.4] * 40)  # effects of these groups: 0 over cases, positive over groups

SKEWED_CASES = (20, 40, 60, 80, 110, 200)


@dataclass(frozen=True)
class Scenario:
    """A kind of experiment, with the true effect of each variant under the weight of the rule."""

    topic: str
    name: str
    draw: Callable[[Random], Scores]
    truth: tuple[float, ...] = (0.0,)
    rule: DecisionRule = field(default_factory=DecisionRule)
    until_decided: bool = False
    sizes: tuple[int, ...] = ()  # of a series of runs
    experiments: int = 1000
    power: float | None = None  # the claimed share of experiments that find the effect
    is_biased: bool = False  # losses depend on the answers, so that no interval is claimed to hold


def _plain() -> list[Scenario]:
    null = [
        Scenario(
            "right or wrong", f"{cases} cases, {share:.0%} differ", partial(draws.binary, cases=cases, differing=share)
        )
        for cases in (40, 100, 500)
        for share in (0.1, 0.25, 0.5)
    ]
    effects = [
        Scenario(
            "right or wrong",
            f"{cases} cases, {share:.0%} differ, effect {effect * 100:+.0f} points",
            partial(draws.binary, cases=cases, differing=share, effect=effect),
            (effect,),
        )
        for cases, share, effect in ((40, 0.25, 0.2), (100, 0.25, 0.15), (500, 0.25, 0.1))
    ]
    return null + effects


def _other_scores() -> list[Scenario]:
    return [
        Scenario("graded scores", "100 cases", partial(draws.continuous, cases=100)),
        Scenario(
            "graded scores", "100 cases, effect +6 points", partial(draws.continuous, cases=100, effect=0.06), (0.06,)
        ),
        Scenario("3 repeats, averaged", "100 cases", partial(draws.repeated, cases=100, repeats=3)),
        Scenario(
            "3 repeats, averaged",
            "100 cases, effect +15 points",
            partial(draws.repeated, cases=100, repeats=3, effect=0.15),
            (0.15,),
        ),
    ]


def _early_stopping() -> list[Scenario]:
    return [
        Scenario(
            "stopped when decided",
            "500 cases, 25% differ" + (f", effect {effect * 100:+.0f} points" if effect else ""),
            partial(draws.binary, cases=500, differing=0.25, effect=effect),
            (effect,),
            until_decided=True,
        )
        for effect in (0.0, 0.05, 0.1, 0.2)
    ]


def _groups() -> list[Scenario]:
    weights: tuple[Weight, ...] = ("case", "group")
    scenarios = [
        Scenario(
            "groups, stopped when decided" if stops else "groups, ICC 0.3",
            f"{name}; weight: {weight}",
            partial(draws.grouped, sizes=sizes),
            rule=DecisionRule(weight=weight),
            until_decided=stops,
            experiments=4000 if sum(sizes) < 60 else 1000,
        )
        for stops in (False, True)
        for name, sizes in GROUP_SIZES.items()
        for weight in weights
        if not stops or sum(sizes) >= 60
    ]
    uneven = "40 groups, two of 60 and 40, others of 2"
    scenarios += [
        Scenario(
            "groups, ICC 0.3",
            f"{uneven}, effect +25 points; weight: {weight}",
            partial(draws.grouped, sizes=GROUP_SIZES[uneven], effect=0.25),
            (0.25,),
            DecisionRule(weight=weight),
        )
        for weight in weights
    ]
    for weight in weights:
        mean = sum(OPPOSED) / len(OPPOSED) if weight == "group" else 0.0
        scenarios += [
            Scenario(
                "groups, stopped when decided",
                f"40 single cases and two groups of 60; weight: {weight}",
                partial(draws.grouped, sizes=SINGLES),
                rule=DecisionRule(weight=weight),
                until_decided=True,
            ),
            Scenario(
                "groups, stopped when decided",
                f"the same, better in the single cases and worse in the large groups; weight: {weight}",
                partial(draws.grouped, sizes=SINGLES, effect=OPPOSED),
                (mean,),
                DecisionRule(weight=weight),
                until_decided=True,
            ),
        ]
    return scenarios


def _skewed() -> list[Scenario]:
    beta = [
        Scenario(
            "skewed scores", f"beta distributions of the same mean, {cases} cases", partial(draws.beta, cases=cases)
        )
        for cases in SKEWED_CASES
    ]
    rare = [
        Scenario(
            "skewed scores",
            f"1 in {share:.0%} of {cases} cases, otherwise nearly 0",
            partial(draws.rare, cases=cases, share=share),
        )
        for cases, share in [*((cases, 0.05) for cases in SKEWED_CASES), (60, 0.03), (100, 0.02), (200, 0.01)]
    ]
    return beta + rare


def _few_differ() -> list[Scenario]:
    null = [
        Scenario(
            "few cases differ",
            f"{cases} cases, {share:.0%} differ",
            partial(draws.binary, cases=cases, differing=share),
        )
        for cases in (40, 100, 1000)
        for share in (0.02, 0.05)
    ]
    return [
        *null,
        Scenario(
            "few cases differ",
            "40 cases, 15% wins and no losses",
            partial(draws.binary, cases=40, differing=0.15, effect=0.15),
            (0.15,),
            power=0.57,
        ),
        Scenario(
            "few cases differ",
            "1,000 ties, margin 0.05: equivalent",
            partial(draws.binary, cases=1000, differing=0.0),
            rule=DecisionRule(margin=0.05),
            experiments=100,
            power=1.0,
        ),
        Scenario(
            "few cases differ",
            "500 cases, 25% differ, effect = margin = 0.1: not equivalent",
            partial(draws.binary, cases=500, differing=0.25, effect=0.1),
            (0.1,),
            DecisionRule(margin=0.1),
        ),
    ]


def _several_variants() -> list[Scenario]:
    return [
        Scenario(
            "4 variants, Holm",
            "120 cases, none better",
            partial(draws.variants, cases=120, right=(0.6,) * 5),
            (0.0,) * 4,
        ),
        Scenario(
            "4 variants, Holm",
            "120 cases, one better by 20 points",
            partial(draws.variants, cases=120, right=(0.6, 0.8, 0.6, 0.6, 0.6)),
            (0.2, 0.0, 0.0, 0.0),
        ),
        Scenario(
            "4 variants, Holm",
            "300 cases, one better by 20 points, stopped when decided",
            partial(draws.variants, cases=300, right=(0.6, 0.8, 0.6, 0.6, 0.6)),
            (0.2, 0.0, 0.0, 0.0),
            until_decided=True,
            experiments=500,
        ),
    ]


def _extensions() -> list[Scenario]:
    series: Sequence[tuple[int, ...]] = ((100, 200, 400), (100, 200, 300, 400, 500, 600), (40, 80, 160))
    return [
        Scenario(
            "extended by new runs",
            " → ".join(map(str, sizes)) + f" cases, {share:.0%} differ",
            partial(draws.binary, cases=sizes[-1], differing=share),
            sizes=sizes,
        )
        for sizes in series
        for share in (0.25, 0.5)
    ]


def _missing() -> list[Scenario]:
    return [
        Scenario("lost answers", "200 cases, 5% lost at random", partial(draws.lost_at_random, cases=200)),
        Scenario(
            "lost answers",
            "200 cases, 5% lost at random, effect +15 points",
            partial(draws.lost_at_random, cases=200, effect=0.15),
            (0.15,),
        ),
        Scenario(
            "lost answers",
            "300 cases, half of one variant's wrong answers lost",
            partial(draws.gamed, cases=300),
            is_biased=True,
        ),
    ]


FEW_CASES = {  # mean scores of baseline and variant on the same few cases
    "no difference": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "no difference, easy": ((0.9, 0.9, 0.9), (0.9, 0.9, 0.9)),
    "no difference, one easy, one hard": ((0.05, 0.5, 0.95), (0.05, 0.5, 0.95)),
    "opposite effects that cancel": ((0.9, 0.5, 0.5), (0.5, 0.7, 0.7)),
    "effect +50 points": ((0.3, 0.3, 0.3), (0.8, 0.8, 0.8)),
    "one of three cases tells them apart": ((0.1, 0.9, 0.9), (0.9, 0.9, 0.9)),
}


def _these_cases() -> list[Scenario]:
    rule = DecisionRule(population=THESE_CASES)
    return [
        Scenario(
            "on these 3 cases",
            f"{repeats} repeats{', graded scores' * bool(graded)}{', unequal spread' * (graded == 'less')}, {name}",
            partial(draws.fixed, baseline=before, variant=after, repeats=repeats, graded=graded),
            (round(sum(after) / 3 - sum(before) / 3, 9),),
            rule,
            experiments=200 if graded else 300,
        )
        for repeats, graded in ((2, ""), (5, ""), (10, ""), (5, "equally"), (10, "less"))
        for name, (before, after) in FEW_CASES.items()
    ]


SCENARIOS: tuple[Scenario, ...] = (
    *_plain(),
    *_other_scores(),
    *_early_stopping(),
    *_groups(),
    *_skewed(),
    *_few_differ(),
    *_several_variants(),
    *_extensions(),
    *_missing(),
    *_these_cases(),
)

"""Statistics for comparisons, usable on their own: lists or arrays in, small frozen results out."""

from abreast.stats.calibration import Agreement, CorrectedEstimate, agreement, labels_needed, ppi
from abreast.stats.cost import CostPerCorrect, cost_per_correct
from abreast.stats.intervals.bounded import gaffke
from abreast.stats.intervals.final import final_interval
from abreast.stats.intervals.fixed_cases import RepeatedScores, fixed_cases_interval, permutation_test
from abreast.stats.intervals.population import Population, population_of
from abreast.stats.intervals.proportions import Estimate, Interval, bonett_price, paired_t, wilson
from abreast.stats.intervals.sequence import Look, RunningSequence, confidence_sequence, looks, watched
from abreast.stats.intervals.units import Weight, weighted_mean
from abreast.stats.latency import LatencyRatio, latency_ratio
from abreast.stats.power import Futility, cases_needed, futility, smallest_detectable
from abreast.stats.ranking import Ranking, bradley_terry
from abreast.stats.significance import PValue, benjamini_hochberg, holm, mcnemar, sign_flip
from abreast.stats.summary import pass_at_k, pass_hat_k
from abreast.stats.verdict import Verdict, Word, alphas, verdict, verdicts

__all__ = [
    "Agreement",
    "CorrectedEstimate",
    "CostPerCorrect",
    "Estimate",
    "Futility",
    "Interval",
    "LatencyRatio",
    "Look",
    "PValue",
    "Population",
    "Ranking",
    "RepeatedScores",
    "RunningSequence",
    "Verdict",
    "Weight",
    "Word",
    "agreement",
    "alphas",
    "benjamini_hochberg",
    "bonett_price",
    "bradley_terry",
    "cases_needed",
    "confidence_sequence",
    "cost_per_correct",
    "final_interval",
    "fixed_cases_interval",
    "futility",
    "gaffke",
    "holm",
    "labels_needed",
    "latency_ratio",
    "looks",
    "mcnemar",
    "paired_t",
    "pass_at_k",
    "pass_hat_k",
    "permutation_test",
    "population_of",
    "ppi",
    "sign_flip",
    "smallest_detectable",
    "verdict",
    "verdicts",
    "watched",
    "weighted_mean",
    "wilson",
]

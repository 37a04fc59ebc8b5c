"""Named queries for stored runs: `store.queries.variants(run_id)`.

Everything above `store/` reads rows through these. They return plain rows, or numpy columns for large results.
"""

from __future__ import annotations

from abreast.store.queries.answers import AnswerQueries
from abreast.store.queries.artifacts import ArtifactQueries
from abreast.store.queries.cases import CaseQueries
from abreast.store.queries.changes import ChangeQueries
from abreast.store.queries.details import DetailQueries
from abreast.store.queries.grid import GridQueries
from abreast.store.queries.judgements import JudgementQueries
from abreast.store.queries.runs import RunQueries
from abreast.store.queries.scores import ScoreQueries
from abreast.store.queries.trials import TrialQueries


class Queries(
    RunQueries,
    CaseQueries,
    TrialQueries,
    AnswerQueries,
    ArtifactQueries,
    ScoreQueries,
    JudgementQueries,
    ChangeQueries,
    GridQueries,
    DetailQueries,
):
    """All queries; the modules of this package group them by subject."""

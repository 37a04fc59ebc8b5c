"""Scores and metrics added to stored runs: by new scorer versions, by people, and by users who log metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.errors import BadInput, StoreError, suggestion
from abreast.store import schema
from abreast.store.base import Connection, Database
from abreast.store.rows import Row, to_json
from abreast.store.run_names import find_run
from abreast.store.user_tables import logged_metrics
from abreast.store.views import add_columns


class LaterScores(Database):
    """Operations that add scores and metrics to stored runs."""

    def replace_scores(
        self,
        run_id: int,
        versions: Mapping[str, str],
        fresh: Sequence[Row],
        primary: str | None,
        scorers: Mapping[str, Any],
    ) -> None:
        """Replace scores of other scorer versions, which move to `old_scores`.

        `scorers` are the entries of the spec that change."""
        names = ", ".join(schema.TABLES["scores"])
        with self.change() as connection:
            for column, version in versions.items():
                where = "run_id = ? AND name = ? AND version <> ?"
                connection.execute(
                    f"INSERT INTO old_scores ({names}, replaced_at) SELECT {names}, ? FROM scores WHERE {where}",
                    (time.time(), run_id, column, version),
                )
                connection.execute(f"DELETE FROM scores WHERE {where}", (run_id, column, version))
            connection.executemany(schema.insert(connection.dialect, "scores", "replace"), fresh)
            ((spec,),) = connection.execute("SELECT spec FROM runs WHERE run_id = ?", (run_id,)).fetchall()
            connection.execute(
                "UPDATE runs SET primary_score = ?, spec = ? WHERE run_id = ?",
                (primary, to_json({**json.loads(spec), **scorers}), run_id),
            )
            add_columns(connection, [schema.Column("score", column, "real") for column in versions])
        self.close()

    def add_labels(self, run_id: int, rows: Sequence[Row], sample: tuple[str, Mapping[str, Any]] | None) -> None:
        """Store labels by people, and the event that records their sample. Replaced labels move to `old_scores`."""
        names = ", ".join(schema.TABLES["scores"])
        where = "run_id = ? AND position = ? AND name = ?"
        with self.change() as connection:
            # The lock that a driver holds while it commits, so that row numbers grow in the order of commits.
            exists = f"SELECT 1 FROM runs WHERE run_id = ?{connection.dialect.locks_row}"
            if not connection.execute(exists, (run_id,)).fetchall():
                raise StoreError(
                    "the run was deleted in the meantime", f"see `abreast runs --store {self.quoted_address}`"
                )
            connection.executemany(
                f"INSERT INTO old_scores ({names}, replaced_at) SELECT {names}, ? FROM scores WHERE {where} "
                "AND (value IS DISTINCT FROM ? OR explanation IS DISTINCT FROM ?)",
                [(time.time(), *row[:5]) for row in rows],
            )
            connection.executemany(schema.insert(connection.dialect, "scores", "replace"), rows)
            add_columns(
                connection, [schema.Column("score", name, "real") for name in dict.fromkeys(r[2] for r in rows)]
            )
            if sample is not None:
                event = (run_id, time.time(), sample[0], to_json(sample[1]))
                connection.execute(schema.insert(connection.dialect, "events"), event)
        self.close()

    def log_metrics(self, run: str, variant: str | None, segment: str, values: Mapping[str, Any]) -> None:
        """Add a user's row to `metrics`, for a variant or the whole run."""
        data, segment = logged_metrics.validate_metrics(values), logged_metrics.validate_segment(segment)
        _, name = find_run([self], run)
        with self.change() as connection:
            runs = connection.execute("SELECT run_id FROM runs WHERE run = ?", (name,)).fetchall()
            if not runs:
                raise StoreError(
                    f"{name} was deleted in the meantime", f"see `abreast runs --store {self.quoted_address}`"
                )
            ((run_id,),) = runs
            index = None if variant is None else _variant_index(connection, run_id, name, variant)
            columns = logged_metrics.columns_for(data)
            _refuse_too_many(connection, columns)
            add_columns(connection, columns)
            row = (run_id, index, segment, time.time(), to_json(data))
            connection.execute(schema.insert(connection.dialect, "logged_metrics"), row)
        self.close()


def _variant_index(connection: Connection, run_id: int, run: str, variant: str) -> int:
    indexes: dict[str, int] = dict(
        connection.execute("SELECT name, variant FROM variants WHERE run_id = ?", (run_id,)).fetchall()
    )
    if not isinstance(variant, str) or variant not in indexes:
        raise BadInput(f'log: {run} has no variant "{variant}"{suggestion(str(variant), indexes)}')
    return indexes[variant]


def _refuse_too_many(connection: Connection, columns: Sequence[schema.Column]) -> None:
    names = {name for (name,) in connection.execute("SELECT name FROM columns WHERE kind = 'metric'")}
    if len(names | {column.name for column in columns}) > schema.MOST_LOGGED:
        raise BadInput(
            f"log: more than {schema.MOST_LOGGED:,} columns in metrics",
            "log many values under one name, as a mapping; it is stored as JSON",
        )

"""DuckDB's SQL."""

from __future__ import annotations

from abreast.store.dialect import ViewDialect, literal

CELL_TYPES = dict.fromkeys(("null", "text", "json", "large", "datetime"), "VARCHAR") | {
    "boolean": "BOOLEAN",
    "integer": "BIGINT",
    "real": "DOUBLE",
    "blob": "BLOB",
}  # column types of tracked tables


class DuckDBDialect(ViewDialect):
    """For views of a DuckDB file; rows are written to the journal in SQLite's SQL."""

    def json_value(self, source: str, key: str | None, kind: str) -> str:
        text = f"json_extract_string({source}, {literal(self._pointer(key))})"
        cast = {"integer": "BIGINT", "real": "DOUBLE", "boolean": "BOOLEAN"}.get(kind)
        return self.try_cast(text, cast) if cast else text

    def _pointer(self, key: str | None) -> str:
        """A JSON pointer, because a path treats `*` as a wildcard and cannot quote it."""
        return "$" if key is None else "/" + key.replace("~", "~0").replace("/", "~1")

    def json_text(self, source: str, key: str) -> str:
        return f"CAST(json_extract({source}, {literal(self._pointer(key))}) AS VARCHAR)"

    def json_quote(self, text: str) -> str:
        return f"to_json({text})"

    def unpivot_tags(self, source: str) -> str:
        pointer = "'/' || replace(replace(tag, '~', '~0'), '/', '~1')"
        return (
            f"(SELECT *, tag || '=' || json_extract_string(tags, {pointer}) AS segment "
            f"FROM (SELECT *, unnest(json_keys(tags)) AS tag FROM {source}))"
        )

    def seconds(self, timestamp: str) -> str:
        return f"epoch(TRY_CAST({timestamp} AS TIMESTAMP))"


DUCKDB = DuckDBDialect()

"""Labels in a spreadsheet: the blind sample as CSV, to fill in and import."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from abreast.errors import BadInput
from abreast.experiment.labels.labelling import Labelling, LabelQuestion
from abreast.report.formats.row_files import escape_formula
from abreast.text import printable

LABEL = "label"  # the column to fill in; with several dimensions label_DIMENSION
LONGEST_CELL = 32_000  # characters; spreadsheets cut longer ones
MOST_ERRORS = 20


def write_sheet(labelling: Labelling, path: Path) -> int:
    """Write the sample with existing labels; return the number of rows."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    is_pair = labelling.judge.pairwise
    answer_columns = ["answer_1", "answer_2"] if is_pair else ["answer"]
    writer.writerow(["id", "case", "repeat", "task", "expected", *answer_columns, *_label_columns(labelling)])
    rows = 0
    for block in labelling.blocks:
        for position in block.labelled:
            answers = [answer.text for answer in block.answers if is_pair or answer.position == position]
            cells = [escape_formula(printable(text)[:LONGEST_CELL]) for text in (block.task, block.expected, *answers)]
            labels = [labelling.entry(position, dimension) for dimension in labelling.dimensions]
            ids = [labelling.token(position), str(block.number), str(block.repeat)]
            writer.writerow([*ids, *cells, *labels])
            rows += 1
    try:
        path.write_text(file.getvalue(), encoding="utf-8-sig", newline="")
    except OSError as error:
        raise BadInput(f"--export {path}: cannot write it ({error.strerror})") from None
    labelling.record_sample()
    return rows


def read_sheet(labelling: Labelling, path: Path) -> int:
    """Store the labels of a sheet, all or none; return how many are new or changed."""
    questions = {
        (labelling.token(position), dimension): LabelQuestion(block, position, dimension)
        for block in labelling.blocks
        for position in block.labelled
        for dimension in labelling.dimensions
    }
    labels: dict[tuple[str, str], float | None] = {}
    errors = []
    for line, token, dimension, entry in _cells(labelling, path):
        question = questions.get((token, dimension))
        if question is None:
            errors.append(f'{path}:{line}: no answer "{token[:40]}" in the sample of {labelling.run}')
            continue
        try:
            value = labelling.parse(question, entry)
        except ValueError as error:
            errors.append(f'{path}:{line}: label "{printable(entry)[:40]}" is not {error}')
            continue
        if labels.setdefault((token, dimension), value) != value:
            errors.append(f"{path}:{line}: a second, different label for {token}")
    if errors:
        more = f" (and {len(errors) - MOST_ERRORS} more)" if len(errors) > MOST_ERRORS else ""
        raise BadInput(
            "\n       ".join(errors[:MOST_ERRORS]) + more,
            "fix the file and import it again (leave a label empty for later, write s to skip); nothing was imported",
        )
    return labelling.record((questions[key], value) for key, value in labels.items())


def _cells(labelling: Labelling, path: Path) -> Iterator[tuple[int, str, str, str]]:
    """Line, answer id, dimension and content of each label that was filled in."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"--import {path}: cannot read it ({error.strerror})") from None
    except UnicodeDecodeError:
        raise BadInput(f"--import {path}: not valid UTF-8", "save it as CSV UTF-8") from None
    first = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
    columns = dict(zip(_label_columns(labelling), labelling.dimensions, strict=True))
    try:
        head = [name.strip().lower() for name in next(reader, [])]
        missing = [name for name in ("id", *columns) if name not in head]
        if missing:
            raise BadInput(
                f"{path}:1: no column {', '.join(missing)}",
                f"run `abreast label {labelling.run} --export FILE.csv` to export a sheet",
            )
        repeated = [name for name in ("id", *columns) if head.count(name) > 1]
        if repeated:
            raise BadInput(f"{path}:1: column {', '.join(repeated)} occurs more than once", "keep one of them")
        line = reader.line_num + 1
        for row in reader:
            cells = dict(zip(head, row, strict=False))
            for column, dimension in columns.items():
                if cells.get(column, "").strip():
                    yield line, cells.get("id", "").strip(), dimension, cells[column]
            line = reader.line_num + 1
    except csv.Error as error:
        raise BadInput(f"{path}:{reader.line_num}: {error}") from None


def _label_columns(labelling: Labelling) -> list[str]:
    if len(labelling.dimensions) == 1:
        return [LABEL]
    return [f"{LABEL}_{dimension}" for dimension in labelling.dimensions]

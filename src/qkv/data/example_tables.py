"""The rows of a file of examples as a table with texts and labels, wherever the labels are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from qkv.data.columns import header_rule
from qkv.data.corpus import ExamplesConfig
from qkv.data.findings import Findings, OnRead
from qkv.data.formats.aligned import read_line_pairs
from qkv.data.formats.labelled_lines import LabelledLines
from qkv.data.formats.rows import BadRows, read_lines
from qkv.data.formats.tabular import Row, Table, open_table, table_of_rows
from qkv.data.split_files import ExampleFile, LabelSource

TEXT, LABEL = "text", "label"
"""The columns of files whose labels are elsewhere: in the file's name, or in another file."""


def open_example_table(
    file: ExampleFile,
    config: ExamplesConfig,
    findings: Findings,
    on_read: OnRead,
    layout: LabelledLines | None = None,
) -> Table:
    """Open a file of examples. Labels from its name or from another file become a column."""
    if file.kind == "lines":
        bad_rows = BadRows(file.display_name, findings)
        return table_of_rows(file.source, [TEXT, LABEL], _labelled_lines(file, config, bad_rows, on_read), bad_rows)
    table = open_table(file.source, config.encoding, findings, header_rule(config), on_read, layout=layout)
    if file.labels is not None:
        return _joined(table, file.labels, config, findings)
    if file.label is not None:
        return _with_column(table, LABEL, lambda row: file.label)
    return table


def _labelled_lines(file: ExampleFile, config: ExamplesConfig, bad_rows: BadRows, on_read: OnRead) -> Iterator[Row]:
    findings = bad_rows.findings
    if file.labels is None:
        for number, line in enumerate(read_lines(file.source, config.encoding, findings, on_read), 1):
            if line.strip():
                bad_rows.row_count += 1
                yield number, [line.strip(), file.label]
        return
    names = dict(file.labels.names)
    lines = read_line_pairs(file.source, file.labels.source, config.encoding, findings, on_read, "one label per line")
    for number, (text, label) in enumerate(lines, 1):
        if text.strip() or label.strip():
            bad_rows.row_count += 1
            yield number, [text.strip(), names.get(label.strip(), label.strip())]


def _joined(table: Table, labels: LabelSource, config: ExamplesConfig, findings: Findings) -> Table:
    """The table with the labels of another table, joined by id; an id with several labels has a list of them."""
    other = open_table(labels.source, config.encoding, findings, header_rule(config))
    id_column, label_column = other.columns.index(labels.label_id), other.columns.index(labels.label)
    label_of: dict[str, list[object]] = {}
    for _, row in other.rows:
        known = label_of.setdefault(str(row[id_column]).strip(), [])
        if row[label_column] not in known:
            known.append(row[label_column])
    other.bad_rows.finish()
    several = any(len(known) > 1 for known in label_of.values())
    text_id_column = table.columns.index(labels.text_id or "")

    def label(row: Sequence[object]) -> object:
        known = label_of.get(str(row[text_id_column]).strip())
        return known if known is None or several else known[0]

    return _with_column(table, labels.label, label)


def _with_column(table: Table, name: str, value: Callable[[Sequence[object]], object]) -> Table:
    """The table with one more column, which replaces a column of that name."""
    kept = [place for place, column in enumerate(table.columns) if column != name]

    def row_of(row: Row) -> Row:
        return row[0], [*(row[1][place] for place in kept), value(row[1])]

    columns = [*(table.columns[place] for place in kept), name]
    return replace(table, columns=columns, sample=list(map(row_of, table.sample)), rows=map(row_of, table.rows))

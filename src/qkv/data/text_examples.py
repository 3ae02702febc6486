"""Reads labelled texts from tables, lines with labels, fastText files, and folders named for labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from qkv.data.columns import TextColumns, column_index, guess_columns, lacks_label, text_problem
from qkv.data.corpus import ExamplesConfig
from qkv.data.documents.extract import DocumentTexts, UnreadableDocumentError
from qkv.data.example_tables import LABEL, TEXT, open_example_table
from qkv.data.examples import PackedTexts
from qkv.data.files.decode import normalize_line_ends
from qkv.data.findings import Assumption, Findings, OnRead
from qkv.data.formats.kinds import FASTTEXT_PREFIX
from qkv.data.formats.labelled_lines import LabelledLines
from qkv.data.formats.rows import LONE_SURROGATE, MAX_ROW_CHARACTERS, BadRows, read_lines
from qkv.data.formats.tabular import Table, open_table
from qkv.data.identity import keys_array
from qkv.data.label_names import at_level
from qkv.data.labels import LABEL_BREAK, RawSplit, TextCollector, find_separator, label_text
from qkv.data.overlapping_files import note_overlapping_files
from qkv.data.split_files import MAX_OPENED_FILES, ExampleFile
from qkv.errors import DataError
from qkv.ranges import ExampleTask
from qkv.visible import encodable


def has_several_labels(table: Table, column: str, task: ExampleTask | None) -> bool:
    """Whether the cells of a column hold any number of labels, by the first rows."""
    cells = table.sample_column(column_index(table, column, "label"))
    lists = any(isinstance(cell, list) for cell in cells)
    counts = Counter(text for cell in cells if (text := label_text(cell)) is not None)
    return task in (None, "multi-label") and find_separator(counts, lists, task, "", Findings()) is not None


def is_blank(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


class TextReader:
    """Reads the splits of labelled texts; the columns are those of the first training table."""

    def __init__(self, config: ExamplesConfig, findings: Findings, on_read: OnRead) -> None:
        self.config, self.findings, self.on_read = config, findings, on_read
        self.columns: TextColumns | None = None
        self.blank_is_no_label = False
        """Whether a blank cell means that none of several labels holds."""
        self.layout: LabelledLines | None = None
        self.extracted = DocumentTexts()

    def read(self, files: Sequence[ExampleFile]) -> RawSplit:
        collector = TextCollector()
        folders = BadRows("files in folders", self.findings)
        starts: list[int] = []
        for file in files:
            starts.append(len(collector.keys))
            if file.kind in ("table", "lines") or (
                file.kind == "text" and file.label is None and self._may_have_labels(file)
            ):
                self._table(file, collector)
            elif file.kind == "fasttext":
                self._fasttext(file, collector)
            elif file.label is not None:
                self._whole_file(file, file.label, collector, folders)
            else:
                expected = (
                    "a table, LABEL and TAB before the text, __label__NAME, CoNLL, or sub-folders named for labels"
                )
                raise DataError(file.display_name, "is text without labels", f"Expected {expected}.")
        folders.finish()
        if 1 < len(files) <= MAX_OPENED_FILES:
            note_overlapping_files(files, starts, keys_array(collector.keys), self.findings)
        return collector.to_split()

    def _may_have_labels(self, file: ExampleFile) -> bool:
        """Whether the lines of a text may have labels, because those of an earlier file have, or repeated words."""
        return self.layout is not None or open_table(file.source, self.config.encoding, Findings()).layout is not None

    def _table(self, file: ExampleFile, collector: TextCollector) -> None:
        table = open_example_table(file, self.config, self.findings, self.on_read, self.layout)
        table.require_rows()
        self.layout = self.layout or table.layout
        if file.kind == "lines":
            self.columns = TextColumns(TEXT, LABEL)
        elif self.columns is None:
            config = self.config
            if config.label is None and (file.label or file.labels):
                config = replace(config, label=file.labels.label if file.labels else LABEL)
            self.columns = guess_columns(table, config)
            self.findings.add_note(self.columns.note(table))
            self.blank_is_no_label = has_several_labels(table, self.columns.label, config.task)
        elif lacks_label(table, self.columns.label, file.discovered and file.split == "test", self.findings):
            return
        if not len(collector.texts):
            collector.second = PackedTexts() if self.columns.second else None
            collector.ids = PackedTexts() if self.columns.id else None
        self._rows(table, self.columns, collector)

    def _rows(self, table: Table, columns: TextColumns, collector: TextCollector) -> None:
        named = (("text", columns.text), ("text2", columns.second))
        texts = [column_index(table, name, role) for role, name in named if name is not None]
        label = column_index(table, columns.label, "label")
        id_column = table.columns.index(columns.id) if columns.id in table.columns else None
        without = 0
        for line, row in table.rows:
            cells, name = [row[index] for index in texts], self._label(row[label], collector)
            if columns.level and name is not None:
                name = at_level(name, columns.level)
            row_id = None if id_column is None or row[id_column] is None else str(row[id_column])
            problem = next(filter(None, (text_problem(row[index], table.columns[index]) for index in texts)), None)
            if problem is None and not encodable(*map(str, cells), name or "", row_id or ""):
                problem = LONE_SURROGATE
            if problem is not None:
                table.bad_rows.reject(line, problem)
                continue
            if name is None and self.blank_is_no_label and is_blank(row[label]):
                without += 1
            elif name is None:
                table.bad_rows.lacks_label(line, columns.label)
                continue
            # JSON strings may contain \r; in other formats line ends are already normalized
            plain = [normalize_line_ends(str(cell), self.findings) for cell in cells]
            collector.add(plain, name or "", table.where, line, row_id)
        table.bad_rows.finish()
        if without:
            count = f"{without:,} of {table.bad_rows.row_count:,} rows have nothing in {columns.label!r}"
            self.findings.add_note(Assumption(f"{table.where}: {count}; they are examples without any of the labels."))

    def _label(self, value: object, collector: TextCollector) -> str | None:
        """A label as text, with several labels joined; None if there is none."""
        if isinstance(value, list | tuple):
            collector.multi_label = True
            labels = [label_text(item) for item in value]
            return None if None in labels else LABEL_BREAK.join(label for label in labels if label)
        return label_text(value)

    def _fasttext(self, file: ExampleFile, collector: TextCollector) -> None:
        bad = BadRows(file.display_name, self.findings)
        lines = read_lines(file.source, self.config.encoding, self.findings, self.on_read)
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            bad.row_count += 1
            labels: list[str] = []
            text = line.strip()
            while text.startswith(FASTTEXT_PREFIX):
                label, _, text = text.partition(" ")
                labels.append(label.removeprefix(FASTTEXT_PREFIX))
                text = text.lstrip()
            if not labels or not all(labels):
                bad.reject(number, f"expected {FASTTEXT_PREFIX}NAME at the start of the line")
            elif not text:
                bad.reject(number, "no text")
            else:
                collector.multi_label |= len(labels) > 1
                collector.add([text], LABEL_BREAK.join(labels), file.display_name, number)
        bad.finish()

    def _whole_file(self, file: ExampleFile, label: str, collector: TextCollector, bad: BadRows) -> None:
        where = file.display_name
        if file.kind == "image":
            raise DataError(where, "is an image among texts", "Keep images and texts in folders of their own.")
        whole = ""
        try:
            texts = self.extracted.read(file.source, self.config.encoding, self.findings, self.on_read)
        except UnreadableDocumentError as error:
            self.findings.unread_documents.append(error)
            return
        for text in texts:
            whole += text
            if len(whole) > MAX_ROW_CHARACTERS:
                raise DataError(
                    where, f"a text of more than {MAX_ROW_CHARACTERS:,} characters", "Split it into smaller files."
                )
        bad.row_count += 1
        if whole.strip():
            collector.add([whole], label, where, 0)
        else:  # not `reject`, because one bad file among few must not end the reading
            bad.bad_count += 1
            bad.first_bad = bad.first_bad or (bad.row_count, f"{where} is empty")

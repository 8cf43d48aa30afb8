"""Lines about a silent worker, for several commands."""

from __future__ import annotations

from weft.cli.output import table_width, wrap_words
from weft.model import Worker
from weft.process.process_identity import get_place
from weft.runs.host_list import explain_silence, is_dead_here


def list_silence_lines(worker: Worker) -> list[str]:
    text = explain_silence(worker, get_place(), gone=is_dead_here(worker))
    width = table_width()
    return [*wrap_words(f"  ! {text.fact}", width), *wrap_words(f"      {text.advice}", width)]

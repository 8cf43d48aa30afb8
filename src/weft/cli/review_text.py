"""A candidate as text that a person comments on in an editor, and the comments in an edited text.

Lines of weft start with `#` or `>`; every other line is a comment on the line of weft above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from weft.candidate_records import CommentDraft
from weft.cli.output import printable
from weft.errors import InputError
from weft.formats import dollars, listed
from weft.gate.review_view import DiffFile, DiffLine, EarlierComment, ReviewView


class ReviewPlace(Struct, frozen=True, kw_only=True):
    """The place that a comment below a line of weft is about."""

    path: str = ""
    side: str = "new"
    line: int = 0
    quoted: str = ""


Line = tuple[str, ReviewPlace]
_WHOLE = ReviewPlace()


def write_review(view: ReviewView) -> str:
    """Write a candidate with its drafts; no text of an agent can steer a terminal."""
    written: list[str] = []
    drafts = list(view.drafts)
    for text, place in _lines(view):
        written.append(text)
        for draft in [draft for draft in drafts if _is_at(draft, place)]:
            written += [_as_comment(line) for line in draft.text.splitlines()]
            drafts.remove(draft)
    for draft in drafts:  # on the whole, or on a line that the diff does not show
        start = f"{draft.path}:{draft.line}: " if draft.path else ""
        written += [_as_comment(line) for line in f"{start}{draft.text}".splitlines()]
    return "\n".join(written) + "\n"


def read_comments(text: str, view: ReviewView) -> list[CommentDraft]:
    """Read the comments in an edited text. Lines of weft may be missing.

    Raise `InputError` if a line of weft was changed, or if the text is about another candidate.
    """
    _refuse_other(text, view)
    lines = list(_lines(view))
    numbers: dict[str, list[int]] = {}
    for number, (line, _) in enumerate(lines):
        numbers.setdefault(line, []).append(number)
    comments: list[tuple[ReviewPlace, list[str]]] = [(_WHOLE, [])]
    reached = 0
    for row, line in enumerate(text.splitlines(), 1):
        own = next((number for number in numbers.get(line.rstrip(), ()) if number >= reached), None)
        if own is not None:
            reached = own
            comments.append((lines[own][1], []))
        elif line.startswith(("#", ">")):
            raise InputError(
                f"Line {row} starts with {line[0]!r} but is no line of this review: "
                f"{printable(line[:60])!r}. Begin comments with another character."
            )
        else:
            comments[-1][1].append(line)
    return [
        CommentDraft(
            text=words,
            path=place.path,
            side="old" if place.side == "old" else "new",
            line=place.line,
            quoted=place.quoted,
        )
        for place, written in comments
        if (words := "\n".join(written).strip())
    ]


def _refuse_other(text: str, view: ReviewView) -> None:
    for line in text.splitlines():
        if line.startswith("# candidate ") and line.split()[2:3] != [view.item.candidate]:
            raise InputError(
                f"The text is about {line[2:]!r}, but candidate {view.item.candidate} is in "
                f"review; `weft review {view.item.name}` shows it."
            )


def _is_at(draft: CommentDraft, place: ReviewPlace) -> bool:
    return bool(draft.path) and (draft.path, draft.side, draft.line) == (
        place.path,
        place.side,
        place.line,
    )


def _as_comment(line: str) -> str:
    words = printable(line)
    return f" {words}" if words.startswith(("#", ">")) else words


def _lines(view: ReviewView) -> Iterator[Line]:
    for line in _head(view):
        yield f"# {printable(line)}".rstrip(), _WHOLE
    if view.since_last_round:
        yield "# CHANGES SINCE THE LAST ROUND", _WHOLE
        yield from _diff_lines(view.since_last_round, old_counts=False)
    if view.since_last_round or view.earlier:
        yield "# ALL CHANGES", _WHOLE
    yield from _diff_lines(view.files, old_counts=True)
    yield "# Comments below this line are about the change as a whole:", _WHOLE


def _head(view: ReviewView) -> Iterator[str]:
    item = view.item
    yield f"{item.name}, round {item.round}: {item.title}"
    yield f"candidate {item.candidate}"
    yield from (f"  {line}" for line in view.summary.splitlines())
    tries = f"{view.attempts} attempt{'s' if view.attempts != 1 else ''}"
    if view.outside:
        yield f"also changed {listed(view.outside)}, outside the files of its task"
    yield f"check: {view.check}"
    yield f"cost: {dollars(view.micro_usd)}, {view.tokens:,} tokens, {tries}"
    for earlier in view.earlier:
        yield from _earlier_lines(earlier)
    yield ""
    yield "Write comments on lines of their own, below the line they concern."
    yield ""


def _earlier_lines(earlier: EarlierComment) -> Iterator[str]:
    comment = earlier.comment
    yield ""
    yield f"comment {comment.id} on {_describe_place(earlier)}:"
    yield from (f"  | {line}" for line in comment.text.splitlines())
    answer = f"{comment.answer}: {comment.reason}" if comment.answer else "no answer"
    yield f"  {answer}"


def _describe_place(earlier: EarlierComment) -> str:
    comment = earlier.comment
    if not comment.path:
        return "the change as a whole"
    if not comment.line:
        return comment.path
    place = f"{comment.path}:{comment.line}"
    if earlier.line is None:
        return f"{place} (moved: no line has this text any more)"
    return place if earlier.line == comment.line else f"{place} (now line {earlier.line})"


def _diff_lines(files: Sequence[DiffFile], *, old_counts: bool) -> Iterator[Line]:
    for file in files:
        yield "#", _WHOLE
        renamed = f" from {file.source}" if file.source else ""
        more = "".join(f", {word}" for word in (file.mode, "binary" * file.binary) if word)
        about = ReviewPlace(path=file.path)
        yield f"> {printable(file.path)} ({printable(file.kind + renamed + more)})", about
        for hunk in file.hunks:
            yield f"> @@ {printable(hunk.section)}".rstrip(), about
            for line in hunk.lines:
                place = _place(file, line, old_counts=old_counts)
                yield _diff_line(line), place


def _place(file: DiffFile, line: DiffLine, *, old_counts: bool) -> ReviewPlace:
    """Return the place of a line; a line of the last round only is in no side of the candidate."""
    if line.new is not None:
        return ReviewPlace(path=file.path, line=line.new, quoted=line.text)
    if not old_counts:
        return ReviewPlace(path=file.path, quoted=line.text)
    return ReviewPlace(
        path=file.source or file.path, side="old", line=line.old or 0, quoted=line.text
    )


def _diff_line(line: DiffLine) -> str:
    old, new = line.old or "", line.new or ""
    return f"> {old:>4} {new:>4} {printable(line.sign + line.text)}".rstrip()

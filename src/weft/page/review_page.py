"""The view of a candidate in review, and of the changes of a task."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from msgspec import Struct

from weft.candidate_records import ReviewComment
from weft.formats import clock, count, dollars
from weft.gate.review_view import DiffFile, EarlierComment, ReviewView
from weft.page.act_forms import act_button, send_form, text_area
from weft.page.diff_table import (
    LineNotes,
    LinePlace,
    choose_page,
    place_of,
    render_diff,
)
from weft.page.markup import Html, Part, article, described, joined, link, tag


class ReviewPage(Struct, frozen=True, kw_only=True):
    review: ReviewView
    place: LinePlace | None  # that a comment is being written on; an empty path: on the whole
    since_last: bool  # show only the changes since the last round
    start: int
    unfolded: str
    may_act: bool


class DiffView(Struct, frozen=True, kw_only=True):
    """The changes of a task that is not in review."""

    task: int
    name: str
    attempt: int | None  # None: it has landed
    commit: str
    files: tuple[DiffFile, ...]
    start: int
    unfolded: str


def render_review(page: ReviewPage) -> Html:
    review, item = page.review, page.review.item
    files = review.since_last_round if page.since_last else review.files
    base = f"review/{item.task}?since=1&" if page.since_last else f"review/{item.task}?"
    notes = LineNotes(
        below=_collect_notes(page, files),
        address=(lambda place: _address(base, place)) if page.may_act else None,
    )
    return article(
        f"Review of {item.name}",
        tag("p", item.title, class_="lead"),
        tag("p", review.summary, class_="text") if review.summary else None,
        described(_facts(review)),
        _earlier(review),
        _decision(page) if page.may_act else None,
        _tabs(page),
        tag("p", _total(files), class_="dim"),
        render_diff(choose_page(files, page.start, page.unfolded), base, notes),
        data_task=item.task,
    )


def _address(base: str, place: LinePlace) -> str:
    path, side, line = place
    return f"{base}path={quote(path)}&side={side}&line={line}"


def _facts(review: ReviewView) -> Iterator[tuple[str, Part]]:
    item = review.item
    yield "Round", f"{item.round}, since {clock(item.since)}"
    yield "Candidate", tag("code", item.candidate)
    yield "Check", review.check
    tries = count(review.attempts, "attempt")
    yield "Cost", f"{dollars(review.micro_usd)}, {review.tokens:,} tokens, {tries}"
    yield "Task", link(f"task/{item.task}", item.name)


def _total(files: tuple[DiffFile, ...]) -> str:
    lines = [line for file in files for hunk in file.hunks for line in hunk.lines]
    added = sum(line.old is None for line in lines)
    removed = sum(line.new is None for line in lines)
    return f"{count(len(files), 'file')}, {added:,} lines added, {removed:,} removed"


def _earlier(review: ReviewView) -> Html | None:
    """List the comments of the last round with their answers."""
    if not review.earlier:
        return None
    items = [_describe_earlier(earlier) for earlier in review.earlier]
    return joined(tag("h2", "Comments of the last round"), tag("ul", items, class_="comments"))


def _describe_earlier(earlier: EarlierComment) -> Html:
    comment = earlier.comment
    place = f"{comment.path}:{comment.lines}" if comment.line else comment.path
    moved = ""
    if comment.line and earlier.line is None:
        moved = " (its lines are gone)"
    elif earlier.line not in (None, comment.line):
        moved = f" (now line {earlier.line})"
    return tag(
        "li",
        tag("code", place or "the change as a whole"),
        moved,
        tag("p", comment.text, class_="text"),
        _answer(comment),
        id=f"earlier-{comment.id}",
    )


def _answer(comment: ReviewComment) -> Html:
    if not comment.answer:
        return tag("p", tag("span", "no answer", class_="tag waiting"))
    kind = "done" if comment.answer == "handled" else "running"
    return tag("p", tag("span", comment.answer, class_=f"tag {kind}"), f" {comment.reason}")


def _decision(page: ReviewPage) -> Html:
    item, drafts = page.review.item, page.review.drafts
    fields = {"candidate": item.candidate}
    send = act_button(
        "send_round",
        f"Send {count(len(drafts), 'comment')} to the agent",
        f"weft review {item.name} --send-back FILE",
        fields,
        key="r",
        go=f"task/{item.task}",
    )
    accept = act_button(
        "accept_candidate",
        "Accept",
        f"weft review {item.name} --accept --candidate {item.candidate}",
        fields,
        key="a",
        go=f"task/{item.task}",
    )
    whole = link(f"review/{item.task}?path=", "Comment on the whole", class_="button", data_key="c")
    form = _comment_form(page) if page.place is not None and not page.place[0] else None
    on_whole = [_render_draft(page, draft) for draft in drafts if not draft.path]
    return joined(
        tag("div", accept, send if drafts else None, whole, class_="acts sticky"), form, on_whole
    )


def _tabs(page: ReviewPage) -> Html | None:
    if not page.review.since_last_round:
        return None
    task = page.review.item.task
    return tag(
        "nav",
        link(f"review/{task}", "All changes", aria_current="page" if not page.since_last else None),
        link(
            f"review/{task}?since=1",
            "Since the last round",
            aria_current="page" if page.since_last else None,
        ),
        class_="tabs",
        aria_label="Changes",
    )


def _collect_notes(page: ReviewPage, files: tuple[DiffFile, ...]) -> dict[LinePlace, list[Html]]:
    """Collect the comments of both rounds, and the form, by the line they stand below."""
    notes: dict[LinePlace, list[Html]] = {}
    for earlier in page.review.earlier:
        comment = earlier.comment
        if comment.path and earlier.line is not None:
            below = (comment.path, comment.side, _last(comment, earlier.line))
            notes.setdefault(below, []).append(_render_note(comment, _answer(comment)))
    for draft in page.review.drafts:
        if draft.path:
            below = (draft.path, draft.side, _last(draft, draft.line))
            notes.setdefault(below, []).append(_render_draft(page, draft))
    if page.may_act and page.place is not None and page.place[0]:
        notes.setdefault(page.place, []).append(_comment_form(page))
    shown = {place_of(file, line) for file in files for hunk in file.hunks for line in hunk.lines}
    shown |= {(file.path, "new", 0) for file in files}
    for place in [place for place in notes if place not in shown]:
        # Its line is not part of the diff: it stands at the head of its file.
        notes.setdefault((place[0], "new", 0), []).extend(notes.pop(place))
    return notes


def _last(comment: ReviewComment, line: int) -> int:
    """Return the last line of a comment that starts at a line."""
    return line + max(0, comment.last - comment.line) if line else 0


def _render_note(comment: ReviewComment, *parts: Part) -> Html:
    lines = f"Lines {comment.lines}: " if comment.last > comment.line else ""
    return tag(
        "div",
        tag("p", lines, comment.text, class_="text"),
        parts,
        class_="note",
        id=f"comment-{comment.id}",
    )


def _render_draft(page: ReviewPage, draft: ReviewComment) -> Html:
    if not page.may_act:
        return _render_note(draft, tag("p", "not sent yet", class_="dim"))
    fields = {"candidate": page.review.item.candidate, "comment": draft.id}
    remove = act_button("remove_comment", "Remove", f"weft review {page.review.item.name}", fields)
    return _render_note(draft, tag("p", "not sent yet", class_="dim"), remove)


def _comment_form(page: ReviewPage) -> Html:
    assert page.place is not None
    path, side, line = page.place
    candidate, task = page.review.item.candidate, page.review.item.task
    about = f"line {line} of {path}" if line else path or "the change as a whole"
    draft = f"comment-{candidate}-{side}-{line}-{path}"
    back = f"review/{task}?since=1" if page.since_last else f"review/{task}"
    last = (
        tag(
            "label",
            "To line",
            tag("input", type="number", name="last", min=line, value=line, id="comment-last"),
        )
        if line
        else None
    )
    form = send_form(
        "comment",
        "Add the comment",
        f"weft review {page.review.item.name}",
        {"candidate": candidate, "path": path, "side": side, "line": line},
        text_area("text", f"Comment on {about}", draft=draft, required=True),
        last,
        link(back, "Cancel"),
        go=back,
    )
    return tag("div", form, class_="act note", id="comment-form")


def render_task_diff(view: DiffView) -> Html:
    base = f"diff/{view.task}?"
    source = "landed" if view.attempt is None else f"candidate of attempt {view.attempt}"
    return article(
        f"Changes of {view.name}",
        tag("p", f"{source}: ", tag("code", view.commit[:12]), class_="dim"),
        tag(
            "p", link(f"task/{view.task}", view.name), " · ", tag("code", f"weft diff {view.name}")
        ),
        tag("p", _total(view.files), class_="dim"),
        render_diff(choose_page(view.files, view.start, view.unfolded), base, LineNotes()),
        data_task=view.task,
    )

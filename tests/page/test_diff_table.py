"""Diffs as HTML: pages of lines, folded files, places of comments."""

from __future__ import annotations

from msgspec.structs import replace

from cases import each_case
from page.page_records import EVIL, NOW
from weft.candidate_records import ReviewComment
from weft.gate.review_view import (
    DiffFile,
    DiffHunk,
    DiffLine,
    EarlierComment,
    ReviewItem,
    ReviewView,
    find_line,
)
from weft.page.diff_table import (
    MOST,
    LineNotes,
    choose_page,
    count_lines,
    is_generated,
    render_diff,
)
from weft.page.review_page import DiffView, ReviewPage, render_review, render_task_diff


def make_file(path: str, lines: int) -> DiffFile:
    hunk = DiffHunk(
        section=EVIL,
        lines=tuple(
            DiffLine(new=number, text=f"{path} {number}") for number in range(1, lines + 1)
        ),
    )
    return DiffFile(path=path, kind="added", source=None, binary=False, hunks=(hunk,) * bool(lines))


def test_every_line_is_on_exactly_one_page() -> None:
    files = [make_file("a", 10), make_file("b", 4_990), make_file("empty", 0), make_file("c", 3)]
    start: int | None = 0
    seen: list[str] = []
    while start is not None:
        page = choose_page(files, start)
        lines = [line.text for file in page.files for hunk in file.hunks for line in hunk.lines]
        assert len(lines) <= MOST
        seen += lines
        start = page.more
    expected = [f"{file.path} {n}" for file in files for n in range(1, count_lines(file) + 1)]
    assert seen == expected


@each_case(
    ("path", "generated"),
    [
        *[("uv.lock", True), ("web/package-lock.json", True), ("go.sum", True), ("a_pb2.py", True)],
        *[("web/dist/app.js", True), ("app.min.js", True), ("src/lock.py", False)],
        *[("unlock.json", False), ("blocks/a.py", False), ("distance.py", False)],
    ],
)
def test_lock_files_and_generated_code_are_known_by_name(path: str, generated: bool) -> None:
    assert is_generated(path) is generated


def test_generated_files_are_folded_until_they_are_asked_for() -> None:
    files = [make_file("uv.lock", 5_000), make_file("a.py", 2)]
    folded = render_diff(choose_page(files, 0), "diff/1?", LineNotes())
    assert "5000 lines folded" in folded.replace(",", "")
    assert "uv.lock 17" not in folded
    assert "a.py 2" in folded
    unfolded = render_diff(choose_page(files, 0, "uv.lock"), "diff/1?", LineNotes())
    assert "uv.lock 17" in unfolded


def make_review(**changes: object) -> ReviewView:
    lines = (
        DiffLine(old=1, new=1, text="same"),
        DiffLine(old=2, text=f"before {EVIL}"),
        DiffLine(new=2, text=f"after {EVIL}"),
        DiffLine(new=3, text="more"),
    )
    file = DiffFile(
        path="a.py",
        kind="edited",
        source=None,
        binary=False,
        hunks=(DiffHunk(section="", lines=lines),),
    )
    view = ReviewView(
        item=ReviewItem(
            task=7,
            name="r/1.1",
            title=EVIL,
            run="r",
            tenant="default",
            candidate="7.1",
            round=2,
            since=NOW,
        ),
        base="b" * 40,
        tree="t" * 40,
        summary=EVIL,
        check="`make test` passed in 1 s",
        tokens=10,
        micro_usd=1_000,
        attempts=1,
        files=(file,),
        outside=(),
        since_last_round=(file,),
        earlier=(
            EarlierComment(
                comment=make_comment(1, line=2, answer="handled", reason=f"done {EVIL}"), line=3
            ),
            EarlierComment(comment=make_comment(2, line=9), line=None),
        ),
        drafts=(make_comment(3, line=2, last=3), make_comment(4, line=40)),
    )
    return replace(view, **changes)


def make_comment(id: int, **fields: object) -> ReviewComment:
    values = {"id": id, "entry": "7.1", "text": f"comment {id} {EVIL}", "path": "a.py", **fields}
    return ReviewComment(**values)  # type: ignore[arg-type]  # fields of several types


def show(may_act: bool = True, **changes: object) -> str:
    page = ReviewPage(
        review=make_review(), place=None, since_last=False, start=0, unfolded="", may_act=may_act
    )
    return render_review(replace(page, **changes))


def test_a_review_shows_comments_at_their_lines_and_decides_on_the_shown_candidate() -> None:
    html = show()
    assert html.index("comment 3") > html.index("new-3-a.py"), "below the last line of its range"
    assert "Lines 2-3" in html
    assert html.index("comment 4") < html.index("new-1-a.py"), "its line is not in the diff"
    assert "handled" in html
    assert "its lines are gone" in html
    assert "--candidate 7.1" in html
    assert "Send 2 comments" in html
    assert "Since the last round" in html
    assert "<script" not in html
    assert "\x1b" not in html


def test_a_reader_of_a_review_sees_no_act() -> None:
    html = show(may_act=False, place=("a.py", "new", 2))
    assert "<form" not in html
    assert "<button" not in html


def test_a_comment_is_written_below_its_line() -> None:
    html = show(place=("a.py", "new", 2))
    form = html.index('id="comment-form"')
    assert html.index("new-2-a.py") < form < html.index("new-3-a.py")
    assert 'name="last"' in html
    assert 'name="last"' not in show(place=("", "new", 0)), "the whole change has no lines"


def test_the_changes_of_a_task_have_no_comments() -> None:
    view = DiffView(
        task=7,
        name=EVIL,
        attempt=None,
        commit="c" * 40,
        files=make_review().files,
        start=0,
        unfolded="",
    )
    html = render_task_diff(view)
    assert "landed" in html
    assert "<form" not in html
    assert "<script" not in html


def test_several_quoted_lines_are_found_together() -> None:
    text = "one\ntwo\nthree\ntwo\nfour"
    assert find_line(text, 9, "two\nfour") == 4
    assert find_line(text, 2, "two\nthree") == 2
    assert find_line(text, 2, "two\nfive") is None

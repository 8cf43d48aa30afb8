"""HTML by construction: every text is escaped unless it is `Html` already."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files
from typing import Final

from weft.formats import clock, duration, plain

_VOID: Final = frozenset({"input", "br", "hr", "col"})
_EMPTY: Final = ""
_START: Final = "<!doctype html>\n"

HIGHLIGHT: Final = "highlight.js"
"""A script that lights up all parts of a page that belong to the task under the pointer."""


class Html(str):
    """Markup that needs no more escaping."""

    __slots__ = ()


class Cell(Html):
    """A cell of a table with a class of its own."""

    __slots__ = ()


Part = str | Iterable["Part"] | None
"""A text, markup, parts in a row, or nothing."""
Value = str | int | float | bool | None
"""The value of an attribute: True is an attribute without a value, False and None are none."""


def escaped(text: str) -> Html:
    """Escape a text line by line, without characters that control a terminal or reverse a line."""
    if isinstance(text, Html):
        return text
    return Html(escape("\n".join(map(plain, text.split("\n")))))


def joined(*parts: Part) -> Html:
    return Html(_EMPTY.join(_flat(parts)))


def _flat(part: Part) -> Iterable[str]:
    if part is None:
        return
    if isinstance(part, str):
        yield escaped(part)
        return
    for child in part:
        yield from _flat(child)


def tag(name: str, /, *parts: Part, **attributes: Value) -> Html:
    """Make an element. `class_` is `class`, `data_row` is `data-row`."""
    opening = f"<{name}{_attributes(attributes)}>"
    if name in _VOID:
        return Html(opening)
    return Html(f"{opening}{joined(*parts)}</{name}>")


def _attributes(attributes: Mapping[str, Value]) -> str:
    written = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        shown = name.rstrip("_").replace("_", "-")
        written.append(f" {shown}" if value is True else f' {shown}="{escaped(str(value))}"')
    return _EMPTY.join(written)


def article(title: str, *parts: Part, heading: Part = None, **attributes: Value) -> Html:
    """Make the root of a view. The title is also that of the browser's tab."""
    return tag("article", tag("h1", heading or title), *parts, data_title=title, **attributes)


def link(address: str, *parts: Part, **attributes: Value) -> Html:
    """Link to a view: `now`, `task/12?attempt=1`."""
    return tag("a", *parts, href=f"#/{address}", **attributes)


def table(heads: Iterable[Part], rows: Iterable[Html], *, caption: str) -> Html:
    """Make a table; a screen reader reads the caption aloud."""
    head = tag(
        "tr", [part if isinstance(part, Cell) else tag("th", part, scope="col") for part in heads]
    )
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, class_="unseen"),
            tag("thead", head),
            tag("tbody", list(rows)),
        ),
        class_="card scroll",
    )


def tr(*cells: Part, **attributes: Value) -> Html:
    row = [cell if isinstance(cell, Cell) else tag("td", cell) for cell in cells]
    return tag("tr", row, **attributes)


def number(text: str) -> Cell:
    """Make a cell of a table whose text stands at its right edge."""
    return Cell(tag("td", text, class_="r n"))


def number_head(text: str) -> Cell:
    return Cell(tag("th", text, scope="col", class_="r"))


def dim(*parts: Part) -> Html:
    """Make a paragraph that a reader may pass over."""
    return tag("p", *parts, class_="dim")


def colour_keys(pairs: Iterable[tuple[str, str]], *more: Part) -> Html:
    """Explain the colours of a chart; each pair is a class of the style sheet and its meaning."""
    keys = [tag("span", tag("i", class_=kind), text) for kind, text in pairs]
    return tag("div", keys, *more, class_="keys")


def since(at: float, now: float) -> Html:
    """Show the age of a moment; the script lets it grow."""
    return tag("time", duration(max(0.0, now - at)), data_since=f"{at:.0f}", title=clock(at))


def state_tag(word: str, kind: str) -> Html:
    """Show a state as word, shape and colour; the style sheet gives each kind its shape."""
    return tag("span", word, class_=f"tag {kind}")


def figures(pairs: Iterable[tuple[Part, str]]) -> Html:
    """Show numbers above their names."""
    cards = [
        tag("div", tag("b", number), tag("span", name), class_="card") for number, name in pairs
    ]
    return tag("div", cards, class_="cards")


def described(pairs: Iterable[tuple[str, Part]]) -> Html:
    return tag("dl", [(tag("dt", name), tag("dd", value)) for name, value in pairs])


def render_page(title: str, body: Iterable[str], script: str = "") -> str:
    """Return the page; `title` is escaped already, `script` is a file of this package.

    The page's policy keeps the browser from running any other script and from loading other files,
    even if text of a plan or an agent should slip through unescaped.
    """
    code = _read(script) if script else ""
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    scripts = f"; script-src 'sha256-{digest}'" if code else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'{scripts}"
    return (
        f'{_START}<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_read('page.css')}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + (f"\n<script>{code}</script>" if code else "")
        + "\n</body>\n</html>\n"
    )


def _read(file: str) -> str:
    return files(__package__).joinpath(file).read_text(encoding="utf-8")


def is_page(data: bytes) -> bool:
    return data[:100].lstrip().lower().startswith(_START.strip().encode())

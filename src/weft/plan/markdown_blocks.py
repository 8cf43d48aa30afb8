"""The block structure of a Markdown file, from markdown-it.

Only block rules run: inline markup never matters here, and hostile input makes it slow. Quotes,
underlined headings, rules and link definitions are left off: to a plan they are prose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, paragraph
from markdown_it.token import Token
from msgspec import Struct, field

MOST_BLOCKS: Final = 100_000
"""About four seconds of markdown-it."""

DEEPEST: Final = 16
"""Levels of nesting; a list inside a list is two."""


class TooManyBlocks(Exception):
    """The file is made of more blocks than we are willing to read."""


class Block(NamedTuple):
    """A range of lines of the file, counted from 0, without line `last`."""

    type: str  # heading, paragraph, html, fence or code
    first: int
    last: int
    level: int = 0  # of a heading
    content: str = ""
    markup: str = ""


class ListItem(Struct, kw_only=True):
    """A list item at the top level, with all blocks inside it."""

    first: int
    last: int
    blocks: list[Block] = field(default_factory=list)
    title: Block | None = None  # the paragraph it begins with
    too_deep: bool = False


def visit_blocks(lines: Sequence[str], visit: Callable[[Block | ListItem], None]) -> None:
    """Visit the blocks and list items of the top level in order.

    Each is forgotten after its visit: a large plan has very many.
    """
    markdown = MarkdownIt("commonmark", {"maxNesting": DEEPEST})
    markdown.disable(["blockquote", "hr", "lheading", "reference"])
    state = _State("\n".join(lines), markdown)
    markdown.block.ruler.before("code", "visit", _visiting(visit, MOST_BLOCKS))
    markdown.block.ruler.before("code", "comment", _comment, {"alt": ["paragraph"]})
    markdown.block.tokenize(state, 0, state.lineMax)
    _visit_all(state.tokens, visit)


class _State(StateBlock):
    """A parser state that makes tokens without the dictionaries of a full token.

    Parsing takes most of the time of reading. Of some tokens only the kind is read, so a single
    token of each such kind is shared.
    """

    def __init__(self, source: str, markdown: MarkdownIt) -> None:
        super().__init__(source, markdown, {}, [])
        self._shared = {kind: _token(kind, "", 0) for kind in _ONLY_KINDS}

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        if nesting < 0:
            self.level -= 1
        token = self._shared.get(ttype) or _token(ttype, tag, self.level)
        if nesting > 0:
            self.level += 1
        self.tokens.append(token)
        return token


_ONLY_KINDS: Final = ("paragraph_open", "paragraph_close", "list_item_close", "heading_close")


def _token(kind: str, tag: str, level: int) -> Token:
    token = Token.__new__(Token)
    token.type = kind
    token.tag = tag
    token.map = None
    token.content = token.markup = ""
    token.level = level
    return token


def _visiting(visit: Callable[[Block | ListItem], None], left: int) -> Any:
    """Return a rule that runs where a block begins, and so after the previous block has ended.

    It matches only the text of a task, which is a paragraph for weft in all cases.
    """

    def rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooManyBlocks
        if state.level == 0:
            _visit_all(state.tokens, visit)
        at = state.bMarks[start] + state.tShift[start]
        if state.src.startswith("[", at) and not state.is_code_block(start):
            return paragraph(state, start, end, silent)
        return False

    return rule


def _comment(state: StateBlock, start: int, _end: int, silent: bool) -> bool:
    """Match a comment that ends on its line, as html_block would after many other rules."""
    at = state.bMarks[start] + state.tShift[start]
    if not state.src.startswith("<!--", at) or state.is_code_block(start):
        return False
    stop = state.eMarks[start]
    if state.src.find("-->", at, stop) < 0:
        return False
    if not silent:
        state.line = start + 1
        token = state.push("html_block", "", 0)
        token.map = [start, start + 1]
        token.content = state.src[at:stop]
    return True


def _visit_all(tokens: list[Token], visit: Callable[[Block | ListItem], None]) -> None:
    for block in _gather(tokens):
        visit(block)
    tokens.clear()


def _gather(tokens: list[Token]) -> Iterator[Block | ListItem]:
    depth = 0
    item: ListItem | None = None
    for at, token in enumerate(tokens):
        kind = token.type
        if kind == "list_item_open":
            depth += 1
            if depth == 1 and token.map:
                item = ListItem(first=token.map[0], last=token.map[1])
                begins = tokens[at + 1]
                if begins.type == "paragraph_open":
                    item.title = _block(tokens[at + 2], "paragraph")
            elif item is not None and token.level >= DEEPEST - 1:
                item.too_deep = True
        elif kind == "list_item_close":
            depth -= 1
            if depth == 0 and item is not None:
                yield item
                item = None
        else:
            block = _leaf(tokens, at)
            if block is None:
                continue
            if item is None:
                yield block
            elif item.title is None or block.first != item.title.first:
                item.blocks.append(block)


_LEAVES: Final = {"html_block": "html", "fence": "fence", "code_block": "code"}


def _leaf(tokens: list[Token], at: int) -> Block | None:
    token = tokens[at]
    if token.type in _LEAVES:
        return _block(token, _LEAVES[token.type])
    if token.type == "inline":
        opened = tokens[at - 1]
        if opened.type == "heading_open":
            return _block(token, "heading", level=int(opened.tag[1]))
        return _block(token, "paragraph")
    return None


def _block(token: Token, kind: str, level: int = 0) -> Block:
    first, last = token.map or (0, 0)
    return Block(kind, first, last, level, token.content, token.markup)

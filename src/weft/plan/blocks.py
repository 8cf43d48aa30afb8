"""The block structure of a Markdown file, from markdown-it, reduced to what a plan needs.

Only block rules run: inline markup never matters here, and is where hostile input is slow.
Quotes, underlined headings, rules and link definitions are left off: to a plan they are prose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

MOST_BLOCKS: Final = 100_000
"""About four seconds of markdown-it."""

DEEPEST: Final = 16
"""Levels of nesting; a list inside a list is two."""


class TooManyBlocks(Exception):
    """The file is made of more blocks than we are willing to read."""


class Block(NamedTuple):
    """Some lines of the file, counted from 0, the last one excluded."""

    type: str  # heading, paragraph, html, fence or code
    first: int
    last: int
    level: int = 0  # of a heading
    content: str = ""
    markup: str = ""


@dataclass(kw_only=True, slots=True)
class Item:
    """A list item at the top level, with all blocks inside it."""

    first: int
    last: int
    blocks: list[Block] = field(default_factory=list)
    title: Block | None = None  # the paragraph it begins with
    too_deep: bool = False


def parse(lines: Sequence[str]) -> Iterator[Block | Item]:
    """Yield the blocks and list items of the top level."""
    markdown = MarkdownIt("commonmark", {"maxNesting": DEEPEST})
    markdown.disable(["blockquote", "hr", "lheading", "reference"])
    markdown.block.ruler.before("code", "budget", _budget(MOST_BLOCKS))
    state = _State("\n".join(lines), markdown, {}, [])
    markdown.block.tokenize(state, 0, state.lineMax)
    return _gather(state.tokens)


class _State(StateBlock):
    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        """Make a token of what is read here, without the dictionaries of a full one.

        They are a quarter of the time that parsing takes, and much of the memory.
        """
        token = Token.__new__(Token)
        token.type = ttype
        token.tag = tag
        token.map = None
        token.content = token.markup = ""
        self.level += min(nesting, 0)
        token.level = self.level
        self.level += max(nesting, 0)
        self.tokens.append(token)
        return token


def _budget(left: int) -> Any:
    """Make a rule that matches nothing and gives up after so many blocks."""

    def rule(_state: StateBlock, _start: int, _end: int, silent: bool) -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooManyBlocks
        return False

    return rule


def _gather(tokens: list[Token]) -> Iterator[Block | Item]:
    depth = 0
    item: Item | None = None
    for at, token in enumerate(tokens):
        kind = token.type
        if kind == "list_item_open":
            depth += 1
            if depth == 1 and token.map:
                item = Item(first=token.map[0], last=token.map[1])
                # What the item begins with, if that is text.
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
    return Block(
        type=kind, first=first, last=last, level=level, content=token.content, markup=token.markup
    )

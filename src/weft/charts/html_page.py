"""An HTML page that loads no other file, with the style sheet of all charts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from typing import Final

_START: Final = "<!doctype html>\n"


HIGHLIGHT: Final = "highlight.js"
"""A script that lights up all parts of a page that belong to the task under the pointer."""


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

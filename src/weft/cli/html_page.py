"""An HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Final

_START: Final = "<!doctype html>\n"


def document(title: str, style: str, body: Iterable[str], script: str = "") -> str:
    """The whole page; the title is escaped already.

    Whatever slips into it from a plan or an agent, the browser runs no script but this one and
    asks nobody for anything.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"; script-src 'sha256-{digest}'" if script else ""
    policy = f"default-src 'none'; style-src 'unsafe-inline'{scripts}"
    return (
        f'{_START}<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + (f"\n<script>{script}</script>" if script else "")
        + "\n</body>\n</html>\n"
    )


def is_page(data: bytes) -> bool:
    return data[:100].lstrip().lower().startswith(_START.strip().encode())

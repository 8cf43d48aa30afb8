"""weft's own tokens in what others print. Pure.

An agent that is given a token may print it, by mistake or because somebody told it to. What it
prints goes straight to its own file; nothing that weft shows or stores of it has the token.
"""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "weft_[hidden]"

_TOKEN: Final = re.compile(rb"weft_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")
_MARK: Final = b"weft_"


def without_tokens(line: bytes) -> bytes:
    if _MARK not in line:
        return line
    return _TOKEN.sub(HIDDEN.encode(), line)

from __future__ import annotations

from attempt.ground import either, ground, url

__all__ = ["either", "ground", "url"]

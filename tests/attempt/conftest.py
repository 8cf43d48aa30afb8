from __future__ import annotations

from attempt.attempt_project import either, ground, url

__all__ = ["either", "ground", "url"]

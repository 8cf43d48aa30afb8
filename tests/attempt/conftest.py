from __future__ import annotations

from attempt.attempt_project import either, project, url

__all__ = ["either", "project", "url"]

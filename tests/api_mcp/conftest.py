from __future__ import annotations

from mcp_project import project

__all__ = ["project"]

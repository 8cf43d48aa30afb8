from __future__ import annotations

from mcp_project import house

__all__ = ["house"]

from __future__ import annotations

from mcp_house import house

__all__ = ["house"]

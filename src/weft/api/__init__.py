"""The faces for programs: HTTP and MCP over the same records."""

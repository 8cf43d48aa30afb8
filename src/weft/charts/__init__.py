"""Charts of plans and runs, drawn from plain records: SVG for pages, text for terminals. Pure."""

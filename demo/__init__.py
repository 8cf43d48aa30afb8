"""`make demo`: weft at work on a small project, with all that goes wrong in real life."""

"""Runs, prepared from plans and read: watched, explained, estimated, reported."""

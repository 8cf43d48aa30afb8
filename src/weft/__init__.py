"""Runs many coding agents on one git repository and weaves their work into one branch."""

__version__ = "0.1.0"

"""Redaction of secrets from all that weft stores and shows."""

from weft.redaction.redactor import SHAPES_ALONE, Redactor
from weft.redaction.secrets import list_secrets

__all__ = ["SHAPES_ALONE", "Redactor", "list_secrets"]

"""No secret in what weft stores and shows: which values are secret, and how they are taken out."""

from weft.redaction.redactor import SHAPES_ALONE, Redactor
from weft.redaction.secrets import known

__all__ = ["SHAPES_ALONE", "Redactor", "known"]

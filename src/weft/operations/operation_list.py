"""All operations, for the faces that derive from every one of them."""

from weft.operations import reviewing, steering
from weft.operations.registry import OPERATIONS

__all__ = ["OPERATIONS", "reviewing", "steering"]

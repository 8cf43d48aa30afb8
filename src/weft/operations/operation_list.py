"""All operations, for the faces that derive from every one of them."""

from weft.operations import (
    dispatch,
    member_operations,
    reading,
    reviewing,
    steering,
    token_operations,
)
from weft.operations.registry import OPERATIONS

__all__ = [
    "OPERATIONS",
    "dispatch",
    "member_operations",
    "reading",
    "reviewing",
    "steering",
    "token_operations",
]

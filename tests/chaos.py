"""The longer versions of adversarial tests, which `make chaos` and `make mutants` turn on."""

from __future__ import annotations

import os
from typing import Final

CHAOS: Final = "WEFT_CHAOS" in os.environ

"""The corpus under tests/plans: each file and, beside it, the result of reading it.

    WEFT_GOLDEN=1 pytest tests/plan/test_plan_corpus.py

writes the golden files anew. Read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from cases import each_case
from weft import plan

PLANS = Path(__file__).parent.parent / "plans"
CORPUS = sorted(path for path in PLANS.iterdir() if not path.name.endswith(".golden.json"))


@each_case("path", CORPUS)
def test_a_plan_compiles_to_its_golden_file(path: Path) -> None:
    reading = plan.read(path.name, path.read_bytes())
    result = plan.as_json(reading, plan.compile(reading.plan))
    golden = path.with_name(f"{path.name}.golden.json")
    if os.environ.get("WEFT_GOLDEN"):
        text = json.dumps(result, indent=1, ensure_ascii=False)
        golden.write_text(text + "\n", encoding="utf-8")
    assert result == json.loads(golden.read_text(encoding="utf-8"))


def test_the_corpus_is_large_and_has_no_orphans() -> None:
    assert len(CORPUS) >= 25
    assert {path.name for path in PLANS.glob("*.golden.json")} == {
        f"{path.name}.golden.json" for path in CORPUS
    }

"""An agent of a loop without a model: ROLE. Works on the issues of its workspace."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def end(**step: object) -> None:
    sys.stdout.write("Done.\n```weft\n" + json.dumps(step) + "\n```\n")


def find_issue(prompt: str) -> str:
    words = prompt.replace("`", " ").replace(",", " ").split()
    return next(word for word in words if word.startswith("issues/") and word.endswith(".md"))


def dispatch(prompt: str) -> None:
    under_way = prompt.partition("Under way already")[2]
    for path in sorted(Path("issues").glob("*.md")):
        if "state: open" in path.read_text() and str(path) not in under_way:
            files = [str(path), f"src/{path.stem}.py"]
            args = {"issue": str(path), "files": files}
            end(step="hand_over", agent="develop", note=f"Add {path.stem}. Mind it.", args=args)
            return
    if "state: later" in "".join(path.read_text() for path in Path("issues").glob("*.md")):
        end(step="sleep", until="trunk moved")
        return
    sys.stdout.write("Nothing is open.\n")


def main(role: str, prompt: str) -> None:
    if role == "dispatch":
        dispatch(prompt)
        return
    issue = Path(find_issue(prompt))
    if role == "develop":
        Path("src").mkdir(exist_ok=True)
        Path(f"src/{issue.stem}.py").write_text(f"{issue.stem} = 1\n")
        end(step="hand_over", agent="review", args={"issue": str(issue)})
    elif role == "review":
        end(step="hand_over", agent="land", args={"issue": str(issue)})
    else:
        issue.write_text(issue.read_text().replace("state: open", "state: done"))
        sys.stdout.write("Finished.\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin.read())

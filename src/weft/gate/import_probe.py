"""A probe for checks that import the user's checkout instead of their workspace.

A virtual environment with an editable install of the project leads every import of its packages to
the checkout in which it was made. A check that runs in a workspace would then test the user's
files, and pass whatever an agent wrote. Where such an install exists, the check of the base runs
with a small module that each Python process loads at its start and that lists, at its end, the
imported files below the checkout.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from weft import git
from weft.git import Commit
from weft.process.box import Box
from weft.project.site import Site

_SITES: Final = ("lib/python3*/site-packages", "lib/python3*/dist-packages")
_LARGEST: Final = 1 << 16  # bytes of a file that describes an install
_MOST: Final = 1000  # files that are looked up
_MODULE: Final = """
import atexit, os, sys


def _report(root, report):
    files = set()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str):
            path = os.path.realpath(path)
            if path.startswith(root + os.sep):
                files.add(os.path.relpath(path, root))
    with open(report, "a") as file:
        file.write("".join(name + "\\n" for name in sorted(files)))


if os.path.isdir(os.path.dirname(os.environ.get("WEFT_PROBE_REPORT", ""))):
    atexit.register(_report, os.environ["WEFT_PROBE_ROOT"], os.environ["WEFT_PROBE_REPORT"])

# The sitecustomize that this file hides, if the environment has one.
_here, _path = os.path.dirname(os.path.abspath(__file__)), sys.path
_probe = sys.modules.pop("sitecustomize", None)
sys.path = [place for place in _path if os.path.abspath(place) != _here]
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = _probe
finally:
    sys.path = _path
"""


class ImportProbe:
    def __init__(self, site: Site, directory: Path) -> None:
        self._site = site
        self._root = site.root.resolve()
        self._directory = directory
        self._report = directory / "report"

    def is_needed(self) -> bool:
        """Tell whether a Python environment within reach has an editable install of the
        checkout."""
        return any(self._leads_here(file) for place in self._places() for file in _installs(place))

    def arm(self) -> dict[str, str]:
        """Write the module; return the variables that load it into each Python process."""
        self._directory.mkdir(parents=True)
        (self._directory / "sitecustomize.py").write_text(_MODULE, encoding="utf-8")
        before = self._site.environment.get("PYTHONPATH", "")
        own = before if "PYTHONPATH" in self._site.config.gate.env else ""
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, (str(self._directory), own))),
            "WEFT_PROBE_ROOT": str(self._root),
            "WEFT_PROBE_REPORT": str(self._report),
        }

    def open_box(self, box: Box) -> Box:
        """Return a box in which an editable install of the checkout works, so that it is found."""
        return dataclasses.replace(
            box,
            readable=(*box.readable, self._root),
            writable=(*box.writable, self._directory),
        )

    def list_imported(self, commit: Commit) -> list[str]:
        """List the imported files of the checkout that the base has too."""
        if not self._report.is_file():
            return []
        names = sorted(set(self._report.read_text(encoding="utf-8").splitlines()))[:_MOST]
        return git.find_tracked(self._site.root, commit.tree, names)

    def _places(self) -> Iterator[Path]:
        """Yield the Python environments that a check can reach: linked, copied or on its PATH."""
        settings = self._site.config.workspace
        for name in (*settings.link, *settings.copy):
            yield self._root / name
        for entry in self._site.environment.get("PATH", "").split(os.pathsep):
            if os.path.isabs(entry):
                yield Path(entry).parent

    def _leads_here(self, file: Path) -> bool:
        try:
            with file.open("rb") as opened:
                text = opened.read(_LARGEST).decode(errors="replace")
        except OSError:
            return False
        if file.name == "direct_url.json":
            return '"editable"' in text and f"file://{quote(str(self._root))}" in text
        return any(line.startswith(str(self._root)) for line in text.splitlines())


def _installs(place: Path) -> Iterator[Path]:
    """Yield the files in which installers record where an editable install is."""
    for pattern in _SITES:
        for directory in place.glob(pattern):
            yield from directory.glob("*.pth")
            yield from directory.glob("*.dist-info/direct_url.json")

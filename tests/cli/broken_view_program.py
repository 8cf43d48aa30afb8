"""Opens the live view and breaks, or is broken; for the tests of what becomes of the terminal."""

import logging
import os
import sys
import time
from pathlib import Path

from weft.cli.view import open_view
from weft.project.project import get_project
from weft.store import open_store

project = get_project(Path.cwd(), os.environ)
with open_store(sys.argv[1]) as store, open_view(project, store) as view:
    view.tell("drawn")
    view.show([])
    logging.getLogger("weft").warning("something \x1b[2J odd")
    if sys.argv[2] == "raise":
        time.sleep(0.3)
        raise RuntimeError("a defect")
    while True:
        view.show([])
        time.sleep(0.05)

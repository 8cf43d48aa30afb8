from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from weft.git.disk import scratch_directory

KILLED = """
import os, signal, sys
from pathlib import Path
from weft.git.disk import scratch_directory
with scratch_directory(Path(sys.argv[1])) as place:
    (place / "file").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_goes_and_what_is_used_stays(tmp_path: Path) -> None:
    home = tmp_path / "weft" / "scratch"
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    [left] = home.iterdir()
    assert (left / "file").exists()
    with scratch_directory(tmp_path) as first, scratch_directory(tmp_path) as second:
        assert set(home.iterdir()) == {first, second}
    assert list(home.iterdir()) == []

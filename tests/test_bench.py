"""The runner of the figures: a figure that hangs or fails costs only itself."""

from __future__ import annotations

import sys

import pytest

from bench.__main__ import holds


def test_a_figure_that_hangs_is_ended_with_its_reason(capfd: pytest.CaptureFixture[str]) -> None:
    hanging = [sys.executable, "-c", "import threading; threading.Event().wait()"]
    assert not holds("slow_ms", hanging, limit=0.5)
    assert "slow_ms did not end within 0.5 s." in capfd.readouterr().err


def test_a_figure_that_fails_shows_its_reason(capfd: pytest.CaptureFixture[str]) -> None:
    assert not holds("odd_ms", [sys.executable, "-c", "raise SystemExit('no claude')"], limit=60)
    assert "no claude" in capfd.readouterr().err
    assert holds("good_ms", [sys.executable, "-c", ""], limit=60)

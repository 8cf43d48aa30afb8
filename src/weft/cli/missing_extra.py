"""The sentence for a command whose packages are an extra of the installation."""

from __future__ import annotations

import json
import shlex
import sys
from importlib import metadata
from typing import Final

DISTRIBUTION: Final = "weft-agents"

EXTRAS: Final = {
    "server": {
        "fastapi",
        "h11",
        "mcp",
        "mcp_types",
        "pydantic",
        "starlette",
        "typing_extensions",
        "uvicorn",
    },
    "postgres": {"psycopg", "psycopg_pool"},
}
"""Extra → the modules that come with it."""

_USES: Final = {
    "server": "`weft serve` and `weft mcp` need",
    "postgres": "A PostgreSQL store needs",
}


def explain_missing_extra(error: ModuleNotFoundError) -> str | None:
    """Name the command that installs a missing module; return None if no extra has the module."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in EXTRAS.items():
        if module in modules:
            return (
                f"{_USES[extra]} packages that are not installed ({module} is missing). "
                f"Install them: {_install_command(extra)}"
            )
    return None


def _install_command(extra: str) -> str:
    wanted = f"{DISTRIBUTION}[{extra}]{_source()}"
    if "/uv/tools/" in sys.prefix:
        return f"uv tool install --force {shlex.quote(wanted)}"
    if "/pipx/venvs/" in sys.prefix:
        return f"pipx install --force {shlex.quote(wanted)}"
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(wanted)}"


def _source() -> str:
    """Return ` @ URL` if weft was installed from a checkout, a wheel or a repository."""
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    if not text:
        return ""
    source = json.loads(text)
    version_control = source.get("vcs_info", {}).get("vcs")
    return f" @ {version_control + '+' if version_control else ''}{source['url']}"

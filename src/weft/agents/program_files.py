"""Settings, sessions and caches of programs, as paths. Pure.

Programs read a variable first and look below home otherwise; so does this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

_XDG: Final = {
    "CONFIG": ".config",
    "DATA": ".local/share",
    "STATE": ".local/state",
    "CACHE": ".cache",
}


class ProgramFiles(Struct, frozen=True, kw_only=True):
    variable: str = ""  # says where, if it is set
    home: str | None = None  # where it is otherwise, below the home directory; None: nowhere
    name: str = ""  # its name there, beside those of other programs


def xdg(kind: str, name: str) -> ProgramFiles:
    """Return the directory of a program among those of other programs."""
    return ProgramFiles(variable=f"XDG_{kind}_HOME", home=_XDG[kind], name=name)


def _home(*names: str) -> tuple[ProgramFiles, ...]:
    return tuple(ProgramFiles(home=name) for name in names)


CREDENTIALS: Final = (
    # keys and passwords
    *_home(".ssh", ".gnupg", ".netrc", ".password-store", ".local/share/keyrings", ".vault-token"),
    *_home(".pgpass", ".pg_service.conf", ".my.cnf"),
    *(xdg("CONFIG", name) for name in ("op", "Bitwarden", "keepassxc", "rclone")),
    # clouds
    *_home(".aws", ".azure", ".boto", ".s3cfg", ".oci", ".kube", ".docker", ".terraform.d"),
    *_home(".terraformrc", ".fly", ".netlify", ".wrangler", ".cloudflared"),
    *(xdg("CONFIG", name) for name in ("gcloud", "doctl", "hcloud", "heroku", "containers")),
    # forges and registries
    *_home(".git-credentials", ".npmrc", ".pypirc", ".gem/credentials"),
    *_home(".cargo/credentials", ".cargo/credentials.toml", ".hex/hex.config", ".yarnrc.yml"),
    *_home(".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties"),
    *_home(".composer/auth.json", ".nuget/NuGet", ".pub-cache/credentials.json", ".bundle/config"),
    *(xdg("CONFIG", name) for name in ("composer", "NuGet", "github-copilot", "sops", "age")),
    *(xdg("CONFIG", name) for name in ("git/credentials", "gh", "glab-cli", "hub", "tea")),
    # browsers and mail
    *_home(".mozilla", ".thunderbird", "snap/firefox", "snap/chromium", ".var/app"),
    *(xdg("CONFIG", name) for name in ("google-chrome", "chromium", "BraveSoftware")),
    *(xdg("CONFIG", name) for name in ("microsoft-edge", "vivaldi", "opera", "mozilla")),
    *(xdg("CACHE", name) for name in ("mozilla", "google-chrome", "chromium")),
    # weft's own, and sockets of the user's session
    *(xdg(kind, "weft") for kind in ("CONFIG", "DATA", "STATE")),
    ProgramFiles(variable="XDG_RUNTIME_DIR"),
)
"""Places of the user's keys, passwords and browsers: no sandboxed agent reads these."""


def find_all(places: Iterable[ProgramFiles], environment: Mapping[str, str]) -> list[str]:
    """Return the paths of the places that exist in this environment."""
    candidates = (_find(place, environment) for place in places)
    # A relative path is in the workspace, which no sandbox hides.
    return [path for path in candidates if path is not None and path.startswith("/")]


def expand(paths: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Expand paths of an agent file, which are absolute or start with `~/`."""
    home = environment.get("HOME")
    spelled = (f"{home}{path[1:]}" if home and path.startswith("~/") else path for path in paths)
    return [path for path in spelled if path.startswith("/")]


def _find(place: ProgramFiles, environment: Mapping[str, str]) -> str | None:
    base = environment.get(place.variable)
    if not base:
        home = environment.get("HOME")
        if not home or place.home is None:
            return None
        base = f"{home}/{place.home}" if place.home else home
    return f"{base}/{place.name}" if place.name else base

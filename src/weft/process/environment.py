"""The environment an agent gets. Pure.

Built up from nothing: what any program needs to find its way, what the agent file asks for by
name, what weft gives. So a secret of weft's or of the user's shell reaches an agent only when
somebody wrote its name into the agent file, and what is weft's own not even then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_NEEDED = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "TEMP",
        "TMP",
        "TZ",
        "LANG",
        "LANGUAGE",
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "XDG_CONFIG_HOME",
        "XDG_CONFIG_DIRS",
        "XDG_DATA_HOME",
        "XDG_DATA_DIRS",
        "XDG_CACHE_HOME",
        "XDG_STATE_HOME",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "GIT_SSL_CAINFO",
        "NIX_SSL_CERT_FILE",
        "NIX_PATH",
    }
)
"""Not among them: SSH_AUTH_SOCK and XDG_RUNTIME_DIR, through which an agent could act as the user
elsewhere (agents never push), and anything that points git, Python or a database somewhere."""

_NEEDED_PREFIX = "LC_"
_OWN_PREFIX = "WEFT_"


def build(
    own: Mapping[str, str], *, asked: Iterable[str], given: Mapping[str, str]
) -> dict[str, str]:
    """What an agent gets of weft's environment, with what weft gives it on top.

    `asked` are exact names; one that is not set is not passed. Names of weft's own are never
    taken from the environment, only given.
    """
    wanted = _NEEDED.union(asked)
    passed = {
        name: value
        for name, value in own.items()
        if (name in wanted or name.startswith(_NEEDED_PREFIX)) and not name.startswith(_OWN_PREFIX)
    }
    return {**passed, **given}

"""The environment of an agent. Pure.

It starts empty and gets the variables that any program needs, those the agent file names, and those
that weft sets. So a secret of the user's shell reaches an agent only if the agent file names it,
and a secret of weft never.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.redaction.secrets import FORGE_TOKENS

_NEEDED = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP"),
        *("TZ", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR"),
        *("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS"),
        *("XDG_CACHE_HOME", "XDG_STATE_HOME"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE", "NIX_PATH"),
    )
)
"""Without SSH_AUTH_SOCK and XDG_RUNTIME_DIR, through which an agent could act as the user elsewhere
(agents never push), and without variables that redirect git, Python or a database.
"""

_NEEDED_PREFIX = "LC_"
_OWN_PREFIX = "WEFT_"


def build_environment(
    own: Mapping[str, str], *, asked: Iterable[str], given: Mapping[str, str]
) -> dict[str, str]:
    """Return an agent's variables: those of `own` it may see, and `given` on top.

    `asked` are exact names; a name that is not set is skipped. Variables of weft are never taken
    from `own`, and tokens of forges from neither.
    """
    wanted = _NEEDED.union(asked) - FORGE_TOKENS
    passed = {
        name: value
        for name, value in own.items()
        if (name in wanted or name.startswith(_NEEDED_PREFIX)) and not name.startswith(_OWN_PREFIX)
    }
    allowed = {name: value for name, value in given.items() if name not in FORGE_TOKENS}
    return {**passed, **allowed}

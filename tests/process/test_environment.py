"""The variables that reach an agent."""

from __future__ import annotations

from weft.process.environment import build_environment
from weft.redaction.secrets import FORGE_TOKENS

SECRETS = {
    "WEFT_STORE": "postgresql://weft:secret@db/weft",
    "DATABASE_URL": "secret",
    "PGPASSWORD": "secret",
    "ANTHROPIC_API_KEY": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "GITHUB_TOKEN": "secret",
    "SSH_AUTH_SOCK": "secret",
    "GIT_DIR": "elsewhere",
}
PLAIN = {"PATH": "/bin", "HOME": "/home/me", "LANG": "C", "LC_ALL": "C", "HTTPS_PROXY": "http://p"}


def test_what_every_program_needs_is_passed_and_no_secret() -> None:
    assert build_environment({**PLAIN, **SECRETS}, asked=(), given={}) == PLAIN


def test_a_secret_that_is_asked_for_by_name_is_passed_alone() -> None:
    passed = build_environment({**PLAIN, **SECRETS}, asked=["ANTHROPIC_API_KEY"], given={})
    assert passed == {**PLAIN, "ANTHROPIC_API_KEY": "secret"}


def test_wefts_own_are_not_passed_even_when_asked_for_but_may_be_given() -> None:
    passed = build_environment(SECRETS, asked=["WEFT_STORE"], given={"WEFT_TASK": "7"})
    assert passed == {"WEFT_TASK": "7"}


def test_patterns_are_no_names() -> None:
    assert build_environment(SECRETS, asked=["*", "AWS_*", ""], given={}) == {}


def test_what_weft_gives_wins() -> None:
    assert build_environment({"HOME": "/home/me"}, asked=(), given={"HOME": "/tmp"}) == {
        "HOME": "/tmp"
    }


def test_tokens_of_forges_reach_no_agent_even_when_asked_for_or_given() -> None:
    tokens = dict.fromkeys(FORGE_TOKENS, "secret")
    assert {"GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN"} <= FORGE_TOKENS
    passed = build_environment({**PLAIN, **tokens}, asked=tokens, given={**tokens, "X": "1"})
    assert passed == {**PLAIN, "X": "1"}

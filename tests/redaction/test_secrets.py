"""The variables that are secret, and those that are not."""

from __future__ import annotations

from cases import each_case
from weft.redaction import list_secrets

RANDOM = "kD83jfhQ20skLs92jfA7dk3hF9s2"


@each_case(
    ("name", "value"),
    [
        ("MY_API_KEY", "abc-12345"),
        ("ANTHROPIC_API_KEY", f"sk-ant-{RANDOM}"),
        ("PGPASSWORD", "hunter2hunter2"),
        ("DB_PWD", "correct horse battery staple"),
        ("GITHUB_TOKEN", "a" * 40),
        ("npm_config_authToken", RANDOM),
        ("AWS_SECRET_ACCESS_KEY", "/wJalrXUtn9FEMI/K7MDENG3bPxRf2iCYEX8AMPLE4"),
        ("SIGNING_KEY", "wJalrXUtnFEMI"),
        ("TOTP_SECRET", "123456789012"),
    ],
)
def test_a_name_that_says_so_is_enough(name: str, value: str) -> None:
    assert list_secrets({name: value}) == [(name, value)]


@each_case(
    ("name", "value"),
    [
        ("MY_API_KEY", ""),
        ("MY_API_KEY", "1"),
        ("USE_TOKEN", "true"),
        ("PASSWORD", "postgres"),
        ("SECRET_STAGE", "production"),
        ("SECRET_STAGE", "Development"),
        ("MAX_OUTPUT_TOKENS", "32000"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/.config/gcloud/key-2.json"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-XXXX/agent.123"),
        ("PWD", "/home/me/project"),
        ("KEYBOARD_LAYOUT", "de-latin1-nodeadkeys"),
        ("TOKEN_URL", "https://example.org/oauth/token"),
        ("AUTH_TYPE", "oauth-personal"),
        ("MONKEY", "banana-and-more"),
        ("HOME", "/home/me"),
        ("BUILD", RANDOM),  # not passed to any agent
    ],
)
def test_short_and_common_values_never_are(name: str, value: str) -> None:
    assert list_secrets({name: value}) == []


def test_what_an_agent_is_given_is_also_secret_if_it_can_only_be_random() -> None:
    given = {
        "LICENCE": RANDOM,
        "UUID4": "0b7cb0b5-5a54-4b0c-8b8a-7c5b6d0fd8b1",
        "GITHUB_SHA": "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
        "STAGE": "production",
        "CLUSTER": "us-east-1-prod-cluster-a1",
        "DEBUG": "1",
        "STORE": f"/nix/store/{RANDOM}-weft",
        "LOCALES": "en_US.UTF-8:en_GB.UTF-8:de_DE",
        "SERVICE": "MyLongServiceNameInProduction2",
        "STARTED": "2024-01-01T00:00:00.000000+00:00",
    }
    assert dict(list_secrets(given, given)) == {
        "LICENCE": RANDOM,
        "UUID4": "0b7cb0b5-5a54-4b0c-8b8a-7c5b6d0fd8b1",
    }


def test_of_an_address_only_the_password_is_secret_and_what_is_random_in_it() -> None:
    variables = {
        "DATABASE_URL": "postgresql://app:hunter2hunter2@db.example.org/app",
        "LOCAL_URL": "postgresql://app:app@localhost/app",
        "HOOK": f"https://hooks.example.org/services/{RANDOM}",
    }
    assert list_secrets(variables) == [("DATABASE_URL", "hunter2hunter2")]
    assert list_secrets(variables, ["HOOK"])[1:] == [("HOOK", RANDOM)]


def test_a_key_of_several_lines_is_secret_line_by_line() -> None:
    key = f"-----BEGIN KEY-----\n{RANDOM}\n-----END KEY-----"
    assert list_secrets({"PRIVATE_KEY": key}) == [("PRIVATE_KEY", key), ("PRIVATE_KEY", RANDOM)]

"""The address of a server: one spelling, and suggestions for addresses without a scheme."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cases import each_case
from weft.errors import InputError
from weft.project.server_address import SERVER, find_server, get_url


@each_case(
    ("given", "usual"),
    [
        ("http://127.0.0.1:7337", "http://127.0.0.1:7337"),
        ("http://127.0.0.1:7337//", "http://127.0.0.1:7337"),
        ("HTTP://LocalHost:80/", "http://localhost"),
        ("https://Weft.Example:443/Team/", "https://weft.example/Team"),
        ("https://weft.example:80", "https://weft.example:80"),
        ("http://[::1]:80", "http://[::1]"),
        ("http://[::1]:7337/", "http://[::1]:7337"),
    ],
)
def test_an_address_has_one_spelling(given: str, usual: str) -> None:
    assert get_url({SERVER: given}) == usual


@each_case(
    ("given", "suggestion"),
    [
        ("127.0.0.1:17931", "write http://127.0.0.1:17931."),
        ("localhost:17931/", "write http://localhost:17931."),
        ("Weft.example", "write https://Weft.example."),
        ("weft.example:8443", "write https://weft.example:8443."),
        ("ftp://weft.example", "write http://127.0.0.1:7337 or https://NAME."),
        ("-x", "write http://127.0.0.1:7337 or https://NAME."),
    ],
)
def test_an_address_without_a_scheme_is_suggested_with_it(given: str, suggestion: str) -> None:
    with pytest.raises(InputError) as refused:
        get_url({SERVER: given})
    assert str(refused.value).endswith(suggestion)


@each_case(
    ("address", "token"),
    [
        ("http://127.0.0.1:7337", "secret"),
        ("http://[::1]:7337", ""),
        ("http://127.0.0.2:7337", ""),
        ("http://localhost:7337", ""),
        ("http://127.0.0.1:7338", ""),
    ],
)
def test_the_token_of_a_local_server_goes_to_its_own_address_alone(
    address: str, token: str
) -> None:
    """Another program may listen on the same port of another loopback address."""
    with TemporaryDirectory() as place:
        own = Path(place) / "server.token"
        own.write_text("secret")
        own.with_suffix(".url").write_text("http://127.0.0.1:7337\n")
        server = find_server({SERVER: address}, lambda: own)
    assert server is not None
    assert server.token == token

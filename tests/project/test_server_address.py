"""The address of a server: one spelling, and suggestions for addresses without a scheme."""

from __future__ import annotations

import pytest

from cases import each_case
from weft.errors import InputError
from weft.project.server_address import SERVER, get_url


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

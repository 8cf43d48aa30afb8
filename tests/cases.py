"""Tables of cases that a single test goes through: most rows cost less than a test of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def each_case(
    names: str | Sequence[str], cases: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with each case, as `pytest.mark.parametrize` does; raise all failures at once."""
    parameters = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    rows = [case if len(parameters) > 1 else (case,) for case in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def go_through(**given: Any) -> None:
            failures: list[Exception] = []
            for row in rows:
                values = dict(zip(parameters, row, strict=True))
                try:
                    test(**values, **given)
                except Exception as failure:  # noqa: BLE001 - each is raised at the end
                    failure.add_note(f"case: {values!r:.500}")
                    failures.append(failure)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(rows)} cases failed", failures)

        go_through.__name__ = test.__name__
        go_through.__doc__ = test.__doc__
        go_through.__module__ = test.__module__
        return go_through

    return decorate

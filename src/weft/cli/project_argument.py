"""The project or store of a command, passed as its first argument."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import click

from weft.project.project import Project, get_project
from weft.store import Store

P = ParamSpec("P")
T = TypeVar("T")


def pass_project(command: Callable[Concatenate[Project, P], T]) -> Callable[P, T]:
    """Pass the project of the directory that `weft -C` names, or the server's project."""

    @wraps(command)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        directory = click.get_current_context().obj
        return command(get_project(directory, os.environ), *arguments, **options)

    return call


def pass_store(command: Callable[Concatenate[Store, P], T]) -> Callable[P, T]:
    """Pass the open store of the project."""

    @wraps(command)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        directory = click.get_current_context().obj
        with get_project(directory, os.environ).open_store() as store:
            return command(store, *arguments, **options)

    return call

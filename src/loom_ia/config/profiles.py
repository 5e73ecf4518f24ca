"""Which profile is active, and who chose it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from loom_ia.config.root import ProfileName
from loom_ia.core.errors import Problem

ProfileOrigin: TypeAlias = Literal["--profile", "LOOM_PROFILE", "file"]

VARIABLE: Final = "LOOM_PROFILE"


@dataclass(frozen=True, slots=True)
class ActiveProfile:
    """A profile and where it was chosen; both are None when nobody chose."""

    name: ProfileName | None = None
    origin: ProfileOrigin | None = None


def written_profile(value: Mapping[str, object]) -> ProfileName | None:
    """Give the profile that a document chooses, None when what it says is none."""
    found = value.get("profile")
    return next((name for name in get_args(ProfileName) if name == found), None)


def choose_profile(
    asked: str | None, environ: Mapping[str, str] | None, written: ProfileName | None
) -> tuple[ActiveProfile, tuple[Problem, ...]]:
    """Take the argument, else the variable, else the file; an empty variable chooses nothing.

    Without `environ`, the variables are those of the process.
    """
    environ = os.environ if environ is None else environ
    choices: tuple[tuple[ProfileOrigin, str | None], ...] = (
        ("--profile", asked),
        ("LOOM_PROFILE", environ.get(VARIABLE) or None),
        ("file", written),
    )
    for origin, name in choices:
        if name is None:
            continue
        for known in get_args(ProfileName):
            if name == known:
                return ActiveProfile(known, origin), ()
        template = "unknown profile {name!r} (the profiles are {known})"
        params: dict[str, object] = {"name": name, "known": ", ".join(get_args(ProfileName))}
        return ActiveProfile(), (Problem(origin, None, "", template, params),)
    return ActiveProfile(), ()

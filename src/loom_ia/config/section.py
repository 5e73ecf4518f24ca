"""What every section of the configuration is: a value that refuses what it does not know."""

from pydantic import ConfigDict

from loom_ia.core.model.base import Value


class Section(Value):
    """A part of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

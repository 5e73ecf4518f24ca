"""A second way to call a class of values: with positional arguments, or in other words.

Law. Only who writes the class's name and calls it comes by here. What Pydantic reads, and what the
engine builds from trusted parts, makes its values without a call.
"""

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    # `type(BaseModel)` is no class to a type checker, which wants the very metaclass.
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


class ShortForm(ModelMetaclass):
    """Has the class say, by `long_form(args, fields)`, which fields a call means."""

    if not TYPE_CHECKING:  # what a call may be is declared by the `__init__` of each class

        def __call__(self, *args: Any, **fields: Any) -> Any:
            return super().__call__(**self.long_form(args, fields))

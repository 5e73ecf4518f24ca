"""What a model call consumed, in tokens."""

from typing import TYPE_CHECKING, Any, Final

from loom_ia.core.model.base import Value, nullable, sparse
from loom_ia.core.model.short import ShortForm

MOST_TOKENS: Final = 10**12
"""More than this in one call is a mistake of whoever counted."""

_PLACES: Final = ("input_tokens", "output_tokens", "cost_usd")


class Usage(Value, metaclass=ShortForm):
    """Tokens of one call or of a sum of calls: `Usage(input_tokens, output_tokens, cost_usd)`.

    `input_tokens` excludes what came from or went to the cache. `cache_write_1h_tokens` are those
    of `cache_write_tokens` that are kept an hour. `reasoning_tokens` are already inside
    `output_tokens`. `estimated` says that the provider did not give one of the numbers, which was
    then counted from the texts, at four characters a token. `cost_usd` is what they cost in
    dollars, as far as that is known; None when nothing is. Agents account for cost apart, call by
    call, and leave it None.
    """

    input_tokens: int = sparse(0)
    output_tokens: int = sparse(0)
    cache_read_tokens: int = sparse(0)
    cache_write_tokens: int = sparse(0)
    cache_write_1h_tokens: int = sparse(0)
    reasoning_tokens: int = sparse(0)
    estimated: bool = sparse(False)
    cost_usd: float | None = nullable()

    if TYPE_CHECKING:

        def __init__(
            self,
            input_tokens: int = 0,
            output_tokens: int = 0,
            cost_usd: float | None = None,
            *,
            cache_read_tokens: int = 0,
            cache_write_tokens: int = 0,
            cache_write_1h_tokens: int = 0,
            reasoning_tokens: int = 0,
            estimated: bool = False,
        ) -> None: ...

    @classmethod
    def long_form(cls, args: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
        """Name the arguments that were given by their place."""
        if not args:
            return fields
        placed = dict(zip(_PLACES, args, strict=False))
        if len(args) > len(_PLACES) or placed.keys() & fields.keys():
            raise TypeError(f"Usage takes {', '.join(_PLACES)} by their place, each of them once")
        return {**placed, **fields}

    @property
    def is_plausible(self) -> bool:
        """Whether these are numbers of tokens that somebody may have consumed."""
        counts = (
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.cache_write_1h_tokens,
            self.reasoning_tokens,
        )
        return all(0 <= count <= MOST_TOKENS for count in counts)

    @property
    def prompt_tokens(self) -> int:
        """Everything that the model read."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        """Everything that the model read and wrote."""
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            estimated=self.estimated or other.estimated,
            cost_usd=_known_sum(self.cost_usd, other.cost_usd),
        )

    def since(self, before: "Usage") -> "Usage":
        """Give what was consumed after `before`, an earlier sum of the same calls."""
        cost = self.cost_usd
        return Usage(
            input_tokens=self.input_tokens - before.input_tokens,
            output_tokens=self.output_tokens - before.output_tokens,
            cache_read_tokens=self.cache_read_tokens - before.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens - before.cache_write_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens - before.cache_write_1h_tokens,
            reasoning_tokens=self.reasoning_tokens - before.reasoning_tokens,
            estimated=self.estimated,
            cost_usd=None if cost is None else cost - (before.cost_usd or 0.0),
        )


def _known_sum(left: float | None, right: float | None) -> float | None:
    """Sum what is known; what is not known counts for nothing, and nothing known is not zero."""
    if left is None or right is None:
        return right if left is None else left
    return left + right

"""What a model call consumed, in tokens."""

from typing import Final

from loom_ia.core.model.base import Value, sparse

MOST_TOKENS: Final = 10**12
"""More than this in one call is a mistake of whoever counted."""


class Usage(Value):
    """Tokens of one call or of a sum of calls.

    `input_tokens` excludes what came from or went to the cache. `cache_write_1h_tokens` are those
    of `cache_write_tokens` that are kept an hour. `reasoning_tokens` are already inside
    `output_tokens`. `estimated` says that the provider did not give one of the numbers, which was
    then counted from the texts, at four characters a token.
    """

    input_tokens: int = sparse(0)
    output_tokens: int = sparse(0)
    cache_read_tokens: int = sparse(0)
    cache_write_tokens: int = sparse(0)
    cache_write_1h_tokens: int = sparse(0)
    reasoning_tokens: int = sparse(0)
    estimated: bool = sparse(False)

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
        )

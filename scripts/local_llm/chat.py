"""One request of the chat API, from its body to the pieces of its answer."""

from collections.abc import Callable

from scripts.local_llm.asked import Asked
from scripts.local_llm.engine import Ended, Engine, Task
from scripts.local_llm.grammar import grammar, schema_grammar
from scripts.local_llm.numbers import numbers
from scripts.local_llm.prompt import prompt
from scripts.local_llm.refusal import Refusal, invalid
from scripts.local_llm.written import Piece, Unread, Writing


def answer(
    engine: Engine, asked: Asked, take: Callable[[Piece], None], *, free_numbers: bool = False
) -> Ended:
    """Let the model answer; each piece goes to `take` as it is written. Raises `Refusal`."""
    _check_schemas(engine, asked)
    writing = Writing()

    def hear(text: str) -> None:
        for piece in writing.feed(text):
            take(piece)

    told = (message.text for message in asked.messages if message.role in {"user", "tool"})
    task = Task(
        prompt=prompt(asked),
        grammar=grammar(asked, () if free_numbers else numbers(told)),
        longest=asked.longest,
        sampling=asked.sampling,
    )
    try:
        return engine.go_on(task, hear)
    except Unread as error:
        raise Refusal(500, f"{error}, which was not allowed: the grammar had no effect") from None


def _check_schemas(engine: Engine, asked: Asked) -> None:
    for tool in asked.callable:
        if not engine.understands(schema_grammar(tool.parameters)):
            raise invalid(
                "tools",
                f"invalid schema for function {tool.name!r}: it has something that this server "
                "cannot hold the model to",
                "invalid_function_parameters",
            )
    if asked.schema is not None and not engine.understands(schema_grammar(asked.schema)):
        raise invalid(
            "response_format",
            "invalid schema for response_format: it has something that this server cannot hold "
            "the model to",
        )

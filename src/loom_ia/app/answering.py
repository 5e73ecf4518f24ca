"""What answers a step, in the form of the journal."""

from typing import cast

from loom_ia.core.json import JsonValue, storable
from loom_ia.core.state.questions import Asking
from loom_ia.engine.program import AnyProgram, GraphProgram
from loom_ia.graph.answers import check_answer, told_answer
from loom_ia.graph.bindings import GraphBindings
from loom_ia.graph.errors import DeltaError, InvalidAnswer


def answer_of(answer: object, asking: Asking, program: AnyProgram | None) -> JsonValue:
    """Check an answer against what is asked, and give it as the journal holds it.

    `program` drives the run that asks, and knows which classes it may be of. Raises
    `InvalidAnswer`.
    """
    told = told_answer(answer, asking.schema)
    check_answer(told, asking.schema, question=asking.id)
    if not isinstance(program, GraphProgram):
        return storable(told, "answer")[0]
    codec = cast("GraphBindings", program.bindings).graph.state_type.codec
    try:
        return codec.to_json(told, "answer")
    except DeltaError as error:
        raise InvalidAnswer(
            "the answer to question {id} cannot be kept: {reason}", id=asking.id, reason=str(error)
        ) from error

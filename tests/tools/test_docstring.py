"""What a model reads of a docstring."""

import pytest

from loom_ia.tools import tool
from loom_ia.tools.docstring import read_docstring

GOOGLE = """Send a bill.

    The bill is sent once.

    Args:
        to (str): Who gets it,
            by email.
        amount: In euros: cents after a dot.

    Returns:
        The number of the bill.

    Note: sent at night.
    """
NUMPY = """Send a bill.

    The bill is sent once.

    Parameters
    ----------
    to : str, optional
        Who gets it,
        by email.
    amount
        In euros: cents after a dot.

    Returns
    -------
    str
        The number of the bill.
    """
SPHINX = """Send a bill.

    The bill is sent once.

    :param str to: Who gets it,
        by email.
    :type to: str
    :param amount: In euros: cents after a dot.
    :raises ValueError: when nobody gets it
    :returns: The number of the bill.
    """
PARAMETERS = {"to": "Who gets it, by email.", "amount": "In euros: cents after a dot."}
SUMMARY = "Send a bill.\n\nThe bill is sent once."

DOCSTRINGS = {
    "google": (GOOGLE, SUMMARY + "\n\nNote: sent at night.", PARAMETERS),
    "numpy": (NUMPY, SUMMARY, PARAMETERS),
    "sphinx": (SPHINX, SUMMARY, PARAMETERS),
    "one line": ("Envoie une facture.", "Envoie une facture.", {}),
    "a word that is no section": ("Parameters are kept.", "Parameters are kept.", {}),
    "an empty section": ("Send.\n\nArgs:\n", "Send.", {}),
    "blank": ("  \n ", "", {}),
    "none": (None, "", {}),
}


@pytest.mark.parametrize("case", DOCSTRINGS)
def test_a_docstring_gives_a_description_and_those_of_parameters(case: str) -> None:
    """Each convention gives the same; what speaks of returned values is left out."""
    text, description, parameters = DOCSTRINGS[case]
    assert read_docstring(text) == (description, parameters)


def test_parameters_are_described_where_the_signature_does_not() -> None:
    """The schema takes descriptions from the docstring, for the parameters that exist."""

    @tool
    def send(to: str) -> None:
        """Send.

        Args:
            to: Who gets it.
            gone: Not a parameter any more.
        """

    assert send.spec.description == "Send."
    expected = {"to": {"description": "Who gets it.", "type": "string"}}
    assert send.spec.input_schema["properties"] == expected

"""How much a server may say."""

from typing import Final

MESSAGE_BYTES: Final = 10 * 1024 * 1024
"""One message. A larger answer is dropped, and its call fails by an error that says so."""
MESSAGE_VALUES: Final = 500_000
"""Values in one message, which are counted before it is read."""
LIST_PAGES: Final = 50
TOOLS: Final = 1_000
DEFINITIONS_CHARS: Final = 2 * 1024 * 1024
"""All the definitions of a server, as JSON."""
DEFINITION_CHARS: Final = 128 * 1024
"""One definition; a tool whose definition is longer is withheld."""
DEFINITION_NODES: Final = 10_000
"""Values in one definition; a tool whose definition has more is withheld."""
DESCRIPTION_CHARS: Final = 8_000
"""What a model is shown of a description; the rest is cut."""
NAME_CHARS: Final = 256
ERROR_CHARS: Final = 2_000
"""What is kept of a sentence of the server's in an error."""
BLOCKS: Final = 200
"""Blocks of one result; what follows is counted, and left out."""
STDERR_LINES: Final = 20
STDERR_CHARS: Final = 2_000
"""One line of what the program writes on its standard error; the rest of it is left out."""

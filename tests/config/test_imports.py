"""What importing the configuration costs."""

import subprocess
import sys


def test_importing_the_configuration_loads_no_parser() -> None:
    """YAML and JSON Schema wait until a file is read or a schema is needed."""
    code = (
        "import sys, loom_ia.config, loom_ia.agents; "
        "print([m for m in ('yaml', 'jsonschema', 'asyncio') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

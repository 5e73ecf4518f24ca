"""From a configuration to things that work: programs, models, tools, journals."""

"""Where notices go."""

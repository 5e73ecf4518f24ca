"""The generated pages of the reference: one module for each, a function that gives its text."""

"""Public lists of prices, one module for each."""

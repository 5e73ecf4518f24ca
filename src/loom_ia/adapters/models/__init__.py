"""Models that can be called, one module for each way to call them."""

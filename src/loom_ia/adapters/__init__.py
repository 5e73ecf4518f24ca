"""What speaks to the outside world, one folder for each port, each on its own."""

"""What an instance does with runs: one noun for each file."""

"""Who asks: the keys that let programs in, and what each of them may do."""

"""OpenAI's Chat Completions, which most other providers and servers speak too."""

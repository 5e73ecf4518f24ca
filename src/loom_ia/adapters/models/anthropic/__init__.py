"""Anthropic's Messages API, which some other providers and servers speak too."""

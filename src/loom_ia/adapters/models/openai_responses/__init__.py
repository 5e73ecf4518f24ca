"""OpenAI's Responses API, used without anything kept at the provider."""

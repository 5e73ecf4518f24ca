"""What the server answers when it does not do what was asked, in OpenAI's shape."""

from dataclasses import dataclass


@dataclass
class Refusal(Exception):
    """An error for the client: its HTTP status, and what stands in its `error`."""

    status: int
    message: str
    code: str | None = None
    param: str | None = None

    @property
    def body(self) -> dict[str, object]:
        """The JSON of the answer."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.param,
                "code": self.code,
            }
        }


def invalid(param: str, message: str, code: str | None = None) -> Refusal:
    """Build the refusal of one part of a request."""
    return Refusal(400, message, code, param)

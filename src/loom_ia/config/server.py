"""Who may come in, where, and what is sent out: the doors of an instance.

Law. Values only, as in `config/root.py`: what depends on several parts is checked in
`config/checks`, and no secret is ever written here, only the name of the variable that holds it.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from loom_ia.config.section import Section
from loom_ia.core.model.scopes import Scope

VariableName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

MOST_BODY_BYTES: Final = 134_217_728


class HttpServer(Section):
    """Where `loom serve` listens, and how large a request may be."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address to listen on.")
    port: int = Field(
        default=8000, ge=0, le=65_535, description="The port; 0 lets the system choose."
    )
    base_path: str = Field(
        default="",
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        description="What every route begins with, for example `/agents`.",
    )
    max_body_bytes: int = Field(
        default=MOST_BODY_BYTES, gt=0, description="Bytes that the body of a request may have."
    )
    docs: bool | None = Field(
        default=None,
        description="Whether `/docs` and `/openapi.json` are served; `null`: unless in `prod`.",
    )


class McpServerSettings(Section):
    """The agents as tools for MCP clients."""

    http: bool = Field(
        default=False,
        description="Serve MCP under `/mcp` of `loom serve`; needs at least one API key.",
    )
    file_roots: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="The folders under which `file://` attachments may be read.",
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="The `Origin`s that are accepted over HTTP; loopback ones while it is empty.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="The `Host`s that are accepted over HTTP, besides loopback and `http.host`.",
    )


class Server(Section):
    """The doors of an instance."""

    http: HttpServer = Field(default=HttpServer(), description="The REST API.")
    mcp: McpServerSettings = Field(
        default=McpServerSettings(), description="The agents as tools for MCP clients."
    )


class RateLimit(Section):
    """How often a key may be used, over a sliding minute, in each process."""

    per_minute: int = Field(gt=0, le=100_000, description="Requests in any sixty seconds.")


class ApiKeySpec(Section):
    """A key that lets a program in. Only its digest is written: `loom keys create` makes both."""

    id: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Its name, which signs what is done with it.",
    )
    hash: str = Field(
        pattern=r"^sha256:[0-9a-f]{64}$", description="`sha256:` and the digest of the key."
    )
    tenant: str = Field(
        default="default", min_length=1, description="In whose name it acts; it alone decides."
    )
    scopes: tuple[Scope, ...] = Field(
        default=("run", "read"), min_length=1, strict=False, description="What it may do."
    )
    agents: tuple[str, ...] = Field(
        default=(), strict=False, description="The agents that it may use; all without any."
    )
    rate_limit: RateLimit | None = Field(default=None, description="How often it may be used.")
    expires: datetime | None = Field(
        default=None,
        strict=False,
        description="The instant, with its time zone, from which it is refused.",
    )


class Security(Section):
    """Who may come in."""

    api_keys: tuple[ApiKeySpec, ...] = Field(
        default=(),
        strict=False,
        description="The keys of REST and MCP over HTTP; without any, REST is open to all.",
    )


class TriggerSpec(Section):
    """A door for a service that knows nothing of this API: what it posts begins a run."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="The end of its address, `/hooks/NAME`."
    )
    agent: str = Field(min_length=1, description="The agent that is run.")
    message: str = Field(
        min_length=1,
        description=(
            "The request, with `{{ payload.… }}`, `{{ trigger }}` and `{{ delivery }}`; what the "
            "payload lacks is empty."
        ),
    )
    session: str | None = Field(
        default=None,
        min_length=1,
        description="The session, as a template; a new one for each run without it.",
    )
    delivery_header: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9-]{1,64}$",
        description=(
            "The header that identifies a delivery, so that a repeated one begins nothing; a "
            "request without it is refused."
        ),
    )
    secret_env: VariableName | None = Field(
        default=None,
        description="The variable with the secret by which the sender signs what it posts (HMAC).",
    )
    signature_header: str = Field(
        default="X-Hub-Signature-256",
        pattern=r"^[A-Za-z0-9-]{1,64}$",
        description="The header that holds `sha256=` and the HMAC-SHA256 of the body.",
    )


class NoticeTarget(Section):
    """Where a request for approval is told: a webhook (`url`), or a program (`command`)."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="Its name; each once.")
    url: str | None = Field(
        default=None,
        pattern=r"^https?://",
        description="The address to which the notice is posted as JSON.",
    )
    headers_env: Mapping[str, VariableName] = Field(
        default_factory=dict[str, str],
        description="Headers of the webhook, each from the variable that is named.",
    )
    secret_env: VariableName | None = Field(
        default=None, description="The variable with the secret that signs what is posted (HMAC)."
    )
    command: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="A program and its arguments; it reads the notice as JSON on standard input.",
    )
    agents: tuple[str, ...] = Field(
        default=(), strict=False, description="The agents whose requests are told; all without any."
    )
    timeout: float = Field(default=10.0, gt=0, le=300, description="Seconds for one attempt.")
    max_attempts: int = Field(default=5, gt=0, le=20, description="Attempts before it is given up.")


class Notices(Section):
    """How people are told that something waits for them.

    A notice may hold a link to a page where the decision is taken: it is signed, serves once, and
    opening it decides nothing.
    """

    targets: tuple[NoticeTarget, ...] = Field(
        default=(), strict=False, description="Where notices go."
    )
    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s?#]+$",
        description="What the links begin with, as people reach this server; no link without it.",
    )
    secret_env: VariableName | None = Field(
        default=None,
        description="The variable with the secret that signs the links; no page without it.",
    )
    previous_secret_env: VariableName | None = Field(
        default=None,
        description="The variable with the secret that signed them before, which still opens them.",
    )
    expires_in: float = Field(
        default=86_400.0, gt=0, description="Seconds for which a link may be used."
    )

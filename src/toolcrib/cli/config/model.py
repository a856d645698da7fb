"""The model of `crib.yaml`: what each key may hold. Its JSON Schema is what editors complete and check with.

sources:
  - shop                                        # a module; `shop:refund` is something in it
  - tools/mail.py                               # a file
  - tools/                                      # definition files, a folder of them or one .yaml
  - {files: [tools], pack: design}              # the same, with a pack; also trusted_packs, soft_checks, values
  - {mcp: "npx -y some-server@1.2.0", env: {TOKEN: "${TOKEN}"}}   # an MCP server; also name, share, timeout
  - {openapi: petstore.yaml, include: "tag:pets", auth: {key: "${KEY}"}}   # an OpenAPI document, or its address
  - {toolkit: files, root: data}                # a toolkit, with the settings of its tools(): see kits.py
store: sqlite:///shop.db                        # a relative path starts at this file
workspace: .                                    # where paths of calls start; this folder, unless said
policy: {preset: default, rules: [{deny: "shell(rm -rf *)"}]}
engine: nats://localhost:4222                   # with store: postgresql://...; makes this a node of a cluster
retention: 7d                                   # null keeps everything
archive: s3://bucket/prefix                     # where sessions go after that, instead of being deleted; or file:FOLDER
secret_key: env:SHOP_KEY                        # encrypts kept secret arguments; or file:PATH; else a file of the user
limits: {timeout_s: 30}
default_namespaces: [shop]
namespace_aliases: {store: shop}
precedence: [shop]
state_keys: {visits: add, notes: {mode: append, lives: run}}
declare: {github.*: {annotations: {read_only: true}}}   # what tools of others do not say of themselves
deps: {db: "shop:connection"}                   # what tools want by name: an object, or a function that makes it
accounts: {github: {resource: "https://api.github.com", client_id: abc}}   # services that owners connect with
agents: [team/]                                 # files of definitions; with models and a default: see teams.py
serve: {host: 0.0.0.0, auth: {keys: store}}     # how `toolcrib serve` serves it: see hosting.py
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Gt
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.types import Strict

from toolcrib.cli import durations
from toolcrib.schema import nearest
from toolcrib.secret_references import SCHEMES
from toolcrib.serve.api.limits import ServeLimits
from toolcrib.state import Key
from toolcrib.toolkits import NAMES
from toolcrib.types import CribLimits, Limits

_MODES = ("exclusive", "add", "append", "merge")
_LIVES = ("session", "run")


class Section(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# Values


Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Whole = Annotated[int, Strict(), Gt(0)]
Number = Annotated[float, Strict(), Gt(0)]
Flag = Annotated[bool, Strict()]
_TEXT_OR_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_AS_LIST = (
    BeforeValidator(lambda value: value if isinstance(value, list) else [value]),
    WithJsonSchema(_TEXT_OR_TEXTS),
)
Texts = Annotated[list[Text], *_AS_LIST]


def _secret_key(value: Any) -> str:
    kind, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind not in ("env", "file") or not name.strip():
        raise ValueError("expected env:NAME or file:PATH; a key itself does not belong into this file")
    return f"{kind}:{name.strip()}"


SecretKeyPlace = Annotated[
    str, BeforeValidator(_secret_key), WithJsonSchema({"type": "string", "pattern": r"^(env|file):\s*\S"})
]
"""Where the key for secret arguments is found: a variable of the environment, or a file."""


def _port(value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 65535:
        raise ValueError(f"expected 0 to 65535, got {value!r}")
    return value


def _retention(value: Any) -> timedelta | None:
    seconds = durations.seconds_of(value) if isinstance(value, str) else None
    try:
        return None if value is None else timedelta(seconds=inf if seconds is None else seconds)
    except OverflowError:
        raise ValueError(f"expected a time such as 12h, 7d or null, got {value!r}") from None


def _archive_place(value: Any) -> str:
    if not isinstance(value, str) or not re.match(_ARCHIVE, value):
        raise ValueError(f"expected s3://bucket/prefix, file:folder or file:///folder, got {value!r}")
    return value


def _state_key(value: Any) -> Key:
    settings = {"mode": value} if isinstance(value, str) else value
    if not isinstance(settings, dict) or settings.keys() - {"mode", "lives"}:
        raise ValueError("expected a mode, or {mode: append, lives: run}")
    for name, known in (("mode", _MODES), ("lives", _LIVES)):
        if settings.get(name, known[0]) not in known:
            raise ValueError(f"expected one of {', '.join(known)}")
    return Key(**settings)


_ARCHIVE = r"^(s3://[A-Za-z0-9][A-Za-z0-9.-]+(/\S*)?|file:[^/].*|file:///.+)$"
ArchivePlace = Annotated[str, BeforeValidator(_archive_place), WithJsonSchema({"type": "string", "pattern": _ARCHIVE})]
Port = Annotated[int, BeforeValidator(_port), Field(json_schema_extra={"minimum": 0, "maximum": 65535})]
Retention = Annotated[
    Any,
    BeforeValidator(_retention),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": f"^{durations.PATTERN}$"}, {"type": "null"}]}),
]
_MODE = {"enum": [*_MODES]}
_KEY_OBJECT = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"mode": _MODE, "lives": {"enum": [*_LIVES]}},
}
StateKey = Annotated[Any, BeforeValidator(_state_key), WithJsonSchema({"anyOf": [_MODE, _KEY_OBJECT]})]


class _Limits(Section):
    """Numbers of a dataclass, each checked as that class checks it."""

    target: ClassVar[type]

    @field_validator("*")
    @classmethod
    def _check(cls, value: Any, info: ValidationInfo) -> Any:
        try:
            cls.target(**{str(info.field_name): value})
        except ValueError as error:
            raise ValueError(str(error).removeprefix(f"{info.field_name}: ")) from None
        return value


def _limits(name: str, of: type) -> type[_Limits]:
    kinds: dict[str, Any] = {
        "int": Whole,
        "float": Number,
        "int | None": Whole,
        "float | None": Number,
        "str | None": Text,
        "bool | None": Flag,
        "Mapping[str, int]": dict[Text, Whole],
    }
    known = [field for field in dataclasses.fields(of) if str(field.type) in kinds]
    fields: dict[str, Any] = {field.name: (kinds[str(field.type)], None) for field in known}
    model = create_model(name, __base__=_Limits, **fields)
    model.target = of
    return model


if TYPE_CHECKING:

    class CribLimitsSection(_Limits):
        """The fields of `CribLimits`."""

    class ServeLimitsSection(_Limits):
        """The fields of `ServeLimits`."""

    class ToolLimitsSection(_Limits):
        """The fields of `Limits`."""

else:
    CribLimitsSection = _limits("CribLimitsSection", CribLimits)
    ServeLimitsSection = _limits("ServeLimitsSection", ServeLimits)
    ToolLimitsSection = _limits("ToolLimitsSection", Limits)


# Accounts


class AccountSection(Section):
    """A service that owners connect with; the names are those of `AccountSettings`."""

    grant: (
        Literal["authorization_code", "client_credentials", "token_exchange", "jwt_bearer", "key", "secret"] | None
    ) = None
    resource: Text | None = None
    issuer: Text | None = None
    authorize_url: Text | None = None
    token_url: Text | None = None
    scopes: Texts = Field(default=[])
    client_id: Text | None = None
    client_secret: Text | None = None
    client_metadata_url: Text | None = None
    private_key: Text | None = None
    signing_alg: Text | None = None
    audience: Text | None = None
    subject_token: Text | None = None
    subject_token_type: Text | None = None
    exchange_url: Text | None = None
    exchange_client_id: Text | None = None
    dpop: StrictBool | None = None
    redirect_uri: Text | None = None
    secret: Text | None = None

    @field_validator("client_secret", "private_key", "subject_token", "secret")
    @classmethod
    def _is_elsewhere(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith((*SCHEMES, "${")):
            raise ValueError(f"no secret stands in a file: say where it is, as {', '.join(SCHEMES)} or ${{NAME}}")
        return value


# Sources


class FilesEntry(Section):
    """Definition files; see the reference of the command line."""

    files: Texts
    pack: Texts = Field(default=[])
    trusted_packs: Texts = Field(default=[])
    soft_checks: StrictBool = False
    registry: Text | None = None
    values: dict[str, dict[str, Text]] = Field(default={})


class SamplingSection(Section):
    """The model that takes turns for a server, and how many in a session."""

    model: ModelName
    turns: Whole = 20
    max_tokens: Whole = 4096


class McpEntry(Section):
    """An MCP server: its command in one line or as words, or its address."""

    mcp: Texts
    name: Text | None = None
    trusted: StrictBool = False
    required: StrictBool = False
    env: dict[str, Text] = Field(default={})
    headers: dict[str, Text] = Field(default={})
    timeout: Number | None = None
    share: Literal["all", "owner", "session"] | None = None
    connections: Whole | None = None
    start_s: Number | None = None
    idle_s: Number | None = None
    cwd: Text | None = None
    revision: Literal["auto", "older"] | None = None
    tasks: StrictBool | None = None
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,32}$")] | None = None
    message_bytes: Whole | None = None
    message_parts: Whole | None = None
    most_tools: Whole | None = None
    most_offers: Whole | None = None
    limits: ToolLimitsSection | None = None
    breaker: Whole | Literal[False] | None = None
    account: StrictBool | Text | None = None
    sampling: SamplingSection | None = None


class OpenApiEntry(Section):
    """An OpenAPI document: a file or an address."""

    openapi: Text
    namespace: Text | None = None
    trusted: StrictBool = False
    include: Texts = Field(default=[])
    exclude: Texts = Field(default=[])
    limit: Whole | None = None
    base_url: Text | None = None
    variables: dict[str, Text] = Field(default={})
    auth: dict[str, Text | dict[str, Text]] = Field(default={})
    headers: dict[str, Text] = Field(default={})
    uploads: Text | None = None
    refs: Texts = Field(default=[])
    timeout: Number | None = None
    refresh_s: Number | None = None


class SkillsEntry(Section):
    """Folders with skills in them, each a folder with a `SKILL.md`."""

    skills: Texts
    name: Text = "skills"
    trusted: StrictBool = True


class ToolkitEntry(BaseModel):
    """A toolkit; its other keys are the settings of its `tools(...)`."""

    model_config = ConfigDict(extra="allow", frozen=True)

    toolkit: Annotated[Text, Field(json_schema_extra={"enum": [*NAMES]})]


KINDS = ("files", "mcp", "openapi", "skills", "toolkit")
"""The keys of which each source has one."""


def _source_kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return next((f"#{key}" for key in KINDS if key in value and key != "mcp"), "#mcp")
    return "#text"


def _has_kind(value: Any) -> Any:
    if isinstance(value, Mapping) and not any(key in value for key in KINDS):
        wanted = f"expected one of {', '.join(KINDS)}, which say what kind of source it is"
        close = next(((key, near[0]) for key in value if (near := nearest(str(key), KINDS, 1))), None)
        raise ValueError(wanted if close is None else f"{wanted}; did you mean '{close[1]}' by '{close[0]}'?")
    return value


# The tags begin with a character that no key does, so that they are told apart from keys in the place of an error.
Source = Annotated[
    Annotated[Text, Tag("#text")]
    | Annotated[FilesEntry, Tag("#files")]
    | Annotated[ToolkitEntry, Tag("#toolkit")]
    | Annotated[OpenApiEntry, Tag("#openapi")]
    | Annotated[SkillsEntry, Tag("#skills")]
    | Annotated[McpEntry, Tag("#mcp")],
    Discriminator(_source_kind),
    BeforeValidator(_has_kind),
]


# Agents


def unknown(key: Any, known: list[str]) -> str:
    """Return that a key is not known, and which was meant."""
    close = nearest(str(key), known, 1)
    guess = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}"
    return f"unknown key '{key}'; {guess}"


def _model(value: Any) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if key not in ("scripted", "python"):
                raise ValueError(unknown(key, ["scripted", "python"]))
        if len(value) != 1:
            raise ValueError("expected a name such as openai:gpt-5, {scripted: FILE} or {python: MODULE:NAME}")
    return value


def _provider(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError("expected a mapping such as {base_url: ...}")
    if "api_key" in value:
        raise ValueError("no key stands in a file: name the variable that holds it, as api_key_env")
    return value


class ModelEntry(Section):
    """A model that is no provider's."""

    scripted: Text | None = None
    python: Text | None = None


ModelName = Annotated[
    Annotated[Text, Tag("#text")] | Annotated[ModelEntry, Tag("#mapping")],
    Discriminator(lambda value: "#mapping" if isinstance(value, Mapping | ModelEntry) else "#text"),
    BeforeValidator(_model),
]


class AgentsSection(Section):
    """Agents with their models."""

    files: Texts = Field(default=[])
    default: Text | None = None
    models: dict[str, ModelName] = Field(default={})
    providers: dict[str, Annotated[dict[str, Any], BeforeValidator(_provider)]] = Field(default={})

    @model_validator(mode="after")
    def _has_files(self) -> AgentsSection:
        if not self.files:
            raise ValueError("expected files, such as {files: [team/]}")
        return self


def _agents_kind(value: Any) -> str:
    return "#mapping" if isinstance(value, Mapping | AgentsSection) else "#texts"


AgentsValue = Annotated[
    Annotated[Texts, Tag("#texts")] | Annotated[AgentsSection, Tag("#mapping")], Discriminator(_agents_kind)
]


# Serving


def _web_address(value: str) -> str:
    if not value.startswith(("https://", "http://")):
        raise ValueError(f"expected an address such as https://login.example, got {value!r}")
    return value


WebAddress = Annotated[Text, AfterValidator(_web_address)]


class JwtSection(Section):
    """Tokens of a provider."""

    issuer: WebAddress
    audience: Text
    jwks: WebAddress | None = None
    scopes: Texts = Field(default=[])
    owner: Text | None = None
    roles: Text | None = None
    namespaces: Text | None = None
    admins: Texts = Field(default=[])


class AuthSection(Section):
    """Who is let in."""

    keys: Text | None = None
    jwt: JwtSection | None = None


class McpServeSection(Section):
    """How the server shows itself to MCP clients; the names are those of `McpServerSettings`."""

    name: Text | None = None
    title: Text | None = None
    instructions: Text | None = None
    ttl_ms: Whole | None = None
    page: Whole | None = None
    task_after_s: Number | None = None
    poll_ms: Whole | None = None
    stream_s: Number | None = None
    state_s: Number | None = None
    idle_s: Number | None = None
    sessions: Whole | None = None
    sessions_each: Whole | None = None


def _reference_glob(value: str) -> str:
    if not value.startswith((*SCHEMES, "*")):
        raise ValueError(f"expected references to secrets, such as env:GITHUB_*, got {value!r}, which none fits")
    return value


class AddedSourcesSection(Section):
    """What administrators may add while the server runs; the names are those of `SourceRules`."""

    allowed: StrictBool = True
    programs: StrictBool = False
    secrets: Annotated[list[Annotated[Text, AfterValidator(_reference_glob)]], *_AS_LIST] = Field(default=[])


def _host_name(value: str) -> str:
    if "/" in value:
        raise ValueError(f"expected the name of a host, such as crib.example, got {value!r}, which no request names")
    return value


def _page_origin(value: str) -> str:
    scheme, written, host = value.rstrip("/").partition("://")
    misspelt = written and scheme not in ("http", "https") and nearest(scheme, ("http", "https"), 1)
    if misspelt or "/" in (host if written else value):
        raise ValueError(f"expected an origin such as https://app.example, got {value!r}, which no page has")
    return value


def _base_address(value: str) -> str:
    if "?" in value or "#" in value:
        raise ValueError(f"expected an address that paths are added to, got {value!r}, which has a query or a fragment")
    return value


def _listening_host(value: str) -> str:
    if "/" in value or value.count(":") == 1:
        raise ValueError(f"expected an address or a name to listen at, such as 0.0.0.0, got {value!r}")
    return value


class ServeSection(Section):
    """How `toolcrib serve` serves the crib."""

    host: Annotated[Text, AfterValidator(_listening_host)] = "127.0.0.1"
    port: Port = 8000
    hosts: Annotated[list[Annotated[Text, AfterValidator(_host_name)]], *_AS_LIST] = Field(default=[])
    origins: Annotated[list[Annotated[Text, AfterValidator(_page_origin)]], *_AS_LIST] = Field(default=[])
    namespaces: Texts = Field(default=[])
    log_format: Literal["text", "json"] = "text"
    workers: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = 1
    public_url: Annotated[str, Field(pattern=r"^https?://\S+$"), AfterValidator(_base_address)] | None = None
    trace_url: Annotated[str, Field(pattern=r"^https?://\S*\{(trace|span)\}\S*$")] | None = None
    auth: AuthSection = Field(default=AuthSection())
    limits: ServeLimitsSection = Field(default=ServeLimitsSection())
    mcp: McpServeSection = Field(default=McpServeSection())
    sources: AddedSourcesSection = Field(default=AddedSourcesSection())


class CribFile(Section):
    """What a `crib.yaml` says."""

    sources: list[Source] = Field(default=[])
    store: Text | None = None
    engine: Text | None = None
    workspace: Text | None = None
    policy: dict[str, Any] | None = None
    limits: CribLimitsSection | None = None
    retention: Retention = None
    archive: ArchivePlace | None = None
    secret_key: SecretKeyPlace | None = None
    namespace_aliases: dict[str, Text] | None = None
    default_namespaces: list[Text] | None = None
    precedence: list[Text] | None = None
    state_keys: dict[str, StateKey] | None = None
    declare: dict[str, Any] | None = None
    deps: dict[str, Text] = Field(default={})
    accounts: dict[str, AccountSection] = Field(default={})
    agents: AgentsValue | None = None
    serve: ServeSection | None = None


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of `crib.yaml`, for editors."""
    schema: dict[str, Any] = _tidy(CribFile.model_json_schema(by_alias=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "crib.yaml", **schema}


def _tidy(schema: Any) -> Any:
    """Leave out the titles and empty defaults that pydantic adds."""
    if isinstance(schema, list):
        return [_tidy(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: value
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value in (None, [], {}))
    }
    return {key: _tidy(value) for key, value in kept.items()}

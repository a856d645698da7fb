"""Which files a model of a provider takes: by its profile, and by what its provider allows in one request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_args

from toolcrib.agent.models import MediaIntake, ModelError

_MB = 1024 * 1024
_LIMITS = {
    "anthropic": (5 * _MB, 20 * _MB),
    "bedrock": (int(3.75 * _MB), 15 * _MB),
    "google": (14 * _MB, 14 * _MB),
    "groq": (4 * _MB, 4 * _MB),
}
"""The most bytes of one file and of all in a request, by provider; base64 adds a third to them on the way."""

_USUAL = (15 * _MB, 30 * _MB)
_MORE = {"google": ("image/heic", "image/heif")}
_FEWER = {
    "google": frozenset(
        {
            "application/msword",
            "application/vnd.ms-excel",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        }
    )
}
"""What a provider takes or refuses although its profile does not say so."""

_TYPE = re.compile(r"[a-z]+/(\*|[a-z0-9][a-z0-9.+-]*)")


def intake(kind: str, profile: Mapping[str, Any], wanted: Any) -> MediaIntake:
    """What a model takes; `wanted` are the media types that its settings list, where they do.

    Raises:
        ModelError: `invalid_arguments`, they are none.
    """
    provider = kind.removeprefix("gateway/").partition("-")[0]
    types = _types(provider, profile) if wanted is None else _read(wanted)
    return MediaIntake(types, *_LIMITS.get(provider, _USUAL))


def _read(wanted: Any) -> frozenset[str]:
    fits = isinstance(wanted, list | tuple) and all(isinstance(one, str) and _TYPE.fullmatch(one) for one in wanted)
    if not fits:
        advice = "list media types such as image/png or image/*, or nothing where the model takes text alone"
        raise ModelError("invalid_arguments", f"model_settings.media is {wanted!r}: {advice}")
    return frozenset(wanted)


def _types(provider: str, profile: Mapping[str, Any]) -> frozenset[str]:
    """The types of which nothing is known that a model does not take them."""
    from pydantic_ai.messages import AudioMediaType, DocumentMediaType, ImageMediaType, VideoMediaType

    known = frozenset(get_args(DocumentMediaType))
    documents = profile.get("supported_document_media_types", known) - _FEWER.get(provider, frozenset())
    taken = {
        "supports_image_input": {*get_args(ImageMediaType), *_MORE.get(provider, ())},
        "supports_document_input": documents,
        "supports_audio_file_input": get_args(AudioMediaType),
        "supports_video_input": get_args(VideoMediaType),
    }
    return frozenset(type for flag, types in taken.items() if profile.get(flag, True) for type in types)

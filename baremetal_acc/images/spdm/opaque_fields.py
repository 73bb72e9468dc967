# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the versions that a device names in the opaque data of its signed MEASUREMENTS response.

SPDM leaves the content of opaque data to the maker of the device. Known here is the content of NVIDIA's GPUs and
NVSwitches: fields of a type (2 bytes), a size (2 bytes) and the data, all numbers with the low byte first. Opaque data of
another form names no version.

Source: DSP0274 1.1.4, MEASUREMENTS response, OpaqueData; NVIDIA/nvtrust 02817309, local_gpu_verifier,
``attestation/spdm_msrt_resp_msg.py``; evidence of H100 and LS10 in NVIDIA/attestation-sdk 73c032eb.
"""

from baremetal_acc.model.measurement import MeasuredVersion

_DRIVER, _VBIOS = 3, 6

_PARTS = {_VBIOS: 'vbios', _DRIVER: 'driver'}
"""The fields that are versions of something that has reference values, and the names of the parts here."""

_HIGHEST = 255
"""The highest type of a field: it stands for an invalid one."""

_LONGEST = 64
"""Most characters of a version."""

_NUMERIC_BYTES = 8
"""Size of a VBIOS version that is a number: its five parts are in the first five bytes, the first four of them reversed."""


def versions(opaque: bytes) -> tuple[MeasuredVersion, ...]:
    """Return the versions that opaque data names, VBIOS first; none where it has another form.

    :param opaque: opaque data whose signature was verified.
    """
    fields = _fields(opaque)
    named = ((name, _text(kind, fields[kind])) for kind, name in _PARTS.items() if kind in fields)
    return tuple(MeasuredVersion(part=name, version=version) for name, version in named if version is not None)


def _fields(opaque: bytes) -> dict[int, bytes]:
    """The fields by their type; none if the data is not a sequence of fields that ends with the data, each type once."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(opaque):
        kind, size = (int.from_bytes(opaque[start : start + 2], 'little') for start in (at, at + 2))
        end = at + 4 + size
        if end > len(opaque) or kind > _HIGHEST or kind in found:
            return {}
        found[kind] = opaque[at + 4 : end]
        at = end
    return found


def _text(kind: int, data: bytes) -> str | None:
    """A version as text; None for one that cannot be read."""
    if kind == _VBIOS and len(data) == _NUMERIC_BYTES and not data[5:].strip(b'\0'):
        return '.'.join(f'{part:02X}' for part in (*reversed(data[:4]), data[4]))
    try:
        text = data.removesuffix(b'\0').decode('ascii')
    except UnicodeDecodeError:
        return None
    return text if text and len(text) <= _LONGEST and text.isprintable() and not set(text) & set(' "\\') else None

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the keys that ``[[image]]`` and ``[[bundle]]`` tables of a catalogue share."""

import re
import uuid
from pathlib import Path

from baremetal_acc.images import address
from baremetal_acc.model import toml
from baremetal_acc.model.image import Digest, DigestAlgorithm, Fit, ReferenceValue

NO_RESTORE = 'none'
"""The value of ``restore`` where there is no restore image, and the operator knows it."""

_HEX_DIGITS = {DigestAlgorithm.SHA256: 64, DigestAlgorithm.SHA512: 128}

_PCI = re.compile(r'0x[0-9a-f]{4}:0x[0-9a-f]{4}')

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,99}')

_LONGEST_PATTERN = 200
"""Most characters of a pattern over Ids. The longest Id of all recordings has 63."""

_LARGEST = 2**63 - 1
"""The largest size: others store sizes as 64-bit integers."""

_MEASURED = {'sha256': 64, 'sha384': 96, 'sha512': 128, 'sha3_256': 64, 'sha3_384': 96, 'sha3_512': 128}
"""Hexadecimal digits of a measurement, by its algorithm. Source: DSP0274 1.2.3, MeasurementHashAlgo."""

_LONGEST_RAW = 128
"""Most hexadecimal digits of a measurement that is no digest."""

_LAST_INDEX = 254
"""The highest index of a measurement. Source: DSP0274 1.2.3, measurement index: 0xFF asks for all."""


def name(table: toml.Table) -> str:
    """Return the name of an image or a bundle."""
    found = table.required_string('name')
    if not _NAME.fullmatch(found):
        raise table.error('name', f'{found!r} is not a valid name: at most 100 letters, digits, dots, dashes and underscores')
    return found


def fits(table: toml.Table) -> tuple[Fit, ...]:
    found = fit_tables(table)
    if not found:
        raise table.error('fits' if table.has('fits') else None, 'fits is missing: name the devices that the image is for')
    return found


def fit_tables(table: toml.Table) -> tuple[Fit, ...]:
    found = []
    for fit in table.tables('fits'):
        ids = {key: fit.string(key) for key in ('pci', 'subsystem')}
        for key, pair in ids.items():
            if pair is not None and not _PCI.fullmatch(pair.lower()):
                raise fit.error(key, f'{pair!r} is not a pair of vendor and device id like "0x10de:0x2330"')
        found.append(
            Fit(
                vendor=fit.string('vendor'),
                model=fit.string('model'),
                part_number=fit.string('part_number'),
                software_id=fit.string('software_id'),
                **{key: None if pair is None else pair.lower() for key, pair in ids.items()},
            )
        )
        fit.finish()
        if found[-1] == Fit():
            raise fit.error(None, 'has no id: the image would fit every device')
    return tuple(found)


def component(table: toml.Table, text: str) -> str:
    if len(text) > _LONGEST_PATTERN:
        raise table.error('component', f'longer than {_LONGEST_PATTERN} characters')
    return text


def bounded(table: toml.Table, key: str, value: int, most: int = _LARGEST) -> int:
    if value > most:
        raise table.error(key, f'more than {most}')
    return value


def digest(table: toml.Table, text: str) -> Digest:
    name, colon, value = text.partition(':')
    if not colon:
        raise table.error('digest', 'names no algorithm', 'write it as "sha256:..." or "sha512:..."')
    try:
        algorithm = DigestAlgorithm(name.lower())
    except ValueError:
        words = ', '.join(DigestAlgorithm)
        raise table.error('digest', f'{name!r} is none of {words}', toml.did_you_mean(name, DigestAlgorithm)) from None
    if not re.fullmatch(r'[0-9a-f]+', value.lower()) or len(value) != _HEX_DIGITS[algorithm]:
        raise table.error('digest', f'{_HEX_DIGITS[algorithm]} hexadecimal digits expected for {algorithm}')
    return Digest(algorithm=algorithm, value=value.lower())


def references(table: toml.Table) -> tuple[ReferenceValue, ...]:
    """Return the measurements of a device that runs the image: ``"HGX_ERoT_GPU_*/2" = "sha384:..."``, or a list of values."""
    found = []
    listed = table.table('measurements')
    for key, value in listed.data.items():
        pattern, slash, number = key.rpartition('/')
        if not number.isascii() or not number.isdigit() or not 1 <= int(number[:9]) <= _LAST_INDEX or (slash and not pattern):
            hint = 'write "INDEX", or "PATTERN/INDEX" with a pattern over the Ids of ComponentIntegrity; indices are 1 to 254'
            raise listed.error(key, f'{key!r} is not an index of a measurement', hint)
        texts = listed.strings(key) if isinstance(value, list) else (listed.required_string(key),)
        if not texts:
            raise listed.error(key, 'is empty: no measurement could ever match')
        values = tuple(_measured(listed, key, text) for text in texts)
        if len(pattern) > _LONGEST_PATTERN:
            raise listed.error(key, f'longer than {_LONGEST_PATTERN} characters')
        found.append(ReferenceValue(integrity=pattern or '*', index=int(number), values=values))
    listed.finish()
    return tuple(found)


def _measured(table: toml.Table, key: str, text: str) -> tuple[str, str]:
    name, colon, value = text.lower().partition(':')
    if not colon:
        raise table.error(
            key, 'names no algorithm', 'write it as "sha384:...", or as "raw:..." for a value that is not a digest'
        )
    if name != 'raw' and name not in _MEASURED:
        words = (*_MEASURED, 'raw')
        raise table.error(key, f'{name[:40]!r} is none of {", ".join(words)}', toml.did_you_mean(name, words))
    digits = re.fullmatch(r'[0-9a-f]+', value) is not None and len(value) % 2 == 0
    if name == 'raw' and (not digits or len(value) > _LONGEST_RAW):
        raise table.error(key, f'an even number of hexadecimal digits expected, at most {_LONGEST_RAW}')
    if name != 'raw' and (not digits or len(value) != _MEASURED[name]):
        raise table.error(key, f'{_MEASURED[name]} hexadecimal digits expected for {name}')
    return name, value


def place(table: toml.Table, key: str, text: str, folder: Path) -> str:
    """Return the location of a file: a URL unchanged, a path relative to the catalogue's folder made absolute."""
    if '://' not in text:
        return str(folder / text)
    try:
        return address.parse(text).url
    except ValueError as exc:
        scheme = text.split('://')[0].lower()
        if scheme not in address.PORTS:
            what = f'URL scheme {scheme[:20]!r} is not supported: name a file, or a URL of http or https'
            raise table.error(key, what) from None
        raise table.error(key, str(exc)) from None


def uuid_of(table: toml.Table) -> str | None:
    text = table.string('uuid')
    if text is None:
        return None
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise table.error('uuid', f'{text!r} is not a UUID') from None

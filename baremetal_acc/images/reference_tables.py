# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read and write the ``[[reference]]`` tables of a catalogue: what makers publish for a version, apart from any image.

The values are written as in ``[image.measurements]`` (:func:`baremetal_acc.images.image_keys.references`).
"""

from collections.abc import Iterable

from baremetal_acc.images import draft, image_keys
from baremetal_acc.model import toml
from baremetal_acc.model.reference import VersionReference

_LAST_INDEX = 254
"""The highest index of a measurement. Source: DSP0274 1.2.3, measurement index: 0xFF asks for all."""


def read(document: toml.Table) -> tuple[VersionReference, ...]:
    """Return the references of a catalogue, in its order.

    :raises DocumentError: a table is wrong, or one version of a component has two for the same root of trust and index.
    """
    found: list[VersionReference] = []
    seen: set[tuple[str, str, str, int]] = set()
    for table in document.tables('reference'):
        one = VersionReference(
            component=table.required_string('component'),
            version=table.required_string('version'),
            measurements=image_keys.references(table),
            inactive=tuple(_index(table, text) for text in table.strings('not_active') or ()),
            source=table.string('source'),
        )
        table.finish()
        if not one.measurements:
            raise table.error(None, 'measurements is missing: name the values that the version has')
        for value in one.measurements:
            key = (one.component, one.version.casefold(), value.integrity.casefold(), value.index)
            if key in seen:
                what = f'measurement {value.index} of {one.component} {one.version} has two references'
                raise table.error('measurements', what, 'keep one of them')
            seen.add(key)
            if value.index in one.inactive:
                raise table.error('not_active', f'{value.index} has a value in measurements')
        found.append(one)
    return tuple(found)


def _index(table: toml.Table, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 3 or not 1 <= int(text) <= _LAST_INDEX:
        raise table.error('not_active', f'{text!r} is not an index of a measurement, "1" to "{_LAST_INDEX}"')
    return int(text)


def written(references: Iterable[VersionReference]) -> str:
    """Return the tables for references, as text that :func:`read` reads."""
    return '\n'.join(_written(one) for one in references)


def _written(reference: VersionReference) -> str:
    lines = [
        '[[reference]]',
        f'component = {draft.quoted(reference.component)}',
        f'version = {draft.quoted(reference.version)}',
    ]
    if reference.source is not None:
        lines.append(f'source = {draft.quoted(reference.source)}')
    if reference.inactive:
        lines.append(f'not_active = [{", ".join(draft.quoted(str(index)) for index in reference.inactive)}]')
    lines.append('[reference.measurements]')
    for one in reference.measurements:
        key = str(one.index) if one.integrity == '*' else f'{one.integrity}/{one.index}'
        values = ', '.join(draft.quoted(f'{kind}:{value}') for kind, value in one.values)
        lines.append(f'{draft.quoted(key)} = {values if len(one.values) == 1 else f"[{values}]"}')
    return '\n'.join(lines) + '\n'

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the bundles of a catalogue: packages that are sent once and write many components.

Each component becomes an image of its own, ``BUNDLE.COMPONENT``, so that it is treated like any other image: with the devices
that it fits, its version, and its restore image. The images of a bundle share the file, and are sent together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from baremetal_acc.images import image_keys
from baremetal_acc.model import toml
from baremetal_acc.model.image import Bundle, BundlePart, Fit, Image, ImageKind
from baremetal_acc.model.lock import ResetKind

NO_TARGETS = 'none'
"""The value of ``targets`` for a BMC to which no Targets are sent."""

_IDENTIFIERS = 0xFFFF
"""Source: DSP0267 1.3.0, table 6, ComponentIdentifier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A table ``[[bundle]]``, its images with their tables, and the name of the bundle to restore."""

    table: toml.Table
    images: tuple[tuple[Image, toml.Table], ...]
    restore: str | None


def images(tables: Iterable[toml.Table], folder: Path) -> tuple[tuple[Image, toml.Table], ...]:
    """Return the images of all bundles, each with its table.

    :param tables: the ``[[bundle]]`` tables; sources are relative to ``folder``.
    :raises DocumentError: a table is wrong; the error names file and line.
    """
    read: dict[str, _Read] = {}
    for table in tables:
        found = _bundle(table, folder)
        name = found.images[0][0].file
        if name in read:
            raise table.error('name', f'two bundles are called {name!r}')
        read[name] = found
    return tuple(pair for found in read.values() for pair in _with_restore(found, read))


def _with_restore(found: _Read, read: dict[str, _Read]) -> Iterable[tuple[Image, toml.Table]]:
    """Return the images of a bundle, each with the component of the older bundle that is its restore image."""
    if found.restore is None:
        return found.images
    older = read.get(found.restore)
    if older is None:
        what = f'no bundle is called {found.restore!r}'
        raise found.table.error('restore', what, toml.did_you_mean(found.restore, read))
    if older is found:
        raise found.table.error('restore', f'{found.restore!r} is the bundle itself')
    known = {_own_name(image): image.name for image, _ in older.images}
    return tuple((replace(image, restore=known.get(_own_name(image))), table) for image, table in found.images)


def _own_name(image: Image) -> str:
    return image.name.removeprefix(f'{image.file}.')


def _bundle(table: toml.Table, folder: Path) -> _Read:
    name = image_keys.name(table)
    apply = table.table('apply')
    reset = _reset(apply) or ResetKind.NONE
    order = apply.integer('order', 0) or 0
    apply.finish()
    restore = table.string('restore')
    if restore is None:
        hint = f'restore is missing: name the bundle to restore, or write "{image_keys.NO_RESTORE}"'
        raise table.error(None, hint)
    signature = table.string('signature')
    component_targets = table.boolean('component_targets') or False
    shared = image_keys.fit_tables(table)
    security_version = table.integer('security_version')
    targets = _targets(table)
    whole = Image(
        name=name,
        kind=ImageKind.FIRMWARE,
        fits=(),
        component='',
        version='',
        security_version=0,
        source=image_keys.place(table, 'source', table.required_string('source'), folder),
        size_bytes=image_keys.bounded(table, 'size', table.required_integer('size', minimum=1)),
        digest=image_keys.digest(table, table.required_string('digest')),
        reset=reset,
        order=order,
        signature=None if signature is None else image_keys.place(table, 'signature', signature, folder),
    )
    parts = table.tables('component')
    table.finish()
    if not parts:
        raise table.error(None, 'has no [[bundle.component]]: list every component that the package writes')
    found = [(_part(part, whole, shared, security_version), part) for part in parts]
    for image, part in found:
        if sum(other.name == image.name for other, _ in found) > 1:
            raise part.error('name', f'two components of bundle {name} are called {_own(image.name, name)!r}')
    bundle = Bundle(
        name=name,
        targets=targets,
        component_targets=component_targets,
        parts=tuple(BundlePart(component=i.component, version=i.version, identifier=i.identifier) for i, _ in found),
    )
    return _Read(
        table=table,
        images=tuple((replace(image, bundle=bundle), part) for image, part in found),
        restore=None if restore == image_keys.NO_RESTORE else restore,
    )


def _part(table: toml.Table, whole: Image, shared: tuple[Fit, ...], security_version: int | None) -> Image:
    """Return the image of one component. Fits, security version and resets that it lacks are those of the bundle."""
    own = image_keys.name(table)
    fits = image_keys.fit_tables(table) or shared
    if not fits:
        raise table.error(None, 'fits is missing: name the devices of this component here, or of all components in [[bundle]]')
    security = table.integer('security_version', security_version)
    if security is None:
        raise table.error(None, 'security_version is missing both here and in [[bundle]]')
    identifier = table.integer('identifier')
    apply = table.table('apply')
    reset = _reset(apply)
    apply.finish()
    found = replace(
        whole,
        name=f'{whole.name}.{own}',
        fits=fits,
        component=image_keys.component(table, table.required_string('component')),
        version=table.required_string('version'),
        security_version=security,
        measurements=image_keys.references(table),
        reset=whole.reset if reset is None else reset,
        identifier=None if identifier is None else image_keys.bounded(table, 'identifier', identifier, _IDENTIFIERS),
    )
    table.finish()
    return found


def _reset(apply: toml.Table) -> ResetKind | None:
    return apply.choice('reset', ResetKind)


def _own(name: str, bundle: str) -> str:
    return name.removeprefix(f'{bundle}.')


def _targets(table: toml.Table) -> tuple[str, ...] | None:
    """Return the Targets for the BMC: a list of URIs, which may be empty, or None for no Targets.

    :raises DocumentError: the value is neither.
    """
    hint = f'write the list of URIs that the vendor gives, [] to send an empty list, or "{NO_TARGETS}" to send no Targets'
    if not table.has('targets'):
        raise table.error(None, 'targets is missing', hint)
    if isinstance(table.data['targets'], str):
        if table.string('targets') != NO_TARGETS:
            raise table.error('targets', f'{table.data["targets"][:60]!r} is not a list', hint)
        return None
    found = table.strings('targets') or ()
    for uri in found:
        if not uri.startswith('/redfish/') or any(c.isspace() for c in uri):
            raise table.error('targets', f'{uri[:120]!r} is not a Redfish URI (/redfish/...)', hint)
    return found


__all__ = ['NO_TARGETS', 'images']

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a ``catalogue.toml``: the images, bundles and deny-list of the operator."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from baremetal_acc.images import bundles, deny, image_keys, reference_tables
from baremetal_acc.images.deny import Denial
from baremetal_acc.images.image_keys import NO_RESTORE
from baremetal_acc.model import toml
from baremetal_acc.model.image import Image, ImageKind
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.reference import VersionReference
from baremetal_acc.planning.image_selection import same_version

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The content of a ``catalogue.toml``.

    :ivar path: path of the file, for messages.
    :ivar serial: a number that rises with every change; None where the operator does not count.
    :ivar expires: time after which no image of the catalogue is written any more; None: never.
    :ivar references: what makers publish for versions of components, apart from images.
    """

    path: str
    images: tuple[Image, ...]
    serial: int | None = None
    expires: datetime | None = None
    denials: tuple[Denial, ...] = ()
    references: tuple[VersionReference, ...] = ()


def parse(text: str, path: str) -> tuple[Image, ...]:
    """Return the images of a ``catalogue.toml``, in its order.

    :param path: path of the file, for messages; sources are relative to its folder.
    :raises DocumentError: the file is wrong; the error names file and line.
    """
    return read(text, path).images


def read(text: str, path: str) -> Catalogue:
    """Read a ``catalogue.toml``. Signature, serial and expiry are not checked here.

    :param path: path of the file, for messages; sources are relative to its folder.
    :raises DocumentError: the file is wrong; the error names file and line.
    """
    document = toml.read(text, path, format_version=FORMAT)
    serial = document.serial()
    expires = document.moment('expires')
    denials = tuple(_denial(table) for table in document.tables('deny'))
    tables = document.tables('image')
    bundle_tables = document.tables('bundle')
    references = reference_tables.read(document)
    document.finish()
    images = tuple(_image(table, Path(path).parent) for table in tables)
    bundled = bundles.images(bundle_tables, Path(path).parent)
    by_name = {}
    for image, table in (*zip(images, tables, strict=True), *bundled):
        if image.name in by_name:
            raise table.error('name', f'two images are called {image.name!r}')
        by_name[image.name] = image
    for image, table in zip(images, tables, strict=True):
        if image.restore is None:
            continue
        restore = by_name.get(image.restore)
        if restore is None:
            raise table.error('restore', f'no image is called {image.restore!r}', toml.did_you_mean(image.restore, by_name))
        if restore.kind is not image.kind or restore.name == image.name or restore.bundle is not None:
            raise table.error('restore', f'{image.restore!r} is not another {image.kind} image')
    return Catalogue(
        path=path,
        images=deny.marked((*images, *(image for image, _ in bundled)), denials),
        serial=serial,
        expires=expires,
        denials=denials,
        references=references,
    )


def _image(table: toml.Table, folder: Path) -> Image:
    name = image_keys.name(table)
    kind = table.choice('kind', ImageKind, required=True) or ImageKind.FIRMWARE
    apply = table.table('apply')
    reset = apply.choice('reset', ResetKind) or ResetKind.NONE
    order = apply.integer('order', 0) or 0
    via = apply.strings('via') or ()
    apply.finish()
    restore = table.string('restore')
    if restore is None and kind is not ImageKind.FUNCTION:
        raise table.error(None, f'restore is missing: name the image to restore, or write "{NO_RESTORE}"')
    signature = table.string('signature')
    image = Image(
        name=name,
        kind=kind,
        fits=image_keys.fits(table),
        component=image_keys.component(table, table.required_string('component')),
        version=table.required_string('version'),
        security_version=table.required_integer('security_version'),
        source=image_keys.place(table, 'source', table.required_string('source'), folder),
        size_bytes=image_keys.bounded(table, 'size', table.required_integer('size', minimum=1)),
        digest=image_keys.digest(table, table.required_string('digest')),
        reset=reset,
        order=order,
        restore=None if restore == NO_RESTORE else restore,
        via=via,
        signature=None if signature is None else image_keys.place(table, 'signature', signature, folder),
        function=table.string('function'),
        uuid=image_keys.uuid_of(table),
        measurements=image_keys.references(table),
    )
    if kind is ImageKind.FUNCTION and image.function is None:
        raise table.error(None, 'function is missing: an image of kind "function" names the function')
    if kind is not ImageKind.FUNCTION and (image.function is not None or image.uuid is not None):
        raise table.error('function' if image.function else 'uuid', 'is for images of kind "function" only')
    if image.measurements and kind is not ImageKind.FIRMWARE:
        raise table.error('measurements', 'is for images of kind "firmware" only')
    if kind is ImageKind.REVOCATION and image.restore is not None:
        raise table.error('restore', f'a revocation cannot be undone: write restore = "{NO_RESTORE}"')
    if via and kind is not ImageKind.FIRMWARE:
        raise table.error('apply', 'via is for images of kind "firmware" only')
    if any(same_version(image.version, over) for over in via):
        raise table.error('apply', f'via contains {image.version!r}, the version of the image itself')
    table.finish()
    return image


def _denial(table: toml.Table) -> Denial:
    component, digest = table.string('component'), table.string('digest')
    denial = Denial(
        reason=table.required_string('reason'),
        fits=image_keys.fit_tables(table),
        component=None if component is None else image_keys.component(table, component),
        version=table.string('version'),
        digest=None if digest is None else image_keys.digest(table, digest),
    )
    table.finish()
    if denial.version is None and denial.digest is None:
        raise table.error(None, 'has neither version nor digest, of which one is required')
    if denial.digest is None and denial.component is None and not denial.fits:
        raise table.error('version', 'would be denied for every component of every device: add component or fits')
    return denial

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Show a PLDM firmware update package, and draft the entries of a catalogue for it. No BMC is spoken to."""

import argparse
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntFlag
from pathlib import Path
from typing import Any, BinaryIO

from cliff import command

from baremetal_acc import atomic_file
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import Report, strict
from baremetal_acc.errors import DocumentError, UsageError
from baremetal_acc.images import draft, pldm_encoding, pldm_package
from baremetal_acc.images.pldm import (
    NO_COMPARISON_STAMP,
    AnyDescriptor,
    Classification,
    Descriptor,
    DescriptorType,
    DeviceRecord,
    DownstreamRecord,
    PackageComponent,
    PldmPackage,
    VendorDescriptor,
)

FORMAT = 1

_AT_ONCE = 1024 * 1024

Json = dict[str, Any]


class CatalogueAddCommand(command.Command):
    """Draft the catalogue entries for a PLDM package. Contacts no BMC, and changes no catalogue.

    The entries contain what the package says, and a mark for each fact that it cannot say. Nothing is signed: copy the entries
    into a catalogue, fill in what is marked, and sign the catalogue.
    """

    app_dist_name = text.PROGRAM

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Which package, which of its components."""
        parser = strict(super().get_parser(prog_name))
        parser.add_argument('file', metavar='PACKAGE', help='PLDM package: FILE.fwpkg')
        parser.add_argument(
            '--component',
            type=int,
            metavar='ID',
            help='draft an [[image]] for the component with this identifier only (default: a [[bundle]], if there are several)',
        )
        parser.add_argument(
            '--source', metavar='PATH', help='path by which the catalogue names the package (default: its name)'
        )
        parser.add_argument(
            '--output', metavar='FILE', help='write a catalogue with the entries to this new file (default: print them)'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Draft them.

        :raises UsageError: there is no such component, or the file that should be new is there.
        """
        path = Path(parsed_args.file)
        package, size, digest = _read(path)
        file = draft.File(source=parsed_args.source or path.name, size_bytes=size, digest=digest)
        wanted = [
            position
            for position, component in enumerate(package.components)
            if parsed_args.component in (None, component.identifier)
        ]
        if not wanted:
            known = ', '.join(str(one) for one in sorted({component.identifier for component in package.components}))
            raise UsageError(argument='--component', what=f'{path} has no component {parsed_args.component}', hint=known)
        names = draft.names(package, path.stem)
        if parsed_args.component is None and len(wanted) > 1:
            entries = draft.bundle(package, draft.stem(path.stem), file)
        else:
            entries = '\n'.join(draft.entry(package, position, names[position], file) for position in wanted)
        if parsed_args.output is None:
            self.app.stdout.write(entries)
            self.app.stdout.flush()
        else:
            _write_new(Path(parsed_args.output), f'format = 1\n# serial = 1\n# expires = 2027-01-31T00:00:00Z\n\n{entries}')
        catalogue = parsed_args.output or 'catalogue.toml'
        text.note(f'fill in the marked lines of {catalogue}, then run: baremetal-acc catalogue sign {catalogue} --key FILE')
        return int(Exit.HOLDS)


def is_one(path: Path) -> bool:
    """Whether a file is shown as a package: by its name, or because it begins as one."""
    if path.suffix == pldm_package.SUFFIX:
        return True
    try:
        with _opened(path) as stream:
            return pldm_package.begins_as_one(stream.read(pldm_package.IDENTIFIER_BYTES))
    except DocumentError:
        return False  # whoever reads it as a catalogue says why


def report(path: Path) -> Report:
    """What a package says.

    :raises PackageMalformed: it breaks its specification.
    :raises DocumentError: it cannot be read.
    """
    package, size, digest = _read(path)
    header = pldm_encoding.header_size(package)
    document = {
        'format': FORMAT,
        'package': {
            'path': str(path),
            'size': size,
            'digest': digest,
            'specification': package.revision.version,
            'identifier': str(package.revision.identifier),
            'format_revision': package.revision.number,
            'header_size': header,
            'component_bitmap_bits': package.bitmap_bits,
            'released': None if package.released is None else package.released.moment.isoformat(),
            'version': package.version.text,
            'bytes_behind_images': size - max(header, package.images_end),
        },
        'devices': [_device(device) for device in package.devices],
        'downstream_devices': [_downstream(device) for device in package.downstream_devices],
        'components': [_component(component) for component in package.components],
    }
    return Report(
        document=document,
        columns=('Part', 'Identifier', 'Version', 'Components', 'Details'),
        rows=tuple(_rows(document)),
        code=Exit.HOLDS,
    )


def _rows(document: Json) -> Iterator[tuple[Any, ...]]:
    """The whole package, its devices, its components."""
    whole = document['package']
    details: tuple[str, ...] = (f'DSP0267 {whole["specification"]}', f'{whole["size"]} bytes', whole['digest'])
    if whole['released'] is not None:
        details += (f'released {whole["released"]}',)
    if whole['bytes_behind_images']:
        details += (f'{whole["bytes_behind_images"]} bytes after the images',)
    yield 'package', whole['identifier'], whole['version'], None, details
    for part, key, version in (
        ('device', 'devices', 'image_set_version'),
        ('downstream device', 'downstream_devices', 'min_version'),
    ):
        for number, device in enumerate(document[key]):
            ids = tuple(f'{one["title"] or one["type"]} {one["value"]}' for one in device['descriptors'])
            more = [f'{device[data]} bytes of {data.replace("_", " ")}' for data in ('package_data', 'reference_manifest')]
            details = (*device['options'], *(one for one in more if not one.startswith('0 ')))
            yield f'{part} {number}', ids, device[version], tuple(device['components']), details
    for number, component in enumerate(document['components']):
        details = (
            component['classification'],
            *(f'option {one}' for one in component['options']),
            *(f'activation {one}' for one in component['activation']),
            f'{component["size"]} bytes at {component["offset"]}',
        )
        yield 'component', component['identifier'], component['version'], number, details


def _device(device: DeviceRecord) -> Json:
    return {'image_set_version': device.image_set_version.text, **_record(device)}


def _downstream(device: DownstreamRecord) -> Json:
    return {'min_version': device.min_version.text, 'min_version_stamp': device.min_version_stamp, **_record(device)}


def _record(record: DeviceRecord | DownstreamRecord) -> Json:
    return {
        'descriptors': [_descriptor(one) for one in record.descriptors],
        'components': sorted(record.components),
        'options': _words(record.options),
        'package_data': len(record.package_data),
        'reference_manifest': len(record.reference_manifest),
    }


def _descriptor(descriptor: AnyDescriptor) -> Json:
    match descriptor:
        case VendorDescriptor(title=title, data=data):
            return {'type': 'vendor-defined', 'title': title.text, 'value': data.hex()}
        case Descriptor(type=DescriptorType() as known):
            return {'type': _word(known.name), 'title': None, 'value': descriptor.value}
        case Descriptor(type=number):
            return {'type': f'0x{number:04x}', 'title': None, 'value': descriptor.value}


def _component(component: PackageComponent) -> Json:
    kind, stamp = component.classification, component.comparison_stamp
    return {
        'identifier': component.identifier,
        'version': component.version.text,
        'classification': _word(kind.name) if isinstance(kind, Classification) else f'0x{kind:04x}',
        'comparison_stamp': None if stamp == NO_COMPARISON_STAMP else stamp,
        'options': _words(component.options),
        'activation': _words(component.activation),
        'offset': component.offset,
        'size': component.size_bytes,
        'opaque_data': len(component.opaque_data),
    }


def _words(flags: IntFlag) -> list[str]:
    """The names of the bits that are set; ``bit-7`` for one that has none."""
    known = {int(flag): _word(flag.name or '') for flag in type(flags)}
    return [known.get(1 << bit, f'bit-{bit}') for bit in range(int(flags).bit_length()) if int(flags) >> bit & 1]


def _word(name: str) -> str:
    return name.lower().replace('_', '-')


def _read(path: Path) -> tuple[PldmPackage, int, str]:
    """A package, how many bytes it has, and its digest."""
    try:
        with _opened(path) as stream:
            package = pldm_package.parse(stream, str(path))
            stream.seek(0)
            digest, size = hashlib.sha256(), 0
            while chunk := stream.read(_AT_ONCE):
                digest.update(chunk)
                size += len(chunk)
    except OSError as exc:
        raise DocumentError(
            path=str(path), what=f'cannot be read: {exc.strerror}', hint='name a file that you may read'
        ) from exc
    return package, size, f'sha256:{digest.hexdigest()}'


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file.

    :raises DocumentError: it cannot be opened, or is none.
    """
    try:
        # Not blocking, so that a pipe in place of the file holds nobody.
        stream = open(path, 'rb', opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC))  # noqa: SIM115
    except OSError as exc:
        raise DocumentError(
            path=str(path), what=f'cannot be read: {exc.strerror}', hint='name a file that you may read'
        ) from exc
    with stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise DocumentError(path=str(path), what='is not a regular file', hint='name a file')
        yield stream


def _write_new(path: Path, content: str) -> None:
    """A file that was not there.

    :raises UsageError: it is there, or cannot be written.
    """
    if os.path.lexists(path):
        raise UsageError(
            argument='--output', what=f'{path} exists already', hint='name a new file: an existing catalogue is not changed'
        )
    try:
        atomic_file.write(path, content.encode(), mode=0o644)
    except OSError as exc:
        raise UsageError(
            argument='--output', what=f'{path} cannot be written: {exc.strerror}', hint='name a file that you may write'
        ) from exc

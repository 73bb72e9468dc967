# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc catalogue``: check, show and sign the catalogue of firmware and function images. No BMC is contacted."""

import argparse
import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from baremetal_acc import bootstrap
from baremetal_acc.cli import exits, session, signing_command
from baremetal_acc.cli.commands import package
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.layout import Block
from baremetal_acc.cli.output.report import Report, ReportCommand, is_for_people
from baremetal_acc.cli.signing_command import SignedContent
from baremetal_acc.config.options import GROUP
from baremetal_acc.errors import ImageError, UsageError
from baremetal_acc.images import catalogue as document
from baremetal_acc.images import deny, signed_document
from baremetal_acc.images.catalogue import Catalogue
from baremetal_acc.images.load import Loaded
from baremetal_acc.images.store import ImageFiles
from baremetal_acc.model.image import Image, SignatureDemand, SignedKind
from baremetal_acc.model.reference import VersionReference
from baremetal_acc.model.toml import did_you_mean
from baremetal_acc.policy.baseline_rules import Baseline

FORMAT = 1

IMAGE_COLUMNS = ('Image', 'Kind', 'Component', 'Version', 'Security version', 'Size', 'Restore', 'Denied')

Json = dict[str, Any]


class CatalogueCheckCommand(ReportCommand):
    """Check that every image of the catalogue can be written: bytes, digest, signatures, restore image. Contacts no BMC.

    Exit code 0: every image can, except those that the catalogue denies; 4: a plan that needs one of the others would be
    refused.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the catalogue and the output."""
        _add_arguments(parser)
        parser.add_argument('--unmet', action='store_true', help='print only images with errors (table, csv and value)')

    def work(self, arguments: argparse.Namespace) -> Report:
        """Open every image as a job would."""
        loaded, store = _loaded(arguments)
        images = {image.name: image for image in loaded.catalogue.images}
        errors = {name: _openable(image, store) for name, image in images.items()}
        bodies = []
        for image in images.values():
            wrong = [] if errors[image.name] is None or image.denied is not None else [str(errors[image.name])]
            if image.denied is None and image.restore is not None and errors[image.restore] is not None:
                wrong.append(f'image {image.name}: its restore image cannot be used: {errors[image.restore]}')
            if image.denied is None:
                # An image that cannot be opened was reported above.
                back = None if image.restore is None or errors[image.restore] is not None else images[image.restore]
                wrong += _never_planned(image, back)
            state = 'denied' if image.denied is not None else 'wrong' if wrong else 'good'
            bodies.append({**_image(image), 'state': state, 'errors': wrong})
            for one in wrong if not _expired(loaded.catalogue) else ():
                text.error(one)
        if _expired(loaded.catalogue):
            # Once for all of its images.
            text.error(f'{loaded.catalogue.path}: the catalogue has expired, so none of its images can be written')
        return Report(
            document={'format': FORMAT, 'catalogue': _catalogue(loaded), 'images': bodies},
            columns=('Image', 'Kind', 'Version', 'State', 'Why'),
            rows=tuple(_checked(body) for body in bodies if body['state'] == 'wrong' or not arguments.unmet),
            code=exits.worst(Exit.REFUSED if body['errors'] else Exit.HOLDS for body in bodies),
        )


class CatalogueShowCommand(ReportCommand):
    """Print the content of the catalogue, after its signature was checked as configured. Contacts no BMC.

    The images themselves are not read. The reference values of versions follow the images; -f csv and -f value print the images
    alone. If a PLDM package is given instead, prints what the package says of itself, its devices
    and its components; no signature of a package is checked.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the catalogue or the PLDM package."""
        _add_arguments(parser, 'CATALOGUE|PACKAGE', 'catalogue file, as with --catalogue; or a PLDM package: FILE.fwpkg')

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read and print the catalogue, or the package."""
        if arguments.file and package.is_one(Path(arguments.file)):
            _named(arguments)
            return package.report(Path(arguments.file))
        loaded, _ = _loaded(arguments)
        bodies = [_image(image) for image in loaded.catalogue.images]
        references = [_reference(one) for one in loaded.catalogue.references]
        rows = tuple(
            (
                body['name'],
                body['kind'],
                body['component'],
                body['version'],
                body['security_version'],
                body['size'],
                body['restore'],
                body['denied'],
            )
            for body in bodies
        )
        blocks = (Block(columns=IMAGE_COLUMNS, rows=rows), _references(references)) if references else None
        return Report(
            document={'format': FORMAT, 'catalogue': _catalogue(loaded), 'images': bodies, 'references': references},
            columns=IMAGE_COLUMNS,
            rows=rows,
            code=Exit.HOLDS,
            blocks=blocks if is_for_people(arguments) else None,
        )


class Sign(ReportCommand):
    """Sign the catalogue, or images of it, with a private key that only its owner can read. Contacts no BMC.

    The signature of the catalogue is written to a file next to it, whose name ends with .sig; that of an image to the file that
    the catalogue names. To verify the signature, the option trust_roots has to name the public key, or the CA of the
    certificate. Where several keys have to sign (option signature_threshold), every signer but the first one uses --add.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the key and for what is signed."""
        _add_arguments(parser)
        signing_command.add_signer(parser)
        what = parser.add_argument_group('content to sign')
        what.add_argument(
            '--image',
            action='append',
            default=[],
            metavar='NAME',
            help='sign this image, not the catalogue, after its bytes were compared with its digest; can be repeated',
        )
        signing_command.add_option(what)

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return signing_command.COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Check what is to be signed, and sign it."""
        from baremetal_acc.images.trust import signature

        settings = session.configuration(_named(arguments), os.environ).settings
        path = settings.catalogue
        data = signed_document.read(
            path, None if arguments.catalogue else f'option [{GROUP}] catalogue names it; use --catalogue for another file'
        )
        found = document.read(signed_document.decoded(path, data), str(path))
        now = datetime.now(UTC)
        todo: list[SignedContent] = []
        if arguments.image:
            read = bootstrap.Documents(
                baseline=Baseline(rules=()), catalogue=(), folders=bootstrap.folders(settings), hosts=bootstrap.hosts(settings)
            )
            store = bootstrap.store(settings, read)
            for image in _chosen(found, arguments.image):
                beside = _signature_file(image, read.folders)
                todo.append(SignedContent(what=f'image {image.file}', file=beside, statement=signature.image_statement(image)))
                _readable(image, store)
        else:
            todo.append(signing_command.signable(SignedKind.CATALOGUE, path, data, found.serial, found.expires, now))
        trust = bootstrap.trusting_images(settings) if arguments.image else bootstrap.trusting(settings)
        return signing_command.report(arguments, todo, trust, now)


def _add_arguments(
    parser: argparse.ArgumentParser, metavar: str = 'CATALOGUE', explained: str = 'catalogue file, as with --catalogue'
) -> None:
    which = parser.add_argument_group('catalogue')
    which.add_argument('file', nargs='?', metavar=metavar, help=explained)
    which.add_argument('--catalogue', metavar='FILE', help='catalogue file; overrides the configuration')
    which.add_argument(
        '--config-file', metavar='FILE', help=f'configuration file (default: {session.CONFIG_FILE} if it exists)'
    )


def _named(arguments: argparse.Namespace) -> argparse.Namespace:
    """The arguments with the catalogue's path in ``catalogue``, by whichever argument it was given.

    :raises UsageError: it was given twice.
    """
    if arguments.file and arguments.catalogue:
        raise UsageError(argument='--catalogue', what=f'cannot be combined with {arguments.file}', hint='name one catalogue')
    arguments.catalogue = arguments.file or arguments.catalogue
    return arguments


def _loaded(arguments: argparse.Namespace) -> tuple[Loaded, ImageFiles]:
    """Read the catalogue, report who signed it, and make the store of its images."""
    settings = session.configuration(_named(arguments), os.environ).settings
    now = datetime.now(UTC)
    trust = bootstrap.trusting(settings)
    loaded = bootstrap.catalogue(settings, trust, now, arguments=True)
    found = loaded.catalogue
    if loaded.signers:
        text.note(f'{found.path}: signed by {", ".join(loaded.signers)}')
    elif trust is None:
        text.note(f'{found.path}: the signature was not verified, because option [{GROUP}] trust_roots is not set')
    else:
        text.note(f'{found.path}: the catalogue is not signed, and option [{GROUP}] catalogue_signature does not require it')
    if _expired(found):
        text.warn(
            f'{found.path}: the catalogue has expired at {found.expires:%Y-%m-%d %H:%M:%S}Z: none of its images can be written'
        )
    read = bootstrap.Documents(
        baseline=Baseline(rules=()),
        catalogue=found.images,
        folders=bootstrap.folders(settings),
        hosts=bootstrap.hosts(settings),
        path=found.path,
        expires=found.expires,
        denials=found.denials,
        trust=bootstrap.trusting_images(settings),
    )
    return loaded, bootstrap.store(settings, read)


def _expired(found: Catalogue) -> bool:
    return found.expires is not None and found.expires <= datetime.now(UTC)


def _never_planned(image: Image, restore: Image | None) -> list[str]:
    """The reasons why every plan that needs the image is refused, whatever its device is."""
    found = []
    if not any(fit.pci or fit.part_number or fit.software_id for fit in image.fits):
        found.append(f'image {image.name}: fits has only vendor and model: add pci, part_number or software_id')
    if restore is None:
        return found
    if not deny.overlap(image.component.casefold(), restore.component.casefold()):
        what = f'restore image {restore.name} is for component {restore.component}, not for {image.component}'
        found.append(f'image {image.name}: {what}')
    if not deny.share_devices(image.fits, restore.fits):
        what = f'restore image {restore.name} fits no device that image {image.name} fits'
        found.append(f'image {image.name}: {what}')
    return found


def _openable(image: Image, store: ImageFiles) -> ImageError | None:
    """Why a job would refuse the image; None where it would not. An image with an HPM.1 header has to be valid for IPMI."""
    from baremetal_acc.bmc.ipmi.hpm import compatibility

    try:
        upload = store.open(image)
        if compatibility.begins_as_one(upload):
            compatibility.opened(image, upload)
        return None
    except ImageError as exc:
        return exc


def _readable(image: Image, store: ImageFiles) -> None:
    """Check that the bytes of an image are what the catalogue says. Its signature is not checked: it is about to be made.

    :raises ImageError: they are not.
    """
    with replace(store, signatures=SignatureDemand.OPTIONAL).open(replace(image, signature=None)).open():
        pass


def _chosen(found: Catalogue, names: Iterable[str]) -> list[Image]:
    by_name = {image.file: image for image in found.images}
    for name in names:
        if name not in by_name:
            hint = did_you_mean(name, by_name) or 'catalogue show prints the names'
            raise UsageError(argument='--image', what=f'{found.path} has no image {name!r}', hint=hint)
    return [by_name[name] for name in dict.fromkeys(names)]


def _signature_file(image: Image, folders: Iterable[Path]) -> Path:
    """The path of an image's signature, which has to be in a folder that images may be in.

    :raises UsageError: the catalogue names no path for it, or one that must not be written.
    """
    if image.signature is None:
        hint = f'add signature = "{image.file}{signed_document.SUFFIX}" to the table of the image'
        raise UsageError(argument='--image', what=f'the catalogue names no signature file for image {image.file}', hint=hint)
    if '://' in image.signature:
        what = f'the signature of {image.file} is on a server'
        raise UsageError(argument='--image', what=what, hint='to sign it, let signature name a local file')
    path = Path(os.path.realpath(image.signature))
    if not any(path.is_relative_to(os.path.realpath(folder)) for folder in folders):
        hint = f'option [{GROUP}] image_folders lists further folders'
        raise UsageError(argument='--image', what=f'{path} is outside the folders of images', hint=hint)
    if path.suffix != signed_document.SUFFIX:
        what = f'{path} does not end with {signed_document.SUFFIX}: it may be another file'
        raise UsageError(
            argument='--image', what=what, hint=f'let signature name a file that ends with {signed_document.SUFFIX}'
        )
    return path


# -------------------------------------------------------------------------------------------------------------- documents


def _catalogue(loaded: Loaded) -> Json:
    found = loaded.catalogue
    return {
        'path': found.path,
        'digest': loaded.digest,
        'signer': next(iter(loaded.signers), None),
        'signers': list(loaded.signers),
        'serial': found.serial,
        'expires': None if found.expires is None else f'{found.expires:%Y-%m-%dT%H:%M:%SZ}',
        'denials': [
            {
                'reason': d.reason,
                'component': d.component,
                'version': d.version,
                'digest': None if d.digest is None else str(d.digest),
            }
            for d in found.denials
        ],
    }


def _image(image: Image) -> Json:
    return {
        'name': image.name,
        'kind': image.kind.value,
        'component': image.component,
        'version': image.version,
        'security_version': image.security_version,
        'source': image.source,
        'size': image.size_bytes,
        'digest': str(image.digest),
        'signature': image.signature,
        'reset': image.reset.value,
        'order': image.order,
        'via': list(image.via),
        'restore': image.restore,
        'bundle': None if image.bundle is None else image.bundle.name,
        'function': image.function,
        'denied': image.denied,
    }


def _reference(reference: VersionReference) -> Json:
    return {
        'component': reference.component,
        'version': reference.version,
        'measurements': [
            {
                'integrity': value.integrity,
                'index': value.index,
                'values': [{'algorithm': algorithm, 'value': found} for algorithm, found in value.values],
            }
            for value in reference.measurements
        ],
        'not_active': list(reference.inactive),
        'source': reference.source,
    }


def _references(bodies: list[Json]) -> Block:
    """The reference values for people: how many there are, as a digest tells nobody anything."""
    rows = tuple(
        (body['component'], body['version'], len(body['measurements']), len(body['not_active']), body['source'])
        for body in bodies
    )
    columns = ('Component', 'Version', 'Measurements', 'Not compared', 'Source')
    return Block(columns=columns, rows=rows, before=('', 'Reference values of versions:'))


def _checked(body: Json) -> tuple[Any, ...]:
    why = tuple(body['errors']) or body['denied']
    return (body['name'], body['kind'], body['version'], body['state'], why)

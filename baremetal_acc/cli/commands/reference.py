# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc reference import``: add the values of signed manifests to a catalogue. No BMC and no server is contacted."""

import argparse
import os
import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cliff import command

from baremetal_acc import atomic_file, input_file
from baremetal_acc.cli import session
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import strict
from baremetal_acc.errors import DocumentError, UsageError
from baremetal_acc.images import catalogue, reference_tables, signed_document
from baremetal_acc.images.reference import manifest
from baremetal_acc.images.reference.manifest import Manifest
from baremetal_acc.images.trust import revocation, roots
from baremetal_acc.images.trust.revocation import RevocationList
from baremetal_acc.model.reference import VersionReference

_NEW = 'format = 1\n'
"""The content of a catalogue that does not exist yet."""

_LONGEST_PATTERN = 200
"""Most characters of a pattern over Ids, as in a catalogue."""


class ReferenceImportCommand(command.Command):
    """Add the reference values of signed manifests to the catalogue. Contacts no BMC and no server; needs --execute to write.

    A manifest is an SWID tag with TCG RIM (XML) or a CoRIM (CBOR) that the maker of a component signed. Its signature and its
    certificates up to a root given by --root are verified, and only what the signature covers is used. With --crl a manifest
    is refused if one of these certificates is revoked. Without --execute the command prints the entries that it would add (dry
    run). A version that the catalogue has already with the same values is not added again; one with other values is refused.
    Sign the catalogue afterwards, if it has to be signed.

    Exit code 0: the values are in the catalogue, or would be; 2: an argument or a manifest is wrong.
    """

    app_dist_name = text.PROGRAM

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The manifests, the roots of their makers, the catalogue."""
        parser = strict(super().get_parser(prog_name))
        parser.add_argument('manifests', nargs='+', metavar='MANIFEST', help='signed manifest: a .swidtag or a .corim file')
        parser.add_argument(
            '--root',
            action='append',
            required=True,
            dest='roots',
            metavar='FILE',
            help='root certificate of the maker in PEM, from a channel that you trust; can be repeated',
        )
        parser.add_argument(
            '--crl',
            action='append',
            default=[],
            dest='lists',
            metavar='FILE',
            help='certificate revocation list (CRL) of an issuer of the certificates, in PEM or DER; can be repeated '
            '(default: revocation is not checked)',
        )
        parser.add_argument('--catalogue', metavar='FILE', help='catalogue file; overrides the configuration')
        parser.add_argument(
            '--config-file', metavar='FILE', help=f'configuration file (default: {session.CONFIG_FILE} if it exists)'
        )
        parser.add_argument(
            '--integrity',
            default='*',
            metavar='PATTERN',
            help='only for roots of trust (ComponentIntegrity) whose Id matches this shell pattern, such as "*_IRoT_GPU_*" '
            '(default: all)',
        )
        parser.add_argument(
            '--at',
            metavar='DATE',
            help='check the certificates as of this day (YYYY-MM-DD), for a manifest whose certificates have expired since it '
            'was signed (default: now)',
        )
        parser.add_argument(
            '--execute', action='store_true', help='write to the catalogue; without this option the entries are only printed'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Read the manifests, compare with the catalogue, and write.

        :raises DocumentError: a manifest is not trusted, or it or the catalogue is wrong, or they contradict each other.
        :raises UsageError: an argument is wrong.
        """
        at = _day(parsed_args.at)
        pattern = _pattern(parsed_args.integrity)
        trusted = roots.trust([Path(path) for path in parsed_args.roots])
        if trusted.keys:
            what = 'contains a public key, but a root of manifests must be a CA certificate'
            raise UsageError(argument='--root', what=what, hint='name the root certificate of the maker')
        lists = tuple(revocation.load(path, datetime.now(UTC)) for path in parsed_args.lists)
        found = [(path, manifest.read(_read(path), path, trusted.authorities, at, lists)) for path in parsed_args.manifests]
        _check_used(lists, [one for _, one in found])
        path = session.configuration(parsed_args, os.environ).settings.catalogue
        data = signed_document.read(path) if os.path.lexists(path) else _NEW.encode()
        added = _added(path, _decoded(path, data), found, pattern)
        for name, one in found:
            _tell(name, one, at if parsed_args.at is not None else None, is_revocation_checked=bool(lists))
        if not added:
            text.note(f'{path}: has these values already; nothing to add')
            return int(Exit.HOLDS)
        entries = reference_tables.written(added)
        if not parsed_args.execute:
            self.app.stdout.write(entries)
            self.app.stdout.flush()
            text.note(f'dry run: nothing was written; --execute adds these entries to {path}')
            return int(Exit.HOLDS)
        _append(path, data, entries)
        for reference in added:
            text.note(f'{path}: added {len(reference.measurements)} values of {reference.component} {reference.version}')
        text.note(f'sign the catalogue again, if it has to be signed: baremetal-acc catalogue sign {path} --key FILE')
        return int(Exit.HOLDS)


def _day(given: str | None) -> datetime:
    """The time at which certificates have to be valid.

    :raises UsageError: it is no day.
    """
    if given is None:
        return datetime.now(UTC)
    try:
        return datetime.strptime(given, '%Y-%m-%d').replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(argument='--at', what=f'{given!r} is not a day', hint='write it as 2025-06-30') from None


def _pattern(given: str) -> str:
    if not given or len(given) > _LONGEST_PATTERN or not given.isprintable():
        what = f'is not a pattern of 1 to {_LONGEST_PATTERN} printable characters'
        raise UsageError(argument='--integrity', what=what, hint='leave it out for all roots of trust')
    return given


def _read(path: str) -> bytes:
    """The bytes of a manifest.

    :raises DocumentError: it cannot be read.
    """
    try:
        return input_file.read(path, manifest.MAX_SIZE)
    except OSError as exc:
        raise DocumentError(path=path, what=f'cannot be read: {exc.strerror}', hint='name a file that you may read') from exc


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode('utf-8')
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='is not UTF-8', hint='save it as UTF-8') from None


def _added(path: Path, content: str, found: list[tuple[str, Manifest]], pattern: str) -> tuple[VersionReference, ...]:
    """The references that the catalogue lacks.

    :raises DocumentError: it, or another manifest, has other values for the same version.
    """
    known = list(catalogue.read(content, str(path)).references)
    added: list[VersionReference] = []
    for name, one in found:
        for reference in one.for_roots_of_trust(pattern):
            same = [k for k in known if _subject(k) == _subject(reference)]
            if not same:
                added.append(reference)
                known.append(reference)
            elif replace(same[0], source=None) != replace(reference, source=None):
                what = f'has other values for {reference.component} {reference.version} than {path} or another manifest'
                raise DocumentError(
                    path=name, what=what, hint='remove the [[reference]] that is wrong from the catalogue first'
                )
    return tuple(added)


def _subject(reference: VersionReference) -> tuple[str, str, frozenset[str]]:
    """The version and the roots of trust that a reference is for."""
    patterns = frozenset(one.integrity.casefold() for one in reference.measurements)
    return reference.component, reference.version.casefold(), patterns


def _check_used(lists: tuple[RevocationList, ...], found: list[Manifest]) -> None:
    """Check that each list counted for a certificate: one that is given for nothing would look like a check.

    :raises UsageError: one did not.
    """
    used = frozenset(path for one in found for path in one.revocation.used)
    for one in lists:
        if one.path not in used:
            what = f'{one.path} is not signed by an issuer of the certificates of these manifests'
            raise UsageError(argument='--crl', what=what, hint='get the lists of the issuers, or leave it out')


def _tell(name: str, found: Manifest, at: datetime | None, *, is_revocation_checked: bool) -> None:
    """Tell who signed a manifest, and with which restriction that was checked."""
    text.note(f'{name}: {found.format} {found.id}, signed by {found.signer}, root {found.root}')
    if is_revocation_checked and found.revocation.unchecked:
        who = ', '.join(found.revocation.unchecked)
        text.warn(f'{name}: whether these certificates are revoked was not checked, for lack of a --crl of their issuer: {who}')
    if at is not None:
        text.warn(
            f'{name}: its certificates were checked as of {at:%Y-%m-%d}; one of them expires at {found.expires:%Y-%m-%d %H:%M}Z'
        )


def _append(path: Path, data: bytes, entries: str) -> None:
    """Add entries to the end of a catalogue, whose own text stays as it is.

    :raises DocumentError: the result would not be a catalogue, or cannot be written.
    """
    whole = data.rstrip(b'\n') + b'\n\n' + entries.encode()
    catalogue.read(whole.decode(), str(path))
    # The file that a link names is replaced, not the link.
    place = Path(os.path.realpath(path))
    try:
        mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o644
        atomic_file.write(place, whole, mode=mode)
    except OSError as exc:
        raise DocumentError(
            path=str(path), what=f'cannot be written: {exc.strerror}', hint='name a file that you may write'
        ) from exc

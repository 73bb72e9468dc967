# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write signature files: the part that ``catalogue sign`` and ``baseline sign`` share."""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from baremetal_acc import atomic_file
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import Report
from baremetal_acc.errors import DocumentError, UsageError
from baremetal_acc.images import signed_document
from baremetal_acc.images.signed_document import Trusting
from baremetal_acc.model.image import SignedKind

if TYPE_CHECKING:
    from baremetal_acc.images.trust.signature import Signer

FORMAT = 1

COLUMNS = ('Signed', 'File', 'Signer')

PASSPHRASE_VARIABLE = 'BAREMETAL_ACC_KEY_PASSPHRASE'  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedContent:
    """What is to be signed.

    :ivar what: what it is, for people.
    :ivar file: the signature file.
    :ivar statement: the signed bytes.
    """

    what: str
    file: Path
    statement: bytes


def add_signer(parser: argparse.ArgumentParser) -> None:
    """Add the options for the key."""
    who = parser.add_argument_group('signer')
    who.add_argument(
        '--key',
        metavar='FILE',
        required=True,
        help=f'private key in PEM, mode 0600 (its passphrase: ${PASSPHRASE_VARIABLE}, else a prompt)',
    )
    who.add_argument('--certificate', metavar='FILE', help="PEM: the signer's certificate, then the intermediate ones")


def add_option(group: argparse._ArgumentGroup) -> None:
    """Add the option for existing signatures."""
    group.add_argument(
        '--add',
        action='store_true',
        help='keep existing signatures: those of other signers, and those over earlier content',
    )


def signable(
    kind: SignedKind, path: Path, data: bytes, serial: int | None, expires: datetime | None, now: datetime
) -> SignedContent:
    """Return what is to be signed of a document, if it has what a signed one needs: a serial, and an end that is not over.

    :raises DocumentError: one is missing, or the document has expired.
    """
    if serial is None or expires is None:
        what = f'{"serial" if serial is None else "expires"} is missing: an old signed {kind} could be used for ever'
        hint = 'for example: serial = 1, expires = 2027-01-31T00:00:00Z'
        raise DocumentError(path=str(path), line=1, what=what, hint=hint)
    if expires <= now:
        what = f'the {kind} has expired at {expires:%Y-%m-%d %H:%M:%S}Z'
        raise DocumentError(path=str(path), what=what, hint='raise serial and set a later expires, then sign it')
    return SignedContent(
        what=kind.value, file=signed_document.signature_path(path), statement=signed_document.statement(kind, data)
    )


def report(arguments: argparse.Namespace, todo: Iterable[SignedContent], trust: Trusting | None, now: datetime) -> Report:
    """Sign, write the signature files, and tell how many keys are missing.

    :param trust: who may sign, by this configuration; None: it has no trust roots.
    :raises DocumentError: the key, or an existing signature file, is wrong.
    :raises UsageError: a signature of another signer that is needed would be lost, or a file cannot be written.
    """
    signer = _signer(arguments, now)
    bodies = []
    for content in todo:
        _write(content.file, _signed(content, signer, trust, now, add=arguments.add))
        bodies.append({'what': content.what, 'file': str(content.file), 'signer': signer.name})
    return Report(
        document={'format': FORMAT, 'signed': bodies},
        columns=COLUMNS,
        rows=tuple((body['what'], body['file'], body['signer']) for body in bodies),
        code=Exit.HOLDS,
        done=tuple(f'{body["what"]}: signed in {body["file"]}' for body in bodies),
    )


def _signed(content: SignedContent, signer: 'Signer', trust: Trusting | None, now: datetime, *, add: bool) -> str:
    """Return the new text of a signature file.

    :raises UsageError: it would lack a signature of another signer that is needed.
    """
    from baremetal_acc.images.trust import signature

    path = str(content.file)
    several = trust is not None and trust.threshold > 1
    old = None
    if content.file.exists() and (add or several):
        old = signed_document.read(content.file, limit=signature.MAX_SIZE).decode('utf-8', 'replace')
    if old is not None and not add and (others := set(_counted(content, old, trust, now)) - {signer.name}):
        what = f'{path} has signatures over the same content that would be removed: {", ".join(sorted(others))}'
        raise UsageError(argument='--add', what=what, hint='use --add to keep them, or delete the file to begin again')
    made = signer.file(content.statement, (old, path) if add and old is not None else None)
    if trust is None:
        return made
    # Alone: among the signatures of others it would not be noticed that this one does not count.
    if not _counted(content, alone := signer.file(content.statement), trust, now):
        why = _missing(content, alone, trust, now)
        text.warn(f'{path}: no trust root of this configuration verifies this signature: {why}')
    if several and (missing := _missing(content, made, trust, now)) is not None:
        text.note(f'{path}: not complete: {missing}; every further signer adds a signature with --add')
    return made


def _counted(content: SignedContent, made: str, trust: Trusting | None, now: datetime) -> tuple[str, ...]:
    """Return the signers of a signature file that count, enough or not."""
    from baremetal_acc.images.trust import signature

    if trust is None:
        return ()
    try:
        return trust.check(content.statement, made, str(content.file), now)
    except signature.TooFewSigners as exc:
        return exc.signed
    except (signature.Untrusted, DocumentError):
        return ()


def _missing(content: SignedContent, made: str, trust: Trusting, now: datetime) -> str | None:
    """Return why a signature file is not enough; None where it is."""
    from baremetal_acc.images.trust import signature

    try:
        trust.check(content.statement, made, str(content.file), now)
    except signature.Untrusted as exc:
        return str(exc)
    return None


def _signer(arguments: argparse.Namespace, now: datetime) -> 'Signer':
    from baremetal_acc.images.trust import signing

    key, chain = Path(arguments.key), Path(arguments.certificate) if arguments.certificate else None
    try:
        return signing.signer(key, chain, None, now)
    except TypeError:
        return signing.signer(key, chain, _passphrase(key, os.environ), now)


def _passphrase(key: Path, environ: Mapping[str, str]) -> bytes:
    found = environ.get(PASSPHRASE_VARIABLE)
    if not found and sys.stdin.isatty():
        found = text.ask(f'Passphrase of {key}: ')
    if not found:
        raise UsageError(argument='--key', what=f'{key} is encrypted with a passphrase', hint=f'set {PASSPHRASE_VARIABLE}')
    return found.encode(errors='surrogateescape')  # the very bytes of the environment variable


def _write(path: Path, content: str) -> None:
    try:
        atomic_file.write(path, content.encode(), mode=0o644)
    except OSError as exc:
        raise UsageError(
            argument=str(path), what=f'cannot be written: {exc.strerror}', hint='make its folder writable'
        ) from exc

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc certificate``: issue, show, verify and extract the signed hand-over certificate of a node.

Only ``issue`` speaks to a BMC, and writes nothing to it. The other verbs need no network and no Ironic. Only ``issue`` needs
configuration; ``verify`` reads the configuration for trusted keys where ``--trust`` names none.
"""

import argparse
import json
import os
import sys
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

from baremetal_acc import atomic_file, input_file
from baremetal_acc.certificates import envelope, statement, validity
from baremetal_acc.certificates.envelope import Sealer
from baremetal_acc.certificates.folder import CertificateFolder
from baremetal_acc.cli import exits, session, target_verdict
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import certificate_rows, documents, text
from baremetal_acc.cli.output.report import Report, ReportCommand, each, failed
from baremetal_acc.cli.output.results import warn_of_waivers
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.config.options import GROUP
from baremetal_acc.errors import AccError, CertificateInvalid, DocumentError, UsageError
from baremetal_acc.model.certificate import (
    Certificate,
    CertifiedNode,
    Paper,
    document,
)
from baremetal_acc.model.job import Flow
from baremetal_acc.render import certificate_faults, findings

FORMAT = 1

STDIN = '-'

_KEY = 'baremetal_acc'
"""Key in Ironic's ``driver_internal_info`` under which the plugin stores the state of a node."""

_MOST = 8 * 1024 * 1024
"""The most bytes that are read of a node as Ironic's API shows it."""

_AGAIN = 'the state of the node was cut off or changed: print it again, with baremetal node show -f json NODE'
"""What to do about a certificate that is not whole in what Ironic's API showed."""

_KEPT = ('Target', 'Lifecycle', 'Deployment', 'Key', 'File')

_LONGEST = timedelta(days=3650)

Json = dict[str, Any]


class Issue(ReportCommand):
    """Verify targets, and sign a hand-over certificate of what was proven for each. Writes nothing to a BMC.

    Only locks that baremetal-acc engaged and read back are certified: a lock that was merely found engaged is not, whatever a
    rule accepts. The certificate is valid for the lifecycle of the target in the state folder (apply --new-lifecycle begins the
    next one). Exit code 0: issued; 3: a demand is not met, and no certificate is issued.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets, the signing key and the output."""
        session.add_arguments(parser, writes=False)
        signing = parser.add_argument_group('certificate')
        signing.add_argument('--key', metavar='FILE', help='Ed25519 private key in PEM, mode 0600; overrides the configuration')
        where = signing.add_mutually_exclusive_group()
        where.add_argument('--out', metavar='FILE', help='write the certificate of one target to this file')
        where.add_argument('--folder', metavar='DIR', help='store certificates in this folder; overrides the configuration')
        signing.add_argument('--deployment', metavar='ID', help='id of this hand-over (default: a new UUID)')
        signing.add_argument('--days', metavar='N', help='validity in days, 1 to 3650 (default: no end)')

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return _KEPT

    def work(self, arguments: argparse.Namespace) -> Report:
        """Issue a certificate for every target."""
        using = session.begin(arguments, writes=False)
        settings = using.settings
        key = arguments.key or settings.certificate_key
        if not key:
            hint = f'create a key: {envelope.HOW} -out FILE'
            raise UsageError(argument='--key', what=f'is missing, and option [{GROUP}] certificate_key is not set', hint=hint)
        by = envelope.load(Path(key))
        folder = Path(arguments.folder) if arguments.folder else settings.certificate_folder
        folder = None if arguments.out else folder
        if arguments.out is None and folder is None:
            hint = f'give --out or --folder, or set option [{GROUP}] certificate_folder'
            raise UsageError(argument='--out', what='no place for the certificate is known', hint=hint)
        if arguments.out is not None and len(using.entries) > 1:
            what = f'is one file, but {len(using.entries)} targets are selected'
            raise UsageError(argument='--out', what=what, hint='name one target, or give --folder')
        if arguments.deployment is not None and len(using.entries) > 1:
            what = f'is one hand-over, but {len(using.entries)} targets are selected'
            raise UsageError(argument='--deployment', what=what, hint='name one target')
        lasting = _lasting(arguments.days)
        tools = using.tools()
        targets = {e.name: using.attempt(e) for e in using.entries}

        def one(entry: TargetEntry) -> Json:
            judged = target_verdict.judged(using, entry, tools, targets[entry.name])
            lifecycle = judged.state.lifecycle
            baseline, catalogue = tools.papers or (Paper(name='', digest=''),) * 2
            issued = datetime.now(UTC)
            certificate = statement.issue(
                findings.with_measurements_compared(judged.inventory, tools.catalogue, tools.references),
                judged.verdict,
                tools.baseline,
                judged.target.node,
                judged.state.engagements,
                statement.Occasion(
                    node=CertifiedNode(uuid=entry.node, name=entry.name),
                    lifecycle=lifecycle,
                    proven_in=lifecycle,
                    flow=Flow.CLI,
                    deployment=arguments.deployment or str(uuid.uuid4()),
                    issued=issued,
                    expires=None if lasting is None else issued + lasting,
                    issuer=f'baremetal-acc {metadata.version(text.PROGRAM)} of {_user()} at {os.uname().nodename}',
                    key=by.name,
                    requester=_user(),
                    baseline=baseline,
                    catalogue=catalogue,
                    known=judged.tools.known,
                    custody=judged.custody,
                ),
                findings.sentence,
            )
            warn_of_waivers(entry, judged.verdict)
            return _keep(entry.name, certificate, by, arguments.out, folder)

        bodies, codes = [], []
        for entry, found in each(using.entries, one):
            if isinstance(found, AccError):
                bodies.append({**_nothing(entry.name), 'error': documents.failure(found)})
                codes.append(failed(entry.name, found))
            else:
                bodies.append(found)
                codes.append(Exit.HOLDS)
        return Report(
            document={'format': FORMAT, 'certificates': bodies},
            columns=self.columns(arguments),
            rows=tuple((b['target'], b['lifecycle'], b['deployment'], b['key'], b['file']) for b in bodies),
            code=exits.worst(codes),
            done=tuple(f'{b["target"]}: the certificate is in {b["file"]}' for b in bodies if b['file'] is not None),
        )


class CertificateShowCommand(ReportCommand):
    """Print the content of a certificate without checking it; certificate verify checks it. Contacts no BMC."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the argument that names the certificate."""
        _add_file(parser)

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read and print the certificate."""
        data = _read(arguments.file, envelope.MAX_SIZE + 1)
        certificate = envelope.unchecked(data)
        text.note(f'{_label(arguments.file)}: shown without verifying its signature; certificate verify does that')
        return Report(
            document={
                'format': FORMAT,
                'digest': envelope.digest(data.removesuffix(b'\n')),
                'checked': False,
                'certificate': document(certificate),
            },
            columns=('Device', 'What', 'Found', 'Rule'),
            rows=tuple(certificate_rows.rows(certificate)),
            code=Exit.HOLDS,
        )


class CertificateVerifyCommand(ReportCommand):
    """Check a certificate offline: its signer, node and lifecycle, what it proves and what it does not. Contacts no BMC.

    Exit code 0: the certificate is valid; 3: it is not, and each reason is printed.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the certificate, the trusted keys, and the expected node, lifecycle and deployment."""
        _add_file(parser)
        parser.add_argument(
            '--trust',
            action='append',
            default=[],
            metavar='FILE',
            help='Ed25519 public key of a trusted issuer in PEM; can be repeated (default: certificate_trust and '
            'certificate_key of the configuration)',
        )
        parser.add_argument('--node', metavar='UUID', help='expected node UUID (name of the target if it has no UUID)')
        parser.add_argument('--lifecycle', metavar='N', help='expected lifecycle of the node')
        parser.add_argument('--deployment', metavar='ID', help='expected deployment id')
        parser.add_argument('--instance', metavar='UUID', help='expected instance UUID (the server in Nova)')
        parser.add_argument(
            '--config-file', metavar='FILE', help=f'configuration file (default: {session.CONFIG_FILE} if it exists)'
        )

    def work(self, arguments: argparse.Namespace) -> Report:
        """Verify the certificate."""
        trust = _trust(arguments)
        lifecycle = None if arguments.lifecycle is None else _number('--lifecycle', arguments.lifecycle)
        data = _read(arguments.file, envelope.MAX_SIZE + 1)
        label = _label(arguments.file)
        try:
            certificate = envelope.opened(data, trust)
        except CertificateInvalid as exc:
            text.error(f'{label}: {exc}')
            return _judged(data, None, ((exc.kind, exc.message),))
        asked = {'node': arguments.node, 'lifecycle': lifecycle, 'deployment': arguments.deployment}
        faults = validity.holds(certificate, now=datetime.now(UTC), instance=arguments.instance, **asked)
        reasons = tuple((fault.kind, certificate_faults.sentence(fault)) for fault in faults)
        for _, reason in reasons:
            text.error(f'{label}: {reason}')
        missing = [f'--{name}' for name, value in asked.items() if value is None]
        if missing and not reasons:
            name = certificate.node.uuid or certificate.node.name
            text.warn(
                f'{label}: the certificate is of node {name}, lifecycle {certificate.lifecycle}, deployment '
                f'{certificate.deployment}; give {", ".join(missing)} to check that this is the expected one'
            )
        return _judged(data, certificate, reasons)


class Extract(ReportCommand):
    """Extract the certificate of a node from the output of: baremetal node show -f json NODE. Contacts no BMC.

    Only the digest is checked, against the digest of the issued certificate; certificate verify checks the rest.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the node's JSON and the output file."""
        _add_file(parser, 'JSON of the node as shown by Ironic')
        parser.add_argument('--out', metavar='FILE', required=True, help='write the certificate to this file')

    def work(self, arguments: argparse.Namespace) -> Report:
        """Find the certificate in the node, and write it to the file."""
        label = _label(arguments.file)
        kept = _kept(_read(arguments.file, _MOST), label)
        packed, digest = kept.get('packed'), kept.get('digest')
        if not isinstance(packed, str):
            where = kept.get('where')
            places = [str(place) for place in where] if isinstance(where, list) else []
            hint = f'it is stored at {", ".join(places)}' if places else _AGAIN
            raise CertificateInvalid('the certificate itself is not stored in the node', where=label, hint=hint)
        data = envelope.unpacked(packed)
        if envelope.digest(data) != digest:
            raise CertificateInvalid(
                f'the digest is {envelope.digest(data)}, but {digest} was issued', where=label, hint=_AGAIN
            )
        certificate = envelope.unchecked(data)
        if kept.get('superseded') is not False:
            text.warn(f'{label}: the certificate is no longer valid: the node was returned after the hand-over')
        _write(Path(arguments.out), data + b'\n')
        body = _body(certificate.node.name, certificate, data, arguments.out)
        return Report(
            document={'format': FORMAT, 'certificates': [body]},
            columns=_KEPT,
            rows=((body['target'], body['lifecycle'], body['deployment'], body['key'], body['file']),),
            code=Exit.HOLDS,
        )


# ---------------------------------------------------------------------------------------------------------------- arguments


def _add_file(parser: argparse.ArgumentParser, what: str = 'certificate') -> None:
    parser.add_argument('file', metavar='FILE', help=f'{what}; {STDIN} for standard input')


def _label(file: str) -> str:
    return 'standard input' if file == STDIN else file


def _read(file: str, limit: int) -> bytes:
    """The bytes of a file, or of standard input.

    :raises DocumentError: the file cannot be read, or is longer than the limit.
    """
    try:
        data = sys.stdin.buffer.read(limit + 1) if file == STDIN else input_file.read(file, limit)
    except OSError as exc:
        hint = 'name a file that you may read'
        raise DocumentError(path=_label(file), what=f'cannot be read: {exc.strerror}', hint=hint) from exc
    if len(data) > limit:
        raise DocumentError(path=_label(file), what=f'longer than {limit} bytes', hint='check that it is the right file')
    return data


def _trust(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The public keys of trusted issuers: those of ``--trust``, else those of the configuration.

    :raises UsageError: there is none. ``DocumentError``: a key cannot be read.
    """
    if arguments.trust:
        return envelope.trusted([Path(path) for path in arguments.trust])
    settings = session.configuration(arguments, os.environ).settings
    found = envelope.trusted(settings.certificate_trust)
    if settings.certificate_key is not None:
        found |= envelope.load(settings.certificate_key).trust
    if not found:
        hint = 'the issuer prints it with: openssl pkey -in KEY -pubout'
        what = 'is missing, and the configuration names no public key of an issuer'
        raise UsageError(argument='--trust', what=what, hint=hint)
    return found


def _lasting(given: str | None) -> timedelta | None:
    if given is None:
        return None
    days = _number('--days', given)
    if not 1 <= days <= _LONGEST.days:
        raise UsageError(argument='--days', what=f'{days} is out of range', hint=f'1 to {_LONGEST.days}')
    return timedelta(days=days)


def _number(argument: str, given: str) -> int:
    if not given.isascii() or not given.isdecimal() or len(given) > 9:
        raise UsageError(argument=argument, what=f'{given!r} is not a whole number', hint='give digits only')
    return int(given)


def _user() -> str:
    """Login name of the user that runs this command, as the operating system knows it."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f'user {os.getuid()}'


def _kept(data: bytes, label: str) -> Json:
    """The certificate's entry in the state that the plugin stores with a node.

    :raises DocumentError: the data is not JSON.
    :raises CertificateInvalid: the node has no such entry.
    """
    try:
        shown = json.loads(data)
    except (ValueError, RecursionError):
        raise DocumentError(path=label, what='is not JSON', hint='baremetal node show -f json NODE prints it') from None
    for key in ('driver_internal_info', _KEY, 'certificate'):
        shown = shown.get(key) if isinstance(shown, dict) else None
    if not isinstance(shown, dict):
        raise CertificateInvalid(
            'Ironic has stored no certificate in this node',
            where=label,
            hint='only a node that was deployed with certificate_key set has one: baremetal node show -f json NODE prints it',
        )
    return shown


# ------------------------------------------------------------------------------------------------------------------ results


def _keep(target: str, certificate: Certificate, by: Sealer, out: str | None, folder: Path | None) -> Json:
    """Sign a certificate, store it, read it back, and check that the signature is valid and nothing has changed."""
    data = envelope.seal(certificate, by)
    if folder is not None:
        kept = CertificateFolder(root=folder)
        path = str(kept.put(certificate.reference, data))
        found = kept.get(certificate.reference)
    else:
        path = str(out)
        _write(Path(path), data + b'\n')
        found = _read(path, envelope.MAX_SIZE + 1)
    if envelope.opened(found, by.trust) != certificate:
        raise CertificateInvalid(
            'what was read back is not what was written', where=path, hint='check the disk and who writes there'
        )
    return _body(target, certificate, data, path)


def _write(path: Path, data: bytes) -> None:
    try:
        atomic_file.write(path, data, mode=0o644)
    except OSError as exc:
        raise UsageError(
            argument='--out', what=f'{path} cannot be written: {exc.strerror}', hint='name a file that you may write'
        ) from exc


def _nothing(target: str) -> Json:
    names = ('file', 'digest', 'key', 'node', 'lifecycle', 'deployment', 'issued', 'expires')
    return {'target': target, **dict.fromkeys(names), 'error': None}


def _body(target: str, certificate: Certificate, data: bytes, file: str) -> Json:
    shown = document(certificate)
    return {
        **_nothing(target),
        'file': file,
        'digest': envelope.digest(data),
        'node': shown['node'],
        **{name: shown[name] for name in ('key', 'lifecycle', 'deployment', 'issued', 'expires')},
    }


def _judged(data: bytes, certificate: Certificate | None, reasons: tuple[tuple[str, str], ...]) -> Report:
    """The report on a certificate.

    :param certificate: None where no trusted issuer has signed it; then nothing of its content is printed.
    :param reasons: why it does not hold: the kind of each reason, and a sentence.
    """
    claims = None if certificate is None else statement.claims(certificate)
    good = claims if not reasons else None
    shown = None if certificate is None else document(certificate)
    names = ('node', 'lifecycle', 'deployment', 'issued', 'expires', 'issuer', 'key', 'requester', 'exposure')
    body: Json = {
        'format': FORMAT,
        'digest': envelope.digest(data.removesuffix(b'\n')),
        'holds': not reasons,
        'reasons': [reason for _, reason in reasons],
        'kinds': [kind for kind, _ in reasons],
        **{name: None if shown is None else shown[name] for name in names},
        'proves': [] if good is None else list(good.proves),
        'does_not_prove': [] if good is None else list(good.does_not_prove),
    }
    rows: list[tuple[str, str]] = [('holds', 'yes' if not reasons else 'NO')]
    rows += [('because', reason) for _, reason in reasons]
    if certificate is not None:
        rows += [
            ('node', certificate.node.name if certificate.node.uuid is None else certificate.node.uuid),
            ('lifecycle', str(certificate.lifecycle)),
            ('deployment', certificate.deployment),
            ('expires', certificate_rows.NO_END if certificate.expires is None else certificate_rows.time(certificate.expires)),
            ('signed with', certificate.key),
        ]
    rows += [('proves', sentence) for sentence in body['proves']]
    rows += [('does not prove', sentence) for sentence in body['does_not_prove']]
    return Report(document=body, columns=('What', 'Found'), rows=tuple(rows), code=Exit.NOT_MET if reasons else Exit.HOLDS)

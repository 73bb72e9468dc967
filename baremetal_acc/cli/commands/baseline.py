# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc baseline sign``: sign the baseline. No BMC is contacted."""

import argparse
import os
from datetime import UTC, datetime

from baremetal_acc import bootstrap
from baremetal_acc.cli import session, signing_command
from baremetal_acc.cli.output.report import Report, ReportCommand
from baremetal_acc.config.options import GROUP
from baremetal_acc.errors import UsageError
from baremetal_acc.images import signed_document
from baremetal_acc.model.image import SignedKind
from baremetal_acc.policy import baseline


class BaselineSignCommand(ReportCommand):
    """Sign the baseline with a private key that only its owner can read. Contacts no BMC.

    The signature is written to a file next to the baseline, whose name ends with .sig. It is checked wherever the baseline is
    read, if the option trust_roots is set. Where several keys have to sign (option signature_threshold), every signer but the
    first one uses --add.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the baseline and the key."""
        which = parser.add_argument_group('baseline')
        which.add_argument('file', nargs='?', metavar='BASELINE', help='baseline file, as with --baseline')
        which.add_argument('--baseline', metavar='FILE', help='baseline file; overrides the configuration')
        which.add_argument(
            '--config-file', metavar='FILE', help=f'configuration file (default: {session.CONFIG_FILE} if it exists)'
        )
        signing_command.add_signer(parser)
        signing_command.add_option(parser.add_argument_group('content to sign'))

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return signing_command.COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Check the baseline, and sign it."""
        if arguments.file and arguments.baseline:
            what = f'cannot be combined with {arguments.file}'
            raise UsageError(argument='--baseline', what=what, hint='name one baseline')
        arguments.baseline = arguments.file or arguments.baseline
        settings = session.configuration(arguments, os.environ).settings
        path, now = settings.baseline, datetime.now(UTC)
        option = f'option [{GROUP}] baseline names it; use --baseline for another file'
        data = signed_document.read(path, None if arguments.baseline else option)
        found = baseline.parse(signed_document.decoded(path, data), str(path), now=now)
        content = signing_command.signable(SignedKind.BASELINE, path, data, found.serial, found.expires, now)
        return signing_command.report(arguments, [content], bootstrap.trusting(settings), now)

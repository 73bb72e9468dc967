# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Examples of each command, which its ``--help`` and the manual page print.

Each is a sentence and a command line that works as it stands in a folder with a ``bmcs.yaml`` that lists the target ``node-1``.
"""

from collections.abc import Mapping

Example = tuple[str, str]
"""What the command line does, without a period; and its arguments."""

_DOCUMENTS = '--baseline baseline.toml --catalogue catalogue.toml'

EXAMPLES: Mapping[str, tuple[Example, ...]] = {
    'inventory': (
        ('List the accelerators of all targets of ./bmcs.yaml', 'inventory'),
        ('Print those of one target as JSON', 'inventory node-1 -f json'),
        ('Print only the locks, as CSV', 'inventory -f csv -c Target -c Identity -c Lock'),
    ),
    'plan': (('Print what apply would do with one target', f'plan node-1 {_DOCUMENTS}'),),
    'apply': (
        ('Print the plan for one target (dry run)', f'apply node-1 {_DOCUMENTS}'),
        ('Execute the plan', f'apply node-1 {_DOCUMENTS} --execute'),
    ),
    'program': (
        ('Print what programming a function into one slot would do', f'program node-1 {_DOCUMENTS} --slot Slot0=gzip'),
        ('Program it', f'program node-1 {_DOCUMENTS} --slot Slot0=gzip --execute'),
    ),
    'verify': (
        ('Check all targets against the baseline', f'verify {_DOCUMENTS}'),
        ('Print only the demands of one target that are not met', f'verify node-1 {_DOCUMENTS} --unmet'),
    ),
    'lock': (('Engage every lock that the baseline demands of one target', f'lock node-1 {_DOCUMENTS} --execute'),),
    'unlock': (
        ('Print which locks would be released', f'unlock node-1 {_DOCUMENTS}'),
        ('Release the locks of one device', f'unlock node-1 {_DOCUMENTS} --device IN15494610198 --execute'),
    ),
    'power status': (('Print the power state of a host, and what forbids its start', f'power status node-1 {_DOCUMENTS}'),),
    'power on': (
        ('Print whether a host may be powered on (dry run)', f'power on node-1 {_DOCUMENTS}'),
        ('Power it on', f'power on node-1 {_DOCUMENTS} --execute'),
    ),
    'power off': (('Power a host off at once', f'power off node-1 {_DOCUMENTS} --execute'),),
    'status': (
        ('Print what is unfinished, quarantined or open on all targets', 'status'),
        ('Print it for one target as JSON', 'status node-1 -f json'),
    ),
    'history': (('Print what was done to one target, and by whom', 'history node-1'),),
    'publish': (
        ('Print the calls that placement lacks (dry run)', f'publish node-1 {_DOCUMENTS} --config-file acc.conf'),
        ('Print why a device is available or not', f'publish node-1 {_DOCUMENTS} --config-file acc.conf --why'),
    ),
    'reshape plan': (('Print what would move', f'reshape plan node-1 {_DOCUMENTS} --config-file acc.conf'),),
    'reshape apply': (
        ('Print what would move (dry run)', f'reshape apply node-1 {_DOCUMENTS} --config-file acc.conf'),
        ('Move it', f'reshape apply node-1 {_DOCUMENTS} --config-file acc.conf --execute'),
    ),
    'pool plan': (('Print which regions would be programmed', 'pool plan --pools pools.toml --config-file acc.conf'),),
    'pool apply': (('Program them once', 'pool apply --pools pools.toml --config-file acc.conf --execute'),),
    'pool watch': (
        ('Do so every minute until stopped', 'pool watch --pools pools.toml --config-file acc.conf --interval 60 --execute'),
    ),
    'pool demand add': (
        (
            'Record that a user waits for the function gzip',
            'pool demand add gzip --catalogue catalogue.toml --id request-17',
        ),
    ),
    'pool demand list': (('List all demands as JSON', 'pool demand list -f json'),),
    'pool demand drop': (('Delete a demand by its id', 'pool demand drop request-17'),),
    'baseline sign': (
        (
            'Add a signature to those that baseline.toml.sig has already',
            'baseline sign baseline.toml --key key.pem --add',
        ),
    ),
    'catalogue add': (('Draft the entries for a package, in a new file', 'catalogue add tray.fwpkg --output draft.toml'),),
    'catalogue check': (('Print only the images with errors', 'catalogue check catalogue.toml --unmet'),),
    'catalogue show': (
        ('Print the images of a catalogue', 'catalogue show catalogue.toml'),
        ('Print what a PLDM package says of itself', 'catalogue show tray.fwpkg'),
    ),
    'catalogue sign': (
        ('Sign a catalogue; its signature is catalogue.toml.sig', 'catalogue sign catalogue.toml --key key.pem'),
        ('Add a signature by another key', 'catalogue sign catalogue.toml --key key.pem --add'),
    ),
    'reference import': (
        (
            'Print the entries for a signed manifest, and write nothing',
            'reference import gpu.swidtag --root maker-root.pem --catalogue catalogue.toml',
        ),
        (
            'Add them, although a certificate has expired since the manifest was signed',
            'reference import gpu.swidtag --root maker-root.pem --catalogue catalogue.toml --at 2024-06-30 --execute',
        ),
        (
            'Refuse a manifest whose signer was revoked',
            'reference import gpu.swidtag --root maker-root.pem --crl signing-ca.crl --catalogue catalogue.toml',
        ),
    ),
    'custody show': (('Print the chains of custody of one target', f'custody show node-1 {_DOCUMENTS}'),),
    'custody accept': (
        (
            'Accept the cards of one target for the first day of a fleet',
            f'custody accept node-1 {_DOCUMENTS} --until "$(date -d \'90 days\' +%F)" --reason "first day of the fleet"',
        ),
    ),
    'certificate issue': (
        (
            'Verify one target, and write its signed certificate',
            f'certificate issue node-1 {_DOCUMENTS} --key key.pem --out node-1.json',
        ),
    ),
    'certificate show': (('Print the content of a certificate', 'certificate show c.json'),),
    'certificate verify': (
        ('Check a certificate with the public key of its issuer', 'certificate verify c.json --trust key.pub'),
    ),
    'certificate extract': (
        ('Extract the certificate from the output of Ironic', 'certificate extract node.json --out c.json'),
    ),
    'emulate': (
        (
            'Serve the BMCs of a server, and write a list of targets for the other commands',
            'emulate acc-server --bmcs-file bmcs.yaml',
        ),
    ),
    'record': (('Record the resources of the BMC of one target in a new folder', 'record node-1 --output recording'),),
    'demo': (('Run the demo with its state in a new folder', 'demo --state demo-state'),),
    'complete': (
        ('Print the completion for bash', 'complete --shell bash'),
        ('Print that for zsh', 'complete --shell zsh'),
    ),
}
"""By the command. A test compares the keys with the entry points, and another one runs each example."""


def epilog(prog: str) -> str | None:
    """The examples of a command, as the last part of its help; None where it has none.

    :param prog: the program and the command, as in its usage.
    """
    program, _, verb = prog.partition(' ')
    found = EXAMPLES.get(verb)
    if found is None:
        return None
    return '\n'.join(['examples:', *(line for said, words in found for line in (f'  {said}:', f'    {program} {words}'))])

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of the command ``baremetal-acc-ironic-conf``.

Exit codes: 0 done, 2 an argument or Ironic's configuration is wrong.
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from baremetal_acc import atomic_file
from baremetal_acc.errors import UsageError
from baremetal_acc_ironic.console_program import ConsoleProgram

ERROR = 2

PROGRAM = ConsoleProgram(
    name='baremetal-acc-ironic-conf',
    error=ERROR,
    reads="Ironic's configuration",
    hint='correct the configuration of Ironic, or name its files by --config-file',
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run :mod:`baremetal_acc_ironic.ironic_conf`, which needs Ironic."""
    return PROGRAM.run(functools.partial(_write, argv))


def _write(argv: Sequence[str] | None) -> int:
    from baremetal_acc_ironic import ironic_conf, opts

    arguments = ironic_conf.parser().parse_args(argv)
    types = arguments.hardware_type or [opts.REDFISH_ACC]
    out: Path | None = arguments.output.absolute() if arguments.output else None
    if out is not None and not out.parent.is_dir():
        raise UsageError(argument='--output', what=f'there is no folder {out.parent}', hint='create it')
    before = [path for path in ironic_conf.order(arguments.sources) if path != out]
    conf = ironic_conf.read(before)
    lists = [*ironic_conf.add_types(conf, types, without_ramdisk=arguments.without_ramdisk)]
    text = ironic_conf.write(conf, lists)
    if out is None:
        sys.stdout.write(text)
        return 0
    # Readable by the user of Ironic, whoever runs this: it has no secrets.
    atomic_file.write(out, text.encode(), mode=0o644)
    ironic_conf.check_order(out, ironic_conf.order(arguments.sources), lists)
    return 0

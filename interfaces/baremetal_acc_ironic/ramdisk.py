# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The steps of Ironic's ramdisk that write firmware, read from ``ramdisk_steps.toml``, which is part of the package.

The conductor learns the steps of a ramdisk from the ramdisk itself when it runs; Ironic's API knows none of them, so they are
named here.
"""

import tomllib
from importlib import resources

STEPS: tuple[tuple[str, str, str], ...] = tuple(
    (found['interface'], found['step'], found['what'])
    for found in tomllib.loads((resources.files('baremetal_acc.data') / 'ramdisk_steps.toml').read_text(encoding='utf-8'))[
        'step'
    ]
)
"""Interface and name of each step, and a sentence for the policy."""

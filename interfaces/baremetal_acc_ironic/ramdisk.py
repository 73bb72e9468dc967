# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which steps of Ironic's ramdisk write firmware? Those of ``ramdisk_steps.toml``, which is part of the package.

Ironic knows the steps of a ramdisk by what the ramdisk tells when it runs; its API knows none of them, so they are named here.
"""

import tomllib
from importlib import resources

STEPS: tuple[tuple[str, str, str], ...] = tuple(
    (found['interface'], found['step'], found['what'])
    for found in tomllib.loads((resources.files('baremetal_acc.data') / 'ramdisk_steps.toml').read_text(encoding='utf-8'))[
        'step'
    ]
)
"""Interface and name of each, and a sentence for the policy."""

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run the emulator from a shell: ``python -m baremetal_acc.emulator``."""

import sys

from baremetal_acc.emulator.main import main

sys.exit(main())

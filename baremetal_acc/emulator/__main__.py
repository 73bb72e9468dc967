# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Starts the emulator: ``python -m baremetal_acc.emulator``."""

import sys

from baremetal_acc.emulator.main import main

sys.exit(main())

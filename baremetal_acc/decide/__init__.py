# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Pure functions that plan, verify and schedule work on accelerators: no I/O, clock, configuration or log."""

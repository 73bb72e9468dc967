# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Frozen dataclasses and enums for accelerators, firmware, locks, inventories, plans and jobs.

They import the standard library and :mod:`baremetal_acc.errors` only. Import the names from the modules; this package exports
none.
"""

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How writes are blocked: one file for each mechanism, found by stevedore, behind :mod:`baremetal_acc.locks.api`."""

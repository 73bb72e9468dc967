# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock mechanisms, which block the write paths to firmware: one file for each, found by stevedore.

:mod:`baremetal_acc.locks.mechanism` defines their interface.
"""

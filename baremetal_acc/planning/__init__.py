# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide what ought to happen to a machine: pure functions on values, without I/O, clock or configuration."""

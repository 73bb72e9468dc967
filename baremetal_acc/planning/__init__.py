# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide what has to be done and whether it was: plans, job transitions, custody, verification. Pure functions."""

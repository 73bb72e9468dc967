# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render typed facts (findings, refusals, notes, changes) as English sentences. No decision reads these sentences."""

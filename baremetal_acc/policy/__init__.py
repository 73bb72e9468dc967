# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The operator's documents: the rules of the baseline, and the accounts that are expected on BMCs. Pure functions."""

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide what placement can schedule: providers, inventories, traits, regions and pools. Pure functions."""

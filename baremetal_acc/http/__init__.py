# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Speak HTTP: one client for BMCs and for web servers."""

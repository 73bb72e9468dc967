# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Signed manifests of reference values that makers publish for versions of firmware: SWID tags with TCG RIM, and CoRIM."""

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The image catalogue: read and check the catalogue, fetch images, and verify digests, signatures and PLDM packages."""

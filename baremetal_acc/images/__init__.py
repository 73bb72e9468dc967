# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Images: the operator's signed catalogue, the bytes and their digests, PLDM packages, signatures, and SPDM evidence."""

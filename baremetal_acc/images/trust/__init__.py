# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Whom the operator trusts: public keys, X.509 roots and chains, and signatures by them."""

# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Sentences for people: the only package that writes them from facts. Nothing reads them to decide."""

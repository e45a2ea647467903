/* SPDX-License-Identifier: Apache-2.0 */
/* CSI versions as plugins report them: which one is used, and their order. Pure. */
#ifndef CR_CORE_VERSIONS_H
#define CR_CORE_VERSIONS_H

#include <stddef.h>

#include "base/error.h"

/*
 * A version: optional white space, optional "v", two or more decimal components separated by dots, then anything. The
 * first component has no leading zero, each fits 64 bits. Items that are none are skipped.
 * Chooses the highest item whose major is at most 1; it must be 1. *out_version is its numeric part, "v1.03-rc1" giving
 * "1.3"; the caller's. Errors: REFUSED (persistent), NOMEM.
 */
int cr_version_choose(const char *const *versions, size_t n, char **out_version, struct csireg_error **err);

/* < 0, 0, > 0: numeric by component, missing ones count as 0. What is no version is below every version. */
int cr_version_compare(const char *a, const char *b);

#endif

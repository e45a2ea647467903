/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules for what plugins say about themselves: names, endpoints, node ids, topology. Pure.
 * Every check returns 0, or REFUSED (persistent; the message quotes the value, bounded and sanitised), or NOMEM.
 */
#ifndef CR_CORE_NAMES_H
#define CR_CORE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/messages.h"

/* 1 to CR_MAX_DRIVER_NAME bytes; in lower case a DNS-1123 subdomain. */
int cr_check_driver_name(const char *name, struct csireg_error **err);

/*
 * Where the driver serves: empty (or NULL) means registration_path, which may be NULL when there is none (then empty is
 * refused). A leading "unix:" or "unix://" before an absolute path is taken off. *out_path is absolute and the
 * caller's.
 */
int cr_check_endpoint(const char *raw, const char *registration_path, char **out_path, struct csireg_error **err);

int cr_check_node_id(const char *id, struct csireg_error **err); /* 1 to CR_MAX_NODE_ID bytes */

/* At most CR_MAX_TOPOLOGY_SEGMENTS; every key a label key, every value a label value. The message names the key. */
int cr_check_topology(const struct cr_pair *segments, size_t n, struct csireg_error **err);

bool cr_is_qualified_name(const char *s);    /* "name" or "prefix/name": a label or annotation key */
bool cr_is_label_value(const char *s);       /* may be empty */
bool cr_is_dns1123_subdomain(const char *s); /* lower case, at most 253 bytes */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of Kubernetes names. Each check gives NULL for a good one and else why not, a static text. Pure. */
#ifndef APISERVER_NAMES_H
#define APISERVER_NAMES_H

const char *as_name_subdomain(const char *s); /* DNS-1123 subdomain, at most 253 bytes */
const char *as_name_qualified(const char *s); /* optional prefix "/" name: label keys, annotation keys */
const char *as_name_label_value(const char *s);

#endif

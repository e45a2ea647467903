/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of Kubernetes names. Checks give nothing for a good one and else why not, in static texts. Pure. */
#ifndef APISERVER_NAMES_H
#define APISERVER_NAMES_H

#include <stddef.h>

struct as_reasons {
    const char *text[3];
    size_t n;
};

const char *as_name_subdomain(const char *s);       /* DNS-1123 subdomain, at most 253 bytes */
struct as_reasons as_name_qualified(const char *s); /* optional prefix "/" name: label keys, annotation keys */
const char *as_name_label_value(const char *s);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Field selectors of list and watch: "metadata.name=n1,metadata.namespace!=x". Pure. */
#ifndef APISERVER_SELECTOR_H
#define APISERVER_SELECTOR_H

#include <stdbool.h>

#include "apiserver/store.h"

#define AS_MAX_TERMS 16

struct as_term {
    char *key, *value;
    bool not_equal;
};

struct as_selector {
    struct as_term term[AS_MAX_TERMS];
    unsigned n;
};

/* NULL or "" selects everything. False and *out_error (malloc'ed, the text of the 400): not understood. */
bool as_selector_parse(struct as_selector *s, const char *text, char **out_error);
void as_selector_fini(struct as_selector *s);
bool as_selector_match(const struct as_selector *s, const struct as_version *v);
const char *as_selector_exact(const struct as_selector *s, const char *key); /* what key must equal, or NULL */

#endif

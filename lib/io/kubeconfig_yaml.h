/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML (so also JSON) text as a tree with line numbers: the first document, bounded in depth, nodes and anchors.
 * Aliases point to the node they name, nothing is expanded; a tree may so have cycles, and its readers go down by name
 * only. Every scalar is wiped when the document is freed. Pure.
 */
#ifndef CR_IO_KUBECONFIG_YAML_H
#define CR_IO_KUBECONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum cr_yaml_kind { CR_YAML_SCALAR = 1, CR_YAML_LIST, CR_YAML_MAP };

struct cr_yaml {
    struct cr_yaml *next; /* of the document */
    enum cr_yaml_kind kind;
    size_t line;            /* from 1 */
    char *text;             /* SCALAR: without NUL */
    bool null;              /* SCALAR: plain and empty, ~ or null */
    struct cr_yaml **items; /* LIST: items; MAP: key, value, key, value, ... */
    size_t n_items, cap;
};

struct cr_yaml_doc {
    struct cr_yaml *root; /* NULL: an empty document */
    struct cr_yaml *all;
};

/* 0, or an error whose message begins with "line N: ". doc is then empty. */
int cr_yaml_parse(struct cr_yaml_doc *doc, const char *text, size_t len, struct csireg_error **error);
void cr_yaml_fini(struct cr_yaml_doc *doc);

/* The value of a key of a map, or NULL. *twice (may be NULL): the key is there more than once. */
const struct cr_yaml *cr_yaml_get(const struct cr_yaml *map, const char *key, bool *twice);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Fault rules: which requests they meet, in which order, how often. The caller holds the server's lock. */
#ifndef APISERVER_RULES_H
#define APISERVER_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "apiserver/request.h"
#include "base/list.h"

struct as_rules {
    struct cr_list list; /* in order of creation */
    uint64_t last_id;
};

void as_rules_init(struct as_rules *rules);
void as_rules_fini(struct as_rules *rules);
void as_rules_clear(struct as_rules *rules);

/* text: the rule as JSON, see POST /rules. Its id, or 0 and *out_error (malloc'ed). */
uint64_t as_rules_add(struct as_rules *rules, const json_t *rule, char **out_error);
bool as_rules_remove(struct as_rules *rules, uint64_t id);
bool as_rules_has(const struct as_rules *rules, uint64_t id);
json_t *as_rules_json(const struct as_rules *rules); /* array with hits; new */

/* The part of r->action that one rule in force gives, and r->rule; nothing when no rule acts.
 * headers_only: the body was not read yet; only rules that cut there are asked, and only then. */
void as_rules_apply(struct as_rules *rules, struct as_request *r, bool headers_only);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user may do: system:masters everything, node identities what Kubernetes' node authorizer lets them, all others
 * what the rule table says. The caller holds the server's lock.
 */
#ifndef APISERVER_AUTHORIZE_H
#define APISERVER_AUTHORIZE_H

#include <stdbool.h>

#include "apiserver/answer.h"
#include "apiserver/request.h"

/* table: array of {users, groups, verbs, apiGroups, resources, namespaces, resourceNames}, each a list of strings,
 * absent or "*" for any; {"role": "viewer" | "csireg-node-info", users, groups} stands for a built-in list of rows. */
bool as_authorize(const struct as_gates *gates, const json_t *table, const struct as_request *r, struct as_answer *a);

/* Node restriction: what a node identity may not write even where it may write. Answers 403 and false. */
bool as_node_restriction(const struct as_request *r, const struct as_change *c, struct as_answer *a);

#endif

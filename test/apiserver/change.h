/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every create and update goes through whatever its type: metadata that only the server sets, the division between
 * an object and its status, the rules for metadata. Pure but for random uids and the date.
 */
#ifndef APISERVER_CHANGE_H
#define APISERVER_CHANGE_H

#include "apiserver/resource.h"

struct as_answer;

/* Makes c->object what would be stored, up to its resourceVersion; warnings go to a. */
void as_change_prepare(struct as_change *c, const struct as_resource *type, struct as_answer *a);
void as_change_validate(struct as_change *c, const struct as_resource *type);

#endif

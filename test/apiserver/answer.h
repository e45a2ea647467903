/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One answer to a request, and the Status bodies of Kubernetes in it: one function for each kind of refusal, so that a
 * code, its reason, its text and its details are decided in one place.
 */
#ifndef APISERVER_ANSWER_H
#define APISERVER_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "apiserver/relay.h"
#include "apiserver/resource.h"

struct as_watch;

struct as_answer {
    int code;   /* 0: nothing was decided yet */
    char *body; /* malloc'ed; NULL: empty */
    size_t len;
    const char *content_type; /* static */
    int retry_after;          /* seconds; 0: no header */
    json_t *warnings;         /* array of texts, or NULL */
    struct as_watch *watch;   /* instead of a body: it is streamed */
    bool cut_short;           /* a fault ends the connection somewhere in this answer */
    enum as_cut_how how;      /* when dropped */
    bool dropped;             /* a fault ends the connection: send nothing */
};

void as_answer_fini(struct as_answer *a);
void as_answer_reset(struct as_answer *a); /* what was decided is taken back */
void as_answer_text(struct as_answer *a, int code, const char *content_type, char *body); /* takes body */
void as_answer_json(struct as_answer *a, int code, json_t *body);                         /* takes body */
void as_answer_warn(struct as_answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A failure Status. details is taken; NULL: none. reason NULL: none. */
void as_status(struct as_answer *a, int code, const char *reason, json_t *details, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
json_t *as_status_details(const struct as_resource *type, const char *name); /* {name, group, kind: plural} */

void as_bad_request(struct as_answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void as_unauthorized(struct as_answer *a);
void as_forbidden(struct as_answer *a, const struct as_resource *type, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void as_not_found(struct as_answer *a, const struct as_resource *type, const char *name);
void as_unknown_resource(struct as_answer *a);
void as_method_not_allowed(struct as_answer *a);
void as_exists(struct as_answer *a, const struct as_resource *type, const char *name);
void as_conflict(struct as_answer *a, const struct as_resource *type, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void as_modified(struct as_answer *a, const struct as_resource *type, const char *name); /* another resourceVersion */
void as_internal_error(struct as_answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void as_too_large_version(struct as_answer *a, unsigned long long wanted, unsigned long long current);
json_t *as_expired_status(const char *message); /* 410, for ERROR events as well */
void as_deleted(struct as_answer *a, const struct as_resource *type, const char *name, const char *uid);

/* 422. Causes gather while an object is validated; as_invalid says them all. */
struct as_causes {
    json_t *list; /* array of {reason, message, field} */
};

void as_causes_init(struct as_causes *c);
void as_causes_fini(struct as_causes *c);
bool as_causes_any(const struct as_causes *c);
void as_cause(struct as_causes *c, const char *reason, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void as_cause_required(struct as_causes *c, const char *field, const char *detail); /* detail "" or NULL: none */
void as_cause_invalid(struct as_causes *c, const char *field, const json_t *value, const char *detail);
void as_cause_invalid_text(struct as_causes *c, const char *field, const char *value, const char *detail);
void as_cause_duplicate(struct as_causes *c, const char *field, const char *value);
void as_cause_too_long(struct as_causes *c, const char *field, int limit);
void as_cause_not_supported(struct as_causes *c, const char *field, const char *value, const char *supported);

/* group_kind: "CSINode.storage.k8s.io"; its first part is the details' kind, the rest the group. */
void as_invalid(struct as_answer *a, const char *kind, const char *group, const char *name, const struct as_causes *c);

#endif

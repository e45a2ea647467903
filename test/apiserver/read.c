// SPDX-License-Identifier: Apache-2.0
/* Get and list. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/clock.h"
#include "apiserver/selector.h"
#include "apiserver/server.h"
#include "base/buf.h"
#include "common/alloc.h"

#define FRESH_WAIT (3000 * (int64_t)AS_MS) /* how long a read waits for a version that is not there yet */
#define MAX_LIST   (1024u * 1024 * 1024)   /* bytes of one list */

#define NOT_A_VERSION "resourceVersion: Invalid value: \"%s\": strconv.ParseUint: parsing \"%s\": invalid syntax"

static bool is_version(const char *rv, unsigned long long *out)
{
    char *end;
    errno = 0;
    *out = strtoull(rv, &end, 10);
    return !*end && !errno && *rv >= '0' && *rv <= '9';
}

bool as_wait_version(struct apiserver *s, const char *rv, struct as_answer *a)
{
    unsigned long long wanted;
    if (!rv || !*rv) return true;
    if (!is_version(rv, &wanted)) {
        as_status(a, 500, NULL, NULL, NOT_A_VERSION, rv, rv);
        return false;
    }
    int64_t deadline = as_now_ns() + FRESH_WAIT;
    while (s->store.rv < wanted && !s->stopping && as_now_ns() < deadline) as_cond_wait(&s->changed, &s->mu, deadline);
    if (s->store.rv >= wanted) return true;
    as_too_large_version(a, wanted, s->store.rv);
    return false;
}

void as_get(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    struct as_version *v = NULL;
    pthread_mutex_lock(&s->mu);
    struct as_gates gates = s->gates;
    if (as_wait_version(s, as_param(&r->params, "resourceVersion"), a)) {
        v = as_store_get(&s->store, r->route.type, r->route.namespace_, r->route.name);
        if (v)
            as_version_ref(v);
        else
            as_not_found(a, r->route.type, r->route.name);
    }
    pthread_mutex_unlock(&s->mu);
    if (!v) return;
    char *full = as_version_full(v, &gates);
    as_answer_text(a, 200, "application/json", need_printf("%s\n", full));
    free(full);
    as_version_unref(v);
}

struct listing {
    const struct as_selector *selector;
    const char *namespace_;
    struct as_version **items;
    size_t n;
    struct as_gates gates;
};

static void visit(void *user, struct as_version *v)
{
    struct listing *l = user;
    if (l->namespace_ && strcmp(l->namespace_, v->namespace_) != 0) return;
    if (as_selector_match(l->selector, v)) l->items[l->n++] = as_version_ref(v);
}

static char *list_text(const struct as_resource *type, const struct listing *l, uint64_t rv)
{
    struct cr_buf text;
    cr_buf_init(&text, MAX_LIST);
    cr_buf_printf(&text,
                  "{\"kind\":\"%sList\",\"apiVersion\":\"%s\",\"metadata\":{\"resourceVersion\":\"%" PRIu64
                  "\"},\"items\":[",
                  type->kind, type->api_version, rv);
    for (size_t i = 0; i < l->n; i++) {
        if (i) cr_buf_puts(&text, ",");
        char *item = as_version_text(l->items[i], &l->gates);
        cr_buf_puts(&text, item);
        free(item);
    }
    cr_buf_puts(&text, "]}\n");
    char *out = need_strdup(cr_buf_str(&text));
    cr_buf_free(&text);
    return out;
}

static void match_causes(struct as_causes *causes, const char *match, const char *rv)
{
    static const char field[] = "resourceVersionMatch";
    bool exact = !strcmp(match, "Exact");
    if (!rv || !*rv)
        as_cause(causes, "FieldValueForbidden", field,
                 "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided");
    if (!exact && strcmp(match, "NotOlderThan") != 0)
        as_cause_not_supported(causes, field, match, "\"Exact\", \"NotOlderThan\", \"\"");
    if (exact && rv && !strcmp(rv, "0"))
        as_cause(causes, "FieldValueForbidden", field,
                 "Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
}

/* resourceVersion and how it is meant. */
static bool check_version_options(const struct as_request *r, struct as_answer *a)
{
    const char *rv = as_param(&r->params, "resourceVersion"), *match = as_param(&r->params, "resourceVersionMatch");
    unsigned long long number;
    struct as_causes causes;
    as_causes_init(&causes);
    if (match && *match) match_causes(&causes, match, rv);
    if (as_causes_any(&causes))
        as_invalid(a, "ListOptions", "meta.k8s.io", "", &causes);
    else if (rv && *rv && !is_version(rv, &number))
        as_bad_request(a, "invalid resource version: " NOT_A_VERSION, rv, rv);
    as_causes_fini(&causes);
    return a->code == 0;
}

/* What this emulator cannot do yet is refused: an answer that ignored it would be wrong. */
static bool check_list_options(const struct as_request *r, struct as_answer *a)
{
    const char *match = as_param(&r->params, "resourceVersionMatch"), *labels = as_param(&r->params, "labelSelector");
    if (!check_version_options(r, a)) return false;
    if (match && !strcmp(match, "Exact"))
        as_bad_request(a, "resourceVersionMatch=Exact is not served by this emulator");
    else if (labels && *labels)
        as_bad_request(a, "label selectors are not served by this emulator");
    return a->code == 0;
}

static void list_selected(struct apiserver *s, struct as_request *r, const struct as_selector *selector,
                          struct as_answer *a)
{
    const struct as_resource *type = r->route.type;
    struct listing l = {.selector = selector, .namespace_ = r->route.namespace_};
    pthread_mutex_lock(&s->mu);
    bool fresh = as_wait_version(s, as_param(&r->params, "resourceVersion"), a);
    uint64_t rv = s->store.rv;
    l.gates = s->gates;
    if (fresh) {
        l.items = need_calloc(s->store.present[as_resource_index(type)] + 1, sizeof *l.items);
        as_store_each(&s->store, type, visit, &l);
    }
    pthread_mutex_unlock(&s->mu);
    if (fresh) as_answer_text(a, 200, "application/json", list_text(type, &l, rv));
    for (size_t i = 0; i < l.n; i++) as_version_unref(l.items[i]);
    free(l.items);
}

void as_list(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    struct as_selector selector;
    char *error = NULL;
    if (!check_list_options(r, a)) return;
    if (as_selector_parse(&selector, as_param(&r->params, "fieldSelector"), &error))
        list_selected(s, r, &selector, a);
    else
        as_bad_request(a, "%s", error);
    free(error);
    as_selector_fini(&selector);
}

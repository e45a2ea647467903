// SPDX-License-Identifier: Apache-2.0
#include "apiserver/selector.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

static const char *field_of(const struct as_version *v, const char *key)
{
    return !strcmp(key, "metadata.name") ? v->name : v->namespace_;
}

static bool is_known(const char *key) { return !strcmp(key, "metadata.name") || !strcmp(key, "metadata.namespace"); }

static bool parse_term(struct as_term *t, const char *text, size_t len, char **out_error)
{
    const char *equals = memchr(text, '=', len);
    if (!equals || equals == text) {
        *out_error = need_printf("invalid selector: '%.*s'; can't understand '%.*s'", (int)len, text, (int)len, text);
        return false;
    }
    const char *key_end = equals, *value = equals + 1, *end = text + len;
    if (equals[-1] == '!') {
        t->not_equal = true;
        key_end--;
    } else if (value < end && *value == '=') {
        value++;
    }
    t->key = need_strndup(text, (size_t)(key_end - text));
    t->value = need_strndup(value, (size_t)(end - value));
    if (is_known(t->key)) return true;
    *out_error =
        need_printf("\"%s\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", t->key);
    return false;
}

bool as_selector_parse(struct as_selector *s, const char *text, char **out_error)
{
    *s = (struct as_selector){0};
    while (text && *text) {
        size_t len = strcspn(text, ",");
        if (s->n == AS_MAX_TERMS) {
            *out_error = need_printf("more than %d terms in a field selector", AS_MAX_TERMS);
            return false;
        }
        if (len && !parse_term(&s->term[s->n++], text, len, out_error)) return false;
        text += len + (text[len] == ',');
    }
    return true;
}

void as_selector_fini(struct as_selector *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        free(s->term[i].key);
        free(s->term[i].value);
    }
    s->n = 0;
}

bool as_selector_match(const struct as_selector *s, const struct as_version *v)
{
    for (unsigned i = 0; i < s->n; i++) {
        bool equal = !strcmp(field_of(v, s->term[i].key), s->term[i].value);
        if (equal == s->term[i].not_equal) return false;
    }
    return true;
}

const char *as_selector_exact(const struct as_selector *s, const char *key)
{
    for (unsigned i = 0; i < s->n; i++)
        if (!s->term[i].not_equal && !strcmp(s->term[i].key, key)) return s->term[i].value;
    return NULL;
}

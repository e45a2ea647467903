// SPDX-License-Identifier: Apache-2.0
/* Finds repeated keys in JSON text, which jansson would fold. The text was parsed before, so its syntax is not checked.
 */
#include <stdlib.h>
#include <string.h>

#include "apiserver/json.h"
#include "apiserver/schema.h"
#include "common/alloc.h"

struct scan {
    const char *at, *end;
    json_t *strict;
};

static void value(struct scan *s, const char *path);

static void blanks(struct scan *s)
{
    while (s->at < s->end && strchr(" \t\r\n,:", *s->at)) s->at++;
}

/* The decoded string at the cursor; keys are few and short, so jansson decodes them. */
static char *string(struct scan *s)
{
    const char *start = s->at++;
    while (s->at < s->end && *s->at != '"') s->at += *s->at == '\\' ? 2 : 1;
    s->at++;
    json_t *v = json_loadb(start, (size_t)(s->at - start), JSON_DECODE_ANY, NULL);
    char *out = need_strdup(json_is_string(v) ? json_string_value(v) : "");
    json_decref(v);
    return out;
}

static void object(struct scan *s, const char *path)
{
    json_t *seen = json_object();
    s->at++;
    for (blanks(s); s->at < s->end && *s->at != '}'; blanks(s)) {
        char *key = string(s);
        char *at = need_printf("%s%s%s", path, *path ? "." : "", key);
        int times = (int)json_integer_value(json_object_get(seen, key));
        if (times == 1) as_json_append_text(s->strict, "duplicate field \"%s\"", at);
        json_object_set_new(seen, key, json_integer(times + 1));
        blanks(s);
        value(s, at);
        free(at);
        free(key);
    }
    s->at++;
    json_decref(seen);
}

static void array(struct scan *s, const char *path)
{
    s->at++;
    blanks(s);
    for (size_t i = 0; s->at < s->end && *s->at != ']'; i++, blanks(s)) {
        char *at = need_printf("%s[%zu]", path, i);
        value(s, at);
        free(at);
    }
    s->at++;
}

static void value(struct scan *s, const char *path)
{
    if (s->at >= s->end) return;
    if (*s->at == '{') {
        object(s, path);
    } else if (*s->at == '[') {
        array(s, path);
    } else if (*s->at == '"') {
        free(string(s));
    } else {
        while (s->at < s->end && !strchr(" \t\r\n,]}", *s->at)) s->at++;
    }
}

void as_duplicate_fields(const char *text, size_t len, json_t *strict)
{
    struct scan s = {text, text + len, strict};
    blanks(&s);
    value(&s, "");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/json.h"

void fuzz_say(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
}

uint8_t fuzz_byte(struct fuzz_in *in)
{
    if (in->left == 0) return 0;
    in->left--;
    return *in->at++;
}

uint16_t fuzz_short(struct fuzz_in *in)
{
    unsigned high = fuzz_byte(in);
    return (uint16_t)(high << 8 | fuzz_byte(in));
}

const uint8_t *fuzz_bytes(struct fuzz_in *in, size_t n)
{
    const uint8_t *start = in->at;
    CHECK(n <= in->left);
    in->at += n;
    in->left -= n;
    return start;
}

char *fuzz_string(const void *data, size_t len)
{
    char *copy = calloc(len + 1, 1);
    CHECK(copy);
    if (len) memcpy(copy, data, len);
    return copy;
}

char *fuzz_text(struct fuzz_in *in, size_t max)
{
    const uint8_t *end = in->left ? memchr(in->at, 0, in->left) : NULL;
    size_t len = end ? (size_t)(end - in->at) : in->left;
    const uint8_t *start = fuzz_bytes(in, len);
    if (end) fuzz_byte(in);
    return fuzz_string(start, len < max ? len : max);
}

bool fuzz_is_printable_utf8(const char *s)
{
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) return false;
    return cr_utf8_valid(s, strlen(s));
}

void fuzz_check_text(const char *s, size_t max)
{
    CHECK(s);
    CHECK(strlen(s) <= max);
    CHECK(fuzz_is_printable_utf8(s));
}

void fuzz_check_error(int rc, struct csireg_error *e)
{
    CHECK(rc < 0);
    CHECK(e);
    CHECK((int)csireg_error_code(e) == rc);
    fuzz_check_text(csireg_error_message(e), CR_MAX_ERROR_TEXT);
    csireg_error_free(e);
}

json_t *fuzz_json(struct fuzz_in *in)
{
    char *text = fuzz_text(in, in->left);
    json_t *object = NULL;
    int rc = cr_json_parse(text, strlen(text), JSON_REJECT_DUPLICATES, &object, NULL);
    free(text);
    if (rc == 0 && json_is_object(object)) return object;
    json_decref(object);
    return NULL;
}

static unsigned long limit;

void fuzz_short_of_memory(uint8_t n)
{
    limit = n < 64 ? n : 0;
    cr_mem_fail_after(limit);
}

bool fuzz_memory_was_short(void)
{
    bool was = limit && cr_mem_count() >= limit;
    limit = 0;
    cr_mem_fail_after(0);
    return was;
}

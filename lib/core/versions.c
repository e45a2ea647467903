/* SPDX-License-Identifier: Apache-2.0 */
#include "core/versions.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/mem.h"
#include "core/shown.h"

#define SUPPORTED_MAJOR 1
#define MAX_LISTED      8 /* versions that an error message shows */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads a run of digits at *s; false when there is none or it passes 64 bits. */
static bool read_number(const char **s, uint64_t *out)
{
    uint64_t value = 0;
    if (!is_digit(**s)) return false;
    for (; is_digit(**s); ++*s) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(**s - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

/* Moves *s past the component and the dot before it; false at the end of the numeric part. */
static bool next_component(const char **s, uint64_t *out)
{
    const char *p = *s;
    if (*p != '.' || !is_digit(p[1])) return false;
    p++;
    if (!read_number(&p, out)) return false;
    *s = p;
    return true;
}

/* The numeric part: sets *start to its first digit. False when text is no version. */
static bool find_numbers(const char *text, const char **start)
{
    const char *p = text + strspn(text, " \t\n\v\f\r");
    uint64_t number;
    size_t n = 1;
    if (*p == 'v') p++;
    if (*p == '0' && is_digit(p[1])) return false;
    *start = p;
    if (!read_number(&p, &number)) return false;
    while (next_component(&p, &number)) n++;
    bool too_large = *p == '.' && is_digit(p[1]);
    return n >= 2 && !too_large;
}

/* The next component of a numeric part, 0 past its end. *s is its first digit, or a dot, or the end. */
static uint64_t take_component(const char **s, bool *more)
{
    uint64_t number = 0;
    *more = is_digit(**s) ? read_number(s, &number) : next_component(s, &number);
    return number;
}

static int compare_numbers(const char *a, const char *b)
{
    for (bool more_a = true, more_b = true; more_a || more_b;) {
        uint64_t x = take_component(&a, &more_a), y = take_component(&b, &more_b);
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

int cr_version_compare(const char *a, const char *b)
{
    const char *x, *y;
    bool ok_a = find_numbers(a, &x), ok_b = find_numbers(b, &y);
    return ok_a && ok_b ? compare_numbers(x, y) : (int)ok_a - (int)ok_b;
}

static uint64_t major_of(const char *numbers)
{
    bool more;
    return take_component(&numbers, &more);
}

static char *normalised(const char *numbers)
{
    struct cr_buf text;
    bool more;
    cr_buf_init(&text, CR_MAX_VERSION);
    for (uint64_t n = take_component(&numbers, &more); more; n = take_component(&numbers, &more))
        cr_buf_printf(&text, "%s%" PRIu64, text.len ? "." : "", n);
    return cr_buf_take(&text);
}

static struct csireg_error *unsupported(const char *const *versions, size_t n)
{
    struct cr_buf list;
    cr_buf_init(&list, CR_MAX_ERROR_TEXT);
    for (size_t i = 0; i < n && i < MAX_LISTED; i++)
        cr_buf_printf(&list, "%s\"%s\"", i ? ", " : "", cr_shown(versions[i]).text);
    if (n > MAX_LISTED) cr_buf_puts(&list, ", ...");
    struct csireg_error *e = cr_error_new(
        CSIREG_ERR_REFUSED, "no supported version: the plugin offers %s, what is needed is %d.x (at least two numbers)",
        n ? cr_buf_str(&list) : "none", SUPPORTED_MAJOR);
    cr_buf_free(&list);
    return e;
}

int cr_version_choose(const char *const *versions, size_t n, char **out_version, struct csireg_error **err)
{
    const char *best = NULL, *numbers;
    for (size_t i = 0; i < n; i++) {
        if (!find_numbers(versions[i], &numbers) || major_of(numbers) > SUPPORTED_MAJOR) continue;
        if (!best || compare_numbers(numbers, best) > 0) best = numbers;
    }
    if (!best || major_of(best) != SUPPORTED_MAJOR) return cr_error_put(err, unsupported(versions, n));
    char *text = normalised(best);
    if (!text) return cr_error_put(err, cr_error_oom());
    *out_version = text;
    return 0;
}

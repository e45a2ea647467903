/* SPDX-License-Identifier: Apache-2.0 */
#include "common/duration.h"

#include <stdio.h>
#include <string.h>

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {{"ms", 1}, {"h", 3600000}, {"m", 60000}, {"s", 1000}};

/* "ms" stands before "m", so the longer name is tried first. */
static const struct unit *find_unit(const char *text)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strncmp(text, units[i].name, strlen(units[i].name)) == 0) return &units[i];
    return NULL;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits with at most one point among them, as mantissa / scale. False: no digit, or too many for int64_t. */
static bool read_number(const char **text, int64_t *mantissa, int64_t *scale)
{
    const char *p = *text;
    bool digit = false, point = false;
    *mantissa = 0;
    *scale = 1;
    for (; is_digit(*p) || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        digit = true;
        if (__builtin_mul_overflow(*mantissa, 10, mantissa) || __builtin_add_overflow(*mantissa, *p - '0', mantissa) ||
            (point && __builtin_mul_overflow(*scale, 10, scale)))
            return false;
    }
    *text = p;
    return digit;
}

bool duration_parse(const char *text, int64_t *out_ms)
{
    if (strcmp(text, "0") == 0) {
        *out_ms = 0;
        return true;
    }
    int64_t total = 0;
    do {
        int64_t mantissa, scale;
        if (!read_number(&text, &mantissa, &scale)) return false;
        const struct unit *unit = find_unit(text);
        if (!unit || __builtin_mul_overflow(mantissa, unit->ms, &mantissa) || mantissa % scale != 0 ||
            __builtin_add_overflow(total, mantissa / scale, &total))
            return false;
        text += strlen(unit->name);
    } while (*text);
    *out_ms = total;
    return true;
}

void duration_format(int64_t ms, char out[DURATION_SIZE])
{
    static const struct unit order[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < 4; i++) {
        if (ms < order[i].ms) continue;
        int n = snprintf(out + used, DURATION_SIZE - used, "%lld%s", (long long)(ms / order[i].ms), order[i].name);
        used += (size_t)n;
        ms %= order[i].ms;
    }
    if (used == 0) snprintf(out, DURATION_SIZE, "0");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "io/watcher_internal.h"

/* These tell of a change each time; the others could be repeated at will by whoever writes to the registry. */
#define LOGGED_EACH_TIME (1u << CR_WARN_MISSING | 1u << CR_WARN_POLLING)

static void format(char out[CR_MAX_LOG_TEXT], const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

static void format(char out[CR_MAX_LOG_TEXT], const char *fmt, va_list ap)
{
    int n = vsnprintf(out, CR_MAX_LOG_TEXT, fmt, ap);
    if (n < 0) out[0] = '\0';
    if (n >= CR_MAX_LOG_TEXT) out[cr_utf8_cut(out, CR_MAX_LOG_TEXT - 1)] = '\0';
    cr_utf8_sanitise(out, strlen(out));
}

static void list_warnings(struct cr_watcher *w)
{
    size_t n = 0;
    for (size_t i = 0; i < CR_WARN_COUNT; i++)
        if (w->warnings[i]) w->warning_list[n++] = w->warnings[i];
    w->warning_list[n] = NULL;
    w->generation++;
}

void cr_watcher_warn(struct cr_watcher *w, enum cr_watcher_warning kind, const char *path, const char *fmt, ...)
{
    unsigned bit = 1u << kind;
    if (w->hit & bit) return; /* the first one between two scans is enough */
    w->hit |= bit;

    char text[CR_MAX_LOG_TEXT];
    va_list ap;
    va_start(ap, fmt);
    format(text, fmt, ap);
    va_end(ap);
    if (w->warnings[kind] && strcmp(w->warnings[kind], text) == 0) return;

    cr_free(w->warnings[kind]);
    w->warnings[kind] = cr_strdup(text);
    list_warnings(w);
    if (w->logged & bit & ~LOGGED_EACH_TIME) return;
    w->logged |= bit;
    w->handlers.log(w->handlers.user, CSIREG_LOG_WARNING, path, text);
}

void cr_watcher_withdraw(struct cr_watcher *w, enum cr_watcher_warning kind)
{
    if (!w->warnings[kind]) return;
    cr_free(w->warnings[kind]);
    w->warnings[kind] = NULL;
    list_warnings(w);
}

void cr_watcher_log(struct cr_watcher *w, enum csireg_log_level level, const char *path, const char *fmt, ...)
{
    char text[CR_MAX_LOG_TEXT];
    va_list ap;
    va_start(ap, fmt);
    format(text, fmt, ap);
    va_end(ap);
    w->handlers.log(w->handlers.user, level, path, text);
}

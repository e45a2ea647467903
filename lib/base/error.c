/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "base/utf8.h"

static struct csireg_error oom = {.code = CSIREG_ERR_NOMEM, .retryable = true};

__attribute__((format(printf, 2, 0))) static struct csireg_error *make(enum csireg_code code, const char *fmt,
                                                                       va_list ap)
{
    char text[CR_MAX_ERROR_TEXT + 1];
    struct csireg_error *e = CR_NEW(struct csireg_error);
    if (!e) return &oom;
    vsnprintf(text, sizeof text, fmt, ap);
    text[cr_utf8_cut(text, strlen(text))] = '\0';
    *e = (struct csireg_error){.code = code, .message = cr_strdup(text)};
    if (e->message) return e;
    cr_free(e);
    return &oom;
}

struct csireg_error *cr_error_new(enum csireg_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct csireg_error *e = make(code, fmt, ap);
    va_end(ap);
    return e;
}

struct csireg_error *cr_error_oom(void) { return &oom; }

struct csireg_error *cr_error_os(int number, const char *fmt, ...)
{
    char text[CR_MAX_ERROR_TEXT + 1], why[128] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *reason = strerror_r(number, why, sizeof why); /* GNU: may return a static text instead of why */
    struct csireg_error *e = cr_error_new(CSIREG_ERR_SYSTEM, "%s: %s", text, reason);
    cr_error_set_origin(e, CSIREG_ORIGIN_OS, number);
    return e;
}

struct csireg_error *cr_error_copy(const struct csireg_error *e)
{
    if (!e || e == &oom) return e ? &oom : NULL;
    struct csireg_error *copy = cr_error_new(e->code, "%s", e->message);
    if (copy == &oom) return copy;
    copy->origin = e->origin;
    copy->number = e->number;
    copy->retryable = e->retryable;
    copy->step = cr_strdup(e->step);
    copy->driver = cr_strdup(e->driver);
    return copy;
}

void cr_error_set_origin(struct csireg_error *e, enum csireg_origin origin, int number)
{
    if (e == &oom) return;
    e->origin = origin;
    e->number = number;
}

void cr_error_set_retryable(struct csireg_error *e, bool retryable)
{
    if (e != &oom) e->retryable = retryable;
}

static void replace(char **field, const char *value)
{
    char *copy = cr_strdup(value);
    if (!copy && value) return; /* short of memory: the old text is better than none */
    cr_free(*field);
    *field = copy;
}

void cr_error_set_step(struct csireg_error *e, const char *step)
{
    if (e != &oom) replace(&e->step, step);
}

void cr_error_set_driver(struct csireg_error *e, const char *driver)
{
    if (e != &oom) replace(&e->driver, driver);
}

void cr_error_prefix(struct csireg_error *e, const char *fmt, ...)
{
    char context[CR_MAX_ERROR_TEXT + 1], text[2 * CR_MAX_ERROR_TEXT + 3];
    if (e == &oom) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    snprintf(text, sizeof text, "%s: %s", context, e->message);
    if (strlen(text) > CR_MAX_ERROR_TEXT) text[cr_utf8_cut(text, CR_MAX_ERROR_TEXT)] = '\0';
    replace(&e->message, text);
}

int cr_error_put(struct csireg_error **out, struct csireg_error *e)
{
    int code = e->code;
    if (out && !*out)
        *out = e;
    else
        csireg_error_free(e);
    return code;
}

enum csireg_code csireg_error_code(const struct csireg_error *e) { return e ? e->code : CSIREG_OK; }
enum csireg_origin csireg_error_origin(const struct csireg_error *e) { return e ? e->origin : CSIREG_ORIGIN_NONE; }
int csireg_error_number(const struct csireg_error *e) { return e ? e->number : 0; }
int csireg_error_retryable(const struct csireg_error *e) { return e && e->retryable; }
const char *csireg_error_driver(const struct csireg_error *e) { return e && e->driver ? e->driver : ""; }
const char *csireg_error_step(const struct csireg_error *e) { return e && e->step ? e->step : ""; }

const char *csireg_error_message(const struct csireg_error *e)
{
    if (!e) return "";
    return e->message ? e->message : "out of memory";
}

void csireg_error_free(struct csireg_error *e)
{
    if (!e || e == &oom) return;
    cr_free(e->step);
    cr_free(e->driver);
    cr_free(e->message);
    cr_free(e);
}

static const char *const names[] = {"OK",      "INVALID", "NOMEM",  "STATE", "FORKED", "NOT_READY", "NOT_REGISTERED",
                                    "TIMEOUT", "CONFIG",  "SYSTEM", "RPC",   "API",    "REFUSED",   "LIMIT"};

const char *csireg_code_name(enum csireg_code code)
{
    int i = -(int)code;
    return i >= 0 && i < (int)(sizeof names / sizeof *names) ? names[i] : "UNKNOWN";
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error object behind include/csireg/error.h. Made where the failure is seen, prefixed with context on its way up,
 * handed over whole. The out-of-memory error is one static object: making and freeing it always works.
 */
#ifndef CR_BASE_ERROR_H
#define CR_BASE_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "csireg/error.h"

struct csireg_error {
    enum csireg_code code;
    enum csireg_origin origin;
    int number;
    bool retryable; /* class T; false: class P */
    char *step;     /* may be NULL */
    char *driver;   /* may be NULL */
    char *message;  /* may be NULL only in the static object */
};

/* Never NULL. Text past CR_MAX_ERROR_TEXT is cut at a UTF-8 boundary. */
struct csireg_error *cr_error_new(enum csireg_code code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct csireg_error *cr_error_oom(void);                           /* the static object */
struct csireg_error *cr_error_os(int number, const char *fmt, ...) /* SYSTEM, origin OS, appends ": <errno text>" */
    __attribute__((format(printf, 2, 3)));
struct csireg_error *
cr_error_copy(const struct csireg_error *e); /* NULL in, NULL out; the static object when memory is short */
void cr_error_set_origin(struct csireg_error *e, enum csireg_origin origin, int number);
void cr_error_set_retryable(struct csireg_error *e, bool retryable);
void cr_error_set_step(struct csireg_error *e, const char *step);
void cr_error_set_driver(struct csireg_error *e, const char *driver);
void cr_error_prefix(struct csireg_error *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* "context: message" */

/* Stores e in *out and returns its code; frees e when out is NULL or already holds an error (the first one wins). */
int cr_error_put(struct csireg_error **out, struct csireg_error *e);

#endif

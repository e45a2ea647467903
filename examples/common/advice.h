/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why is my driver not registered? What a status document says about that, as findings in words, each with what to do
 * about it. The agent's page and csireg-ctl show the same ones. Pure, any thread.
 *
 * Texts of drivers, servers and files are in them as they came: whoever shows them escapes them.
 */
#ifndef COMMON_ADVICE_H
#define COMMON_ADVICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum advice_level {
    ADVICE_NOTE, /* good to know */
    ADVICE_WAIT, /* not as it should be, or on its way */
    ADVICE_BAD   /* something is not registered, or nothing can be */
};

struct advice {
    enum advice_level level;
    char *about;           /* "a.example.com", "/reg/a.sock", "API server https://x", "registry /reg" */
    char *what;            /* goes on from there: "is not registered: ..." */
    const char *remedy;    /* a sentence or more; NULL: nothing is to be done, or `what` says it */
    const char *seen;      /* RFC 3339: when that was found, since when it is so; "" unknown. Borrowed, like the next */
    const char *next_try;  /* "": none is planned */
    const json_t *subject; /* the socket or driver of the document that this is about; NULL: neither */
    bool lasts;            /* it stays until its cause is removed */
};

struct advice_list {
    struct advice *items; /* sockets and drivers first, in the order of the document */
    size_t n;
};

/* Borrows from the document, which must stay. Any JSON will do. */
void advice_list(const json_t *status, struct advice_list *out);
void advice_list_free(struct advice_list *list);
enum advice_level advice_worst(const struct advice_list *list);

const char *advice_level_name(enum advice_level level); /* "note", "wait", "bad" */

/* What to do about an error of the document; NULL: its message says all there is. */
const char *advice_remedy(const json_t *error);

#endif

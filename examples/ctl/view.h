/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A status document as text for a terminal: a table of drivers, and under each what is wrong with it and what to do.
 * Control characters, and those that turn the direction of writing, are replaced: a driver cannot draw on the screen.
 * Pure, one thread.
 */
#ifndef CTL_VIEW_H
#define CTL_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/advice.h"

struct view {
    const json_t *status;      /* borrowed */
    struct advice_list advice; /* of it */
    const char *driver;        /* the only one wanted; NULL: all */
    double now;                /* seconds since the epoch */
    size_t width;              /* columns to fit into; 0: lines are never broken */
};

/* Whether all is well: no finding is bad, and the driver that is asked for is registered. */
bool view_is_well(const struct view *v);

void view_table(const struct view *v, FILE *out);

/* One line for each driver, socket and finding, without what changes all the time. */
struct view_line {
    char *key, *text; /* what it is about; what is to say about it */
};
struct view_lines {
    struct view_line *items;
    size_t n;
};
void view_lines(const struct view *v, struct view_lines *out);
void view_lines_free(struct view_lines *lines);

void view_put(FILE *out, const char *text); /* with unfit characters replaced */

#endif

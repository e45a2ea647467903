/* SPDX-License-Identifier: Apache-2.0 */
/* Follows changes of the status: a table that is drawn again on a terminal, else a line for each change. One thread. */
#ifndef CTL_WATCH_H
#define CTL_WATCH_H

#include <jansson.h>
#include <stdint.h>

struct watch_config {
    json_t *(*fetch)(void *user, char **out_error); /* as fetch_http */
    void *user;
    const char *driver; /* NULL: all */
    int64_t interval_ms;
    int stop_fd; /* readable: the end */
};

/* Until stop_fd is readable, or standard output is gone. What cannot be read is said once and tried again. */
void watch(const struct watch_config *config);

size_t terminal_width(void); /* of standard output; 0: it is no terminal */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What the rest of the facade reads of the options object. One thread at a time. */
#ifndef CR_API_OPTIONS_H
#define CR_API_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/option_table.h"
#include "csireg/options.h"

struct cr_option_value {
    int64_t number; /* INT, DURATION, BOOL */
    char *text;     /* STRING; NULL: unset */
    char **list;    /* STRINGS, NULL-terminated; NULL: unset */
    size_t n_list;
};

struct csireg_options {
    struct cr_option_value values[CR_N_OPTIONS]; /* in the order of the enum; start as their defaults */
    enum csireg_log_level log_level;
    csireg_log_fn *log;
    void *log_user;
};

struct csireg_options *cr_options_copy(const struct csireg_options *o); /* NULL: no memory */

const char *cr_option_string(const struct csireg_options *o, enum csireg_option option); /* NULL when unset */
int64_t cr_option_int(const struct csireg_options *o, enum csireg_option option);
bool cr_option_bool(const struct csireg_options *o, enum csireg_option option);
const char *const *cr_option_strings(const struct csireg_options *o, enum csireg_option option, size_t *out_n);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of options: the one place for names, defaults, bounds and help. Immutable; any thread. */
#ifndef CR_API_OPTION_TABLE_H
#define CR_API_OPTION_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "csireg/options.h"

#define CR_N_OPTIONS 39

struct cr_option_row {
    struct csireg_option_info info;
    int64_t number;   /* default of INT, DURATION and BOOL */
    const char *text; /* default of STRING; NULL: unset */
    size_t item_max;  /* STRINGS: bytes of one item */
    /* Checks beyond type and bounds: NULL when the value is fine, else what it must be. */
    const char *(*bad_text)(const char *value); /* STRING, or one item of STRINGS */
    const char *(*bad_number)(int64_t value);   /* INT, DURATION */
};

const struct cr_option_row *cr_option_row(enum csireg_option option); /* NULL: no such option */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's text as it may stand in a message: bounded, sanitised, "..." where it was cut. Pure. */
#ifndef CR_CORE_SHOWN_H
#define CR_CORE_SHOWN_H

#define CR_SHOWN_MAX 280 /* bytes that are kept: the longest legal name or id is shown whole */

struct cr_shown {
    char text[CR_SHOWN_MAX + sizeof "..."];
};

struct cr_shown cr_shown(const char *s); /* NULL reads as "". For printf: cr_shown(s).text */

#endif

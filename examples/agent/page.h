/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status document as a page for people: why is my driver not registered? Plain HTML, no script; everything that a
 * driver, a server or a file said is escaped. Pure: text in, text out.
 */
#ifndef AGENT_PAGE_H
#define AGENT_PAGE_H

#include <time.h>

/* `status` is what csireg_manager_status_json gave; `now` turns its times into ages. The caller frees the page; NULL:
 * no memory. A document that cannot be read gives a page that says so. */
char *page_html(const char *status, struct timespec now);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What --http-endpoint serves: /healthz, /readyz, /status, /metrics and the page for people. */
#ifndef AGENT_WEB_H
#define AGENT_WEB_H

#include <csireg/manager.h>

#include "common/httpd.h"

/* Prints "http ADDR:PORT" when it listens. The manager must outlive it. NULL: the error was logged. */
struct httpd *web_start(const char *address, struct csireg_manager *manager);

#endif

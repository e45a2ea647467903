/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the service manager how the agent is, as sd_notify(3) describes it: one datagram to the socket that the
 * environment names. Without NOTIFY_SOCKET everything here does nothing. One thread.
 *
 * The watchdog is fed by the agent's main loop, at half the interval that WATCHDOG_USEC asks for, and only while the
 * library's engine answers a question: a process that merely exists is not alive.
 */
#ifndef AGENT_NOTIFY_H
#define AGENT_NOTIFY_H

#include <csireg/manager.h>
#include <stdbool.h>
#include <stdint.h>

#define NOTIFY_MAX_STATUS 200 /* bytes of a STATUS= line */

struct notify {
    int fd;              /* connected to the service manager; -1: nobody wants to know */
    int64_t watchdog_ms; /* between two signs of life; 0: none are wanted */
    int64_t alive_ms;    /* monotonic: when the next one is due */
    int64_t status_ms;   /* when the status line may be told again */
    bool news;           /* something happened since */
    char last[NOTIFY_MAX_STATUS + 1];
};

/* Reads the environment. A socket that cannot be used is logged and does not stop the agent. */
void notify_open(struct notify *n);
void notify_close(struct notify *n);

void notify_ready(struct notify *n, struct csireg_manager *manager);
void notify_stopping(struct notify *n);

/* Events came: the status line may have changed. */
void notify_news(struct notify *n);
/* How long the main loop may sleep, for poll: milliseconds, -1 for ever. */
int notify_timeout(const struct notify *n);
/* Tells what is due. Asks the engine, and waits for its answer for at most a second. */
void notify_run(struct notify *n, struct csireg_manager *manager);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "common/status.h"

#define STATUS_PAUSE_MS 1000  /* between two looks at the status, */
#define STATUS_IDLE_MS  30000 /* and while no event came: not every change makes one */
#define ANSWER_MS       1000  /* for the engine; less than half of any watchdog interval that makes sense */
#define SEND_SECONDS    1     /* a service manager that does not read must not hold the agent up */

static int64_t now_ms(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the socket ---- */

/* "/run/x" or "@abstract", whose first byte is NUL; 0: neither. */
static socklen_t address_of(const char *name, struct sockaddr_un *out)
{
    size_t len = strlen(name);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof out->sun_path) return 0;
    memcpy(out->sun_path, name, len);
    if (name[0] == '@') out->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
}

/* -1 and errno */
static int connect_to(const char *name)
{
    struct sockaddr_un address;
    const struct timeval limit = {.tv_sec = SEND_SECONDS};
    socklen_t len = address_of(name, &address);
    errno = EAFNOSUPPORT;
    int fd = len ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, len) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static void tell(const struct notify *n, const char *text)
{
    if (n->fd >= 0 && send(n->fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        log_warning("the service manager could not be told \"%s\": %s", text, strerror(errno));
}

/* ---- the environment ---- */

/* Half of WATCHDOG_USEC, if it is meant for this process; 0: no watchdog. */
static int64_t watchdog_interval(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end = NULL;
    if (!text || (pid && strtol(pid, NULL, 10) != getpid())) return 0;
    errno = 0;
    long long us = strtoll(text, &end, 10);
    if (errno || !*text || *end || us <= 0) {
        log_warning("WATCHDOG_USEC=%s is no number of microseconds: there is no watchdog", text);
        return 0;
    }
    return us / 2000 > 0 ? us / 2000 : 1;
}

void notify_open(struct notify *n)
{
    const char *name = getenv("NOTIFY_SOCKET");
    *n = (struct notify){.fd = -1};
    if (!name || !*name) return;
    n->fd = connect_to(name);
    if (n->fd < 0)
        log_warning("NOTIFY_SOCKET=%s cannot be used: %s", name, strerror(errno));
    else
        n->watchdog_ms = watchdog_interval();
}

void notify_close(struct notify *n)
{
    if (n->fd >= 0) close(n->fd);
    n->fd = -1;
}

/* ---- what is told ---- */

static void count(const json_t *status, size_t *registered, size_t *others)
{
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(status, "drivers"), i, item) *registered += status_is_registered(item);
    json_array_foreach (json_object_get(status, "sockets"), i, item) {
        *others += status_is_unregistered(item);
    }
}

/* "2 drivers registered, 1 not; API server waiting" */
static void status_line(struct csireg_manager *manager, char out[NOTIFY_MAX_STATUS + 1])
{
    char *text = NULL;
    size_t registered = 0, others = 0;
    *out = '\0';
    if (csireg_manager_status_json(manager, &text) != CSIREG_OK) return;
    json_t *status = json_loads(text, 0, NULL);
    free(text);
    count(status, &registered, &others);
    snprintf(out, NOTIFY_MAX_STATUS + 1, "%zu driver%s registered, %zu not; API server %s", registered,
             registered == 1 ? "" : "s", others, status_str(json_object_get(status, "api"), "state"));
    json_decref(status);
}

static void tell_status(struct notify *n, struct csireg_manager *manager, const char *first)
{
    char line[NOTIFY_MAX_STATUS + 1], text[NOTIFY_MAX_STATUS + 64];
    n->news = false;
    n->status_ms = now_ms() + STATUS_PAUSE_MS;
    status_line(manager, line);
    bool same = strcmp(line, n->last) == 0;
    if (same && !*first) return;
    snprintf(n->last, sizeof n->last, "%s", line);
    snprintf(text, sizeof text, "%sSTATUS=%s", first, line);
    tell(n, text);
}

/* Nobody has that name, so the question changes nothing; but only the engine's own thread can answer it. */
static bool engine_answers(struct csireg_manager *manager)
{
    enum csireg_exhausted_result result;
    int rc = csireg_manager_exhausted(manager, "watchdog.csireg.invalid", ANSWER_MS, &result);
    return rc != CSIREG_ERR_TIMEOUT && rc != CSIREG_ERR_LIMIT && rc != CSIREG_ERR_STATE;
}

static void show_life(struct notify *n, struct csireg_manager *manager)
{
    n->alive_ms = now_ms() + n->watchdog_ms;
    if (engine_answers(manager))
        tell(n, "WATCHDOG=1");
    else
        log_warning("the library does not answer: the service manager's watchdog is not fed");
}

void notify_ready(struct notify *n, struct csireg_manager *manager)
{
    if (n->fd < 0) return;
    tell_status(n, manager, "READY=1\n");
    n->alive_ms = now_ms() + n->watchdog_ms;
}

void notify_stopping(struct notify *n) { tell(n, "STOPPING=1\nSTATUS=stopping"); }

/* ---- time ---- */

void notify_news(struct notify *n) { n->news = true; }

static int64_t status_due(const struct notify *n) { return n->status_ms + (n->news ? 0 : STATUS_IDLE_MS); }

int notify_timeout(const struct notify *n)
{
    if (n->fd < 0) return -1;
    int64_t next = status_due(n);
    if (n->watchdog_ms && n->alive_ms < next) next = n->alive_ms;
    int64_t left = next - now_ms();
    return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

void notify_run(struct notify *n, struct csireg_manager *manager)
{
    if (n->fd < 0) return;
    if (n->watchdog_ms && now_ms() >= n->alive_ms) show_life(n, manager);
    if (now_ms() >= status_due(n)) tell_status(n, manager, "");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A host for tests of the manager: options, a temporary directory, events read with poll and no time limit. */
#ifndef DOUBLES_HOST_H
#define DOUBLES_HOST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "csireg/csireg.h"
#include "doubles/fake_driver.h"

#define HOST_MAX_DRIVERS 8

struct host {
    char dir[32];                                  /* with an empty sub-directory "reg" */
    struct csireg_options *options;                /* node-name n1, local-only, nothing watched */
    struct csireg_manager *manager;                /* NULL until host_new */
    struct gloop *loop;                            /* for fake drivers; NULL until one is started */
    struct fake_driver *drivers[HOST_MAX_DRIVERS]; /* stopped with the host at the latest */
};

int host_setup(void **state); /* cmocka: *state is the host */
int host_teardown(void **state);

void host_watch(struct host *h); /* plugins-registry-dir = <dir>/reg */
void host_new(struct host *h);
void host_start(struct host *h); /* new too, if need be */
void host_stop(struct host *h);  /* stop, and STOPPED is the last event; unread events before it are dropped */
void host_free(struct host *h);

const char *host_path(struct host *h, const char *name); /* below dir; good until eight more calls */
struct fake_driver *host_driver(struct host *h, const char *socket, const char *name); /* below dir */
struct fake_driver *host_driver_with(struct host *h, const char *socket, struct fake_driver_config config);
void host_driver_stop(struct host *h, struct fake_driver *d); /* its socket goes */

struct csireg_event *host_next(struct host *h); /* waits for it; the caller's */
/* The next event is of this kind about this driver. */
void host_expect(struct host *h, enum csireg_event_kind kind, const char *driver);
/* Reads events until one of this kind comes; the caller's. */
struct csireg_event *host_await(struct host *h, enum csireg_event_kind kind);
bool host_readable(struct host *h);

json_t *host_status(struct host *h);                          /* the parsed status document; the caller's */
const char *json_text(const json_t *object, const char *key); /* "" when there is none */

void expect_code(int rc, int code); /* names both when they differ */

unsigned count_threads(void);
unsigned count_fds(void);
unsigned count_inherited_fds(void); /* those without CLOEXEC */

#endif

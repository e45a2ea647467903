/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a storm needs: hosts (doubles/host.h) that talk to an API server in this process, and threads that call every
 * function of a manager at random until they are told to end. Main thread but for the storm threads' own loop.
 */
#ifndef RACE_RIG_H
#define RACE_RIG_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "apiserver/apiserver.h"
#include "doubles/host.h"

#define STORM_THREADS 3

struct storm {
    struct csireg_manager *manager;
    const char *const *paths; /* sockets that the calls are about; a driver's name is that of its socket */
    unsigned seed;
    atomic_bool *end;
    int wrong; /* a code that no call may give; read after join */
    unsigned long calls;
    pthread_t thread;
};

struct rig {
    struct apiserver *api;
    struct host *host;
    const char *paths[5];
    atomic_bool end;
    struct storm storms[STORM_THREADS];
};

/* A host with a registry, its Node, and a manager that is not yet made. The server has Nodes n0 to n7. */
struct apiserver *rig_server(void);
void rig_init(struct rig *r, struct apiserver *api, int node);
void rig_fini(struct rig *r);

long rig_rule(struct rig *r, const char *rule); /* a fault rule of the API server, as JSON; its id */
void rig_unrule(struct rig *r, long id);
void rig_wait_hit(struct rig *r, long id); /* until a request met the rule */
/* Until the socket's state in the status document is this one. */
void rig_wait_state(struct rig *r, const char *state);

void rig_storm(struct rig *r, unsigned seed); /* begins */
void rig_calm(struct rig *r);                 /* ends it, and fails the test if a call gave a code it must not */

#endif

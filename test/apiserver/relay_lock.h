/* SPDX-License-Identifier: Apache-2.0 */
/* The relay's lock, for the fields of a connection that any thread may touch. Innermost: nothing is locked under it. */
#ifndef APISERVER_RELAY_LOCK_H
#define APISERVER_RELAY_LOCK_H

struct as_relay;

void as_relay_lock(struct as_relay *r);
void as_relay_unlock(struct as_relay *r);

#endif

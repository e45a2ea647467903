/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orderly end of a program. Call stop_open first in main, before any thread exists: SIGTERM, SIGINT and SIGPIPE are
 * blocked from then on in this thread and all that it starts, and the first two make the descriptor readable.
 */
#ifndef COMMON_STOP_H
#define COMMON_STOP_H

int stop_open(void);         /* the descriptor for poll (CLOEXEC), kept for the process; -1 and errno */
void stop_request(int code); /* any thread: end with this exit code; the first request counts */
int stop_wait(void);         /* blocks until a signal or a request; the exit code: 0 for a signal */
int stop_code(void);         /* the exit code so far, for programs that poll the descriptor themselves */

#endif

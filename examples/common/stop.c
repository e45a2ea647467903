/* SPDX-License-Identifier: Apache-2.0 */
#include "common/stop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define NO_REQUEST (-1)

static int fd = -1;
static atomic_int requested = NO_REQUEST;

int stop_open(void)
{
    sigset_t stop, blocked;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    blocked = stop;
    sigaddset(&blocked, SIGPIPE);
    int error = pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    if (error) {
        errno = error;
        return -1;
    }
    fd = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd;
}

/* A signal to the process itself makes the descriptor readable like one from outside. */
void stop_request(int code)
{
    int expected = NO_REQUEST;
    if (atomic_compare_exchange_strong(&requested, &expected, code)) kill(getpid(), SIGTERM);
}

int stop_code(void)
{
    int code = atomic_load(&requested);
    return code == NO_REQUEST ? 0 : code;
}

int stop_wait(void)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, -1) < 0 && errno == EINTR) continue;
    return stop_code();
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSIREG_LOG_H
#define CSIREG_LOG_H

#include <stddef.h>

#include <csireg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

enum csireg_log_level { CSIREG_LOG_ERROR = 1, CSIREG_LOG_WARNING = 2, CSIREG_LOG_INFO = 3, CSIREG_LOG_DEBUG = 4 };

/* One finished line. size = sizeof of the library's struct: fields past what you know may follow in later releases. */
struct csireg_log_record {
    size_t size;
    enum csireg_log_level level;
    const char *module; /* "registration", "publisher", "watcher", "api", ... */
    const char *driver; /* "" when the line concerns no driver */
    const char *path;   /* registration socket, "" when none */
    const char *text;   /* no token, no header, no file content */
};

/*
 * Called on the engine thread. The record is borrowed for the call. It must be quick and must not call back into the
 * same manager.
 */
typedef void csireg_log_fn(void *user, const struct csireg_log_record *record);

#ifdef __cplusplus
}
#endif

#endif

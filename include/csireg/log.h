/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines for a callback of the host (csireg_options_set_log). Silent unless one is set.
 *
 * Each state change of a registration is one line, each attempt of a retry is not: counters in the status hold the
 * rest.
 */
#ifndef CSIREG_LOG_H
#define CSIREG_LOG_H

#include <stddef.h>

#include <csireg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From the most to the least important. A level includes those above it. */
enum csireg_log_level {
    CSIREG_LOG_ERROR = 1,   /* something is lost unless somebody acts */
    CSIREG_LOG_WARNING = 2, /* something is wrong and is being worked around or tried again */
    CSIREG_LOG_INFO = 3,    /* drivers come, go and change; where the registry and the API server are */
    CSIREG_LOG_DEBUG = 4    /* every step */
};

/*
 * One finished line. size is sizeof of the library's struct: later releases may append fields, read only those that
 * your headers and size have. No field is NULL.
 */
struct csireg_log_record {
    size_t size;
    enum csireg_log_level level;
    const char *module; /* "registration", "publisher", "watcher", "api", ... */
    const char *driver; /* "" when the line concerns no driver */
    const char *path;   /* registration socket or directory, "" when none; bytes of a file name, perhaps not UTF-8 */
    const char *text;   /* no line end; at most 2,048 bytes; no token, no header, no file content */
};

/*
 * Called on the manager's engine thread, one line at a time, for lines at or above the level that was set. The record
 * and its strings are borrowed for the call. It must be quick (the engine waits) and must not call the same manager:
 * every call but csireg_manager_fd fails with STATE from there. The last line comes before csireg_manager_stop returns.
 */
typedef void csireg_log_fn(void *user, const struct csireg_log_record *record);

#ifdef __cplusplus
}
#endif

#endif

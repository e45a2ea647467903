/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines of the programs on standard error, one line per record, as text or JSON. Process-wide, any thread: a line
 * is written in one piece. Control characters and invalid UTF-8 in texts are replaced, so a peer cannot forge lines.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include "common/flags.h"
#include "csireg/log.h"

/* The flags --log-level and --log-format; log_flags_apply after parsing. */
struct log_flags {
    const char *level, *format;
    struct flag rows[2];
};

void log_flags_init(struct log_flags *lf);
void log_flags_apply(const struct log_flags *lf);

void log_set(enum csireg_log_level level, bool json); /* default: INFO, text */
enum csireg_log_level log_level(void);

void log_line(enum csireg_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...)   log_line(CSIREG_LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(CSIREG_LOG_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(CSIREG_LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(CSIREG_LOG_DEBUG, __VA_ARGS__)

/* A csireg_log_fn for csireg_options_set_log; user is not used. */
void log_csireg(void *user, const struct csireg_log_record *record);

/* "2026-12-01T15:04:05.678Z" of now. */
#define LOG_TIME_SIZE 32
void log_time(char out[LOG_TIME_SIZE]);

#endif

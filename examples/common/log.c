/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"

static _Atomic enum csireg_log_level threshold = CSIREG_LOG_INFO;
static atomic_bool as_json;

static const char *const level_names[] = {[CSIREG_LOG_ERROR] = "error",
                                          [CSIREG_LOG_WARNING] = "warning",
                                          [CSIREG_LOG_INFO] = "info",
                                          [CSIREG_LOG_DEBUG] = "debug"};

void log_flags_init(struct log_flags *lf)
{
    *lf = (struct log_flags){0};
    lf->rows[0] = (struct flag){.name = "log-level",
                                .type = FLAG_STRING,
                                .out = &lf->level,
                                .default_value = "info",
                                .choices = "error|warning|info|debug",
                                .help = "least important lines that are written",
                                .group = "Logging"};
    lf->rows[1] = (struct flag){.name = "log-format",
                                .type = FLAG_STRING,
                                .out = &lf->format,
                                .default_value = "text",
                                .choices = "text|json",
                                .help = "form of a line on standard error"};
}

void log_flags_apply(const struct log_flags *lf)
{
    enum csireg_log_level level = CSIREG_LOG_ERROR;
    while (strcmp(level_names[level], lf->level) != 0) level++;
    log_set(level, strcmp(lf->format, "json") == 0);
}

void log_set(enum csireg_log_level level, bool json)
{
    atomic_store(&threshold, level);
    atomic_store(&as_json, json);
}

enum csireg_log_level log_level(void) { return atomic_load(&threshold); }

void log_time(char out[LOG_TIME_SIZE])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(out, LOG_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + n, LOG_TIME_SIZE - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

/* What is no UTF-8 loses its bytes past ASCII. */
static void repair_utf8(char *text)
{
    json_t *valid = json_string(text);
    for (char *p = text; !valid && *p; p++)
        if (*p & 0x80) *p = '?';
    json_decref(valid);
}

static void add_field(json_t *line, const char *key, const char *value)
{
    if (!value || !*value) return;
    char *copy = need_strdup(value);
    repair_utf8(copy);
    json_object_set_new(line, key, json_string(copy));
    free(copy);
}

static char *json_line(const char *now, const struct csireg_log_record *record)
{
    json_t *line = json_object();
    add_field(line, "time", now);
    add_field(line, "level", level_names[record->level]);
    add_field(line, "module", record->module);
    add_field(line, "driver", record->driver);
    add_field(line, "path", record->path);
    add_field(line, "message", record->text);
    char *text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    return text ? text : need_strdup("{}");
}

static void put_field(FILE *out, const char *key, const char *value)
{
    if (value && *value) fprintf(out, " %s=%s", key, value);
}

static char *text_line(const char *now, const struct csireg_log_record *record)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return need_strdup("out of memory");
    fprintf(out, "%s %-7s ", now, level_names[record->level]);
    if (record->module && *record->module) fprintf(out, "%s: ", record->module);
    fputs(record->text, out);
    put_field(out, "driver", record->driver);
    put_field(out, "path", record->path);
    fclose(out);
    repair_utf8(text);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
    return text;
}

void log_csireg(void *user, const struct csireg_log_record *record)
{
    (void)user;
    if (record->level > log_level()) return;
    char now[LOG_TIME_SIZE];
    log_time(now);
    char *line = atomic_load(&as_json) ? json_line(now, record) : text_line(now, record);
    fprintf(stderr, "%s\n", line);
    free(line);
}

void log_line(enum csireg_log_level level, const char *fmt, ...)
{
    if (level > log_level()) return;
    va_list args;
    va_start(args, fmt);
    char *text = need_vprintf(fmt, args);
    va_end(args);
    log_csireg(NULL,
               &(struct csireg_log_record){.size = sizeof(struct csireg_log_record), .level = level, .text = text});
    free(text);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "mock-driver/record.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/log.h"

static int fd = STDOUT_FILENO;

bool record_open(const char *path)
{
    if (path && *path) fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return fd >= 0;
}

void record_close(void)
{
    if (fd > STDERR_FILENO) close(fd);
}

json_t *record_new(const char *event, const char *driver)
{
    char now[LOG_TIME_SIZE];
    log_time(now);
    json_t *record = json_object();
    json_object_set_new(record, "time", json_string(now));
    json_object_set_new(record, "event", json_string(event));
    if (driver) record_text(record, "driver", driver);
    return record;
}

static char *to_hex(const char *prefix, const unsigned char *data, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    size_t at = strlen(prefix);
    char *text = need_calloc(at + len * 2 + 1, 1);
    memcpy(text, prefix, at);
    for (size_t i = 0; i < len; i++) {
        text[at++] = digits[data[i] >> 4];
        text[at++] = digits[data[i] & 15];
    }
    return text;
}

void record_hex(json_t *record, const char *key, const void *data, size_t len)
{
    char *text = to_hex("", data, len);
    json_object_set_new(record, key, json_string(text));
    free(text);
}

void record_text(json_t *record, const char *key, const char *text)
{
    json_t *string = json_string(text);
    char *hex = string ? NULL : to_hex("hex:", (const unsigned char *)text, strlen(text));
    json_object_set_new(record, key, string ? string : json_string(hex));
    free(hex);
}

/* One write per line: whole lines whoever else appends to the file. */
void record_write(json_t *record)
{
    char *text = json_dumps(record, JSON_COMPACT);
    json_decref(record);
    if (!text) return;
    char *line = need_printf("%s\n", text);
    size_t len = strlen(line);
    for (ssize_t n = 0, done = 0; (size_t)done < len; done += n)
        if ((n = write(fd, line + done, len - (size_t)done)) < 0) break; /* nobody reads */
    free(line);
    free(text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* csireg-mock-driver: CSI drivers that answer and fail as told. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/stop.h"
#include "mock-driver/driver.h"
#include "mock-driver/record.h"

static int serve(const struct config *config)
{
    struct gloop *loop = gloop_new();
    struct driver **drivers = need_calloc((size_t)config->count, sizeof(struct driver *));
    int64_t started = 0;
    while (started < config->count && (drivers[started] = driver_start(config, config->first + started, loop)))
        started++;
    int code = 1;
    if (started == config->count) {
        record_write(record_new("ready", NULL));
        code = stop_wait();
    }
    while (started > 0) driver_stop(drivers[--started]);
    free(drivers);
    gloop_free(loop);
    json_t *record = record_new("stopped", NULL);
    json_object_set_new(record, "code", json_integer(code));
    record_write(record);
    return code;
}

int main(int argc, char **argv)
{
    struct config config;
    int code = config_read(&config, argc, argv);
    if (code < 0 && stop_open() < 0) {
        log_error("cannot watch for signals: %s", strerror(errno));
        code = 1;
    }
    if (code < 0 && !record_open(config.calls)) {
        log_error("cannot open %s: %s", config.calls, strerror(errno));
        code = 1;
    }
    if (code < 0) {
        code = serve(&config);
        record_close();
    }
    config_fini(&config);
    return code;
}

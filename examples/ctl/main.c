/* SPDX-License-Identifier: Apache-2.0 */
/* csireg-ctl: why is my driver not registered? Shows the status of a host of csireg as a table. */
#include <csireg/version.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/flags.h"
#include "common/stop.h"
#include "ctl/fetch.h"
#include "ctl/view.h"
#include "ctl/watch.h"

enum { EXIT_WELL = 0, EXIT_FAILED = 1, EXIT_NOT_WELL = 3 }; /* FLAGS_BAD_USAGE is 2 */

#define DEFAULT_ENDPOINT "unix:/run/csireg/agent.sock"

static const char summary[] =
    "Shows the CSI drivers of this node: which are registered, which are not, why, and what to do about it. Reads the "
    "status that csireg-agent, or another host of the library, serves.";

static const char examples[] =
    "  Once:\n"
    "    csireg-ctl\n\n"
    "  One driver, at an agent that was started with --http-endpoint=127.0.0.1:9810:\n"
    "    csireg-ctl --endpoint=127.0.0.1:9810 --driver=ebs.csi.aws.com\n\n"
    "  Follow what happens; in a file or pipe, a line for each change:\n"
    "    csireg-ctl --watch\n\n"
    "  For a program, the status with what csireg-ctl makes of it, or of a saved one:\n"
    "    csireg-ctl --output=json | jq '.findings[] | select(.level == \"bad\")'\n"
    "    csireg-ctl --file=status.json\n\n"
    "Marks: ! something is wrong, ~ on its way or not as it should be, - good to know.\n\n"
    "Exit codes: 0 all is well; 3 something is wrong (with --driver: that driver is not registered, or does not "
    "answer);\n"
    "1 the status could not be read; 2 bad usage. --watch ends with 0 on SIGINT and SIGTERM.\n";

struct settings {
    struct flags flags;
    const char *endpoint, *file, *driver, *output;
    bool watch;
    int64_t interval_ms, timeout_ms;
    struct flag rows[7];
};

static void describe(struct settings *s)
{
    const struct flag rows[] = {
        {.name = "endpoint",
         .type = FLAG_STRING,
         .out = &s->endpoint,
         .default_value = DEFAULT_ENDPOINT,
         .metavar = "ADDR:PORT|unix:PATH|URL",
         .help = "where the status is served: the agent's --http-endpoint",
         .group = "Source"},
        {.name = "file",
         .type = FLAG_STRING,
         .out = &s->file,
         .metavar = "PATH",
         .help = "read a saved status document instead; - for standard input"},
        {.name = "timeout",
         .type = FLAG_DURATION,
         .out = &s->timeout_ms,
         .default_value = "5s",
         .help = "for one answer",
         .minimum = 1,
         .maximum = 3600 * 1000},
        {.name = "driver",
         .type = FLAG_STRING,
         .out = &s->driver,
         .metavar = "NAME",
         .help = "show this driver only",
         .group = "Output"},
        {.name = "output",
         .type = FLAG_STRING,
         .out = &s->output,
         .default_value = "table",
         .choices = "table|json",
         .help = "json: the status document with the findings added"},
        {.name = "watch", .type = FLAG_BOOL, .out = &s->watch, .help = "follow changes until a signal comes"},
        {.name = "interval",
         .type = FLAG_DURATION,
         .out = &s->interval_ms,
         .default_value = "1s",
         .help = "between two looks with --watch",
         .minimum = 100,
         .maximum = 3600 * 1000},
    };
    memcpy(s->rows, rows, sizeof rows);
    flags_init(&s->flags, "csireg-ctl", summary, examples);
    flags_add(&s->flags, s->rows, sizeof rows / sizeof *rows);
}

static int check(const struct settings *s)
{
    bool json = strcmp(s->output, "json") == 0, file = s->file && *s->file;
    if (s->watch && json) return flags_complain(&s->flags, "--watch draws a table; poll for --output=json instead");
    if (s->watch && file) return flags_complain(&s->flags, "--watch follows an endpoint, and no --file");
    if (json && s->driver) return flags_complain(&s->flags, "--driver selects from the table; --output=json has all");
    return -1;
}

static json_t *fetch(void *user, char **out_error)
{
    const struct settings *s = user;
    if (s->file && *s->file) return fetch_file(s->file, out_error);
    return fetch_http(s->endpoint, s->timeout_ms, out_error);
}

/* ---- once ---- */

static json_t *finding(const struct advice *a)
{
    json_t *o = json_pack("{s:s, s:s, s:s}", "level", advice_level_name(a->level), "about", a->about, "what", a->what);
    if (a->remedy) json_object_set_new(o, "remedy", json_string(a->remedy));
    if (*a->seen) json_object_set_new(o, "seen", json_string(a->seen));
    if (*a->next_try) json_object_set_new(o, "nextTry", json_string(a->next_try));
    return o;
}

static void print_json(json_t *status, const struct advice_list *advice)
{
    json_t *findings = json_array();
    for (size_t i = 0; i < advice->n; i++) json_array_append_new(findings, finding(&advice->items[i]));
    json_object_set_new(status, "findings", findings);
    json_dumpf(status, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    putchar('\n');
}

static int show(struct settings *s)
{
    char *error = NULL;
    struct timespec now;
    json_t *status = fetch(s, &error);
    if (!status) {
        fputs("csireg-ctl: ", stderr);
        view_put(stderr, error);
        fputc('\n', stderr);
        free(error);
        return EXIT_FAILED;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    struct view v = {.status = status, .driver = s->driver, .width = terminal_width()};
    v.now = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    advice_list(status, &v.advice);
    int code = view_is_well(&v) ? EXIT_WELL : EXIT_NOT_WELL;
    if (strcmp(s->output, "json") == 0)
        print_json(status, &v.advice);
    else
        view_table(&v, stdout);
    advice_list_free(&v.advice);
    json_decref(status);
    return fflush(stdout) == 0 ? code : EXIT_FAILED;
}

/* ---- for ever ---- */

static int keep_showing(struct settings *s)
{
    int stop_fd = stop_open();
    if (stop_fd < 0) {
        fprintf(stderr, "csireg-ctl: signals cannot be waited for: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    watch(&(struct watch_config){
        .fetch = fetch, .user = s, .driver = s->driver, .interval_ms = s->interval_ms, .stop_fd = stop_fd});
    return ferror(stdout) ? EXIT_FAILED : EXIT_WELL;
}

int main(int argc, char **argv)
{
    struct settings s = {.driver = NULL};
    describe(&s);
    int code = flags_run(&s.flags, argc, argv);
    if (s.driver && !*s.driver) s.driver = NULL;
    if (code < 0) code = check(&s);
    if (code < 0) code = s.watch ? keep_showing(&s) : show(&s);
    flags_free(&s.flags);
    return code;
}

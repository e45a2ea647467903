/* SPDX-License-Identifier: Apache-2.0 */
#include "mock-driver/config.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

#define MAX_DRIVERS  1000
#define MAX_TOPOLOGY 100000

#define PEERS "grpc|silent|garbage|http1|close"

static const char examples[] = "  One driver in the node flow, with its own registration socket:\n"
                               "    csireg-mock-driver --name a.example.com --endpoint /tmp/a/csi.sock "
                               "--registration-socket /tmp/reg/a-reg.sock \\\n"
                               "      --topology zone=z1 --limit 20\n"
                               "  Controller flow; NodeGetInfo fails twice, then works:\n"
                               "    csireg-mock-driver ... --capabilities 1,9 --fail-first 'NodeGetInfo=2:14:not yet'\n"
                               "  Ten drivers in one process:\n"
                               "    csireg-mock-driver --count 10 --name d%d.example.com --endpoint /tmp/d%d.sock "
                               "--registration-socket /tmp/reg/%d.sock\n"
                               "  Bytes that are no text:\n"
                               "    csireg-mock-driver ... --node-id hex:6e00ff\n";

static const char summary[] =
    "csireg-mock-driver serves CSI Identity and Node and the kubelet's plugin registration on Unix sockets, with "
    "answers and "
    "faults as told, and writes what happens as JSON lines: listening, ready, connected, call, notified, abandoned "
    "(the "
    "caller gave up before the answer), error, stopped. Texts may be given as hex:BYTES; %d in names and paths is the "
    "driver's number.";

static void add_row(struct config *c, struct flag row)
{
    static const size_t capacity = sizeof c->rows / sizeof *c->rows;
    size_t used = c->flags.n;
    if (used == capacity) abort(); /* the array in config.h is too short */
    c->rows[used] = row;
    flags_add(&c->flags, &c->rows[used], 1);
}

/* What every row has, then what only this one has. */
#define ROW(name_, type_, out_, help_, ...)                                                                            \
    add_row(c, (struct flag){.name = (name_), .type = (type_), .out = (out_), .help = (help_), __VA_ARGS__})

static void identity_rows(struct config *c)
{
    ROW("name", FLAG_STRING, &c->name, "driver name, in GetPluginInfo and GetInfo",
        .default_value = "mock.csi.example.com", .group = "Identity");
    ROW("endpoint", FLAG_STRING, &c->endpoint,
        "service socket; without it the registration socket serves CSI too and reports no endpoint", .metavar = "PATH");
    ROW("registration-socket", FLAG_STRING, &c->registration_socket,
        "own registration socket; without it an external registrar speaks for the driver", .metavar = "PATH");
    ROW("count", FLAG_INT, &c->count, "drivers in this process; names and paths then need %d", .default_value = "1",
        .minimum = 1, .maximum = MAX_DRIVERS);
    ROW("first", FLAG_INT, &c->first, "number of the first driver", .default_value = "0", .minimum = 0,
        .maximum = 1000000);
}

static void answer_rows(struct config *c)
{
    ROW("plugin-type", FLAG_STRING, &c->plugin_type, "type in GetInfo", .default_value = "CSIPlugin",
        .group = "Answers");
    ROW("plugin-name", FLAG_STRING, &c->plugin_name, "name in GetInfo, when it is not --name");
    ROW("report-endpoint", FLAG_STRING, &c->report_endpoint, "endpoint in GetInfo, when it is not --endpoint");
    ROW("versions", FLAG_STRINGS, &c->versions, "supported_versions in GetInfo", .default_value = "1.0.0");
    ROW("vendor-version", FLAG_STRING, &c->vendor_version, "vendor_version in GetPluginInfo", .default_value = "0.1.0");
    ROW("probe", FLAG_STRING, &c->probe, "answer of Probe", .default_value = "ready",
        .choices = "ready|not-ready|absent");
    ROW("node-id", FLAG_STRING, &c->node_id, "node id", .default_value = "mock-node");
    ROW("node-id-sequence", FLAG_STRINGS, &c->node_ids,
        "node ids of the first, second, ... NodeGetInfo; the last one stays");
    ROW("topology", FLAG_REPEATED, &c->topology, "topology segment", .metavar = "KEY=VALUE");
    ROW("topology-count", FLAG_INT, &c->topology_count, "this many made-up topology segments more", .minimum = 0,
        .maximum = MAX_TOPOLOGY);
    ROW("limit", FLAG_INT, &c->limit, "max_volumes_per_node");
    ROW("limit-sequence", FLAG_STRINGS, &c->limit_texts,
        "limits of the first, second, ... NodeGetInfo; the last one stays", .metavar = "N,...");
    ROW("capabilities", FLAG_STRINGS, &c->capability_texts, "numbers that NodeGetCapabilities reports",
        .metavar = "N,...");
    ROW("honour-flag", FLAG_BOOL, &c->honour_flag, "answer a flagged NodeGetInfo with the node id alone");
}

static void fault_rows(struct config *c)
{
    ROW("delay", FLAG_REPEATED, &c->delays, "answer that much later", .metavar = "METHOD=DURATION", .group = "Faults");
    ROW("error", FLAG_REPEATED, &c->errors, "fail with a gRPC code", .metavar = "METHOD=CODE[:TEXT]");
    ROW("fail-first", FLAG_REPEATED, &c->failures, "fail the first K calls, with code 14 if none is given",
        .metavar = "METHOD=K[:CODE[:TEXT]]");
    ROW("hang", FLAG_REPEATED, &c->hangs, "never answer, or not the first K calls", .metavar = "METHOD[=K]");
    ROW("padding", FLAG_REPEATED, &c->paddings, "make the answer that much longer by an unknown field",
        .metavar = "METHOD=BYTES");
    ROW("response-hex", FLAG_REPEATED, &c->raws, "answer with exactly these bytes", .metavar = "METHOD=HEX");
    ROW("no-node-service", FLAG_BOOL, &c->no_node_service, "serve no csi.v1.Node");
    ROW("no-registration-service", FLAG_BOOL, &c->no_registration_service, "serve no Registration on its socket");
    ROW("registration-peer", FLAG_STRING, &c->registration_peer_text,
        "what the registration socket speaks: gRPC, nothing, garbage, HTTP/1, or it hangs up", .default_value = "grpc",
        .choices = PEERS);
    ROW("service-peer", FLAG_STRING, &c->service_peer_text, "the same for the service socket", .default_value = "grpc",
        .choices = PEERS);
}

static void life_rows(struct config *c)
{
    ROW("listen-after", FLAG_DURATION, &c->listen_after, "the registration socket appears that much after the start",
        .group = "Life");
    ROW("service-after", FLAG_DURATION, &c->service_after, "the service socket appears that much after the start");
    ROW("bind-early", FLAG_BOOL, &c->bind_early,
        "with these two: the files are there at once and refuse connections until then");
    ROW("exit-on-false", FLAG_BOOL, &c->exit_on_false, "exit with 1 after a notification of false, as registrars do");
    ROW("calls", FLAG_STRING, &c->calls, "file that the JSON lines are appended to (standard output without it)",
        .metavar = "PATH");
}

/* ---- checks ---- */

static bool read_numbers(const struct flag_list *texts, int64_t minimum, int64_t maximum, int64_t **out, size_t *out_n)
{
    *out = need_calloc(texts->n, sizeof **out);
    *out_n = texts->n;
    for (size_t i = 0; i < texts->n; i++)
        if (!script_number(texts->items[i], &(*out)[i]) || (*out)[i] < minimum || (*out)[i] > maximum) return false;
    return true;
}

static enum peer read_peer(const char *text)
{
    static const char *const names[] = {[PEER_GRPC] = "grpc",
                                        [PEER_SILENT] = "silent",
                                        [PEER_GARBAGE] = "garbage",
                                        [PEER_HTTP1] = "http1",
                                        [PEER_CLOSE] = "close"};
    enum peer peer = PEER_GRPC;
    while (strcmp(names[peer], text) != 0) peer++;
    return peer;
}

/* 0: fine; else the exit code. */
static int read_scripts(struct config *c)
{
    const struct {
        const char *flag;
        const struct flag_list *items;
        script_setter *set;
    } sources[] = {{"delay", &c->delays, script_delay},          {"error", &c->errors, script_error},
                   {"fail-first", &c->failures, script_failure}, {"hang", &c->hangs, script_hang},
                   {"padding", &c->paddings, script_padding},    {"response-hex", &c->raws, script_raw}};
    const char *bad;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!script_apply(c->scripts, sources[i].items, sources[i].set, &bad))
            return flags_complain(&c->flags, "flag --%s: \"%s\" names no method or has a bad value", sources[i].flag,
                                  bad);
    return 0;
}

static bool is_set(const char *text) { return text && *text; }

static bool lacks_number(const char *path) { return is_set(path) && !strstr(path, "%d"); }

static bool is_hex_or_text(const char *text)
{
    struct bytes bytes;
    if (!script_bytes(text, &bytes)) return false;
    bytes_fini(&bytes);
    return true;
}

static int check_texts(const struct config *c)
{
    const char *const texts[] = {c->name,           c->plugin_type, c->plugin_name, c->report_endpoint,
                                 c->vendor_version, c->node_id};
    const struct flag_list *const lists[] = {&c->versions, &c->node_ids};
    const char *bad = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i] && !is_hex_or_text(texts[i])) bad = texts[i];
    for (size_t l = 0; l < 2; l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            if (!is_hex_or_text(lists[l]->items[i])) bad = lists[l]->items[i];
    return bad ? flags_complain(&c->flags, "\"%s\" is not made of hexadecimal digits", bad) : 0;
}

bool config_segment(const char *item, struct bytes *key, struct bytes *value)
{
    const char *equals = strchr(item, '=');
    if (!equals) return false;
    char *key_text = need_strndup(item, (size_t)(equals - item));
    *value = (struct bytes){0};
    bool good = script_bytes(key_text, key) && script_bytes(equals + 1, value);
    if (!good) bytes_fini(key);
    free(key_text);
    return good;
}

static int check_topology(const struct config *c)
{
    for (size_t i = 0; i < c->topology.n; i++) {
        struct bytes key, value;
        if (!config_segment(c->topology.items[i], &key, &value))
            return flags_complain(&c->flags, "flag --topology: \"%s\" is not KEY=VALUE", c->topology.items[i]);
        bytes_fini(&key);
        bytes_fini(&value);
    }
    return 0;
}

static int check(struct config *c)
{
    if (!is_set(c->endpoint) && !is_set(c->registration_socket))
        return flags_complain(&c->flags, "flag --endpoint or flag --registration-socket is required");
    if (c->count > 1 && (lacks_number(c->endpoint) || lacks_number(c->registration_socket)))
        return flags_complain(&c->flags, "flag --count: several drivers need %%d in each socket path");
    if (!read_numbers(&c->limit_texts, INT64_MIN, INT64_MAX, &c->limits, &c->n_limits))
        return flags_complain(&c->flags, "flag --limit-sequence: a whole number is expected");
    if (!read_numbers(&c->capability_texts, INT32_MIN, INT32_MAX, &c->capabilities, &c->n_capabilities))
        return flags_complain(&c->flags, "flag --capabilities: a number of 32 bits is expected");
    c->registration_peer = read_peer(c->registration_peer_text);
    c->service_peer = read_peer(c->service_peer_text);
    int code = check_texts(c);
    if (!code) code = check_topology(c);
    return code ? code : read_scripts(c);
}

int config_read(struct config *c, int argc, char **argv)
{
    *c = (struct config){0};
    flags_init(&c->flags, "csireg-mock-driver", summary, examples);
    identity_rows(c);
    answer_rows(c);
    fault_rows(c);
    life_rows(c);
    log_flags_init(&c->log);
    flags_add(&c->flags, c->log.rows, 2);
    int code = flags_run(&c->flags, argc, argv);
    if (code >= 0) return code;
    log_flags_apply(&c->log);
    code = check(c);
    return code ? code : -1;
}

void config_fini(struct config *c)
{
    free(c->limits);
    free(c->capabilities);
    script_fini(c->scripts);
    flags_free(&c->flags);
}

char *config_expand(const char *text, int64_t number)
{
    const char *mark = strstr(text, "%d");
    if (!mark) return need_strdup(text);
    return need_printf("%.*s%lld%s", (int)(mark - text), text, (long long)number, mark + 2);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/page.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct page {
    FILE *out;
    double now; /* seconds since the epoch */
};

static const char style[] =
    "body{font:15px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:76rem;padding:0 "
    "1rem;color:#1c2430;background:#fff}"
    "h1{font-size:1.35rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}.sub{color:#5a6572;margin:.1rem 0 1rem}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;"
    "border-bottom:1px solid #dfe4ea;overflow-wrap:anywhere}th{color:#5a6572;font-weight:600;white-space:nowrap}"
    "code{font:13px/1.4 ui-monospace,monospace}.ok{color:#116329}.bad{color:#a40e26}.wait{color:#7d4e00}"
    ".note{border-left:4px solid #c9d1d9;padding:.4rem .8rem;margin:.4rem 0;background:#f6f8fa}"
    ".note.bad{border-color:#a40e26;color:inherit}.note.wait{border-color:#bf8700;color:inherit}"
    ".note.ok{border-color:#116329;color:inherit}.scroll{overflow-x:auto}.small{color:#5a6572;font-size:13px}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#d6dde6}.sub,.small,th{color:#8b96a3}"
    "th,td{border-color:#2b323b}.note{background:#161b22;border-color:#3d444d}.ok{color:#57c26e}.bad{color:#ff7b72}"
    ".wait{color:#e3b341}}";

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
    }
}

/* Writes before, the escaped text, after; nothing when the text is empty. */
static void wrapped(FILE *out, const char *before, const char *text, const char *after)
{
    if (!*text) return;
    fputs(before, out);
    escaped(out, text);
    fputs(after, out);
}

/* RFC 3339 in UTC, as the status document has it; false when it is anything else. */
static int parse_time(const char *text, double *out_seconds)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest) return 0;
    *out_seconds = (double)timegm(&tm) + (*rest == '.' ? strtod(rest, NULL) : 0);
    return 1;
}

static void duration(FILE *out, double seconds)
{
    if (seconds < 0) seconds = 0;
    if (seconds < 10)
        fprintf(out, "%.1f s", seconds);
    else if (seconds < 120)
        fprintf(out, "%.0f s", seconds);
    else if (seconds < 7200)
        fprintf(out, "%.0f min", seconds / 60);
    else if (seconds < 172800)
        fprintf(out, "%.0f h", seconds / 3600);
    else
        fprintf(out, "%.0f days", seconds / 86400);
}

/* "12 s ago" or "in 3.2 s", with the full time as a tooltip. */
static void when(const struct page *p, const char *time)
{
    double at;
    if (!*time) return;
    wrapped(p->out, "<span title=\"", time, "\">");
    if (!parse_time(time, &at)) {
        escaped(p->out, time);
    } else if (at > p->now) {
        fputs("in ", p->out);
        duration(p->out, at - p->now);
    } else {
        duration(p->out, p->now - at);
        fputs(" ago", p->out);
    }
    fputs("</span>", p->out);
}

static void when_cell(const struct page *p, const json_t *object, const char *key)
{
    fputs("<td>", p->out);
    when(p, text_of(object, key));
    fputs("</td>", p->out);
}

static void text_cell(FILE *out, const json_t *object, const char *key)
{
    fputs("<td>", out);
    wrapped(out, "", text_of(object, key), "");
    fputs("</td>", out);
}

static void code_cell(FILE *out, const json_t *object, const char *key)
{
    fputs("<td>", out);
    wrapped(out, "<code>", text_of(object, key), "</code>");
    fputs("</td>", out);
}

static const char *state_class(const char *state)
{
    if (!strcmp(state, "registered") || !strcmp(state, "ok")) return "ok";
    return !strcmp(state, "refused") || !strcmp(state, "failed") ? "bad" : "wait";
}

static void state_cell(FILE *out, const char *state)
{
    fprintf(out, "<td class=\"%s\">", state_class(state));
    escaped(out, state);
    fputs("</td>", out);
}

/* The error's message holds object, step, cause and remedy already; class and age tell what comes next. */
static void error_text(const struct page *p, const json_t *error)
{
    if (!error) return;
    escaped(p->out, text_of(error, "message"));
    wrapped(p->out, " <span class=\"small\">(step ", text_of(error, "step"), ")</span>");
    fputs(" <span class=\"small\">", p->out);
    if (!strcmp(text_of(error, "class"), "persistent")) fputs("It stays until its cause is removed; ", p->out);
    fputs("seen ", p->out);
    when(p, text_of(error, "time"));
    fputs("</span>", p->out);
}

static void list_lines(FILE *out, const json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        if (json_string_value(item)) wrapped(out, "<div>", json_string_value(item), "</div>");
    }
}

static void table_head(FILE *out, const char *title, const char *columns)
{
    fprintf(out, "<h2>%s</h2><div class=\"scroll\"><table><tr>%s</tr>", title, columns);
}

/* ---- drivers ---- */

static void driver_notes(const struct page *p, const json_t *driver)
{
    fputs("<td>", p->out);
    if (*text_of(driver, "waitingForControllerSince")) {
        fputs("<div>waiting for the controller side since ", p->out);
        when(p, text_of(driver, "waitingForControllerSince"));
        fputs("</div>", p->out);
    } else if (!strcmp(text_of(driver, "flow"), "controller") && json_is_true(json_object_get(driver, "completed"))) {
        fputs("<div>completed by the controller side</div>", p->out);
    }
    if (*text_of(driver, "unreachableSince")) {
        fputs("<div class=\"bad\">service socket unreachable since ", p->out);
        when(p, text_of(driver, "unreachableSince"));
        fputs("</div>", p->out);
    }
    list_lines(p->out, json_object_get(driver, "pending"));
    list_lines(p->out, json_object_get(driver, "warnings"));
    fputs("</td>", p->out);
}

static void driver_row(const struct page *p, const json_t *driver)
{
    fputs("<tr>", p->out);
    code_cell(p->out, driver, "name");
    state_cell(p->out, text_of(driver, "state"));
    when_cell(p, driver, "since");
    text_cell(p->out, driver, "flow");
    code_cell(p->out, driver, "nodeID");
    code_cell(p->out, driver, "endpoint");
    driver_notes(p, driver);
    fputs("</tr>", p->out);
}

static void drivers_table(const struct page *p, const json_t *drivers)
{
    size_t i;
    json_t *driver;
    table_head(
        p->out, "Drivers",
        "<th>name</th><th>state</th><th>since</th><th>flow</th><th>node id</th><th>service socket</th><th>notes</th>");
    json_array_foreach(drivers, i, driver) driver_row(p, driver);
    if (!json_array_size(drivers)) fputs("<tr><td colspan=\"7\">No driver is known yet.</td></tr>", p->out);
    fputs("</table></div>", p->out);
}

/* ---- sockets ---- */

static void socket_row(const struct page *p, const json_t *socket)
{
    fputs("<tr>", p->out);
    code_cell(p->out, socket, "path");
    code_cell(p->out, socket, "driver");
    state_cell(p->out, text_of(socket, "state"));
    when_cell(p, socket, "since");
    fprintf(p->out, "<td>%lld</td>", (long long)json_integer_value(json_object_get(socket, "attempts")));
    when_cell(p, socket, "nextTry");
    fputs("<td>", p->out);
    error_text(p, json_object_get(socket, "lastError"));
    fputs("</td></tr>", p->out);
}

static void sockets_table(const struct page *p, const json_t *sockets)
{
    size_t i;
    json_t *socket;
    table_head(p->out, "Registration sockets",
               "<th>path</th><th>driver</th><th>state</th><th>since</th><th>attempts</th><th>next try</th><th>last "
               "error</th>");
    json_array_foreach(sockets, i, socket) socket_row(p, socket);
    if (!json_array_size(sockets)) fputs("<tr><td colspan=\"7\">None was seen.</td></tr>", p->out);
    fputs("</table></div>", p->out);
}

/* ---- the answer in words ---- */

/* The state machine's names as a person would say them. */
static const char *in_words(const char *state)
{
    static const struct {
        const char *state, *words;
    } table[] = {{"new", "about to be tried"},
                 {"connecting", "being connected to"},
                 {"get-info", "being asked who it is (GetInfo)"},
                 {"handler", "waiting for the agent's answer for this plugin type"},
                 {"connecting-endpoint", "known; its service socket is being connected to"},
                 {"node-get-capabilities", "being asked for its capabilities (NodeGetCapabilities)"},
                 {"reading-csidriver", "waiting for its CSIDriver object to be read"},
                 {"node-get-info", "being asked about this node (NodeGetInfo)"},
                 {"publishing", "being written to the cluster"},
                 {"notifying", "being told that it is registered"},
                 {"rejecting", "being told that it is not registered"},
                 {"registered", "registered"},
                 {"unconfirmed", "registered, but could not be told so"},
                 {"backoff", "not registered"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].state, state)) return table[i].words;
    return state;
}

static void socket_answer(const struct page *p, const json_t *socket)
{
    const char *driver = text_of(socket, "driver"), *state = text_of(socket, "state");
    const json_t *error = json_object_get(socket, "lastError");
    if (!strcmp(state, "registered") && !error) return;
    fprintf(p->out, "<div class=\"note %s\">", error ? "bad" : "wait");
    wrapped(p->out, "<b>", *driver ? driver : text_of(socket, "path"), "</b> is ");
    escaped(p->out, in_words(state));
    if (error) {
        fputs(": ", p->out);
        error_text(p, error);
    }
    if (*text_of(socket, "nextTry")) {
        fputs(" Next try ", p->out);
        when(p, text_of(socket, "nextTry"));
        fputs(".", p->out);
    }
    fputs("</div>", p->out);
}

static void api_answer(const struct page *p, const json_t *api)
{
    const char *state = text_of(api, "state");
    if (!strcmp(state, "ok") || !*state) return;
    if (!strcmp(state, "local-only")) {
        fputs("<div class=\"note\">Local only: nothing is written to the cluster.</div>", p->out);
        return;
    }
    fputs("<div class=\"note bad\">The API server ", p->out);
    wrapped(p->out, "<code>", text_of(api, "server"), "</code> ");
    fprintf(p->out, "%s; drivers wait for it: ", !strcmp(state, "refused") ? "refuses the agent" : "is not usable");
    error_text(p, json_object_get(api, "lastError"));
    fputs("</div>", p->out);
}

static void registry_answer(const struct page *p, const json_t *registry)
{
    const char *path = text_of(registry, "resolved"), *mode = text_of(registry, "mode");
    long long n = (long long)json_integer_value(json_object_get(registry, "sockets"));
    if (!strcmp(mode, "none")) return;
    fprintf(p->out, "<div class=\"note%s\">", n == 0 ? " bad" : "");
    fprintf(p->out, "%lld registration socket%s below ", n, n == 1 ? "" : "s");
    wrapped(p->out, "<code>", *path ? path : text_of(registry, "path"), "</code>");
    wrapped(p->out, " (", mode, ")");
    if (*text_of(registry, "lastEvent")) {
        fputs(", last change ", p->out);
        when(p, text_of(registry, "lastEvent"));
    }
    fputs(". A driver that is not listed here has no socket in this directory: is its registrar running, and does it "
          "write "
          "to this path of the host?",
          p->out);
    list_lines(p->out, json_object_get(registry, "warnings"));
    fputs("</div>", p->out);
}

static void answers(const struct page *p, const json_t *status)
{
    size_t i;
    json_t *socket;
    const json_t *unclaimed = json_object_get(status, "unclaimed");
    fputs("<h2>Why is my driver not registered?</h2>", p->out);
    api_answer(p, json_object_get(status, "api"));
    json_array_foreach(json_object_get(status, "sockets"), i, socket) socket_answer(p, socket);
    registry_answer(p, json_object_get(status, "registry"));
    if (json_array_size(unclaimed)) {
        fputs("<div class=\"note wait\">Entries in CSINode that no socket here belongs to:", p->out);
        list_lines(p->out, unclaimed);
        fputs("</div>", p->out);
    }
}

static void summary(const struct page *p, const json_t *status)
{
    const json_t *api = json_object_get(status, "api");
    size_t i, registered = 0, n = json_array_size(json_object_get(status, "drivers"));
    json_t *driver;
    json_array_foreach(json_object_get(status, "drivers"), i, driver)
    {
        registered +=
            !strcmp(text_of(driver, "state"), "registered") || !strcmp(text_of(driver, "state"), "unconfirmed");
    }
    wrapped(p->out, "<h1>CSI drivers of node ", text_of(json_object_get(status, "node"), "name"), "</h1>");
    fprintf(p->out, "<p class=\"sub\">%zu of %zu registered. API server: ", registered, n);
    wrapped(p->out, "<code>", text_of(api, "server"), "</code> ");
    fprintf(p->out, "<span class=\"%s\">", state_class(text_of(api, "state")));
    escaped(p->out, text_of(api, "state"));
    fputs("</span>. Gate CSIControllerGetNodeInfo: ", p->out);
    fputs(json_is_true(json_object_get(json_object_get(status, "gates"), "CSIControllerGetNodeInfo")) ? "on" : "off",
          p->out);
    fputs(". csireg ", p->out);
    escaped(p->out, text_of(status, "library"));
    fputs(". The same as JSON: <a href=\"/status\">/status</a>.</p>", p->out);
}

char *page_html(const char *status, struct timespec now)
{
    char *text = NULL;
    size_t size = 0;
    struct page p = {open_memstream(&text, &size), (double)now.tv_sec + (double)now.tv_nsec / 1e9};
    if (!p.out) return NULL;
    json_t *root = json_loads(status, 0, NULL);
    fprintf(p.out,
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"5\">"
            "<meta name=\"viewport\" content=\"width=device-width\"><title>CSI "
            "drivers</title><style>%s</style></head><body>",
            style);
    if (root) {
        summary(&p, root);
        answers(&p, root);
        drivers_table(&p, json_object_get(root, "drivers"));
        sockets_table(&p, json_object_get(root, "sockets"));
    } else {
        fputs("<p>The status document cannot be read.</p>", p.out);
    }
    fputs("</body></html>\n", p.out);
    json_decref(root);
    int failed = fclose(p.out);
    if (!failed) return text;
    free(text);
    return NULL;
}

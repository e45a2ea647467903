/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/page.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/advice.h"
#include "common/status.h"

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

/* "12 s ago" or "in 3.2 s", with the full time as a tooltip. */
static void when(const struct page *p, const char *time)
{
    double at;
    char age[STATUS_AGE_SIZE];
    if (!*time) return;
    wrapped(p->out, "<span title=\"", time, "\">");
    if (!status_time(time, &at)) {
        escaped(p->out, time);
    } else {
        status_age(at > p->now ? at - p->now : p->now - at, age);
        fprintf(p->out, at > p->now ? "in %s" : "%s ago", age);
    }
    fputs("</span>", p->out);
}

static void when_cell(const struct page *p, const json_t *object, const char *key)
{
    fputs("<td>", p->out);
    when(p, status_str(object, key));
    fputs("</td>", p->out);
}

static void text_cell(FILE *out, const json_t *object, const char *key)
{
    fputs("<td>", out);
    wrapped(out, "", status_str(object, key), "");
    fputs("</td>", out);
}

static void code_cell(FILE *out, const json_t *object, const char *key)
{
    fputs("<td>", out);
    wrapped(out, "<code>", status_str(object, key), "</code>");
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
    escaped(p->out, status_str(error, "message"));
    wrapped(p->out, " <span class=\"small\">(step ", status_str(error, "step"), ")</span>");
    fputs(" <span class=\"small\">", p->out);
    if (!strcmp(status_str(error, "class"), "persistent")) fputs("It stays until its cause is removed; ", p->out);
    fputs("seen ", p->out);
    when(p, status_str(error, "time"));
    fputs("</span>", p->out);
}

static void list_lines(FILE *out, const json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach (list, i, item) {
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
    if (*status_str(driver, "waitingForControllerSince")) {
        fputs("<div>waiting for the controller side since ", p->out);
        when(p, status_str(driver, "waitingForControllerSince"));
        fputs("</div>", p->out);
    } else if (!strcmp(status_str(driver, "flow"), "controller") &&
               json_is_true(json_object_get(driver, "completed"))) {
        fputs("<div>completed by the controller side</div>", p->out);
    }
    if (*status_str(driver, "unreachableSince")) {
        fputs("<div class=\"bad\">service socket unreachable since ", p->out);
        when(p, status_str(driver, "unreachableSince"));
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
    state_cell(p->out, status_str(driver, "state"));
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
    json_array_foreach (drivers, i, driver) driver_row(p, driver);
    if (!json_array_size(drivers)) fputs("<tr><td colspan=\"7\">No driver is known yet.</td></tr>", p->out);
    fputs("</table></div>", p->out);
}

/* ---- sockets ---- */

static void socket_row(const struct page *p, const json_t *socket)
{
    fputs("<tr>", p->out);
    code_cell(p->out, socket, "path");
    code_cell(p->out, socket, "driver");
    state_cell(p->out, status_str(socket, "state"));
    when_cell(p, socket, "since");
    fprintf(p->out, "<td>%lld</td>", status_int(socket, "attempts"));
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
    json_array_foreach (sockets, i, socket) socket_row(p, socket);
    if (!json_array_size(sockets)) fputs("<tr><td colspan=\"7\">None was seen.</td></tr>", p->out);
    fputs("</table></div>", p->out);
}

/* ---- the answer in words ---- */

static void answer(const struct page *p, const struct advice *a)
{
    fprintf(p->out, "<div class=\"note %s\">", advice_level_name(a->level));
    wrapped(p->out, "<b>", a->about, "</b> ");
    escaped(p->out, a->what);
    fputs(". <span class=\"small\">", p->out);
    when(p, a->seen);
    fputs("</span>", p->out);
    wrapped(p->out, "<div>What to do: ", a->remedy ? a->remedy : "", "</div>");
    if (*a->next_try) {
        fputs("<div>Next try ", p->out);
        when(p, a->next_try);
        fputs("</div>", p->out);
    }
    fputs("</div>", p->out);
}

static void answers(const struct page *p, const json_t *status)
{
    struct advice_list list;
    advice_list(status, &list);
    fputs("<h2>Why is my driver not registered?</h2>", p->out);
    for (size_t i = 0; i < list.n; i++) answer(p, &list.items[i]);
    advice_list_free(&list);
}

static void summary(const struct page *p, const json_t *status)
{
    const json_t *api = json_object_get(status, "api");
    size_t i, registered = 0, n = json_array_size(json_object_get(status, "drivers"));
    json_t *driver;
    json_array_foreach (json_object_get(status, "drivers"), i, driver) {
        registered += status_is_registered(driver);
    }
    wrapped(p->out, "<h1>CSI drivers of node ", status_str(json_object_get(status, "node"), "name"), "</h1>");
    fprintf(p->out, "<p class=\"sub\">%zu of %zu registered. API server: ", registered, n);
    wrapped(p->out, "<code>", status_str(api, "server"), "</code> ");
    fprintf(p->out, "<span class=\"%s\">", state_class(status_str(api, "state")));
    escaped(p->out, status_str(api, "state"));
    fputs("</span>. Gate CSIControllerGetNodeInfo: ", p->out);
    fputs(json_is_true(json_object_get(json_object_get(status, "gates"), "CSIControllerGetNodeInfo")) ? "on" : "off",
          p->out);
    fputs(". csireg ", p->out);
    escaped(p->out, status_str(status, "library"));
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/view.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"

/* ---- text ---- */

/* The length of a character at text that may not be shown: a control character, or one that turns the direction. */
static size_t unfit(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    if (c[0] < 0x20 || c[0] == 0x7f) return 1;
    if (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) return 2;
    if (c[0] == 0xe2 && c[1] == 0x80 && ((c[2] >= 0xaa && c[2] <= 0xae) || c[2] == 0x8e || c[2] == 0x8f)) return 3;
    return c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9 ? 3 : 0;
}

static char *fit(const char *text)
{
    char *copy = need_strdup(text), *out = copy;
    while (*text) {
        size_t n = unfit(text);
        *out++ = n ? '?' : *text;
        text += n ? n : 1;
    }
    *out = '\0';
    return copy;
}

void view_put(FILE *out, const char *text)
{
    char *shown = fit(text);
    fputs(shown, out);
    free(shown);
}

/* Characters, which is columns as long as nobody writes wide ones. */
static size_t columns(const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

/* After a prefix of `indent` columns that was printed; further lines begin with as many spaces. */
static void put_wrapped(FILE *out, const char *text, size_t indent, size_t width)
{
    char *shown = fit(text);
    size_t at = indent;
    for (const char *word = shown; *word;) {
        size_t len = strcspn(word, " "), wide = columns(word, len);
        if (width && at > indent && at + 1 + wide > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        }
        at += wide + (at > indent);
        fprintf(out, "%s%.*s", at > indent + wide ? " " : "", (int)len, word);
        word += len + (word[len] == ' ');
    }
    fputc('\n', out);
    free(shown);
}

static char *age(const struct view *v, const char *time, const char *before, const char *after)
{
    double at;
    char text[STATUS_AGE_SIZE];
    if (!status_time(time, &at)) return need_strdup(*time ? time : "-");
    status_age(at > v->now ? at - v->now : v->now - at, text);
    return at > v->now ? need_printf("%s%s", before, text) : need_printf("%s%s", text, after);
}

/* ---- rows: one for each socket, and for each driver that has none ---- */

struct row {
    const json_t *socket, *driver; /* NULL: none */
};

struct rows {
    struct row *items;
    size_t n;
};

static const char *name_of(const struct row *r)
{
    return status_str(r->socket ? r->socket : r->driver, r->socket ? "driver" : "name");
}
static const char *title_of(const struct row *r) { return *name_of(r) ? name_of(r) : status_str(r->socket, "path"); }
static const char *state_of(const struct row *r) { return status_str(r->socket ? r->socket : r->driver, "state"); }

static const json_t *driver_named(const json_t *status, const char *name)
{
    size_t i;
    json_t *driver;
    json_array_foreach (json_object_get(status, "drivers"), i, driver) {
        if (!strcmp(status_str(driver, "name"), name)) return driver;
    }
    return NULL;
}

/* A registered driver belongs to the active socket, others to every socket of the name. */
static const json_t *driver_of(const json_t *status, const json_t *socket)
{
    const json_t *driver = driver_named(status, status_str(socket, "driver"));
    bool active = json_is_true(json_object_get(socket, "active"));
    return driver && (active || !status_is_registered(driver)) ? driver : NULL;
}

static void add_row(struct rows *rows, const json_t *socket, const json_t *driver)
{
    rows->items = need_array(rows->items, rows->n + 1, sizeof *rows->items);
    rows->items[rows->n++] = (struct row){socket, driver};
}

static bool has_driver(const struct rows *rows, const json_t *driver)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->items[i].driver == driver) return true;
    return false;
}

/* Sockets that never told a name may be the wanted driver's. */
static bool is_wanted(const struct view *v, const char *name)
{
    return !v->driver || !*name || !strcmp(name, v->driver);
}

static struct rows all_rows(const struct view *v)
{
    struct rows rows = {NULL, 0};
    size_t i;
    json_t *item;
    json_array_foreach (json_object_get(v->status, "sockets"), i, item) {
        if (is_wanted(v, status_str(item, "driver"))) add_row(&rows, item, driver_of(v->status, item));
    }
    json_array_foreach (json_object_get(v->status, "drivers"), i, item) {
        const char *name = status_str(item, "name");
        if (*name && is_wanted(v, name) && !has_driver(&rows, item)) add_row(&rows, NULL, item);
    }
    return rows;
}

/* "NodeGetInfo: gRPC 14, persistent" */
static char *short_error(const json_t *error)
{
    const char *step = status_str(error, "step"), *origin = status_str(error, "origin");
    const char *lasts = !strcmp(status_str(error, "class"), "persistent") ? ", persistent" : "";
    long long number = status_int(error, "number");
    const char *name = !strcmp(origin, "os") ? strerrorname_np((int)number) : NULL;
    if (!error) return need_strdup("-");
    if (name) return need_printf("%s: %s%s", step, name, lasts);
    if (!strcmp(origin, "grpc")) return need_printf("%s: gRPC %lld%s", step, number, lasts);
    if (!strcmp(origin, "http") && number) return need_printf("%s: HTTP %lld%s", step, number, lasts);
    return need_printf("%s: %s%s", step, status_str(error, "code"), lasts);
}

/* ---- the table ---- */

enum { COLUMNS = 7 };
static const char *const heads[COLUMNS] = {"DRIVER", "FLOW", "STATE", "SINCE", "ATTEMPTS", "NEXT TRY", "LAST ERROR"};

struct cells {
    char *text[COLUMNS];
};

static char *or_dash(const char *text) { return fit(*text ? text : "-"); }

static struct cells cells_of(const struct view *v, const struct row *r)
{
    const json_t *from = r->socket ? r->socket : r->driver;
    return (struct cells){{or_dash(title_of(r)), or_dash(status_str(r->driver, "flow")), or_dash(state_of(r)),
                           age(v, status_str(from, "since"), "in ", ""),
                           r->socket ? need_printf("%lld", status_int(r->socket, "attempts")) : need_strdup("-"),
                           age(v, status_str(r->socket, "nextTry"), "in ", " ago"),
                           short_error(json_object_get(r->socket, "lastError"))}};
}

static void measure(const char *const text[COLUMNS], size_t widths[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        size_t wide = columns(text[c], strlen(text[c]));
        if (wide > widths[c]) widths[c] = wide;
    }
}

static void put_cells(FILE *out, const char *const text[COLUMNS], const size_t widths[COLUMNS])
{
    for (int c = 0; c < COLUMNS; c++) {
        size_t wide = columns(text[c], strlen(text[c]));
        view_put(out, text[c]);
        if (c + 1 < COLUMNS) fprintf(out, "%*s", (int)(widths[c] - wide + 2), "");
    }
    fputc('\n', out);
}

static void put_advice(const struct view *v, const struct advice *a, bool with_subject, FILE *out)
{
    static const char *const marks[] = {[ADVICE_NOTE] = "-", [ADVICE_WAIT] = "~", [ADVICE_BAD] = "!"};
    char *seen = age(v, a->seen, "in ", " ago");
    char *text = need_printf("%s%s%s%s%s%s", with_subject ? a->about : "", with_subject ? " " : "", a->what,
                             *a->seen ? " (" : "", *a->seen ? seen : "", *a->seen ? ")" : "");
    fprintf(out, "  %s ", marks[a->level]);
    put_wrapped(out, text, 4, v->width);
    if (a->remedy) {
        fputs("    What to do: ", out);
        put_wrapped(out, a->remedy, 16, v->width);
    }
    free(seen);
    free(text);
}

static bool belongs(const struct advice *a, const struct row *r)
{
    return a->subject && (a->subject == r->socket || a->subject == r->driver);
}

static void put_row(const struct view *v, const struct row *r, const struct cells *cells, const size_t widths[COLUMNS],
                    FILE *out)
{
    put_cells(out, (const char *const *)cells->text, widths);
    for (size_t i = 0; i < v->advice.n; i++)
        if (belongs(&v->advice.items[i], r)) put_advice(v, &v->advice.items[i], false, out);
}

static void put_rows(const struct view *v, const struct rows *rows, FILE *out)
{
    size_t widths[COLUMNS] = {0};
    struct cells *cells = need_calloc(rows->n, sizeof *cells);
    measure(heads, widths);
    for (size_t i = 0; i < rows->n; i++) {
        cells[i] = cells_of(v, &rows->items[i]);
        measure((const char *const *)cells[i].text, widths);
    }
    if (rows->n) put_cells(out, heads, widths);
    for (size_t i = 0; i < rows->n; i++) {
        put_row(v, &rows->items[i], &cells[i], widths, out);
        for (int c = 0; c < COLUMNS; c++) free(cells[i].text[c]);
    }
    free(cells);
}

/* ---- the rest ---- */

static bool wanted_is_registered(const struct view *v)
{
    return v->driver && status_is_registered(driver_named(v->status, v->driver));
}

bool view_is_well(const struct view *v)
{
    if (!v->driver) return advice_worst(&v->advice) < ADVICE_BAD;
    const json_t *driver = driver_named(v->status, v->driver);
    return status_is_registered(driver) && !*status_str(driver, "unreachableSince");
}

static const char *plural(size_t n) { return n == 1 ? "" : "s"; }

static void put_summary(const struct view *v, FILE *out)
{
    size_t i, registered = 0, others = 0;
    json_t *item;
    const json_t *api = json_object_get(v->status, "api"), *registry = json_object_get(v->status, "registry");
    const json_t *gate = json_object_get(json_object_get(v->status, "gates"), "CSIControllerGetNodeInfo");
    const char *resolved = status_str(registry, "resolved"), *server = status_str(api, "server");
    json_array_foreach (json_object_get(v->status, "drivers"), i, item) registered += status_is_registered(item);
    json_array_foreach (json_object_get(v->status, "sockets"), i, item) others += status_is_unregistered(item);
    char *text = need_printf("Node %s: %zu driver%s registered, %zu not. API server%s%s: %s. Registry %s: %s. Gate "
                             "CSIControllerGetNodeInfo: "
                             "%s. csireg %s.",
                             status_str(json_object_get(v->status, "node"), "name"), registered, plural(registered),
                             others, *server ? " " : "", server, status_str(api, "state"),
                             *resolved ? resolved : status_str(registry, "path"), status_str(registry, "mode"),
                             json_is_true(gate) ? "on" : "off", status_str(v->status, "library"));
    put_wrapped(out, text, 0, v->width);
    free(text);
}

static void put_rest(const struct view *v, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < v->advice.n; i++) {
        const struct advice *a = &v->advice.items[i];
        if (a->subject) continue;
        if (!any) fputc('\n', out);
        any = true;
        put_advice(v, a, true, out);
    }
}

void view_table(const struct view *v, FILE *out)
{
    struct rows rows = all_rows(v);
    if (status_int(v->status, "version") != 1)
        fputs("This document has another version than 1, the one known here: parts may be missing.\n", out);
    put_summary(v, out);
    if (rows.n) fputc('\n', out);
    put_rows(v, &rows, out);
    if (v->driver && !wanted_is_registered(v) && !driver_named(v->status, v->driver))
        fputs("\nNo driver of this name is registered, nor being registered.\n", out);
    if (!wanted_is_registered(v)) put_rest(v, out);
    free(rows.items);
}

/* ---- lines ---- */

/* Takes both. */
static void add_line(struct view_lines *lines, char *key, char *text)
{
    lines->items = need_array(lines->items, lines->n + 1, sizeof *lines->items);
    lines->items[lines->n++] = (struct view_line){key, text};
}

static char *row_text(const struct row *r)
{
    const char *flow = status_str(r->driver, "flow");
    const char *message = status_str(json_object_get(r->socket, "lastError"), "message");
    return need_printf("%s%s%s%s%s", state_of(r), *flow ? ", flow " : "", flow, *message ? ": " : "", message);
}

static char *row_key(const struct row *r)
{
    const char *path = status_str(r->socket, "path");
    return need_printf("%s%s%s%s", title_of(r), *path && *name_of(r) ? " (" : "", *name_of(r) ? path : "",
                       *path && *name_of(r) ? ")" : "");
}

void view_lines(const struct view *v, struct view_lines *out)
{
    struct rows rows = all_rows(v);
    *out = (struct view_lines){NULL, 0};
    for (size_t i = 0; i < rows.n; i++) add_line(out, row_key(&rows.items[i]), row_text(&rows.items[i]));
    for (size_t i = 0; i < v->advice.n; i++) {
        const struct advice *a = &v->advice.items[i];
        if (a->subject || a->level == ADVICE_NOTE) continue;
        add_line(out, need_strdup(a->about), need_printf("%s", a->what));
    }
    free(rows.items);
}

void view_lines_free(struct view_lines *lines)
{
    for (size_t i = 0; i < lines->n; i++) {
        free(lines->items[i].key);
        free(lines->items[i].text);
    }
    free(lines->items);
    *lines = (struct view_lines){NULL, 0};
}

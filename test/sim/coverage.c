/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/coverage.h"

#include <stdio.h>
#include <string.h>

#include "core/internal.h"

/* clang-format off */
#define COLUMNS(X)                                        \
    X(SEEN_SAME,      "seen, the same file")              \
    X(SEEN_ANEW,      "seen, made anew")                  \
    X(GONE,           "gone")                             \
    X(CONNECTED,      "connected")                        \
    X(NOT_CONNECTED,  "connect failed")                   \
    X(RPC_OK,         "answer of a call")                 \
    X(RPC_FAILED,     "failed call")                      \
    X(REFRESH,        "answer in a refresh")              \
    X(PROBE,          "answer of a probe")                \
    X(LATE,           "answer nobody waits for")          \
    X(API,            "answer of the API server")         \
    X(WATCH,          "watch event")                      \
    X(TIMER,          "its own timer")                    \
    X(TICK,           "another timer")                    \
    X(SCAN,           "end of the initial scan")          \
    X(HANDED_OVER,    "handed over (again)")              \
    X(TAKEN_BACK,     "taken back")                       \
    X(RETRY,          "retry now")                        \
    X(HANDLER_OK,     "the handler takes it")             \
    X(HANDLER_NO,     "the handler refuses it")           \
    X(CREDENTIALS,    "credentials changed")              \
    X(EXHAUSTED,      "exhausted")                        \
    X(STOP,           "stop")
/* clang-format on */

enum column {
#define X(name, text) name,
    COLUMNS(X)
#undef X
        COLUMN_COUNT
};

static const char *const column_names[] = {
#define X(name, text) text,
    COLUMNS(X)
#undef X
};

#define NOBODY CR_STATE_COUNT /* the row of inputs that concern no instance */
#define ROWS   (CR_STATE_COUNT + 1)

static struct {
    bool on;
    unsigned long met[ROWS][COLUMN_COUNT], taken[CR_STATE_COUNT][CR_STATE_COUNT];
} seen;

void coverage_start(void) { seen.on = true; }

/* ---- which instance an input concerns, and as what ---- */

#define NONE (-1)

static bool same_file(const struct cr_identity *a, const struct cr_identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->birth_ns == b->birth_ns && a->generation == b->generation;
}

static int of_socket(const struct cr_instance *i, const struct cr_input *in)
{
    if (!i->path || strcmp(i->path, in->path) != 0) return NONE;
    if (in->kind == CR_IN_SOCKET_GONE) return GONE;
    return same_file(&i->identity, &in->identity) ? SEEN_SAME : SEEN_ANEW;
}

static int of_door(const struct cr_instance *i, const struct cr_input *in)
{
    bool it = !i->path && strcmp(i->plugin.name, in->name) == 0 && strcmp(i->plugin.endpoint, in->endpoint) == 0;
    return !it ? NONE : in->kind == CR_IN_DRIVER_REGISTER ? HANDED_OVER : TAKEN_BACK;
}

static int of_answer(const struct cr_instance *i, const struct cr_input *in)
{
    bool failed = in->kind == CR_IN_CONNECTED ? in->error_number : in->rpc->code;
    if (i->probe == in->id) return PROBE;
    if (i->refresh.waiting == in->id) return REFRESH;
    if (i->waiting != in->id) return NONE;
    if (in->kind == CR_IN_CONNECTED) return failed ? NOT_CONNECTED : CONNECTED;
    return failed ? RPC_FAILED : RPC_OK;
}

static int of_command(const struct cr_instance *i, const struct cr_input *in)
{
    bool named = !in->name || strcmp(cr_instance_name(i), in->name) == 0;
    if (!named) return NONE;
    return in->kind == CR_IN_RETRY ? RETRY : EXHAUSTED;
}

static int column_of(const struct cr_instance *i, const struct cr_input *in, int64_t now)
{
    switch (in->kind) {
    case CR_IN_TICK:
        return i->timer_ms <= now ? TIMER : TICK;
    case CR_IN_SOCKET_SEEN:
    case CR_IN_SOCKET_GONE:
        return of_socket(i, in);
    case CR_IN_DRIVER_REGISTER:
    case CR_IN_DRIVER_DEREGISTER:
        return of_door(i, in);
    case CR_IN_CONNECTED:
    case CR_IN_RPC_DONE:
        return of_answer(i, in);
    case CR_IN_RETRY:
    case CR_IN_EXHAUSTED:
        return of_command(i, in);
    case CR_IN_PLUGIN_RESULT:
        return i->token != in->token ? NONE : in->ok ? HANDLER_OK : HANDLER_NO;
    case CR_IN_API_DONE:
        return API;
    case CR_IN_WATCH_LINE:
        return WATCH;
    case CR_IN_SCAN_DONE:
        return SCAN;
    case CR_IN_CREDENTIALS_CHANGED:
        return CREDENTIALS;
    case CR_IN_STOP:
        return STOP;
    }
    return NONE;
}

static enum column column_of_nobody(const struct cr_input *in)
{
    struct cr_instance nobody = {.timer_ms = CR_NEVER, .waiting = in->id, .token = in->token, .path = (char *)in->path};
    if (in->kind == CR_IN_CONNECTED || in->kind == CR_IN_RPC_DONE) return LATE;
    if (in->kind == CR_IN_DRIVER_REGISTER) return HANDED_OVER;
    if (in->kind == CR_IN_DRIVER_DEREGISTER) return TAKEN_BACK;
    if (in->kind == CR_IN_RETRY) return RETRY;
    if (in->kind == CR_IN_EXHAUSTED) return EXHAUSTED;
    return (enum column)column_of(&nobody, in, 0);
}

/* ---- what cannot be ---- */

#define IN(state)     (1u << CR_STATE_##state)
#define NO_ONE        (1u << NOBODY)
#define ANY           ((1u << ROWS) - 1)
#define WITH_A_SOCKET (IN(CONNECTING) | IN(GET_INFO) | IN(HANDLER) | IN(NOTIFYING) | IN(REJECTING) | IN(UNCONFIRMED))
#define CALLS         (IN(GET_INFO) | IN(CAPABILITIES) | IN(NODE_INFO) | IN(NOTIFYING) | IN(REJECTING))

static const struct {
    unsigned rows; /* in which the pairs cannot be */
    int column;    /* NONE: all */
    const char *why;
} impossible[] = {
    {IN(NEW), NONE, "a state that is left in the input that entered it"},
    {ANY & ~(IN(CONNECTING) | IN(ENDPOINT)), CONNECTED, "only these two states wait for a connection"},
    {ANY & ~(IN(CONNECTING) | IN(ENDPOINT)), NOT_CONNECTED, "only these two states wait for a connection"},
    {ANY & ~CALLS, RPC_OK, "no other state waits for a call"},
    {ANY & ~CALLS, RPC_FAILED, "no other state waits for a call"},
    {ANY & ~NO_ONE, LATE, "it concerns no instance"},
    {ANY & ~(IN(CONNECTING) | IN(HANDLER) | IN(CSIDRIVER) | IN(BACKOFF) | IN(UNCONFIRMED) | IN(REGISTERED)), TIMER,
     "no other state has a timer"},
    {ANY & ~(IN(HANDLER) | NO_ONE), HANDLER_OK, "only plugins of other types are asked about"},
    {ANY & ~(IN(HANDLER) | NO_ONE), HANDLER_NO, "only plugins of other types are asked about"},
    {WITH_A_SOCKET, HANDED_OVER, "a state of a registration socket"},
    {WITH_A_SOCKET, TAKEN_BACK, "a state of a registration socket"},
    {NO_ONE, REFRESH, "without its instance it is an answer that nobody waits for"},
    {NO_ONE, PROBE, "without its instance it is an answer that nobody waits for"},
    {NO_ONE, SEEN_SAME, "a new file: the other column"},
    {IN(CSIDRIVER), WATCH, "a watch is open only when the list was read, and then nobody waits for it"},
    {IN(BACKOFF) | IN(STANDBY), REFRESH, "unregistered: refresh and probe ended with the registration"},
    {IN(BACKOFF) | IN(STANDBY), PROBE, "unregistered: refresh and probe ended with the registration"},
    {IN(CSIDRIVER), REFRESH, "a refresh needs what the list says, and then nobody waits for it"},
    {IN(HANDLER), REFRESH, "no simulated plugin changes its type"},
    {IN(HANDLER), PROBE, "no simulated plugin changes its type"},
};

/* What can be, but so seldom that a run may go without. */
static const struct {
    unsigned rows;
    int column;
} seldom[] = {
    {IN(CSIDRIVER), TAKEN_BACK}, {IN(CSIDRIVER) | IN(NOTIFYING) | IN(REJECTING), PROBE}, {IN(REJECTING), REFRESH}};

static bool is_seldom(int row, int column)
{
    bool is = false;
    for (size_t k = 0; k < sizeof seldom / sizeof *seldom; k++)
        is |= (seldom[k].rows >> row & 1u) && seldom[k].column == column;
    return is;
}

static const char *why_impossible(int row, int column)
{
    for (size_t k = 0; k < sizeof impossible / sizeof *impossible; k++)
        if (impossible[k].rows >> row & 1u && (impossible[k].column == NONE || impossible[k].column == column))
            return impossible[k].why;
    return NULL;
}

/* ---- counting ---- */

static const char *row_name(int row) { return row == NOBODY ? "(no instance)" : cr_state_name((enum cr_state)row); }

static void count(struct sim *s, int row, int column)
{
    const char *why = why_impossible(row, column);
    seen.met[row][column]++;
    if (why) sim_fail(s, "coverage", "%s in %s, although: %s", column_names[column], row_name(row), why);
}

void coverage_input(struct sim *s, const struct cr_input *in)
{
    bool concerns = false;
    if (!seen.on) return;
    CR_LIST_FOREACH (l, &s->core->instances) {
        const struct cr_instance *i = cr_instance_of(l);
        int column = column_of(i, in, s->now.mono_ms);
        if (column == NONE) continue;
        concerns = true;
        count(s, (int)i->state, column);
    }
    if (!concerns) count(s, NOBODY, (int)column_of_nobody(in));
}

static int state_named(const char *text, size_t len)
{
    for (int k = 0; k < CR_STATE_COUNT; k++) {
        const char *name = cr_state_name((enum cr_state)k);
        if (strlen(name) == len && memcmp(name, text, len) == 0) return k;
    }
    return NONE;
}

void coverage_step(const char *text)
{
    const char *arrow = strstr(text, " -> ");
    if (!seen.on || !arrow) return;
    int from = state_named(text, (size_t)(arrow - text)), to = state_named(arrow + 4, strlen(arrow + 4));
    if (from != NONE && to != NONE) seen.taken[from][to]++;
}

/* ---- the report ---- */

static bool report_pairs(void)
{
    bool good = true;
    unsigned reached = 0, possible = 0;
    for (int column = 0; column < COLUMN_COUNT; column++) {
        printf("%-26s", column_names[column]);
        for (int row = 1; row < ROWS; row++) {
            bool can = !why_impossible(row, column);
            possible += can;
            reached += can && seen.met[row][column];
            printf(can ? " %9lu" : "         -", seen.met[row][column]);
        }
        puts("");
    }
    printf("%u of %u pairs reached\n", reached, possible);
    for (int column = 0; column < COLUMN_COUNT; column++)
        for (int row = 1; row < ROWS; row++) {
            if (seen.met[row][column] || why_impossible(row, column)) continue;
            bool may = is_seldom(row, column);
            printf("not reached%s: %s in %s\n", may ? " (seldom)" : "", column_names[column], row_name(row));
            good &= may;
        }
    return good;
}

static void report_reasons(void)
{
    puts("not possible (-):");
    for (size_t k = 0; k < sizeof impossible / sizeof *impossible; k++) {
        printf("  %s in", impossible[k].column == NONE ? "anything" : column_names[impossible[k].column]);
        for (int row = 0; row < ROWS; row++)
            if (impossible[k].rows >> row & 1u) printf(" %s", row_name(row));
        printf(": %s\n", impossible[k].why);
    }
}

static void report_steps(void)
{
    for (int from = 0; from < CR_STATE_COUNT; from++)
        for (int to = 1; to < CR_STATE_COUNT; to++)
            if (cr_state_may_follow((enum cr_state)from, (enum cr_state)to) && !seen.taken[from][to])
                printf("step never taken: %s -> %s\n", cr_state_name((enum cr_state)from),
                       cr_state_name((enum cr_state)to));
}

bool coverage_report(void)
{
    printf("%-26s", "");
    for (int row = 1; row < ROWS; row++) printf(" %9.9s", row_name(row));
    puts("");
    bool good = report_pairs();
    report_reasons();
    report_steps();
    return good;
}

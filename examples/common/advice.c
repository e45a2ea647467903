/* SPDX-License-Identifier: Apache-2.0 */
#include "common/advice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"

/* ---- what to do about an error ---- */

#define ANY (-1)

/* The first row that fits. Decided by what is made for programs; "" and ANY fit everything. */
static const struct {
    const char *origin, *code, *step, *class;
    int number;
    const char *text;
} remedies[] = {
    {"http", "", "", "", 401,
     "Renew the token or client certificate of the agent: it is expired or unknown to the server. New credential files "
     "are read by themselves; nothing has to be restarted."},
    {"http", "", "", "", 403,
     "Grant what is refused: nodes get; nodes/status patch; csinodes get, create, update, delete; csidrivers list, "
     "watch. A node's own credentials may do this for the node of that name only: is --node-name right?"},
    {"http", "", "", "transient", 404,
     "Compare --node-name with what `kubectl get nodes` lists. The Node object must exist; csireg never makes one."},
    {"http", "", "", "persistent", 404,
     "Check that the address is that of a Kubernetes API server which has storage.k8s.io/v1."},
    {"http", "", "", "", 409, "Find out who else writes this object all the time (its managedFields tell)."},
    {"http", "", "", "", 429,
     "Nothing, if it does not last: it is tried again. Else see why the server is overloaded."},
    {"http", "", "", "transient", 0,
     "Check that the API server runs and that this node reaches it: address, name, CA certificate, firewall. "
     "Registered "
     "drivers stay usable, and what is missing is written as soon as it answers."},
    {"http", "", "", "transient", ANY, "Nothing, if it does not last: it is tried again. Else see the server's log."},
    {"http", "", "", "persistent", ANY, "Change what the server does not accept, or what forbids it there."},
    {"", "API", "", "transient", ANY,
     "Check that the API server runs and that this node reaches it: address, name, CA certificate, firewall. "
     "Registered "
     "drivers stay usable, and what is missing is written as soon as it answers."},
    {"config", "", "", "", ANY, "Check that the kubeconfig, token and certificate files exist and can be read."},
    {"grpc", "", "GetInfo", "", 12,
     "Move this socket out of the registry directory: it is not a registration socket, but most likely the driver's "
     "own "
     "service socket, whose place is plugins/DRIVER/csi.sock beside the registry."},
    {"grpc", "", "GetInfo", "", ANY, "See the log of the registrar (node-driver-registrar) behind this socket."},
    {"grpc", "", "NotifyRegistrationStatus", "", ANY,
     "Nothing: the driver is registered and usable. Its registrar did not take the good news; it is told again."},
    {"grpc", "", "", "", 12, "Use a version of the driver that serves this call."},
    {"grpc", "", "", "", ANY, "See the driver's own log: the error is the driver's."},
    {"os", "", "", "", ECONNREFUSED,
     "See that the driver's pod runs: nobody listens on the socket. A file that a dead process left may be deleted."},
    {"os", "", "", "", ENOENT,
     "See that the driver runs, and that the path which its registrar tells (--kubelet-registration-path) is the one "
     "on "
     "the host."},
    {"os", "", "", "", EACCES,
     "Correct owner and mode of the socket and its directories, or the security module's rules."},
    {"os", "", "", "", EPERM,
     "Correct owner and mode of the socket, the security module's rules, or allowed-socket-owners."},
    {"", "REFUSED", "discovery", "", ANY, "Run the registrar as one of these users, or extend allowed-socket-owners."},
    {"", "REFUSED", "GetInfo", "", ANY,
     "Correct the flags of the driver's registrar, unless another instance is meant."},
    {"", "REFUSED", "NodeGetInfo", "", ANY, "Correct the driver's configuration: its answer breaks a rule."},
};

static bool fits(const char *wanted, const char *found) { return !*wanted || !strcmp(wanted, found); }

const char *advice_remedy(const json_t *error)
{
    long long number = status_int(error, "number");
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
        bool same = fits(remedies[i].origin, status_str(error, "origin")) &&
                    fits(remedies[i].code, status_str(error, "code")) &&
                    fits(remedies[i].step, status_str(error, "step")) &&
                    fits(remedies[i].class, status_str(error, "class"));
        if (same && (remedies[i].number == ANY || remedies[i].number == number)) return remedies[i].text;
    }
    return NULL;
}

/* ---- the list ---- */

/* Takes about and what. */
static struct advice *add(struct advice_list *list, enum advice_level level, char *about, char *what,
                          const char *remedy)
{
    list->items = need_array(list->items, list->n + 1, sizeof *list->items);
    struct advice *a = &list->items[list->n++];
    *a = (struct advice){.level = level, .about = about, .what = what, .remedy = remedy, .seen = "", .next_try = ""};
    return a;
}

static void set_error(struct advice *a, const json_t *error)
{
    a->remedy = advice_remedy(error);
    a->seen = status_str(error, "time");
    a->lasts = !strcmp(status_str(error, "class"), "persistent");
}

static char *name_of_socket(const json_t *socket)
{
    const char *driver = status_str(socket, "driver");
    return need_strdup(*driver ? driver : status_str(socket, "path"));
}

/* ---- sockets ---- */

/* While a driver is being written, the API server's last answer is all there is to see: a missing Node, say. What makes
 * the server unusable is told of the server itself. */
static const json_t *error_meanwhile(const json_t *api, const json_t *socket)
{
    const json_t *error = json_object_get(api, "lastError");
    bool waits = !strcmp(status_str(socket, "state"), "publishing") && !strcmp(status_str(api, "state"), "ok");
    return waits && error && strcmp(status_str(error, "time"), status_str(socket, "since")) >= 0 ? error : NULL;
}

/* "is not registered: MESSAGE" */
static char *what_of_socket(const json_t *api, const json_t *socket, const json_t *error)
{
    const char *state = status_str(socket, "state"), *message = status_str(error, "message");
    bool held = !strcmp(state, "publishing") && !strcmp(status_str(api, "state"), "waiting");
    return need_printf("is %s%s%s%s", status_words(state), held ? ", and waits for the API server" : "",
                       *message ? ": " : "", message);
}

static void about_socket(const json_t *status, const json_t *socket, struct advice_list *out)
{
    const json_t *error = json_object_get(socket, "lastError"), *api = json_object_get(status, "api");
    bool active = json_is_true(json_object_get(socket, "active"));
    bool standby = !strcmp(status_str(socket, "state"), "standby");
    if (!strcmp(status_str(socket, "state"), "registered") && !error) return;
    if (!error) error = error_meanwhile(api, socket);
    enum advice_level level = standby ? ADVICE_NOTE : error && !active ? ADVICE_BAD : ADVICE_WAIT;
    struct advice *a = add(out, level, name_of_socket(socket), what_of_socket(api, socket, error), NULL);
    a->seen = status_str(socket, "since");
    if (error) set_error(a, error);
    if (standby) a->remedy = "Nothing, unless this driver should run only once on a node.";
    a->next_try = status_str(socket, "nextTry");
    a->subject = socket;
}

/* ---- drivers ---- */

static void about_waiting(const json_t *driver, struct advice_list *out)
{
    const char *since = status_str(driver, "waitingForControllerSince");
    if (!*since) return;
    struct advice *a = add(out, ADVICE_WAIT, need_strdup(status_str(driver, "name")),
                           need_strdup("is registered here and, at the last look at CSINode, waited for its "
                                       "controller side"),
                           "If it stays so, see whether the driver's controller runs with the gate "
                           "CSIControllerGetNodeInfo on.");
    a->seen = since;
    a->subject = driver;
}

static void about_dead(const json_t *driver, struct advice_list *out)
{
    const char *since = status_str(driver, "unreachableSince");
    if (!*since) return;
    struct advice *a =
        add(out, ADVICE_BAD, need_strdup(status_str(driver, "name")),
            need_printf("is registered, but nobody takes connections on its service socket %s",
                        status_str(driver, "endpoint")),
            "See that the driver's pod runs. Its entry stays published; endpoint-dead-after would remove it.");
    a->seen = since;
    a->subject = driver;
}

/* A warning that the error of the driver's socket does not say already. */
static bool is_news(const json_t *status, const json_t *driver, const json_t *warning)
{
    size_t i;
    json_t *socket;
    const char *text = json_string_value(warning);
    json_array_foreach (json_object_get(status, "sockets"), i, socket) {
        const char *said = status_str(json_object_get(socket, "lastError"), "message");
        bool same = !strcmp(status_str(socket, "driver"), status_str(driver, "name"));
        if (same && text && strstr(said, text)) return false;
    }
    return text != NULL;
}

static void about_driver(const json_t *status, const json_t *driver, struct advice_list *out)
{
    size_t i;
    json_t *warning;
    about_dead(driver, out);
    about_waiting(driver, out);
    if (!strcmp(status_str(driver, "state"), "removing"))
        add(out, ADVICE_WAIT, need_strdup(status_str(driver, "name")),
            need_strdup("is being removed from Node and CSINode"), NULL)
            ->subject = driver;
    json_array_foreach (json_object_get(driver, "warnings"), i, warning)
        if (is_news(status, driver, warning))
            add(out, ADVICE_WAIT, need_strdup(status_str(driver, "name")),
                need_printf("has a warning: %s", json_string_value(warning)), NULL)
                ->subject = driver;
}

/* ---- the node ---- */

static void add_warnings(const json_t *of, const char *about, struct advice_list *out)
{
    size_t i;
    json_t *warning;
    json_array_foreach (json_object_get(of, "warnings"), i, warning)
        if (json_is_string(warning))
            add(out, ADVICE_WAIT, need_strdup(about), need_printf("has a warning: %s", json_string_value(warning)),
                NULL);
}

static void about_api(const json_t *api, struct advice_list *out)
{
    const char *state = status_str(api, "state");
    const json_t *error = json_object_get(api, "lastError");
    char *about = need_printf("API server %s", status_str(api, "server"));
    add_warnings(api, about, out);
    if (!strcmp(state, "local-only")) {
        free(about);
        add(out, ADVICE_NOTE, need_strdup("local only"), need_strdup("means that nothing is written to the cluster"),
            NULL);
        return;
    }
    if (!strcmp(state, "ok") || !*state) {
        free(about);
        return;
    }
    const char *says = !strcmp(state, "refused") ? "refuses the agent" : "is not usable, and drivers wait for it";
    struct advice *a = add(out, ADVICE_BAD, about, need_printf("%s: %s", says, status_str(error, "message")), NULL);
    if (error) set_error(a, error);
}

static const char no_socket[] =
    "See that the driver's registrar runs and writes its socket to this very directory of the host (its hostPath "
    "mount), or point --plugins-registry-dir at the one that it uses.";

static void about_sockets(const json_t *registry, const char *about, struct advice_list *out)
{
    const char *last = status_str(registry, "lastEvent");
    long long n = status_int(registry, "sockets");
    if (n == 0) {
        const char *when = *last ? "now; the last one went" : ", and none was seen since the start";
        char *what = need_printf("has 0 registration sockets%s%s", *last ? " " : "", when);
        add(out, ADVICE_WAIT, need_strdup(about), what, no_socket)->seen = last;
        return;
    }
    add(out, ADVICE_NOTE, need_strdup(about),
        need_printf(
            "has %lld registration socket%s. A driver that is not listed has none there: see that its registrar "
            "runs and writes to this very directory of the host",
            n, n == 1 ? "" : "s"),
        NULL);
}

static void about_registry(const json_t *registry, struct advice_list *out)
{
    const char *path = status_str(registry, "resolved"), *mode = status_str(registry, "mode");
    if (!strcmp(mode, "none") || !*mode) return;
    char *about = need_printf("registry %s", *path ? path : status_str(registry, "path"));
    add_warnings(registry, about, out);
    if (!strcmp(mode, "waiting"))
        add(out, ADVICE_BAD, need_strdup(about), need_strdup("cannot be watched, and no driver can be found"),
            "Make the directory, or point --plugins-registry-dir at the right one.");
    else
        about_sockets(registry, about, out);
    free(about);
}

static bool some_socket_fails_at(const json_t *status, const char *step)
{
    size_t i;
    json_t *socket;
    json_array_foreach (json_object_get(status, "sockets"), i, socket) {
        if (!strcmp(status_str(json_object_get(socket, "lastError"), "step"), step)) return true;
    }
    return false;
}

static void about_gate(const json_t *status, struct advice_list *out)
{
    static const char gate[] = "CSIControllerGetNodeInfo";
    if (!json_is_false(json_object_get(json_object_get(status, "gates"), gate))) return;
    if (!some_socket_fails_at(status, "NodeGetInfo")) return;
    add(out, ADVICE_NOTE, need_printf("gate %s", gate),
        need_strdup("is off: every driver takes the node flow and must tell everything in NodeGetInfo itself"),
        "A driver that leaves topology and limit to its controller side (KEP-6011) needs "
        "--feature-gates=CSIControllerGetNodeInfo=true here, and the gate on the API server.");
}

static void about_unclaimed(const json_t *names, struct advice_list *out)
{
    size_t i;
    json_t *name;
    json_array_foreach (names, i, name)
        if (json_is_string(name))
            add(out, ADVICE_NOTE, need_strdup(json_string_value(name)),
                need_strdup("has an entry in CSINode that no socket here belongs to"),
                "If the driver should run here, see its registrar. If it is gone for good, remove the entry, or let "
                "prune-unclaimed-after do it.");
}

void advice_list(const json_t *status, struct advice_list *out)
{
    size_t i;
    json_t *item;
    *out = (struct advice_list){NULL, 0};
    json_array_foreach (json_object_get(status, "sockets"), i, item) about_socket(status, item, out);
    json_array_foreach (json_object_get(status, "drivers"), i, item) about_driver(status, item, out);
    about_api(json_object_get(status, "api"), out);
    about_registry(json_object_get(status, "registry"), out);
    about_gate(status, out);
    about_unclaimed(json_object_get(status, "unclaimed"), out);
}

void advice_list_free(struct advice_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->items[i].about);
        free(list->items[i].what);
    }
    free(list->items);
    *list = (struct advice_list){NULL, 0};
}

enum advice_level advice_worst(const struct advice_list *list)
{
    enum advice_level worst = ADVICE_NOTE;
    for (size_t i = 0; i < list->n; i++)
        if (list->items[i].level > worst) worst = list->items[i].level;
    return worst;
}

const char *advice_level_name(enum advice_level level)
{
    return level == ADVICE_BAD ? "bad" : level == ADVICE_WAIT ? "wait" : "note";
}

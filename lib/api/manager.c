/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manager as the host sees it: each call checks who calls and when, checks and copies what it was given, and hands
 * it to the engine or reads what the engine has published. No call waits for a driver or a server.
 */
#include "csireg/manager.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/config.h"
#include "api/guard.h"
#include "api/metrics.h"
#include "base/bounds.h"
#include "base/mem.h"
#include "base/utf8.h"

struct csireg_manager {
    /* constant after new */
    pid_t pid;
    struct csireg_options *options;
    struct cr_engine *engine;

    pthread_mutex_t life; /* held through start and stop */
    atomic_int phase;     /* enum cr_phase; written under life */
};

/* ---- entering and leaving ---- */

static int refuse(struct csireg_error **error, enum cr_call call, const char *what)
{
    return cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "%s: %s", cr_call_name(call), what));
}

static int enter_any_time(const struct csireg_manager *m, enum cr_call call, struct csireg_error **error)
{
    if (!m) return refuse(error, call, "the manager is NULL");
    return cr_guard_caller(call, m->pid, cr_engine_is_self(m->engine), error);
}

static int enter(const struct csireg_manager *m, enum cr_call call, struct csireg_error **error)
{
    int rc = enter_any_time(m, call, error);
    return rc == CSIREG_OK ? cr_guard_phase(call, (enum cr_phase)atomic_load(&m->phase), error) : rc;
}

/* Only codes of the closed enum leave. */
static int leave(int rc) { return rc <= CSIREG_OK && rc >= CSIREG_ERR_LIMIT ? rc : CSIREG_ERR_SYSTEM; }

/* ---- checks of what is given ---- */

static int check_text(enum cr_call call, const char *name, const char *value, size_t max, struct csireg_error **error)
{
    char what[96];
    const char *fault = NULL;
    size_t len = value ? strnlen(value, max + 1) : 0;
    if (!value)
        fault = "NULL";
    else if (len == 0)
        fault = "empty";
    else if (len <= max && !cr_utf8_valid(value, len))
        fault = "not valid UTF-8";
    if (!fault && len <= max) return CSIREG_OK;
    if (fault)
        snprintf(what, sizeof what, "the %s is %s", name, fault);
    else
        snprintf(what, sizeof what, "the %s is longer than %zu bytes", name, max);
    return refuse(error, call, what);
}

static int check_path(enum cr_call call, const char *path, struct csireg_error **error)
{
    int rc = check_text(call, "path", path, CR_MAX_PATH, error);
    if (rc != CSIREG_OK || path[0] == '/') return rc;
    return refuse(error, call, "the path is not absolute");
}

/* ---- life ---- */

static int manager_fill(struct csireg_manager *m, const struct csireg_options *options, struct csireg_error **error)
{
    struct cr_engine_config config;
    m->options = cr_options_copy(options);
    if (!m->options) return cr_error_put(error, cr_error_oom());
    int rc = cr_config_build(m->options, &config, error);
    if (rc != CSIREG_OK) return rc;
    rc = cr_engine_new(&m->engine, &config, error);
    if (rc == CSIREG_OK) return rc;
    cr_access_free(config.access);
    cr_free(config.owners);
    return rc;
}

int csireg_manager_new(const struct csireg_options *options, struct csireg_manager **out_manager,
                       struct csireg_error **error)
{
    if (!options || !out_manager)
        return cr_error_put(error,
                            cr_error_new(CSIREG_ERR_INVALID, "new: %s is NULL", options ? "out_manager" : "options"));
    struct csireg_manager *m = CR_NEW(struct csireg_manager);
    int rc = m ? manager_fill(m, options, error) : cr_error_put(error, cr_error_oom());
    if (rc == CSIREG_OK) {
        m->pid = getpid();
        pthread_mutex_init(&m->life, NULL);
        atomic_init(&m->phase, CR_PHASE_NEW);
        *out_manager = m;
        return CSIREG_OK;
    }
    if (m) csireg_options_free(m->options);
    cr_free(m);
    return leave(rc);
}

int csireg_manager_start(struct csireg_manager *m, struct csireg_error **error)
{
    int rc = enter_any_time(m, CR_CALL_START, error);
    if (rc != CSIREG_OK) return rc;
    pthread_mutex_lock(&m->life);
    rc = enter(m, CR_CALL_START, error);
    if (rc == CSIREG_OK) rc = cr_engine_start(m->engine, error);
    if (rc == CSIREG_OK) atomic_store(&m->phase, CR_PHASE_STARTED);
    pthread_mutex_unlock(&m->life);
    return leave(rc);
}

int csireg_manager_stop(struct csireg_manager *m)
{
    int rc = enter_any_time(m, CR_CALL_STOP, NULL);
    if (rc != CSIREG_OK) return rc;
    pthread_mutex_lock(&m->life);
    if (atomic_exchange(&m->phase, CR_PHASE_STOPPED) != CR_PHASE_STOPPED) cr_engine_stop(m->engine);
    pthread_mutex_unlock(&m->life);
    return CSIREG_OK;
}

void csireg_manager_free(struct csireg_manager *m)
{
    /* In a child the threads are not there, and what they held cannot be taken down: better to leave it all. */
    if (csireg_manager_stop(m) != CSIREG_OK) return;
    cr_engine_free(m->engine);
    csireg_options_free(m->options);
    pthread_mutex_destroy(&m->life);
    cr_free(m);
}

/* ---- events ---- */

int csireg_manager_fd(const struct csireg_manager *m)
{
    int rc = enter(m, CR_CALL_FD, NULL);
    return rc == CSIREG_OK ? cr_engine_events(m->engine)->fd : rc;
}

int csireg_manager_next_event(struct csireg_manager *m, struct csireg_event **out_event)
{
    int rc = out_event ? enter(m, CR_CALL_NEXT_EVENT, NULL) : CSIREG_ERR_INVALID;
    if (rc != CSIREG_OK) return rc;
    struct csireg_event *event = cr_events_pop(cr_engine_events(m->engine));
    if (event) *out_event = event;
    return event != NULL;
}

/* ---- commands ---- */

static struct cr_command *command_new(enum cr_input_kind kind)
{
    struct cr_command *c = CR_NEW(struct cr_command);
    if (!c) return NULL;
    cr_list_init(&c->node);
    c->kind = kind;
    return c;
}

/* Takes the command; complete: all of it could be copied. */
static int post(struct csireg_manager *m, enum cr_call call, struct cr_command *c, bool complete,
                struct csireg_error **error)
{
    if (!complete) {
        cr_command_free(c);
        return cr_error_put(error, cr_error_oom());
    }
    int rc = cr_engine_post(m->engine, c);
    if (rc == CSIREG_ERR_STATE) return cr_guard_phase(call, CR_PHASE_STOPPED, error); /* stopped meanwhile */
    if (rc == CSIREG_ERR_LIMIT)
        return cr_error_put(error, cr_error_new(CSIREG_ERR_LIMIT, "%s: %d calls wait for the engine already; try again",
                                                cr_call_name(call), CR_MAX_COMMANDS));
    return leave(rc);
}

static int post_path(struct csireg_manager *m, enum cr_call call, enum cr_input_kind kind, const char *path,
                     struct csireg_error **error)
{
    int rc = enter(m, call, error);
    if (rc == CSIREG_OK) rc = check_path(call, path, error);
    if (rc != CSIREG_OK) return rc;
    struct cr_command *c = command_new(kind);
    if (c) c->path = cr_strdup(path);
    return post(m, call, c, c && c->path, error);
}

int csireg_manager_socket_seen(struct csireg_manager *m, const char *path, struct csireg_error **error)
{
    return post_path(m, CR_CALL_SOCKET_SEEN, CR_IN_SOCKET_SEEN, path, error);
}

int csireg_manager_socket_gone(struct csireg_manager *m, const char *path, struct csireg_error **error)
{
    return post_path(m, CR_CALL_SOCKET_GONE, CR_IN_SOCKET_GONE, path, error);
}

/* Grammar is the core's to judge, and its answer an event; here only what cannot be carried on is refused. */
static int check_driver(enum cr_call call, const char *name, const char *endpoint, struct csireg_error **error)
{
    int rc = check_text(call, "name", name, CR_MAX_PLUGIN_NAME, error);
    if (rc != CSIREG_OK) return rc;
    return check_text(call, "endpoint", endpoint, CR_MAX_PATH + strlen("unix://"), error);
}

static int check_versions(const char *const *versions, size_t n, struct csireg_error **error)
{
    if (n > CR_MAX_VERSIONS)
        return cr_error_put(
            error, cr_error_new(CSIREG_ERR_INVALID, "driver_register: more than %d versions", CR_MAX_VERSIONS));
    if (!versions && n) return refuse(error, CR_CALL_DRIVER_REGISTER, "versions is NULL");
    for (size_t i = 0; i < n; i++) {
        int rc = check_text(CR_CALL_DRIVER_REGISTER, "version", versions[i], CR_MAX_VERSION, error);
        if (rc != CSIREG_OK) return rc;
    }
    return CSIREG_OK;
}

static struct cr_command *driver_command(enum cr_input_kind kind, const char *name, const char *endpoint)
{
    struct cr_command *c = command_new(kind);
    if (!c) return NULL;
    c->name = cr_strdup(name);
    c->endpoint = cr_strdup(endpoint);
    if (c->name && c->endpoint) return c;
    cr_command_free(c);
    return NULL;
}

int csireg_manager_driver_register(struct csireg_manager *m, const char *name, const char *endpoint,
                                   const char *const *versions, size_t n_versions, struct csireg_error **error)
{
    int rc = enter(m, CR_CALL_DRIVER_REGISTER, error);
    if (rc == CSIREG_OK) rc = check_driver(CR_CALL_DRIVER_REGISTER, name, endpoint, error);
    if (rc == CSIREG_OK) rc = check_versions(versions, n_versions, error);
    if (rc != CSIREG_OK) return rc;
    struct cr_command *c = driver_command(CR_IN_DRIVER_REGISTER, name, endpoint);
    if (c) c->versions = cr_strv_dup(versions, n_versions);
    if (c) c->n_versions = n_versions;
    return post(m, CR_CALL_DRIVER_REGISTER, c, c && c->versions, error);
}

int csireg_manager_driver_deregister(struct csireg_manager *m, const char *name, const char *endpoint,
                                     struct csireg_error **error)
{
    int rc = enter(m, CR_CALL_DRIVER_DEREGISTER, error);
    if (rc == CSIREG_OK) rc = check_driver(CR_CALL_DRIVER_DEREGISTER, name, endpoint, error);
    if (rc != CSIREG_OK) return rc;
    struct cr_command *c = driver_command(CR_IN_DRIVER_DEREGISTER, name, endpoint);
    return post(m, CR_CALL_DRIVER_DEREGISTER, c, c != NULL, error);
}

int csireg_manager_retry(struct csireg_manager *m, const char *name_or_path, struct csireg_error **error)
{
    int rc = enter(m, CR_CALL_RETRY, error);
    if (rc == CSIREG_OK && name_or_path)
        rc = check_text(CR_CALL_RETRY, "name or path", name_or_path, CR_MAX_PATH, error);
    if (rc != CSIREG_OK) return rc;
    struct cr_command *c = command_new(CR_IN_RETRY);
    if (c) c->name = cr_strdup(name_or_path);
    return post(m, CR_CALL_RETRY, c, c && (c->name || !name_or_path), error);
}

/* The text goes into a notification, which is bounded: what is too long for it is cut, not refused. */
static char *notification_text(const char *text)
{
    size_t len = strnlen(text, CR_MAX_NOTIFY_ERROR + 1);
    if (len > CR_MAX_NOTIFY_ERROR) len = cr_utf8_cut(text, CR_MAX_NOTIFY_ERROR);
    char *copy = cr_strndup(text, len);
    if (copy) cr_utf8_sanitise(copy, len);
    return copy;
}

int csireg_manager_plugin_result(struct csireg_manager *m, uint64_t token, int ok, const char *text,
                                 struct csireg_error **error)
{
    int rc = enter(m, CR_CALL_PLUGIN_RESULT, error);
    if (rc == CSIREG_OK && token == 0) rc = refuse(error, CR_CALL_PLUGIN_RESULT, "the token is 0");
    if (rc != CSIREG_OK) return rc;
    struct cr_command *c = command_new(CR_IN_PLUGIN_RESULT);
    if (c) c->text = notification_text(text ? text : "");
    if (c) c->token = token;
    if (c) c->ok = ok != 0;
    return post(m, CR_CALL_PLUGIN_RESULT, c, c && c->text, error);
}

/* ---- questions: answered from the snapshot, on the caller's thread; only exhausted asks the engine ---- */

int csireg_manager_lookup(struct csireg_manager *m, const char *name, struct csireg_driver **out_driver)
{
    int rc = name && out_driver ? enter(m, CR_CALL_LOOKUP, NULL) : CSIREG_ERR_INVALID;
    if (rc != CSIREG_OK) return rc;
    struct cr_snapshot *s = cr_board_get(cr_engine_board(m->engine));
    const struct csireg_driver *found = cr_snapshot_driver(s, name);
    struct csireg_driver *copy = found ? cr_driver_copy(found) : NULL;
    rc = found ? CSIREG_OK : s->initial_done ? CSIREG_ERR_NOT_REGISTERED : CSIREG_ERR_NOT_READY;
    cr_snapshot_unref(s);
    if (rc != CSIREG_OK) return rc;
    if (!copy) return CSIREG_ERR_NOMEM;
    *out_driver = copy;
    return CSIREG_OK;
}

int csireg_manager_status_json(struct csireg_manager *m, char **out_text)
{
    int rc = out_text ? enter(m, CR_CALL_STATUS_JSON, NULL) : CSIREG_ERR_INVALID;
    if (rc != CSIREG_OK) return rc;
    struct cr_snapshot *s = cr_board_get(cr_engine_board(m->engine));
    if (!s) return CSIREG_ERR_STATE; /* stopped without ever having been started */
    char *text = cr_snapshot_text(s);
    cr_snapshot_unref(s);
    if (!text) return CSIREG_ERR_NOMEM;
    *out_text = text;
    return CSIREG_OK;
}

int csireg_manager_metrics(struct csireg_manager *m, struct csireg_metrics **out_metrics)
{
    int rc = out_metrics ? enter(m, CR_CALL_METRICS, NULL) : CSIREG_ERR_INVALID;
    if (rc != CSIREG_OK) return rc;
    struct cr_snapshot *s = cr_board_get(cr_engine_board(m->engine));
    if (!s) return CSIREG_ERR_STATE; /* as status */
    struct csireg_metrics *metrics = cr_metrics_list(s, cr_events_length(cr_engine_events(m->engine)));
    if (!metrics) return CSIREG_ERR_NOMEM;
    *out_metrics = metrics;
    return CSIREG_OK;
}

int csireg_manager_wait_initial(struct csireg_manager *m, int64_t milliseconds)
{
    int rc = milliseconds >= 0 ? enter(m, CR_CALL_WAIT_INITIAL, NULL) : CSIREG_ERR_INVALID;
    return rc == CSIREG_OK ? leave(cr_board_wait_initial(cr_engine_board(m->engine), milliseconds)) : rc;
}

/* The result, or a negative code. */
static int ask_exhausted(struct csireg_manager *m, const char *name, int64_t milliseconds)
{
    struct cr_answers *answers = cr_engine_answers(m->engine);
    struct cr_waiter waiter;
    struct cr_command *c = command_new(CR_IN_EXHAUSTED);
    if (c) c->name = cr_strdup(name);
    uint64_t token = cr_answers_expect(answers, &waiter);
    if (c) c->token = token;
    int rc = post(m, CR_CALL_EXHAUSTED, c, c && c->name, NULL);
    if (rc == CSIREG_OK) return cr_answers_wait(answers, &waiter, milliseconds);
    cr_answers_forget(answers, &waiter);
    return rc;
}

int csireg_manager_exhausted(struct csireg_manager *m, const char *name, int64_t milliseconds,
                             enum csireg_exhausted_result *out_result)
{
    bool valid = name && out_result && milliseconds >= 0;
    int rc = valid ? enter(m, CR_CALL_EXHAUSTED, NULL) : CSIREG_ERR_INVALID;
    if (rc == CSIREG_OK) rc = check_text(CR_CALL_EXHAUSTED, "name", name, CR_MAX_PLUGIN_NAME, NULL);
    if (rc != CSIREG_OK) return rc;
    rc = ask_exhausted(m, name, milliseconds);
    if (rc <= 0) return leave(rc);
    *out_result = (enum csireg_exhausted_result)rc;
    return CSIREG_OK;
}

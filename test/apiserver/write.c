// SPDX-License-Identifier: Apache-2.0
/* Create, update, patch and delete. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/authorize.h"
#include "apiserver/change.h"
#include "apiserver/json.h"
#include "apiserver/patch.h"
#include "apiserver/server.h"
#include "base/buf.h"
#include "common/alloc.h"

#define MAX_STRICT_TEXT (1024 * 1024) /* bytes of the unknown fields in one message */

struct write {
    struct apiserver *s;
    struct as_request *r;
    struct as_answer *a;
    const struct as_resource *type;
    struct as_change change;
    json_t *strict;            /* unknown and duplicate fields */
    struct as_version *before; /* borrowed, lock held */
};

static bool is_strict(const struct as_request *r)
{
    const char *mode = as_param(&r->params, "fieldValidation");
    return mode && !strcmp(mode, "Strict");
}

static bool is_silent(const struct as_request *r)
{
    const char *mode = as_param(&r->params, "fieldValidation");
    return mode && !strcmp(mode, "Ignore");
}

static bool is_dry_run(const struct as_request *r) { return as_param(&r->params, "dryRun") != NULL; }

/* value, known: as they are shown */
static void bad_option(struct as_answer *a, enum as_verb verb, const char *field, const char *value, const char *known)
{
    const char *kind = verb == AS_PATCH    ? "PatchOptions"
                       : verb == AS_UPDATE ? "UpdateOptions"
                       : verb == AS_CREATE ? "CreateOptions"
                                           : "DeleteOptions";
    struct as_causes causes;
    as_causes_init(&causes);
    as_cause(&causes, "FieldValueNotSupported", field, "Unsupported value: %s: supported values: %s", value, known);
    as_invalid(a, kind, "meta.k8s.io", "", &causes);
    as_causes_fini(&causes);
}

bool as_write_options(const struct as_request *r, struct as_answer *a)
{
    const char *dry_run = as_param(&r->params, "dryRun"), *mode = as_param(&r->params, "fieldValidation");
    if (r->route.verb == AS_GET || r->route.verb == AS_LIST || r->route.verb == AS_WATCH) return true;
    char *shown = NULL;
    if (dry_run && strcmp(dry_run, "All") != 0) {
        shown = need_printf("[\"%s\"]", dry_run);
        bad_option(a, r->route.verb, "dryRun", shown, "\"All\"");
    } else if (mode && *mode && strcmp(mode, "Ignore") != 0 && strcmp(mode, "Warn") != 0 &&
               strcmp(mode, "Strict") != 0) {
        shown = need_printf("\"%s\"", mode);
        bad_option(a, r->route.verb, "fieldValidation", shown, "\"\", \"Ignore\", \"Strict\", \"Warn\"");
    }
    free(shown);
    return a->code == 0;
}

/* ---- decoding ---- */

/* in: the object as it came; its own kind and version are named. */
static void unusable(struct write *w, const json_t *in, const char *why)
{
    const char *kind = as_json_str(in, "kind"), *version = as_json_str(in, "apiVersion"), *slash = strchr(version, '/');
    as_bad_request(w->a, "%s in version \"%s\" cannot be handled as a %s: %s", *kind ? kind : w->type->kind,
                   slash      ? slash + 1
                   : *version ? version
                              : w->type->version,
                   w->type->kind, why);
}

static char *join(const json_t *texts)
{
    struct cr_buf text;
    size_t i;
    json_t *item;
    cr_buf_init(&text, MAX_STRICT_TEXT);
    json_array_foreach (texts, i, item) cr_buf_printf(&text, "%s%s", i ? ", " : "", json_string_value(item));
    char *joined = need_strdup(cr_buf_str(&text));
    cr_buf_free(&text);
    return joined;
}

/* A patch's result that is no object of its type: the cause names the patch and shows what came of it. */
static void bad_patch(struct write *w, const json_t *in, const char *why)
{
    struct as_causes causes;
    as_causes_init(&causes);
    char *text = as_json_text(in);
    as_cause_invalid_text(&causes, "patch", text, why);
    as_invalid(w->a, "", "", "", &causes);
    as_causes_fini(&causes);
    free(text);
}

static void undecodable(struct write *w, const json_t *in, bool patch, const char *why)
{
    if (patch)
        bad_patch(w, in, why);
    else
        unusable(w, in, why);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(json_string_value(*(json_t *const *)a), json_string_value(*(json_t *const *)b));
}

/* A patch's result has no order of its own. */
static void sort_texts(json_t *list)
{
    size_t n = json_array_size(list);
    json_t **texts = need_calloc(n + 1, sizeof *texts);
    for (size_t i = 0; i < n; i++) texts[i] = json_incref(json_array_get(list, i));
    qsort(texts, n, sizeof *texts, compare_texts);
    json_array_clear(list);
    for (size_t i = 0; i < n; i++) json_array_append_new(list, texts[i]);
    free(texts);
}

static bool report_strict(struct write *w, const json_t *in, bool patch)
{
    size_t i;
    json_t *text;
    if (!json_array_size(w->strict) || is_silent(w->r)) return true;
    if (!is_strict(w->r)) {
        json_array_foreach (w->strict, i, text) as_answer_warn(w->a, "%s", json_string_value(text));
        return true;
    }
    if (patch) sort_texts(w->strict);
    char *all = join(w->strict), *why = need_printf("strict decoding error: %s", all);
    undecodable(w, in, patch, why);
    free(why);
    free(all);
    return false;
}

/* Makes w->change.object from JSON as it came or as a patch left it. */
static bool decode(struct write *w, const json_t *in, bool patch)
{
    struct as_decoding d = {.registrations_known = w->s->gates.node_info != AS_GATE_UNKNOWN, .strict = w->strict};
    w->change.object = as_schema_decode(w->type->schema, in, &d);
    if (w->change.object) {
        json_object_del(w->change.object, "kind");
        json_object_del(w->change.object, "apiVersion");
        return report_strict(w, in, patch);
    }
    undecodable(w, in, patch, d.error);
    free(d.error);
    return false;
}

static bool check_type(struct write *w, const json_t *in, bool patch)
{
    const char *kind = as_json_str(in, "kind"), *version = as_json_str(in, "apiVersion");
    bool same = (!*kind || !strcmp(kind, w->type->kind)) && (!*version || !strcmp(version, w->type->api_version));
    if (same) return true;
    char *why =
        need_printf("the object is a %s of %s, expected %s of %s", kind, version, w->type->kind, w->type->api_version);
    undecodable(w, in, patch, why);
    free(why);
    return false;
}

static bool decode_body(struct write *w)
{
    char *error = NULL;
    json_t *in = as_json_parse(w->r->body ? w->r->body : "", w->r->body_len, &error);
    if (json_is_null(in)) in = json_object();
    if (!json_is_object(in)) {
        as_bad_request(w->a, "the object provided is unrecognized (must be of type %s): %s", w->type->kind,
                       error ? error : "not a JSON object");
        free(error);
        json_decref(in);
        return false;
    }
    as_duplicate_fields(w->r->body, w->r->body_len, w->strict);
    bool ok = check_type(w, in, false) && decode(w, in, false);
    json_decref(in);
    return ok;
}

/* The name and namespace in an object against those in the URL. */
static bool check_names(struct write *w)
{
    json_t *metadata = as_json_child(w->change.object, "metadata");
    const char *name = as_json_str(metadata, "name"), *ns = as_json_str(metadata, "namespace");
    const char *url_name = w->r->route.name, *url_ns = w->r->route.namespace_ ? w->r->route.namespace_ : "";
    if (!w->type->namespaced) as_json_set(metadata, "namespace", NULL);
    if (url_name && !*name) {
        as_bad_request(w->a, "the name of the object (%s based on URL) was undeterminable: name must be provided",
                       url_name);
        return false;
    }
    if (url_name && strcmp(name, url_name) != 0) {
        as_bad_request(w->a, "the name of the object (%s) does not match the name on the URL (%s)", name, url_name);
        return false;
    }
    if (w->type->namespaced && *ns && strcmp(ns, url_ns) != 0) {
        as_bad_request(w->a, "the namespace of the object (%s) does not match the namespace on the URL (%s)", ns,
                       url_ns);
        return false;
    }
    if (*url_ns) as_json_set(metadata, "namespace", json_string(url_ns));
    return true;
}

/* ---- the way into the store; lock held ---- */

static bool check_version(struct write *w, const char *sent)
{
    char stored[24];
    snprintf(stored, sizeof stored, "%" PRIu64, w->before->rv);
    if (sent[strspn(sent, "0123456789")]) {
        as_status(w->a, 500, NULL, NULL, "strconv.ParseUint: parsing \"%s\": invalid syntax", sent);
        return false;
    }
    if (!*sent && w->type->needs_version) {
        struct as_causes causes;
        as_causes_init(&causes);
        as_cause(&causes, "FieldValueInvalid", "metadata.resourceVersion",
                 "Invalid value: 0: must be specified for an update");
        as_invalid(w->a, w->type->plural, w->type->group, w->r->route.name, &causes);
        as_causes_fini(&causes);
        return false;
    }
    if (!*sent || !strcmp(sent, stored)) return true;
    as_modified(w->a, w->type, w->r->route.name);
    return false;
}

static bool validate(struct write *w)
{
    const char *name = as_json_str(json_object_get(w->change.object, "metadata"), "name");
    as_change_validate(&w->change, w->type);
    if (!as_causes_any(w->change.causes)) return true;
    as_invalid(w->a, w->type->kind, w->type->group, name, w->change.causes);
    return false;
}

static void answer_version(struct write *w, int code, const struct as_version *v)
{
    char *full = as_version_full(v, &w->s->gates);
    as_answer_text(w->a, code, "application/json", need_printf("%s\n", full));
    free(full);
}

/* Stores the change unless it changes nothing or is a dry run, and answers it. */
static void store(struct write *w, int code)
{
    json_t *object = w->change.object;
    if (is_dry_run(w->r))
        as_answer_json(w->a, code, as_full_json(w->type, object));
    else if (w->change.old && json_equal(w->change.old, object))
        answer_version(w, code, w->before);
    else
        answer_version(w, code, as_store_put(&w->s->store, w->type, object, w->r->user.name, w->r->route.verb));
}

static void update_decoded(struct write *w)
{
    json_t *metadata = json_object_get(w->change.object, "metadata");
    char *sent = need_strdup(as_json_str(metadata, "resourceVersion"));
    as_fault_drop(w->r, w->change.object);
    as_change_prepare(&w->change, w->type, w->a);
    as_json_copy(json_object_get(w->change.object, "metadata"), json_object_get(w->change.old, "metadata"),
                 "resourceVersion");
    if (as_node_restriction(w->r, &w->change, w->a) && check_version(w, sent) && validate(w)) store(w, 200);
    free(sent);
}

static void create_decoded(struct write *w)
{
    json_t *metadata = json_object_get(w->change.object, "metadata");
    char *sent = need_strdup(as_json_str(metadata, "resourceVersion"));
    as_json_set(metadata, "resourceVersion", NULL);
    as_fault_drop(w->r, w->change.object);
    as_change_prepare(&w->change, w->type, w->a);
    const char *name = as_json_str(json_object_get(w->change.object, "metadata"), "name");
    if (!as_node_restriction(w->r, &w->change, w->a)) {
    } else if (!*name) {
        as_cause_required(w->change.causes, "metadata.name", "name or generateName is required");
        as_invalid(w->a, w->type->kind, w->type->group, "", w->change.causes);
    } else if (!validate(w)) {
    } else if (*sent && strcmp(sent, "0") != 0) {
        as_status(w->a, 500, NULL, NULL, "resourceVersion should not be set on objects to be created");
    } else if (as_store_get(&w->s->store, w->type, w->r->route.namespace_, name)) {
        as_exists(w->a, w->type, name);
    } else {
        store(w, 201);
    }
    free(sent);
}

/* ---- the verbs ---- */

static void write_init(struct write *w, struct as_causes *causes, struct apiserver *s, struct as_request *r,
                       struct as_answer *a)
{
    as_causes_init(causes);
    *w = (struct write){.s = s, .r = r, .a = a, .type = r->route.type, .strict = json_array()};
    w->change = (struct as_change){.gates = s->gates, .status = *r->route.subresource != '\0', .causes = causes};
}

static void write_fini(struct write *w)
{
    as_causes_fini(w->change.causes);
    json_decref((json_t *)w->change.old);
    json_decref(w->change.object);
    json_decref(w->strict);
}

/* Reads the object that an update or patch is about; false: 404 was answered. */
static bool load_old(struct write *w)
{
    as_fault_conflict(w->s, w->r);
    w->before = as_store_get(&w->s->store, w->type, w->r->route.namespace_, w->r->route.name);
    if (!w->before) {
        as_not_found(w->a, w->type, w->r->route.name);
        return false;
    }
    w->change.old = as_version_json(w->before, &w->s->gates);
    return true;
}

void as_create(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    struct write w;
    struct as_causes causes;
    pthread_mutex_lock(&s->mu);
    write_init(&w, &causes, s, r, a);
    if (decode_body(&w) && check_names(&w)) create_decoded(&w);
    write_fini(&w);
    pthread_mutex_unlock(&s->mu);
}

static bool check_uid(struct write *w)
{
    const char *sent = as_json_str(json_object_get(w->change.object, "metadata"), "uid");
    const char *stored = as_json_str(json_object_get(w->change.old, "metadata"), "uid");
    if (!*sent || !strcmp(sent, stored)) return true;
    as_conflict(w->a, w->type, w->r->route.name,
                "StorageError: invalid object, Code: 4, Key: /registry/%s%s%s/%s, ResourceVersion: 0, "
                "AdditionalErrorMsg: Precondition failed: UID in precondition: %s, UID in object meta: %s",
                w->type->plural, w->r->route.namespace_ ? "/" : "",
                w->r->route.namespace_ ? w->r->route.namespace_ : "", w->r->route.name, sent, stored);
    return false;
}

void as_update(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    struct write w;
    struct as_causes causes;
    pthread_mutex_lock(&s->mu);
    write_init(&w, &causes, s, r, a);
    bool decoded = decode_body(&w) && check_names(&w);
    bool creates = decoded && w.type->put_creates && !w.change.status &&
                   !as_store_get(&s->store, w.type, r->route.namespace_, r->route.name);
    if (creates)
        create_decoded(&w);
    else if (decoded && load_old(&w) && check_uid(&w))
        update_decoded(&w);
    write_fini(&w);
    pthread_mutex_unlock(&s->mu);
}

static bool is_patch_type(const struct write *w, const char *type)
{
    return as_media_type_is(w->r->content_type, type);
}

static bool strategic_patch(struct write *w, json_t *target, const json_t *patch)
{
    char *error = NULL;
    if (as_strategic_patch(w->type->schema, target, patch, &error)) return true;
    as_status(w->a, 500, NULL, NULL, "%s", error);
    free(error);
    return false;
}

/* The stored object with the patch applied, as JSON; NULL: answered. */
static json_t *apply_patch(struct write *w, const json_t *patch)
{
    json_t *full = as_full_json(w->type, w->change.old), *target = json_deep_copy(full);
    json_decref(full);
    if (is_patch_type(w, "application/merge-patch+json")) return as_merge_patch(target, patch);
    if (is_patch_type(w, "application/strategic-merge-patch+json")) {
        if (strategic_patch(w, target, patch)) return target;
    } else {
        if (as_json_patch(&target, patch)) return target;
        as_status(w->a, 422, "Invalid", json_object(),
                  "the server rejected our request due to an error in our request");
    }
    json_decref(target);
    return NULL;
}

static bool check_patched_uid(struct write *w)
{
    const json_t *metadata = json_object_get(w->change.object, "metadata");
    const char *stored = as_json_str(json_object_get(w->change.old, "metadata"), "uid"),
               *sent = as_json_str(metadata, "uid");
    if (!*sent || !strcmp(sent, stored)) return true;
    as_cause_invalid_text(w->change.causes, "metadata.uid", sent, "field is immutable");
    as_invalid(w->a, w->type->kind, w->type->group, w->r->route.name, w->change.causes);
    return false;
}

static void patch_with(struct write *w, const json_t *patch)
{
    if (!load_old(w)) return;
    json_t *patched = apply_patch(w, patch);
    if (!patched) return;
    bool ok = check_type(w, patched, true) && decode(w, patched, true) && check_names(w) && check_patched_uid(w);
    if (ok) update_decoded(w);
    json_decref(patched);
}

static bool is_list_of_objects(const json_t *patch)
{
    size_t i;
    json_t *item;
    json_array_foreach (patch, i, item) {
        if (!json_is_object(item)) return false;
    }
    return json_is_array(patch);
}

void as_patch(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    struct write w;
    struct as_causes causes;
    char *error = NULL;
    json_t *patch = as_json_parse(r->body ? r->body : "", r->body_len, &error);
    bool list = as_media_type_is(r->content_type, "application/json-patch+json");
    if (!patch || !(list ? is_list_of_objects(patch) : json_is_object(patch))) {
        as_bad_request(a, "%s", patch ? "error decoding patch: it has another type" : "invalid JSON patch");
        free(error);
        json_decref(patch);
        return;
    }
    pthread_mutex_lock(&s->mu);
    write_init(&w, &causes, s, r, a);
    as_duplicate_fields(r->body, r->body_len, w.strict);
    patch_with(&w, patch);
    write_fini(&w);
    pthread_mutex_unlock(&s->mu);
    json_decref(patch);
}

/* ---- delete ---- */

/* Kubernetes names the Kind here, not the resource. */
static void precondition_failed(const struct as_request *r, struct as_answer *a, const char *what, const char *wanted,
                                const char *found, const char *hint)
{
    const struct as_resource *type = r->route.type;
    json_t *details = as_status_details(type, r->route.name);
    json_object_set_new(details, "kind", json_string(type->kind));
    as_status(
        a, 409, "Conflict", details,
        "Operation cannot be fulfilled on %s%s%s \"%s\": the %s in the precondition (%s) does not match the %s in "
        "record (%s). The object might have been %s",
        type->kind, *type->group ? "." : "", type->group, r->route.name, what, wanted, what, found, hint);
}

static bool check_preconditions(const struct as_request *r, const json_t *options, const struct as_version *v,
                                struct as_answer *a)
{
    char rv[24];
    json_t *object = as_version_json(v, NULL);
    const json_t *wanted = json_object_get(options, "preconditions");
    const char *uid = as_json_str(wanted, "uid"), *version = as_json_str(wanted, "resourceVersion");
    const char *stored = as_json_str(json_object_get(object, "metadata"), "uid");
    snprintf(rv, sizeof rv, "%" PRIu64, v->rv);
    if (*uid && strcmp(uid, stored) != 0)
        precondition_failed(r, a, "UID", uid, stored, "deleted and then recreated");
    else if (*version && strcmp(version, rv) != 0)
        precondition_failed(r, a, "ResourceVersion", version, rv, "modified");
    json_decref(object);
    return a->code == 0;
}

static void delete_object(struct apiserver *s, struct as_request *r, const json_t *options, struct as_answer *a)
{
    const struct as_resource *type = r->route.type;
    as_fault_conflict(s, r);
    struct as_object *o = as_store_find(&s->store, type, r->route.namespace_, r->route.name);
    if (!o || !o->current) {
        as_not_found(a, type, r->route.name);
        return;
    }
    if (!check_preconditions(r, options, o->current, a)) return;
    struct as_version *last = as_version_ref(o->current);
    json_t *object = as_version_json(last, &s->gates);
    if (!is_dry_run(r)) as_store_delete(&s->store, o, r->user.name);
    if (type->deleted_object)
        as_answer_json(a, 200, as_full_json(type, object));
    else
        as_deleted(a, type, r->route.name, as_json_str(json_object_get(object, "metadata"), "uid"));
    json_decref(object);
    as_version_unref(last);
}

void as_delete(struct apiserver *s, struct as_request *r, struct as_answer *a)
{
    char *error = NULL;
    json_t *options = r->body_len ? as_json_parse(r->body, r->body_len, &error) : json_object();
    if (json_is_object(options)) {
        pthread_mutex_lock(&s->mu);
        delete_object(s, r, options, a);
        pthread_mutex_unlock(&s->mu);
    } else {
        as_bad_request(a, "couldn't get version/kind; json parse error: %s", error ? error : "not a JSON object");
    }
    free(error);
    json_decref(options);
}

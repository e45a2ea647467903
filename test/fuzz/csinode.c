/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edits of a CSINode. Input: allocation that fails, the object as JSON up to a NUL, then edits of six bytes each.
 * After each edit what it does not concern is as before, the question that belongs to it has the right answer, and the
 * same edit again changes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/csinode.h"
#include "core/json.h"
#include "fuzz/fuzz.h"

#define MAX_EDITS 12

enum edit_kind { PUT_DRIVER, PUT_REGISTRATION, REMOVE_DRIVER, REMOVE_REGISTRATION, ADD_OWNER, SET_MIGRATED, EDITS };

struct edit {
    enum edit_kind kind;
    char name[64], id[64];
    const char *keys[3];
    const char *plugins[3];
    size_t n_plugins;
    struct cr_csinode_driver want;
};

/* ---- what an edit may not touch ---- */

static json_t *list_of(const json_t *obj, const char *list)
{
    return json_object_get(json_object_get(obj, "spec"), list);
}

static json_t *entry_of(const json_t *obj, const char *list, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach (list_of(obj, list), i, entry)
        if (cr_json_is(json_object_get(entry, "name"), name)) return entry;
    return NULL;
}

static void drop_if_empty(json_t *object, const char *key)
{
    if (cr_json_empty(json_object_get(object, key))) json_object_del(object, key);
}

/* Absent, null and empty mean the same. */
static void normalise(json_t *obj)
{
    json_t *spec = json_object_get(obj, "spec"), *metadata = json_object_get(obj, "metadata");
    drop_if_empty(spec, "drivers");
    drop_if_empty(spec, "driverRegistrations");
    drop_if_empty(obj, "spec");
    drop_if_empty(metadata, "annotations");
    drop_if_empty(metadata, "ownerReferences");
}

static void remove_entries(json_t *obj, const char *list, const char *name)
{
    json_t *entries = list_of(obj, list);
    for (size_t i = json_array_size(entries); i-- > 0;)
        if (cr_json_is(json_object_get(json_array_get(entries, i), "name"), name)) json_array_remove(entries, i);
}

static bool is_own_owner(const json_t *ref, const struct edit *e)
{
    return cr_json_is(json_object_get(ref, "name"), e->name) && cr_json_is(json_object_get(ref, "uid"), e->id);
}

static void remove_owner(json_t *obj, const struct edit *e)
{
    json_t *refs = json_object_get(json_object_get(obj, "metadata"), "ownerReferences");
    for (size_t i = json_array_size(refs); i-- > 0;)
        if (is_own_owner(json_array_get(refs, i), e)) json_array_remove(refs, i);
}

/* The object without what the edit may touch. */
static json_t *remainder(const json_t *obj, const struct edit *e)
{
    json_t *copy = json_deep_copy(obj), *entry;
    CHECK(copy);
    switch (e->kind) {
    case PUT_DRIVER:
        entry = entry_of(copy, "drivers", e->name);
        drop_if_empty(json_object_get(entry, "allocatable"), "count");
        break;
    case REMOVE_DRIVER:
        remove_entries(copy, "drivers", e->name);
        break;
    case PUT_REGISTRATION:
        entry = entry_of(copy, "driverRegistrations", e->name);
        json_object_del(entry, "nodeID");
        break;
    case REMOVE_REGISTRATION:
        remove_entries(copy, "driverRegistrations", e->name);
        break;
    case ADD_OWNER:
        remove_owner(copy, e);
        break;
    case SET_MIGRATED:
    case EDITS:
        json_object_del(json_object_get(json_object_get(copy, "metadata"), "annotations"),
                        CR_MIGRATED_PLUGINS_ANNOTATION);
        break;
    }
    normalise(copy);
    return copy;
}

/* An entry that is put anew is the last of its list; of one that was there only the count may differ. */
static void undo_put(json_t *after, const json_t *before, const struct edit *e)
{
    const char *list = e->kind == PUT_DRIVER ? "drivers" : "driverRegistrations";
    json_t *old = entry_of(before, list, e->name), *new = entry_of(after, list, e->name);
    CHECK(new);
    if (!old) {
        json_t *entries = list_of(after, list);
        CHECK(json_array_get(entries, json_array_size(entries) - 1) == new);
        json_array_remove(entries, json_array_size(entries) - 1);
    } else if (e->kind == PUT_DRIVER) {
        json_t *allocatable = json_object_get(new, "allocatable"), *was = json_object_get(old, "allocatable");
        json_object_del(allocatable, "count");
        if (!json_is_object(was) || cr_json_empty(allocatable)) json_object_del(new, "allocatable");
    }
}

static void undo_put_before(json_t *before, const struct edit *e)
{
    json_t *old = e->kind == PUT_DRIVER ? entry_of(before, "drivers", e->name) : NULL;
    json_t *allocatable = json_object_get(old, "allocatable");
    json_object_del(allocatable, "count");
    if (!json_is_object(allocatable) || cr_json_empty(allocatable)) json_object_del(old, "allocatable");
}

static void check_rest(const json_t *before, const json_t *after, const struct edit *e)
{
    json_t *a = json_deep_copy(before), *b = json_deep_copy(after);
    if (e->kind == PUT_DRIVER || e->kind == PUT_REGISTRATION) {
        undo_put(b, before, e);
        undo_put_before(a, e);
    }
    json_t *x = remainder(a, e), *y = remainder(b, e);
    CHECK(json_equal(x, y));
    json_decref(a);
    json_decref(b);
    json_decref(x);
    json_decref(y);
}

/* ---- edits ---- */

static int apply(json_t *obj, const struct edit *e)
{
    switch (e->kind) {
    case PUT_DRIVER:
        return cr_csinode_put_driver(obj, &e->want);
    case PUT_REGISTRATION:
        return cr_csinode_put_registration(obj, e->name, e->id);
    case REMOVE_DRIVER:
        return cr_csinode_remove_driver(obj, e->name);
    case REMOVE_REGISTRATION:
        return cr_csinode_remove_registration(obj, e->name);
    case ADD_OWNER:
        return cr_csinode_owner(obj, e->name, e->id) == CR_OWNER_OK ? 0 : cr_csinode_add_owner(obj, e->name, e->id);
    case SET_MIGRATED:
    case EDITS:
        break;
    }
    return cr_csinode_set_migrated(obj, e->plugins, e->n_plugins);
}

static void check_answer(const json_t *obj, const struct edit *e)
{
    switch (e->kind) {
    case PUT_DRIVER:
        CHECK(cr_csinode_match_driver(obj, &e->want) == CR_DRIVER_EQUAL);
        CHECK(strcmp(cr_csinode_driver_node_id(obj, e->name), e->id) == 0);
        break;
    case PUT_REGISTRATION:
        CHECK(cr_csinode_match_registration(obj, e->name, e->id) == CR_REGISTRATION_EQUAL);
        break;
    case REMOVE_DRIVER:
        CHECK(cr_csinode_match_driver(obj, &e->want) == CR_DRIVER_ABSENT);
        CHECK(!cr_csinode_driver_node_id(obj, e->name));
        break;
    case REMOVE_REGISTRATION:
        CHECK(cr_csinode_match_registration(obj, e->name, e->id) == CR_REGISTRATION_ABSENT);
        break;
    case ADD_OWNER:
        CHECK(cr_csinode_owner(obj, e->name, e->id) == CR_OWNER_OK);
        break;
    case SET_MIGRATED:
    case EDITS:
        break;
    }
}

static void check_again(const json_t *obj, const struct edit *e)
{
    json_t *copy = json_deep_copy(obj);
    CHECK(apply(copy, e) == 0);
    CHECK(json_equal(copy, obj));
    json_decref(copy);
}

static void check_edit(json_t *obj, const struct edit *e)
{
    json_t *before = json_deep_copy(obj);
    enum cr_driver_match match = cr_csinode_match_driver(obj, &e->want);
    int rc = apply(obj, e);
    if (e->kind == PUT_DRIVER && match == CR_DRIVER_IMMUTABLE_DIFFERS) {
        CHECK(rc == CSIREG_ERR_INVALID);
        CHECK(json_equal(before, obj));
    } else {
        CHECK(rc == 0);
        check_answer(obj, e);
        check_rest(before, obj, e);
        check_again(obj, e);
    }
    json_decref(before);
}

/* ---- reading them from the input ---- */

static const char *const all_keys[] = {"topology.example.com/rack", "topology.example.com/zone", "zone"};
static const char *const all_plugins[] = {"kubernetes.io/gce-pd", "kubernetes.io/aws-ebs", "a,b"};
static const char *const some_names[] = {"a.example.com", "b.example.com", "n1"};

static void pick_name(char out[64], const json_t *obj, uint8_t which)
{
    json_t *names = cr_csinode_names(obj);
    CHECK(names);
    size_t n = json_array_size(names), k = which % (n + 3);
    const char *name = k < 3 ? some_names[k] : json_string_value(json_array_get(names, k - 3));
    size_t len = strlen(name);
    if (len > 63) name = some_names[0];
    memcpy(out, name, strlen(name) + 1);
    json_decref(names);
}

static void pick_id(char out[64], const json_t *obj, const char *name, uint8_t which)
{
    const char *stored = cr_csinode_driver_node_id(obj, name);
    const char *id = which % 3 == 0 && stored ? stored : which % 3 == 1 ? "u1" : "id-2";
    if (strlen(id) > 63) id = "id-3";
    memcpy(out, id, strlen(id) + 1);
}

static void read_edit(struct edit *e, const json_t *obj, struct fuzz_in *in)
{
    static const int32_t counts[] = {0, 1, 39, INT32_MAX};
    *e = (struct edit){.kind = (enum edit_kind)(fuzz_byte(in) % EDITS)};
    pick_name(e->name, obj, fuzz_byte(in));
    pick_id(e->id, obj, e->name, fuzz_byte(in));
    uint8_t keys = fuzz_byte(in), count = fuzz_byte(in), plugins = fuzz_byte(in);
    e->want = (struct cr_csinode_driver){.name = e->name, .node_id = e->id, .topology_keys = e->keys};
    for (size_t i = 0; i < 3; i++) {
        if (keys >> i & 1) e->keys[e->want.n_topology_keys++] = all_keys[i];
        if (plugins >> i & 1) e->plugins[e->n_plugins++] = all_plugins[i];
    }
    e->want.has_count = count & 1;
    e->want.count = counts[count / 2 % 4];
}

/* ---- whole objects ---- */

/* What is sent says the same as the object, and always has a list of drivers. */
static void check_text(const json_t *obj)
{
    char *text = cr_csinode_text(obj);
    CHECK(text);
    json_t *sent = NULL, *copy = json_deep_copy(obj);
    CHECK(cr_json_parse(text, strlen(text), JSON_REJECT_DUPLICATES, &sent, NULL) == 0);
    json_t *spec = json_object_get(sent, "spec"), *registrations = json_object_get(spec, "driverRegistrations");
    CHECK(json_is_array(json_object_get(spec, "drivers")));
    CHECK(!registrations || json_array_size(registrations) > 0);
    normalise(sent);
    normalise(copy);
    CHECK(json_equal(sent, copy));
    json_decref(sent);
    json_decref(copy);
    cr_free(text);
}

/* The n-th allocation fails: no crash, no leak, and no other end than success, refusal or no memory. */
static void edit_short_of_memory(const json_t *obj, struct edit *e, uint8_t fails)
{
    json_t *copy = json_deep_copy(obj);
    fuzz_short_of_memory(fails);
    int rc = apply(copy, e);
    char *text = cr_csinode_text(copy);
    bool was_short = fuzz_memory_was_short();
    CHECK(rc == 0 || rc == CSIREG_ERR_NOMEM || rc == CSIREG_ERR_INVALID);
    CHECK(text || was_short);
    cr_free(text);
    json_decref(copy);
}

static void check_limit(struct fuzz_in *in)
{
    uint64_t bits = 0;
    bool has = false;
    int32_t count = 0;
    char *warning = NULL;
    for (int i = 0; i < 8; i++) bits = bits << 8 | fuzz_byte(in);
    int64_t limit = (int64_t)bits;
    CHECK(cr_csinode_count_from_limit(limit, &has, &count, &warning) == 0);
    CHECK(has == (limit > 0));
    CHECK(count == (limit <= 0 ? 0 : limit > INT32_MAX ? INT32_MAX : limit));
    CHECK(!warning == (limit >= 0 && limit <= INT32_MAX));
    if (warning) fuzz_check_text(warning, 200);
    cr_free(warning);
}

static const char *name_of(const json_t *obj)
{
    const char *name = cr_json_str(json_object_get(obj, "metadata"), "name");
    return name ? name : "n1";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    struct csireg_error *err = NULL;
    struct edit e;
    uint8_t fails = fuzz_byte(&in);
    json_t *obj = fuzz_json(&in);
    if (!obj) return 0;
    int rc = cr_csinode_check(obj, name_of(obj), &err);
    if (rc != 0) {
        fuzz_check_error(rc, err);
    } else {
        check_text(obj);
        for (int i = 0; i < MAX_EDITS && in.left; i++) {
            read_edit(&e, obj, &in);
            if (fails) edit_short_of_memory(obj, &e, fails);
            check_edit(obj, &e);
            CHECK(cr_csinode_check(obj, name_of(obj), NULL) == 0);
        }
        check_text(obj);
    }
    check_limit(&in);
    json_decref(obj);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What is written to CSINode, to the byte, and what is left alone. */
#include <stdlib.h>
#include <string.h>

#include "unit/core_rig.h"

#define PATCH            "patch nodes/status | PATCH /api/v1/nodes/n1/status"
#define POST             "create csinodes | POST /apis/storage.k8s.io/v1/csinodes"
#define PUT              "update csinodes | PUT /apis/storage.k8s.io/v1/csinodes/n1"
#define OWNER            "'ownerReferences':[{'apiVersion':'v1','kind':'Node','name':'n1','uid':'node-1'}]"
#define D(name, id, key) "{'name':'" name "','nodeID':'" id "','topologyKeys':['" key "'],'allocatable':{'count':10}}"
#define D_A              D("a.example.com", "id-a", "a.example.com/zone")

static json_t *spec_of_body(struct rig *r, const char *match)
{
    json_t *body = rig_body(r, match), *spec = json_incref(json_object_get(body, "spec"));
    json_decref(body);
    return spec;
}

/* The stored entry of a driver in spec.drivers, a new reference. */
static json_t *d_of(struct rig *r, const char *name) { return json_incref(rig_entry(r, "drivers", name)); }
static json_t *r_of(struct rig *r, const char *name) { return json_incref(rig_entry(r, "driverRegistrations", name)); }

/* ---- exact requests ---- */

static void test_the_created_object(void **state)
{
    static const char *const plugins[] = {"kubernetes.io/cinder", "kubernetes.io/aws-ebs"};
    (void)state;
    struct rig *r = rig_new();
    r->config.migrated_plugins = plugins;
    r->config.n_migrated_plugins = 2;
    rig_start(r);
    rig_up(r, rig_plugin(r, "a"));
    assert_string_equal(rig_last(r, POST)->text, POST);
    assert_string_equal(rig_last(r, POST)->request.content_type, "application/json");
    rig_expect_json(rig_body(r, POST),
                    "{'apiVersion':'storage.k8s.io/v1','kind':'CSINode','metadata':{'name':'n1'," OWNER
                    ",'annotations':{'storage.alpha.kubernetes.io/migrated-plugins':"
                    "'kubernetes.io/aws-ebs,kubernetes.io/cinder'}},'spec':{'drivers':[" D_A "]}}");
    rig_free(r);
}

static void test_the_created_object_in_the_controller_flow(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_up(r, rig_capable(r, "a"));
    rig_expect_json(rig_body(r, POST),
                    "{'apiVersion':'storage.k8s.io/v1','kind':'CSINode','metadata':{'name':'n1'," OWNER
                    "},'spec':{'drivers':[],'driverRegistrations':[{'name':'a.example.com','nodeID':'id-a'}]}}");
    rig_free(r);
}

static void test_the_update_keeps_what_is_not_ours(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_set_csinode(r, "{'drivers':[{'name':'x','nodeID':'xi','topologyKeys':['b','a'],'new':[1]}],'later':{'k':null},"
                       "'driverRegistrations':[{'name':'y','nodeID':'yi','new':2}]}");
    json_object_set_new(json_object_get(r->csinode, "metadata"), "managedFields", rig_json("[{'manager':'m'}]"));
    json_object_set_new(r->csinode, "status", rig_json("{'storageHealth':[]}"));
    json_t *want = json_deep_copy(r->csinode);
    json_array_append_new(json_object_get(json_object_get(want, "spec"), "drivers"), rig_json(D_A));
    rig_up(r, rig_plugin(r, "a"));
    assert_string_equal(rig_last(r, PUT)->text, PUT);
    json_t *body = rig_body(r, PUT); /* resourceVersion and uid as received */
    assert_true(json_equal(body, want));
    json_decref(body);
    json_decref(want);
    rig_free(r);
}

static void test_requests_go_to_the_configured_node(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.node_name = "node.with.dots";
    rig_start(r);
    rig_hold(r, "get");
    rig_appear(r, rig_plugin(r, "a"));
    rig_settle(r);
    assert_non_null(rig_last(r, "get nodes | GET /api/v1/nodes/node.with.dots"));
    assert_non_null(rig_last(r, "get csinodes | GET /apis/storage.k8s.io/v1/csinodes/node.with.dots"));
    rig_free(r);
}

/* ---- the count ---- */

static void assert_count(int64_t limit, const char *want, bool warns)
{
    char entry[256];
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->limit = limit;
    a->topology[0] = NULL;
    rig_up(r, a);
    snprintf(entry, sizeof entry, "{'name':'a.example.com','nodeID':'id-a','topologyKeys':[]%s}", want);
    rig_expect_json(d_of(r, "a.example.com"), entry);
    assert_int_equal(rig_count(r, "event WARNING a.example.com"), warns);
    assert_true(rig_registered(r, a));
    rig_mark(r);
    rig_appear(r, a); /* the same value again is no change, whatever the raw number was */
    rig_advance(r, 1000);
    rig_expect_requests(r, "");
    assert_int_equal(rig_count(r, "event WARNING"), 0);
    rig_free(r);
}

static void test_counts(void **state)
{
    (void)state;
    assert_count(0, "", false);
    assert_count(1, ",'allocatable':{'count':1}", false);
    assert_count(INT32_MAX, ",'allocatable':{'count':2147483647}", false);
    assert_count((int64_t)INT32_MAX + 1, ",'allocatable':{'count':2147483647}", true);
    assert_count(INT64_MAX, ",'allocatable':{'count':2147483647}", true);
    assert_count(-1, "", true);
    assert_count(INT64_MIN, "", true);
}

static void assert_count_change(int64_t from, int64_t to, const char *want)
{
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->limit = from;
    rig_up(r, a);
    a->limit = to;
    rig_mark(r);
    rig_up(r, a);
    rig_expect_requests(r, "update csinodes");
    json_t *allocatable = json_object_get(rig_entry(r, "drivers", "a.example.com"), "allocatable");
    rig_expect_json(allocatable ? json_incref(allocatable) : json_null(), want);
    rig_free(r);
}

static void test_changed_counts(void **state)
{
    (void)state;
    assert_count_change(0, 10, "{'count':10}");
    assert_count_change(10, 0, "null"); /* an allocatable left empty goes */
    assert_count_change(25, 10, "{'count':10}");
}

/* ---- an entry that is there already ---- */

static void test_an_equal_entry_is_not_written(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_set_csinode(r, "{'drivers':[" D_A "]}");
    rig_up(r, rig_plugin(r, "a"));
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status");
    rig_free(r);
}

static void test_only_the_count_is_edited(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_set_csinode(r, "{'drivers':[{'name':'a.example.com','nodeID':'id-a','topologyKeys':['z','b/y'],'new':1,"
                       "'allocatable':{'count':5,'new':2}},{'name':'x','nodeID':'xi','topologyKeys':null}]}");
    a->topology[0] = "b/y=1";
    a->topology[1] = "z=2";
    rig_up(r, a);
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status, update csinodes");
    rig_expect_json(json_incref(json_object_get(json_object_get(r->csinode, "spec"), "drivers")),
                    "[{'name':'a.example.com','nodeID':'id-a','topologyKeys':['z','b/y'],'new':1,"
                    "'allocatable':{'count':10,'new':2}},{'name':'x','nodeID':'xi','topologyKeys':null}]");
    rig_free(r);
}

static void test_keys_are_sorted(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    a->topology[0] = "B=1";
    a->topology[1] = "a/x=1";
    a->topology[2] = "a/y=1";
    rig_up(r, a);
    rig_expect_json(d_of(r, "a.example.com"), "{'name':'a.example.com','nodeID':'id-a','topologyKeys':"
                                              "['B','a/x','a/y'],'allocatable':{'count':10}}");
    rig_free(r);
}

/* What is immutable is replaced by two updates of one attempt; the registration goes in the first. */
static void assert_replaced(const char *old)
{
    char spec[512];
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    snprintf(spec, sizeof spec, "{'drivers':[%s],'driverRegistrations':[{'name':'a.example.com','nodeID':'%s'}]}", old,
             strstr(old, "'old'") ? "old" : "id-a");
    rig_set_csinode(r, spec);
    rig_appear(r, a);
    rig_hold(r, "update");
    rig_settle(r);
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status, update csinodes");
    rig_expect_json(spec_of_body(r, PUT), "{'drivers':[]}");
    rig_answer(r, "update");
    rig_settle(r);
    assert_false(rig_registered(r, a));
    assert_int_equal(rig_count(r, "update"), 2);
    rig_answer(r, "update");
    rig_settle(r);
    assert_true(rig_registered(r, a));
    assert_int_equal(rig_count(r, "Notify true"), 1);
    assert_int_equal(rig_count(r, "event FAILED"), 0);
    rig_expect_json(d_of(r, "a.example.com"), D_A);
    assert_null(rig_entry(r, "driverRegistrations", "a.example.com"));
    rig_free(r);
}

static void test_another_id_or_key_set(void **state)
{
    (void)state;
    assert_replaced(D("a.example.com", "old", "a.example.com/zone"));
    assert_replaced(D("a.example.com", "id-a", "other/key"));
    assert_replaced("{'name':'a.example.com','nodeID':'id-a','topologyKeys':['a.example.com/zone','more']}");
}

static void test_the_node_flow_removes_the_registration(void **state)
{
    (void)state;
    struct rig *r = rig_started(); /* even with the gate off, and although the entry needs no change */
    rig_set_csinode(r, "{'drivers':[" D_A "],'driverRegistrations':[{'name':'a.example.com','nodeID':'id-a'},"
                       "{'name':'b.example.com','nodeID':'id-b'}]}");
    rig_up(r, rig_plugin(r, "a"));
    assert_int_equal(rig_count(r, "update"), 1);
    assert_null(rig_entry(r, "driverRegistrations", "a.example.com"));
    assert_non_null(rig_entry(r, "driverRegistrations", "b.example.com")); /* not registered here: left */
    rig_free(r);
}

/* ---- the controller flow ---- */

static void test_a_registration_leaves_the_same_entry_alone(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_set_csinode(r, "{'drivers':[{'name':'a.example.com','nodeID':'id-a','topologyKeys':['k'],'new':1}]}");
    rig_up(r, rig_capable(r, "a"));
    rig_expect_requests(r, "get nodes, get csinodes, update csinodes");
    rig_expect_json(json_incref(json_object_get(r->csinode, "spec")),
                    "{'drivers':[{'name':'a.example.com','nodeID':'id-a','topologyKeys':['k'],'new':1}],"
                    "'driverRegistrations':[{'name':'a.example.com','nodeID':'id-a'}]}");
    rig_free(r);
}

static void test_a_registration_replaces_another_entry_at_once(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_set_csinode(r, "{'drivers':[{'name':'a.example.com','nodeID':'old'}]}");
    rig_up(r, rig_capable(r, "a"));
    rig_expect_requests(r, "get nodes, get csinodes, update csinodes");
    assert_null(rig_entry(r, "drivers", "a.example.com"));
    rig_expect_json(r_of(r, "a.example.com"), "{'name':'a.example.com','nodeID':'id-a'}");
    rig_free(r);
}

static void test_a_registration_is_edited_in_place(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_set_csinode(r, "{'driverRegistrations':[{'name':'a.example.com','nodeID':'old','new':1},"
                       "{'name':'x','nodeID':'xi'}]}");
    rig_up(r, rig_capable(r, "a"));
    rig_expect_json(json_incref(json_object_get(r->csinode, "spec")),
                    "{'drivers':[],'driverRegistrations':[{'name':'a.example.com','nodeID':'id-a','new':1},"
                    "{'name':'x','nodeID':'xi'}]}");
    rig_free(r);
}

static void assert_annotation_in_the_controller_flow(const char *ids, const char *after, const char *requests)
{
    struct rig *r = rig_gate_on();
    json_t *annotations = json_object_get(json_object_get(r->node, "metadata"), "annotations");
    json_object_set_new(annotations, "csi.volume.kubernetes.io/nodeid", json_string(ids));
    rig_set_csinode(r, "{'drivers':[]}");
    rig_up(r, rig_capable(r, "a"));
    rig_expect_requests(r, requests);
    assert_string_equal(rig_ids(r), after);
    rig_free(r);
}

static void test_a_stale_annotation_key_goes(void **state)
{
    (void)state;
    const char *plain = "get nodes, get csinodes, update csinodes";
    const char *more = "get nodes, get csinodes, update csinodes, patch nodes/status";
    assert_annotation_in_the_controller_flow("{\"a.example.com\":\"id-a\"}", "{\"a.example.com\":\"id-a\"}", plain);
    assert_annotation_in_the_controller_flow("{\"a.example.com\":\"old\",\"x\":\"1\"}", "{\"x\":\"1\"}", more);
    assert_annotation_in_the_controller_flow("{\"a.example.com\":\"old\"}", "", more);
    assert_annotation_in_the_controller_flow("not json", "not json", plain);
}

/* ---- removal ---- */

static void test_removal_in_the_node_flow(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_up(r, a);
    rig_mark(r);
    rig_vanish(r, a);
    rig_advance(r, 1000);
    rig_expect(r, "event UNREGISTERED a.example.com", PUT, PATCH);
    json_t *body = rig_body(r, PUT), *patch = rig_body(r, PATCH);
    rig_expect_json(json_incref(json_object_get(body, "spec")), "{'drivers':[]}"); /* the object stays */
    json_decref(body);
    rig_expect_json(json_incref(json_object_get(json_object_get(patch, "metadata"), "annotations")),
                    "{'csi.volume.kubernetes.io/nodeid':null}");
    assert_null(json_object_get(json_object_get(patch, "metadata"), "labels"));
    json_decref(patch);
    assert_string_equal(rig_label(r, "a.example.com/zone"), "z1"); /* labels stay */
    rig_free(r);
}

static void test_removal_of_both_entries_is_one_update(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    struct rig_plugin *a = rig_capable(r, "a");
    rig_up(r, a);
    json_array_append_new(json_object_get(json_object_get(r->csinode, "spec"), "drivers"),
                          rig_json("{'name':'a.example.com','nodeID':'id-a'}")); /* the controller side */
    rig_mark(r);
    rig_vanish(r, a);
    rig_advance(r, 1000);
    rig_expect_requests(r, "update csinodes");
    rig_expect_json(json_incref(json_object_get(r->csinode, "spec")), "{'drivers':[]}");
    rig_free(r);
}

static void test_nothing_to_remove_is_no_request(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    struct rig_plugin *a = rig_plugin(r, "a");
    rig_fault(r, (struct rig_fault){.match = "NodeGetInfo", .times = 2, .number = 2});
    rig_appear(r, a);
    rig_settle(r);
    rig_expect_requests(r, "get nodes, get csinodes"); /* the first such failure reads */
    rig_advance(r, 600);
    assert_int_equal(rig_count(r, "Notify false"), 2);
    rig_vanish(r, a);
    rig_advance(r, 1000);
    rig_expect_requests(r, "get nodes, get csinodes");
    rig_free(r);
}

/* ---- the owner ---- */

static void set_owner(struct rig *r, const char *owners)
{
    json_object_set_new(json_object_get(r->csinode, "metadata"), "ownerReferences", rig_json(owners));
}

static void test_a_stale_object_is_replaced(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_set_csinode(r, "{'drivers':[{'name':'x','nodeID':'xi'}]}");
    set_owner(r, "[{'apiVersion':'v1','kind':'Node','name':'n1','uid':'earlier'}]");
    json_t *meta = json_incref(json_object_get(r->csinode, "metadata"));
    rig_up(r, rig_plugin(r, "a"));
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status, delete csinodes, create csinodes");
    json_t *body = rig_body(r, "delete csinodes | DELETE /apis/storage.k8s.io/v1/csinodes/n1");
    const json_t *pre = json_object_get(body, "preconditions");
    assert_true(json_equal(json_object_get(pre, "uid"), json_object_get(meta, "uid")));
    assert_true(json_equal(json_object_get(pre, "resourceVersion"), json_object_get(meta, "resourceVersion")));
    assert_non_null(rig_entry(r, "drivers", "a.example.com"));
    assert_null(rig_entry(r, "drivers", "x"));
    json_decref(body);
    json_decref(meta);
    rig_free(r);
}

static void test_a_stale_object_is_replaced_with_all_drivers(void **state)
{
    (void)state;
    struct rig *r = rig_gate_on();
    rig_up(r, rig_plugin(r, "a"));
    rig_up(r, rig_capable(r, "b"));
    rig_new_node(r); /* the machine was made anew; the CSINode is still the old one's */
    rig_advance(r, 20000);
    rig_mark(r);
    rig_up(r, rig_plugin(r, "c"));
    const char *names[] = {"a.example.com", "c.example.com"};
    for (size_t k = 0; k < 2; k++) assert_non_null(rig_entry(r, "drivers", names[k]));
    assert_non_null(rig_entry(r, "driverRegistrations", "b.example.com"));
    assert_string_equal(rig_label(r, "a.example.com/zone"), "z1");
    assert_int_equal(rig_count(r, "delete"), 1);
    assert_int_equal(rig_count(r, "GetInfo /r/a") + rig_count(r, "GetInfo /r/b"), 0); /* no plugin is touched */
    rig_free(r);
}

static void test_owners_of_other_kinds(void **state)
{
    static const char *const owners[] = {"[]", "[{'apiVersion':'v1','kind':'Pod','name':'n1','uid':'p'}]"};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct rig *r = rig_started();
        rig_set_csinode(r, "{'drivers':[]}");
        set_owner(r, owners[k]);
        rig_up(r, rig_plugin(r, "a"));
        assert_int_equal(rig_count(r, "delete"), 0);
        json_t *stored = json_object_get(json_object_get(r->csinode, "metadata"), "ownerReferences");
        assert_int_equal(json_array_size(stored), k + 1); /* the right one is added */
        rig_expect_json(json_incref(json_array_get(stored, k)),
                        "{'apiVersion':'v1','kind':'Node','name':'n1','uid':'node-1'}");
        rig_free(r);
    }
}

static void test_several_owners_and_one_of_them_right(void **state)
{
    (void)state;
    struct rig *r = rig_started();
    rig_set_csinode(r, "{'drivers':[]}");
    set_owner(r, "[{'apiVersion':'v1','kind':'Node','name':'n1','uid':'earlier'},"
                 "{'apiVersion':'v1','kind':'Node','name':'n1','uid':'node-1'}]");
    rig_up(r, rig_plugin(r, "a"));
    assert_int_equal(rig_count(r, "delete"), 0);
    rig_free(r);
}

/* The owner that is added to a CSINode without one must be the live Node: a uid that was read before the Node was made
 * anew makes the object a stale one, and foreign entries go with it at the next verification. */
static void test_an_added_owner_is_the_live_node(void **state)
{
    (void)state;
    struct rig *r = rig_new();
    r->config.gate = true;
    r->config.verify_interval_ms = 300000;
    rig_start(r);
    rig_set_csinode(r, "{'drivers':[{'name':'x','nodeID':'xi'}]}");
    rig_up(r, rig_capable(r, "a"));
    rig_new_node(r);
    json_object_set_new(json_object_get(r->csinode, "metadata"), "ownerReferences", json_array());
    rig_touch_csinode(r);
    rig_advance(r, 60000);
    rig_up(r, rig_capable(r, "b"));
    rig_advance(r, 700000);
    assert_non_null(rig_entry(r, "drivers", "x"));
    rig_free(r);
}

/* ---- migrated plugins ---- */

static void assert_migrated(const char *existing, const char *requests, const char *after)
{
    static const char *const plugins[] = {"b", "a"};
    struct rig *r = rig_new();
    r->config.migrated_plugins = plugins;
    r->config.n_migrated_plugins = 2;
    rig_start(r);
    rig_set_csinode(r, "{'drivers':[" D_A "]}");
    json_t *annotations = json_pack("{s:s}", "storage.alpha.kubernetes.io/migrated-plugins", existing);
    json_object_set_new(json_object_get(r->csinode, "metadata"), "annotations", annotations);
    rig_up(r, rig_plugin(r, "a"));
    rig_expect_requests(r, "get nodes, get csinodes, patch nodes/status"); /* alone it never causes a write */
    rig_mark(r);
    rig_up(r, rig_plugin(r, "b"));
    rig_expect_requests(r, requests);
    annotations = json_object_get(json_object_get(r->csinode, "metadata"), "annotations");
    assert_string_equal(json_string_value(json_object_get(annotations, "storage.alpha.kubernetes.io/migrated-plugins")),
                        after);
    rig_free(r);
}

static void test_migrated_plugins_go_with_another_write(void **state)
{
    (void)state;
    assert_migrated("x", "patch nodes/status, update csinodes", "a,b");
    assert_migrated("b,a", "patch nodes/status, update csinodes", "b,a"); /* equal as a set */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_created_object),
        cmocka_unit_test(test_the_created_object_in_the_controller_flow),
        cmocka_unit_test(test_the_update_keeps_what_is_not_ours),
        cmocka_unit_test(test_requests_go_to_the_configured_node),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_changed_counts),
        cmocka_unit_test(test_an_equal_entry_is_not_written),
        cmocka_unit_test(test_only_the_count_is_edited),
        cmocka_unit_test(test_keys_are_sorted),
        cmocka_unit_test(test_another_id_or_key_set),
        cmocka_unit_test(test_the_node_flow_removes_the_registration),
        cmocka_unit_test(test_a_registration_leaves_the_same_entry_alone),
        cmocka_unit_test(test_a_registration_replaces_another_entry_at_once),
        cmocka_unit_test(test_a_registration_is_edited_in_place),
        cmocka_unit_test(test_a_stale_annotation_key_goes),
        cmocka_unit_test(test_removal_in_the_node_flow),
        cmocka_unit_test(test_removal_of_both_entries_is_one_update),
        cmocka_unit_test(test_nothing_to_remove_is_no_request),
        cmocka_unit_test(test_a_stale_object_is_replaced),
        cmocka_unit_test(test_a_stale_object_is_replaced_with_all_drivers),
        cmocka_unit_test(test_owners_of_other_kinds),
        cmocka_unit_test(test_several_owners_and_one_of_them_right),
        cmocka_unit_test(test_migrated_plugins_go_with_another_write),
        cmocka_unit_test(test_an_added_owner_is_the_live_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

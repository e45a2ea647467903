// SPDX-License-Identifier: Apache-2.0
/* The emulated API server over TLS: what it stores, what it refuses and in which words. */
#include "test_apiserver_client.h"

static void creates_and_reads(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(create(&f->node, CSINODES, "{\"metadata\":{\"name\":\"n1\",\"uid\":\"mine\"}}"), 201);
    char *made = strdup(f->node.body.data);
    assert_string_equal(str(f->node.json, "kind"), "CSINode");
    assert_string_equal(str(f->node.json, "apiVersion"), "storage.k8s.io/v1");
    assert_int_equal(strlen(str(f->node.json, "metadata uid")), 36);
    assert_int_equal(strlen(str(f->node.json, "metadata creationTimestamp")), strlen("2026-12-01T00:00:00Z"));
    expect_json(at(f->node.json, "spec"), "{\"drivers\":null}");
    expect_json(at(f->node.json, "status"), "{}");
    assert_int_equal(get(&f->node, CSINODE), 200);
    assert_string_equal(f->node.body.data, made);
    free(made);
    create(&f->node, CSINODES, "{\"metadata\":{\"name\":\"n1\"}}");
    expect_status(&f->node, 409, "AlreadyExists", "csinodes.storage.k8s.io \"n1\" already exists");
    expect_json(at(f->node.json, "details"), "{\"name\":\"n1\",\"group\":\"storage.k8s.io\",\"kind\":\"csinodes\"}");
    create(&f->admin, CSINODES, "{\"metadata\":{\"name\":\"x\",\"resourceVersion\":\"7\"}}");
    expect_status(&f->admin, 500, "", "resourceVersion should not be set on objects to be created");
    create(&f->admin, CSINODES, "{\"metadata\":{\"name\":\"A_b\"}}");
    expect_status(&f->admin, 422, "Invalid", NULL);
    expect_cause(&f->admin, 0, "FieldValueInvalid", "metadata.name", NULL);
    create(&f->admin, CSINODES, "{}");
    expect_cause(&f->admin, 0, "FieldValueRequired", "metadata.name",
                 "Required value: name or generateName is required");
}

/* Puts the object as it was last read with one change made by a merge patch to it. */
static long put_changed(struct client *c, const char *path, const char *change)
{
    get(c, path);
    json_t *object = json_deep_copy(c->json), *edit = json_loads(change, 0, NULL);
    json_object_update_recursive(object, edit);
    char *text = json_dumps(object, 0);
    long code = put(c, path, text);
    free(text);
    json_decref(edit);
    json_decref(object);
    return code;
}

static void updates_with_versions(void **state)
{
    struct fixture *f = *state;
    create(&f->node, CSINODES, "{\"metadata\":{\"name\":\"n1\"}}");
    char *version = strdup(str(f->node.json, "metadata resourceVersion"));
    put(&f->node, CSINODE, "{\"metadata\":{\"name\":\"n1\"}}");
    expect_status(&f->node, 422, "Invalid",
                  "csinodes.storage.k8s.io \"n1\" is invalid: metadata.resourceVersion: Invalid value: 0: must be "
                  "specified for an update");
    put(&f->node, CSINODE, "{\"metadata\":{\"name\":\"n1\",\"resourceVersion\":\"1\"}}");
    expect_status(
        &f->node, 409, "Conflict",
        "Operation cannot be fulfilled on csinodes.storage.k8s.io \"n1\": the object has been modified; please "
        "apply your changes to the latest version and try again");
    put(&f->node, CSINODE, "{\"metadata\":{\"name\":\"n1\",\"resourceVersion\":\"1\",\"uid\":\"A\"}}");
    expect_status(&f->node, 409, "Conflict", NULL);
    assert_non_null(strstr(f->node.body.data, "Key: /registry/csinodes/n1, ResourceVersion: 0, AdditionalErrorMsg: "
                                              "Precondition failed: UID in precondition: A, UID in object meta: "));
    put(&f->node, CSINODE, "{\"metadata\":{\"name\":\"other\",\"resourceVersion\":\"1\"}}");
    expect_status(&f->node, 400, "BadRequest",
                  "the name of the object (other) does not match the name on the URL (n1)");
    /* What changes nothing keeps its version, also when it tries to change what it cannot. */
    assert_int_equal(put_changed(&f->node, CSINODE, "{\"metadata\":{\"creationTimestamp\":\"2000-01-01T00:00:00Z\"}}"),
                     200);
    assert_string_equal(str(f->node.json, "metadata resourceVersion"), version);
    assert_int_equal(put_changed(&f->node, CSINODE, "{\"spec\":{\"drivers\":[{\"name\":\"d\",\"nodeID\":\"i\"}]}}"),
                     200);
    assert_string_not_equal(str(f->node.json, "metadata resourceVersion"), version);
    put(&f->admin, CSINODES "/n9", "{\"metadata\":{\"name\":\"n9\",\"resourceVersion\":\"1\"}}");
    expect_status(&f->admin, 404, "NotFound", "csinodes.storage.k8s.io \"n9\" not found");
    /* A Node may be put without a version. */
    assert_int_equal(put(&f->admin, NODES "/n1", "{\"metadata\":{\"name\":\"n1\",\"labels\":{\"a\":\"b\"}}}"), 200);
    free(version);
}

static void deletes_with_preconditions(void **state)
{
    struct fixture *f = *state;
    char uid[64];
    create(&f->node, CSINODES, "{\"metadata\":{\"name\":\"n1\"}}");
    snprintf(uid, sizeof uid, "%s", str(f->node.json, "metadata uid"));
    send_typed(&f->node, "DELETE", CSINODE, NULL, "{\"preconditions\":{\"uid\":\"A\"}}");
    char wanted[512];
    snprintf(wanted, sizeof wanted,
             "Operation cannot be fulfilled on CSINode.storage.k8s.io \"n1\": the UID in the precondition (A) does not "
             "match the UID in record (%s). The object might have been deleted and then recreated",
             uid);
    expect_status(&f->node, 409, "Conflict", wanted);
    assert_string_equal(str(f->node.json, "details kind"), "CSINode");
    send_typed(&f->node, "DELETE", CSINODE, NULL, "{\"preconditions\":{\"resourceVersion\":\"1\"}}");
    assert_non_null(strstr(str(f->node.json, "message"), "the ResourceVersion in the precondition (1) does not match"));
    assert_int_equal(delete (&f->node, CSINODE), 200);
    assert_string_equal(str(f->node.json, "kind"), "CSINode");
    delete (&f->node, CSINODE);
    expect_status(&f->node, 404, "NotFound", "csinodes.storage.k8s.io \"n1\" not found");
    assert_int_equal(delete (&f->admin, NODES "/n1"), 200);
    assert_string_equal(str(f->admin.json, "status"), "Success");
    assert_string_equal(str(f->admin.json, "details kind"), "nodes");
}

static void finds_every_fault_of_drivers(void **state)
{
    struct fixture *f = *state;
    char long_id[300], body[2048];
    memset(long_id, 'x', 257);
    long_id[257] = '\0';
    snprintf(
        body, sizeof body,
        "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"drivers\":["
        "{\"name\":\"Good.Case\",\"nodeID\":\"%.256s\",\"topologyKeys\":[\"a.b/c\"],\"allocatable\":{\"count\":0}},"
        "{\"name\":\"a_b\",\"nodeID\":\"%s\",\"allocatable\":{\"count\":-1}},"
        "{\"name\":\"Good.Case\",\"nodeID\":\"\",\"topologyKeys\":[\"\",\"k\",\"k\",\"a/b/c\"]}]}}",
        long_id, long_id);
    create(&f->node, CSINODES, body);
    expect_status(&f->node, 422, "Invalid", NULL);
    assert_string_equal(str(f->node.json, "details kind"), "CSINode");
    assert_int_equal(strncmp(str(f->node.json, "message"),
                             "CSINode.storage.k8s.io \"n1\" is invalid: [spec.drivers[1].name",
                             strlen("CSINode.storage.k8s.io \"n1\" is invalid: [spec.drivers[1].name")),
                     0);
    expect_cause(&f->node, 0, "FieldValueInvalid", "spec.drivers[1].name", NULL);
    expect_cause(&f->node, 1, "FieldValueInvalid", "spec.drivers[1].nodeID", NULL);
    expect_cause(&f->node, 2, "FieldValueInvalid", "spec.drivers[1].allocatable.count",
                 "Invalid value: -1: must be greater than or equal to 0");
    expect_cause(&f->node, 3, "FieldValueRequired", "spec.drivers[2].nodeID", "Required value");
    expect_cause(&f->node, 4, "FieldValueDuplicate", "spec.drivers[2].name", "Duplicate value: \"Good.Case\"");
    expect_cause(&f->node, 5, "FieldValueRequired", "spec.drivers[2]", "Required value");
    expect_cause(&f->node, 6, "FieldValueInvalid", "spec.drivers[2]",
                 "Invalid value: \"\": name part must be non-empty");
    expect_cause(&f->node, 7, "FieldValueInvalid", "spec.drivers[2]", NULL);
    expect_cause(&f->node, 8, "FieldValueDuplicate", "spec.drivers[2]", "Duplicate value: \"k\"");
    expect_cause(&f->node, 9, "FieldValueInvalid", "spec.drivers[2]", NULL);
    assert_int_equal(json_array_size(at(f->node.json, "details causes")), 10);
}

static void keeps_driver_entries(void **state)
{
    struct fixture *f = *state;
    create(&f->node, CSINODES,
           "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"drivers\":[{\"name\":\"a\",\"nodeID\":\"i\",\"topologyKeys\":"
           "[\"x\",\"y\"]},{\"name\":\"b\",\"nodeID\":\"j\"}]}}");
    put_changed(&f->node, CSINODE,
                "{\"spec\":{\"drivers\":[{\"name\":\"a\",\"nodeID\":\"other\",\"topologyKeys\":[\"x\",\"y\"]}]}}");
    expect_status(&f->node, 422, "Invalid", NULL);
    expect_cause(&f->node, 0, "FieldValueInvalid", "spec.drivers", NULL);
    assert_non_null(strstr(str(f->node.json, "message"), ": field is immutable"));
    put_changed(&f->node, CSINODE,
                "{\"spec\":{\"drivers\":[{\"name\":\"a\",\"nodeID\":\"i\",\"topologyKeys\":[\"y\",\"x\"]}]}}");
    assert_int_equal(f->node.code, 422);
    /* Reordered, a count added, no keys as an empty list, a third entry. */
    assert_int_equal(
        put_changed(&f->node, CSINODE,
                    "{\"spec\":{\"drivers\":[{\"name\":\"c\",\"nodeID\":\"k\"},{\"name\":\"b\",\"nodeID\":\"j\","
                    "\"topologyKeys\":[],\"allocatable\":{\"count\":3}},{\"name\":\"a\",\"nodeID\":\"i\","
                    "\"topologyKeys\":[\"x\",\"y\"]}]}}"),
        200);
    expect_json(at(f->node.json, "spec drivers 1 topologyKeys"), "null");
    assert_int_equal(put_changed(&f->node, CSINODE, "{\"spec\":{\"drivers\":[]}}"), 200);
    expect_json(at(f->node.json, "spec"), "{\"drivers\":null}");
}

#define REGISTRATIONS(list) "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"driverRegistrations\":" list "}}"

static void checks_registrations(void **state)
{
    struct fixture *f = *state;
    create(&f->node, CSINODES, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"i\"},{\"name\":\"d\",\"nodeID\":\"\"}]"));
    expect_cause(&f->node, 0, "FieldValueRequired", "spec.driverRegistrations[1].nodeID", "Required value");
    expect_cause(&f->node, 1, "FieldValueDuplicate", "spec.driverRegistrations[1].name", "Duplicate value: \"d\"");
    assert_int_equal(create(&f->node, CSINODES, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"i\"}]")), 201);
    /* Free to change while there is no completed entry. */
    assert_int_equal(put_changed(&f->node, CSINODE, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"j\"}]")), 200);
    put_changed(&f->node, CSINODE, "{\"spec\":{\"drivers\":[{\"name\":\"d\",\"nodeID\":\"other\"}]}}");
    expect_cause(&f->node, 0, "FieldValueInvalid", "spec.driverRegistrations[0].nodeID",
                 "Invalid value: \"j\": must match the nodeID of the entry with the same name in spec.drivers");
    assert_int_equal(put_changed(&f->node, CSINODE, "{\"spec\":{\"drivers\":[{\"name\":\"d\",\"nodeID\":\"j\"}]}}"),
                     200);
    assert_int_equal(put_changed(&f->node, CSINODE, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"k\"}]")), 422);
    /* The completed entry may go in the update that changes the registration. */
    assert_int_equal(
        put_changed(&f->node, CSINODE,
                    "{\"spec\":{\"drivers\":null,\"driverRegistrations\":[{\"name\":\"d\",\"nodeID\":\"k\"}]}}"),
        200);
    expect_json(at(f->node.json, "spec"),
                "{\"drivers\":null,\"driverRegistrations\":[{\"name\":\"d\",\"nodeID\":\"k\"}]}");
}

static void gate_off_drops_the_field(void **state)
{
    struct fixture *f = *state;
    post(f->server, "/gate", "{\"CSIControllerGetNodeInfo\":\"off\"}");
    assert_int_equal(create(&f->node, CSINODES, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"\"}]")), 201);
    expect_json(at(f->node.json, "spec"), "{\"drivers\":null}");
    assert_null(strstr(f->node.headers.data, "Warning"));
    assert_int_equal(put_changed(&f->node, CSINODE, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"i\"}]")), 200);
    assert_null(at(f->node.json, "spec driverRegistrations"));
    /* What was stored while the gate was on may be edited, and is validated. */
    post(f->server, "/gate", "{\"CSIControllerGetNodeInfo\":\"on\"}");
    put_changed(&f->node, CSINODE, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"i\"}]"));
    post(f->server, "/gate", "{\"CSIControllerGetNodeInfo\":\"off\"}");
    assert_int_equal(put_changed(&f->node, CSINODE,
                                 REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"i\"},{\"name\":\"e\",\"nodeID\":\"\"}]")),
                     422);
    assert_int_equal(
        put_changed(&f->node, CSINODE,
                    REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"i\"},{\"name\":\"e\",\"nodeID\":\"j\"}]")),
        200);
    assert_int_equal(json_array_size(at(f->node.json, "spec driverRegistrations")), 2);
    put_changed(&f->node, CSINODE, REGISTRATIONS("[]"));
    assert_null(at(f->node.json, "spec driverRegistrations"));
    put_changed(&f->node, CSINODE, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"i\"}]"));
    assert_null(at(f->node.json, "spec driverRegistrations"));
}

static void unknown_gate_is_an_unknown_field(void **state)
{
    struct fixture *f = *state;
    create(&f->node, CSINODES, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"i\"}]"));
    post(f->server, "/gate", "{\"CSIControllerGetNodeInfo\":\"unknown\"}");
    get(&f->node, CSINODE);
    assert_null(at(f->node.json, "spec driverRegistrations"));
    assert_int_equal(put_changed(&f->node, CSINODE, REGISTRATIONS("[{\"name\":\"d\",\"nodeID\":\"i\"}]")), 200);
    assert_null(at(f->node.json, "spec driverRegistrations"));
    assert_non_null(strstr(f->node.headers.data, "Warning: 299 - \"unknown field \\\"spec.driverRegistrations\\\"\""));
    /* A patch of something else is not warned about what it cannot see. */
    assert_int_equal(patch(&f->node, CSINODE, "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}"), 200);
    assert_null(strstr(f->node.headers.data, "Warning"));
    put(&f->node, CSINODE "?fieldValidation=Strict", REGISTRATIONS("[]"));
    expect_status(&f->node, 400, "BadRequest",
                  "CSINode in version \"v1\" cannot be handled as a CSINode: strict decoding error: unknown field "
                  "\"spec.driverRegistrations\"");
}

static void reports_unknown_and_duplicate_fields(void **state)
{
    struct fixture *f = *state;
    const char *body =
        "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"drivers\":null,\"Drivers\":1,\"drivers\":[{\"name\":\"d\","
        "\"nodeID\":\"i\",\"foo\":{}}]}}";
    create(&f->node, CSINODES "?fieldValidation=Strict", body);
    expect_status(&f->node, 400, "BadRequest",
                  "CSINode in version \"v1\" cannot be handled as a CSINode: strict decoding error: duplicate field "
                  "\"spec.drivers\", unknown field \"spec.drivers[0].foo\", unknown field \"spec.Drivers\"");
    create(&f->node, CSINODES "?fieldValidation=Often", body);
    expect_status(&f->node, 422, "Invalid", NULL);
    expect_cause(&f->node, 0, "FieldValueNotSupported", "fieldValidation", NULL);
    create(&f->node, CSINODES "?dryRun=Some", body);
    expect_cause(&f->node, 0, "FieldValueNotSupported", "dryRun", NULL);
    assert_int_equal(create(&f->node, CSINODES "?fieldValidation=Ignore", body), 201);
    assert_null(strstr(f->node.headers.data, "Warning"));
    expect_json(at(f->node.json, "spec"), "{\"drivers\":[{\"name\":\"d\",\"nodeID\":\"i\",\"topologyKeys\":null}]}");
    assert_int_equal(patch(&f->node, CSINODE, "{\"spec\":{\"foo\":1},\"spec\":{\"foo\":1}}"), 200);
    assert_non_null(strstr(f->node.headers.data, "Warning: 299 - \"duplicate field \\\"spec\\\"\""));
    assert_non_null(strstr(f->node.headers.data, "Warning: 299 - \"unknown field \\\"spec.foo\\\"\""));
    patch(&f->node, CSINODE "?fieldValidation=Strict", "{\"spec\":{\"foo\":1}}");
    expect_cause(&f->node, 0, "FieldValueInvalid", "patch", NULL);
}

static void refuses_what_is_no_object(void **state)
{
    struct fixture *f = *state;
    char *large = malloc(3145728 + 2);
    create(&f->node, CSINODES, "{\"metadata\":");
    assert_non_null(
        strstr(str(f->node.json, "message"), "the object provided is unrecognized (must be of type CSINode): "));
    create(&f->node, CSINODES, "{\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}}");
    assert_non_null(strstr(str(f->node.json, "message"), "Node in version \"v1\" cannot be handled as a CSINode: "));
    create(&f->node, CSINODES, "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"drivers\":\"x\"}}");
    expect_status(&f->node, 400, "BadRequest", NULL);
    send_typed(&f->node, "POST", CSINODES, "application/yaml", "a: b");
    expect_status(&f->node, 415, "UnsupportedMediaType", NULL);
    send_typed(&f->node, "PATCH", NODES "/n1", "application/apply-patch+yaml", "{}");
    expect_status(&f->node, 415, "UnsupportedMediaType", "415: Unsupported Media Type");
    send_with(&f->node, "GET", NODES "/n1", NULL, NULL, "Accept: application/yaml");
    expect_status(&f->node, 406, "NotAcceptable", NULL);
    memset(large, ' ', 3145729);
    large[3145729] = '\0';
    create(&f->node, CSINODES, large);
    expect_status(&f->node, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
    free(large);
}

static void patches(void **state)
{
    struct fixture *f = *state;
    create(&f->node, CSINODES,
           "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"drivers\":[{\"name\":\"a\",\"nodeID\":\"i\"}]}}");
    send_typed(
        &f->node, "PATCH", CSINODE, STRATEGIC "; charset=utf-8",
        "{\"spec\":{\"drivers\":[{\"name\":\"b\",\"nodeID\":\"j\"},{\"name\":\"a\",\"allocatable\":{\"count\":2}}]}}");
    assert_int_equal(f->node.code, 200);
    expect_json(at(f->node.json, "spec drivers"),
                "[{\"name\":\"b\",\"nodeID\":\"j\",\"topologyKeys\":null},"
                "{\"name\":\"a\",\"nodeID\":\"i\",\"topologyKeys\":null,\"allocatable\":{\"count\":2}}]");
    send_typed(&f->node, "PATCH", CSINODE, STRATEGIC,
               "{\"spec\":{\"drivers\":[{\"name\":\"a\",\"$patch\":\"delete\"}],\"$setElementOrder/"
               "drivers\":[{\"name\":\"b\"}]}}");
    expect_json(at(f->node.json, "spec drivers"), "[{\"name\":\"b\",\"nodeID\":\"j\",\"topologyKeys\":null}]");
    assert_int_equal(patch(&f->node, CSINODE, "{\"spec\":{\"drivers\":[{\"name\":\"c\",\"nodeID\":\"k\"}]}}"), 200);
    assert_int_equal(json_array_size(at(f->node.json, "spec drivers")), 1);
    patch(&f->node, CSINODE, "{\"metadata\":{\"resourceVersion\":\"1\"}}");
    expect_status(&f->node, 409, "Conflict", NULL);
    patch(&f->node, CSINODE, "{\"metadata\":{\"uid\":\"x\"}}");
    expect_status(&f->node, 422, "Invalid", NULL);
    expect_cause(&f->node, 0, "FieldValueInvalid", "metadata.uid", "Invalid value: \"x\": field is immutable");
    patch(&f->node, CSINODE, "{\"metadata\":{\"name\":\"x\"}}");
    expect_status(&f->node, 400, "BadRequest", "the name of the object (x) does not match the name on the URL (n1)");
    patch(&f->node, CSINODE, "{\"spec\":{\"drivers\":\"x\"}}");
    expect_status(&f->node, 422, "Invalid", NULL);
    assert_int_equal(strncmp(str(f->node.json, "message"), " \"\" is invalid: patch: ", 22), 0);
    patch(&f->node, CSINODE, "[");
    expect_status(&f->node, 400, "BadRequest", NULL);
    patch(&f->admin, CSINODES "/n9", "{}");
    expect_status(&f->admin, 404, "NotFound", NULL);
    assert_int_equal(patch(&f->node, CSINODE "?dryRun=All", "{\"spec\":{\"drivers\":null}}"), 200);
    get(&f->node, CSINODE);
    assert_int_equal(json_array_size(at(f->node.json, "spec drivers")), 1);
}

static void patches_by_operations(void **state)
{
    struct fixture *f = *state;
    const char *type = "application/json-patch+json";
    create(&f->node, CSINODES,
           "{\"metadata\":{\"name\":\"n1\"},\"spec\":{\"drivers\":[{\"name\":\"a\",\"nodeID\":\"i\"}]}}");
    send_typed(&f->node, "PATCH", CSINODE, type,
               "[{\"op\":\"test\",\"path\":\"/spec/drivers/0/name\",\"value\":\"a\"},"
               "{\"op\":\"add\",\"path\":\"/spec/drivers/-\",\"value\":{\"name\":\"b\",\"nodeID\":\"j\"}},"
               "{\"op\":\"copy\",\"from\":\"/spec/drivers/0\",\"path\":\"/spec/drivers/0\"},"
               "{\"op\":\"replace\",\"path\":\"/spec/drivers/0/name\",\"value\":\"c\"},"
               "{\"op\":\"add\",\"path\":\"/metadata/labels\",\"value\":{\"x/y\":\"z\"}},"
               "{\"op\":\"move\",\"from\":\"/metadata/labels/x~1y\",\"path\":\"/metadata/labels/w\"},"
               "{\"op\":\"remove\",\"path\":\"/spec/drivers/1\"}]");
    assert_int_equal(f->node.code, 200);
    expect_json(at(f->node.json, "spec drivers"), "[{\"name\":\"c\",\"nodeID\":\"i\",\"topologyKeys\":null},"
                                                  "{\"name\":\"b\",\"nodeID\":\"j\",\"topologyKeys\":null}]");
    expect_json(at(f->node.json, "metadata labels"), "{\"w\":\"z\"}");
    static const char *const bad[] = {
        "[{\"op\":\"test\",\"path\":\"/spec/drivers/0/name\",\"value\":\"a\"}]",
        "[{\"op\":\"remove\",\"path\":\"/nowhere\"}]",
        "[{\"op\":\"move\",\"from\":\"/spec\",\"path\":\"/spec/drivers/0\"}]",
        "[{\"op\":\"add\",\"path\":\"/spec/drivers/7\",\"value\":1}]",
        "[{\"op\":\"replace\",\"path\":\"/spec/drivers/7\",\"value\":1}]",
        "[{\"op\":\"fly\",\"path\":\"/spec\",\"value\":1}]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        send_typed(&f->node, "PATCH", CSINODE, type, bad[i]);
        expect_status(&f->node, 422, "Invalid", "the server rejected our request due to an error in our request");
        expect_json(at(f->node.json, "details"), "{}");
    }
    send_typed(&f->node, "PATCH", CSINODE, type, "[{\"op\":\"add\",\"path\":\"\",\"value\":[]}]");
    assert_int_equal(f->node.code, 422);
    send_typed(&f->node, "PATCH", CSINODE, type, "[7]");
    assert_int_equal(f->node.code, 400);
    send_typed(&f->node, "PATCH", CSINODE, type, "[{\"op\":\"replace\",\"path\":\"/spec/nothing\",\"value\":1}]");
    assert_int_equal(f->node.code, 200);
}

/* Nested up to the parser's limit and past it; longer headers than fit. */
static void survives_hostile_requests(void **state)
{
    struct fixture *f = *state;
    static const int depths[] = {2000, 3000};
    char *body = malloc(100000), *header = malloc(300000);
    for (size_t i = 0; i < 2; i++) {
        int n = snprintf(body, 100000, "{\"status\":{\"x\":");
        for (int d = 0; d < depths[i]; d++) n += snprintf(body + n, 10, "{\"a\":");
        body[n++] = '1';
        memset(body + n, '}', (size_t)depths[i] + 2);
        body[n + depths[i] + 2] = '\0';
        assert_int_equal(patch(&f->node, NODES "/n1/status", body), i ? 400 : 200);
        send_typed(&f->node, "PATCH", NODES "/n1/status", STRATEGIC, body);
        assert_int_equal(f->node.code, i ? 400 : 200);
    }
    memset(header, 'x', 299999);
    memcpy(header, "X-Long: ", 8);
    header[65000] = '\0';
    send_with(&f->node, "GET", NODES "/n1", NULL, NULL, header);
    assert_int_equal(f->node.code, 200);
    header[65000] = 'x';
    header[299999] = '\0';
    send_with(&f->node, "GET", NODES "/n1", NULL, NULL, header);
    assert_true(f->node.code == 431 || f->node.code == 0); /* it may hang up before all of it was sent */
    assert_int_equal(get(&f->admin, NODES "/%00"), 404);
    assert_int_equal(get(&f->admin, NODES "/%zz"), 404);
    free(body);
    free(header);
}

static void divides_status_from_the_rest(void **state)
{
    struct fixture *f = *state;
    /* Kubelet writes its labels through nodes/status. */
    send_typed(&f->node, "PATCH", NODES "/n1/status", STRATEGIC,
               "{\"metadata\":{\"labels\":{\"topology.x/"
               "zone\":\"z\"},\"annotations\":{\"a\":\"b\"}},\"spec\":{\"podCIDR\":\"x\"},"
               "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}");
    assert_int_equal(f->node.code, 200);
    expect_json(at(f->node.json, "metadata labels"), "{\"topology.x/zone\":\"z\"}");
    expect_json(at(f->node.json, "spec"), "{}");
    expect_json(at(f->node.json, "status conditions 0 status"), "\"True\"");
    patch(&f->node, NODES "/n1", "{\"status\":{\"conditions\":null},\"metadata\":{\"labels\":null}}");
    assert_null(at(f->node.json, "metadata labels"));
    assert_int_equal(json_array_size(at(f->node.json, "status conditions")), 1);
    /* CSINode's status is not the main resource's to write, and gated at all. */
    post(f->server, "/gate", "{\"CSIVolumeHealth\":\"on\"}");
    create(&f->node, CSINODES, "{\"metadata\":{\"name\":\"n1\"},\"status\":{\"storageHealth\":[{\"name\":\"d\"}]}}");
    expect_json(at(f->node.json, "status"), "{}");
    patch(&f->node, CSINODE "/status",
          "{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"status\":{\"storageHealth\":[{\"name\":\"d\"}]}}");
    assert_null(at(f->node.json, "metadata labels"));
    patch(&f->node, CSINODE, "{\"status\":null,\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    expect_json(at(f->node.json, "status"), "{\"storageHealth\":[{\"name\":\"d\"}]}");
    assert_string_equal(str(f->node.json, "metadata labels a"), "b");
}

static void csidriver_has_defaults(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(create(&f->admin, DRIVERS, "{\"metadata\":{\"name\":\"d\"},\"spec\":{}}"), 201);
    expect_json(at(f->admin.json, "spec"),
                "{\"attachRequired\":true,\"podInfoOnMount\":false,\"storageCapacity\":false,\"fsGroupPolicy\":"
                "\"ReadWriteOnceWithFSType\",\"volumeLifecycleModes\":[\"Persistent\"],\"requiresRepublish\":false,"
                "\"seLinuxMount\":false,\"preventPodSchedulingIfMissing\":false}");
    patch(&f->admin, DRIVERS "/d", "{\"spec\":{\"attachRequired\":false,\"nodeAllocatableUpdatePeriodSeconds\":9}}");
    expect_cause(&f->admin, 0, "FieldValueInvalid", "spec.nodeAllocatableUpdatePeriodSeconds",
                 "Invalid value: 9: must be greater than or equal to 10 seconds");
    expect_cause(&f->admin, 1, "FieldValueInvalid", "spec.attachedRequired",
                 "Invalid value: false: field is immutable");
    assert_int_equal(patch(&f->admin, DRIVERS "/d", "{\"spec\":{\"podInfoOnMount\":true}}"), 200);
    assert_int_equal(json_integer_value(at(f->admin.json, "metadata generation")), 1);
    patch(&f->admin, DRIVERS "/d", "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    assert_int_equal(json_integer_value(at(f->admin.json, "metadata generation")), 1);
    assert_int_equal(get(&f->node, DRIVERS "/d"), 200);
    delete (&f->node, DRIVERS "/d");
    expect_status(&f->node, 403, "Forbidden",
                  "csidrivers.storage.k8s.io \"d\" is forbidden: User \"system:node:n1\" cannot delete resource "
                  "\"csidrivers\" in API group \"storage.k8s.io\" at the cluster scope");
}

static void lists(void **state)
{
    struct fixture *f = *state;
    get(&f->admin, CSINODES);
    assert_string_equal(str(f->admin.json, "kind"), "CSINodeList");
    expect_json(at(f->admin.json, "items"), "[]");
    create(&f->admin, CSINODES, "{\"metadata\":{\"name\":\"n2\"}}");
    create(&f->admin, CSINODES, "{\"metadata\":{\"name\":\"n10\"}}");
    create(&f->admin, CSINODES, "{\"metadata\":{\"name\":\"n1\"}}");
    char version[64];
    snprintf(version, sizeof version, "%s", str(f->admin.json, "metadata resourceVersion"));
    get(&f->admin, CSINODES);
    assert_string_equal(str(f->admin.json, "items 0 metadata name"), "n1");
    assert_string_equal(str(f->admin.json, "items 1 metadata name"), "n10");
    assert_string_equal(str(f->admin.json, "items 2 metadata name"), "n2");
    assert_null(at(f->admin.json, "items 0 kind"));
    assert_string_equal(str(f->admin.json, "metadata resourceVersion"), version);
    get(&f->admin, CSINODES "?fieldSelector=metadata.name%3Dn2");
    assert_int_equal(json_array_size(at(f->admin.json, "items")), 1);
    get(&f->admin, CSINODES "?fieldSelector=spec.x%3Dy");
    expect_status(&f->admin, 400, "BadRequest",
                  "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"");
    get(&f->admin, CSINODES "?resourceVersion=abc");
    expect_status(&f->admin, 400, "BadRequest", NULL);
}

static void waits_for_a_later_version(void **state)
{
    struct fixture *f = *state;
    get(&f->admin, CSINODES "?resourceVersion=1000");
    expect_status(&f->admin, 504, "Timeout", "Timeout: Too large resource version: 1000, current: 3");
    expect_cause(&f->admin, 0, "ResourceVersionTooLarge", "", NULL);
    assert_int_equal(json_integer_value(at(f->admin.json, "details retryAfterSeconds")), 1);
    assert_non_null(strstr(f->admin.headers.data, "Retry-After: 1"));
}

static void checks_metadata(void **state)
{
    struct fixture *f = *state;
    patch(&f->admin, NODES "/n1",
          "{\"metadata\":{\"labels\":{\"a "
          "b\":\"x\",\"c\":\"-\"},\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\","
          "\"name\":\"x\"}]}}");
    expect_status(&f->admin, 422, "Invalid", NULL);
    expect_cause(&f->admin, 0, "FieldValueInvalid", "metadata.labels", NULL);
    expect_cause(&f->admin, 1, "FieldValueInvalid", "metadata.labels", NULL);
    expect_cause(&f->admin, 2, "FieldValueRequired", "metadata.ownerReferences[0].uid",
                 "Required value: must not be empty");
    assert_int_equal(
        patch(&f->admin, NODES "/n1",
              "{\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"x\",\"uid\":"
              "\"u\"},{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"y\",\"uid\":\"u\"}]}}"),
        200);
    assert_int_equal(json_array_size(at(f->admin.json, "metadata ownerReferences")), 1);
    assert_non_null(strstr(f->admin.headers.data, "Warning: 299"));
    char *body = malloc(300000);
    int n = snprintf(body, 300000, "{\"metadata\":{\"annotations\":{\"a\":\"");
    memset(body + n, 'x', 262144);
    snprintf(body + n + 262144, 10, "\"}}}");
    patch(&f->admin, NODES "/n1", body);
    expect_cause(&f->admin, 0, "FieldValueTooLong", "metadata.annotations",
                 "Too long: may not be more than 262144 bytes");
    free(body);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(creates_and_reads),
        TEST(updates_with_versions),
        TEST(deletes_with_preconditions),
        TEST(finds_every_fault_of_drivers),
        TEST(keeps_driver_entries),
        TEST(checks_registrations),
        TEST(gate_off_drops_the_field),
        TEST(unknown_gate_is_an_unknown_field),
        TEST(reports_unknown_and_duplicate_fields),
        TEST(refuses_what_is_no_object),
        TEST(patches),
        TEST(patches_by_operations),
        TEST(survives_hostile_requests),
        TEST(divides_status_from_the_rest),
        TEST(csidriver_has_defaults),
        TEST(lists),
        TEST(waits_for_a_later_version),
        TEST(checks_metadata),
    };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    curl_global_cleanup();
    return failed;
}

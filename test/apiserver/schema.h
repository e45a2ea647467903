/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which fields a type has. One table per type drives decoding (unknown and duplicate fields, wrong types), the order of
 * fields in answers, and how strategic merge patches treat lists. Pure.
 */
#ifndef APISERVER_SCHEMA_H
#define APISERVER_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum as_kind {
    AS_KIND_STRING,
    AS_KIND_BOOL,
    AS_KIND_INT32,
    AS_KIND_INT64,
    AS_KIND_OBJECT,  /* of: its fields */
    AS_KIND_LIST,    /* of: fields of its items; NULL: items are strings */
    AS_KIND_STRINGS, /* a map from string to string */
    AS_KIND_ANY,     /* opaque */
};

enum as_field_flag {
    AS_FIELD_REGISTRATIONS = 1, /* KEP-6011's field: not known in the gate's mode "unknown" */
    AS_FIELD_KEEP_EMPTY = 2,    /* an empty object stays: the field is a pointer in Kubernetes */
};

struct as_schema;

struct as_field {
    const char *name;
    enum as_kind kind;
    const struct as_schema *of;
    const char *merge_key; /* AS_KIND_LIST: items are merged by it; "" for a list of strings: a set; NULL: replaced */
    unsigned flags;
};

struct as_schema {
    const struct as_field *fields; /* ends with a NULL name */
    bool open;                     /* other fields are kept as they are */
};

const struct as_field *as_schema_field(const struct as_schema *schema, const char *name);

struct as_decoding {
    bool registrations_known; /* in */
    json_t *strict;           /* in and out: array of texts, "unknown field \"spec.x\"" */
    char *error;              /* out, malloc'ed: a value has the wrong type */
};

/* A new tree with the known fields only, in the schema's order, without nulls; NULL and d->error for a wrong type. */
json_t *as_schema_decode(const struct as_schema *schema, const json_t *in, struct as_decoding *d);

/* Adds "duplicate field \"a.b\"" for every repeated key of the JSON text, which must be valid. */
void as_duplicate_fields(const char *text, size_t len, json_t *strict);

extern const struct as_schema as_metadata_schema;

#endif

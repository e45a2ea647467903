/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/check.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };

struct span {
    const uint8_t *at, *end;
};

struct walk {
    const struct cr_wire_plan *plan;
    const char *ignored;
    size_t items[CR_WIRE_MAX_RULES];
    char *why;
    size_t size;
};

/* One field as it stands on the wire. */
struct item {
    uint32_t number;
    unsigned type;
    struct span content; /* of LENGTH only */
};

static size_t left(const struct span *s) { return (size_t)(s->end - s->at); }

static bool varint(struct span *s, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && s->at < s->end; shift += 7) {
        uint8_t byte = *s->at++;
        if (shift == 63 && byte > 1) return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct span *s, uint64_t n)
{
    if (n > left(s)) return false;
    s->at += n;
    return true;
}

static bool read_item(struct span *s, struct item *out)
{
    uint64_t tag, n;
    if (!varint(s, &tag) || tag > UINT32_MAX || tag >> 3 == 0) return false;
    out->number = (uint32_t)(tag >> 3);
    out->type = tag & 7;
    switch (out->type) {
    case VARINT:
        return varint(s, &n);
    case FIXED64:
        return skip(s, 8);
    case FIXED32:
        return skip(s, 4);
    case LENGTH:
        if (!varint(s, &n)) return false;
        out->content.at = s->at;
        if (!skip(s, n)) return false;
        out->content.end = s->at;
        return true;
    default: /* groups, and types that do not exist */
        return false;
    }
}

static unsigned wire_type(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return LENGTH;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return FIXED32;
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return FIXED64;
    default:
        return VARINT;
    }
}

static bool refuse(struct walk *w, const char *field, const char *what)
{
    snprintf(w->why, w->size, "field %s %s", field, what);
    return false;
}

static bool check_rule(struct walk *w, const ProtobufCFieldDescriptor *f, const struct item *item)
{
    for (size_t i = 0; i < CR_WIRE_MAX_RULES && w->plan->rules[i].field; i++) {
        const struct cr_wire_rule *rule = &w->plan->rules[i];
        if (strcmp(rule->field, f->name) != 0) continue;
        size_t bytes = left(&item->content);
        if (rule->max_items && ++w->items[i] > rule->max_items) {
            snprintf(w->why, w->size, "field %s has more than %zu items", f->name, rule->max_items);
            return false;
        }
        if (rule->max_bytes && bytes > rule->max_bytes) {
            snprintf(w->why, w->size, "field %s has %zu bytes, more than %zu", f->name, bytes, rule->max_bytes);
            return false;
        }
    }
    return true;
}

static bool check_string(struct walk *w, const ProtobufCFieldDescriptor *f, const struct span *s)
{
    if (left(s) == 0) return true;
    if (memchr(s->at, 0, left(s))) return refuse(w, f->name, "has a NUL byte");
    return cr_utf8_valid((const char *)s->at, left(s)) || refuse(w, f->name, "is not valid UTF-8");
}

static bool check_message(struct walk *w, const ProtobufCMessageDescriptor *d, struct span s);

static bool check_item(struct walk *w, const ProtobufCFieldDescriptor *f, const struct item *item)
{
    if (item->type != wire_type(f)) return refuse(w, f->name, "has the wrong wire type");
    if (w->ignored && strcmp(w->ignored, f->name) == 0) return true;
    if (item->type != LENGTH) return true;
    if (!check_rule(w, f, item)) return false;
    if (f->type == PROTOBUF_C_TYPE_STRING) return check_string(w, f, &item->content);
    return f->type != PROTOBUF_C_TYPE_MESSAGE || check_message(w, f->descriptor, item->content);
}

static bool check_message(struct walk *w, const ProtobufCMessageDescriptor *d, struct span s)
{
    while (s.at < s.end) {
        struct item item = {0};
        if (!read_item(&s, &item)) {
            snprintf(w->why, w->size, "not a protobuf message: %s is malformed or cut short", d->short_name);
            return false;
        }
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(d, item.number);
        if (f && !check_item(w, f, &item)) return false;
    }
    return true;
}

bool cr_wire_check(const struct cr_wire_plan *plan, const char *ignored, const uint8_t *data, size_t len, char *why,
                   size_t size)
{
    struct walk w = {.plan = plan, .ignored = ignored, .why = why, .size = size};
    return len == 0 || check_message(&w, plan->descriptor, (struct span){data, data + len});
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a message on the wire before protobuf-c unpacks it: wire types, varints of at most 64 bits, field numbers,
 * no groups; strings valid UTF-8 without NUL; sizes and counts of the fields that have a rule. Unknown fields are
 * skipped. Pure; allocates nothing; the depth is that of the descriptor, which must not be recursive.
 */
#ifndef CR_WIRE_CHECK_H
#define CR_WIRE_CHECK_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CR_WIRE_MAX_RULES 4

/* Concerns the field of this name at any depth; 0: no bound but the message's. Items count over the whole message. */
struct cr_wire_rule {
    const char *field; /* NULL ends a list shorter than CR_WIRE_MAX_RULES */
    size_t max_bytes, max_items;
};

struct cr_wire_plan {
    const ProtobufCMessageDescriptor *descriptor;
    struct cr_wire_rule rules[CR_WIRE_MAX_RULES];
};

/* ignored: name of a field that is not looked into, or NULL. False: *why (size bytes) names the field and what is
 * wrong. */
bool cr_wire_check(const struct cr_wire_plan *plan, const char *ignored, const uint8_t *data, size_t len, char *why,
                   size_t size);

#endif

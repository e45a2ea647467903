/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the four RPCs of the node half: requests are encoded, answers decoded and checked. Pure, any thread.
 *
 * protobuf-c takes strings with NUL or invalid UTF-8 (and C code then cuts them in silence), bools of the wrong wire
 * type, and needs up to 56 times the message in memory. So an answer is first checked on the wire (wire/check.h), then
 * unpacked into an arena of at most CR_DECODE_FACTOR times the message bound, then copied into the structs of
 * base/messages.h.
 *
 * The serving side (registrar, mock driver) uses the generated structs of wire/registration.pb-c.h and wire/csi.pb-c.h
 * directly, and cr_wire_method_name for the names.
 */
#ifndef CR_WIRE_WIRE_H
#define CR_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bounds.h"
#include "base/messages.h"

#define CR_WIRE_MAX_REQUEST (CR_MAX_NOTIFY_ERROR + 8) /* the longest request: a bool, a tag, a length, the text */

const char *cr_wire_method_name(enum cr_rpc_method method); /* static: "/package.Service/Method" */

/* Length of the request put into out. NodeGetInfo: flag is controller_get_node_info. Notify: flag is plugin_registered,
 * text its error (NULL: empty), cut at CR_MAX_NOTIFY_ERROR bytes, control bytes and invalid UTF-8 replaced. */
size_t cr_wire_encode_request(enum cr_rpc_method method, bool flag, const char *text, uint8_t out[CR_WIRE_MAX_REQUEST]);

/* Fills *out, an empty result: code 0 and the method's member, or code 13 with refused and a text that names the field
 * and the bound. Out of memory: code 13, not refused. flag: as the request had it; the limit and the topology of a
 * flagged NodeGetInfo are not consumed (KEP-6011): not looked into, and left empty. */
void cr_wire_decode_answer(enum cr_rpc_method method, bool flag, const uint8_t *data, size_t len,
                           struct cr_rpc_result *out);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong with the methods of a mock driver, read from "METHOD=VALUE" items of the command line. */
#ifndef MOCK_SCRIPT_H
#define MOCK_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/flags.h"
#include "mock-driver/protobuf.h"

enum mock_method {
    MOCK_GET_INFO,
    MOCK_NOTIFY,
    MOCK_GET_PLUGIN_INFO,
    MOCK_GET_PLUGIN_CAPABILITIES,
    MOCK_PROBE,
    MOCK_NODE_GET_CAPABILITIES,
    MOCK_NODE_GET_INFO,
    MOCK_METHODS /* their number */
};

enum mock_service { MOCK_REGISTRATION, MOCK_IDENTITY, MOCK_NODE };

struct mock_method_info {
    const char *name, *path; /* "NodeGetInfo", "/csi.v1.Node/NodeGetInfo" */
    enum mock_service service;
};

extern const struct mock_method_info mock_methods[MOCK_METHODS];

/* Of one method; call numbers count from 1 for each driver. */
struct script {
    int64_t hang_until; /* calls up to this number are never answered */
    int64_t fail_until; /* then calls up to this number fail with fail_code */
    int fail_code;
    const char *fail_text;
    int code; /* all others, when not 0 */
    const char *text;
    int64_t delay_ms;
    int64_t padding; /* bytes of an unknown field that are added to an answer */
    bool raw;        /* the answer is raw_answer */
    struct bytes raw_answer;
};

/* One "METHOD=VALUE" into its script. */
typedef bool script_setter(struct script *s, const char *value); /* value: NULL without "=" */

script_setter script_delay;   /* 500ms */
script_setter script_error;   /* CODE[:TEXT] */
script_setter script_failure; /* K[:CODE[:TEXT]], code 14 if not given */
script_setter script_hang;    /* K, or nothing for all calls */
script_setter script_padding; /* bytes */
script_setter script_raw;     /* hexadecimal digits, none for an empty answer */

/* All items; false and *bad_item when one names no method or has a bad value. */
bool script_apply(struct script scripts[MOCK_METHODS], const struct flag_list *items, script_setter *set,
                  const char **bad_item);
void script_fini(struct script scripts[MOCK_METHODS]);

/* The bytes of a value: those that "hex:00ff" lists, otherwise its own. False: no proper hexadecimal digits. */
bool script_bytes(const char *text, struct bytes *out);
bool script_number(const char *text, int64_t *out); /* a decimal number and nothing else */

#endif

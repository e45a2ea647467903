/* SPDX-License-Identifier: Apache-2.0 */
#include "mock-driver/script.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/duration.h"

#define MAX_PADDING (256 * 1024 * 1024)
#define UNAVAILABLE 14

const struct mock_method_info mock_methods[MOCK_METHODS] = {
    [MOCK_GET_INFO] = {"GetInfo", "/pluginregistration.Registration/GetInfo", MOCK_REGISTRATION},
    [MOCK_NOTIFY] = {"NotifyRegistrationStatus", "/pluginregistration.Registration/NotifyRegistrationStatus",
                     MOCK_REGISTRATION},
    [MOCK_GET_PLUGIN_INFO] = {"GetPluginInfo", "/csi.v1.Identity/GetPluginInfo", MOCK_IDENTITY},
    [MOCK_GET_PLUGIN_CAPABILITIES] = {"GetPluginCapabilities", "/csi.v1.Identity/GetPluginCapabilities", MOCK_IDENTITY},
    [MOCK_PROBE] = {"Probe", "/csi.v1.Identity/Probe", MOCK_IDENTITY},
    [MOCK_NODE_GET_CAPABILITIES] = {"NodeGetCapabilities", "/csi.v1.Node/NodeGetCapabilities", MOCK_NODE},
    [MOCK_NODE_GET_INFO] = {"NodeGetInfo", "/csi.v1.Node/NodeGetInfo", MOCK_NODE}};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool hex_bytes(const char *text, struct bytes *out)
{
    *out = (struct bytes){0};
    for (; *text; text += 2) {
        int high = hex_digit(text[0]), low = hex_digit(text[1]);
        if (high < 0 || low < 0) {
            bytes_fini(out);
            return false;
        }
        bytes_add(out, &(unsigned char){(unsigned char)(high << 4 | low)}, 1);
    }
    return true;
}

bool script_bytes(const char *text, struct bytes *out)
{
    if (strncmp(text, "hex:", 4) == 0) return hex_bytes(text + 4, out);
    *out = (struct bytes){0};
    bytes_add(out, text, strlen(text));
    return true;
}

bool script_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *text && !*end && errno == 0;
}

bool script_delay(struct script *s, const char *value) { return value && duration_parse(value, &s->delay_ms); }

static bool read_code(const char *value, int *code, const char **text)
{
    char *end;
    long number = strtol(value, &end, 10);
    if (end == value || (*end && *end != ':') || number < 0 || number > INT32_MAX) return false;
    *code = (int)number;
    *text = *end ? end + 1 : "told to fail";
    return true;
}

bool script_error(struct script *s, const char *value) { return value && read_code(value, &s->code, &s->text); }

bool script_failure(struct script *s, const char *value)
{
    char *end;
    if (!value) return false;
    s->fail_until = strtoll(value, &end, 10);
    s->fail_code = UNAVAILABLE;
    s->fail_text = "told to fail";
    if (end == value || s->fail_until < 0) return false;
    return !*end || (*end == ':' && read_code(end + 1, &s->fail_code, &s->fail_text));
}

bool script_hang(struct script *s, const char *value)
{
    s->hang_until = INT64_MAX;
    return !value || (script_number(value, &s->hang_until) && s->hang_until >= 0);
}

bool script_padding(struct script *s, const char *value)
{
    return value && script_number(value, &s->padding) && s->padding >= 0 && s->padding <= MAX_PADDING;
}

bool script_raw(struct script *s, const char *value)
{
    bytes_fini(&s->raw_answer);
    s->raw = true;
    return value && hex_bytes(value, &s->raw_answer);
}

static struct script *find(struct script *scripts, const char *item, size_t name_len)
{
    for (int m = 0; m < MOCK_METHODS; m++)
        if (strlen(mock_methods[m].name) == name_len && strncmp(mock_methods[m].name, item, name_len) == 0)
            return &scripts[m];
    return NULL;
}

bool script_apply(struct script scripts[MOCK_METHODS], const struct flag_list *items, script_setter *set,
                  const char **bad_item)
{
    for (size_t i = 0; i < items->n; i++) {
        size_t len = strcspn(items->items[i], "=");
        struct script *s = find(scripts, items->items[i], len);
        const char *value = items->items[i][len] ? items->items[i] + len + 1 : NULL;
        if (s && set(s, value)) continue;
        *bad_item = items->items[i];
        return false;
    }
    return true;
}

void script_fini(struct script scripts[MOCK_METHODS])
{
    for (int m = 0; m < MOCK_METHODS; m++) bytes_fini(&scripts[m].raw_answer);
}

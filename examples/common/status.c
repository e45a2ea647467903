/* SPDX-License-Identifier: Apache-2.0 */
#include "common/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *status_str(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

long long status_int(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

bool status_time(const char *text, double *out_seconds)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest) return false;
    *out_seconds = (double)timegm(&tm) + (*rest == '.' ? strtod(rest, NULL) : 0);
    return true;
}

void status_age(double seconds, char out[STATUS_AGE_SIZE])
{
    if (seconds < 0) seconds = 0;
    if (seconds < 10)
        snprintf(out, STATUS_AGE_SIZE, "%.1f s", seconds);
    else if (seconds < 120)
        snprintf(out, STATUS_AGE_SIZE, "%.0f s", seconds);
    else if (seconds < 7200)
        snprintf(out, STATUS_AGE_SIZE, "%.0f min", seconds / 60);
    else if (seconds < 172800)
        snprintf(out, STATUS_AGE_SIZE, "%.0f h", seconds / 3600);
    else
        snprintf(out, STATUS_AGE_SIZE, "%.0f days", seconds / 86400);
}

const char *status_words(const char *state)
{
    static const struct {
        const char *state, *words;
    } table[] = {{"new", "about to be tried"},
                 {"connecting", "being connected to"},
                 {"get-info", "being asked who it is (GetInfo)"},
                 {"handler", "waiting for the agent's answer for this plugin type"},
                 {"connecting-endpoint", "known; its service socket is being connected to"},
                 {"node-get-capabilities", "being asked for its capabilities (NodeGetCapabilities)"},
                 {"reading-csidriver", "waiting for its CSIDriver object to be read"},
                 {"node-get-info", "being asked about this node (NodeGetInfo)"},
                 {"publishing", "being written to the cluster"},
                 {"notifying", "being told that it is registered"},
                 {"rejecting", "being told that it is not registered"},
                 {"registered", "registered"},
                 {"unconfirmed", "registered, but could not be told so"},
                 {"standby", "standing by: another instance registers this driver"},
                 {"backoff", "not registered"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].state, state)) return table[i].words;
    return state;
}

bool status_is_registered(const json_t *driver)
{
    const char *state = status_str(driver, "state");
    return !strcmp(state, "registered") || !strcmp(state, "unconfirmed");
}

bool status_is_unregistered(const json_t *socket)
{
    const char *state = status_str(socket, "state");
    bool active = json_is_true(json_object_get(socket, "active"));
    return !active && strcmp(state, "standby") != 0 && strcmp(state, "registered") != 0;
}

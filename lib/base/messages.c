/* SPDX-License-Identifier: Apache-2.0 */
#include "base/messages.h"

#include "base/mem.h"

void cr_plugin_info_fini(struct cr_plugin_info *m)
{
    cr_free(m->type);
    cr_free(m->name);
    cr_free(m->endpoint);
    cr_strv_free(m->versions);
    *m = (struct cr_plugin_info){0};
}

void cr_node_capabilities_fini(struct cr_node_capabilities *m)
{
    cr_free(m->types);
    *m = (struct cr_node_capabilities){0};
}

void cr_node_info_fini(struct cr_node_info *m)
{
    for (size_t i = 0; i < m->n_segments; i++) {
        cr_free(m->segments[i].key);
        cr_free(m->segments[i].value);
    }
    cr_free(m->segments);
    cr_free(m->node_id);
    *m = (struct cr_node_info){0};
}

void cr_rpc_result_fini(struct cr_rpc_result *r)
{
    cr_free(r->text);
    cr_plugin_info_fini(&r->plugin);
    cr_node_capabilities_fini(&r->capabilities);
    cr_node_info_fini(&r->node);
    *r = (struct cr_rpc_result){0};
}

void cr_api_request_fini(struct cr_api_request *r)
{
    cr_free(r->path);
    cr_free(r->body);
    *r = (struct cr_api_request){0};
}

void cr_api_answer_fini(struct cr_api_answer *a)
{
    cr_free(a->text);
    cr_free(a->warning);
    cr_free(a->body);
    *a = (struct cr_api_answer){0};
}

bool cr_uids_have(const struct cr_uids *allowed, uint32_t uid)
{
    for (size_t i = 0; i < allowed->n; i++)
        if (allowed->uids[i] == uid) return true;
    return allowed->n == 0;
}

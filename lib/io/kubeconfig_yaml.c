/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kubeconfig_yaml.h"

#include <string.h>
#include <yaml.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "io/secret.h"

struct anchor {
    char *name;
    struct cr_yaml *node;
};

struct builder {
    struct cr_yaml_doc *doc;
    struct cr_yaml *open[CR_MAX_KUBECONFIG_DEPTH]; /* collections that have not ended, outermost first */
    size_t depth, n_nodes;
    struct anchor anchors[CR_MAX_KUBECONFIG_ANCHORS];
    size_t n_anchors;
    struct csireg_error **error;
};

static int refuse(struct builder *b, const yaml_event_t *event, const char *why)
{
    return cr_error_put(b->error, cr_error_new(CSIREG_ERR_CONFIG, "line %zu: %s", event->start_mark.line + 1, why));
}

static int no_memory(struct builder *b) { return cr_error_put(b->error, cr_error_oom()); }

/* ---- nodes ---- */

static void free_node(struct cr_yaml *node)
{
    cr_secret_wipe(node->text, node->text ? strlen(node->text) : 0);
    cr_free(node->items);
    cr_free(node);
}

void cr_yaml_fini(struct cr_yaml_doc *doc)
{
    while (doc->all) {
        struct cr_yaml *node = doc->all;
        doc->all = node->next;
        free_node(node);
    }
    doc->root = NULL;
}

static bool add_item(struct cr_yaml *parent, struct cr_yaml *node)
{
    if (parent->n_items == parent->cap) {
        size_t cap = parent->cap ? 2 * parent->cap : 8;
        struct cr_yaml **items = cr_realloc_array(parent->items, cap, sizeof(struct cr_yaml *));
        if (!items) return false;
        parent->items = items;
        parent->cap = cap;
    }
    parent->items[parent->n_items++] = node;
    return true;
}

/* Puts a node where the open collection expects its next one. */
static int attach(struct builder *b, const yaml_event_t *event, struct cr_yaml *node)
{
    if (b->depth == 0) {
        b->doc->root = node;
        return 0;
    }
    struct cr_yaml *parent = b->open[b->depth - 1];
    bool is_key = parent->kind == CR_YAML_MAP && parent->n_items % 2 == 0;
    if (is_key && node->kind != CR_YAML_SCALAR) return refuse(b, event, "a key must be a plain text");
    return add_item(parent, node) ? 0 : no_memory(b);
}

static int add_anchor(struct builder *b, const yaml_event_t *event, const yaml_char_t *name, struct cr_yaml *node)
{
    if (!name) return 0;
    if (b->n_anchors == CR_MAX_KUBECONFIG_ANCHORS) return refuse(b, event, "too many YAML anchors");
    char *copy = cr_strdup((const char *)name);
    if (!copy) return no_memory(b);
    b->anchors[b->n_anchors++] = (struct anchor){copy, node};
    return 0;
}

static int add_node(struct builder *b, const yaml_event_t *event, enum cr_yaml_kind kind, const yaml_char_t *anchor,
                    struct cr_yaml **out)
{
    if (b->n_nodes++ == CR_MAX_KUBECONFIG_NODES) return refuse(b, event, "too many YAML nodes");
    struct cr_yaml *node = CR_NEW(struct cr_yaml);
    if (!node) return no_memory(b);
    *node = (struct cr_yaml){.kind = kind, .line = event->start_mark.line + 1, .next = b->doc->all};
    b->doc->all = node;
    int rc = attach(b, event, node);
    if (rc == 0) rc = add_anchor(b, event, anchor, node);
    if (rc == 0) *out = node;
    return rc;
}

/* ---- events ---- */

static bool is_null(const yaml_event_t *event, const char *text)
{
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*text || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0);
}

static int on_scalar(struct builder *b, const yaml_event_t *event)
{
    struct cr_yaml *node = NULL;
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length) return refuse(b, event, "a text holds a NUL character");
    int rc = add_node(b, event, CR_YAML_SCALAR, event->data.scalar.anchor, &node);
    if (!node) return rc;
    node->null = is_null(event, text);
    node->text = cr_strdup(text);
    return node->text ? 0 : no_memory(b);
}

static int on_start(struct builder *b, const yaml_event_t *event, enum cr_yaml_kind kind, const yaml_char_t *anchor)
{
    struct cr_yaml *node = NULL;
    if (b->depth == CR_MAX_KUBECONFIG_DEPTH) return refuse(b, event, "is nested too deeply");
    int rc = add_node(b, event, kind, anchor, &node);
    if (node) b->open[b->depth++] = node;
    return rc;
}

/* A later anchor of the same name replaces the earlier one. */
static int on_alias(struct builder *b, const yaml_event_t *event)
{
    for (size_t i = b->n_anchors; i-- > 0;)
        if (strcmp(b->anchors[i].name, (const char *)event->data.alias.anchor) == 0)
            return attach(b, event, b->anchors[i].node);
    return refuse(b, event, "an alias names an anchor that does not exist");
}

static int on_event(struct builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(b, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_start(b, event, CR_YAML_LIST, event->data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
        return on_start(b, event, CR_YAML_MAP, event->data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return 0;
    case YAML_ALIAS_EVENT:
        return on_alias(b, event);
    default:
        return 0;
    }
}

/* A decoding error has an offset only, others have a line. */
static int syntax_error(struct builder *b, const yaml_parser_t *parser, const char *text, size_t len)
{
    if (parser->error == YAML_MEMORY_ERROR) return no_memory(b);
    size_t line = parser->problem_mark.line + 1;
    if (parser->error == YAML_READER_ERROR) {
        line = 1;
        for (size_t i = 0; i < len && i < parser->problem_offset; i++) line += text[i] == '\n';
    }
    const char *problem = parser->problem ? parser->problem : "syntax error";
    return cr_error_put(b->error, cr_error_new(CSIREG_ERR_CONFIG, "line %zu: not valid YAML: %s", line, problem));
}

static void drop_event(yaml_event_t *event)
{
    if (event->type == YAML_SCALAR_EVENT) explicit_bzero(event->data.scalar.value, event->data.scalar.length);
    yaml_event_delete(event);
}

static int build(struct builder *b, yaml_parser_t *parser, const char *text, size_t len)
{
    int rc = 0;
    for (bool end = false; rc == 0 && !end;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) return syntax_error(b, parser, text, len);
        rc = on_event(b, &event);
        end = event.type == YAML_DOCUMENT_END_EVENT || event.type == YAML_STREAM_END_EVENT;
        drop_event(&event);
    }
    return rc;
}

int cr_yaml_parse(struct cr_yaml_doc *doc, const char *text, size_t len, struct csireg_error **error)
{
    struct builder b = {.doc = doc, .error = error};
    yaml_parser_t parser;
    *doc = (struct cr_yaml_doc){0};
    if (!yaml_parser_initialize(&parser)) return no_memory(&b);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    int rc = build(&b, &parser, text, len);
    yaml_parser_delete(&parser);
    for (size_t i = 0; i < b.n_anchors; i++) cr_free(b.anchors[i].name);
    if (rc != 0) cr_yaml_fini(doc);
    return rc;
}

const struct cr_yaml *cr_yaml_get(const struct cr_yaml *map, const char *key, bool *twice)
{
    const struct cr_yaml *found = NULL;
    if (twice) *twice = false;
    if (!map || map->kind != CR_YAML_MAP) return NULL;
    for (size_t i = 0; i + 1 < map->n_items; i += 2) {
        if (strcmp(map->items[i]->text, key) != 0) continue;
        if (found && twice) *twice = true;
        if (!found) found = map->items[i + 1];
    }
    return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/reported.h"

#include <errno.h>
#include <string.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "io/watcher.h"

struct entry {
    struct cr_list node;
    char *path;
    uint64_t generation;
};

#define ENTRY(l) CR_CONTAINER(l, struct entry, node)

void cr_reported_init(struct cr_reported *r)
{
    *r = (struct cr_reported){.n = 0};
    cr_list_init(&r->paths);
}

static void drop(struct cr_reported *r, struct entry *e)
{
    cr_list_remove(&e->node);
    r->n--;
    cr_free(e->path);
    cr_free(e);
}

void cr_reported_fini(struct cr_reported *r)
{
    CR_LIST_FOREACH_SAFE (it, &r->paths) drop(r, ENTRY(it));
}

static struct entry *find(struct cr_reported *r, const char *path)
{
    CR_LIST_FOREACH (it, &r->paths)
        if (strcmp(ENTRY(it)->path, path) == 0) return ENTRY(it);
    return NULL;
}

/* NULL and the reason: too many, or no memory. */
static struct entry *add(struct cr_reported *r, const char *path, int *error_number)
{
    *error_number = r->n >= CR_MAX_SOCKETS ? ENOSPC : ENOMEM;
    struct entry *e = r->n >= CR_MAX_SOCKETS ? NULL : CR_NEW(struct entry);
    if (!e) return NULL;
    e->path = cr_strdup(path);
    if (!e->path) {
        cr_free(e);
        return NULL;
    }
    e->generation = ++r->generation;
    cr_list_append(&r->paths, &e->node);
    r->n++;
    return e;
}

enum cr_report cr_reported_seen(struct cr_reported *r, const char *path, struct cr_identity *out, int *error_number)
{
    struct entry *e = find(r, path);
    *error_number = cr_socket_identity(path, out);
    if (*error_number != 0) {
        bool there = *error_number != ENOENT && *error_number != ENOTDIR && *error_number != ENOTSOCK;
        if (!e || there) return CR_REPORT_IGNORED;
        drop(r, e);
        return CR_REPORT_GONE;
    }
    if (!e) e = add(r, path, error_number);
    if (!e) return CR_REPORT_IGNORED;
    out->generation = e->generation;
    return CR_REPORT_SEEN;
}

enum cr_report cr_reported_gone(struct cr_reported *r, const char *path)
{
    struct entry *e = find(r, path);
    if (!e) return CR_REPORT_IGNORED;
    drop(r, e);
    return CR_REPORT_GONE;
}

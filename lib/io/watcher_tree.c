/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "io/watcher_internal.h"

/* ---- names and files ---- */

/* "dir/name", or false for names that never count. */
static bool join(struct cr_watcher *w, const char *dir, const char *name, char out[CR_MAX_PATH + 1])
{
    if (name[0] == '.') return false;
    const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";
    if (snprintf(out, CR_MAX_PATH + 1, "%s%s%s", dir, slash, name) <= CR_MAX_PATH) return true;
    cr_watcher_warn(w, CR_WARN_NAME, dir, "a name is ignored as it makes the path longer than %d bytes: in %s",
                    CR_MAX_PATH, dir);
    return false;
}

static bool same_file(const struct cr_identity *a, const struct cr_identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->birth_ns == b->birth_ns;
}

/* Errors that say: no socket, no directory here. Others (EACCES, EMFILE, EIO) tell nothing about what is there. */
static bool absent(int err) { return err == ENOENT || err == ENOTDIR || err == ELOOP || err == ENOTSOCK; }

static bool is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    if (strncmp(path, dir, len) != 0) return false;
    return path[len] == '/' || (len == 1 && path[1] != '\0');
}

/* ---- sockets ---- */

static void mark_socket(struct cr_watcher *w, struct cr_watcher_socket *s)
{
    if (cr_list_empty(&s->dirty)) cr_list_append(&w->dirty_sockets, &s->dirty);
}

static void free_socket(struct cr_watcher_socket *s)
{
    cr_list_remove(&s->dirty);
    cr_free(s->path);
    cr_free(s);
}

static void forget_socket(struct cr_watcher *w, struct cr_watcher_socket *s)
{
    cr_path_set_remove(&w->sockets, s->path);
    if (s->known) {
        w->n_known--;
        w->removals++;
        w->last_event_wall_ms = w->now.wall_ms;
        w->generation++;
        w->handlers.gone(w->handlers.user, s->path);
    }
    free_socket(s);
}

static void report_seen(struct cr_watcher *w, struct cr_watcher_socket *s, const struct cr_identity *identity)
{
    if (!s->known) w->n_known++;
    s->known = true;
    s->identity = *identity;
    w->last_event_wall_ms = w->now.wall_ms;
    w->generation++;
    w->handlers.seen(w->handlers.user, s->path, identity);
}

/* A socket that was not there before: may it count? */
static bool welcome(struct cr_watcher *w, const struct cr_watcher_socket *s)
{
    if (!cr_utf8_valid(s->path, strlen(s->path))) {
        cr_watcher_warn(w, CR_WARN_NAME, s->path, "a socket is ignored as its name is not UTF-8: in %s", s->dir->path);
        return false;
    }
    if (w->n_known < CR_MAX_SOCKETS) return true;
    cr_watcher_warn(w, CR_WARN_SOCKETS, s->path, "more than %d sockets in the registry, the rest is ignored: %s",
                    CR_MAX_SOCKETS, w->root->path);
    return false;
}

/* What is on the disk now decides, whatever was heard before. */
static void decide(struct cr_watcher *w, struct cr_watcher_socket *s)
{
    struct cr_identity identity;
    int err = s->dir ? cr_socket_identity(s->path, &identity) : ENOENT;
    if (err && s->known && !absent(err)) return;
    if (err || (!s->known && !welcome(w, s))) {
        forget_socket(w, s);
        return;
    }
    identity.generation = s->generation;
    if (!s->known || !same_file(&s->identity, &identity) || s->identity.generation != identity.generation)
        report_seen(w, s, &identity);
}

static void decide_all(struct cr_watcher *w)
{
    for (struct cr_list *n; (n = cr_list_pop(&w->dirty_sockets));)
        decide(w, CR_CONTAINER(n, struct cr_watcher_socket, dirty));
}

static struct cr_watcher_socket *add_socket(struct cr_watcher *w, const char *path)
{
    struct cr_watcher_socket *s = CR_NEW(struct cr_watcher_socket);
    if (!s) return NULL;
    cr_list_init(&s->dirty);
    s->path = cr_strdup(path);
    if (s->path && cr_path_set_add(&w->sockets, s)) return s;
    free_socket(s);
    return NULL;
}

void cr_watcher_hint_socket(struct cr_watcher *w, struct cr_watcher_dir *dir, const char *name)
{
    char path[CR_MAX_PATH + 1];
    if (!join(w, dir->path, name, path)) return;
    struct cr_watcher_socket *s = cr_path_set_find(&w->sockets, path);
    if (!s) {
        if (w->sockets.n - w->n_known >= CR_MAX_HINTS) decide_all(w);
        s = add_socket(w, path);
        if (!s) {
            w->short_of_memory = true;
            return;
        }
        s->generation = w->removals;
    }
    s->dir = dir;
    mark_socket(w, s);
}

void cr_watcher_hint_socket_removed(struct cr_watcher *w, const struct cr_watcher_dir *dir, const char *name)
{
    char path[CR_MAX_PATH + 1];
    if (!join(w, dir->path, name, path)) return;
    struct cr_watcher_socket *s = cr_path_set_find(&w->sockets, path);
    if (!s) return;
    s->generation = ++w->removals;
    mark_socket(w, s);
}

/* ---- directories ---- */

void cr_watcher_mark_dir(struct cr_watcher *w, struct cr_watcher_dir *dir)
{
    if (dir == w->root)
        w->scan_due = true; /* whether the registry is still itself is looked at there */
    else if (cr_list_empty(&dir->dirty))
        cr_list_append(&w->dirty_dirs, &dir->dirty);
}

static void free_dir(struct cr_watcher_dir *dir)
{
    cr_list_remove(&dir->dirty);
    cr_free(dir->path);
    cr_free(dir);
}

static struct cr_watcher_dir *add_dir(struct cr_watcher *w, const char *path, int depth)
{
    struct cr_watcher_dir *dir = CR_NEW(struct cr_watcher_dir);
    if (!dir) return NULL;
    cr_list_init(&dir->dirty);
    dir->wd = -1;
    dir->depth = depth;
    dir->path = cr_strdup(path);
    if (dir->path && cr_path_set_add(&w->dirs, dir)) return dir;
    free_dir(dir);
    return NULL;
}

bool cr_watcher_set_root(struct cr_watcher *w, const char *path)
{
    w->root = add_dir(w, path, 0);
    return w->root != NULL;
}

/* Its sockets need a look, from now on as part of owner (NULL: of no directory). */
static void mark_sockets_of(struct cr_watcher *w, const struct cr_watcher_dir *dir, struct cr_watcher_dir *owner)
{
    for (size_t i = 0; i < w->sockets.n; i++) {
        struct cr_watcher_socket *s = w->sockets.items[i];
        if (s->dir != dir) continue;
        s->dir = owner;
        mark_socket(w, s);
    }
}

static void drop_dir(struct cr_watcher *w, struct cr_watcher_dir *dir)
{
    mark_sockets_of(w, dir, NULL);
    cr_watcher_notify_remove(w, dir);
    cr_path_set_remove(&w->dirs, dir->path);
    free_dir(dir);
}

static void drop_below(struct cr_watcher *w, const struct cr_watcher_dir *dir)
{
    for (size_t i = w->dirs.n; i-- > 0;) {
        struct cr_watcher_dir *child = w->dirs.items[i];
        if (is_below(child->path, dir->path)) drop_dir(w, child);
    }
}

static void drop_with_all_below(struct cr_watcher *w, struct cr_watcher_dir *dir)
{
    drop_below(w, dir);
    drop_dir(w, dir);
}

void cr_watcher_drop_tree(struct cr_watcher *w)
{
    struct cr_watcher_dir *root = w->root;
    w->root = NULL;
    drop_with_all_below(w, root);
    decide_all(w);
}

void cr_watcher_hint_dir(struct cr_watcher *w, const struct cr_watcher_dir *parent, const char *name, bool again)
{
    char path[CR_MAX_PATH + 1];
    if (!join(w, parent->path, name, path)) return;
    struct cr_watcher_dir *dir = cr_path_set_find(&w->dirs, path);
    if (dir) {
        if (again) cr_watcher_mark_dir(w, dir);
        return;
    }
    if (parent->depth == CR_MAX_DEPTH) {
        cr_watcher_warn(w, CR_WARN_DEPTH, path,
                        "a directory is ignored as it is deeper than %d levels below the registry: %s", CR_MAX_DEPTH,
                        path);
        return;
    }
    if (w->dirs.n == CR_MAX_DIRECTORIES) {
        cr_watcher_warn(w, CR_WARN_DIRECTORIES, path,
                        "%s: more than %d directories in the registry, the rest is ignored", w->root->path,
                        CR_MAX_DIRECTORIES);
        return;
    }
    dir = add_dir(w, path, parent->depth + 1);
    if (dir)
        cr_watcher_mark_dir(w, dir);
    else
        w->short_of_memory = true;
}

void cr_watcher_hint_dir_removed(struct cr_watcher *w, const struct cr_watcher_dir *parent, const char *name)
{
    char path[CR_MAX_PATH + 1];
    if (!join(w, parent->path, name, path)) return;
    struct cr_watcher_dir *dir = cr_path_set_find(&w->dirs, path);
    if (dir) cr_watcher_mark_dir(w, dir);
}

/* ---- scanning one directory ---- */

/*
 * The directory was found under a second path: it was moved, or mounted twice. One inode has one inotify watch, so it
 * belongs to one path only. True: the other path still leads there and keeps it.
 */
static bool belongs_to_other(struct cr_watcher *w, const struct cr_watcher_dir *dir)
{
    for (size_t i = 0; i < w->dirs.n; i++) {
        struct cr_watcher_dir *other = w->dirs.items[i];
        if (other == dir || !same_file(&other->identity, &dir->identity)) continue;
        struct cr_identity now;
        unsigned mode;
        if (!cr_file_identity(AT_FDCWD, other->path, AT_SYMLINK_NOFOLLOW, &now, &mode) &&
            same_file(&now, &dir->identity))
            return true;
        cr_watcher_notify_remove(w, other);
        other->identity = (struct cr_identity){0};
        cr_watcher_mark_dir(w, other);
        return false;
    }
    return false;
}

/* Takes what was opened at the path as this directory and watches it. False: dir is gone. */
static bool adopt(struct cr_watcher *w, struct cr_watcher_dir *dir, const struct cr_identity *found)
{
    if (dir->stale || !same_file(&dir->identity, found)) {
        drop_below(w, dir);
        mark_sockets_of(w, dir, dir);
        cr_watcher_notify_remove(w, dir);
        dir->identity = *found;
        dir->stale = false;
        if (belongs_to_other(w, dir)) {
            drop_dir(w, dir);
            return false;
        }
    }
    if (dir->wd < 0) cr_watcher_notify_add(w, dir);
    return true;
}

static void list_entry(struct cr_watcher *w, struct cr_watcher_dir *dir, int fd, const struct dirent *entry)
{
    bool is_dir = entry->d_type == DT_DIR;
    if (entry->d_type == DT_UNKNOWN) {
        struct cr_identity identity;
        unsigned mode;
        if (cr_file_identity(fd, entry->d_name, AT_SYMLINK_NOFOLLOW, &identity, &mode)) return;
        is_dir = S_ISDIR(mode);
    } else if (!is_dir && entry->d_type != DT_SOCK && entry->d_type != DT_LNK) {
        return;
    }
    if (is_dir)
        cr_watcher_hint_dir(w, dir, entry->d_name, false);
    else
        cr_watcher_hint_socket(w, dir, entry->d_name);
}

static void list_dir(struct cr_watcher *w, struct cr_watcher_dir *dir, int fd)
{
    DIR *stream = fdopendir(fd);
    if (!stream) {
        close(fd);
        w->short_of_memory = true;
        return;
    }
    for (const struct dirent *entry; (entry = readdir(stream));)
        if (entry->d_name[0] != '.') list_entry(w, dir, fd, entry);
    closedir(stream);
}

static void cannot_open(struct cr_watcher *w, struct cr_watcher_dir *dir, int err)
{
    if (!absent(err))
        cr_watcher_warn(w, CR_WARN_UNREADABLE, dir->path,
                        "a directory cannot be read (%s), what is new in it stays unseen: %s", strerrordesc_np(err),
                        dir->path);
    else if (dir == w->root)
        w->scan_due = true;
    else
        drop_with_all_below(w, dir);
}

static void scan_dir(struct cr_watcher *w, struct cr_watcher_dir *dir)
{
    struct cr_identity found;
    unsigned mode;
    int fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int err = fd < 0 ? errno : cr_file_identity(fd, "", AT_EMPTY_PATH, &found, &mode);
    if (err)
        cannot_open(w, dir, err);
    else if (adopt(w, dir, &found)) {
        list_dir(w, dir, fd);
        return;
    }
    if (fd >= 0) close(fd);
}

/* In path order, hence parents first: what left the tree with its parent is not looked at through a link in its place.
 */
void cr_watcher_mark_all(struct cr_watcher *w)
{
    for (size_t i = 0; i < w->dirs.n; i++) {
        struct cr_watcher_dir *dir = w->dirs.items[i];
        cr_list_remove(&dir->dirty);
        cr_list_append(&w->dirty_dirs, &dir->dirty);
    }
    for (size_t i = 0; i < w->sockets.n; i++) mark_socket(w, w->sockets.items[i]);
}

void cr_watcher_look(struct cr_watcher *w)
{
    for (struct cr_list *n; (n = cr_list_pop(&w->dirty_dirs));)
        scan_dir(w, CR_CONTAINER(n, struct cr_watcher_dir, dirty));
    decide_all(w);
}

void cr_watcher_tree_fini(struct cr_watcher *w)
{
    for (size_t i = 0; i < w->sockets.n; i++) free_socket(w->sockets.items[i]);
    for (size_t i = 0; i < w->dirs.n; i++) free_dir(w->dirs.items[i]);
    cr_path_set_fini(&w->sockets);
    cr_path_set_fini(&w->dirs);
}

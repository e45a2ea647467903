/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/log.h"
#include "ctl/view.h"

#define LEAST_WIDTH 40

size_t terminal_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO)) return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col < LEAST_WIDTH ? LEAST_WIDTH : size.ws_col;
}

static struct view view_of(const struct watch_config *c, const json_t *status, size_t width)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct view v = {.status = status, .driver = c->driver, .width = width};
    v.now = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    advice_list(status, &v.advice);
    return v;
}

/* ---- on a terminal ---- */

/* Over what is there, so that nothing flickers: each line clears its rest, the last one what is below. */
static void draw(const char *text)
{
    fputs("\033[H", stdout);
    for (; *text; text++) {
        if (*text == '\n') fputs("\033[K", stdout);
        fputc(*text, stdout);
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

static void redraw(const struct watch_config *c, const json_t *status, const char *error)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return;
    if (status) {
        struct view v = view_of(c, status, terminal_width());
        view_table(&v, out);
        advice_list_free(&v.advice);
    } else {
        view_put(out, error);
        fputs("\nTrying again.\n", out);
    }
    fclose(out);
    draw(text);
    free(text);
}

/* ---- line by line ---- */

static void say(const char *key, const char *text)
{
    char now[LOG_TIME_SIZE];
    log_time(now);
    printf("%s ", now);
    view_put(stdout, key);
    fputs(*key ? " " : "", stdout);
    view_put(stdout, text);
    fputc('\n', stdout);
    fflush(stdout);
}

static const char *text_of(const struct view_lines *lines, const char *key)
{
    for (size_t i = 0; i < lines->n; i++)
        if (strcmp(lines->items[i].key, key) == 0) return lines->items[i].text;
    return NULL;
}

static bool has_line(const struct view_lines *lines, const struct view_line *line)
{
    for (size_t i = 0; i < lines->n; i++)
        if (strcmp(lines->items[i].key, line->key) == 0 && strcmp(lines->items[i].text, line->text) == 0) return true;
    return false;
}

static void say_changes(const struct view_lines *before, const struct view_lines *now)
{
    for (size_t i = 0; i < before->n; i++)
        if (!text_of(now, before->items[i].key)) say(before->items[i].key, "is no more");
    for (size_t i = 0; i < now->n; i++)
        if (!has_line(before, &now->items[i])) say(now->items[i].key, now->items[i].text);
}

static void follow(const struct watch_config *c, const json_t *status, struct view_lines *before)
{
    struct view_lines now;
    struct view v = view_of(c, status, 0);
    view_lines(&v, &now);
    say_changes(before, &now);
    advice_list_free(&v.advice);
    view_lines_free(before);
    *before = now;
}

/* ---- both ---- */

/* False: the end. */
static bool pause_until_next(const struct watch_config *c)
{
    struct pollfd fds[] = {{c->stop_fd, POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
    int n;
    while ((n = poll(fds, 2, (int)c->interval_ms)) < 0 && errno == EINTR) continue;
    return n == 0;
}

static void look(const struct watch_config *c, bool terminal, struct view_lines *before, char **last_error)
{
    char *error = NULL;
    json_t *status = c->fetch(c->user, &error);
    bool news = error && (!*last_error || strcmp(error, *last_error) != 0);
    if (terminal)
        redraw(c, status, error);
    else if (status)
        follow(c, status, before);
    else if (news)
        say("", error);
    free(*last_error);
    *last_error = error;
    json_decref(status);
}

void watch(const struct watch_config *c)
{
    bool terminal = terminal_width() > 0;
    struct view_lines before = {NULL, 0};
    char *error = NULL;
    if (terminal) fputs("\033[2J", stdout);
    do look(c, terminal, &before, &error);
    while (pause_until_next(c) && !ferror(stdout));
    free(error);
    view_lines_free(&before);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "io/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/mem.h"

#define READ_TRIES 3 /* a file that is rewritten in place while it is read */

static const struct {
    const char *name;
    size_t max;
} kinds[] = {
    [CR_SECRET_TOKEN] = {"token", CR_MAX_TOKEN},
    [CR_SECRET_CA] = {"CA", CR_MAX_PEM},
    [CR_SECRET_CERTIFICATE] = {"client certificate", CR_MAX_PEM},
    [CR_SECRET_KEY] = {"client key", CR_MAX_PEM},
};

/* ---- memory ---- */

void cr_secret_wipe(char *data, size_t len)
{
    if (data) explicit_bzero(data, len);
    cr_free(data);
}

void cr_secret_fini(struct cr_secret *s)
{
    cr_secret_wipe(s->data, s->len);
    cr_free(s->file);
    *s = (struct cr_secret){0};
}

/* ---- files ---- */

static int failed(struct csireg_error **error, int number, const char *what, const char *path, const char *why)
{
    struct csireg_error *e = cr_error_new(CSIREG_ERR_CONFIG, "%s file %s: %s", what, path, why);
    if (number) cr_error_set_origin(e, CSIREG_ORIGIN_OS, number);
    return cr_error_put(error, e);
}

static int failed_os(struct csireg_error **error, int number, const char *what, const char *path)
{
    char text[128] = "";
    return failed(error, number, what, path, strerror_r(number, text, sizeof text));
}

static long long nanoseconds(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }

static void stamp(struct cr_secret *s, const struct stat *st)
{
    s->mtime_ns = nanoseconds(st->st_mtim);
    s->ctime_ns = nanoseconds(st->st_ctim);
    s->ino = st->st_ino;
    s->size = (unsigned long long)st->st_size;
}

static bool same_file(const struct cr_secret *s, const struct stat *st)
{
    struct cr_secret now;
    stamp(&now, st);
    return s->mtime_ns == now.mtime_ns && s->ctime_ns == now.ctime_ns && s->ino == now.ino && s->size == now.size;
}

/* Reads up to size bytes and one more, to see that there is none. -1 with errno, else the bytes read. */
static ssize_t read_all(int fd, char *data, size_t size)
{
    size_t len = 0;
    while (len <= size) {
        ssize_t n = read(fd, data + len, size + 1 - len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        len += (size_t)n;
    }
    return (ssize_t)len;
}

/* 0, or -1 with *error, or 1: it changed meanwhile. */
static int read_open_file(int fd, const char *path, const char *what, size_t max, struct cr_secret *s,
                          struct csireg_error **error)
{
    struct stat before, after;
    if (fstat(fd, &before) != 0) return failed_os(error, errno, what, path);
    if (!S_ISREG(before.st_mode)) return failed(error, 0, what, path, "is not a regular file");
    if ((size_t)before.st_size > max) {
        return cr_error_put(error, cr_error_new(CSIREG_ERR_CONFIG, "%s file %s: has %lld bytes, at most %zu are read",
                                                what, path, (long long)before.st_size, max));
    }
    size_t size = (size_t)before.st_size;
    char *data = cr_calloc(size + 2, 1);
    if (!data) return cr_error_put(error, cr_error_oom());
    ssize_t n = read_all(fd, data, size);
    int number = errno;
    stamp(s, &before);
    if (n >= 0 && (size_t)n == size && fstat(fd, &after) == 0 && same_file(s, &after)) {
        s->data = data;
        s->len = size;
        return 0;
    }
    cr_secret_wipe(data, size + 1);
    return n < 0 ? failed_os(error, number, what, path) : 1;
}

/* O_NONBLOCK: the open of a FIFO must not wait for a writer. */
static int read_file(const char *path, const char *what, size_t max, struct cr_secret *s, struct csireg_error **error)
{
    for (int i = 0; i < READ_TRIES; i++) {
        int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0) return failed_os(error, errno, what, path);
        int rc = read_open_file(fd, path, what, max, s, error);
        close(fd);
        if (rc <= 0) return rc;
    }
    return failed(error, 0, what, path, "changes while it is read; replace it by a rename instead");
}

int cr_secret_read_file(const char *path, const char *what, size_t max, char **out, size_t *out_len,
                        struct csireg_error **error)
{
    struct cr_secret s = {0};
    int rc = read_file(path, what, max, &s, error);
    if (rc < 0) return rc;
    *out = s.data;
    *out_len = s.len;
    return 0;
}

char *cr_secret_path(const char *dir, const char *path)
{
    struct cr_buf b;
    if (path[0] == '/') return cr_strdup(path);
    char *here = dir ? NULL : getcwd(NULL, 0);
    if (!dir && !here) return NULL;
    cr_buf_init(&b, 2 * CR_MAX_PATH);
    cr_buf_printf(&b, "%s/%s", dir ? dir : here, path);
    free(here);
    return cr_buf_take(&b);
}

/* ---- content ---- */

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes into out, which has room for 3/4 of text; the number of bytes, or -1. */
static ssize_t decode(const char *text, char *out)
{
    unsigned bits = 0;
    size_t n = 0, len = 0, pad = 0;
    for (; *text; text++) {
        if (*text == '\n' || *text == '\r') continue;
        int v = *text == '=' ? 0 : base64_value(*text);
        if (v < 0 || (pad && *text != '=')) return -1;
        pad += *text == '=';
        bits = bits << 6 | (unsigned)v;
        if (++n % 4) continue;
        for (int i = 2; i >= 0; i--) out[len++] = (char)(unsigned char)(bits >> (8 * i));
    }
    if (n % 4 || pad > 2 || pad > len) return -1;
    for (size_t i = len - pad; i < len; i++)
        if (out[i]) return -1; /* bits that would be lost */
    return (ssize_t)(len - pad);
}

char *cr_secret_base64(const char *text, size_t *out_len, bool *nomem)
{
    size_t room = strlen(text) / 4 * 3 + 4;
    char *out = cr_calloc(room, 1);
    *nomem = !out;
    if (!out) return NULL;
    ssize_t len = decode(text, out);
    if (len < 0) {
        cr_secret_wipe(out, room);
        return NULL;
    }
    *out_len = (size_t)len;
    return out;
}

static size_t trimmed(char *data, size_t len)
{
    size_t start = strspn(data, " \t\r\n");
    while (len > start && memchr(" \t\r\n", data[len - 1], 4)) len--;
    memmove(data, data + start, len - start);
    explicit_bzero(data + len - start, start);
    data[len - start] = '\0';
    return len - start;
}

/* A token goes into a header as it is: anything but visible ASCII could end the header and begin another one. */
static const char *token_fault(const char *data, size_t len)
{
    if (len == 0) return "is empty";
    for (size_t i = 0; i < len; i++)
        if (data[i] <= ' ' || data[i] > '~')
            return "holds a control character, a space or a non-ASCII byte, which no bearer token has";
    return NULL;
}

static const char *pem_fault(enum cr_secret_kind kind, const char *data, size_t len)
{
    if (len == 0) return "is empty";
    if (strlen(data) != len) return "is not PEM (it holds a NUL byte; convert DER with openssl)";
    if (kind != CR_SECRET_KEY) {
        bool found = strstr(data, "-----BEGIN CERTIFICATE-----") || strstr(data, "-----BEGIN TRUSTED CERTIFICATE-----");
        return found ? NULL : "is not PEM (no BEGIN CERTIFICATE line)";
    }
    if (strstr(data, "-----BEGIN ENCRYPTED PRIVATE KEY-----") || strstr(data, "Proc-Type: 4,ENCRYPTED"))
        return "is encrypted and nobody can be asked for a passphrase; use a key without one";
    return strstr(data, "PRIVATE KEY-----") ? NULL : "is not PEM (no BEGIN PRIVATE KEY line)";
}

const char *cr_secret_set(struct cr_secret *s, enum cr_secret_kind kind, char *data, size_t len)
{
    const char *fault;
    size_t kept = len;
    if (kind == CR_SECRET_TOKEN) {
        kept = trimmed(data, len);
        fault = kept > CR_MAX_TOKEN ? "is longer than a token may be" : token_fault(data, kept);
    } else {
        fault = pem_fault(kind, data, len);
    }
    if (fault) {
        cr_secret_wipe(data, len);
        return fault;
    }
    cr_secret_wipe(s->data, s->len);
    s->data = data;
    s->len = kept;
    return NULL;
}

int cr_secret_load(const struct cr_secret *s, enum cr_secret_kind kind, bool force, struct cr_secret *next,
                   struct csireg_error **error)
{
    struct stat st;
    if (!s->file) return 0;
    if (!force && stat(s->file, &st) == 0 && same_file(s, &st)) return 0;
    int rc = read_file(s->file, kinds[kind].name, kinds[kind].max, next, error);
    if (rc < 0) return rc;
    char *data = next->data;
    next->data = NULL;
    const char *fault = cr_secret_set(next, kind, data, next->len);
    return fault ? failed(error, 0, kinds[kind].name, s->file, fault) : 1;
}

bool cr_secret_adopt(struct cr_secret *s, struct cr_secret *next)
{
    bool differs = !s->data || s->len != next->len || memcmp(s->data, next->data, next->len) != 0;
    next->file = s->file;
    s->file = NULL;
    cr_secret_fini(s);
    *s = *next;
    *next = (struct cr_secret){0};
    return differs;
}

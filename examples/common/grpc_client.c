/* SPDX-License-Identifier: Apache-2.0 */
#include "common/grpc_client.h"

#include <errno.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc.h"
#include "common/unix_socket.h"

enum { CODE_UNKNOWN = 2, CODE_DEADLINE_EXCEEDED = 4, CODE_INTERNAL = 13, CODE_UNAVAILABLE = 14, CODE_LAST = 16 };

#define QUOTA (4 * 1024 * 1024) /* memory of the connection, so that a huge answer ends early */

/* What one call needs from its batch. */
struct batch {
    grpc_completion_queue *cq;
    grpc_metadata_array initial, trailing;
    grpc_status_code status;
    grpc_slice details;
    grpc_byte_buffer *request, *response;
};

static grpc_channel *open_channel(int fd)
{
    grpc_resource_quota *quota = grpc_resource_quota_create(NULL);
    grpc_resource_quota_resize(quota, QUOTA);
    grpc_arg list[] = {
        {.type = GRPC_ARG_STRING, .key = (char *)GRPC_ARG_DEFAULT_AUTHORITY, .value.string = (char *)"localhost"},
        {.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_ENABLE_RETRIES, .value.integer = 0},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
         .value.integer = GCLIENT_MAX_RESPONSE},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
         .value.integer = 1 << GRPC_COMPRESS_NONE},
        {.type = GRPC_ARG_POINTER,
         .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
         .value.pointer = {quota, grpc_resource_quota_arg_vtable()}}};
    grpc_channel_args args = {sizeof list / sizeof *list, list};
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create_from_fd("localhost", fd, credentials, &args);
    grpc_channel_credentials_release(credentials);
    grpc_resource_quota_unref(quota);
    return channel;
}

static void batch_init(struct batch *b, const void *request, size_t len)
{
    *b = (struct batch){.cq = grpc_completion_queue_create_for_pluck(NULL), .details = grpc_empty_slice()};
    grpc_metadata_array_init(&b->initial);
    grpc_metadata_array_init(&b->trailing);
    grpc_slice bytes = len ? grpc_slice_from_copied_buffer(request, len) : grpc_empty_slice();
    b->request = grpc_raw_byte_buffer_create(&bytes, 1);
    grpc_slice_unref(bytes);
}

static void batch_fini(struct batch *b)
{
    grpc_byte_buffer_destroy(b->request);
    grpc_byte_buffer_destroy(b->response);
    grpc_slice_unref(b->details);
    grpc_metadata_array_destroy(&b->initial);
    grpc_metadata_array_destroy(&b->trailing);
    grpc_completion_queue_shutdown(b->cq);
    gpr_timespec never = gpr_inf_future(GPR_CLOCK_MONOTONIC);
    while (grpc_completion_queue_pluck(b->cq, NULL, never, NULL).type != GRPC_QUEUE_SHUTDOWN) continue;
    grpc_completion_queue_destroy(b->cq);
}

/* The deadline is the call's, so waiting for the batch needs none. */
static bool run_batch(struct batch *b, grpc_call *call)
{
    grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = b->request},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &b->initial},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &b->response},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {
             .trailing_metadata = &b->trailing, .status = &b->status, .status_details = &b->details}}};
    if (grpc_call_start_batch(call, ops, sizeof ops / sizeof *ops, b, NULL) != GRPC_CALL_OK) return false;
    grpc_completion_queue_pluck(b->cq, b, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    return true;
}

/* A text of the peer, without control characters. */
static char *clean_text(grpc_slice details)
{
    char *text = need_strndup((const char *)GRPC_SLICE_START_PTR(details), GRPC_SLICE_LENGTH(details));
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
    return text;
}

static void fail(struct gclient_reply *out, int code, int error, const char *text)
{
    *out = (struct gclient_reply){.code = code, .error = error, .text = need_strdup(text)};
}

static void take_answer(struct batch *b, struct gclient_reply *out)
{
    grpc_byte_buffer_reader reader;
    if (b->status != GRPC_STATUS_OK) {
        int code = (int)b->status;
        *out = (struct gclient_reply){.code = code < 0 || code > CODE_LAST ? CODE_UNKNOWN : code};
        out->text = clean_text(b->details);
    } else if (!b->response || !grpc_byte_buffer_reader_init(&reader, b->response)) {
        fail(out, CODE_INTERNAL, 0, "no response message");
    } else {
        grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
        *out = (struct gclient_reply){.text = need_strdup(""), .len = GRPC_SLICE_LENGTH(bytes)};
        out->body = need_calloc(out->len, 1);
        memcpy(out->body, GRPC_SLICE_START_PTR(bytes), out->len);
        grpc_slice_unref(bytes);
        grpc_byte_buffer_reader_destroy(&reader);
    }
}

static void call_on(grpc_channel *channel, const char *method, struct batch *b, gpr_timespec deadline,
                    struct gclient_reply *out)
{
    grpc_slice name = grpc_slice_from_copied_string(method);
    grpc_call *call =
        grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, b->cq, name, NULL, deadline, NULL);
    if (run_batch(b, call))
        take_answer(b, out);
    else
        fail(out, CODE_INTERNAL, 0, "the call could not be started");
    grpc_call_unref(call);
    grpc_slice_unref(name);
}

void gclient_call(const char *path, const char *method, const void *request, size_t len, int64_t timeout_ms,
                  struct gclient_reply *out)
{
    if (timeout_ms > INT_MAX) timeout_ms = INT_MAX;
    gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
    if (timeout_ms <= 0) return fail(out, CODE_DEADLINE_EXCEEDED, 0, "no time left");
    int fd = unix_connect(path, (int)timeout_ms);
    if (fd < 0) {
        int error = errno;
        return fail(out, CODE_UNAVAILABLE, error, strerror(error));
    }
    struct batch b;
    batch_init(&b, request, len);
    grpc_channel *channel = open_channel(fd);
    call_on(channel, method, &b, deadline, out);
    grpc_channel_destroy(channel);
    batch_fini(&b);
}

void gclient_reply_fini(struct gclient_reply *reply)
{
    free(reply->text);
    free(reply->body);
    *reply = (struct gclient_reply){0};
}

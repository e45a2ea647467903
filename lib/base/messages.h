/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary that wire, io and core share: answers of drivers and of the API server as plain C values.
 * Every string is valid UTF-8 without NUL when it comes from wire. All of it is owned by the struct and freed by its
 * _fini.
 */
#ifndef CR_BASE_MESSAGES_H
#define CR_BASE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- plugins and drivers (gRPC) ---- */

enum cr_rpc_method {
    CR_RPC_GET_INFO = 1,          /* pluginregistration.Registration/GetInfo */
    CR_RPC_NOTIFY,                /* pluginregistration.Registration/NotifyRegistrationStatus */
    CR_RPC_NODE_GET_CAPABILITIES, /* csi.v1.Node/NodeGetCapabilities */
    CR_RPC_NODE_GET_INFO,         /* csi.v1.Node/NodeGetInfo */
};

/* gRPC status codes that decisions name. */
enum {
    CR_GRPC_OK = 0,
    CR_GRPC_CANCELLED = 1,
    CR_GRPC_UNKNOWN = 2,
    CR_GRPC_DEADLINE_EXCEEDED = 4,
    CR_GRPC_RESOURCE_EXHAUSTED = 8,
    CR_GRPC_UNIMPLEMENTED = 12,
    CR_GRPC_INTERNAL = 13,
    CR_GRPC_UNAVAILABLE = 14,
};

struct cr_pair {
    char *key, *value;
};

struct cr_plugin_info {
    char *type, *name, *endpoint;
    char **versions; /* NULL-terminated */
    size_t n_versions;
};

struct cr_node_capabilities {
    int32_t *types; /* every rpc type as received; UNKNOWN and entries without rpc are left out */
    size_t n_types;
};

struct cr_node_info {
    char *node_id;
    int64_t max_volumes;
    struct cr_pair *segments; /* sorted by key bytewise, keys unique (the last one on the wire wins) */
    size_t n_segments;        /* 0 for a flagged request: topology is not consumed there (KEP-6011) */
};

/* What became of one RPC. code 0: exactly the member of the method is filled. */
struct cr_rpc_result {
    int code;     /* 0..16 */
    bool refused; /* code 0 on the wire, but the message broke a bound or could not be decoded: class P */
    char *text;   /* for people: the peer's sanitised message, or why it was refused; may be NULL */
    struct cr_plugin_info plugin; /* CR_RPC_GET_INFO */
    struct cr_node_capabilities capabilities;
    struct cr_node_info node;
};

void cr_plugin_info_fini(struct cr_plugin_info *m);
void cr_node_capabilities_fini(struct cr_node_capabilities *m);
void cr_node_info_fini(struct cr_node_info *m);
void cr_rpc_result_fini(struct cr_rpc_result *r);

/* Identity of a socket file (spec: device, inode, birth time, generation). */
struct cr_identity {
    uint64_t dev, ino;
    int64_t birth_ns;    /* statx birth time; change time where the file system has none */
    uint32_t uid;        /* owner of the file; not part of the identity: a chown makes no other socket */
    uint64_t generation; /* raised by each removal seen at this path */
};

/* Users that sockets and their servers may belong to; n = 0: everybody. */
struct cr_uids {
    const uint32_t *uids;
    size_t n;
};
bool cr_uids_have(const struct cr_uids *allowed, uint32_t uid);

/* ---- the API server (HTTPS) ---- */

enum cr_http_method { CR_HTTP_GET = 1, CR_HTTP_POST, CR_HTTP_PUT, CR_HTTP_PATCH, CR_HTTP_DELETE };

/* One request. The path is complete and percent-encoded: "/apis/storage.k8s.io/v1/csinodes/n1?x=y". */
struct cr_api_request {
    enum cr_http_method method;
    const char *verb;     /* static: get list watch create update patch delete; for counting */
    const char *resource; /* static: "nodes", "nodes/status", "csinodes", "csidrivers"; for counting */
    char *path;
    const char *content_type; /* static; NULL without a body */
    char *body;               /* NULL without a body */
    int64_t timeout_ms;       /* whole request; for a watch: timeoutSeconds + 10 s */
    bool watch;               /* lines are delivered as they come; a connection of its own */
};

enum cr_transport {
    CR_TRANSPORT_OK = 0,  /* an HTTP answer came; status says which */
    CR_TRANSPORT_CONNECT, /* name, address, connect */
    CR_TRANSPORT_TLS,     /* handshake or certificate */
    CR_TRANSPORT_TIMEOUT,
    CR_TRANSPORT_BROKEN,      /* connection lost before the answer was complete, or not HTTP */
    CR_TRANSPORT_TOO_LARGE,   /* the answer passed its bound */
    CR_TRANSPORT_CREDENTIALS, /* credentials could not be read */
    CR_TRANSPORT_CANCELLED,
    CR_TRANSPORT_NOMEM,
};

struct cr_api_answer {
    enum cr_transport transport;
    char *text;             /* for people, when transport is not OK; may be NULL */
    int number;             /* the CURLcode or errno behind it, 0 if none */
    int status;             /* HTTP status */
    int64_t retry_after_ms; /* -1: no header */
    char *warning;          /* first Warning header's text, or NULL */
    char *body;             /* NUL-terminated, NULL when empty; a watch delivers lines instead unless status != 200 */
    size_t body_len;
};

void cr_api_request_fini(struct cr_api_request *r);
void cr_api_answer_fini(struct cr_api_answer *a);

#endif

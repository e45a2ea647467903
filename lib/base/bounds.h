/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every size that somebody outside controls has its bound here, and nowhere else.
 * A bound is never raised by input; what exceeds it is refused with an error that names it.
 */
#ifndef CR_BASE_BOUNDS_H
#define CR_BASE_BOUNDS_H

/* Registry tree. */
#define CR_MAX_SOCKETS     1024 /* registration sockets of one manager, all doors together */
#define CR_MAX_DIRECTORIES 1024 /* watched directories, the registry included */
#define CR_MAX_DEPTH       8    /* directory levels below the registry */
#define CR_MAX_HINTS       4096 /* names heard of and not looked at yet */
#define CR_MAX_PATH        4095 /* bytes of a socket path, terminator not counted */
#define CR_MAX_SUN_PATH    107  /* longest path that fits sockaddr_un directly */

/* gRPC messages and their fields, in bytes and items. */
#define CR_MAX_RPC_MESSAGE       (64 * 1024)
#define CR_MAX_RPC_BUFFERS       (1024 * 1024) /* what gRPC may hold for one connection */
#define CR_DECODE_FACTOR         16            /* one decode may use this many times its message bound */
#define CR_MAX_PLUGIN_NAME       253
#define CR_MAX_PLUGIN_TYPE       64
#define CR_MAX_VERSION           64
#define CR_MAX_VERSIONS          64
#define CR_MAX_CAPABILITIES      1024
#define CR_MAX_TOPOLOGY_SEGMENTS 128
#define CR_MAX_GRPC_MESSAGE      1024 /* status text of a peer, sanitised */
#define CR_MAX_NOTIFY_ERROR      1024 /* text that NotifyRegistrationStatus carries */

/* Names of Kubernetes and CSI objects, in bytes. */
#define CR_MAX_DRIVER_NAME  63
#define CR_MAX_NODE_ID      256
#define CR_MAX_NODE_NAME    253
#define CR_MAX_LABEL_PREFIX 253
#define CR_MAX_LABEL_NAME   63
#define CR_MAX_LABEL_VALUE  63

/* Kubernetes API. */
#define CR_MAX_API_BODY           (8 * 1024 * 1024) /* one answer */
#define CR_MAX_JSON_VALUES        (512 * 1024)      /* values in one JSON text: memory of the parsed tree */
#define CR_MAX_WATCH_LINE         (1024 * 1024)     /* one watch event */
#define CR_MAX_API_HEADER         4096              /* a header value that is kept */
#define CR_MAX_API_MESSAGE        1024              /* Status.message as kept in an error */
#define CR_MAX_CSIDRIVERS         4096              /* CSIDriver objects remembered */
#define CR_MAX_RETRY_AFTER_MS     (10 * 60 * 1000)  /* a longer Retry-After counts as this */
#define CR_MAX_API_HEADERS        (64 * 1024)       /* all header lines of one answer */
#define CR_MAX_KUBECONFIG         (1024 * 1024)
#define CR_MAX_KUBECONFIG_DEPTH   32
#define CR_MAX_KUBECONFIG_NODES   (64 * 1024)
#define CR_MAX_KUBECONFIG_ANCHORS 64
#define CR_MAX_TOKEN              (64 * 1024)
#define CR_MAX_PEM                (1024 * 1024)

/* What the host configures, in bytes and items. */
#define CR_MAX_URL         2048 /* API server, proxy */
#define CR_MAX_CONTEXT     1024 /* name of a kubeconfig context */
#define CR_MAX_SERVER_NAME 253  /* for TLS */
#define CR_MAX_LIST_OPTION 64   /* items of one list option */
#define CR_MAX_LABEL_KEY   317  /* a qualified name */

#define CR_MAX_USER_ID 10 /* digits of a numeric user id */

/* Errors, events, logs. */
#define CR_MAX_ERROR_TEXT       2048
#define CR_MAX_LOG_TEXT         2048
#define CR_MAX_PENDING_PLUGINS  1024                 /* PLUGIN requests that the host has not answered */
#define CR_MAX_PENDING_WARNINGS 256                  /* WARNING events that the host has not read */
#define CR_MAX_EVENTS           (4 * CR_MAX_SOCKETS) /* events that the host has not read, of all kinds */
#define CR_MAX_COMMANDS         (64 * 1024)          /* calls of the host that the engine has not taken yet */
#define CR_MAX_STATUS           (64 * 1024 * 1024)   /* bytes of the status document */

/* Metrics. */
#define CR_MAX_MEASURED_DRIVERS CR_MAX_SOCKETS /* driver names with latencies of their own */
#define CR_MAX_REQUEST_TALLIES  256            /* combinations of verb, resource and HTTP status counted apart */

#endif

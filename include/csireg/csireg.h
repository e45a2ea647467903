/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csireg: for any node agent, what the kubelet does when a CSI driver registers, with KEP-6011's controller flow.
 *
 *   options.h   what a host sets before it makes a manager: node name, API server, registry directory, ...
 *   manager.h   the manager: start and stop, the three doors for sockets and drivers, lookups, status
 *   event.h     what the manager tells: driver registered, gone, failed, ...
 *   error.h     why something failed
 *   metrics.h   what the manager counts and measures, for a host that exports it
 *   log.h       one line at a time, for a callback of the host
 *
 * The life of a host: csireg_options_new, _set_...; csireg_manager_new, _start; poll csireg_manager_fd and read
 * csireg_manager_next_event until STOPPED; csireg_manager_stop, _free; csireg_options_free.
 *
 * Rules that hold everywhere
 * - Functions that can fail return 0 or a negative value of enum csireg_code. Detail comes in the last parameter, an
 *   error object: `error` may be NULL; *error must be NULL, or hold an earlier error, which then stays (the first one
 *   wins). It is written on failure only, and freed with csireg_error_free by the caller.
 * - Outputs are called out_..., come before the error, and are untouched on failure.
 * - What goes in is copied before the call returns, unless the comment says otherwise. What comes out through out_...
 * is the caller's and is given back to the _free function of its type; what a getter returns is borrowed and lives as
 * long as its object. Every _free accepts NULL.
 * - Strings are UTF-8 and end with NUL. Times are in milliseconds.
 * - The library never prints, never exits, and changes nothing of the process: no signal handlers, environment, umask
 * or working directory. Every descriptor it opens is CLOEXEC. All of a manager's threads have all signals blocked.
 */
#ifndef CSIREG_CSIREG_H
#define CSIREG_CSIREG_H

#include <csireg/error.h>
#include <csireg/event.h>
#include <csireg/log.h>
#include <csireg/manager.h>
#include <csireg/metrics.h>
#include <csireg/options.h>
#include <csireg/version.h>

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Everything of the library. */
#ifndef CSIREG_CSIREG_H
#define CSIREG_CSIREG_H

#include <csireg/error.h>
#include <csireg/event.h>
#include <csireg/log.h>
#include <csireg/manager.h>
#include <csireg/options.h>
#include <csireg/version.h>

#endif

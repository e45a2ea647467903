/* SPDX-License-Identifier: Apache-2.0 */
#include "csireg/version.h"

const char *csireg_version(void) { return CSIREG_VERSION; }

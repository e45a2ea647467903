/* SPDX-License-Identifier: Apache-2.0 */
#include "core/shown.h"

#include <string.h>

#include "base/utf8.h"

struct cr_shown cr_shown(const char *s)
{
    struct cr_shown out = {""};
    size_t len = s ? strnlen(s, CR_SHOWN_MAX + 1) : 0;
    size_t kept = len > CR_SHOWN_MAX ? cr_utf8_cut(s, CR_SHOWN_MAX) : len;
    if (kept) memcpy(out.text, s, kept);
    cr_utf8_sanitise(out.text, kept);
    if (kept < len) memcpy(out.text + kept, "...", sizeof "...");
    return out;
}

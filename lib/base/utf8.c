/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdint.h>

/* Length of the character at s, 0 if it is invalid or cut short. */
static size_t char_length(const unsigned char *s, size_t left)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] < 0x80) return 1;
    size_t n = (s[0] & 0xe0) == 0xc0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : (s[0] & 0xf8) == 0xf0 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    uint32_t point = s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        point = point << 6 | (s[i] & 0x3fu);
    }
    bool surrogate = point >= 0xd800 && point <= 0xdfff;
    return point < lowest[n] || point > 0x10ffff || surrogate ? 0 : n;
}

bool cr_utf8_valid(const char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        size_t n = char_length((const unsigned char *)s + i, len - i);
        if (n == 0 || s[i] == '\0') return false;
        i += n;
    }
    return true;
}

size_t cr_utf8_cut(const char *s, size_t max)
{
    size_t end = max;
    while (end > 0 && max - end < 4 && ((unsigned char)s[end - 1] & 0xc0) == 0x80) end--;
    if (end == 0 || (unsigned char)s[end - 1] < 0x80) return end;
    return char_length((const unsigned char *)s + end - 1, max - end + 1) == max - end + 1 ? max : end - 1;
}

void cr_utf8_sanitise(char *s, size_t len)
{
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)s[i];
        size_t n = char_length((const unsigned char *)s + i, len - i);
        if (n == 0 || c < 0x20 || c == 0x7f) {
            s[i] = '?';
            n = 1;
        }
        i += n;
    }
}

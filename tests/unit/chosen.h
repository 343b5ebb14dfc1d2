/* chosen.h - which random cases a test takes: all, or one in LIPSCOPE_FEWER of them where
 * the machine is an emulated one (tools/aarch64.sh). */
#ifndef LIPSC_TEST_CHOSEN_H
#define LIPSC_TEST_CHOSEN_H

#include <stdint.h>
#include <stdlib.h>

static inline int chosen(uint64_t seed) {
    const char *text = getenv("LIPSCOPE_FEWER");
    const uint64_t share = text ? strtoull(text, NULL, 10) : 1;
    return share < 2 || seed % share == 0;
}

#endif

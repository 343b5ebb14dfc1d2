/* chosen.h - which random cases a test takes: all, or one in LIPSCOPE_FEWER of them where
 * time matters (make test), the machine is an emulated one (tools/aarch64.sh) or everything
 * is watched (asan-short). */
#ifndef LIPSC_TEST_CHOSEN_H
#define LIPSC_TEST_CHOSEN_H

#include <stdint.h>
#include <stdlib.h>

/* At least 1. */
static inline uint64_t fewer(void) {
    const char *text = getenv("LIPSCOPE_FEWER");
    const uint64_t share = text ? strtoull(text, NULL, 10) : 1;
    return share ? share : 1;
}

static inline int chosen(uint64_t seed) { return seed % fewer() == 0; }

#endif

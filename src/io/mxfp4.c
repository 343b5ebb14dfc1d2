/* mxfp4.c - matrices of four-bit numbers to doubles. */
#include "io/mxfp4.h"

#include <math.h>

static double value_of(unsigned code, unsigned scale) {
    static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    static const double largest = 0x1.fep127; /* of bfloat16 */
    if (scale == 255) return NAN;
    const double size = ldexp(values[code & 7], (int)scale - 127);
    const double held = size > largest ? INFINITY : size;
    return code & 8 ? -held : held;
}

void lipsc_mxfp4_read(const lipsc_mxfp4 *m, size_t first, size_t count, double *out) {
    const size_t area = m->rows * m->columns;
#pragma omp parallel for schedule(static) if (count > 65536)
    for (size_t i = 0; i < count; i++) {
        const size_t at = first + i, which = at / area, inside = at % area;
        const size_t column = inside / m->rows, row = inside % m->rows;
        const size_t stored = which * area + row * m->columns + column;
        const unsigned byte = m->blocks[stored / 2];
        out[i] = value_of(stored % 2 ? byte >> 4 : byte & 15,
                          m->scales[stored / LIPSC_MXFP4_BLOCK]);
    }
}

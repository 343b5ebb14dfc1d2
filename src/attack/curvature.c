/* curvature.c - limited-memory BFGS: what the last steps tell of the curvature.
 *
 * Pairs s = change of the point, q = minus the change of the gradient of a function that is
 * climbed; those with s.q > 0 (it curves downwards, as near a maximum) are kept.  The
 * direction is H g with H from the two-loop recursion of Nocedal. */
#include <math.h>
#include <string.h>

#include "attack/search.h"
#include "core/mem.h"
#include "core/vector.h"

enum { ROOM = LIPSC_MEMORY };

lipsc_status lipsc_curvature_new(size_t size, lipsc_curvature *m) {
    *m = (lipsc_curvature){.size = size};
    m->s = lipsc_alloc(2 * ROOM, size * sizeof *m->s);
    m->q = m->s ? m->s + ROOM * size : NULL;
    return m->s ? LIPSC_OK : LIPSC_E_NOMEM;
}

void lipsc_curvature_free(lipsc_curvature *m) {
    lipsc_release(m->s);
    m->s = NULL;
}

void lipsc_curvature_forget(lipsc_curvature *m) { m->count = 0; }

/* The slot of the pair added `ago` calls ago. */
static size_t slot(const lipsc_curvature *m, size_t ago) {
    return (m->next + ROOM - 1 - ago) % ROOM;
}

void lipsc_curvature_add(lipsc_curvature *m, const double *from, const double *to,
                         const double *g_from, const double *g_to) {
    double *s = m->s + m->next * m->size, *q = m->q + m->next * m->size;
    for (size_t e = 0; e < m->size; e++) {
        s[e] = to[e] - from[e];
        q[e] = g_from[e] - g_to[e];
    }
    const double sq = lipsc_dot(m->size, s, q), qq = lipsc_dot(m->size, q, q);
    if (!(sq > 1e-10 * sqrt(qq * lipsc_dot(m->size, s, s)))) return;
    m->sq[m->next] = sq;
    m->scale = sq / qq;
    m->next = (m->next + 1) % ROOM;
    if (m->count < ROOM) m->count++;
}

int lipsc_curvature_direction(const lipsc_curvature *m, const double *g, double *p) {
    double alpha[ROOM];
    if (m->count == 0) return 0;
    memcpy(p, g, m->size * sizeof *p);
    for (size_t ago = 0; ago < m->count; ago++) {
        const size_t at = slot(m, ago);
        alpha[ago] = lipsc_dot(m->size, m->s + at * m->size, p) / m->sq[at];
        for (size_t e = 0; e < m->size; e++) p[e] -= alpha[ago] * m->q[at * m->size + e];
    }
    for (size_t e = 0; e < m->size; e++) p[e] *= m->scale;
    for (size_t ago = m->count; ago-- > 0;) {
        const size_t at = slot(m, ago);
        const double beta = lipsc_dot(m->size, m->q + at * m->size, p) / m->sq[at];
        for (size_t e = 0; e < m->size; e++)
            p[e] += (alpha[ago] - beta) * m->s[at * m->size + e];
    }
    const double up = lipsc_dot(m->size, p, g);
    return isfinite(up) && up > 0.0;
}

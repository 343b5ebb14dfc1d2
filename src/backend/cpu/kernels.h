/* kernels.h - the products' inner loops, compiled per precision and instruction set.
 *
 * Layouts (T = float or double, elements not bytes):
 *   head layout   (heads, rows, width)  width = head dimension padded to a multiple of
 *                 NR with zeros; rows = directions * n, direction by direction
 *   panels        a matrix (inner, columns) cut into panels of NR columns, each stored
 *                 (inner, NR) without gaps: what a register kernel reads in order */
#ifndef LIPSC_BACKEND_CPU_KERNELS_H
#define LIPSC_BACKEND_CPU_KERNELS_H

#include <stddef.h>

/* C (+)= A B for one block of rows and panels.
 *   A(i, s*seg_len + l) = a[i*a_row + s*a_seg + l],  s < segs, l < seg_len
 *   panel p of B        = b + p * segs*seg_len * NR
 *   panel p of C        = c + (p / group)*c_group + (p % group)*NR, rows c_row apart
 * The last panel holds only as many columns as are left of `columns`. */
typedef struct {
    const void *a;
    size_t a_row, a_seg, segs, seg_len;
    const void *b;
    void *c;
    size_t c_row, group, c_group, columns;
    const void *bias; /* (columns padded to panels) or NULL: added to every row */
    int add;          /* 1: C += A B, 0: C = A B */
    /* NULL, or for each panel the rows of B from span[p][0] to span[p][1] - 1 outside of
     * which it is zero: these alone are multiplied */
    const size_t (*span)[2];
} lipsc_gemm;

/* One head at one input.  Row i sees keys lo[i] .. hi[i]-1; lo, hi do not decrease. */
typedef struct {
    size_t n, kw, vw;      /* tokens; padded widths of keys and of values             */
    const void *q, *k, *z; /* (n, kw), (n, kw), (n, vw); q holds the scale             */
    void *rowmax;          /* (n) largest score                                        */
    void *rowinv;          /* (n) 1 / sum_j exp(score - rowmax)                        */
    void *excess;          /* (n, vw) o_i - z_top(i), summed without the top entry     */
    size_t *top;           /* (n) key of the largest score                             */
    const void *bias;      /* (n) log weights of the keys, or NULL                     */
    const size_t *lo, *hi;
    /* what some models add: absent in most */
    const void *distance; /* (2 n - 1 + NR) or NULL: [n - 1 + j - i] is added to s_ij   */
    double soft_cap;      /* > 0: scores become soft_cap tanh(s / soft_cap)            */
    void *top_slope;      /* (n) with a cap: its derivative at the largest score        */
    int has_sink;
    double sink;     /* a score without a key, in every row                            */
    void *sink_mass; /* (n) with a sink: its part of the row, 1 - sum_j P_ij           */
} lipsc_head;

/* Directions of one head: `dirs` blocks of n rows.  J: in dq, dk, dz, out o.
 * J^T: in g, out dq, dk, dz (added to: the caller clears them). */
typedef struct {
    size_t dirs;
    const void *dq, *dk, *dz; /* J   */
    void *out;                /* J: (dirs*n, vw)                                       */
    const void *g;            /* J^T: (dirs*n, vw)                                     */
    void *gq, *gk, *gz;       /* J^T                                                   */
    void *shift;              /* (dirs*n) dS, or dP, at the row's largest entry        */
    void *mean;               /* (dirs*n) J: rowsum(P o dS'); J^T: g_i . excess_i      */
} lipsc_head_dirs;

/* J^T writes where J reads, and reads where it writes. */
static inline lipsc_head_dirs lipsc_head_dirs_at(size_t dirs, void *dq, void *dk, void *dz,
                                                 void *heads, void *shift, void *mean) {
    return (lipsc_head_dirs){.dirs = dirs,
                             .dq = dq,
                             .dk = dk,
                             .dz = dz,
                             .out = heads,
                             .g = heads,
                             .gq = dq,
                             .gk = dk,
                             .gz = dz,
                             .shift = shift,
                             .mean = mean};
}

/* Pairs (u, v) of one head, `dirs` blocks of n rows, and the gradient of <u, J v>: added to
 * gq, gk, gz (and gdq, gdk, score), which the caller clears. */
typedef struct {
    size_t dirs;
    const void *dq, *dk, *dz; /* directions of q, k, z that v makes                   */
    const void *g;            /* u pulled back to the head's output, (dirs*n, vw)      */
    void *gq, *gk, *gz;       /* gradients in q, k, z                                  */
    void *gdq, *gdk;          /* in dq, dk; NULL: not wanted                           */
    void *score;              /* (dirs*n) in the log weight of each key, or NULL       */
    void *rows;               /* (dirs*n) records of row_bytes: the rows' statistics   */
} lipsc_head_pairs;

typedef struct {
    size_t row_bytes;
    size_t (*scratch_bytes)(size_t kw, size_t vw, size_t dirs); /* of one thread */
    /* first pass: the statistics of rows i0..i1-1 */
    void (*rows)(const lipsc_head *h, const lipsc_head_pairs *d, size_t i0, size_t i1,
                 void *scratch);
    /* second pass: the tile [i0,i1) x [j0,j1) */
    void (*tile)(const lipsc_head *h, const lipsc_head_pairs *d, size_t i0, size_t i1,
                 size_t j0, size_t j1, void *scratch);
} lipsc_gradient_kernels;

/* What is kept of one head of a short input: probabilities (n, n in whole panels), zeros
 * where nothing is seen; keys (NULL: not needed) and values as panels (w, NR) of NR tokens.
 */
typedef struct {
    void *p, *k, *z;
} lipsc_kept;

/* J and J^T of such a head, all rows.  J^T writes to gq and, without `more`, to gk and gz,
 * else adds to these. */
typedef struct {
    void (*probabilities)(const lipsc_head *h, void *p, void *scratch);
    /* rows (n, w) as such panels */
    void (*panels)(const void *rows, size_t n, size_t w, void *to);
    void (*forward)(const lipsc_head *h, const lipsc_head_dirs *d, const lipsc_kept *kept,
                    void *scratch);
    void (*adjoint)(const lipsc_head *h, const lipsc_head_dirs *d, const lipsc_kept *kept,
                    int more, void *scratch);
    size_t most; /* tokens */
} lipsc_kept_kernels;

/* Where the change of a head's scores lies for J, in two parts, direction by direction (n
 * rows): dS_ij = at[i * row + (n + j) * step] + at[j * row + i * step].  Those that are
 * seen are read. */
typedef struct {
    const void *at;
    size_t row, step;
} lipsc_score_change;

/* What J^T makes of the changes of the scores of all heads, y (dirs, n, columns) +=
 *
 *     y_t += sum_h (sum_i dS_it B_0ih + sum_j dS_tj B_1jh),
 *
 * of the rows i that see t and the keys j that t sees. */
typedef struct {
    size_t n, heads, dirs;
    const size_t *lo, *hi; /* as in lipsc_head                                   */
    const void *tiles;     /* dS: (dirs, heads, n, n in whole panels)            */
    void *packed;          /* room for (dirs, n, 2 n heads)                      */
    const void *b;         /* panels of NR columns: (2, n, heads, NR)            */
    void *y;
    size_t y_row, columns;
} lipsc_score_sums;

/* J and J^T of a short input, all rows, where the change of its scores is known or wanted.
 */
typedef struct {
    /* one head */
    void (*forward)(const lipsc_head *h, const lipsc_head_dirs *d, const lipsc_kept *kept,
                    const lipsc_score_change *change, void *scratch);
    /* one head: direction k's change to a tile, at k times `step` elements; gz as above */
    void (*adjoint)(const lipsc_head *h, const lipsc_head_dirs *d, const lipsc_kept *kept,
                    int more, void *tiles, size_t step);
    /* all heads: the tiles to `packed`, one of `parts`; then panels of y */
    void (*pack)(const lipsc_score_sums *s, size_t part, size_t parts);
    void (*back)(const lipsc_score_sums *s, size_t panel0, size_t panel1);
    size_t most; /* tokens */
} lipsc_composed_kernels;

typedef struct {
    size_t nr;   /* columns of a panel */
    size_t item; /* sizeof(T)          */

    /* what one thread needs for the functions below */
    size_t (*scratch_bytes)(size_t kw, size_t vw, size_t dirs);

    void (*gemm)(const lipsc_gemm *g, size_t row0, size_t row1, size_t panel0,
                 size_t panel1);

    /* rowmax, rowinv, top, excess of rows i0..i1-1; 0 when a score is not finite */
    int (*statistics)(const lipsc_head *h, size_t i0, size_t i1, void *scratch);
    /* out = o_i = z_top + excess for rows i0..i1-1 */
    void (*head_output)(const lipsc_head *h, size_t i0, size_t i1, void *out);

    /* J, rows i0..i1-1 of the head */
    void (*forward)(const lipsc_head *h, const lipsc_head_dirs *d, size_t i0, size_t i1,
                    void *scratch);
    /* J^T: shift and mean of rows i0..i1-1, then the tile [i0,i1) x [j0,j1) */
    void (*adjoint_rows)(const lipsc_head *h, const lipsc_head_dirs *d, size_t i0,
                         size_t i1);
    void (*adjoint)(const lipsc_head *h, const lipsc_head_dirs *d, size_t i0, size_t i1,
                    size_t j0, size_t j1, void *scratch);

    const lipsc_gradient_kernels *gradient; /* gradient_kernels.c */
    const lipsc_composed_kernels *composed; /* composed_kernels.c */
    const lipsc_kept_kernels *kept;         /* kept_kernels.c     */
} lipsc_kernels;

/* The table for this machine. */
const lipsc_kernels *lipsc_kernels_best(int f32);

#endif

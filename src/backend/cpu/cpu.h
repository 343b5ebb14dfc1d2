/* cpu.h - what the files of the CPU back end share: packed weights, one input, work memory.
 */
#ifndef LIPSC_BACKEND_CPU_CPU_H
#define LIPSC_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/stages.h"

/* Directions per pass through the tiles; larger blocks are cut.  Eight already share the
 * scores so well that they no longer count. */
enum { LIPSC_CPU_DIRS = 8 };

/* Memory of the host as the kernels take it, for count numbers. */
static inline void *lipsc_cpu_alloc(const lipsc_space *space, size_t count) {
    return lipsc_space_alloc(space, count).at;
}
static inline void lipsc_cpu_release(const lipsc_space *space, void *p) {
    lipsc_space_release(space, lipsc_space_view(space, 0, p));
}

/* Where nothing can fail. */
static inline void lipsc_cpu_upload(const lipsc_space *space, size_t count,
                                    const double *host, void *to) {
    (void)!lipsc_space_upload(space, count, host, lipsc_space_view(space, count, to));
}
static inline void lipsc_cpu_download(const lipsc_space *space, size_t count,
                                      const void *from, double *host) {
    (void)!lipsc_space_download(space, count, lipsc_space_view(space, count, from), host);
}

/* Weights as panels (kernels.h), in both directions.  Head dimensions are padded to kw and
 * vw columns; the scale of the scores is in the query weights, or in the query gain where
 * there is a norm. */
typedef struct {
    const lipsc_layer *layer;
    lipsc_dtype dtype;
    const lipsc_kernels *kernels;
    const lipsc_stages *stages;
    const lipsc_space *space;
    size_t kw, vw, width;
    void *q_in, *k_in, *v_in;    /* (d, heads*kw), (d, kv*kw), (d, kv*vw)            */
    void *q_out, *k_out, *v_out; /* their transposes: (heads*kw, d), ...              */
    void *o_in, *o_out;          /* (heads*vw, width), (width, heads*vw); NULL: no O  */
    /* of their panels, as lipsc_gemm has it; NULL: none of them begins or ends with zeros
     */
    size_t (*v_in_span)[2], (*v_out_span)[2], (*o_in_span)[2], (*o_out_span)[2];
    void *q_bias, *k_bias, *v_bias; /* padded like the columns, or NULL               */
    void *q_gain, *k_gain;          /* (kw) or NULL                                      */
} lipsc_cpu_weights;

/* How products are made: plain by product.c, of short inputs by composed.c or kept.c. */
typedef enum {
    LIPSC_CPU_PLAIN,
    LIPSC_CPU_COMPOSED,
    LIPSC_CPU_KEPT,
    LIPSC_CPU_WAYS
} lipsc_cpu_way;

/* One input of a batch, which is what the device's table calls an input: its rows among the
 * tokens of all of them. */
typedef struct {
    struct lipsc_cpu_batch *batch;
    size_t n, first;
    size_t distance;                  /* where its biases by distance begin            */
    lipsc_cpu_way way;                /* how its products are made                     */
    void *kept_p, *kept_k, *kept_z;   /* kept.c: made for the first product            */
    void *composed_in, *composed_out; /* composed.c: the same                          */
} lipsc_cpu_member;

/* Inputs that share the weights, one after the other: what is done row by row is done for
 * all tokens at once; only the cores know where an input ends.  Nothing in a row depends on
 * the rows around it, so the bits of an input are those that it has alone. */
typedef struct lipsc_cpu_batch {
    const lipsc_cpu_weights *w;
    int threads;
    size_t users; /* inputs that are not freed */
    size_t inputs, tokens;
    lipsc_cpu_member *member; /* (inputs) */
    /* per token, head layout (heads, tokens, width) */
    void *q, *k, *z, *excess;
    void *rowmax, *rowinv;     /* (heads, tokens)                                       */
    size_t *top;               /* (heads, tokens), counted from the input's first token */
    size_t *lo, *hi, *order;   /* (tokens), the same                                    */
    void *key_bias;            /* (tokens) or NULL: log weights                         */
    void *root, *inverse_root; /* (tokens) or NULL: square roots of the weights, inverses */
    void *distance;            /* per input (heads, 2 n - 1 and a panel), or NULL       */
    void *top_slope, *sink_mass; /* (heads, tokens) or NULL                               */
    void *cosine, *sine;         /* (tokens, rotary_dim/2) or NULL                        */
    void *q_unit, *q_inverse, *k_unit, *k_inverse; /* norms: (heads, tokens, kw), (heads,
                                                    * tokens) */
    /* work memory of the products, for `rows` rows of up to `dirs` directions */
    size_t rows, dirs;
    void *dq, *dk, *dz, *heads; /* head layout with the rows of a pass                 */
    void *shift, *mean;         /* (heads, rows)                                       */
    void *rows_in, *rows_out;   /* (rows, d or width): only where rows are staged      */
    int staged;
    void *change; /* `changes` elements: of the scores of short inputs                */
    size_t changes;
    int composed;  /* whether the matrices of short inputs are made                    */
    int kept;      /* whether the probabilities of short inputs are there              */
    char *scratch; /* threads pieces of scratch_bytes                                  */
    size_t scratch_bytes;
    size_t bytes, work_bytes; /* all, and those of the work memory */
} lipsc_cpu_batch;

/* What a pass works on: vectors of one input, `dirs` of them, n rows each. */
typedef struct {
    const lipsc_cpu_member *of;
    size_t dirs;
    size_t base;       /* its first row among those of the pass                     */
    size_t first_task; /* of the core                                               */
    size_t change;     /* its first element of the batch's change: composed.c       */
    const void *x;     /* (dirs, n, d or width), the caller's order                 */
    void *y;
} lipsc_cpu_piece;

/* Pieces side by side: head layout has `rows` rows, piece by piece, direction by direction.
 */
typedef struct {
    lipsc_cpu_batch *batch;
    size_t pieces, rows;
    lipsc_cpu_piece *piece;
} lipsc_cpu_pass;

lipsc_status lipsc_cpu_weights_new(const lipsc_layer *layer, lipsc_dtype dtype,
                                   void **weights, lipsc_error *err);
void lipsc_cpu_weights_free(void *weights);
/* input (inputs): each is freed on its own, and the batch with the last of them. */
lipsc_status lipsc_cpu_batch_new(const void *weights, size_t inputs, const lipsc_rows *rows,
                                 int threads, void **input, lipsc_error *err);
void lipsc_cpu_input_free(void *input);

/* Work memory for at least `rows` rows of `dirs` directions; staged: also for rows in
 * another order or place. */
lipsc_status lipsc_cpu_reserve(lipsc_cpu_batch *b, size_t rows, size_t dirs, int staged);
lipsc_status lipsc_cpu_products(int trans, size_t count, const lipsc_product *product);
lipsc_status lipsc_cpu_output(void *input, lipsc_buffer y);
void lipsc_cpu_projections(const void *input, size_t head, double *q, double *key,
                           double *z, double *q_over, double *k_over);
lipsc_status lipsc_cpu_gradients(size_t count, const lipsc_gradient_product *of);

/* The kernels' view of query head h of an input. */
lipsc_head lipsc_cpu_head(const lipsc_cpu_batch *b, const lipsc_cpu_member *of, size_t h);

/* Several products C (+)= A B over `rows` rows, in parallel over rows and columns.
 * chained: all have the same C and are added up in order. */
void lipsc_cpu_gemms(const lipsc_kernels *kernels, int threads, size_t rows, size_t count,
                     const lipsc_gemm *g, int chained);

/* A (dirs*n, d) -> heads: the three projections, less those that are NULL; bias nonzero
 * adds the biases. */
void lipsc_cpu_project(const lipsc_cpu_weights *w, int threads, size_t rows, const void *a,
                       void *q, void *k, void *z, int bias);

/* heads (head layout) -> y (rows, width): output projection or concatenation. */
void lipsc_cpu_combine_heads(const lipsc_cpu_weights *w, int threads, size_t rows,
                             const void *heads, void *y);

/* The transposes of these two: x (rows, width) -> heads, and y = q Wq + k Wk + z Wv, less
 * what is NULL. */
void lipsc_cpu_split_heads(const lipsc_cpu_weights *w, int threads, size_t rows,
                           const void *x, void *heads);
void lipsc_cpu_project_back(const lipsc_cpu_weights *w, int threads, size_t rows,
                            const void *q, const void *k, const void *z, void *y);

/* composed.c: whether an input is worth it; what a pass over such pieces needs;
 * from x to heads, and from heads to y. */
int lipsc_cpu_composes(const lipsc_cpu_batch *b, const lipsc_cpu_member *of);
lipsc_status lipsc_cpu_compose(lipsc_cpu_pass *pass);
void lipsc_cpu_composed_free(lipsc_cpu_batch *b);
void lipsc_cpu_composed_forward(const lipsc_cpu_pass *pass, const void *x);
void lipsc_cpu_composed_adjoint(const lipsc_cpu_pass *pass, void *y);

/* kept.c: whether those of an input are kept; making them, for the composed as well; those
 * of a head; the cores of a pass over such pieces. */
int lipsc_cpu_keeps(const lipsc_cpu_batch *b, const lipsc_cpu_member *of);
lipsc_status lipsc_cpu_keep(lipsc_cpu_batch *b);
lipsc_kept lipsc_cpu_kept_head(const lipsc_cpu_weights *w, const lipsc_cpu_member *of,
                               size_t h);
void lipsc_cpu_kept_free(lipsc_cpu_batch *b);
void lipsc_cpu_kept_forward(const lipsc_cpu_pass *pass);
void lipsc_cpu_kept_adjoint(const lipsc_cpu_pass *pass);

/* Which heads a norm takes together: each query and key head alone, or all of them. */
typedef struct {
    int query; /* 0: keys */
    size_t first, span;
} lipsc_cpu_norm_heads;
static inline size_t lipsc_cpu_norms(const lipsc_layer *l) {
    return l->norm_whole ? 2 : l->heads + l->kv_heads;
}
static inline lipsc_cpu_norm_heads lipsc_cpu_norm_at(const lipsc_layer *l, size_t t) {
    if (l->norm_whole)
        return (lipsc_cpu_norm_heads){t == 0, 0, t == 0 ? l->heads : l->kv_heads};
    return (lipsc_cpu_norm_heads){t < l->heads, t < l->heads ? t : t - l->heads, 1};
}

/* Norm and rotation of the projected directions, or their transposes in reverse order. */
void lipsc_cpu_turn(const lipsc_cpu_pass *pass, int trans, void *dq, void *dk);

/* Directions and results of head h where a pass has `rows` rows and the piece begins at the
 * row `base`; the scratch of the calling thread. */
lipsc_head_dirs lipsc_cpu_head_dirs(const lipsc_cpu_batch *b, size_t rows, size_t base,
                                    size_t dirs, size_t h);
void *lipsc_cpu_thread_scratch(const lipsc_cpu_batch *b);

/* Rows of one input in cuts of at least 384 rows, about as many as wanted. */
typedef struct {
    size_t size, count;
} lipsc_cpu_cuts;
lipsc_cpu_cuts lipsc_cpu_cut(size_t n, size_t wanted);
/* Rows [i0, i1) of cut a, keys [j0, j1) of the cut that it meets in a phase. */
typedef struct {
    size_t i0, i1, j0, j1;
} lipsc_cpu_tile;
lipsc_cpu_tile lipsc_cpu_tile_of(size_t n, lipsc_cpu_cuts cut, size_t phase, size_t a);
/* Gives each piece its tasks, `heads` for every cut; returns their number. */
size_t lipsc_cpu_number_tasks(lipsc_cpu_pass *pass, size_t heads, size_t wanted);
/* The piece that a task belongs to. */
const lipsc_cpu_piece *lipsc_cpu_piece_of(const lipsc_cpu_pass *pass, size_t task);
/* The most cuts that a piece has. */
size_t lipsc_cpu_phases(const lipsc_cpu_pass *pass, size_t wanted);

/* Between the caller's order and the back end's, for D^{1/2} J D^{-1/2}: rows come in
 * divided by the roots and leave multiplied by them, and the transpose the other way round.
 */
void lipsc_cpu_stage_rows(const lipsc_cpu_batch *b, const lipsc_cpu_member *of, int trans,
                          int outgoing, size_t dirs, size_t width, const void *src,
                          void *dst);

/* One direction of a dense layer: linear.c. */
lipsc_status lipsc_cpu_linear_new(size_t in, size_t out, const double *w, int transposed,
                                  const double *bias, lipsc_dtype dtype, void **linear,
                                  lipsc_error *err);
void lipsc_cpu_linear_free(void *linear);
lipsc_status lipsc_cpu_linear_apply(const void *linear, int threads, size_t rows,
                                    lipsc_buffer x, int bias, int add, lipsc_buffer y);

/* Norms and activations, for this machine: rowwise.c. */
const lipsc_rowwise *lipsc_rowwise_best(lipsc_dtype dtype);

#endif

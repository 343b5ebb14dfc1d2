/* study.h - a study: sigma at every cell, a layer at a window, with its row; what
 * `lipscope measure` does.
 *
 *     lipsc_study_settings set;
 *     lipsc_study_defaults(&set);
 *     set.model = "builtin:gpt2-nano";
 *     set.source.text = "builtin:lighthouse";
 *     set.run_file = "a.db";                       // kept there, and continued
 *     lipsc_study *study;
 *     if (lipsc_study_open(&set, &study, &err) || lipsc_study_run(study, &err))
 *         fprintf(stderr, "%s\n", err.text);
 *     const lipsc_row *const *rows = lipsc_study_rows(study, &count);
 *     lipsc_study_close(study);
 *
 * Opening reads model and text and plans the cells, in the order in which they are useful:
 * the first window at all lengths and layers, then the next.  Running computes those that
 * the run file does not have.  No value depends on the number of threads, on the other
 * cells, or on where the work was interrupted. */
#ifndef LIPSCOPE_STUDY_H
#define LIPSCOPE_STUDY_H

#include "lipscope/fit.h"
#include "lipscope/ranks.h"
#include "lipscope/run.h"
#include "lipscope/source.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What is asked ---------------------------------------------------------------- */

/* How far a run is. */
typedef struct {
    size_t done, total;      /* cells, those of the run file included */
    double cells_per_second; /* of this run                            */
    double seconds_left;
} lipsc_study_progress;

/* What it points to must stay as it is until the study is closed. */
typedef struct {
    /* the model: */
    const char *model; /* as lipsc_model_open takes it, and as rows name it             */
    lipsc_model *open; /* or NULL; a model that is open already and stays the caller's  */
    lipsc_part part;
    lipsc_source_options source;

    /* the cells: */
    lipsc_sizes lengths;  /* tokens of a window.  Default: 16, 32, 64, 128, as far as they
                           * fit; one window for an image, or for ids                    */
    lipsc_sizes windows;  /* their numbers.  Default: the first window_count             */
    size_t window_count;  /* that fit.  Default 0: 10                                    */
    lipsc_sizes layers;   /* Default: all                                                */
    lipsc_sizes heads;    /* each alone, for the maps heads and attention.               */
    int each_head;        /* all of them, each alone.  Default: all together             */
    size_t shard, shards; /* the shard-th, from 1, of so many parts of about equal cost,
                           * which know of each other by this alone.  Default 0: all    */

    /* the map and its solve: */
    lipsc_map_kind map; /* default LIPSC_MAP_ATTENTION                                  */
    const lipsc_mask *mask_override; /* NULL: the model's own; else none or causal      */
    lipsc_dtype dtype;   /* of the products, default LIPSC_F32                          */
    int pinned;          /* see lipsc_svd_settings                                      */
    lipsc_method method; /* this and the next as in lipsc_svd_settings                  */
    double tol; /* default 0: 1e-2 in f32, with a value good to 1e-6; 1e-8 in f64 */
    size_t max_products; /* default 0: 1000                                             */
    size_t count;        /* of singular values; 0: one, and no list of them             */
    double probability;
    uint64_t seed;        /* of start vectors, of resampling and of random models       */
    lipsc_device *device; /* NULL: the CPU                                              */
    lipsc_ranks *ranks;   /* who share the cells; NULL: this process alone.  All of them
                           * open and run the same study.  Rank 0 owns the run file, has all
                           * rows in the end and is told; the others end with LIPSC_OK,
                           * or LIPSC_E_STOPPED when there is an error that rank 0 says  */

    /* what the rows say besides (docs/row.md): */
    int upper;       /* a proved upper bound; heads and attention only                  */
    int as_released; /* what the paper's scripts return                                 */
    int details;     /* entropy, sink, the token and the pair that matter most          */
    int sink;        /* entropy, sink, what the sink token does alone                   */
    double certify;  /* > 0: prove an upper bound of at most 1 + certify times lower    */
    double certify_seconds, certify_memory; /* limits: default 300 s, 2 GiB             */
    const char *save_direction; /* a layer file with the direction of the one cell, or a
                                 * folder of them; NULL: none                           */

    /* where rows are kept: */
    const char *run_file; /* a file that is made or continued; NULL: none               */
    lipsc_run *run;       /* or one that is open and stays the caller's                 */
    int rows_stay; /* rows stay in the file, not in memory: cells of lipsc_study_cell have
                    * none, and lipsc_study_each hands them out.  Default 0            */
    const char *command_line; /* told in the run file, for people; or NULL              */
    const char *experiment;   /* told in keys and rows; or NULL                         */

    /* who is told, one at a time but from any thread; each may be NULL.  stop is asked
     * often and at once by several threads: nonzero ends the run, with LIPSC_E_STOPPED. */
    int (*stop)(void *ctx);
    void (*progress)(void *ctx, const lipsc_study_progress *progress);
    void (*row)(void *ctx, const lipsc_row *row); /* a cell is finished, and stored      */
    /* What is worth knowing and is no error, in one sentence: bytes that are not UTF-8,
     * windows that do not fit, a certificate that is going to take long or was refused. */
    void (*remark)(void *ctx, const char *sentence);
    /* While one certificate is being made: its name, 0 to 1; done = 1 when it is ready. */
    void (*certificate)(void *ctx, const char *rung, double done, double seconds_left);
    /* While a cell alone is being solved, after every step: pairs of products, sigma and
     * residual so far, and about the residual that ends it.  Then follows the evaluation
     * in double, which takes as long as some of these steps. */
    void (*solve)(void *ctx, long products, double sigma, double residual, double tol);
    void *ctx; /* handed to all of them */
} lipsc_study_settings;

LIPSC_API void lipsc_study_defaults(lipsc_study_settings *set);

/* ---- The study -------------------------------------------------------------------- */

typedef struct lipsc_study lipsc_study;

/* LIPSC_E_ARG: the settings contradict each other.  Refused are also cells that model or
 * text do not have, and a run file of other settings. */
LIPSC_API lipsc_status lipsc_study_open(const lipsc_study_settings *set, lipsc_study **out,
                                        lipsc_error *err);
LIPSC_API void lipsc_study_close(lipsc_study *study);
LIPSC_API const lipsc_model_info *lipsc_study_model(const lipsc_study *study);
LIPSC_API const lipsc_source *lipsc_study_source(const lipsc_study *study);

/* One value to be found. */
typedef struct {
    size_t layer; /* LIPSC_NONE: the map is the whole model          */
    size_t head;  /* LIPSC_NONE: all heads together                  */
    size_t n, window;
    size_t start;         /* its first token in the text             */
    const lipsc_row *row; /* NULL: not finished, or in the run file  */
    int finished;
} lipsc_cell;

enum { LIPSC_CELL_KEY = 128 };

LIPSC_API size_t lipsc_study_count(const lipsc_study *study);
LIPSC_API lipsc_cell lipsc_study_cell(const lipsc_study *study, size_t i);
/* Its name: "map=attention layer=3 head=all n=64 window=0". */
LIPSC_API void lipsc_study_key(const lipsc_study *study, size_t i,
                               char key[LIPSC_CELL_KEY]);

/* What the cells that are not finished will take, roughly. */
typedef struct {
    size_t cells;
    double seconds; /* by a trial of the speed where it is more than about one; NaN with
                     * certificates, whose cost is not known before                      */
    double bytes;   /* of memory, from above                                            */
} lipsc_study_cost;

LIPSC_API lipsc_study_cost lipsc_study_needs(lipsc_study *study);

/* Bytes that a study of a model takes: `windows` of `longest` tokens at most. */
LIPSC_API double lipsc_study_bytes(const lipsc_model *model, lipsc_map_kind map,
                                   lipsc_dtype dtype, lipsc_device *device, size_t longest,
                                   double windows);

/* What a model is, and what a study of it needs: `info`.
 * X(member, kind, part, shown, unit, what it says) */
#define LIPSC_ABOUT_LIST(X)                                                             \
    X(model, TEXT, 0, 1, "", "as it was named")                                         \
    X(architecture, TEXT, 0, 1, "", "its family")                                       \
    X(layers, COUNT, 0, 1, "", "of the configuration")                                  \
    X(layers_stored, TEXT, 0, 1, "", "of which the weights are there: 0:11, 0,6, none") \
    X(d, COUNT, 0, 1, "", "width of a token")                                           \
    X(heads, COUNT, 0, 1, "", "of queries")                                             \
    X(kv_heads, COUNT, 0, 1, "", "of keys and values")                                  \
    X(head_dim, COUNT, 0, 1, "", "width of a query")                                    \
    X(ffn, COUNT, 0, 1, "", "width inside the feed-forward part")                       \
    X(vocab, COUNT, 0, 1, "", "null: it reads images")                                  \
    X(positions, COUNT, 0, 1, "tokens", "that it has room for; null: any number")       \
    X(norm, TEXT, 0, 1, "", "pre or post")                                              \
    X(mask, TEXT, 0, 1, "", "who sees whom")                                            \
    X(sliding, COUNT, 0, 1, "tokens", "of the window; null: there is none")             \
    X(input, TEXT, 0, 1, "", "text, pixels or none")                                    \
    X(parameters, WHOLE, 0, 1, "", "that it has")                                       \
    X(stored, TEXT, 0, 1, "", "precision of the file")                                  \
    X(memory, WHOLE, 0, 1, "bytes", "of a study at windows of 512 tokens")              \
    X(model_hash, TEXT, 0, 1, "", "of the weights")

typedef struct {
    LIPSC_ABOUT_LIST(LIPSC_FIELD_MEMBER)
} lipsc_about;

LIPSC_API lipsc_fields lipsc_about_fields(void);

/* name is kept, and so is what the model owns: free it before the model, in any case. */
LIPSC_API lipsc_status lipsc_model_about(const lipsc_model *model, const char *name,
                                         lipsc_about *out, lipsc_error *err);
LIPSC_API void lipsc_about_free(lipsc_about *about);

/* Computes every cell that has no row, and stores each when it is finished.  After a
 * failure or LIPSC_E_STOPPED the rows that are finished are there. */
LIPSC_API lipsc_status lipsc_study_run(lipsc_study *study, lipsc_error *err);

/* Seconds of the runs so far. */
typedef struct {
    double wall; /* on the clock; the others are summed over threads: */
    double forward, prepare, solve, extras, products; /* products: part of solve */
    /* in which the device computed for any process, by its driver's samples; NaN: it does
     * not tell, or the run was too short; on a CPU 0 */
    double device;
} lipsc_study_times;

LIPSC_API lipsc_study_times lipsc_study_spent(const lipsc_study *study);

/* ---- What came out ---------------------------------------------------------------- */

/* The finished rows by layer, head, length and window; valid until the next run or the end.
 * NULL when memory is short, or the run file that has them cannot be read. */
LIPSC_API const lipsc_row *const *lipsc_study_rows(lipsc_study *study, size_t *count);

/* Hands out the same rows in this order, one at a time, each with the number of its cell:
 * where they stay in the run file only one of them is in memory.  It ends with the first
 * failure, which may be of the file.  laws: NULL, or their growth laws, as from
 * lipsc_study_fits. */
LIPSC_API lipsc_status lipsc_study_each(lipsc_study *study,
                                        void (*row)(void *ctx, size_t cell,
                                                    const lipsc_row *row),
                                        void *ctx, lipsc_growths *laws, lipsc_error *err);

/* The growth laws of these rows (fit.h); free them before the study is closed. */
LIPSC_API lipsc_status lipsc_study_fits(lipsc_study *study, lipsc_growths *out,
                                        lipsc_error *err);

/* A study in few numbers.  Medians are over windows of one length. */
typedef struct {
    size_t layer;               /* LIPSC_NONE: the map is the whole model                */
    double *sigma;              /* (lengths) medians; NaN: none                          */
    double upper;               /* median bound at the longest length; NaN: not asked for */
    double exponent, low, high; /* slope of ln sigma over ln n, with 95 %; NaN: no fit   */
    int law;                    /* a straight line fits                                  */
} lipsc_layer_summary;

typedef struct {
    size_t length_count, *lengths; /* in the order of the rows                           */
    size_t layer_count;
    lipsc_layer_summary *layers;
    double largest; /* sigma, in this layer and window: */
    size_t largest_layer, largest_n, largest_window;
    double tightest, loosest; /* least and greatest upper / sigma                        */
    size_t rows, not_converged;
} lipsc_summary;

/* Of the finished rows; LIPSC_E_ARG where heads stand alone.  Free it in any case. */
LIPSC_API lipsc_status lipsc_study_summary(lipsc_study *study, lipsc_summary *out,
                                           lipsc_error *err);
LIPSC_API void lipsc_summary_free(lipsc_summary *summary);

/* LIPSC_ROW_ bits of what the rows of these settings say. */
LIPSC_API unsigned lipsc_study_parts(const lipsc_study_settings *set);

#ifdef __cplusplus
}
#endif
#endif

/* perturb.c - finite changes of a window: the outputs that they move, what the derivative
 * predicts, and the bound that no such change exceeds.
 *
 * A ratio |f(X') - f(X)| / |X' - X| is at most the largest sigma on the segment between:
 * the proved bound over the neighbourhood whose radius is the longest change of a token
 * holds there (docs/maths.md 3.15). */
#include "lipscope/perturb.h"

#include <math.h>
#include <string.h>

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/vector.h"
#include "bound/zoo.h"
#include "model/model.h"

const char *lipsc_change_name(lipsc_change_kind kind) {
    static const char *const names[] = {"swap", "noise", "drop", "duplicate"};
    return names[kind];
}

static const double usual_noise[] = {1e-3, 1e-2, 1e-1};

void lipsc_perturb_defaults(lipsc_perturb_settings *set) {
    *set = (lipsc_perturb_settings){.tokens = 4,
                                    .neighbours = 2,
                                    .noise = usual_noise,
                                    .noise_count = sizeof usual_noise / sizeof *usual_noise,
                                    .whole = 1,
                                    .bounds = 1,
                                    .seed = 1};
}

void lipsc_perturbation_free(lipsc_perturbation_rows *rows) {
    if (!rows) return;
    lipsc_release(rows->at);
    *rows = (lipsc_perturbation_rows){0};
}

/* ---- Windows: the original and the changed ones ------------------------------------- */

typedef struct {
    lipsc_change_kind kind;
    size_t token;
    uint32_t from, to;
    size_t n;
    lipsc_acts *acts;
} window;

typedef struct {
    lipsc_model *model;
    const lipsc_model_info *info;
    const lipsc_perturb_settings *set;
    size_t n, d, length; /* length: n d */
    const uint32_t *ids;
    lipsc_acts *acts;
    window *windows;
    size_t window_count;
    double *step, *moved, *predicted; /* (n, d) each */
    lipsc_perturbation_rows *rows;
    size_t room; /* of rows */
    lipsc_error *err;
} work;

static int stopped(const work *w) { return w->set->stop && w->set->stop(w->set->ctx); }

/* Which tokens are changed: spread over the window, the first one left alone where there
 * are others, because models treat it unlike any other. */
static size_t token_at(const work *w, size_t i) {
    const size_t count = w->set->tokens;
    return 1 + (w->n - 1) * (2 * i + 1) / (2 * count);
}

static lipsc_status add_window(work *w, lipsc_change_kind kind, size_t token, uint32_t to) {
    window *one = &w->windows[w->window_count];
    *one = (window){.kind = kind, .token = token, .from = w->ids[token], .to = to};
    one->n = kind == LIPSC_CHANGE_SWAP   ? w->n
             : kind == LIPSC_CHANGE_DROP ? w->n - 1
                                         : w->n + 1;
    if (w->info->positions && one->n > w->info->positions) return LIPSC_OK; /* no room */
    uint32_t *ids = lipsc_alloc(one->n, sizeof *ids);
    if (!ids) return lipsc_fail(w->err, LIPSC_E_NOMEM, "out of memory for a window");
    for (size_t i = 0; i < one->n; i++) {
        size_t from = i;
        if (kind == LIPSC_CHANGE_DROP && i >= token) from = i + 1;
        if (kind == LIPSC_CHANGE_DUPLICATE && i > token) from = i - 1;
        ids[i] = w->ids[from];
    }
    if (kind == LIPSC_CHANGE_SWAP) ids[token] = to;
    const lipsc_status status = lipsc_acts_new(w->model, LIPSC_F64, w->set->device, one->n,
                                               ids, 0, &one->acts, w->err);
    lipsc_release(ids);
    if (!status) w->window_count++;
    return status;
}

static lipsc_status add_windows(work *w) {
    const size_t neighbours = w->set->neighbours;
    uint32_t *near = lipsc_alloc(neighbours ? neighbours : 1, sizeof *near);
    lipsc_status status =
        near ? LIPSC_OK : lipsc_fail(w->err, LIPSC_E_NOMEM, "out of memory for tokens");
    for (size_t i = 0; !status && i < w->set->tokens; i++) {
        const size_t token = token_at(w, i);
        size_t found = 0;
        if (i && token == token_at(w, i - 1)) continue; /* a short window */
        if (stopped(w)) status = LIPSC_E_STOPPED;
        if (!status)
            status = lipsc_model_nearest(w->model, w->ids[token], neighbours, near, NULL,
                                         &found, w->err);
        for (size_t k = 0; !status && k < found; k++)
            status = add_window(w, LIPSC_CHANGE_SWAP, token, near[k]);
        if (!status) status = add_window(w, LIPSC_CHANGE_DROP, token, 0);
        if (!status) status = add_window(w, LIPSC_CHANGE_DUPLICATE, token, 0);
    }
    lipsc_release(near);
    return status;
}

/* ---- Rows --------------------------------------------------------------------------- */

static double longest_of(size_t n, size_t d, const double *x) {
    double longest = 0;
    for (size_t i = 0; i < n; i++) longest = lipsc_max(longest, lipsc_length(d, x + i * d));
    return longest;
}

/* Squares of what moved and of what was there. */
typedef struct {
    double moved, size;
} motion;

static double share_of(motion m) { return m.size > 0 ? sqrt(m.moved / m.size) : NAN; }

/* Adds the tokens that both windows have besides the changed one; rows are `width` long. */
static void add_others(const work *w, const window *one, size_t width, const double *after,
                       const double *before, motion *sum) {
    for (size_t i = 0; i < w->n; i++) {
        if (i == one->token) continue;
        const size_t there = one->kind == LIPSC_CHANGE_SWAP || i < one->token ? i
                             : one->kind == LIPSC_CHANGE_DROP                 ? i - 1
                                                                              : i + 1;
        for (size_t c = 0; c < width; c++) {
            const double by = after[there * width + c] - before[i * width + c];
            sum->moved += by * by;
            sum->size += before[i * width + c] * before[i * width + c];
        }
    }
}

/* |a' - a| / |a| over them. */
static double others_moved(const work *w, const window *one, const double *after,
                           const double *before) {
    motion sum = {0, 0};
    add_others(w, one, w->d, after, before, &sum);
    return share_of(sum);
}

static void add_row(work *w, const lipsc_perturbed *row) {
    w->rows->at[w->rows->count] = *row;
    w->rows->at[w->rows->count++].logits = NAN; /* see_logits knows it */
    if (w->set->progress) w->set->progress(w->set->ctx, w->rows->count, w->room);
}

/* What a map is asked about a step: its derivative, and a bound around. */
typedef struct {
    lipsc_map *map;
    double sigma;
    lipsc_zoo_case *zoo; /* what the bounds of all steps share; NULL: none asked yet */
} derivative;

static void close_derivative(derivative *of) {
    if (of->zoo) lipsc_zoo_case_free(of->zoo);
    lipsc_release(of->zoo);
    lipsc_map_free(of->map);
    *of = (derivative){0};
}

static lipsc_status open_derivative(work *w, lipsc_map_kind kind, size_t layer,
                                    derivative *out) {
    const lipsc_map_options of = {.map = kind,
                                  .layer = layer,
                                  .head = -1,
                                  .dtype = LIPSC_F64,
                                  .device = w->set->device};
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    set.tol = 1e-4; /* the value is then good to the square of it */
    set.seed = w->set->seed;
    set.stop = w->set->stop;
    set.ctx = w->set->ctx;
    lipsc_status status = lipsc_map_new(w->model, w->acts, &of, &out->map, w->err);
    if (status) return status;
    status = lipsc_map_sigma(out->map, &set, &out->sigma, NULL, NULL, &info);
    if (status == LIPSC_E_NOCONV)
        status = LIPSC_OK; /* a value that was reached all the same */
    if (status && status != LIPSC_E_STOPPED)
        lipsc_fail(w->err, status, "%s", lipsc_strerror(status));
    return status;
}

static lipsc_status share_bounds(work *w, derivative *of, lipsc_error *why) {
    if (of->zoo) return LIPSC_OK;
    of->zoo = lipsc_alloc_zero(1, sizeof *of->zoo);
    if (!of->zoo) return lipsc_fail(why, LIPSC_E_NOMEM, "out of memory for bounds");
    const lipsc_status status = lipsc_zoo_case_until(
        lipsc_map_attn(of->map), NAN, 2.0, NULL, w->set->stop, w->set->ctx, of->zoo, why);
    if (status) {
        lipsc_zoo_case_free(of->zoo);
        lipsc_release(of->zoo);
        of->zoo = NULL;
    }
    return status;
}

/* Over every input whose tokens lie within the longest change of one; NaN: there is none.
 */
static lipsc_status bound_step(work *w, derivative *of, double *upper) {
    lipsc_around around;
    lipsc_error why;
    lipsc_status status = share_bounds(w, of, &why);
    if (!status)
        status = lipsc_around_at(of->zoo, longest_of(w->n, w->d, w->step), &around, &why);
    if (!status) *upper = around.value;
    if (status == LIPSC_E_REFUSED || status == LIPSC_E_RANGE) return LIPSC_OK;
    return status && status != LIPSC_E_STOPPED ? lipsc_fail(w->err, status, "%s", why.text)
                                               : status;
}

/* The step is in w->step, the motion of the output in w->moved. */
static lipsc_status measure_step(work *w, derivative *of, const double *input, int bound,
                                 lipsc_perturbed *row) {
    const lipsc_op op = lipsc_map_op(of->map);
    const double step = lipsc_length(w->length, w->step);
    row->sigma = of->sigma;
    row->step = step / lipsc_length(w->length, input);
    row->ratio = row->first = row->upper = NAN;
    if (!(step > 0)) return LIPSC_OK; /* the change does not reach this layer */
    if (op.apply(op.ctx, 0, 1, w->step, w->predicted))
        return lipsc_fail(w->err, LIPSC_E_CALLBACK, "a product with J failed");
    row->ratio = lipsc_length(w->length, w->moved) / step;
    row->first = lipsc_length(w->length, w->predicted) / step;
    return bound && w->set->bounds ? bound_step(w, of, &row->upper) : LIPSC_OK;
}

static void subtract(size_t count, const double *a, const double *b, double *out) {
    for (size_t i = 0; i < count; i++) out[i] = a[i] - b[i];
}

static lipsc_status see_swaps(work *w, derivative *of, size_t layer) {
    const double *input = lipsc_acts_attention_input(w->acts, layer);
    const double *output = lipsc_acts_attention_output(w->acts, layer);
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; !status && i < w->window_count; i++) {
        const window *one = &w->windows[i];
        if (one->kind != LIPSC_CHANGE_SWAP) continue;
        if (stopped(w)) return LIPSC_E_STOPPED;
        const double *after = lipsc_acts_attention_output(one->acts, layer);
        lipsc_perturbed row = {.change = one->kind,
                               .layer = layer,
                               .token = one->token,
                               .from = one->from,
                               .to = one->to,
                               .others = others_moved(w, one, after, output)};
        subtract(w->length, lipsc_acts_attention_input(one->acts, layer), input, w->step);
        subtract(w->length, after, output, w->moved);
        status = measure_step(w, of, input, 1, &row);
        if (!status) add_row(w, &row);
    }
    return status;
}

static lipsc_status see_noise(work *w, derivative *of, size_t layer, size_t which) {
    const double *input = lipsc_acts_attention_input(w->acts, layer);
    const double *output = lipsc_acts_attention_output(w->acts, layer);
    const lipsc_map_options at = {.map = LIPSC_MAP_ATTENTION,
                                  .layer = layer,
                                  .head = -1,
                                  .dtype = LIPSC_F64,
                                  .device = w->set->device};
    const uint64_t stream = w->set->seed + 1000003u * (layer + 1) + which;
    for (size_t i = 0; i < w->length; i++) w->step[i] = lipsc_rng_normal(stream, i);
    const double size = w->set->noise[which] * lipsc_length(w->length, input) /
                        lipsc_length(w->length, w->step);
    for (size_t i = 0; i < w->length; i++) w->moved[i] = input[i] + size * w->step[i];
    subtract(w->length, w->moved, input, w->step); /* what arrives, rounded */
    lipsc_map *moved = NULL;
    lipsc_status status = lipsc_map_new_at(w->model, w->n, w->moved, &at, &moved, w->err);
    if (status) return status;
    status = lipsc_attn_output(lipsc_map_attn(moved), w->predicted);
    lipsc_map_free(moved);
    if (status) return lipsc_fail(w->err, status, "%s", lipsc_strerror(status));
    subtract(w->length, w->predicted, output, w->moved);
    lipsc_perturbed row = {.change = LIPSC_CHANGE_NOISE,
                           .layer = layer,
                           .token = SIZE_MAX,
                           .others = lipsc_length(w->length, w->moved) /
                                     lipsc_length(w->length, output)};
    status = measure_step(w, of, input, 1, &row);
    if (!status) add_row(w, &row);
    return status;
}

/* What all windows saw of a layer, in doubles. */
static lipsc_status ask(const work *w, size_t layer) {
    lipsc_status status = lipsc_acts_ask(w->acts, layer, w->err);
    for (size_t i = 0; !status && i < w->window_count; i++)
        status = lipsc_acts_ask(w->windows[i].acts, layer, w->err);
    return status;
}

static lipsc_status see_layer(work *w, size_t layer) {
    derivative of = {0};
    lipsc_status status = ask(w, layer);
    if (!status) status = open_derivative(w, LIPSC_MAP_ATTENTION, layer, &of);
    if (!status) status = see_swaps(w, &of, layer);
    for (size_t i = 0; !status && i < w->set->noise_count; i++)
        status = stopped(w) ? LIPSC_E_STOPPED : see_noise(w, &of, layer, i);
    close_derivative(&of);
    return status;
}

/* How far each window's logits of the other tokens moved, some of the vocabulary at a
 * time.  sums (window_count).  LIPSC_E_REFUSED: the model has none. */
static lipsc_status move_logits(work *w, motion *sums) {
    enum { TOKENS_AT_ONCE = 512 };
    const size_t vocab = w->info->vocab;
    double *before = lipsc_alloc(w->n * TOKENS_AT_ONCE, sizeof *before);
    double *after = lipsc_alloc((w->n + 1) * TOKENS_AT_ONCE, sizeof *after);
    lipsc_status status =
        before && after ? LIPSC_OK
                        : lipsc_fail(w->err, LIPSC_E_NOMEM, "out of memory for logits");
    for (size_t first = 0; !status && first < vocab; first += TOKENS_AT_ONCE) {
        const size_t left = vocab - first;
        const size_t count = left < TOKENS_AT_ONCE ? left : TOKENS_AT_ONCE;
        if (stopped(w)) status = LIPSC_E_STOPPED;
        if (!status)
            status = lipsc_model_logits(w->model, w->n, lipsc_acts_output(w->acts), first,
                                        count, before, w->err);
        for (size_t i = 0; !status && i < w->window_count; i++) {
            const window *one = &w->windows[i];
            status = lipsc_model_logits(w->model, one->n, lipsc_acts_output(one->acts),
                                        first, count, after, w->err);
            if (!status) add_others(w, one, count, after, before, &sums[i]);
        }
    }
    lipsc_release(before);
    lipsc_release(after);
    return status;
}

/* Rows of the whole model, from `first` on, one for each window. */
static lipsc_status see_logits(work *w, size_t first) {
    motion *sums = lipsc_alloc_zero(w->window_count + 1, sizeof *sums);
    if (!sums) return lipsc_fail(w->err, LIPSC_E_NOMEM, "out of memory for logits");
    const lipsc_status status = move_logits(w, sums);
    for (size_t i = 0; !status && i < w->window_count; i++)
        w->rows->at[first + i].logits = share_of(sums[i]);
    lipsc_release(sums);
    return status == LIPSC_E_REFUSED ? LIPSC_OK : status;
}

/* From the embeddings to the last hidden state, every change. */
static lipsc_status see_whole(work *w) {
    const lipsc_status asked = ask(w, 0);
    if (asked) return asked;
    const double *input = lipsc_acts_block_input(w->acts, 0);
    const double *output = lipsc_acts_output(w->acts);
    const size_t first = w->rows->count;
    derivative of = {0};
    lipsc_status status = open_derivative(w, LIPSC_MAP_MODEL, 0, &of);
    for (size_t i = 0; !status && i < w->window_count; i++) {
        const window *one = &w->windows[i];
        const double *after = lipsc_acts_output(one->acts);
        lipsc_perturbed row = {.change = one->kind,
                               .layer = SIZE_MAX,
                               .token = one->token,
                               .from = one->from,
                               .to = one->to,
                               .step = NAN,
                               .ratio = NAN,
                               .first = NAN,
                               .sigma = of.sigma,
                               .upper = NAN,
                               .others = others_moved(w, one, after, output)};
        if (one->kind == LIPSC_CHANGE_SWAP) {
            subtract(w->length, lipsc_acts_block_input(one->acts, 0), input, w->step);
            subtract(w->length, after, output, w->moved);
            status = measure_step(w, &of, input, 0, &row);
        }
        if (!status) add_row(w, &row);
    }
    close_derivative(&of);
    return status ? status : see_logits(w, first);
}

/* ---- Together ----------------------------------------------------------------------- */

static lipsc_status reserve(work *w) {
    const lipsc_perturb_settings *s = w->set;
    const size_t layers = s->layers ? s->layer_count : w->info->layers;
    const size_t windows = s->tokens * (s->neighbours + 2);
    w->windows = lipsc_alloc(windows ? windows : 1, sizeof *w->windows);
    w->step = lipsc_alloc(w->length, sizeof *w->step);
    w->moved = lipsc_alloc(w->length, sizeof *w->moved);
    w->predicted = lipsc_alloc(w->length, sizeof *w->predicted);
    w->room = layers * (s->tokens * s->neighbours + s->noise_count) + windows;
    w->rows->at = lipsc_alloc(w->room ? w->room : 1, sizeof *w->rows->at);
    if (w->windows && w->step && w->moved && w->predicted && w->rows->at) return LIPSC_OK;
    return lipsc_fail(w->err, LIPSC_E_NOMEM, "out of memory for changes of %zu tokens",
                      w->n);
}

static lipsc_status see_layers(work *w) {
    const lipsc_perturb_settings *s = w->set;
    const size_t count = s->layers ? s->layer_count : w->info->layers;
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; !status && i < count; i++) {
        const size_t layer = s->layers ? s->layers[i] : i;
        if (!lipsc_acts_attention_input(w->acts, layer))
            return lipsc_fail(w->err, LIPSC_E_RANGE, "there is no layer %zu", layer);
        status = see_layer(w, layer);
    }
    return status;
}

lipsc_status lipsc_perturb(lipsc_model *model, size_t n, const uint32_t *ids,
                           const lipsc_perturb_settings *set, lipsc_perturbation_rows *out,
                           lipsc_error *err) {
    lipsc_perturb_settings usual;
    lipsc_perturb_defaults(&usual);
    *out = (lipsc_perturbation_rows){0};
    if (n < 2) return lipsc_fail(err, LIPSC_E_ARG, "a change needs two tokens or more");
    const lipsc_model_info *info = lipsc_model_describe(model);
    work w = {.model = model,
              .info = info,
              .set = set ? set : &usual,
              .n = n,
              .d = info->d,
              .length = n * info->d,
              .ids = ids,
              .rows = out,
              .err = err};
    for (size_t i = 0; set && set->layers && i < set->layer_count; i++)
        if (set->layers[i] >= info->layers)
            return lipsc_fail(err, LIPSC_E_RANGE, "there is no layer %zu: %zu in all",
                              set->layers[i], info->layers);
    lipsc_status status = reserve(&w);
    if (!status)
        status = lipsc_acts_new(model, LIPSC_F64, w.set->device, n, ids, 0, &w.acts, err);
    if (!status) status = add_windows(&w);
    if (!status) status = see_layers(&w);
    if (!status && w.set->whole) status = see_whole(&w);
    for (size_t i = 0; i < w.window_count; i++) lipsc_acts_free(w.windows[i].acts);
    lipsc_acts_free(w.acts);
    lipsc_release(w.windows);
    lipsc_release(w.step);
    lipsc_release(w.moved);
    lipsc_release(w.predicted);
    if (status && status != LIPSC_E_STOPPED) lipsc_perturbation_free(out);
    return status;
}

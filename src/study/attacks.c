/* attacks.c - the worst input of every length: the search, the file of each, rows that are
 * kept, and how sigma grows. */
#define _POSIX_C_SOURCE 200809L /* access */
#include <jansson.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bound/zoo.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "core/vector.h"
#include "io/layer_file.h"
#include "row/field.h"
#include "run/growth.h"
#include "run/run.h"
#include "study/place.h"
#include "study/save.h"

enum { PATH_SIZE = 4096, KEY_SIZE = 96 };

lipsc_fields lipsc_attack_fields(void) {
    typedef lipsc_attack_row record;
    static const lipsc_field list[] = {LIPSC_ATTACK_LIST(LIPSC_FIELD_ENTRY)};
    return (lipsc_fields){sizeof list / sizeof *list, list};
}

void lipsc_attacks_defaults(lipsc_attacks_settings *set) {
    lipsc_attack_settings one;
    lipsc_attack_defaults(&one);
    *set = (lipsc_attacks_settings){.radius = NAN,
                                    .dtype = -1,
                                    .restarts = one.restarts,
                                    .iterations = one.iterations,
                                    .seed = one.seed};
}

typedef struct {
    lipsc_place *place;
    const lipsc_attacks_settings *set;
    lipsc_dtype dtype;
    place_norm norm; /* gain NULL: not asked for */
    char hash[65];   /* of the model, or of the file */
    size_t *lengths, longest;
    size_t n; /* that is worked on */
    lipsc_run *run;
    lipsc_attacks *out;
    lipsc_pool *pool;
    double *slopes;
    double deadline; /* of this length; infinite: none                 */
    int found;       /* an input has a value                           */
    int late;        /* the deadline has ended the search              */
    size_t index;    /* of this length                                 */
} attacks;

typedef struct {
    lipsc_pool pool;
    double *slopes;
} storage;

static const char *name_of(const attacks *a) { return a->place->set.from; }

static int wants_norm(const attacks *a) {
    return a->set->domain == LIPSC_ATTACK_NORM || a->set->radius_of_norm;
}

/* ---- What is asked for --------------------------------------------------------------- */

static lipsc_status check_domain(const attacks *a, lipsc_error *err) {
    const lipsc_attacks_settings *s = a->set;
    if (wants_norm(a) && a->place->has_file)
        return lipsc_fail(err, LIPSC_E_ARG, "a norm needs a model: a layer file has none");
    if (s->domain == LIPSC_ATTACK_NORM && !isnan(s->radius))
        return lipsc_fail(err, LIPSC_E_ARG,
                          "the domain norm has the radius of the norm: leave it out");
    if (s->domain == LIPSC_ATTACK_AROUND && (s->radius_of_norm || isnan(s->radius)))
        return lipsc_fail(err, LIPSC_E_ARG, "the domain around needs a radius, a number");
    if (s->relative && s->domain != LIPSC_ATTACK_AROUND)
        return lipsc_fail(err, LIPSC_E_ARG, "relative goes with the domain around");
    if (s->atoms && s->lengths.count)
        return lipsc_fail(err, LIPSC_E_ARG, "atoms are the length: leave out lengths");
    return LIPSC_OK;
}

static lipsc_status plan_lengths(attacks *a, lipsc_error *err) {
    const lipsc_attacks_settings *s = a->set;
    const lipsc_place *p = a->place;
    const lipsc_input *input = &p->file.input;
    const int fixed = p->has_file && (input->weights || input->times || input->positions);
    const size_t count = s->lengths.count ? s->lengths.count : 1;
    const int ids = p->set.source.ids || p->set.source.id_list;
    if (s->atoms && p->has_file && (input->times || input->positions))
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s: atoms: its tokens have %s", name_of(a),
                          input->times ? "times" : "positions");
    if (!s->lengths.count && !s->atoms && !ids && !(p->has_file && input->n))
        return lipsc_fail(err, LIPSC_E_ARG, "give a length");
    a->lengths = lipsc_alloc(count, sizeof *a->lengths);
    a->out->rows = lipsc_alloc(count, sizeof *a->out->rows);
    if (!a->lengths || !a->out->rows)
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    a->out->count = count;
    for (size_t i = 0; i < count; i++) {
        a->lengths[i] = s->lengths.count ? s->lengths.at[i]
                        : s->atoms       ? s->atoms
                                         : place_given(p);
        if (a->lengths[i] > a->longest) a->longest = a->lengths[i];
        lipsc_fields_clear(lipsc_attack_fields(), &a->out->rows[i]);
    }
    for (size_t i = 0; i < count && fixed && !s->atoms; i++)
        if (a->lengths[i] != input->n)
            return lipsc_fail(err, LIPSC_E_REFUSED,
                              "%s: its %s are those of %zu tokens, not of length %zu",
                              name_of(a),
                              input->weights ? "weights"
                              : input->times ? "times"
                                             : "positions",
                              input->n, a->lengths[i]);
    return LIPSC_OK;
}

/* SHA-256 of a file, for the run file: other weights are another attack. */
static lipsc_status find_hash(attacks *a, lipsc_error *err) {
    char *bytes;
    size_t size;
    lipsc_sha256 sha;
    if (a->place->info) {
        memcpy(a->hash, a->place->info->hash, sizeof a->hash);
        return LIPSC_OK;
    }
    const lipsc_status status = lipsc_bytes_read(name_of(a), &bytes, &size, err);
    if (status) return status;
    lipsc_sha256_begin(&sha);
    lipsc_sha256_add(&sha, bytes, size);
    lipsc_sha256_end(&sha, a->hash);
    lipsc_release(bytes);
    return LIPSC_OK;
}

/* The given input at length n, or NULL. */
static lipsc_status find_data(attacks *a, size_t n, const double **data, lipsc_error *err) {
    lipsc_place *p = a->place;
    *data = NULL;
    if (p->has_file) {
        if (p->file.input.n >= n) *data = p->file.input.X;
        return LIPSC_OK;
    }
    if (!p->has_source) return LIPSC_OK;
    const lipsc_status status = place_run(p, a->longest, n, err);
    if (status) return status;
    if (lipsc_acts_length(p->acts) != n)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "%s: one window of length %zu, not of length %zu", p->source.path,
                          lipsc_acts_length(p->acts), n);
    *data = lipsc_acts_attention_input(p->acts, p->set.layer);
    return LIPSC_OK;
}

/* The search of length n: domain, centre, data, masses. */
static lipsc_status aim_at(attacks *a, size_t n, lipsc_attack_settings *aim,
                           lipsc_error *err) {
    const lipsc_attacks_settings *s = a->set;
    const lipsc_input *input = &a->place->file.input;
    const size_t d = a->place->layer.d;
    const lipsc_status status = find_data(a, n, &aim->data, err);
    if (status) return status;
    aim->n = n;
    aim->domain = s->domain;
    aim->masses = s->atoms > 0;
    aim->weights = s->atoms ? NULL : input->weights;
    aim->times = input->times;
    aim->positions = input->positions;
    if (s->domain == LIPSC_ATTACK_AROUND && !aim->data)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "%s: the domain around: no input of length %zu is given (%s)",
                          name_of(a), n,
                          a->place->has_file ? "X of the file" : "a text or ids");
    if (s->domain == LIPSC_ATTACK_AROUND) aim->centre = aim->data;
    if (s->domain == LIPSC_ATTACK_NORM) {
        aim->gain = a->norm.gain;
        aim->shift = a->norm.shift;
        aim->centred = !a->norm.rms;
    }
    aim->radius = wants_norm(a) ? a->norm.radius : s->radius;
    if (s->relative) aim->radius *= lipsc_mean_token(n, d, aim->data);
    if (isnan(aim->radius) && aim->data) aim->radius = lipsc_longest_token(n, d, aim->data);
    if (isnan(aim->radius)) return lipsc_fail(err, LIPSC_E_ARG, "give a radius");
    return LIPSC_OK;
}

/* ---- The run file -------------------------------------------------------------------- */

/* All that decides a value, except the length: a run may be extended. */
static json_t *run_settings(const attacks *a) {
    const lipsc_attacks_settings *s = a->set;
    const lipsc_place_options *f = &a->place->set;
    const lipsc_layer *layer = &a->place->layer;
    char head[24] = "all";
    if (f->head >= 0) snprintf(head, sizeof head, "%ld", f->head);
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:s, s:I, s:s, s:I, s:I, "
        "s:I, s:s, s:f}",
        "hash", a->hash, "text_hash", a->place->source.hash, "ids_hash",
        a->place->source.ids_hash, "layer", (json_int_t)f->layer, "heads", head, "map",
        layer->O ? "attention" : "heads", "num_heads", (json_int_t)layer->heads, "kv_heads",
        (json_int_t)layer->kv_heads, "sliding", (json_int_t)layer->window, "scale",
        layer->scale, "tol", s->tol, "mask", lipsc_mask_name(layer->mask), "window",
        (json_int_t)f->window, "domain", lipsc_attack_domain_name(s->domain), "atoms",
        (json_int_t)s->atoms, "restarts", (json_int_t)s->restarts, "iterations",
        (json_int_t)s->iterations, "dtype", lipsc_dtype_name(a->dtype), "seed",
        (double)s->seed);
    /* the first window starts at 0 either way */
    const size_t stride = f->source.stride ? f->source.stride : a->longest;
    const int tiled = f->source.tiled || f->window == 0;
    int bad = json_object_set_new(all, "special", json_boolean(f->source.special));
    bad |= json_object_set_new(all, "seconds",
                               s->seconds > 0.0 ? json_real(s->seconds) : json_null());
    bad |= json_object_set_new(all, "tiled", json_boolean(tiled));
    bad |= json_object_set_new(all, "stride",
                               tiled ? json_null() : json_integer((json_int_t)stride));
    if (f->from)
        bad |= json_object_set_new(all, LIPSC_RUN_TOLD,
                                   json_pack("{s:o}", "model", lipsc_json_text(f->from)));
    if (!bad) return all;
    json_decref(all);
    return NULL;
}

static lipsc_status open_run(attacks *a, lipsc_error *err) {
    enum { MOST = 32 };
    const lipsc_fields fields = lipsc_attack_fields();
    const char *names[MOST];
    size_t count = 0;
    for (size_t f = 0; f < fields.count && count < MOST; f++)
        if (!fields.at[f].part) names[count++] = fields.at[f].name;
    lipsc_status status = find_hash(a, err);
    if (status) return status;
    json_t *settings = run_settings(a);
    json_t *absent =
        json_pack("{s:b, s:n, s:b, s:n}", "tiled", 1, "stride", "special", 0, "seconds");
    const lipsc_run_options how = {.command = "attack",
                                   .command_line = a->set->command_line,
                                   .settings = settings,
                                   .absent = absent,
                                   .field_count = count,
                                   .fields = names};
    status = settings ? lipsc_run_open(a->set->run_file, &how, &a->run, err)
                      : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    json_decref(settings);
    json_decref(absent);
    return status;
}

/* The row of an earlier call, when its file is still there. */
static lipsc_status restore(attacks *a, const char *key, const char *path,
                            lipsc_attack_row *row, lipsc_error *err) {
    json_t *stored = NULL;
    unsigned parts;
    if (!a->run || (*path && access(path, R_OK))) return LIPSC_OK;
    lipsc_status status = lipsc_run_get(a->run, key, &stored, err);
    const char *file = json_string_value(json_object_get(stored, "input"));
    if (!status && stored && (!*path || (file && !strcmp(file, path))))
        status =
            lipsc_fields_read(lipsc_attack_fields(), stored, a->pool, row, &parts, err);
    json_decref(stored);
    return status;
}

static lipsc_status keep(const attacks *a, const char *key, const lipsc_attack_row *row,
                         lipsc_error *err) {
    json_t *object = lipsc_fields_json(lipsc_attack_fields(), row,
                                       LIPSC_ATTACK_STORED | LIPSC_ATTACK_GIVEN);
    const lipsc_status status =
        object ? lipsc_run_put(a->run, key, object, err)
               : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    json_decref(object);
    return status;
}

/* ---- One length ---------------------------------------------------------------------- */

/* The file of length n: `out`, with the length in its name when there are several.  0 when
 * it does not fit; empty: none is asked for. */
static int file_of(const attacks *a, size_t n, char path[PATH_SIZE]) {
    const char *out = a->set->out ? a->set->out : "";
    if (a->out->count == 1 || !*out)
        return (size_t)snprintf(path, PATH_SIZE, "%s", out) < PATH_SIZE;
    const char *slash = strrchr(out, '/'), *dot = strrchr(out, '.');
    const size_t stem = dot && (!slash || dot > slash + 1) && dot != out
                            ? (size_t)(dot - out)
                            : strlen(out);
    return stem < PATH_SIZE && (size_t)snprintf(path, PATH_SIZE, "%.*s-%zu%s", (int)stem,
                                                out, n, out + stem) < PATH_SIZE;
}

/* A search takes minutes: whether its file can be made is better known before. */
static lipsc_status check_folder(const attacks *a, lipsc_error *err) {
    char folder[PATH_SIZE];
    const char *out = a->set->out, *slash = out ? strrchr(out, '/') : NULL;
    if (!slash) return LIPSC_OK;
    const size_t length = slash == out ? 1 : (size_t)(slash - out);
    if (length >= sizeof folder)
        return lipsc_fail(err, LIPSC_E_RANGE, "%s: too long a name", out);
    memcpy(folder, out, length);
    folder[length] = '\0';
    return access(folder, W_OK | X_OK)
               ? lipsc_fail(err, LIPSC_E_IO, "%s: cannot write files into this folder",
                            folder)
               : LIPSC_OK;
}

static lipsc_status write_input(const attacks *a, const char *path,
                                const lipsc_attack_settings *aim,
                                const lipsc_attack_result *r, lipsc_error *err) {
    const lipsc_place *p = a->place;
    const lipsc_input input = {.n = r->n,
                               .X = r->X,
                               .weights = r->weights ? r->weights : aim->weights,
                               .times = aim->times,
                               .positions = aim->positions};
    lipsc_layer_record record = lipsc_layer_record_of(&p->layer, &input);
    lipsc_save_room room = {.ids = NULL};
    if (p->has_file)
        lipsc_save_origin(&record, &p->file);
    else
        lipsc_save_model(&record, p->set.from, p->info, p->set.layer, p->set.head, &room);
    record.dtype = lipsc_dtype_name(a->dtype);
    record.sigma = &r->sigma;
    record.u = r->u;
    record.v = r->v;
    return lipsc_layer_write(path, &record, err);
}

static int fill(attacks *a, const lipsc_attack_settings *aim, const lipsc_attack_result *r,
                const char *path, lipsc_attack_row *row) {
    *row = (lipsc_attack_row){.n = r->n,
                              .given = NAN,
                              .relative = NAN,
                              .radius = aim->radius,
                              .domain = lipsc_attack_domain_name(aim->domain),
                              .start = lipsc_pool_text(a->pool, r->start),
                              .sigma = r->sigma,
                              .lower = r->lower,
                              .residual = r->residual,
                              .converged = r->converged,
                              .best_construction = r->best_construction,
                              .upper = r->upper,
                              .log_upper = r->log_upper,
                              .evaluations = r->evaluations,
                              .input = path ? lipsc_pool_text(a->pool, path) : NULL,
                              .seconds = r->seconds};
    return row->start && (!path || row->input);
}

static void tell(void *ctx, const char *doing, long evaluations, double best) {
    attacks *a = ctx;
    if (best > 0.0) a->found = 1;
    if (a->set->progress) a->set->progress(a->set->ctx, a->n, doing, evaluations, best);
}

/* Lengths count alike. */
static void tell_share(void *ctx, double done) {
    const attacks *a = ctx;
    if (a->set->share)
        a->set->share(a->set->ctx, ((double)a->index + done) / (double)a->out->count);
}

static int stopped(void *ctx) {
    attacks *a = ctx;
    if (a->set->stop && a->set->stop(a->set->ctx)) return 1;
    if (a->found && lipsc_seconds() >= a->deadline) a->late = 1;
    return a->late;
}

/* What is left of the time is shared by the lengths that are left. */
static void begin_clock(attacks *a, double begin) {
    const double now = lipsc_seconds();
    a->found = a->late = 0;
    a->deadline = a->set->seconds > 0.0
                      ? now + lipsc_max(0.0, begin + a->set->seconds - now) /
                                  (double)(a->out->count - a->index)
                      : INFINITY;
}

/* ---- What it is to be held against --------------------------------------------------- */

/* sigma of the input that was given. */
static lipsc_status find_given(attacks *a, const lipsc_attack_settings *aim, double *sigma,
                               lipsc_error *err) {
    lipsc_attn *attn = NULL;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    const lipsc_input input = {.n = aim->n,
                               .X = aim->data,
                               .weights = aim->weights,
                               .times = aim->times,
                               .positions = aim->positions};
    *sigma = NAN;
    if (!aim->data || aim->masses) return LIPSC_OK;
    lipsc_svd_defaults(&set);
    set.stop = a->set->stop;
    set.ctx = a->set->ctx;
    lipsc_status status = lipsc_attn_new(&a->place->layer, &input, LIPSC_F64,
                                         a->place->set.device, &attn, err);
    if (!status) status = lipsc_attn_sigma(attn, &set, sigma, NULL, NULL, &info);
    lipsc_attn_free(attn);
    if (status && status != LIPSC_E_STOPPED) *sigma = NAN; /* it may lie where none is */
    return status == LIPSC_E_STOPPED || status == LIPSC_E_NOMEM ? status : LIPSC_OK;
}

/* How far the search moved each token of the input that was given. */
static lipsc_status find_moved(const attacks *a, const lipsc_attack_settings *aim,
                               const double *X, lipsc_attack_row *row) {
    const size_t n = aim->n, d = a->place->layer.d;
    if (!aim->data || aim->masses) return LIPSC_OK;
    double *moved = lipsc_alloc(n, sizeof *moved);
    if (!moved) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        moved[i] = 0.0;
        for (size_t c = 0; c < d; c++)
            moved[i] = hypot(moved[i], X[i * d + c] - aim->data[i * d + c]);
    }
    row->moved = (lipsc_reals){n, lipsc_pool_reals(a->pool, n, moved)};
    row->relative = aim->radius / lipsc_mean_token(n, d, aim->data);
    lipsc_release(moved);
    return row->moved.at ? LIPSC_OK : LIPSC_E_NOMEM;
}

/* ---- Search and file ----------------------------------------------------------------- */

/* *row also when it returns LIPSC_E_STOPPED, with the best so far, and when the file could
 * not be written, then without its path. */
static lipsc_status attack_one(attacks *a, const char *path, lipsc_attack_settings *aim,
                               lipsc_attack_row *row, lipsc_error *err) {
    lipsc_attack_result found;
    double given;
    lipsc_status written = find_given(a, aim, &given, err);
    if (written) return written;
    aim->progress = tell;
    aim->share = tell_share;
    aim->stop = stopped;
    aim->ctx = a;
    lipsc_status outcome = lipsc_attack_run(&a->place->layer, aim, &found, err);
    if (outcome && outcome != LIPSC_E_STOPPED) return outcome;
    if (outcome && a->late && found.X) outcome = LIPSC_OK;
    if (!found.X) return outcome; /* stopped before the first value */
    if (*path) written = write_input(a, path, aim, &found, err);
    const int there = *path && !written;
    int filled = fill(a, aim, &found, there ? path : NULL, row);
    row->given = given;
    filled = filled && !find_moved(a, aim, found.X, row);
    if (there && a->set->written) a->set->written(a->set->ctx, path);
    lipsc_attack_result_free(&found);
    if (!filled) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    return written ? written : outcome;
}

static lipsc_status attack_length(attacks *a, size_t i, lipsc_error *err) {
    const lipsc_attacks_settings *s = a->set;
    lipsc_attack_row *row = &a->out->rows[i];
    lipsc_attack_settings aim;
    char key[KEY_SIZE], path[PATH_SIZE];
    lipsc_attack_defaults(&aim);
    aim.seed = s->seed;
    aim.device = a->place->set.device;
    aim.dtype = a->dtype;
    aim.tol = s->tol;
    aim.iterations = s->iterations;
    aim.restarts = s->restarts;
    a->n = a->lengths[i];
    lipsc_status status = aim_at(a, a->n, &aim, err);
    if (status) return status;
    if (!file_of(a, a->n, path))
        return lipsc_fail(err, LIPSC_E_ARG, "%s: this name is too long", s->out);
    snprintf(key, sizeof key, "n=%zu radius=%.17g", aim.n, aim.radius);
    status = restore(a, key, path, row, err);
    if (status || row->n != LIPSC_NONE) return status;
    status = attack_one(a, path, &aim, row, err);
    return !status && a->run ? keep(a, key, row, err) : status;
}

/* ---- Together ------------------------------------------------------------------------ */

static void fit(attacks *a) {
    lipsc_attacks *out = a->out;
    const lipsc_place *p = a->place;
    lipsc_fit_point *points = lipsc_alloc(out->count, sizeof *points);
    double *slopes = a->slopes;
    lipsc_fit found;
    size_t used = 0;
    for (size_t i = 0; points && i < out->count; i++)
        if (out->rows[i].n != LIPSC_NONE)
            points[used++] = (lipsc_fit_point){
                .n = a->lengths[i], .x = (double)a->lengths[i], .y = out->rows[i].sigma};
    out->has_law = points && slopes &&
                   !lipsc_fit_power(used, points, a->set->seed, &found, slopes, NULL);
    lipsc_release(points);
    if (!out->has_law) return;
    lipsc_fields_clear(lipsc_growth_fields(), &out->law);
    if (p->info) out->law.layer = p->set.layer;
    if (p->info && p->set.head >= 0) out->law.head = (size_t)p->set.head;
    out->law.map = p->layer.O ? "attention" : "heads";
    out->law.against = "n";
    lipsc_growth_set(&out->law, &found, slopes, NULL);
}

static lipsc_status begin(attacks *a, lipsc_error *err) {
    lipsc_error why;
    lipsc_status status = check_domain(a, err);
    if (!status && wants_norm(a)) {
        status = place_norm_read(a->place, &a->norm, &why);
        if (status)
            status = lipsc_fail(err, status, "%s: layer %zu: %s", name_of(a),
                                a->place->set.layer, why.text);
    }
    if (!status) status = plan_lengths(a, err);
    if (!status) status = check_folder(a, err);
    if (!status && a->set->run_file) status = open_run(a, err);
    return status;
}

lipsc_status lipsc_place_attack(lipsc_place *place, const lipsc_attacks_settings *set,
                                lipsc_attacks *out, lipsc_error *err) {
    *out = (lipsc_attacks){.missing = LIPSC_NONE};
    storage *room = out->storage = lipsc_alloc_zero(1, sizeof *room);
    if (!room) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    attacks a = {.place = place,
                 .set = set,
                 .dtype = set->dtype >= 0 ? (lipsc_dtype)set->dtype
                          : place->info   ? LIPSC_F32
                                          : LIPSC_F64,
                 .out = out,
                 .pool = &room->pool};
    const double start = lipsc_seconds();
    lipsc_status status = begin(&a, err);
    const int threads = omp_get_max_threads(); /* the dense algebra follows OpenMP */
    omp_set_num_threads(lipsc_device_threads(place->set.device));
    for (size_t i = 0; i < out->count && !status; i++) {
        a.index = i;
        begin_clock(&a, start);
        status = attack_length(&a, i, err);
        if (out->rows[i].n == LIPSC_NONE) out->missing = a.lengths[i];
    }
    omp_set_num_threads(threads);
    a.slopes = room->slopes = lipsc_alloc(out->count, sizeof *room->slopes);
    if (out->rows) fit(&a);
    lipsc_run_close(a.run);
    lipsc_release(a.norm.gain);
    lipsc_release(a.lengths);
    return status;
}

void lipsc_attacks_free(lipsc_attacks *found) {
    storage *room = found->storage;
    if (room) {
        lipsc_pool_free(&room->pool);
        lipsc_release(room->slopes);
    }
    lipsc_release(room);
    lipsc_release(found->rows);
    *found = (lipsc_attacks){0};
}

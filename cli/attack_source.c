/* attack_source.c - layer, domain and given input of an attack, from a file or a model. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "attack.h"
#include "attn/attn.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "io/safetensors.h"

const char *const attack_domain_names[] = {"ball", "sphere", "norm", "around"};

static int wants_norm(const attack_job *job) {
    const char *radius = job->set->from.radius;
    return job->set->domain == LIPSC_ATTACK_NORM ||
           (radius && !strcmp(radius, "layernorm"));
}

/* ---- The layer ---------------------------------------------------------------------- */

/* SHA-256 of a file, for the run file: other weights are another attack. */
static int hash_file(attack_job *job) {
    char *bytes;
    size_t size;
    lipsc_error err;
    lipsc_sha256 sha;
    if (lipsc_bytes_read(job->what, &bytes, &size, &err))
        return cli_failure(job->self, "%s", err.text);
    lipsc_sha256_begin(&sha);
    lipsc_sha256_add(&sha, bytes, size);
    lipsc_sha256_end(&sha, job->hash);
    lipsc_release(bytes);
    return CLI_RUN;
}

static int open_file(attack_job *job, lipsc_layer *layer) {
    const attack_settings *s = job->set;
    if (wants_norm(job))
        return cli_wrong_use(job->self, "%s needs a model: a layer file has no norm",
                             s->domain == LIPSC_ATTACK_NORM ? "--domain norm"
                                                            : "--radius layernorm");
    const int code = bounds_file_read(job->self, &s->from, job->what, 0, &job->source);
    if (code != CLI_RUN) return code;
    *layer = job->source.file.layer;
    job->dtype = s->dtype == ATTACK_DTYPE_F32 ? LIPSC_F32 : LIPSC_F64;
    return s->run ? hash_file(job) : CLI_RUN;
}

static int open_model(attack_job *job, lipsc_layer *layer) {
    const attack_settings *s = job->set;
    lipsc_error err;
    int code = bounds_model_open(job->self, &s->from, job->what, &job->source, layer);
    if (code != CLI_RUN) return code;
    job->dtype = s->dtype == ATTACK_DTYPE_F64 ? LIPSC_F64 : LIPSC_F32;
    memcpy(job->hash, lipsc_model_describe(job->source.model)->hash, sizeof job->hash);
    if (wants_norm(job) &&
        bounds_norm_read(job->source.model, s->from.layer, &job->norm, &err))
        return cli_failure(job->self, "%s: layer %zu: %s", job->what, s->from.layer,
                           err.text);
    return CLI_RUN;
}

/* ---- The lengths -------------------------------------------------------------------- */

/* Tokens of the given input, 0: none. */
static size_t given(const attack_job *job) {
    return job->source.has_file     ? job->source.file.input.n
           : job->source.source.ids ? cli_window_whole(&job->source.source)
                                    : 0;
}

static int plan_lengths(attack_job *job) {
    const attack_settings *s = job->set;
    const lipsc_input *input = &job->source.file.input;
    const int fixed =
        job->source.has_file && (input->weights || input->times || input->positions);
    const size_t count = s->lengths.count ? s->lengths.count : 1;
    if (s->atoms && s->lengths.count)
        return cli_wrong_use(job->self, "--atoms K is the length: leave out --length");
    if (s->atoms && job->source.has_file && (input->times || input->positions))
        return cli_failure(job->self, "%s: --atoms: its tokens have %s", job->what,
                           input->times ? "times" : "positions");
    job->lengths = lipsc_alloc(count, sizeof *job->lengths);
    job->rows = lipsc_alloc_zero(count, sizeof(json_t *));
    if (!job->lengths || !job->rows) return cli_failure(job->self, "out of memory");
    job->count = count;
    if (s->lengths.count)
        memcpy(job->lengths, s->lengths.items, count * sizeof *job->lengths);
    else if (s->atoms)
        job->lengths[0] = s->atoms;
    else if (s->from.source.ids || (job->source.has_file && input->n))
        job->lengths[0] = given(job);
    else
        return cli_wrong_use(job->self, "give --length N");
    for (size_t i = 0; i < count; i++)
        if (job->lengths[i] > job->source.longest) job->source.longest = job->lengths[i];
    for (size_t i = 0; i < count && fixed && !s->atoms; i++)
        if (job->lengths[i] != input->n)
            return cli_failure(job->self,
                               "%s: its %s are those of %zu tokens, not of --length %zu",
                               job->what,
                               input->weights ? "weights"
                               : input->times ? "times"
                                              : "positions",
                               input->n, job->lengths[i]);
    return CLI_RUN;
}

/* ---- The domain --------------------------------------------------------------------- */

static int read_radius(attack_job *job) {
    const attack_settings *s = job->set;
    const char *text = s->from.radius;
    const int named = text && !strcmp(text, "layernorm");
    job->radius = NAN;
    if (text && !named && cli_number_real(text, 0.0, DBL_MAX, &job->radius))
        return cli_wrong_use(job->self,
                             "invalid value '%s' for '--radius': expected layernorm or "
                             "a number that is not negative",
                             text);
    if (s->domain == LIPSC_ATTACK_NORM && text && !named)
        return cli_wrong_use(job->self, "--domain norm has the radius of the norm: leave "
                                        "out --radius");
    if (s->domain == LIPSC_ATTACK_AROUND && (named || !text))
        return cli_wrong_use(job->self, "--domain around needs --radius R, a number");
    if (s->from.relative && s->domain != LIPSC_ATTACK_AROUND)
        return cli_wrong_use(job->self, "--relative goes with --domain around");
    return CLI_RUN;
}

/* The given input at length n, or NULL. */
static int find_data(attack_job *job, size_t n, const double **data) {
    const attack_settings *s = job->set;
    *data = NULL;
    if (job->source.has_file) {
        if (job->source.file.input.n >= n) *data = job->source.file.input.X;
        return CLI_RUN;
    }
    if (!job->source.source.ids && !job->source.source.pixels) return CLI_RUN;
    const int code = bounds_window_run(job->self, &s->from, job->what, n, &job->source);
    if (code != CLI_RUN) return code;
    if (lipsc_acts_length(job->source.acts) != n)
        return cli_failure(job->self, "%s: one window of length %zu, not of length %zu",
                           job->source.source.path, lipsc_acts_length(job->source.acts), n);
    *data = lipsc_acts_attention_input(job->source.acts, s->from.layer);
    return CLI_RUN;
}

static double longest(size_t n, size_t d, const double *X) {
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double length = 0.0;
        for (size_t c = 0; c < d; c++) length = hypot(length, X[i * d + c]);
        largest = lipsc_max(largest, length);
    }
    return largest;
}

int attack_source_aim(attack_job *job, size_t n, lipsc_attack_settings *aim) {
    const attack_settings *s = job->set;
    const lipsc_input *input = &job->source.file.input;
    const double *data;
    const int code = find_data(job, n, &data);
    if (code != CLI_RUN) return code;
    aim->n = n;
    aim->domain = (lipsc_attack_domain)s->domain;
    aim->data = data;
    aim->masses = s->atoms > 0;
    aim->weights = s->atoms ? NULL : input->weights;
    aim->times = input->times;
    aim->positions = input->positions;
    if (s->domain == LIPSC_ATTACK_AROUND) {
        if (!data)
            return cli_failure(
                job->self, "%s: --domain around: no input of length %zu is given (%s)",
                job->what, n, job->source.has_file ? "X of the file" : "--text, --ids");
        aim->centre = data;
    }
    if (s->domain == LIPSC_ATTACK_NORM) {
        aim->gain = job->norm.gain;
        aim->shift = job->norm.shift;
        aim->centred = !job->norm.rms;
    }
    aim->radius = wants_norm(job) ? job->norm.radius : job->radius;
    if (s->from.relative) aim->radius *= bounds_mean_token(n, job->layer.d, data);
    if (isnan(aim->radius) && data) aim->radius = longest(n, job->layer.d, data);
    if (isnan(aim->radius)) return cli_wrong_use(job->self, "give --radius R");
    return CLI_RUN;
}

/* ---- Together ----------------------------------------------------------------------- */

int attack_source_open(attack_job *job) {
    lipsc_layer layer;
    lipsc_error err;
    int code = cli_source_check(job->self, &job->set->from.source);
    if (code == CLI_RUN) code = read_radius(job);
    if (code == CLI_RUN)
        code =
            bounds_is_model(job->what) ? open_model(job, &layer) : open_file(job, &layer);
    if (code != CLI_RUN) return code;
    if (lipsc_layer_check(&layer, &job->layer, &err))
        return cli_failure(job->self, "%s: %s", job->what, err.text);
    return plan_lengths(job);
}

void attack_source_close(attack_job *job) {
    lipsc_release(job->norm.gain);
    lipsc_release(job->lengths);
    for (size_t i = 0; i < job->count; i++) json_decref(job->rows[i]);
    lipsc_release(job->rows);
    bounds_source_close(&job->source);
}

/* attack_aim.c - attacks: the domain, the lengths, and the search of each. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "core/vector.h"
#include "study/attacks.h"

static int wants_norm(const attacks *a) {
    return a->set->domain == LIPSC_ATTACK_NORM || a->set->radius_of_norm;
}

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
    const size_t asked = p->info ? p->set.length : 0; /* a file has its own */
    if (s->atoms && p->has_file && (input->times || input->positions))
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s: atoms: its tokens have %s",
                          attack_name(a), input->times ? "times" : "positions");
    if (!s->lengths.count && !s->atoms && !asked && !ids && !(p->has_file && input->n))
        return lipsc_fail(err, LIPSC_E_ARG, "give a length");
    a->lengths = lipsc_alloc(count, sizeof *a->lengths);
    a->cost = lipsc_alloc(count, sizeof *a->cost);
    a->known = lipsc_alloc_zero(count, 1);
    a->out->rows = lipsc_alloc(count, sizeof *a->out->rows);
    if (!a->lengths || !a->cost || !a->known || !a->out->rows)
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    a->out->count = count;
    for (size_t i = 0; i < count; i++) {
        a->lengths[i] = s->lengths.count ? s->lengths.at[i]
                        : s->atoms       ? s->atoms
                        : asked          ? asked
                                         : place_given(p);
        if (a->lengths[i] > a->longest) a->longest = a->lengths[i];
        a->cost[i] = (double)a->lengths[i] * (double)(a->lengths[i] + 2 * p->layer.d);
        lipsc_fields_clear(lipsc_attack_fields(), &a->out->rows[i]);
    }
    for (size_t i = 0; i < count && fixed && !s->atoms; i++)
        if (a->lengths[i] != input->n)
            return lipsc_fail(err, LIPSC_E_REFUSED,
                              "%s: its %s are those of %zu tokens, not of length %zu",
                              attack_name(a),
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
    const lipsc_status status = lipsc_bytes_read(attack_name(a), &bytes, &size, err);
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
lipsc_status attack_aim(attacks *a, size_t n, lipsc_attack_settings *aim,
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
                          attack_name(a), n,
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

lipsc_status attack_plan(attacks *a, lipsc_error *err) {
    lipsc_error why;
    lipsc_status status = check_domain(a, err);
    if (!status && wants_norm(a)) {
        status = place_norm_read(a->place, &a->norm, &why);
        if (status)
            status = lipsc_fail(err, status, "%s: layer %zu: %s", attack_name(a),
                                a->place->set.layer, why.text);
    }
    if (!status) status = plan_lengths(a, err);
    if (!status && (a->set->run_file || a->place->set.ranks)) status = find_hash(a, err);
    return status;
}

void attack_say(const attacks *a, size_t room, char *said) {
    const lipsc_attacks_settings *s = a->set;
    lipsc_sha256 sha;
    char lengths[65];
    lipsc_sha256_begin(&sha);
    lipsc_sha256_add(&sha, (const char *)a->lengths, a->out->count * sizeof *a->lengths);
    lipsc_sha256_end(&sha, lengths);
    snprintf(said, room,
             "layer: %s\nseconds: %g\nradius: %g\nseed: %llu\n"
             "number of climbs: %zu, %zu\nchoice of lengths: %.32s",
             a->hash, s->seconds, s->radius, (unsigned long long)s->seed, s->restarts,
             s->iterations, lengths);
}

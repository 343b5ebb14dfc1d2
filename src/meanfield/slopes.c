/* slopes.c - the local constants of a measure: moving, splitting, teleporting.
 *
 *     move     = || D^{1/2} J D^{-1/2} ||          halves = max_i || V C_i A ||
 *     split    = max(move, halves)                 (docs/maths.md 2)
 *     teleport = sup over i, z of |Gamma(z) - Gamma(x_i)| / |z - x_i|, searched
 *
 * Everything is found for the different atoms; what is handed over is in the order of the
 * given measure. */
#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "meanfield/meanfield.h"
#include "ot/check.h"

#include <math.h>
#include <string.h>

void lipsc_slope_defaults(lipsc_slope_settings *set) {
    *set = (lipsc_slope_settings){.restarts = 8, .step = 1e-4, .measured = 1000, .seed = 1};
}

static lipsc_status check_settings(const lipsc_slope_settings *set, lipsc_error *err) {
    if (!(set->tol >= 0.0) || !(set->radius >= 0.0) || !isfinite(set->radius) ||
        !(set->step >= 0.0 && set->step < 1.0) || set->restarts > 1000)
        return lipsc_fail(err, LIPSC_E_ARG, "a setting is out of range");
    return LIPSC_OK;
}

static size_t largest(size_t count, const double *x) {
    size_t top = 0;
    for (size_t i = 1; i < count; i++)
        if (x[i] > x[top]) top = i;
    return top;
}

/* ---- Moving ------------------------------------------------------------------------- */

/* direction (n, d) with sum a_i |h_i|^2 = 1, from the unit vector v = sqrt(a) h. */
static lipsc_status find_move(const lipsc_acting *acting, const lipsc_atom_field *field,
                              const lipsc_slope_settings *set, lipsc_slopes *s,
                              lipsc_error *err) {
    const lipsc_input input = lipsc_atom_field_input(field);
    lipsc_svd_settings solve;
    lipsc_svd_info info;
    lipsc_attn *attn;
    lipsc_status status = lipsc_attn_at(acting->whole, &field->layer.mask, &input,
                                        LIPSC_F64, set->device, &attn, err);
    if (status) return status;
    lipsc_svd_defaults(&solve);
    solve.tol = set->tol;
    solve.seed = set->seed;
    solve.stop = set->stop;
    solve.ctx = set->ctx;
    status = lipsc_attn_sigma(attn, &solve, &s->move, NULL, s->direction, &info);
    lipsc_attn_free(attn);
    if (status && status != LIPSC_E_NOCONV) return status;
    s->move_residual = info.residual;
    double most = -1.0, mass = 0.0;
    for (size_t i = 0; i < s->n; i++) mass += input.weights[i];
    for (size_t i = 0; i < s->n; i++) {
        double part = 0.0;
        for (size_t c = 0; c < s->d; c++) {
            part += s->direction[i * s->d + c] * s->direction[i * s->d + c];
            s->direction[i * s->d + c] /= sqrt(input.weights[i] / mass);
        }
        if (part > most) s->move_atom = i;
        most = lipsc_max(most, part);
    }
    return status;
}

/* The causal sequence with every token twice, one after the other. */
static lipsc_status find_duplicate(const lipsc_acting *acting,
                                   const lipsc_atom_field *field,
                                   const lipsc_slope_settings *set, double *sigma,
                                   lipsc_error *err) {
    const lipsc_measure *mu = &field->atoms.measure;
    const size_t n = mu->n, d = mu->d;
    const lipsc_mask causal = LIPSC_MASK_CAUSAL;
    double *X = lipsc_alloc(n, 2 * (d + 1) * sizeof *X),
           *weights = X ? X + 2 * n * d : NULL;
    if (!X) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu atoms", 2 * n);
    for (size_t i = 0; i < 2 * n; i++) {
        memcpy(X + i * d, mu->points + i / 2 * d, d * sizeof *X);
        weights[i] = 0.5 * mu->weights[i / 2];
    }
    const lipsc_input input = {.n = 2 * n, .X = X, .weights = weights};
    lipsc_svd_settings solve;
    lipsc_svd_defaults(&solve);
    solve.tol = set->tol;
    solve.stop = set->stop;
    solve.ctx = set->ctx;
    lipsc_attn *attn;
    lipsc_status status =
        lipsc_attn_at(acting->whole, &causal, &input, LIPSC_F64, set->device, &attn, err);
    if (!status) {
        status = lipsc_attn_sigma(attn, &solve, sigma, NULL, NULL, NULL);
        lipsc_attn_free(attn);
    }
    lipsc_release(X);
    return status;
}

/* ---- Splitting and teleporting ------------------------------------------------------ */

static lipsc_status find_parts(lipsc_packed *paths, const lipsc_atom_field *field,
                               const lipsc_slope_settings *set, double tol, lipsc_slopes *s,
                               lipsc_error *err) {
    const lipsc_input input = lipsc_atom_field_input(field);
    lipsc_attn *attn = NULL;
    lipsc_teleport far = {.target = s->target};
    double *norm = lipsc_alloc(s->n, sizeof *norm);
    double *direction = lipsc_alloc(s->n, s->d * sizeof *direction);
    lipsc_status status = norm && direction ? LIPSC_OK : LIPSC_E_NOMEM, outcome = LIPSC_OK;
    if (!status)
        status =
            lipsc_paths_at(paths, field->layer.mask, &input, NULL, set->device, &attn, err);
    if (!status) {
        outcome = lipsc_halves_find(attn, tol, set->seed, set->stop, set->ctx, norm,
                                    direction, &s->halves_residual);
        status = outcome == LIPSC_E_NOCONV ? LIPSC_OK : outcome;
    }
    lipsc_attn_free(attn);
    if (!status) {
        s->split_atom = largest(s->n, norm);
        s->halves = norm[s->split_atom];
        memcpy(s->half, direction + s->split_atom * s->d, s->d * sizeof *s->half);
        status = lipsc_teleport_find(field, paths, set, norm, direction, &far, err);
    }
    if (!status) {
        const int found = far.slope > s->halves;
        s->teleport = found ? far.slope : s->halves;
        s->teleport_atom = found ? far.atom : s->split_atom;
        if (!found)
            memcpy(s->target, input.X + s->split_atom * s->d, s->d * sizeof *s->target);
        status = lipsc_teleport_cover(field, &s->teleport_cover);
    }
    lipsc_release(norm);
    lipsc_release(direction);
    return status ? status : outcome;
}

/* ---- Finite perturbations ----------------------------------------------------------- */

static lipsc_status measure(const lipsc_atom_field *field, const lipsc_device *device,
                            const lipsc_slopes *s, lipsc_perturbation kind, double step,
                            double *ratio, lipsc_error *err) {
    lipsc_cloud near;
    lipsc_ratio found;
    const lipsc_measure *mu = &field->atoms.measure;
    lipsc_status status = lipsc_slopes_perturb(s, mu, kind, step, &near, err);
    if (status) return status;
    status =
        lipsc_ratio_between(&field->layer, mu, &near.measure, NULL, device, &found, err);
    lipsc_cloud_free(&near);
    if (!status) *ratio = found.ratio;
    return status == LIPSC_E_REFUSED ? LIPSC_OK : status; /* the step was rounded away */
}

/* Where others look at the target much more than at anything else, even a small part of an
 * atom changes what they see: the part is made smaller until the ratio stands still, at
 * most so much that rounding stays far away. */
static lipsc_status measure_far(const lipsc_atom_field *field,
                                const lipsc_slope_settings *set, lipsc_slopes *s,
                                lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    double last = 0.0, step = set->step;
    for (int k = 0; k < 4 && !status; k++, step *= 0.1) {
        status = measure(field, set->device, s, LIPSC_PERTURB_TELEPORT, step,
                         &s->teleport_measured, err);
        if (fabs(s->teleport_measured - last) <= 1e-4 * last) break;
        last = s->teleport_measured;
    }
    return status;
}

static lipsc_status measure_all(const lipsc_atom_field *field,
                                const lipsc_slope_settings *set, lipsc_slopes *s,
                                lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    const int far = s->teleport > s->halves;
    if (set->step == 0.0 || s->n > set->measured) return LIPSC_OK;
    if (s->move > 0.0)
        status = measure(field, set->device, s, LIPSC_PERTURB_MOVE, set->step,
                         &s->move_measured, err);
    if (!status)
        status = measure(field, set->device, s, LIPSC_PERTURB_SPLIT, set->step,
                         &s->halves_measured, err);
    if (!status && far) status = measure_far(field, set, s, err);
    s->split_measured = s->move >= s->halves ? s->move_measured : s->halves_measured;
    if (!far) s->teleport_measured = s->halves_measured;
    return status;
}

/* ---- Together ----------------------------------------------------------------------- */

static lipsc_status slopes_new(size_t n, size_t d, lipsc_slopes *s) {
    *s = (lipsc_slopes){.n = n, .d = d, .duplicate = NAN, .teleport_cover = NAN};
    s->move_measured = s->halves_measured = s->split_measured = s->teleport_measured = NAN;
    s->direction = lipsc_alloc(n, d * sizeof *s->direction);
    s->half = lipsc_alloc_zero(d, sizeof *s->half);
    s->target = lipsc_alloc_zero(d, sizeof *s->target);
    return s->direction && s->half && s->target ? LIPSC_OK : LIPSC_E_NOMEM;
}

void lipsc_slopes_free(lipsc_slopes *slopes) {
    if (!slopes) return;
    lipsc_release(slopes->direction);
    lipsc_release(slopes->half);
    lipsc_release(slopes->target);
    *slopes = (lipsc_slopes){0};
}

/* From the different atoms to the given ones. */
static lipsc_status hand_over(const lipsc_atom_field *field, size_t n, lipsc_slopes *s) {
    double *direction = lipsc_alloc(n, s->d * sizeof *direction);
    if (!direction) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        memcpy(direction + i * s->d, s->direction + field->place[i] * s->d,
               s->d * sizeof *direction);
    lipsc_release(s->direction);
    s->direction = direction;
    s->atoms = s->n;
    s->n = n;
    s->move_atom = field->first[s->move_atom];
    s->split_atom = field->first[s->split_atom];
    s->teleport_atom = field->first[s->teleport_atom];
    return LIPSC_OK;
}

static lipsc_status find(const lipsc_acting *acting, const lipsc_atom_field *field,
                         const lipsc_slope_settings *asked, lipsc_slopes *s,
                         lipsc_error *err) {
    lipsc_slope_settings used = *asked;
    const lipsc_slope_settings *set = &used;
    const double tol = set->tol > 0.0 ? set->tol : 1e-8;
    used.device = lipsc_atom_field_device(field, asked->device);
    s->masked = field->layer.mask == LIPSC_MASK_TIMES;
    const lipsc_status moved = find_move(acting, field, set, s, err);
    if (moved && moved != LIPSC_E_NOCONV) return moved;
    const lipsc_status parted = find_parts(acting->paths, field, set, tol, s, err);
    if (parted && parted != LIPSC_E_NOCONV) return parted;
    lipsc_status status = LIPSC_OK, doubled = LIPSC_OK;
    s->split = lipsc_max(s->move, s->halves);
    if (field->sequence) {
        doubled = find_duplicate(acting, field, set, &s->duplicate, err);
        status = doubled == LIPSC_E_NOCONV ? LIPSC_OK : doubled;
    }
    if (!status) status = measure_all(field, set, s, err);
    s->converged = !moved && !parted && !doubled;
    return status ? status : s->converged ? LIPSC_OK : LIPSC_E_NOCONV;
}

lipsc_status lipsc_slopes_with(const lipsc_acting *acting, const lipsc_layer *layer,
                               const lipsc_measure *mu, const lipsc_slope_settings *set,
                               lipsc_slopes *out, lipsc_error *err) {
    const double started = lipsc_seconds();
    lipsc_slopes s;
    lipsc_atom_field field;
    lipsc_status status = check_settings(set, err);
    if (!status) status = lipsc_atom_field_new(layer, mu, &field, err);
    if (status) return status;
    status = slopes_new(field.atoms.measure.n, mu->d, &s);
    if (!status) status = find(acting, &field, set, &s, err);
    if (!status || status == LIPSC_E_NOCONV) {
        const lipsc_status given = hand_over(&field, mu->n, &s);
        if (given) status = given;
    }
    lipsc_atom_field_free(&field);
    s.seconds = lipsc_seconds() - started;
    if (!status || status == LIPSC_E_NOCONV)
        *out = s;
    else
        lipsc_slopes_free(&s);
    return status;
}

lipsc_status lipsc_slopes_find(const lipsc_layer *layer, const lipsc_measure *mu,
                               const lipsc_slope_settings *set, lipsc_slopes *out,
                               lipsc_error *err) {
    lipsc_slope_settings usual;
    lipsc_layer resolved;
    lipsc_acting acting = {NULL, NULL};
    lipsc_slope_defaults(&usual);
    if (err) *err = (lipsc_error){0};
    lipsc_status status = lipsc_measure_check(mu, "given", err);
    if (!status) status = lipsc_layer_check(layer, &resolved, err);
    if (!status) status = lipsc_acting_new(&resolved, &acting, err);
    if (!status)
        status = lipsc_slopes_with(&acting, &resolved, mu, set ? set : &usual, out, err);
    lipsc_acting_free(&acting);
    if (!status || status == LIPSC_E_NOCONV || (err && err->code)) return status;
    return lipsc_fail(err, status, "the local constants were not found: %s",
                      lipsc_strerror(status));
}

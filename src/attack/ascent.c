/* ascent.c - a climb: projected ascent of log sigma.
 *
 * First a quasi-Newton direction H g is tried (curvature.c); where that gains nothing, the
 * gradient g with the step of Barzilai and Borwein, <s,s> / |<s,dg>| with s and dg what the
 * last iteration changed, longer where the function curves upwards along s.  The new point,
 * projected to the domain, is taken when it gains at least `armijo` <g, change>; otherwise
 * the step shrinks.  Values are lower bounds |J v| of sigma, so whatever is taken is a true
 * gain.
 *
 * sigma is a maximum of branches, which meet where singular values agree.  That never ends
 * an ascent by itself (on both sides of such a place it is the larger branch that counts),
 * but the branch followed may be level where another is steep: before a climb ends, the
 * pairs are computed afresh and the steepest combination and every branch near the top are
 * tried. */
#include <math.h>
#include <string.h>

#include "attack/search.h"
#include "core/extreme.h"
#include "core/mem.h"

static const double armijo = 1e-4;
static const double first_move = 0.05; /* of the token that moves most, radius 1 */
static const double shrink = 0.25;
enum { TRIALS = 8 };

lipsc_status lipsc_climb_new(const lipsc_search *s, lipsc_climb *climb) {
    memset(climb, 0, sizeof *climb);
    climb->g = lipsc_alloc(s->region.size, sizeof *climb->g);
    const lipsc_status status = lipsc_spot_new(s, &climb->spot);
    return climb->g ? status : LIPSC_E_NOMEM;
}

void lipsc_climb_free(lipsc_climb *climb) {
    lipsc_spot_free(&climb->spot);
    lipsc_release(climb->g);
    climb->g = NULL;
}

/* How far the fastest token moves with step 1. */
static double fastest(const lipsc_search *s, const double *g) {
    const size_t n = s->region.n, d = s->region.d;
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double square = 0.0;
        for (size_t c = 0; c < d; c++) square += g[i * d + c] * g[i * d + c];
        largest = lipsc_max(largest, square);
    }
    for (size_t e = n * d; e < s->region.size; e++)
        largest = lipsc_max(largest, g[e] * g[e]);
    return sqrt(largest);
}

static double cautious_step(const lipsc_search *s, const double *g) {
    const double speed = fastest(s, g);
    return speed > 0.0 ? first_move / speed : 0.0;
}

/* The climb goes to s->to, whose gradient is s->g. */
static void accept(lipsc_search *s, lipsc_climb *c, double sigma) {
    double ss = 0.0, sg = 0.0, gg = 0.0;
    for (size_t e = 0; e < s->region.size; e++) {
        const double move = s->to[e] - c->spot.y[e];
        ss += move * move;
        sg += move * (s->g[e] - c->g[e]);
        gg += c->g[e] * c->g[e];
    }
    const double made = sqrt(ss / gg); /* the step along g that goes as far */
    c->step = sg < 0.0 ? lipsc_min(ss / -sg, 10.0 * made) : 3.0 * made;
    lipsc_curvature_add(&s->memory, c->spot.y, s->to, c->g, s->g);
    memcpy(c->spot.y, s->to, s->region.size * sizeof *s->to);
    memcpy(c->g, s->g, s->region.size * sizeof *s->g);
    memcpy(c->spot.v, s->v, s->in * sizeof *s->v);
    c->spot.sigma = sigma;
    lipsc_search_keep(s, &c->spot);
}

/* Follows p from the climb's spot, where the gradient is g; *taken tells whether a step was
 * found. */
static lipsc_status line_search(lipsc_search *s, lipsc_climb *c, const double *g,
                                const double *p, double step, int trials, int *taken) {
    const double here = log(c->spot.sigma);
    *taken = 0;
    for (int trial = 0; trial < trials && !*taken; trial++, step *= shrink) {
        double promise = 0.0;
        lipsc_view view;
        if (lipsc_search_stopped(s)) return LIPSC_E_STOPPED;
        lipsc_region_move(&s->region, c->spot.y, step, p, s->to);
        for (size_t e = 0; e < s->region.size; e++)
            promise += g[e] * (s->to[e] - c->spot.y[e]);
        if (!(promise > 0.0)) continue;
        lipsc_status status = lipsc_view_open(s, s->to, LIPSC_LOOK_NEAR, c->spot.v, &view);
        if (status == LIPSC_E_NONFIN) continue; /* too far */
        if (status) return status;
        const double gain = log(view.sigma[0]) - here;
        if (gain > lipsc_max(armijo * promise, s->least_gain)) {
            status = lipsc_view_gradient(s, &view, s->to, s->g);
            if (!status) {
                accept(s, c, view.sigma[0]);
                *taken = 1;
            } else if (status != LIPSC_E_NONFIN) {
                lipsc_view_close(&view);
                return status;
            }
        }
        lipsc_view_close(&view);
        lipsc_search_tell(s);
    }
    return LIPSC_OK;
}

/* Pairs computed afresh at the spot: the value may rise, the gradient may turn.  First the
 * steepest combination, then each branch near the top. */
static lipsc_status look_around(lipsc_search *s, lipsc_climb *c, int *taken) {
    enum { BRANCHES = LIPSC_PAIRS };
    const double near_top = 0.95;
    lipsc_view view;
    *taken = 0;
    lipsc_curvature_forget(&s->memory);
    lipsc_status status = lipsc_view_open(s, c->spot.y, LIPSC_LOOK_PAIRS, NULL, &view);
    if (status) return status;
    const size_t size = s->region.size;
    double *branch = lipsc_alloc(BRANCHES + 1, size * sizeof *branch);
    double *v = lipsc_alloc(BRANCHES, s->in * sizeof *v);
    size_t count = 0;
    if (!branch || !v) status = LIPSC_E_NOMEM;
    if (!status && view.sigma[0] > c->spot.sigma) {
        c->spot.sigma = view.sigma[0];
        memcpy(c->spot.v, s->v, s->in * sizeof *s->v);
        lipsc_search_keep(s, &c->spot);
    }
    if (!status) memcpy(v, s->v, view.pairs * s->in * sizeof *v);
    if (!status) status = lipsc_view_gradient(s, &view, c->spot.y, branch);
    if (!status) memcpy(c->g, branch, size * sizeof *branch);
    for (; !status && count < view.pairs && view.sigma[count] > near_top * view.sigma[0];
         count++)
        status = lipsc_view_branch(s, &view, c->spot.y, count, branch + (count + 1) * size);
    lipsc_view_close(&view);
    for (size_t b = 0; !status && !*taken && b <= count; b++) {
        const double *g = branch + b * size;
        if (b > 0) memcpy(c->spot.v, v + (b - 1) * s->in, s->in * sizeof *v);
        status = line_search(s, c, g, g, cautious_step(s, g), TRIALS, taken);
    }
    if (!status && !*taken) memcpy(c->spot.v, v, s->in * sizeof *v);
    lipsc_release(branch);
    lipsc_release(v);
    return status;
}

static lipsc_status begin(lipsc_search *s, lipsc_climb *c) {
    lipsc_view view;
    lipsc_status status = lipsc_view_open(s, c->spot.y, LIPSC_LOOK_FRESH, NULL, &view);
    if (status) return status;
    c->spot.sigma = view.sigma[0];
    memcpy(c->spot.v, s->v, s->in * sizeof *s->v);
    lipsc_search_keep(s, &c->spot);
    if (c->spot.sigma > 0.0)
        status = lipsc_view_gradient(s, &view, c->spot.y, c->g);
    else
        c->finished = 1; /* V = 0 or the like: nowhere to go */
    lipsc_view_close(&view);
    c->begun = 1;
    c->step = cautious_step(s, c->g);
    c->mark = log(c->spot.sigma);
    return status;
}

/* One step upwards by the best means that works. */
static lipsc_status step_up(lipsc_search *s, lipsc_climb *c, int *taken) {
    enum { QUICK_TRIALS = 7 };
    const double far = 0.5; /* no token moves further than half a radius at once */
    lipsc_status status = LIPSC_OK;
    *taken = 0;
    if (lipsc_curvature_direction(&s->memory, c->g, s->p)) {
        const double speed = fastest(s, s->p);
        status = line_search(s, c, c->g, s->p, speed > far ? far / speed : 1.0,
                             QUICK_TRIALS, taken);
        if (!*taken) lipsc_curvature_forget(&s->memory);
    }
    if (!status && !*taken) status = line_search(s, c, c->g, c->g, c->step, TRIALS, taken);
    if (!status && !*taken) status = look_around(s, c, taken);
    return status;
}

lipsc_status lipsc_climb_advance(lipsc_search *s, lipsc_climb *c, size_t iterations) {
    /* a climb that gains less than this in so many iterations has arrived */
    enum { WINDOW = 20 };
    const double arrived = lipsc_max(1e-6, 20.0 * s->least_gain);
    lipsc_status status = c->begun ? LIPSC_OK : begin(s, c);
    if (status == LIPSC_E_NONFIN) {
        c->finished = 1;
        return LIPSC_OK;
    }
    lipsc_curvature_forget(&s->memory);
    while (!status && !c->finished && c->iterations < iterations) {
        int taken;
        status = step_up(s, c, &taken);
        if (status) break;
        c->iterations++;
        s->current++;
        if (!taken) c->finished = 1;
        if (c->iterations - c->marked < WINDOW) continue;
        const double now = log(c->spot.sigma);
        if (now - c->mark < arrived) c->finished = 1;
        c->mark = now;
        c->marked = c->iterations;
    }
    if (status == LIPSC_E_NONFIN) {
        c->finished = 1;
        status = LIPSC_OK;
    }
    return status;
}

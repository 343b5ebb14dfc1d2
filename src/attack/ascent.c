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
 * tried.
 *
 * A walk is a climb that waits for one input at a time to be looked at (climbs.c). */
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
    climb->g = lipsc_alloc_zero(s->region.size, sizeof *climb->g);
    const lipsc_status status = lipsc_spot_new(s, &climb->spot);
    return climb->g ? status : LIPSC_E_NOMEM;
}

void lipsc_climb_free(lipsc_climb *climb) {
    lipsc_spot_free(&climb->spot);
    lipsc_release(climb->g);
    climb->g = NULL;
}

lipsc_status lipsc_walk_new(const lipsc_search *s, lipsc_view *view, lipsc_walk *walk) {
    const size_t size = s->region.size;
    *walk = (lipsc_walk){.view = view};
    walk->to = lipsc_alloc(3, size * sizeof *walk->to);
    walk->p = walk->to ? walk->to + size : NULL;
    walk->g = walk->to ? walk->p + size : NULL;
    walk->branch_g = lipsc_alloc(LIPSC_PAIRS + 1, size * sizeof *walk->branch_g);
    walk->branch_v = lipsc_alloc(LIPSC_PAIRS, s->in * sizeof *walk->branch_v);
    const lipsc_status status = lipsc_curvature_new(size, &walk->memory);
    return walk->to && walk->branch_g && walk->branch_v ? status : LIPSC_E_NOMEM;
}

void lipsc_walk_free(lipsc_walk *walk) {
    lipsc_release(walk->to);
    lipsc_release(walk->branch_g);
    lipsc_release(walk->branch_v);
    lipsc_curvature_free(&walk->memory);
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

/* ---- Steps --------------------------------------------------------------------------- */

/* Waits for a look; its random numbers are those of the climb alone. */
static void ask(lipsc_walk *w, lipsc_look look, const double *y) {
    const uint64_t apart = 0x9E3779B97F4A7C15u; /* odd and far from any small number */
    lipsc_climb *c = w->climb;
    w->view->look = look;
    w->view->y = y;
    w->view->near = c->spot.v;
    w->view->seed = (c->number + 1) * apart + c->looks++;
    w->waits = 1;
}

static void begin_line(lipsc_walk *w, lipsc_walk_stage stage, const double *up,
                       const double *line, double step, int trials) {
    w->stage = stage;
    w->up = up;
    w->line = line;
    w->step = step;
    w->trials = trials;
}

/* The next trial, which is left out where the gradient promises nothing. */
static void try_next(const lipsc_search *s, lipsc_walk *w) {
    const double *here = w->climb->spot.y;
    lipsc_region_move(&s->region, here, w->step, w->line, w->to);
    w->promise = 0.0;
    for (size_t e = 0; e < s->region.size; e++)
        w->promise += w->up[e] * (w->to[e] - here[e]);
    w->step *= shrink;
    w->trials--;
    if (w->promise > 0.0) ask(w, LIPSC_LOOK_NEAR, w->to);
}

static void end(lipsc_search *s, lipsc_walk *w) {
    if (w->until > w->climb->iterations) s->passed += w->until - w->climb->iterations;
    w->climb = NULL;
    w->waits = 0;
}

/* One iteration is over. */
static void end_iteration(lipsc_search *s, lipsc_walk *w, int taken) {
    /* a climb that gains less than this in so many iterations has arrived */
    enum { WINDOW = 20 };
    const double arrived = lipsc_max(1e-6, 20.0 * s->least_gain);
    lipsc_climb *c = w->climb;
    w->stage = LIPSC_WALK_NEW;
    w->trials = 0;
    c->iterations++;
    s->passed++;
    if (!taken) c->finished = 1;
    if (c->iterations - c->marked >= WINDOW) {
        const double now = log(c->spot.sigma);
        if (now - c->mark < arrived) c->finished = 1;
        c->mark = now;
        c->marked = c->iterations;
    }
    if (c->finished || c->iterations >= w->until) end(s, w);
}

static void begin_iteration(const lipsc_search *s, lipsc_walk *w) {
    enum { QUICK_TRIALS = 7 };
    const double far = 0.5; /* no token moves further than half a radius at once */
    lipsc_climb *c = w->climb;
    if (lipsc_curvature_direction(&w->memory, c->g, w->p)) {
        const double speed = fastest(s, w->p);
        begin_line(w, LIPSC_WALK_QUICK, c->g, w->p, speed > far ? far / speed : 1.0,
                   QUICK_TRIALS);
    } else {
        begin_line(w, LIPSC_WALK_STEEP, c->g, c->g, c->step, TRIALS);
    }
}

/* First the steepest combination, then each branch near the top. */
static void next_branch(lipsc_search *s, lipsc_walk *w) {
    lipsc_climb *c = w->climb;
    const size_t b = w->branch++;
    const double *g = w->branch_g + b * s->region.size;
    const double *v = w->branch_v + (b && b <= w->branches ? b - 1 : 0) * s->in;
    memcpy(c->spot.v, v, s->in * sizeof *v);
    if (b > w->branches)
        end_iteration(s, w, 0);
    else
        begin_line(w, LIPSC_WALK_BRANCH, g, g, cautious_step(s, g), TRIALS);
}

/* The line has brought nothing, or there is none yet: the next means. */
static void other_means(lipsc_search *s, lipsc_walk *w) {
    lipsc_climb *c = w->climb;
    switch (w->stage) {
    case LIPSC_WALK_NEW:
        begin_iteration(s, w);
        break;
    case LIPSC_WALK_QUICK:
        lipsc_curvature_forget(&w->memory);
        begin_line(w, LIPSC_WALK_STEEP, c->g, c->g, c->step, TRIALS);
        break;
    case LIPSC_WALK_STEEP: /* pairs computed afresh: the gradient may turn */
        lipsc_curvature_forget(&w->memory);
        w->stage = LIPSC_WALK_AROUND;
        ask(w, LIPSC_LOOK_PAIRS, c->spot.y);
        break;
    default:
        next_branch(s, w);
    }
}

/* Until it waits for something or is over. */
static void go_on(lipsc_search *s, lipsc_walk *w) {
    while (w->climb && !w->waits)
        if (w->trials > 0)
            try_next(s, w);
        else
            other_means(s, w);
}

void lipsc_walk_begin(lipsc_search *s, lipsc_walk *w, lipsc_climb *climb, size_t until) {
    w->climb = climb;
    w->until = until;
    w->waits = 0;
    lipsc_curvature_forget(&w->memory);
    w->stage = LIPSC_WALK_NEW;
    w->trials = 0;
    if (climb->finished || (climb->begun && climb->iterations >= until))
        end(s, w);
    else if (!climb->begun)
        ask(w, LIPSC_LOOK_FRESH, climb->spot.y);
    else
        go_on(s, w);
}

/* ---- What was seen ------------------------------------------------------------------ */

/* Nowhere to go. */
static void give_up(lipsc_search *s, lipsc_walk *w) {
    w->climb->finished = 1;
    end(s, w);
}

static void rise(lipsc_search *s, lipsc_climb *c, const lipsc_view *view) {
    c->spot.sigma = view->sigma[0];
    memcpy(c->spot.v, view->v, s->in * sizeof *view->v);
    if (!s->tempered) s->highest = lipsc_max(s->highest, c->spot.sigma);
}

static void seen_first(lipsc_search *s, lipsc_walk *w) {
    rise(s, w->climb, w->view);
    w->climb->begun = 1;
    w->climb->mark = log(w->climb->spot.sigma);
    if (w->climb->spot.sigma > 0.0)
        w->view->slopes = 1;
    else
        give_up(s, w); /* V = 0 or the like */
}

static void seen_around(lipsc_search *s, lipsc_walk *w) {
    const double near_top = 0.95;
    const lipsc_view *view = w->view;
    if (view->sigma[0] > w->climb->spot.sigma) rise(s, w->climb, view);
    memcpy(w->branch_v, view->v, view->pairs * s->in * sizeof *view->v);
    w->branches = 0;
    while (w->branches < view->pairs &&
           view->sigma[w->branches] > near_top * view->sigma[0])
        w->branches++;
    w->view->slopes = w->branches;
}

static void seen_trial(lipsc_search *s, lipsc_walk *w) {
    const double gain = log(w->view->sigma[0]) - log(w->climb->spot.sigma);
    w->view->slopes = gain > lipsc_max(armijo * w->promise, s->least_gain);
}

void lipsc_walk_seen(lipsc_search *s, lipsc_walk *w) {
    const int trial = w->view->y == w->to;
    w->waits = 0;
    if (w->view->status && !trial)
        give_up(s, w);
    else if (w->view->status)
        w->view->slopes = 0; /* too far */
    else if (trial)
        seen_trial(s, w);
    else if (w->stage == LIPSC_WALK_AROUND)
        seen_around(s, w);
    else
        seen_first(s, w);
    if (w->climb && !w->view->slopes) go_on(s, w);
}

/* The climb goes to w->to, whose gradient is w->g. */
static void accept(lipsc_search *s, lipsc_walk *w) {
    lipsc_climb *c = w->climb;
    double ss = 0.0, sg = 0.0, gg = 0.0;
    for (size_t e = 0; e < s->region.size; e++) {
        const double move = w->to[e] - c->spot.y[e];
        ss += move * move;
        sg += move * (w->g[e] - c->g[e]);
        gg += c->g[e] * c->g[e];
    }
    const double made = sqrt(ss / gg); /* the step along g that goes as far */
    c->step = sg < 0.0 ? lipsc_min(ss / -sg, 10.0 * made) : 3.0 * made;
    lipsc_curvature_add(&w->memory, c->spot.y, w->to, c->g, w->g);
    memcpy(c->spot.y, w->to, s->region.size * sizeof *w->to);
    memcpy(c->g, w->g, s->region.size * sizeof *w->g);
    rise(s, c, w->view);
    end_iteration(s, w, 1);
}

/* The combination of all pairs is the climb's gradient from here on. */
static void turn_around(const lipsc_search *s, lipsc_walk *w) {
    const size_t size = s->region.size;
    lipsc_view_gradient(s, w->view, w->branch_g);
    memcpy(w->climb->g, w->branch_g, size * sizeof *w->branch_g);
    for (size_t b = 0; b < w->branches; b++)
        lipsc_view_branch(s, w->view, b, w->branch_g + (b + 1) * size);
    w->branch = 0;
    w->stage = LIPSC_WALK_BRANCH;
}

void lipsc_walk_differentiated(lipsc_search *s, lipsc_walk *w) {
    lipsc_climb *c = w->climb;
    if (w->view->y == w->to) {
        if (!w->view->status) {
            lipsc_view_gradient(s, w->view, w->g);
            accept(s, w);
        }
    } else if (w->view->status) {
        give_up(s, w);
    } else if (w->stage == LIPSC_WALK_AROUND) {
        turn_around(s, w);
    } else {
        lipsc_view_gradient(s, w->view, c->g);
        c->step = cautious_step(s, c->g);
    }
    if (w->climb) go_on(s, w);
}

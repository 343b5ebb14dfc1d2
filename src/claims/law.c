/* law.c - growth laws against what the paper draws.  A verdict needs the paper's
 * own model, a given text and an interval; no sentence is stronger than its interval. */
#include "claims/law.h"

#include <math.h>
#include <stdio.h>

#include "core/extreme.h"

/* ---- What keeps a verdict away ------------------------------------------------------- */

enum { REASON = 96 };

/* Why a law has no interval; NULL where it has one. */
static const char *no_interval(const lipsc_fit *f, char room[REASON]) {
    if (!isnan(f->low)) return NULL;
    if (f->starts >= LIPSC_FIT_STARTS) return "no interval could be computed";
    snprintf(room, REASON, "windows with %zu starts, an interval needs %d", f->starts,
             LIPSC_FIT_STARTS);
    return room;
}

/* Why an exponent is not held against the paper's, or NULL. */
static const char *unmet(const claims_work *r, const claims_curve *c, const lipsc_fit *f,
                         char room[REASON]) {
    if (!c->own) return "not the paper's model";
    if (!r->set->texts.count) return "the built-in text, not the paper's";
    return no_interval(f, room);
}

/* How far an exponent lies outside the interval; 0 inside. */
static double outside(const lipsc_fit *f, double exponent) {
    return isnan(f->low) ? 0.0
                         : lipsc_max(0.0, lipsc_max(f->low - exponent, exponent - f->high));
}

/* ---- Words -------------------------------------------------------------------------- */

static void describe_law(const claims_drawn *drawn, const char *for_whom, char *text,
                         size_t room) {
    if (drawn->coefficient > 0.0)
        snprintf(text, room, "%.3g n^%.2f drawn (%s)", drawn->coefficient, drawn->exponent,
                 for_whom);
    else
        snprintf(text, room, "about n^(1/4) on real text; no law drawn for this");
}

/* A LayerNorm of gain 1 and bias 0 gives f orthogonal to all that its derivative gives:
 * J^T f = 0 but for its epsilon. */
static int vanishes(const lipsc_fit *defined, const lipsc_fit *released) {
    return released->coefficient < 1e-3 * defined->coefficient;
}

/* For two decimals: no -0.00. */
static double tidy(double x) { return fabs(x) < 0.005 ? 0.0 : x; }

/* What follows, in plain words that are no stronger than the intervals. */
static const char *meaning(const lipsc_fit *defined, const lipsc_fit *released) {
    if (isnan(defined->exponent) || isnan(released->exponent))
        return "Too few lengths for a law.";
    if (vanishes(defined, released))
        return "The released value is zero but for the epsilon of the norm: f(X) is the "
               "output "
               "of a LayerNorm with gain 1 and bias 0, which J^T sends to zero. It says "
               "nothing "
               "about the constant.";
    if (isnan(defined->low) || isnan(released->low))
        return "Too few starts for intervals: nothing follows.";
    if (defined->low <= released->high && released->low <= defined->high)
        return "The intervals meet: no difference of growth is shown.";
    if (released->low > defined->high)
        return defined->high < 0.1
                   ? "The constant itself hardly depends on the length here; the growth "
                     "that the scripts show comes from |f(X)|, not from the Jacobian."
                   : "The released value grows faster than the constant itself.";
    return "The constant itself grows faster than the released value.";
}

/* " [0.41, 0.47]", and whether it is a law at all. */
static const char *interval(const lipsc_fit *f, int digits, char room[48]) {
    const char *bent = f->law ? "" : ", no power law";
    if (isnan(f->low))
        snprintf(room, 48, " [no interval]%s", bent);
    else
        snprintf(room, 48, " [%.*f, %.*f]%s", digits, digits > 2 ? f->low : tidy(f->low),
                 digits, digits > 2 ? f->high : tidy(f->high), bent);
    return room;
}

/* A paragraph on both values of a layer. */
static void tell(const claims_curve *c, size_t layer, const claims_drawn *drawn,
                 const claims_laws *laws, char *text, size_t size) {
    char origin[80], room[3][48];
    const lipsc_fit *defined = &laws->defined, *released = &laws->released;
    describe_law(drawn, c->drawn_for, origin, sizeof origin);
    snprintf(text, size,
             "%s (%s), layer %zu, map %s. As defined, sigma ~ %.3g n^%.2f%s; as released, "
             "|J^T f|^(1/2) ~ %.3g n^%.2f%s; the paper: %s. The radius of the tokens goes "
             "like n^%.2f%s. %s",
             c->name, c->spec, layer, lipsc_map_name(c->map), defined->coefficient,
             tidy(defined->exponent), interval(defined, 2, room[0]), released->coefficient,
             tidy(released->exponent), interval(released, 2, room[1]), origin,
             tidy(laws->radius.exponent), interval(&laws->radius, 2, room[2]),
             meaning(defined, released));
}

/* ---- Lines -------------------------------------------------------------------------- */

/* The line of one value of a curve, with its interval against what is drawn. */
static void law_line(claims_work *r, const claims_curve *c, size_t layer,
                     const claims_drawn *drawn, const char *id, const lipsc_fit *f,
                     int vanishing, const char *says) {
    claims_line line = claims_line_of(id);
    char statement[160], origin[80], room[48], reason[REASON];
    describe_law(drawn, c->drawn_for, origin, sizeof origin);
    snprintf(line.name, sizeof line.name, "%s: %s, layer %zu", id, c->name, layer);
    snprintf(statement, sizeof statement, "%s, layer %zu: %s", c->name, layer,
             line.claim->statement);
    line.statement = statement;
    line.origin = origin;
    line.unmet = unmet(r, c, f, reason);
    if (!line.unmet && !(drawn->coefficient > 0.0))
        line.unmet = "the paper draws no law for it";
    if (!line.unmet && !f->law && outside(f, drawn->exponent) <= line.tolerance)
        line.unmet = "the slope fits, a straight line does not";
    line.says = says;
    if (vanishing)
        claims_leave(r, &line, "zero but for the epsilon of the norm: %.2g n^%.2f",
                     f->coefficient, f->exponent);
    else if (!f->lengths)
        claims_leave(r, &line, "fewer than three lengths");
    else
        claims_judge(r, &line, outside(f, drawn->exponent), "%.3g n^%.2f%s", f->coefficient,
                     tidy(f->exponent), interval(f, 2, room));
}

static void radius_line(claims_work *r, const claims_curve *c, size_t layer,
                        const lipsc_fit *radius, double correlated) {
    claims_line line = claims_line_of("radius");
    char statement[160], room[48], reason[REASON];
    snprintf(line.name, sizeof line.name, "radius: %s, layer %zu", c->name, layer);
    snprintf(statement, sizeof statement, "%s, layer %zu: %s", c->name, layer,
             line.claim->statement);
    line.statement = statement;
    line.unmet = unmet(r, c, radius, reason);
    if (!line.unmet && radius->low <= 0.0 && radius->high > 0.0)
        line.unmet = "the interval has room for growth and for none";
    if (radius->lengths)
        claims_judge(r, &line, isnan(radius->low) ? 0.0 : radius->low,
                     "R ~ n^%.3f%s; ln sigma and ln R correlate by %.2f", radius->exponent,
                     interval(radius, 3, room), correlated);
    else
        claims_leave(r, &line, "fewer than three lengths");
}

void claims_law_lines(claims_work *r, const claims_curve *c, size_t layer,
                      const claims_drawn *drawn, const claims_laws *laws, int with_radius) {
    char says[900];
    tell(c, layer, drawn, laws, says, sizeof says);
    law_line(r, c, layer, drawn, "growth-defined", &laws->defined, 0, says);
    law_line(r, c, layer, drawn, "growth-released", &laws->released,
             vanishes(&laws->defined, &laws->released), NULL);
    if (with_radius) radius_line(r, c, layer, &laws->radius, laws->correlated);
}

/* The gap between the intervals that lie farthest apart; at most 0 where all meet. */
void claims_texts_line(claims_work *r, size_t count, const lipsc_fit *fits) {
    claims_line line = claims_line_of("second-text");
    double low = -INFINITY, high = INFINITY, least = INFINITY, most = -INFINITY;
    char reason[REASON];
    const char *why = NULL;
    for (size_t t = 0; t < count; t++) {
        claims_raise(&low, fits[t].low);
        claims_lower(&high, fits[t].high);
        least = lipsc_min(least, fits[t].exponent);
        most = lipsc_max(most, fits[t].exponent);
        if (!why) why = no_interval(&fits[t], reason);
    }
    if (!claims_is_published(r, r->decoder, "gpt2"))
        line.unmet = "not the paper's model";
    else
        line.unmet = why;
    if (count < 2)
        claims_leave(r, &line, "give a second text");
    else
        claims_judge(r, &line, isnan(low) ? 0.0 : low - high,
                     "exponents of sigma from %.2f to %.2f; the intervals %s", tidy(least),
                     tidy(most),
                     isnan(low)    ? "are missing"
                     : low <= high ? "meet"
                                   : "do not meet");
}

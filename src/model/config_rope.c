/* config_rope.c - rotary positions: which components turn how fast, and the ways in which
 * longer texts are reached (linear, dynamic, llama3, yarn, longrope).
 *
 * transformers 5 writes everything into rope_parameters, one object or one per kind of
 * layers; transformers 4 wrote rope_theta, rope_scaling and fields of the family. */
#include "model/config_reader.h"

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* The objects that may say something of one kind of layers, the first says it last. */
typedef struct {
    lipsc_reader *r;
    const lipsc_config *c;
    json_t *object;   /* or NULL                             */
    const char *name; /* of the field it stands in           */
    int by_kind;      /* the object is that of one kind      */
    double theta;
    size_t dim;
} rope_source;

static double number_in(rope_source *s, const char *key, double otherwise) {
    json_t *value = json_object_get(s->object, key);
    if (!value || json_is_null(value)) return otherwise;
    const double number = json_number_value(value);
    if (!json_is_number(value) || !isfinite(number) || number <= 0)
        lipsc_read_wrong(s->r, "'%s' in field '%s' is not a positive number", key, s->name);
    return number;
}

static double needed_in(rope_source *s, const char *key) {
    const double number = number_in(s, key, 0);
    if (number == 0) lipsc_read_wrong(s->r, "'%s' is missing in field '%s'", key, s->name);
    return number;
}

/* The length that the model was trained for before it was stretched.  A field of the file
 * goes before the object of all layers, but not before that of one kind. */
static double trained_length(rope_source *s) {
    static const char key[] = "original_max_position_embeddings";
    const size_t own = lipsc_read_size_or(s->r, key, s->c->family->trained);
    double length = number_in(s, key, (double)s->c->positions);
    if (own && !s->by_kind) length = (double)own;
    if (!(length >= 1))
        lipsc_read_wrong(s->r, "field '%s' needs original_max_position_embeddings",
                         s->name);
    return length;
}

/* ---- The ways ----------------------------------------------------------------------- */

static void stretch_linear(rope_source *s, lipsc_rope *rope) {
    const double factor = needed_in(s, "factor");
    for (size_t l = 0; l < rope->dim / 2; l++) rope->freq[l] /= factor;
}

/* Up to max_position_embeddings, which no window exceeds, these are the plain angles. */
static void stretch_dynamic(rope_source *s, lipsc_rope *rope) {
    (void)rope;
    needed_in(s, "factor");
    if (!s->c->positions)
        lipsc_read_wrong(s->r, "field '%s' needs max_position_embeddings", s->name);
}

static void stretch_llama3(rope_source *s, lipsc_rope *rope) {
    const double factor = needed_in(s, "factor"), low = needed_in(s, "low_freq_factor");
    const double high = needed_in(s, "high_freq_factor"), length = trained_length(s);
    if (!s->r->status && !(high > low))
        lipsc_read_wrong(s->r,
                         "in field '%s' high_freq_factor is not above "
                         "low_freq_factor",
                         s->name);
    for (size_t l = 0; l < rope->dim / 2; l++) {
        const double turns = length * rope->freq[l] / (2 * pi); /* within that length */
        const double smooth = (turns - low) / (high - low);
        if (turns < low)
            rope->freq[l] /= factor;
        else if (turns <= high)
            rope->freq[l] *= (1 - smooth) / factor + smooth;
    }
}

static double yarn_scale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

/* The component that makes `turns` turns within the trained length. */
static double yarn_component(const rope_source *s, double length, double turns) {
    return (double)s->dim * log(length / (turns * 2 * pi)) / (2 * log(s->theta));
}

static void stretch_yarn(rope_source *s, lipsc_rope *rope) {
    const double length = trained_length(s);
    const double factor = number_in(s, "factor", (double)s->c->positions / length);
    const double mscale = number_in(s, "mscale", 0);
    const double mscale_all = number_in(s, "mscale_all_dim", 0);
    if (!s->r->status && !(factor > 0))
        lipsc_read_wrong(s->r, "'factor' is missing in field '%s'", s->name);
    const double usual = mscale > 0 && mscale_all > 0
                             ? yarn_scale(factor, mscale) / yarn_scale(factor, mscale_all)
                             : yarn_scale(factor, 1);
    rope->factor = number_in(s, "attention_factor", usual);
    double first = yarn_component(s, length, number_in(s, "beta_fast", 32));
    double last = yarn_component(s, length, number_in(s, "beta_slow", 1));
    if (!json_is_false(json_object_get(s->object, "truncate"))) {
        first = floor(first);
        last = ceil(last);
    }
    first = lipsc_max(first, 0);
    last = lipsc_min(last, (double)s->dim - 1);
    if (first == last) last += 0.001;
    for (size_t l = 0; l < rope->dim / 2; l++) {
        const double ramp =
            lipsc_min(lipsc_max(((double)l - first) / (last - first), 0), 1);
        rope->freq[l] *= ramp / factor + (1 - ramp);
    }
}

/* Each frequency by its entry of the list under that key. */
static void divide_by_list(rope_source *s, const char *key, lipsc_rope *rope) {
    json_t *list = json_object_get(s->object, key);
    if (!json_is_array(list) || json_array_size(list) != rope->dim / 2) {
        lipsc_read_wrong(s->r, "'%s' in field '%s' is not a list of %zu numbers", key,
                         s->name, rope->dim / 2);
        return;
    }
    for (size_t l = 0; l < rope->dim / 2; l++) {
        const double by = json_number_value(json_array_get(list, l));
        if (!(by > 0))
            lipsc_read_wrong(
                s->r, "'%s' in field '%s' has an entry that is not a positive number", key,
                s->name);
        rope->freq[l] /= by;
    }
}

/* Windows up to the trained length, which take the short factors; see lipsc_read_rope. */
static void stretch_longrope(rope_source *s, lipsc_rope *rope) {
    const double length = trained_length(s);
    const double factor = number_in(s, "factor", (double)s->c->positions / length);
    if (factor == 0 && number_in(s, "attention_factor", 0) == 0)
        lipsc_read_wrong(s->r, "field '%s' needs max_position_embeddings", s->name);
    rope->factor = number_in(s, "attention_factor",
                             factor <= 1 ? 1 : sqrt(1 + log(factor) / log(length)));
    divide_by_list(s, "short_factor", rope);
}

/* Frequencies are divided by the numbers of a list; nothing else changes (GGUF). */
static void stretch_factors(rope_source *s, lipsc_rope *rope) {
    divide_by_list(s, "factors", rope);
}

/* The way in which positions are stretched; NULL when the object does not name it. */
static const char *rope_type(const rope_source *s) {
    json_t *type = json_object_get(s->object, "rope_type");
    if (!type) type = json_object_get(s->object, "type");
    const char *name = json_string_value(type);
    if (!type && !json_object_get(s->object, "factor")) return "default";
    if (name && s->c->family->longrope && (!strcmp(name, "su") || !strcmp(name, "yarn")))
        return "longrope";
    return name;
}

static int is_longrope(const rope_source *s) {
    const char *type = rope_type(s);
    return type && !strcmp(type, "longrope");
}

static void stretch(rope_source *s, lipsc_rope *rope) {
    static const struct {
        const char *type;
        void (*apply)(rope_source *s, lipsc_rope *rope);
    } ways[] = {{"linear", stretch_linear},     {"dynamic", stretch_dynamic},
                {"llama3", stretch_llama3},     {"yarn", stretch_yarn},
                {"longrope", stretch_longrope}, {"factors", stretch_factors}};
    const char *name = rope_type(s);
    if (!s->object || (name && !strcmp(name, "default"))) return;
    const int allowed = !s->c->family->longrope || is_longrope(s);
    for (size_t w = 0; name && allowed && w < sizeof ways / sizeof ways[0]; w++)
        if (!strcmp(name, ways[w].type)) {
            ways[w].apply(s, rope);
            return;
        }
    lipsc_read_unsupported(s->r, s->name, s->object);
}

/* ---- One kind of layers ------------------------------------------------------------- */

/* rope_parameters, or rope_scaling of older files; where both stand there they must say
 * the same. */
static json_t *find_object(lipsc_reader *r, const char **name) {
    json_t *parameters = lipsc_read_field(r, "rope_parameters");
    json_t *scaling = lipsc_read_field(r, "rope_scaling");
    if (parameters && scaling && !json_equal(parameters, scaling))
        lipsc_read_wrong(r, "fields 'rope_parameters' and 'rope_scaling' differ");
    *name = parameters ? "rope_parameters" : "rope_scaling";
    json_t *object = parameters ? parameters : scaling;
    if (object && !json_is_object(object)) lipsc_read_unsupported(r, *name, object);
    return object;
}

/* How many components turn. */
static size_t turning(rope_source *s) {
    const lipsc_family *f = s->c->family;
    static const lipsc_number anywhere = {"partial_rotary_factor", 1};
    size_t dim = s->c->head_dim;
    if (f->rotary_dim) {
        dim = lipsc_read_size_or(s->r, f->rotary_dim, dim);
    } else {
        const int partly = f->rotary_part.field != NULL;
        const double usual = lipsc_read_number(s->r, partly ? f->rotary_part : anywhere);
        const double share = number_in(s, anywhere.field, usual);
        if (!partly && share != 1)
            lipsc_read_wrong(s->r, "field '%s' is %g, which is not supported",
                             anywhere.field, share);
        dim = share <= 1 ? (size_t)((double)dim * share) : 0;
    }
    if (dim == 0 || dim > s->c->head_dim)
        lipsc_read_wrong(s->r,
                         "rotary positions of %zu out of %zu components of a head "
                         "have no meaning",
                         dim, s->c->head_dim);
    else if (dim % 2)
        lipsc_read_wrong(s->r, "a head of %zu components cannot have rotary positions",
                         dim);
    else if (dim > LIPSC_MOST_TURNED)
        lipsc_read_wrong(
            s->r,
            "rotary positions of %zu components of a head are not supported, at most %d",
            dim, LIPSC_MOST_TURNED);
    return dim;
}

static void read_kind(rope_source *s, lipsc_number theta, lipsc_rope *rope) {
    if (s->object && !json_is_object(s->object)) {
        lipsc_read_unsupported(s->r, s->name, s->object);
        return;
    }
    s->theta = number_in(s, "rope_theta", lipsc_read_number(s->r, theta));
    s->dim = turning(s);
    if (!(s->theta > 0) || !isfinite(s->theta))
        lipsc_read_wrong(s->r, "field 'rope_theta' is not a positive number");
    if (s->r->status) return;
    rope->dim = s->dim;
    rope->factor = 1;
    rope->freq = lipsc_alloc(s->dim / 2, sizeof *rope->freq);
    if (!rope->freq) {
        s->r->status =
            lipsc_fail(s->r->err, LIPSC_E_NOMEM, "out of memory for a configuration");
        return;
    }
    for (size_t l = 0; l < s->dim / 2; l++)
        rope->freq[l] = pow(s->theta, -2.0 * (double)l / (double)s->dim);
    stretch(s, rope);
}

/* Which layers turn: all, or those that a list or an interval leaves. */
static void read_layers(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    json_t *list = lipsc_read_field(r, f->rotary_layers);
    const size_t every = lipsc_read_count(r, f->rotary_skip);
    if (list && (!json_is_array(list) || json_array_size(list) != c->layers))
        lipsc_read_wrong(r, "field '%s' is not a list of %zu numbers", f->rotary_layers,
                         c->layers);
    for (size_t l = 0; !r->status && l < c->layers; l++) {
        const json_t *entry = json_array_get(list, l);
        const int turns =
            json_is_boolean(entry) ? json_is_true(entry) : json_integer_value(entry) != 0;
        if (list)
            c->unturned[l] = !turns;
        else if (every)
            c->unturned[l] = (l + 1) % every == 0;
    }
}

void lipsc_read_rope(lipsc_reader *r, lipsc_config *c) {
    static const char *const kinds[] = {"full_attention", "sliding_attention"};
    const lipsc_family *f = c->family;
    if (!f->rotary) return;
    rope_source s = {.r = r, .c = c};
    json_t *object = find_object(r, &s.name);
    const int two = f->local_theta.otherwise > 0;
    size_t longest = c->positions;
    s.by_kind = json_is_object(json_object_get(object, kinds[LIPSC_LAYER_FULL])) ||
                json_is_object(json_object_get(object, kinds[LIPSC_LAYER_WINDOW]));
    if (s.by_kind && !two) lipsc_read_unsupported(r, s.name, object);
    if (f->rope_needed && !json_object_size(object))
        lipsc_read_not_a(r, s.name, NULL, "an object");
    /* transformers reads such an object in one way or another, by its version */
    if (two && !s.by_kind && object && !json_object_get(object, "rope_type"))
        lipsc_read_unsupported(r, s.name, object);
    for (int kind = 0; !r->status && kind < LIPSC_LAYER_KINDS; kind++) {
        const int local = kind == LIPSC_LAYER_WINDOW && two;
        /* an object for all layers is meant for those that see everything */
        s.object = s.by_kind ? json_object_get(object, kinds[kind]) : local ? NULL : object;
        read_kind(&s, local ? f->local_theta : f->theta, &c->rope[kind]);
        if (!r->status && is_longrope(&s)) {
            const double length = trained_length(&s);
            if (length < (double)longest) longest = (size_t)length;
        }
    }
    c->positions = longest; /* which the loop needed as it stands in the file */
    read_layers(r, c);
}

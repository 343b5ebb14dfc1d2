/* attack_keep.c - attacks: rows of the run file, and the input of each length as a layer
 * file. */
#define _POSIX_C_SOURCE 200809L /* access */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "io/layer_file.h"
#include "row/field.h"
#include "study/attacks.h"
#include "study/save.h"

enum { KEY_SIZE = 96 };

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

lipsc_status attack_open_run(attacks *a, lipsc_error *err) {
    enum { MOST = 32 };
    const lipsc_fields fields = lipsc_attack_fields();
    const char *names[MOST];
    size_t count = 0;
    for (size_t f = 0; f < fields.count && count < MOST; f++)
        if (!fields.at[f].part) names[count++] = fields.at[f].name;
    json_t *settings = run_settings(a);
    json_t *absent =
        json_pack("{s:b, s:n, s:b, s:n}", "tiled", 1, "stride", "special", 0, "seconds");
    const lipsc_run_options how = {.command = "attack",
                                   .command_line = a->set->command_line,
                                   .settings = settings,
                                   .absent = absent,
                                   .field_count = count,
                                   .fields = names};
    const lipsc_status status = settings
                                    ? lipsc_run_open(a->set->run_file, &how, &a->run, err)
                                    : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    json_decref(settings);
    json_decref(absent);
    return status;
}

static void key_of(size_t n, double radius, char key[KEY_SIZE]) {
    snprintf(key, KEY_SIZE, "n=%zu radius=%.17g", n, radius);
}

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

lipsc_status attack_restore(attacks *a, size_t i, lipsc_error *err) {
    char key[KEY_SIZE], path[ATTACK_PATH];
    lipsc_attack_settings aim;
    lipsc_attack_defaults(&aim);
    lipsc_status status = attack_aim(a, a->lengths[i], &aim, err);
    if (status) return status;
    if (!attack_path(a, aim.n, path))
        return lipsc_fail(err, LIPSC_E_ARG, "%s: this name is too long", a->set->out);
    key_of(aim.n, aim.radius, key);
    status = restore(a, key, path, &a->out->rows[i], err);
    a->known[i] = !status && a->out->rows[i].n != LIPSC_NONE;
    return status;
}

/* ---- Files --------------------------------------------------------------------------- */

int attack_path(const attacks *a, size_t n, char path[ATTACK_PATH]) {
    const char *out = a->set->out ? a->set->out : "";
    if (a->out->count == 1 || !*out)
        return (size_t)snprintf(path, ATTACK_PATH, "%s", out) < ATTACK_PATH;
    const char *slash = strrchr(out, '/'), *dot = strrchr(out, '.');
    const size_t stem = dot && (!slash || dot > slash + 1) && dot != out
                            ? (size_t)(dot - out)
                            : strlen(out);
    return stem < ATTACK_PATH &&
           (size_t)snprintf(path, ATTACK_PATH, "%.*s-%zu%s", (int)stem, out, n,
                            out + stem) < ATTACK_PATH;
}

lipsc_status attack_check_folder(const attacks *a, lipsc_error *err) {
    char folder[ATTACK_PATH];
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
                                const lipsc_attack_result *r, lipsc_error *err) {
    const lipsc_place *p = a->place;
    const lipsc_input *given = &p->file.input;
    const double *masses = a->set->atoms ? NULL : given->weights;
    const lipsc_input input = {.n = r->n,
                               .X = r->X,
                               .weights = r->weights ? r->weights : masses,
                               .times = given->times,
                               .positions = given->positions};
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

lipsc_status attack_keep(attacks *a, size_t i, attack_find *find, lipsc_error *err) {
    lipsc_attack_row *row = &a->out->rows[i];
    char key[KEY_SIZE], path[ATTACK_PATH];
    lipsc_status status = LIPSC_OK;
    if (!attack_path(a, a->lengths[i], path))
        return lipsc_fail(err, LIPSC_E_ARG, "%s: this name is too long", a->set->out);
    if (*path) status = write_input(a, path, &find->found, err);
    const int there = *path && !status;
    *row = find->row;
    row->domain = lipsc_attack_domain_name(a->set->domain);
    row->start = lipsc_pool_text(a->pool, find->row.start);
    row->input = there ? lipsc_pool_text(a->pool, path) : NULL;
    if (row->moved.at)
        row->moved.at = lipsc_pool_reals(a->pool, row->moved.count, row->moved.at);
    if (!row->start || (there && !row->input) || (find->row.moved.at && !row->moved.at))
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    if (there && a->set->written) a->set->written(a->set->ctx, path);
    if (status || !find->finished || !a->run) return status;
    key_of(row->n, row->radius, key);
    return keep(a, key, row, err);
}

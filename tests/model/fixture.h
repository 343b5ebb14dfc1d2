/* fixture.h - reads the folders of tests/data/fixtures: small models written by Hugging
 * Face transformers, with activations and singular values that it computed in float64. */
#ifndef LIPSC_TESTS_FIXTURE_H
#define LIPSC_TESTS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the above */
#include <cmocka.h>

#include "io/safetensors.h"
#include "model/model.h"
#include "test_device.h"

#include <ctype.h>
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FIXTURES = 128, PATH_SIZE = 1024, MOST_TOKENS = 512 };

typedef struct {
    char name[64], dir[PATH_SIZE];
    lipsc_model *model;
    json_t *json; /* reference.json        */
    lipsc_st *st; /* reference.safetensors */
} fixture;

static inline int by_text(const void *a, const void *b) { return strcmp(a, b); }

/* Those of the repository, or others of the same form in LIPSCOPE_FIXTURES. */
static inline const char *fixtures_dir(void) {
    const char *others = getenv("LIPSCOPE_FIXTURES");
    return others ? others : LIPSC_TEST_DATA "/fixtures";
}

/* Names of the folders FAMILY-N, sorted.  With LIPSCOPE_FIXTURE in the environment only the
 * one of that name.  Only where others were asked for may there be none. */
static inline size_t list_fixtures(char names[MOST_FIXTURES][64]) {
    size_t count = 0;
    const char *only = getenv("LIPSCOPE_FIXTURE");
    DIR *dir = opendir(fixtures_dir());
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        const char *dash = strrchr(entry->d_name, '-');
        const size_t size = strlen(entry->d_name) + 1;
        if (!dash || !isdigit((unsigned char)dash[1]) || size > 64) continue;
        if (only && strcmp(only, entry->d_name)) continue;
        if (count == MOST_FIXTURES) fail_msg("more than %d fixtures", (int)MOST_FIXTURES);
        memcpy(names[count++], entry->d_name, size);
    }
    if (dir) closedir(dir);
    qsort(names, count, sizeof names[0], by_text);
    if (!count) {
        print_message("skipped: no fixtures in %s\n", fixtures_dir());
        if (!getenv("LIPSCOPE_FIXTURES")) fail();
        skip();
    }
    return count;
}

static inline void fixture_path(const char *name, char dir[PATH_SIZE]) {
    snprintf(dir, PATH_SIZE, "%.900s/%.63s", fixtures_dir(), name);
}

static inline json_t *load_json(const char *path) {
    json_error_t bad;
    json_t *root = json_load_file(path, 0, &bad);
    if (!root) fail_msg("%s: %s", path, bad.text);
    return root;
}

static inline void fixture_open(fixture *f, const char *name) {
    char path[PATH_SIZE + 32];
    lipsc_error err = {0};
    snprintf(f->name, sizeof f->name, "%.63s", name);
    fixture_path(f->name, f->dir);
    snprintf(path, sizeof path, "%s/reference.json", f->dir);
    f->json = load_json(path);
    const char *part = json_string_value(json_object_get(f->json, "part"));
    const lipsc_part chosen = !part                   ? LIPSC_PART_WHOLE
                              : !strcmp(part, "text") ? LIPSC_PART_TEXT
                                                      : LIPSC_PART_VISION;
    if (lipsc_model_open_part(f->dir, chosen, 1, &f->model, &err)) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/reference.safetensors", f->dir);
    if (lipsc_st_open(path, &f->st, &err)) fail_msg("%s", err.text);
}

static inline void fixture_close(fixture *f) {
    lipsc_model_free(f->model);
    json_decref(f->json);
    lipsc_st_free(f->st);
}

/* Every one of them, one after the other. */
static inline void each_fixture(void (*check)(fixture *f)) {
    char names[MOST_FIXTURES][64];
    const size_t count = list_fixtures(names);
    for (size_t i = 0; i < count; i++) {
        fixture f;
        fixture_open(&f, names[i]);
        check(&f);
        fixture_close(&f);
    }
}

/* A reference tensor, to be freed; *count its size. */
static inline double *reference(const fixture *f, const char *name, size_t *count,
                                size_t shape[3]) {
    lipsc_error err = {0};
    const lipsc_st_tensor *t = lipsc_st_find(f->st, name);
    if (!t) fail_msg("%s: no tensor %s", f->name, name);
    double *values = malloc(t->count * sizeof *values);
    assert_non_null(values);
    if (lipsc_st_read_f64(f->st, t, 0, t->count, values, &err)) fail_msg("%s", err.text);
    for (size_t i = 0; shape && i < 3; i++) shape[i] = i < t->ndim ? t->shape[i] : 0;
    *count = t->count;
    return values;
}

static inline size_t input_count(const fixture *f) {
    return json_array_size(json_object_get(f->json, "inputs"));
}
static inline json_t *input_json(const fixture *f, size_t c) {
    return json_array_get(json_object_get(f->json, "inputs"), c);
}

/* Input c of the fixture run through its model. */
static inline lipsc_acts *fixture_run(const fixture *f, size_t c, lipsc_dtype dtype) {
    lipsc_error err = {0};
    lipsc_acts *acts = NULL;
    if (lipsc_model_describe(f->model)->has_pixels) {
        char name[64];
        size_t count, shape[3];
        snprintf(name, sizeof name, "%zu.pixel_values", c);
        double *pixels = reference(f, name, &count, shape);
        if (lipsc_acts_new_pixels(f->model, dtype, test_device(0), shape, pixels, 0, &acts,
                                  &err))
            fail_msg("%s: %s", f->name, err.text);
        free(pixels);
        return acts;
    }
    json_t *list = json_object_get(input_json(f, c), "input_ids");
    uint32_t ids[MOST_TOKENS];
    const size_t n = json_array_size(list);
    assert_true(n > 0 && n <= MOST_TOKENS);
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    if (lipsc_acts_new(f->model, dtype, test_device(0), n, ids, 0, &acts, &err))
        fail_msg("%s: %s", f->name, err.text);
    return acts;
}

/* |a - b| / |b| */
static inline double relative(size_t count, const double *a, const double *b) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(difference / size);
}

#endif

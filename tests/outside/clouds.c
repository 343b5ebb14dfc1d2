/* clouds.c - an outside program: a small model out of memory, compared with another and
 * with what finite changes do; one of its layers as a file; attention on measures. clouds
 * FOLDER      writes its files there */
#include <lipscope.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 8, WORDS = 23, POSITIONS = 32 };

static void expect(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static char *in(const char *folder, const char *name) {
    static char path[4][4096];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

/* A GPT-2 of one layer, its attention `scale` times as sharp; weights stay in static
 * memory. */
static lipsc_model *small_gpt2(double scale, float *weights) {
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 8,"
        " \"n_positions\": 32, \"vocab_size\": 23}";
    static const struct {
        const char *name;
        size_t rows, columns; /* rows 0: a vector */
        double one;           /* around which its numbers lie */
    } parts[] = {{"wte.weight", WORDS, WIDTH, 0},
                 {"wpe.weight", POSITIONS, WIDTH, 0},
                 {"h.0.ln_1.weight", 0, WIDTH, 1},
                 {"h.0.ln_1.bias", 0, WIDTH, 0},
                 {"h.0.attn.c_attn.weight", WIDTH, 24, 0},
                 {"h.0.attn.c_attn.bias", 0, 24, 0},
                 {"h.0.attn.c_proj.weight", WIDTH, 8, 0},
                 {"h.0.attn.c_proj.bias", 0, WIDTH, 0},
                 {"h.0.ln_2.weight", 0, WIDTH, 1},
                 {"h.0.ln_2.bias", 0, WIDTH, 0},
                 {"h.0.mlp.c_fc.weight", WIDTH, 32, 0},
                 {"h.0.mlp.c_fc.bias", 0, 32, 0},
                 {"h.0.mlp.c_proj.weight", 32, WIDTH, 0},
                 {"h.0.mlp.c_proj.bias", 0, WIDTH, 0},
                 {"ln_f.weight", 0, WIDTH, 1},
                 {"ln_f.bias", 0, WIDTH, 0}};
    enum { PARTS = sizeof parts / sizeof *parts };
    lipsc_model_tensor tensors[PARTS];
    size_t shape[PARTS][2];
    lipsc_model *model;
    lipsc_error err;
    for (size_t p = 0; p < PARTS; p++) {
        const size_t count = (parts[p].rows ? parts[p].rows : 1) * parts[p].columns;
        shape[p][0] = parts[p].rows ? parts[p].rows : parts[p].columns;
        shape[p][1] = parts[p].columns;
        tensors[p] = (lipsc_model_tensor){.name = parts[p].name,
                                          .dtype = "F32",
                                          .ndim = parts[p].rows ? 2 : 1,
                                          .shape = shape[p],
                                          .data = weights};
        for (size_t i = 0; i < count; i++)
            *weights++ = (float)(parts[p].one + scale * sin(7.0 * (double)(i + 31 * p)));
    }
    expect(!lipsc_model_from_memory("small", config, sizeof config - 1, LIPSC_PART_WHOLE,
                                    PARTS, tensors, &model, &err),
           err.text);
    return model;
}

/* Rows of both models at the same windows, and how they differ. */
static void compare_models(lipsc_model *before, lipsc_model *after, const uint32_t *ids,
                           size_t count) {
    static const size_t lengths[] = {4, 8};
    lipsc_model *const models[] = {before, after};
    lipsc_study *study[2];
    lipsc_row *rows[2];
    size_t row_count[2], changes;
    lipsc_change *change;
    lipsc_error err;
    for (int m = 0; m < 2; m++) {
        lipsc_study_settings set;
        lipsc_study_defaults(&set);
        set.model = "small";
        set.open = models[m];
        set.source.id_list = ids;
        set.source.id_count = count;
        set.lengths = (lipsc_sizes){2, lengths};
        expect(!lipsc_study_open(&set, &study[m], &err) && !lipsc_study_run(study[m], &err),
               err.text);
        const lipsc_row *const *found = lipsc_study_rows(study[m], &row_count[m]);
        expect(found && row_count[m] >= 2 * LIPSC_COMPARE_STARTS, "too few rows");
        rows[m] = malloc(row_count[m] * sizeof **rows);
        for (size_t i = 0; rows[m] && i < row_count[m]; i++) rows[m][i] = *found[i];
    }
    expect(!lipsc_rows_compare(row_count[0], rows[0], row_count[1], rows[1], &changes,
                               &change, &err),
           err.text);
    expect(changes == 1 && change->paired && change->ratio > 1.0, "sharper is not larger");
    printf("ratio %.3f (%.3f, %.3f): %s\n", change->ratio, change->ratio_low,
           change->ratio_high, change->verdict);
    lipsc_release(change);
    for (int m = 0; m < 2; m++) {
        lipsc_study_close(study[m]);
        free(rows[m]);
    }
}

static void perturb(lipsc_model *model, size_t n, const uint32_t *ids) {
    lipsc_perturb_settings set;
    lipsc_perturbation_rows rows;
    lipsc_error err;
    lipsc_perturb_defaults(&set);
    expect(!lipsc_perturb(model, n, ids, &set, &rows, &err), err.text);
    for (size_t i = 0; i < rows.count; i++)
        expect(!(rows.at[i].ratio > rows.at[i].upper), "a change above its bound");
    printf("%zu changes, none above its bound\n", rows.count);
    lipsc_perturbation_free(&rows);
}

/* Layer 0 with its input as a layer file; sigma of it, stored with its direction,
 * confirmed. */
static void layer_file(lipsc_model *model, size_t n, const uint32_t *ids,
                       const char *folder) {
    const char *const file = in(folder, "layer.safetensors"), *const top =
                                                                  in(folder,
                                                                     "top.safetensors");
    lipsc_acts *acts;
    lipsc_layer layer;
    lipsc_layer_file read;
    lipsc_layer_row_settings how;
    lipsc_layer_row found;
    lipsc_check_settings again;
    lipsc_checked checked;
    lipsc_error err;
    expect(!lipsc_acts_new(model, LIPSC_F64, NULL, n, ids, 1, &acts, &err), err.text);
    expect(!lipsc_model_layer(model, 0, -1, LIPSC_MAP_ATTENTION, NULL, &layer, &err),
           err.text);
    const size_t tokens[] = {n, WIDTH}, square[] = {WIDTH, WIDTH};
    const lipsc_st_item items[] = {
        {"X", LIPSC_F64, 2, tokens, lipsc_acts_attention_input(acts, 0)},
        {"Q", LIPSC_F64, 2, square, layer.Q},
        {"K", LIPSC_F64, 2, square, layer.K},
        {"V", LIPSC_F64, 2, square, layer.V},
        {"O", LIPSC_F64, 2, square, layer.O}};
    expect(!lipsc_st_write(file, items, 5, NULL, 0, &err), err.text);
    lipsc_acts_free(acts);

    const lipsc_layer_options bare = {
        .heads = 2, .mask = LIPSC_MASK_CAUSAL, .need_input = 1};
    expect(!lipsc_layer_file_read(file, &bare, &read, &err), err.text);
    lipsc_layer_row_defaults(&how);
    how.upper = 1;
    how.save_direction = top;
    expect(!lipsc_layer_row_find(&read.layer, &read.input, &how, &found, &err), err.text);
    expect(found.row.lower <= found.row.sigma && found.row.sigma <= found.row.upper,
           "no lower <= sigma <= upper");
    lipsc_check_defaults(&again);
    again.file = top;
    expect(!lipsc_check(&again, &checked, &err), err.text);
    expect(checked.row.agree, "the stored value is not confirmed");
    printf("sigma %.6g, stored and confirmed\n", found.row.sigma);
    lipsc_checked_free(&checked);
    lipsc_layer_row_free(&found);
    lipsc_layer_file_free(&read);
}

/* Does splitting an atom beat moving it?  The file with the atom in halves reads back, and
 * the ratio of two exact distances is what was promised. */
static void measures(const char *folder) {
    static const double points[] = {-1, 0, 1, 0, 0, 2}, masses[] = {0.25, 0.25, 0.5};
    static const double eye[] = {3, 0, 0, 3}, one[] = {1, 0, 0, 1};
    const char *const path = in(folder, "split.safetensors");
    const lipsc_measure mu = {.n = 3, .d = 2, .points = points, .weights = masses};
    lipsc_layer layer;
    lipsc_slopes slopes;
    lipsc_cloud image;
    lipsc_measure_file split;
    lipsc_distance apart;
    lipsc_distance_proof proof;
    lipsc_ratio ratio;
    lipsc_error err;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 2;
    layer.Q = eye;
    layer.K = layer.V = one;
    expect(!lipsc_slopes_find(&layer, &mu, NULL, &slopes, &err), err.text);
    expect(slopes.split >= slopes.move && slopes.split >= slopes.halves,
           "split is no largest");
    expect(!lipsc_slopes_write(path, &slopes, &mu, 1e-4, &err), err.text);
    expect(!lipsc_measure_file_read(path, 0, &split, &err), err.text);
    expect(!lipsc_ratio_between(&layer, &split.measure, &mu, NULL, NULL, &ratio, &err),
           err.text);
    expect(fabs(ratio.ratio - slopes.halves_measured) <= 1e-6 * ratio.ratio,
           "the file shows another ratio");
    expect(!lipsc_measure_push(&layer, &mu, NULL, &image, &err), err.text);
    lipsc_distance_settings set;
    lipsc_distance_defaults(&set);
    set.plan = 1;
    expect(!lipsc_distance_between(&mu, &image.measure, &set, &apart, &err), err.text);
    expect(!lipsc_distance_certify(&mu, &image.measure, &apart, &proof, &err), err.text);
    expect(proof.violation <= 1e-12 && fabs(proof.primal - proof.dual) <= 1e-12,
           "the distance is not proved");
    printf("move %.4g, halves %.4g (measured %.4g); the image is %.4g away\n", slopes.move,
           slopes.halves, ratio.ratio, apart.distance);
    lipsc_distance_free(&apart);
    lipsc_cloud_free(&image);
    lipsc_measure_file_free(&split);
    lipsc_slopes_free(&slopes);
}

int main(int argc, char **argv) {
    static float weights[2][4096];
    const char *const folder = argc > 1 ? argv[1] : ".";
    uint32_t ids[128];
    for (uint32_t i = 0; i < 128; i++) ids[i] = (i * i + 3 * i) % WORDS;
    lipsc_model *const before = small_gpt2(0.3, weights[0]);
    lipsc_model *const after = small_gpt2(0.6, weights[1]);
    compare_models(before, after, ids, 128);
    perturb(after, 8, ids);
    layer_file(after, 8, ids, folder);
    measures(folder);
    lipsc_model_free(before);
    lipsc_model_free(after);
    return 0;
}

/* test_measure_file.c - measures from .npy, CSV and safetensors bytes: what each becomes,
 * and one sentence for each way in which they can be wrong. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "io/measure_file.h"
#include "io/safetensors.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static void accepts(const void *bytes, size_t length, int normalise, size_t n, size_t d,
                    const double *points, const double *weights, const double *times) {
    lipsc_measure_file file;
    lipsc_error err = {.text = ""};
    if (lipsc_measure_from_bytes(bytes, length, "f", normalise, &file, &err))
        fail_msg("%s", err.text);
    const lipsc_measure *m = &file.measure;
    assert_true(m->n == n && m->d == d);
    for (size_t i = 0; i < n * d; i++) assert_true(m->points[i] == points[i]);
    assert_true((m->weights != NULL) == (weights != NULL));
    assert_true((m->times != NULL) == (times != NULL));
    for (size_t i = 0; weights && i < n; i++) assert_true(m->weights[i] == weights[i]);
    for (size_t i = 0; times && i < n; i++) assert_true(m->times[i] == times[i]);
    lipsc_measure_file_free(&file);
}

static void refuses(const void *bytes, size_t length, const char *text) {
    lipsc_measure_file file;
    lipsc_error err = {.text = ""};
    assert_true(lipsc_measure_from_bytes(bytes, length, "f", 0, &file, &err) != LIPSC_OK);
    if (strncmp(err.text, "f: ", 3) != 0 || !strstr(err.text, text))
        fail_msg("'%s' is not in '%s'", text, err.text);
}

static void table(const char *text, size_t n, size_t d, const double *points) {
    accepts(text, strlen(text), 0, n, d, points, NULL, NULL);
}
static void bad_table(const char *text, const char *reason) {
    refuses(text, strlen(text), reason);
}

static void test_csv(void **state) {
    (void)state;
    const double four[] = {1, 2.5, -3e2, 4}, halves[] = {0.5, 0.5}, times[] = {0, 1};
    table("1,2.5\n-3e2,4\n", 2, 2, four);
    table("1;2.5\r\n-300 ; 4", 2, 2, four);
    table("# remark\n\n1\t2.5\n\n-300\t4\n", 2, 2, four);
    table("  1   2.5\n-300 4  \n", 2, 2, four);
    table("x,y\n1,2.5\n-300,4\n", 2, 2, four);
    table("\xef\xbb\xbf\"x\",\"y\"\n1,2.5\n-300,4\n", 2, 2, four);
    table("1\n2.5\n-300\n4\n", 4, 1, four);
    const char *all = "weight,x,time,y\n0.5,1,0,2.5\n0.5,-300,1,4\n";
    accepts(all, strlen(all), 0, 2, 2, four, halves, times);
    const char *heavy = "x,y,weights\n1,2.5,3\n-300,4,3\n";
    accepts(heavy, strlen(heavy), 1, 2, 2, four, halves, NULL);
    bad_table(heavy, "sum to 6");
    bad_table("", "no points");
    bad_table("x,y\n", "no points");
    bad_table("1,2\n3\n", "line 2: fewer than 2 numbers");
    bad_table("1,2\n3,4,5\n", "line 2: more than 2 numbers");
    bad_table("1,2\n3,\n", "line 2: '' is not a number");
    bad_table("1,2\n3,4 5\n", "'4 5' is not a number");
    bad_table("1,2\n0x1,4\n", "'0x1' is not a number");
    bad_table("1,2\nnan,4\n", "line 2: holds a NaN");
    bad_table("1,2\n1e999,4\n", "line 2: holds an infinity");
    bad_table("weight\n1\n", "the measure is empty");
    bad_table("x,weight\n1,1.5\n2,-0.5\n", "weight 1 is -0.5");
    bad_table("x,time\n1,0\n2,1.25\n", "time 1 is 1.25");
    refuses("1,2\0\n", 5, "neither");
}

/* \x93NUMPY, version, header, numbers 1 2 3 4 5 6 in the order of storage. */
static size_t make_npy(int version, const char *header, int width, int big, uint8_t *to) {
    const size_t length = strlen(header);
    size_t used = 0;
    memcpy(to, "\x93NUMPY", 6);
    to[6] = (uint8_t)version;
    to[7] = 0;
    used = 8;
    for (int k = 0; k < (version == 1 ? 2 : 4); k++)
        to[used++] = (uint8_t)(length >> 8 * k);
    memcpy(to + used, header, length);
    used += length;
    for (int i = 1; i <= 6; i++) {
        const double wide = i;
        const float narrow = (float)i;
        uint8_t raw[8];
        if (width == 8)
            memcpy(raw, &wide, 8);
        else
            memcpy(raw, &narrow, 4);
        for (int k = 0; k < width; k++) to[used++] = raw[big ? width - 1 - k : k];
    }
    return used;
}

/* A locale with a decimal comma, made here where the system has none; 0: impossible. */
static int comma_locale(void) {
    static const char *const known[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (setlocale(LC_ALL, known[k])) return 1;
    char folder[] = "/tmp/lipscope-locale-XXXXXX", command[200];
    if (!mkdtemp(folder)) return 0;
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    const int made = system(command);
    setenv("LOCPATH", folder, 1);
    const int chosen = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 && made == 0 && chosen;
}

/* What a host program has chosen for its own users is not how files are read. */
static void test_locale(void **state) {
    (void)state;
    if (!comma_locale() || strtod("0.5", NULL) == 0.5) {
        setlocale(LC_ALL, "C");
        skip();
    }
    table("0.25,1.5\n2.75,-3e-2\n", 2, 2, (const double[]){0.25, 1.5, 2.75, -3e-2});
    setlocale(LC_ALL, "C");
}

static void test_npy(void **state) {
    (void)state;
    const double rows[] = {1, 2, 3, 4, 5, 6}, columns[] = {1, 4, 2, 5, 3, 6};
    uint8_t bytes[512];
    size_t length;
    for (int version = 1; version <= 3; version++) {
        length = make_npy(
            version, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }    \n", 8,
            0, bytes);
        accepts(bytes, length, 0, 3, 2, rows, NULL, NULL);
        for (size_t cut = 6; cut < length; cut += 5) refuses(bytes, cut, "");
        bytes[length] = 0;
        refuses(bytes, length + 1, "the length of the file disagree");
    }
    length = make_npy(1, "{\"shape\":(3,2),\"descr\":\"<f4\",\"fortran_order\":True}", 4, 0,
                      bytes);
    accepts(bytes, length, 0, 3, 2, columns, NULL, NULL);
    length =
        make_npy(2, "{'descr': '>f4', 'fortran_order': False, 'shape': (6,)}", 4, 1, bytes);
    accepts(bytes, length, 0, 6, 1, rows, NULL, NULL);
    static const struct {
        const char *header, *reason;
    } wrong[] = {
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2)}", "f4 and f8"},
        {"{'descr': [('x','<f8')], 'fortran_order': False, 'shape': (3,)}", "f4 and f8"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2, 1)}", "dimensions"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': ()}", "dimensions"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 3)}", "disagree"},
        {"{'descr': '<f8', 'fortran_order': False}", "dictionary"},
        {"{'descr': '<f8', 'fortran_order': 0, 'shape': (3, 2)}", "dictionary"},
        {"{'descr': '<f8', 'descr': '<f8', 'shape': (3, 2)}", "dictionary"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': "
         "(18446744073709551617, 2)}",
         "dimensions"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': "
         "(4611686018427387904, 4)}",
         "disagree"},
        {"not a dictionary", "dictionary"}};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        length = make_npy(1, wrong[k].header, 8, 0, bytes);
        refuses(bytes, length, wrong[k].reason);
    }
    length = make_npy(4, wrong[0].header, 8, 0, bytes);
    refuses(bytes, length, "versions 1, 2 and 3");
    length = make_npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }", 8,
                      0, bytes);
    const double nan = NAN;
    memcpy(bytes + length - 8, &nan, 8);
    refuses(bytes, length, "point 2 holds a NaN");
}

static void test_safetensors(void **state) {
    (void)state;
    char path[] = "/tmp/lipscope-measure-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    const double points[] = {1, 2, 3, 4}, weights[] = {0.25, 0.75}, times[] = {0, 0.5};
    const size_t shape[] = {2, 2}, three[] = {3};
    lipsc_st_item items[] = {{"points", LIPSC_F64, 2, shape, points},
                             {"weights", LIPSC_F64, 1, shape, weights},
                             {"times", LIPSC_F32, 1, shape, times}};
    assert_int_equal(lipsc_st_write(path, items, 3, NULL, 0, NULL), LIPSC_OK);
    lipsc_measure_file file;
    lipsc_error err = {.text = ""};
    assert_int_equal(lipsc_measure_file_read(path, 0, &file, &err), LIPSC_OK);
    assert_true(file.measure.n == 2 && file.measure.d == 2);
    assert_memory_equal(file.measure.points, points, sizeof points);
    assert_memory_equal(file.measure.weights, weights, sizeof weights);
    assert_memory_equal(file.measure.times, times, sizeof times);
    lipsc_measure_file_free(&file);
    items[1] = (lipsc_st_item){"weights", LIPSC_F64, 1, three, points};
    assert_int_equal(lipsc_st_write(path, items, 2, NULL, 0, NULL), LIPSC_OK);
    assert_int_equal(lipsc_measure_file_read(path, 0, &file, &err), LIPSC_E_FORMAT);
    assert_non_null(strstr(err.text, "'weights' has shape (3), but there are 2 points"));
    items[0].name = "X";
    assert_int_equal(lipsc_st_write(path, items, 1, NULL, 0, NULL), LIPSC_OK);
    assert_int_equal(lipsc_measure_file_read(path, 0, &file, &err), LIPSC_E_FORMAT);
    assert_non_null(strstr(err.text, "tensor 'points' is missing"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(lipsc_measure_file_read(path, 0, &file, &err), LIPSC_E_IO);
}

/* Weights that cannot be divided by their sum, and points that are no matrix. */
static void test_weights_refused(void **state) {
    (void)state;
    static const struct {
        double weights[2];
        size_t axes;
        lipsc_status status;
        const char *reason;
    } bad[] = {
        {{0.5, INFINITY}, 2, LIPSC_E_NONFIN, "weight 1 is not finite"},
        {{1e308, 1e308}, 2, LIPSC_E_RANGE, "the sum of the weights overflows"},
        {{1e-320, 1e300}, 2, LIPSC_E_RANGE, "weight 0 vanishes beside the others"},
        {{0.5, 0.5}, 1, LIPSC_E_FORMAT, "tensor 'points' must be a matrix"},
    };
    char path[] = "/tmp/lipscope-measure-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    const double points[] = {1, 2, 3, 4};
    const size_t shape[] = {2, 2};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const lipsc_st_item items[] = {{"points", LIPSC_F64, bad[i].axes, shape, points},
                                       {"weights", LIPSC_F64, 1, shape, bad[i].weights}};
        lipsc_measure_file file;
        lipsc_error err = {.text = ""};
        assert_int_equal(lipsc_st_write(path, items, 2, NULL, 0, NULL), LIPSC_OK);
        assert_int_equal(lipsc_measure_file_read(path, 1, &file, &err), bad[i].status);
        assert_non_null(strstr(err.text, bad[i].reason));
    }
    assert_int_equal(unlink(path), 0);
}

/* Weights divided by their sum in single precision sum to 1 as well as they can, and are
 * taken so; the same sum in double is a mistake, and so is one that single precision does
 * not explain. */
static void test_f32_weights(void **state) {
    (void)state;
    enum { N = 1000 };
    static double points[N], weights[N];
    char path[] = "/tmp/lipscope-measure-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    float sum = 0;
    double exact = 0;
    for (size_t i = 0; i < N; i++) sum += (float)(1 + i % 7);
    for (size_t i = 0; i < N; i++) {
        weights[i] = (double)((float)(1 + i % 7) / (float)(sum * (1 + 0x1p-22f)));
        exact += weights[i];
    }
    assert_true(fabs(exact - 1) > 1e-8 && fabs(exact - 1) < 1e-6);
    const size_t shape[] = {N, 1};
    lipsc_st_item items[] = {{"points", LIPSC_F64, 2, shape, points},
                             {"weights", LIPSC_F32, 1, shape, weights}};
    lipsc_measure_file file;
    lipsc_error err = {.text = ""};
    assert_int_equal(lipsc_st_write(path, items, 2, NULL, 0, NULL), LIPSC_OK);
    if (lipsc_measure_file_read(path, 0, &file, &err)) fail_msg("%s", err.text);
    double got = 0;
    for (size_t i = 0; i < N; i++) got += file.measure.weights[i];
    assert_true(fabs(got - 1) <= 1e-13);
    lipsc_measure_file_free(&file);
    items[1].dtype = LIPSC_F64;
    assert_int_equal(lipsc_st_write(path, items, 2, NULL, 0, NULL), LIPSC_OK);
    assert_int_equal(lipsc_measure_file_read(path, 0, &file, &err), LIPSC_E_FORMAT);
    items[1].dtype = LIPSC_F32;
    for (size_t i = 0; i < N; i++) weights[i] *= 1 + 1e-4;
    assert_int_equal(lipsc_st_write(path, items, 2, NULL, 0, NULL), LIPSC_OK);
    assert_int_equal(lipsc_measure_file_read(path, 0, &file, &err), LIPSC_E_FORMAT);
    assert_non_null(strstr(err.text, "not to 1"));
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_csv),
                                       cmocka_unit_test(test_locale),
                                       cmocka_unit_test(test_npy),
                                       cmocka_unit_test(test_safetensors),
                                       cmocka_unit_test(test_weights_refused),
                                       cmocka_unit_test(test_f32_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

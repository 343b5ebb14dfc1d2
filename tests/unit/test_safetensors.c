/* test_safetensors.c - the reader on hand-made bytes, good and hostile; the writer's
 * files byte for byte, and what it leaves behind when it fails. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, setrlimit */
#include "io/mapfile.h"
#include "io/safetensors.h"
#include "io/show.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* A file of its own exact size on the heap, so that a sanitizer sees any byte read
 * beyond its end. */
static uint8_t *make_bytes(const char *header, const void *data, size_t data_bytes,
                           size_t *length) {
    const size_t header_bytes = strlen(header);
    uint8_t *bytes = malloc(8 + header_bytes + data_bytes);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(header_bytes >> (8 * i));
    memcpy(bytes + 8, header, header_bytes);
    if (data_bytes) memcpy(bytes + 8 + header_bytes, data, data_bytes);
    *length = 8 + header_bytes + data_bytes;
    return bytes;
}

/* ---- reading ---- */

static const char good_header[] =
    "{\"__metadata__\":{\"made\":\"by hand\"},"
    "\"half\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[20,24]},"
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[8,8]},"
    "\"pair\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
    "\"brain\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[16,20]},"
    "\"one\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[8,16]},"
    "\"ids\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[24,32]}}  ";
static const uint8_t good_data[32] = {
    0x00, 0x00, 0xc0, 0x3f, 0x01, 0x00, 0x00, 0x80, /* F32 1.5, -2^-149 */
    0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f, /* F64 0.1          */
    0x80, 0xbf, 0x80, 0x7f,                         /* BF16 -1, inf     */
    0x01, 0x00, 0xff, 0x7b,                         /* F16 2^-24, 65504 */
    0x07, 0,    0,    0,    0,    0,    0,    0,    /* I64 7            */
};

static void test_read(void **state) {
    (void)state;
    size_t length;
    uint8_t *bytes = make_bytes(good_header, good_data, sizeof good_data, &length);
    lipsc_st *st;
    lipsc_error err;
    assert_int_equal(lipsc_st_parse(bytes, length, "good", &st, &err), LIPSC_OK);
    assert_int_equal(lipsc_st_count(st), 6);
    for (size_t i = 1; i < 6; i++)
        assert_true(strcmp(lipsc_st_at(st, i - 1)->name, lipsc_st_at(st, i)->name) < 0);
    assert_null(lipsc_st_find(st, "absent"));
    assert_null(lipsc_st_find(st, "__metadata__"));
    assert_string_equal(lipsc_st_metadata(st, "made"), "by hand");
    assert_null(lipsc_st_metadata(st, "absent"));

    double d[2];
    float f[2];
    const lipsc_st_tensor *t = lipsc_st_find(st, "pair");
    lipsc_st_forget(st, t); /* bytes of the caller are left alone: all is read below */
    assert_int_equal(t->ndim, 2);
    assert_int_equal(t->shape[1], 2);
    assert_int_equal(lipsc_st_read_f64(st, t, 0, 2, d, &err), LIPSC_OK);
    assert_true(d[0] == 1.5 && d[1] == -0x1p-149);
    assert_int_equal(lipsc_st_read_f32(st, t, 1, 1, f, &err), LIPSC_OK);
    assert_true(f[0] == -0x1p-149f);

    t = lipsc_st_find(st, "one");
    assert_int_equal(t->ndim, 0);
    assert_int_equal(t->count, 1);
    assert_int_equal(t->offset, length - 24);
    assert_int_equal(lipsc_st_read_f64(st, t, 0, 1, d, &err), LIPSC_OK);
    assert_true(d[0] == 0.1);
    assert_int_equal(lipsc_st_read_f32(st, t, 0, 1, f, &err), LIPSC_OK);
    assert_true(f[0] == 0.1f);

    assert_int_equal(lipsc_st_read_f64(st, lipsc_st_find(st, "brain"), 0, 2, d, &err), 0);
    assert_true(d[0] == -1 && d[1] == INFINITY);
    assert_int_equal(lipsc_st_read_f32(st, lipsc_st_find(st, "half"), 0, 2, f, &err), 0);
    assert_true(f[0] == 0x1p-24f && f[1] == 65504);
    assert_int_equal(lipsc_st_read_f64(st, lipsc_st_find(st, "none"), 0, 0, NULL, &err), 0);

    t = lipsc_st_find(st, "ids");
    assert_string_equal(t->dtype, "I64");
    assert_int_equal(lipsc_st_read_f64(st, t, 0, 1, d, &err), LIPSC_E_FORMAT);
    assert_string_equal(err.text, "good: tensor 'ids' has dtype I64, but F64, F32, F16 or "
                                  "BF16 is needed");
    t = lipsc_st_find(st, "pair");
    assert_int_equal(lipsc_st_read_f64(st, t, 1, 2, d, &err), LIPSC_E_RANGE);
    assert_int_equal(lipsc_st_read_f64(st, t, 3, SIZE_MAX, d, NULL), LIPSC_E_RANGE);
    lipsc_st_free(st);
    lipsc_st_free(NULL);
    free(bytes);
}

#define ENTRY(dtype, shape, offsets) \
    "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define Q(dtype, shape, offsets) "{\"Q\":" ENTRY(dtype, shape, offsets) "}"

/* header, bytes of data after it, what the sentence says after "FILE: " */
static const struct {
    const char *header;
    size_t data;
    const char *says;
} hostile[] = {
    {"", 0, "the header is not a JSON object"},
    {"[]", 0, "the header is not a JSON object"},
    {" {}", 0, "the header is not a JSON object"},
    {"{", 0, "the header is not valid JSON at byte 9: string or '}' expected"},
    {"{}x", 0, "the header is not valid JSON at byte 11: end of file expected"},
    {"{\"a\":1,\"a\":1}", 0,
     "the header is not valid JSON at byte 18: duplicate object key"},
    {"{\"\xff\":1}", 0, "the header is not valid JSON at byte 10: unable to decode byte"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not a JSON object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ 'a' is not a string"},
    {"{\"Q\":3}", 0, "tensor 'Q': its entry is not a JSON object"},
    {"{\"Q\":[[],[]]}", 0, "tensor 'Q': its entry is not a JSON object"},
    {"{\"Q\":{}}", 0, "tensor 'Q': dtype is missing"},
    {"{\"Q\":{\"dtype\":\"F32\"}}", 0, "tensor 'Q': shape is missing"},
    {"{\"Q\":{\"dtype\":\"F32\",\"shape\":[]}}", 0, "tensor 'Q': data_offsets is missing"},
    {Q("32", "[1]", "[0,4]"), 4, "tensor 'Q': dtype is not a string"},
    {Q("\"f32\"", "[1]", "[0,4]"), 4, "tensor 'Q': unknown dtype"},
    {Q("\"F32\"", "1", "[0,4]"), 4, "tensor 'Q': shape is not an array"},
    {Q("\"F32\"", "[-1]", "[0,4]"), 4,
     "tensor 'Q': shape holds something else than a size"},
    {Q("\"F32\"", "[1.0]", "[0,4]"), 4,
     "tensor 'Q': shape holds something else than a size"},
    {Q("\"F32\"", "[99999999999999999999]", "[0,4]"), 4,
     "the header is not valid JSON at byte 57: too big integer"},
    {Q("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "tensor 'Q': shape overflows"},
    {Q("\"F32\"", "[0,4294967296,4294967296]", "[0,0]"), 0, "tensor 'Q': shape overflows"},
    {Q("\"F32\"", "[2305843009213693952]", "[0,4]"), 4, "tensor 'Q': shape overflows"},
    {Q("\"F32\"", "[1]", "[0]"), 4, "tensor 'Q': data_offsets is not a pair of sizes"},
    {Q("\"F32\"", "[1]", "{}"), 4, "tensor 'Q': data_offsets is not a pair of sizes"},
    {Q("\"F32\"", "[1]", "[-4,0]"), 4, "tensor 'Q': data_offsets is not a pair of sizes"},
    {Q("\"F32\"", "[1]", "[0,\"4\"]"), 4,
     "tensor 'Q': data_offsets is not a pair of sizes"},
    {Q("\"F32\"", "[1]", "[4,0]"), 4, "tensor 'Q': data_offsets lie outside the file"},
    {Q("\"F32\"", "[2]", "[0,8]"), 7, "tensor 'Q': data_offsets lie outside the file"},
    {Q("\"F32\"", "[1]", "[9223372036854775803,9223372036854775807]"), 4,
     "tensor 'Q': data_offsets lie outside the file"},
    {Q("\"F32\"", "[2]", "[0,4]"), 4, "tensor 'Q': shape and offsets disagree"},
    {Q("\"F4\"", "[3]", "[0,1]"), 1, "tensor 'Q': shape and offsets disagree"},
    {Q("\"F32\"", "[1]", "[4,8]"), 8, "tensor 'Q': has unused bytes before it"},
    {Q("\"F32\"", "[1]", "[0,4]"), 7, "3 bytes after the last tensor belong to none"},
    {"{}", 1, "1 bytes after the last tensor belong to none"},
    {"{\"Q\":" ENTRY("\"F32\"", "[2]", "[0,8]") ",\"K\":" ENTRY("\"F32\"", "[1]",
                                                                "[4,8]") "}",
     8, "tensor 'K': overlaps another tensor"},
    {"{\"Q\":" ENTRY("\"F32\"", "[1]", "[0,4]") ",\"K\":" ENTRY("\"F32\"", "[1]",
                                                                "[0,4]") "}",
     4, "overlaps another tensor"},
    {"{\"Q\":" ENTRY("\"F32\"", "[2]", "[0,8]") ",\"K\":" ENTRY("\"F32\"", "[0]",
                                                                "[4,4]") "}",
     8, "tensor 'K': overlaps another tensor"},
    {"{\"a\\u001b[2J\\u00e9\\\\\":3}", 0, "tensor 'a\\x1b[2J\\xc3\\xa9\\x5c': its entry"},
    {"{\"0123456789012345678901234567890123456789012345678901234567890123456789\":3}", 0,
     "tensor '0123456789012345678901234567890123456789012345678901234567890123...': its"},
};

static void test_hostile(void **state) {
    (void)state;
    static const uint8_t zeros[16];
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        size_t length;
        uint8_t *bytes = make_bytes(hostile[i].header, zeros, hostile[i].data, &length);
        lipsc_st *st = NULL;
        lipsc_error err;
        const lipsc_status status = lipsc_st_parse(bytes, length, "FILE", &st, &err);
        if (status != LIPSC_E_FORMAT || strncmp(err.text, "FILE: ", 6) != 0 ||
            !strstr(err.text, hostile[i].says))
            fail_msg("header %s: status %d, '%s'", hostile[i].header, status, err.text);
        assert_null(st);
        assert_int_equal(lipsc_st_parse(bytes, length, "FILE", &st, NULL), LIPSC_E_FORMAT);
        free(bytes);
    }
}

static void test_header_length(void **state) {
    (void)state;
    static const struct {
        uint8_t bytes[10];
        size_t length;
        const char *says;
    } cases[] = {
        {{0}, 0, "FILE: 0 bytes are too few for a safetensors file"},
        {{2}, 7, "FILE: 7 bytes are too few for a safetensors file"},
        {{3, 0, 0, 0, 0, 0, 0, 0, '{', '}'}, 10, "a header of 3 bytes, but only 2 follow"},
        {{255, 255, 255, 255, 255, 255, 255, 255, '{', '}'},
         10,
         "a header of 18446744073709551615 bytes, but only 2 follow"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lipsc_st *st;
        lipsc_error err;
        assert_int_equal(lipsc_st_parse(cases[i].bytes, cases[i].length, "FILE", &st, &err),
                         LIPSC_E_FORMAT);
        if (!strstr(err.text, cases[i].says)) fail_msg("'%s'", err.text);
    }
    /* A header that fits the file but not the format: 100000001 spaces. */
    const size_t length = 8 + 100000001;
    uint8_t *large = calloc(length, 1);
    if (!large) skip();
    for (int i = 0; i < 8; i++) large[i] = (uint8_t)((length - 8) >> (8 * i));
    lipsc_st *st;
    lipsc_error err;
    assert_int_equal(lipsc_st_parse(large, length, "FILE", &st, &err), LIPSC_E_FORMAT);
    assert_string_equal(
        err.text, "FILE: a header of 100000001 bytes is beyond the limit of 100000000");
    free(large);
}

static void test_offset_in_error(void **state) {
    (void)state;
    lipsc_st *st;
    lipsc_error err;
    size_t length;
    uint8_t *bytes = make_bytes("{\"a\" 1}", NULL, 0, &length);
    assert_int_equal(lipsc_st_parse(bytes, length, "FILE", &st, &err), LIPSC_E_FORMAT);
    assert_int_equal(err.offset, 8 + 6); /* after the 1, where ':' should have been */
    free(bytes);
}

static void test_every_prefix_fails(void **state) {
    (void)state;
    size_t length;
    uint8_t *bytes = make_bytes(good_header, good_data, sizeof good_data, &length);
    for (size_t cut = 0; cut < length; cut++) {
        uint8_t *prefix = malloc(cut ? cut : 1);
        assert_non_null(prefix);
        memcpy(prefix, bytes, cut);
        lipsc_st *st = NULL;
        lipsc_error err;
        assert_int_equal(lipsc_st_parse(prefix, cut, "FILE", &st, &err), LIPSC_E_FORMAT);
        assert_true(strlen(err.text) > strlen("FILE: "));
        assert_null(st);
        free(prefix);
    }
    free(bytes);
}

/* A checkpoint has hundreds of tensors; a thousand must all be found. */
static void test_many(void **state) {
    (void)state;
    enum { MANY = 1000 };
    char *header = malloc(MANY * 100);
    assert_non_null(header);
    size_t used = 0, length;
    for (size_t i = 0; i < MANY; i++)
        used += (size_t)snprintf(
            header + used, 100,
            "%c\"layer.%zu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
            i ? ',' : '{', i, MANY - 1 - i, MANY - i);
    snprintf(header + used, 2, "}");
    uint8_t data[MANY] = {0};
    uint8_t *bytes = make_bytes(header, data, MANY, &length);
    lipsc_st *st;
    assert_int_equal(lipsc_st_parse(bytes, length, "many", &st, NULL), LIPSC_OK);
    for (size_t i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer.%zu", i);
        const lipsc_st_tensor *t = lipsc_st_find(st, name);
        assert_non_null(t);
        assert_ptr_equal(t->data, bytes + length - 1 - i);
    }
    lipsc_st_free(st);
    free(bytes);
    free(header);
}

/* ---- files ---- */

static char folder[] = "/tmp/lipscope-test-XXXXXX";

static char *in_folder(const char *name) {
    static char path[sizeof folder + 256]; /* a name has up to 255 bytes */
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

/* Removes everything in the folder and tells how many files there were. */
static int empty_folder(void) {
    DIR *dir = opendir(folder);
    int files = 0;
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        files++;
        remove(in_folder(e->d_name));
    }
    closedir(dir);
    return files;
}

static int remove_folder(void **state) {
    (void)state;
    empty_folder();
    return rmdir(folder);
}

static void put(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static size_t get(const char *path, char *buffer, size_t room) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t size = fread(buffer, 1, room, f);
    fclose(f);
    return size;
}

static void test_map(void **state) {
    (void)state;
    lipsc_mapfile map;
    lipsc_error err;
    char want[256];
    put(in_folder("empty"), "");
    assert_int_equal(lipsc_mapfile_open(in_folder("empty"), &map, &err), LIPSC_OK);
    assert_int_equal(map.size, 0);
    assert_non_null(map.data);
    lipsc_mapfile_close(&map);
    put(in_folder("three"), "abc");
    assert_int_equal(lipsc_mapfile_open(in_folder("three"), &map, &err), LIPSC_OK);
    assert_int_equal(map.size, 3);
    assert_memory_equal(map.data, "abc", 3);
    lipsc_mapfile_forget(&map, map.data + 1, 2);
    lipsc_mapfile_forget(&map, map.data + 1, 3); /* beyond its end */
    assert_memory_equal(map.data, "abc", 3);     /* read again */
    lipsc_mapfile_close(&map);
    lipsc_mapfile_close(&map);

    assert_int_equal(lipsc_mapfile_open(folder, &map, &err), LIPSC_E_IO);
    snprintf(want, sizeof want, "%s: is a directory, not a file", folder);
    assert_string_equal(err.text, want);
    assert_int_equal(lipsc_mapfile_open(in_folder("no"), &map, &err), LIPSC_E_IO);
    snprintf(want, sizeof want, "%s/no: cannot open: No such file or directory", folder);
    assert_string_equal(err.text, want);
    assert_int_equal(lipsc_mapfile_open("/dev/null", &map, &err), LIPSC_E_IO);
    assert_string_equal(err.text, "/dev/null: is not a regular file");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    assert_int_equal(lipsc_mapfile_open(in_folder("pipe"), &map, NULL), LIPSC_E_IO);
    lipsc_st *st;
    assert_int_equal(lipsc_st_open(in_folder("three"), &st, &err), LIPSC_E_FORMAT);
    empty_folder();
}

/* The reason must survive a path of any length. */
static void test_long_path(void **state) {
    (void)state;
    char path[1001], shown[LIPSC_SHOWN_PATH];
    memset(path, 'a', 1000);
    path[1000] = '\0';
    lipsc_mapfile map;
    lipsc_error err;
    assert_int_equal(lipsc_mapfile_open(path, &map, &err), LIPSC_E_IO);
    assert_non_null(strstr(err.text, "aaa: cannot open: File name too long"));
    assert_int_equal(strncmp(err.text, "...aaa", 6), 0);

    for (size_t i = 0; i < 1000; i += 2) memcpy(path + i, "\xc3\xa9", 2);
    lipsc_show_path(path, shown);
    assert_memory_equal(shown, "...\xc3\xa9", 5); /* no half letter */
    memset(path, 0x1b, 1000);
    lipsc_show_path(path, shown);
    assert_memory_equal(shown, "...\\x1b\\x1b", 11);
    lipsc_show_path("a\nb", shown);
    assert_string_equal(shown, "a\\x0ab");
    size_t shape[40];
    char shape_text[LIPSC_SHOWN_SHAPE];
    for (int i = 0; i < 40; i++) shape[i] = SIZE_MAX;
    lipsc_show_shape(40, shape, shape_text);
    assert_non_null(strstr(shape_text, "...)"));
    lipsc_show_shape(0, NULL, shape_text);
    assert_string_equal(shape_text, "()");
}

static const size_t shape_2[1] = {2}, shape_13[2] = {1, 3}, shape_0[2] = {5, 0};
static const double two[2] = {1.5, -0.0}, three[3] = {0.1, INFINITY, 0x1p-149};

/* The bytes the format prescribes for these items, written down by hand. */
static void test_write_bytes(void **state) {
    (void)state;
    const lipsc_st_item items[] = {
        {"s", LIPSC_F32, 1, shape_2, two},
        {"d", LIPSC_F64, 2, shape_13, three},
        {"e", LIPSC_F32, 2, shape_0, NULL},
        {"x", LIPSC_F64, 0, NULL, three},
    };
    const lipsc_st_note note = {"k", "a \"b\""};
    static const char header[] =
        "{\"__metadata__\":{\"k\":\"a \\\"b\\\"\"},"
        "\"d\":{\"dtype\":\"F64\",\"shape\":[1,3],\"data_offsets\":[0,24]},"
        "\"x\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[24,32]},"
        "\"s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[32,40]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[5,0],\"data_offsets\":[40,40]}}";
    static const uint8_t data[40] = {
        0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f, 0,    0,    0,    0,    0,    0,
        0xf0, 0x7f, 0,    0,    0,    0,    0,    0,    0xa0, 0x36, 0x9a, 0x99, 0x99, 0x99,
        0x99, 0x99, 0xb9, 0x3f, 0,    0,    0xc0, 0x3f, 0,    0,    0,    0x80};
    lipsc_error err;
    char got[1024];
    assert_int_equal(lipsc_st_write(in_folder("out"), items, 4, &note, 1, &err), LIPSC_OK);
    const size_t size = get(in_folder("out"), got, sizeof got);
    const size_t padded = (sizeof header - 1 + 7) / 8 * 8;
    assert_int_equal(size, 8 + padded + sizeof data);
    assert_int_equal((uint8_t)got[0], padded & 0xff);
    assert_int_equal((uint8_t)got[1], padded >> 8);
    assert_memory_equal(got + 2, "\0\0\0\0\0\0", 6);
    assert_memory_equal(got + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < padded; i++) assert_int_equal(got[8 + i], ' ');
    assert_memory_equal(got + 8 + padded, data, sizeof data);

    lipsc_st *st;
    float f[2];
    assert_int_equal(lipsc_st_open(in_folder("out"), &st, &err), LIPSC_OK);
    assert_string_equal(lipsc_st_metadata(st, "k"), "a \"b\"");
    assert_int_equal(lipsc_st_read_f32(st, lipsc_st_find(st, "s"), 0, 2, f, &err), 0);
    assert_true(f[0] == 1.5f && f[1] == 0 && signbit(f[1]));
    lipsc_st_free(st);
    assert_int_equal(empty_folder(), 1); /* nothing beside the file itself */
}

static void test_write_refuses(void **state) {
    (void)state;
    const double large = 1e300;
    const size_t one[1] = {1}, huge[3] = {0, SIZE_MAX / 2, 4};
    const struct {
        lipsc_st_item items[2];
        size_t count;
        const char *says;
    } cases[] = {
        {{{"a", LIPSC_F64, 0, NULL, two}, {"a", LIPSC_F32, 0, NULL, two}},
         2,
         "name is taken"},
        {{{"__metadata__", LIPSC_F64, 0, NULL, two}}, 1, "the name is taken"},
        {{{"\xff", LIPSC_F64, 0, NULL, two}},
         1,
         "tensor '\\xff' cannot be written: the name "
         "is not UTF-8"},
        {{{"a", LIPSC_F32, 1, one, &large}}, 1, "a value is beyond the range of F32"},
        {{{"a", LIPSC_F32, 3, huge, NULL}}, 1, "its shape overflows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lipsc_error err;
        assert_int_equal(
            lipsc_st_write(in_folder("out"), cases[i].items, cases[i].count, NULL, 0, &err),
            LIPSC_E_ARG);
        if (!strstr(err.text, cases[i].says)) fail_msg("'%s'", err.text);
    }
    const lipsc_st_note note = {"k", "\xff"};
    assert_int_equal(lipsc_st_write(in_folder("out"), NULL, 0, &note, 1, NULL),
                     LIPSC_E_ARG);
    assert_int_equal(empty_folder(), 0);
}

/* A file size limit stands for a full disk: the write fails half way. */
static void test_write_fails_cleanly(void **state) {
    (void)state;
    enum { COUNT = 10000 };
    static const double zeros[COUNT];
    const size_t shape[1] = {COUNT};
    const lipsc_st_item item = {"a", LIPSC_F64, 1, shape, zeros};
    lipsc_error err;
    char got[16] = "";
    put(in_folder("out"), "precious");

    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 4096;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const lipsc_status status = lipsc_st_write(in_folder("out"), &item, 1, NULL, 0, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, old);

    assert_int_equal(status, LIPSC_E_IO);
    assert_non_null(strstr(err.text, "/out: cannot write: File too large"));
    assert_int_equal(get(in_folder("out"), got, sizeof got), 8);
    assert_string_equal(got, "precious");

    assert_int_equal(lipsc_st_write("/dev/full", &item, 1, NULL, 0, &err), LIPSC_E_IO);
    assert_string_equal(err.text, "/dev/full: cannot write: No space left on device");
    assert_int_equal(lipsc_st_write("/dev/null", &item, 1, NULL, 0, &err), LIPSC_OK);
    assert_int_equal(lipsc_st_write(folder, &item, 1, NULL, 0, &err), LIPSC_E_IO);
    assert_non_null(strstr(err.text, ": cannot write: Is a directory"));
    assert_int_equal(lipsc_st_write(in_folder("no/out"), &item, 1, NULL, 0, &err),
                     LIPSC_E_IO);
    assert_non_null(strstr(err.text, "/no/out: cannot create: No such file or directory"));
    assert_int_equal(lipsc_st_write("", &item, 1, NULL, 0, &err), LIPSC_E_IO);
    assert_int_equal(empty_folder(), 1); /* no temporary file is left */
}

/* Replacing keeps the file's mode, and a link stays a link. */
static void test_write_replaces(void **state) {
    (void)state;
    const lipsc_st_item item = {"a", LIPSC_F64, 1, shape_2, two};
    char link[128];
    struct stat info;
    put(in_folder("file"), "old");
    assert_int_equal(chmod(in_folder("file"), 0640), 0);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(lipsc_st_write(link, &item, 1, NULL, 0, NULL), LIPSC_OK);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(lstat(in_folder("file"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    lipsc_st *st;
    assert_int_equal(lipsc_st_open(in_folder("file"), &st, NULL), LIPSC_OK);
    lipsc_st_free(st);
    assert_int_equal(empty_folder(), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_header_length),
        cmocka_unit_test(test_offset_in_error),
        cmocka_unit_test(test_every_prefix_fails),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_long_path),
        cmocka_unit_test(test_write_bytes),
        cmocka_unit_test(test_write_refuses),
        cmocka_unit_test(test_write_fails_cleanly),
        cmocka_unit_test(test_write_replaces),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

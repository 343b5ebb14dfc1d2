/* test_device.c - devices by name; memory that only its own device may touch; the same bits
 * on the CPU and on the guard. */
#define _POSIX_C_SOURCE 200809L /* fork */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/backend.h"
#include "layers.h"
#include "lipscope.h"

static lipsc_device *open_one(const char *name) {
    lipsc_device *device;
    lipsc_error err;
    if (lipsc_device_open(name, 2, &device, &err)) fail_msg("%s", err.text);
    return device;
}

static void test_names(void **state) {
    (void)state;
    static const char *const none[] = {"",       "cp", "cpu:",    "cpu:x",
                                       "cpu:1x", ":0", "guard:2", "cpu:1"};
    lipsc_device *device;
    lipsc_error err;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        err.text[0] = '\0';
        assert_int_equal(lipsc_device_open(none[i], 0, &device, &err), LIPSC_E_BACKEND);
        assert_true(strlen(err.text) > 10);
    }
    assert_int_equal(lipsc_device_open("cpu", -1, &device, &err), LIPSC_E_ARG);
    static const char *const names[] = {"cpu", "cpu:0", "guard", NULL, "auto"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        device = open_one(names[i]);
        assert_int_equal(lipsc_device_threads(device), 2);
        lipsc_device_close(device);
    }
    lipsc_device_close(NULL);
    assert_string_equal(lipsc_device_name(NULL), "cpu");
    assert_true(lipsc_device_threads(NULL) >= 1);
}

static void test_list(void **state) {
    (void)state;
    lipsc_device_info info;
    const size_t count = lipsc_device_count();
    assert_true(count >= 2);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(lipsc_device_describe(i, &info), LIPSC_OK);
        assert_true(info.name[0] && info.about[0]);
    }
    assert_int_equal(lipsc_device_describe(0, &info), LIPSC_OK);
    assert_string_equal(info.name, "cpu");
    assert_true(info.usable);
    assert_int_equal(lipsc_device_describe(count, &info), LIPSC_E_ARG);
}

/* ---- What ends the program: buffers that lie about their memory ---------------------- */

#if !defined(__SANITIZE_ADDRESS__) /* which reports the signal in its own way */
static void touch(const lipsc_space *s, lipsc_buffer x) {
    (void)s;
    *(volatile double *)x.at = 1.0;
}
#endif
static void host_pointer(const lipsc_space *s, lipsc_buffer x) {
    (void)x;
    double host[4] = {0};
    (void)!lipsc_space_scale(s, 4, 2.0, lipsc_space_view(s, 4, host));
}
static void one_too_many(const lipsc_space *s, lipsc_buffer x) {
    (void)!lipsc_space_scale(s, 5, 2.0, lipsc_space_view(s, 5, x.at));
}
static void after_release(const lipsc_space *s, lipsc_buffer x) {
    lipsc_space_release(s, x);
    (void)!lipsc_space_scale(s, 4, 2.0, x);
}
static void released_twice(const lipsc_space *s, lipsc_buffer x) {
    lipsc_space_release(s, x);
    lipsc_space_release(s, x);
}
static void beyond_host(const lipsc_space *s, lipsc_buffer x) {
    const lipsc_buffer next = lipsc_space_view(s, 1, (char *)x.at + 4 * s->item);
    (void)!lipsc_space_download(s, 1, next, (double[1]){0});
}

/* The signal that ends a process which does it. */
static int signal_of(void (*crime)(const lipsc_space *, lipsc_buffer)) {
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        lipsc_device *device = open_one("guard");
        const lipsc_space *s = lipsc_device_space(device, LIPSC_F64);
        const lipsc_buffer x = lipsc_space_alloc(s, 4);
        if (x.at && !lipsc_space_scale(s, 4, 1.0, x)) crime(s, x);
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}

static void test_guarded(void **state) {
    (void)state;
#if !defined(__SANITIZE_ADDRESS__)
    assert_int_equal(signal_of(touch), SIGSEGV);
#endif
    assert_int_equal(signal_of(host_pointer), SIGABRT);
    assert_int_equal(signal_of(one_too_many), SIGABRT);
    assert_int_equal(signal_of(after_release), SIGABRT);
    assert_int_equal(signal_of(released_twice), SIGABRT);
    assert_int_equal(signal_of(beyond_host), SIGABRT);
}

/* ---- What it computes --------------------------------------------------------------- */

static void test_new_memory(void **state) {
    (void)state;
    lipsc_device *device = open_one("guard");
    for (int t = 0; t < 2; t++) {
        const lipsc_space *s = lipsc_device_space(device, (lipsc_dtype)t);
        double host[3] = {0.0, 0.0, 0.0};
        const lipsc_buffer x = lipsc_space_alloc(s, 3);
        assert_non_null(x.at);
        assert_int_equal(lipsc_space_download(s, 3, x, host), LIPSC_OK);
        for (size_t i = 0; i < 3; i++) assert_true(isnan(host[i]));
        lipsc_space_release(s, x);
        lipsc_space_release(s, LIPSC_NOWHERE);
        assert_null(lipsc_space_alloc(s, SIZE_MAX).at);
    }
    lipsc_device_close(device);
}

static double sigma_on(const test_layer *t, lipsc_dtype dtype, const lipsc_device *device) {
    lipsc_svd_settings set;
    lipsc_attn *attn;
    lipsc_error err;
    double sigma = NAN;
    lipsc_svd_defaults(&set);
    if (lipsc_attn_new(&t->layer, &t->input, dtype, device, &attn, &err))
        fail_msg("%s", err.text);
    assert_int_equal(lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, NULL), LIPSC_OK);
    lipsc_attn_free(attn);
    return sigma;
}

static void test_same_bits(void **state) {
    (void)state;
    lipsc_device *cpu = open_one("cpu"), *guard = open_one("guard"),
                 *other = open_one("guard");
    for (unsigned seed = 1; seed <= 6; seed++) {
        test_layer t = random_layer(seed, seed % 2 ? FEATURE_WEIGHTS : 0);
        for (int type = 0; type < 2; type++) {
            const double want = sigma_on(&t, (lipsc_dtype)type, NULL);
            assert_true(want > 0.0);
            assert_true(sigma_on(&t, (lipsc_dtype)type, cpu) == want);
            assert_true(sigma_on(&t, (lipsc_dtype)type, guard) == want);
            assert_true(sigma_on(&t, (lipsc_dtype)type, other) == want);
        }
        test_layer_free(&t);
    }
    lipsc_device_close(cpu);
    lipsc_device_close(guard);
    lipsc_device_close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),     cmocka_unit_test(test_list),
        cmocka_unit_test(test_guarded),   cmocka_unit_test(test_new_memory),
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

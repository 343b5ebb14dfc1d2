/* test_claims.c - verdicts of `reproduce`: what is not finite holds nowhere, an unmet
 * hypothesis and the quick form are not judged, a refused bound is not skipped, a growth
 * law is judged by its interval. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "small_layer.h"

#include "claims/law.h"
#include "test_device.h"

/* ---- In place of the table --------------------------------------- */

static const claims_entry table[] = {
    {"most", "1", LIPSC_CLAIM_SPLIT, LIPSC_CLAIM_PROVED_HERE, "at most", "here",
     CLAIMS_AT_MOST, 2.0, 0.1, NULL, NULL, 0},
    {"least", "1", LIPSC_CLAIM_SPLIT, LIPSC_CLAIM_REGRESSION, "at least", "ours",
     CLAIMS_AT_LEAST, 2.0, 0.1, NULL, NULL, 0},
    {"equal", "1", LIPSC_CLAIM_SPLIT, LIPSC_CLAIM_PAPER_FIGURE, "equals", "drawn",
     CLAIMS_EQUALS, 2.0, 0.1, NULL, "the paper's model", 0},
    {"growth-defined", "8", LIPSC_CLAIM_TEXT, LIPSC_CLAIM_PAPER_FIGURE, "sigma", "",
     CLAIMS_EQUALS, 0.0, 0.02, NULL, NULL, 1},
    {"growth-released", "8", LIPSC_CLAIM_TEXT, LIPSC_CLAIM_PAPER_FIGURE, "released", "",
     CLAIMS_EQUALS, 0.0, 0.02, NULL, NULL, 1},
    {"radius", "8", LIPSC_CLAIM_TEXT, LIPSC_CLAIM_PAPER_FIGURE, "tokens grow", "",
     CLAIMS_AT_LEAST, 0.0, 0.0, NULL, NULL, 1},
    {"second-text", "8", LIPSC_CLAIM_TEXT, LIPSC_CLAIM_PAPER_FIGURE, "texts", "",
     CLAIMS_AT_MOST, 0.0, 0.0, NULL, NULL, 0}};

const claims_entry *claims_find(const char *id) {
    for (size_t c = 0; c < sizeof table / sizeof *table; c++)
        if (!strcmp(table[c].id, id)) return &table[c];
    return NULL;
}
int claims_is_published(claims_work *who, const char *spec, const char *architecture) {
    (void)who, (void)architecture;
    return !strcmp(spec, "gpt2");
}
const char *lipsc_claim_source_name(lipsc_claim_source source) {
    return source ? "other" : "first";
}

/* ---- One run file -------------------------------------------------------------------- */

static char folder[] = "/tmp/lipscope-claims-XXXXXX";
static lipsc_claims_settings settings;
static claims_work r = {.set = &settings};

static int begin(void **state) {
    (void)state;
    char path[64];
    json_t *none = json_object();
    static const char *const fields[] = {"name"};
    const lipsc_run_options how = {.command = "reproduce",
                                   .command_line = "lipscope reproduce",
                                   .settings = none,
                                   .field_count = 1,
                                   .fields = fields};
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/run.db", folder);
    const int failed = lipsc_run_open(path, &how, &r.run, NULL) != LIPSC_OK;
    json_decref(none);
    return failed ? -1 : 0;
}

static int end(void **state) {
    (void)state;
    lipsc_run_close(r.run);
    return folder_drop(folder);
}

/* holds, and words in `measured`, of a line. */
static void expect(const char *name, const char *holds, const char *words) {
    char key[64];
    json_t *row = NULL;
    snprintf(key, sizeof key, "line: %s", name);
    assert_int_equal(lipsc_run_get(r.run, key, &row, NULL), LIPSC_OK);
    assert_non_null(row);
    assert_string_equal(json_string_value(json_object_get(row, "holds")), holds);
    if (!strstr(json_string_value(json_object_get(row, "measured")), words))
        fail_msg("%s: %s", name, json_string_value(json_object_get(row, "measured")));
    json_decref(row);
}

static void say(const char *id, double value, const char *holds, const char *words) {
    claims_say(&r, id, value, "measured %g", value);
    assert_int_equal(r.status, LIPSC_OK);
    expect(id, holds, words);
}

/* ---- Tests --------------------------------------------------------------------------- */

static void compared(void **state) {
    (void)state;
    say("most", 2.19, "yes", "measured 2.19");
    say("most", 2.3, "no", "measured 2.3");
    say("least", 1.81, "yes", "measured");
    say("least", 1.7, "no", "measured");
    say("equal", 2.09, "yes", "measured");
    say("equal", 1.8, "no", "measured");
}

/* nothing met leaves the infinity that the search for a least value began with */
static void not_finite(void **state) {
    (void)state;
    say("most", NAN, "no", "could not be computed");
    say("most", -INFINITY, "no", "could not be computed");
    say("least", NAN, "no", "could not be computed");
    say("least", INFINITY, "no", "could not be computed");
    say("equal", NAN, "no", "could not be computed");
    double most = 1.0, least = 1.0;
    claims_raise(&most, NAN);
    claims_raise(&most, 3.0);
    claims_lower(&least, NAN);
    claims_lower(&least, 0.5);
    assert_true(isnan(most) && isnan(least));
}

static void not_judged(void **state) {
    (void)state;
    claims_line line = claims_line_of("equal");
    line.unmet = "another model";
    claims_judge(&r, &line, 7.0, "seven");
    expect("equal", "not judged", "seven; not judged: another model");
    claims_pass(&r, "most", "give %s", "--bert");
    expect("most", "not judged", "give --bert");
}

static void quick(void **state) {
    (void)state;
    settings.quick = 1;
    say("most", 1.0, "not judged", "measured");
    say("most", 3.0, "no", "measured"); /* a counterexample */
    say("least", 1.0, "no", "measured");
    say("equal", 2.0, "not judged", "measured");
    say("equal", 9.0, "not judged", "measured"); /* a figure from few lengths */
    settings.quick = 0;
}

static void spoiled(void **state) {
    (void)state;
    settings.spoil = "most";
    say("most", 1.0, "no", "measured");
    say("least", 2.0, "yes", "measured");
    settings.spoil = NULL;
}

/* A bound that is refused where its hypotheses hold is not skipped. */
static void refused(void **state) {
    (void)state;
    static double X[] = {-1.0, 1.0, 1.0};
    const lipsc_input input = {.n = 3, .X = X};
    small_layer s;
    lipsc_attn *attn = NULL;
    lipsc_zoo_case z;
    lipsc_zoo_row row;
    claims_record record = {0};
    const claims_line line = claims_line_of("most");
    small_identity(&s, 1, -1.0);
    assert_int_equal(
        lipsc_attn_new(&s.layer, &input, LIPSC_F64, test_device(1), &attn, NULL), LIPSC_OK);
    assert_int_equal(lipsc_zoo_case_make(attn, NAN, 2.0, NULL, &z, NULL), LIPSC_OK);
    const lipsc_zoo_rule *rule = lipsc_zoo_find("data-columns");
    assert_int_equal(lipsc_zoo_evaluate(&z, rule, &row), LIPSC_OK);
    claims_record_add(&record, &z, &row, 0.50005 * row.value);
    claims_record_say(&r, &line, &record);
    expect("most", "yes", "largest exact / bound 0.5000 where n >= 2 and a >= 0.5 (1 of 1");
    lipsc_zoo_row told = row;
    snprintf(told.refused, sizeof told.refused, "no digits left");
    claims_record_add(&record, &z, &told, 1.0);
    claims_record_say(&r, &line, &record);
    expect("most", "not judged",
           "refused at 1 inputs where its hypotheses hold: no digits");
    /* outside its hypotheses: nothing is claimed there, and where it is so everywhere the
     * reason is told */
    claims_record outside = {0};
    assert_int_equal(lipsc_zoo_evaluate(&z, lipsc_zoo_find("masked-uniform"), &row),
                     LIPSC_OK);
    claims_record_add(&outside, &z, &row, 1.0);
    claims_record_say(&r, &line, &outside);
    expect("most", "not judged", "refused at every input: no mask");
    /* a bound of zero under a positive constant is a violation, a NaN is kept */
    lipsc_zoo_row zero = {.rule = rule, .log_value = NAN, .value = 0.0};
    claims_record violated = {0}, lost = {0};
    claims_record_add(&violated, &z, &zero, 1e-300);
    assert_true(violated.largest == INFINITY);
    claims_record_add(&violated, &z, &zero, 0.0);
    assert_int_equal(lipsc_zoo_evaluate(&z, rule, &row), LIPSC_OK);
    claims_record_add(&lost, &z, &row, NAN);
    claims_record_add(&lost, &z, &row, 1.0);
    assert_true(isnan(lost.largest) && isnan(lost.tight));
    lipsc_zoo_case_free(&z);
    lipsc_attn_free(attn);
    lipsc_head_facts_free(&s.facts);
}

/* ---- Growth laws --------------------------------------------------------------------- */

static lipsc_fit law_of(double low, double high, size_t starts, int straight) {
    return (lipsc_fit){.exponent = 0.25,
                       .coefficient = 2.0,
                       .low = low,
                       .high = high,
                       .law = straight,
                       .lengths = 5,
                       .starts = starts};
}

/* The verdict on a drawn n^0.25 of a curve whose interval this is. */
static void growth(const lipsc_fit *f, int own, const char *holds, const char *words) {
    const claims_curve c = {.name = "c", .spec = "gpt2", .own = own, .drawn_for = "GPT-2"};
    const claims_drawn drawn = {2.0, 0.25};
    const claims_laws laws = {.defined = *f, .released = *f, .radius = *f};
    claims_law_lines(&r, &c, 3, &drawn, &laws, 1);
    assert_int_equal(r.status, LIPSC_OK);
    expect("growth-defined: c, layer 3", holds, words);
    expect("growth-released: c, layer 3", holds, words);
}

static void judged_by_intervals(void **state) {
    (void)state;
    const lipsc_fit around = law_of(0.2, 0.3, 10, 1), beside = law_of(0.05, 0.1, 10, 1),
                    bent = law_of(0.2, 0.3, 10, 0), few = law_of(NAN, NAN, 5, 1),
                    lost = law_of(NAN, NAN, 10, 1);
    growth(&around, 1, "not judged", "the built-in text");
    settings.texts.count = 1;
    growth(&around, 1, "yes", "2 n^0.25 [0.20, 0.30]");
    growth(&beside, 1, "no", "[0.05, 0.10]");
    growth(&bent, 1, "not judged", "the slope fits, a straight line does not");
    growth(&few, 1, "not judged", "windows with 5 starts, an interval needs 6");
    growth(&lost, 1, "not judged", "no interval could be computed");
    growth(&around, 0, "not judged", "not the paper's model");
    settings.quick = 1;
    growth(&around, 1, "not judged", "[0.20, 0.30]");
    growth(&beside, 1, "not judged", "[0.05, 0.10]");
    settings.quick = 0;
    settings.texts.count = 0;
}

/* An interval around zero shows neither growth nor its absence. */
static void radius_by_interval(void **state) {
    (void)state;
    const lipsc_fit grows = law_of(0.01, 0.1, 6, 1), falls = law_of(-0.2, -0.1, 6, 1),
                    open = law_of(-0.1, 0.1, 6, 1);
    settings.texts.count = 1;
    growth(&grows, 1, "no", "");
    expect("radius: c, layer 3", "yes", "");
    growth(&falls, 1, "no", "");
    expect("radius: c, layer 3", "no", "");
    growth(&open, 1, "no", "");
    expect("radius: c, layer 3", "not judged", "room for growth and for none");
    settings.texts.count = 0;
}

static void texts_by_intervals(void **state) {
    (void)state;
    lipsc_fit fits[] = {law_of(0.2, 0.3, 10, 1), law_of(0.29, 0.5, 10, 1),
                        law_of(0.31, 0.5, 10, 1), law_of(NAN, NAN, 3, 1)};
    r.decoder = "gpt2";
    claims_texts_line(&r, 1, fits);
    expect("second-text", "not judged", "give a second text");
    claims_texts_line(&r, 2, fits);
    expect("second-text", "yes", "the intervals meet");
    claims_texts_line(&r, 3, fits);
    expect("second-text", "no", "the intervals do not meet");
    claims_texts_line(&r, 4, fits);
    expect("second-text", "not judged", "windows with 3 starts");
    r.decoder = "another";
    claims_texts_line(&r, 2, fits);
    expect("second-text", "not judged", "not the paper's model");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(compared),
                                       cmocka_unit_test(not_finite),
                                       cmocka_unit_test(not_judged),
                                       cmocka_unit_test(quick),
                                       cmocka_unit_test(spoiled),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(judged_by_intervals),
                                       cmocka_unit_test(radius_by_interval),
                                       cmocka_unit_test(texts_by_intervals)};
    return cmocka_run_group_tests(tests, begin, end);
}

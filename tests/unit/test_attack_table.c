/* test_attack_table.c - which tokens a worst input moved most, as words: rows made by hand.
 */
#define _POSIX_C_SOURCE 200809L
#include "attack_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_device.h"

/* in place of place.c, which brings all options with it */
const char *cli_place_words(const cli_place *s, const char *spec, const lipsc_place *of,
                            char words[CLI_PLACE_WORDS]) {
    (void)s, (void)spec, (void)of;
    snprintf(words, CLI_PLACE_WORDS, "a layer");
    return words;
}

/* and of args.c, which brings the ranks */
int cli_failure(const cli_command *self, const char *format, ...) {
    (void)self, (void)format;
    return CLI_FAILED;
}

static const char *const from = "builtin:gpt2-nano";
enum { TOKENS = 8, LONGEST = 12, WINDOW = 2, ROOM = 4000 };

static cli_place set;
static lipsc_place *place;

static int open_place(void **state) {
    (void)state;
    lipsc_place_options of;
    lipsc_error err = {.text = ""};
    lipsc_place_defaults(&of);
    of.from = from;
    of.source.text = "builtin:lighthouse";
    of.device = test_device(1);
    if (lipsc_place_open(&of, &place, &err)) fail_msg("%s", err.text);
    set = (cli_place){.source = of.source, .window = WINDOW};
    return 0;
}

static int close_place(void **state) {
    (void)state;
    lipsc_place_close(place);
    return 0;
}

/* What stands on the screen, lines joined. */
static void screen_of(const lipsc_attack_row *row, char text[ROOM]) {
    lipsc_attack_row copy = *row;
    const lipsc_attacks found = {.count = 1, .rows = &copy};
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    assert_true(kept >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    const size_t longest = LONGEST;
    const lipsc_attacks_settings asked = {.lengths = {1, &longest}};
    const cli_command self = {.name = "attack"};
    const int code = attack_print(&self, &set, from, place, &asked, 0, &found);
    fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    close(kept);
    rewind(file);
    text[fread(text, 1, ROOM - 1, file)] = '\0';
    fclose(file);
    assert_int_equal(code, CLI_DONE);
    assert_null(strstr(text, " \"\n")); /* no line ends within " a" */
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' ';
}

/* sentence NULL: none about tokens that moved */
static void says(const char *domain, const char *start, const double *moved,
                 const char *sentence) {
    char text[ROOM];
    const lipsc_attack_row row = {.n = TOKENS,
                                  .radius = 0.5,
                                  .domain = domain,
                                  .start = start,
                                  .sigma = 2.0,
                                  .given = 1.0,
                                  .relative = 0.1,
                                  .best_construction = NAN,
                                  .upper = 3.0,
                                  .moved = {TOKENS, moved}};
    screen_of(&row, text);
    if (sentence ? !strstr(text, sentence)
                 : strstr(text, "oved most") || strstr(text, "as far as"))
        fail_msg("not '%s' in: %s", sentence ? sentence : "no word", text);
}

/* Window 2 of windows as long as 12 begins at token 24, inside "built by a committee,". */
static void words(void **state) {
    (void)state;
    const double few[TOKENS] = {0.1, 0.0, 0.5, 0.3, 0.0, 0.0, 0.2, 0.0};
    const char *most = "Moved most at n = 8: token 2 \" a\" by 0.500; token 3 \" comm\" by "
                       "0.300; token 6 \"ee\" by 0.200; token 0 \"ilt\" by 0.100.";
    for (int columns = 50; columns <= 80; columns++) {
        char text[12];
        snprintf(text, sizeof text, "%d", columns);
        setenv("COLUMNS", text, 1);
        says("around", "random 1", few, most);
    }
    says("ball", "data", few, most);
    says("ball", "two-outliers", few, NULL); /* built elsewhere: it moved no token */
}

/* Among tokens that went to the limit none went furthest: those that did not are named. */
static void limits(void **state) {
    (void)state;
    const double none[TOKENS] = {0.0},
                 all[TOKENS] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.499},
                 six[TOKENS] = {0.5, 0.2, 0.5, 0.5, 0.5, 0.5, 0.0, 0.5},
                 five[TOKENS] = {0.5, 0.2, 0.5, 0.5, 0.5, 0.4, 0.0, 0.5};
    says("around", "data", none, NULL);
    says("around", "data", all, "At n = 8 every token was moved as far as it may.");
    says("ball", "data", all, "Moved most at n = 8: token 0 \"ilt\" by 0.500;");
    says("around", "data", six,
         "At n = 8 6 tokens were moved as far as they may; moved least: token 6 \"ee\" by "
         "0; "
         "token 1 \" by\" by 0.200.");
    says("around", "data", five,
         "Moved most at n = 8: token 0 \"ilt\" by 0.500; token 2 \" a\" by 0.500; token 3 "
         "\" comm\" by 0.500; token 4 \"it\" by 0.500; token 7 \",\" by 0.500.");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(words), cmocka_unit_test(limits)};
    return cmocka_run_group_tests(tests, open_place, close_place);
}

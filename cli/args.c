/* args.c - walks the command line along a table of options.
 *
 * GNU conventions: --name value, --name=value, -n value, -nvalue, single letters may be
 * bundled, "--" ends the options, operands and options mix in any order, the last of
 * repeated options counts.  Names are not abbreviated: a script must not change its
 * meaning when an option is added. */
#define _POSIX_C_SOURCE 200809L
#include "args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "screen.h"

static size_t speaker; /* the rank that this process is */

void cli_speak_as(size_t rank) { speaker = rank; }

/* On one line, which scripts read; a terminal has it broken between words. */
static void say(const cli_command *self, const char *format, va_list args) {
    int front = fprintf(stderr, "lipscope%s%s:", self ? " " : "", self ? self->name : "");
    if (speaker) front += fprintf(stderr, " rank %zu:", speaker);
    char text[4096]; /* words of the command line may be anybody's file names */
    vsnprintf(text, sizeof text, format, args);
    if (isatty(STDERR_FILENO)) {
        cli_put_words(stderr, text, cli_screen_width(STDERR_FILENO), (size_t)front, 2, "");
        return;
    }
    fputc(' ', stderr);
    lipsc_put_plain(stderr, text);
    fputc('\n', stderr);
}

void cli_note(const cli_command *self, const char *format, ...) {
    va_list args;
    if (speaker) return;
    va_start(args, format);
    say(self, format, args);
    va_end(args);
}

int cli_failure(const cli_command *self, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(self, format, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_wrong_use(const cli_command *self, const char *format, ...) {
    va_list args;
    if (speaker) return CLI_USAGE;
    va_start(args, format);
    say(self, format, args);
    va_end(args);
    fprintf(stderr, "Try 'lipscope%s%s --help'.\n", self ? " " : "",
            self ? self->name : "");
    return CLI_USAGE;
}

/* ---- As typed ---------------------------------------------------------------------- */

char *cli_command_line(const cli_command *self, int argc, char **argv) {
    size_t room = sizeof "lipscope " + strlen(self->name);
    for (int i = 0; i < argc; i++) room += 4 * strlen(argv[i]) + 3;
    char *line = malloc(room), *at = line;
    if (!line) return NULL;
    at += snprintf(at, room, "lipscope %s", self->name);
    for (int i = 0; i < argc; i++) {
        const int plain = *argv[i] && !argv[i][strspn(argv[i], "abcdefghijklmnopqrstuvwxyz"
                                                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                               "0123456789_-+=:,./@%")];
        *at++ = ' ';
        if (!plain) *at++ = '\'';
        for (const char *c = argv[i]; *c; c++) {
            if (*c == '\'') { /* ends the quotes, a quote, and on */
                memcpy(at, "'\\'", 3);
                at += 3;
            }
            *at++ = *c;
        }
        if (!plain) *at++ = '\'';
    }
    *at = '\0';
    return line;
}

/* ---- The nearest name ------------------------------------------------------------- */

enum { LONGEST_NAME = 64 };

/* Insertions, deletions and replacements between a and b (Levenshtein). */
static size_t edit_distance(const char *a, const char *b) {
    size_t row[LONGEST_NAME + 1];
    const size_t length = strlen(b);
    if (length > LONGEST_NAME) return LONGEST_NAME;
    for (size_t j = 0; j <= length; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            row[j] = replaced < best ? replaced : best;
        }
    }
    return row[length];
}

/* Near: one slip in a short word, two in a longer one, where swapped letters are two; or
 * the beginning of a name, as --num of --num-heads. */
const char *cli_nearest(const char *word, size_t count, const char *const *candidates) {
    const size_t length = strlen(word);
    const char *best = NULL;
    size_t best_distance = length < 5 ? 2 : 3; /* the first that is too far */
    for (size_t i = 0; i < count && length; i++) {
        size_t distance = edit_distance(word, candidates[i]);
        if (length >= 3 && !strncmp(word, candidates[i], length)) distance = 1;
        if (distance < best_distance) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}

static int unknown_option(const cli_command *self, const char *shown, const char *name) {
    const char **names = malloc((self->option_count + 1) * sizeof *names);
    size_t count = 0;
    for (size_t i = 0; names && i < self->option_count; i++)
        if (self->options[i].kind != CLI_GROUP && self->options[i].help)
            names[count++] = self->options[i].name;
    const char *nearest = name && names ? cli_nearest(name, count, names) : NULL;
    int code = nearest ? cli_wrong_use(self, "unknown option '%s'; did you mean '--%s'?",
                                       shown, nearest)
                       : cli_wrong_use(self, "unknown option '%s'", shown);
    free(names);
    return code;
}

/* ---- Values ----------------------------------------------------------------------- */

/* Place of text in "first|second|third", -1 when it is none of them. */
static int find_choice(const char *choices, const char *text) {
    const size_t length = strlen(text);
    for (int place = 0; choices; place++) {
        const char *bar = strchr(choices, '|');
        const size_t width = bar ? (size_t)(bar - choices) : strlen(choices);
        if (width == length && !memcmp(choices, text, length)) return place;
        choices = bar ? bar + 1 : NULL;
    }
    return -1;
}

/* What a value should have been, in words. */
static void expected(const cli_option *option, char *text, size_t room) {
    if (option->kind == CLI_SIZE)
        snprintf(text, room, "a whole number from %.0f to %.0f", option->min, option->max);
    else if (option->kind == CLI_SEED)
        snprintf(text, room, "a whole number that is not negative");
    else if (option->kind == CLI_SIZES)
        snprintf(
            text, room,
            "a list such as 16,64 or a range such as 8:512:x2, of numbers from %.0f to "
            "%.0f",
            option->min, option->max);
    else
        snprintf(text, room, "%s", option->wanted);
}

static int store(const cli_command *self, const cli_option *option, const char *text,
                 void *settings) {
    void *target = (char *)settings + option->offset;
    const int whole = option->kind == CLI_SIZE || option->kind == CLI_SIZES;
    const size_t min = whole ? (size_t)option->min : 0,
                 max = whole ? (size_t)option->max : 0;
    int bad = 0;
    switch (option->kind) {
    case CLI_GROUP:
        break;
    case CLI_FLAG:
        *(int *)target = 1;
        break;
    case CLI_TEXT:
        *(const char **)target = text;
        if (!*text)
            return cli_wrong_use(self, "the value of '--%s' is empty", option->name);
        break;
    case CLI_TEXTS: {
        cli_texts *texts = target;
        if (!*text)
            return cli_wrong_use(self, "the value of '--%s' is empty", option->name);
        if (texts->count == CLI_MOST_TEXTS)
            return cli_wrong_use(self, "'--%s' is given more than %d times", option->name,
                                 (int)CLI_MOST_TEXTS);
        texts->items[texts->count++] = text;
        break;
    }
    case CLI_SIZE:
        bad = cli_number_size(text, min, max, target);
        break;
    case CLI_SEED:
        bad = cli_number_seed(text, target);
        break;
    case CLI_REAL:
    case CLI_MAYBE:
        bad = cli_number_real(text, option->min, option->max, target) ||
              (option->nonzero && *(double *)target == 0.0);
        break;
    case CLI_SIZES:
        errno = 0;
        bad = cli_sizes_parse(text, min, max, target);
        if (bad && errno == ENOMEM) return cli_failure(self, "out of memory");
        break;
    case CLI_CHOICE: {
        const int place = find_choice(option->wanted, text);
        bad = place < 0;
        if (!bad) *(int *)target = place + (int)option->min;
        break;
    }
    }
    if (!bad) return CLI_RUN;
    char words[160];
    expected(option, words, sizeof words);
    return cli_wrong_use(self, "invalid value '%s' for '--%s': expected %s", text,
                         option->name, words);
}

/* ---- The walk --------------------------------------------------------------------- */

static const cli_option *find_name(const cli_command *self, const char *name,
                                   size_t length) {
    for (size_t i = 0; i < self->option_count; i++) {
        const cli_option *option = &self->options[i];
        if (option->kind != CLI_GROUP && strlen(option->name) == length &&
            !memcmp(option->name, name, length))
            return option;
    }
    return NULL;
}

static const cli_option *find_letter(const cli_command *self, char letter) {
    for (size_t i = 0; i < self->option_count; i++)
        if (self->options[i].kind != CLI_GROUP && self->options[i].letter == letter)
            return &self->options[i];
    return NULL;
}

static int help(const cli_command *self) {
    cli_help(stdout, self);
    return CLI_DONE;
}

static int number_follows(int argc, char **argv, int at) {
    double any;
    return at + 1 < argc && !cli_number_real(argv[at + 1], -DBL_MAX, DBL_MAX, &any);
}

/* argv[*at] is "--name" or "--name=value"; *at ends on the last word that was used. */
static int take_long(const cli_command *self, int argc, char **argv, int *at,
                     void *settings) {
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    if (length == 4 && !memcmp(name, "help", 4) && !equals) return help(self);
    const cli_option *option = find_name(self, name, length);
    if (!option) {
        char shown[LONGEST_NAME + 1];
        snprintf(shown, sizeof shown, "--%.*s", (int)(length < 60 ? length : 60), name);
        return unknown_option(self, shown, shown + 2);
    }
    if (option->kind == CLI_FLAG && equals)
        return cli_wrong_use(self, "option '--%s' takes no value", option->name);
    if (option->kind == CLI_FLAG || equals)
        return store(self, option, equals ? equals + 1 : "", settings);
    if (option->kind == CLI_MAYBE && !number_follows(argc, argv, *at)) {
        *(double *)((char *)settings + option->offset) = option->usual;
        return CLI_RUN;
    }
    if (*at + 1 == argc)
        return cli_wrong_use(self, "option '--%s' needs a value", option->name);
    return store(self, option, argv[++*at], settings);
}

/* argv[*at] is "-abc": flags, the last of which may take the rest or the next word. */
static int take_letters(const cli_command *self, int argc, char **argv, int *at,
                        void *settings) {
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const cli_option *option = find_letter(self, *letter);
        if (!option && *letter == 'h') return help(self);
        if (!option) {
            const char shown[3] = {'-', *letter, '\0'};
            return unknown_option(self, shown, NULL);
        }
        int code;
        if (option->kind == CLI_FLAG) {
            code = store(self, option, "", settings);
            if (code != CLI_RUN) return code;
            continue;
        }
        if (letter[1]) return store(self, option, letter + 1, settings);
        if (*at + 1 == argc)
            return cli_wrong_use(self, "option '-%c' needs a value", *letter);
        return store(self, option, argv[++*at], settings);
    }
    return CLI_RUN;
}

static lipsc_device *opened; /* of the command that runs */

/* The device of a command that has --device. */
static int open_device(const cli_command *self, void *settings) {
    const cli_option *option = NULL;
    for (size_t i = 0; i < self->option_count; i++)
        if (!strcmp(self->options[i].name, "device")) option = &self->options[i];
    if (!option || opened) return CLI_RUN;
    cli_common *common = (cli_common *)(void *)((char *)settings + option->offset -
                                                offsetof(cli_common, device_name));
    const char *name =
        common->device_name ? common->device_name : getenv("LIPSCOPE_DEVICE");
    lipsc_error err = {.text = ""};
    char own[32];
    const int threads = common->threads ? (int)common->threads : cli_ranks_threads();
    name = cli_ranks_device(name, own);
    const int rows = self->shares == CLI_SHARES_ROWS && cli_ranks();
    if (rows && name && !strcmp(name, "auto")) name = "cpu";
    const lipsc_status status =
        rows ? lipsc_device_share(cli_ranks(), name, threads, &opened, &err)
             : lipsc_device_open(name, threads, &opened, &err);
    if (status && rows && speaker) return CLI_FAILED; /* all know, rank 0 says it */
    if (status) return cli_failure(self, "%s", err.text);
    common->device = opened;
    return CLI_RUN;
}

int cli_parse(const cli_command *self, int argc, char **argv, void *settings,
              int *operands) {
    int only_operands = 0;
    *operands = 0;
    for (int at = 0; at < argc; at++) {
        char *word = argv[at];
        int code = CLI_RUN;
        if (only_operands || word[0] != '-' || !word[1])
            argv[(*operands)++] = word;
        else if (!strcmp(word, "--"))
            only_operands = 1;
        else if (word[1] == '-')
            code = take_long(self, argc, argv, &at, settings);
        else
            code = take_letters(self, argc, argv, &at, settings);
        if (code != CLI_RUN) return code;
    }
    if ((size_t)*operands < self->min_operands)
        return cli_wrong_use(self, "missing operand: %s", self->operands);
    if ((size_t)*operands > self->max_operands)
        return cli_wrong_use(self, "extra operand '%s'", argv[self->max_operands]);
    return open_device(self, settings);
}

void cli_close_device(void) {
    lipsc_device_close(opened);
    opened = NULL;
}

/* cmd_tokens.c - lipscope tokens: text to ids and back. */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "args.h"
#include "screen.h"
#include "source.h"

typedef struct {
    int special, decode, part;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Options"},
    OPTION(FLAG, "special", NULL, special,
           .help = "add the model's special tokens around the text"),
    OPTION(FLAG, "decode", NULL, decode,
           .help = "FILE holds ids: print their text, byte by byte, without a newline"),
    CLI_PART_OPTION(settings),
};

/* On one line; a terminal has it broken between numbers. */
static void print_ids(size_t count, const uint32_t *ids) {
    const size_t width = isatty(STDOUT_FILENO) ? cli_screen_width(STDOUT_FILENO) : SIZE_MAX;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t size = (size_t)snprintf(NULL, 0, "%lu", (unsigned long)ids[i]);
        const int broken = used && used + 1 + size > width;
        used = broken || !used ? size : used + 1 + size;
        printf("%s%lu", !i ? "" : broken ? "\n" : " ", (unsigned long)ids[i]);
    }
    putchar('\n');
}

static lipsc_status encode(const cli_command *self, lipsc_tokenizer *tokenizer,
                           const settings *s, const char *path, lipsc_error *err) {
    char *bytes = NULL;
    uint32_t *ids = NULL;
    size_t size, count;
    lipsc_status status = lipsc_bytes_read(path, &bytes, &size, err);
    if (!status)
        status =
            lipsc_tokenizer_encode(tokenizer, bytes, size, s->special, &ids, &count, err);
    if (!status) print_ids(count, ids);
    if (!status) cli_utf8_say(self, path, lipsc_tokenizer_malformed(bytes, size), size);
    lipsc_release(bytes);
    lipsc_release(ids);
    return status;
}

static lipsc_status decode(lipsc_tokenizer *tokenizer, const char *path, lipsc_error *err) {
    char *bytes = NULL;
    uint32_t *ids = NULL;
    size_t size, count;
    lipsc_status status = lipsc_ids_read(path, &ids, &count, err);
    if (!status)
        status = lipsc_tokenizer_decode(tokenizer, ids, count, 0, &bytes, &size, err);
    if (!status) fwrite(bytes, 1, size, stdout);
    lipsc_release(bytes);
    lipsc_release(ids);
    return status;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {0};
    int operands;
    lipsc_tokenizer *tokenizer;
    lipsc_error err;
    const int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (s.special && s.decode)
        return cli_wrong_use(self, "'--special' has no meaning with --decode");
    if (s.part == LIPSC_PART_VISION)
        return cli_wrong_use(self, "'--part vision' reads images, which have no tokens");
    lipsc_status status = lipsc_tokenizer_open(argv[0], &tokenizer, &err);
    if (status) return cli_failure(self, "%s", err.text);
    status = s.decode ? decode(tokenizer, argv[1], &err)
                      : encode(self, tokenizer, &s, argv[1], &err);
    lipsc_tokenizer_free(tokenizer);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

const cli_command cli_cmd_tokens = {
    .name = "tokens",
    .operands = "MODEL FILE",
    .min_operands = 2,
    .max_operands = 2,
    .summary = "text to token ids and back",
    .about = "Prints the token ids of a text on one line.  MODEL is a folder with\n"
             "tokenizer.json, or vocab.json and merges.txt, or vocab.txt; its weights are\n"
             "not needed.  FILE is the text, - is standard input.",
    .example = "  $ lipscope tokens gpt2/ alice.txt > alice.ids\n"
               "  $ lipscope tokens gpt2/ --decode alice.ids\n",
    CLI_TABLE(options),
    .run = run,
};

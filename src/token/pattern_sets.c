/* pattern_sets.c - sets of characters as items of a PCRE2 bracket: what PCRE2 knows by
 * name, with what Oniguruma counts to it beyond that (pattern_tables.h). */
#include "token/pattern.h"

#include "token/pattern_tables.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void lipsc_set_code(lipsc_text *t, uint32_t code) {
    char shown[16];
    snprintf(shown, sizeof shown, "\\x{%x}", (unsigned)code);
    lipsc_text_put_string(t, shown);
}

void lipsc_set_range(lipsc_text *t, uint32_t first, uint32_t last) {
    lipsc_set_code(t, first);
    if (last == first) return;
    lipsc_text_put(t, "-", 1);
    lipsc_set_code(t, last);
}

static void put_later(lipsc_text *t, const char *category) {
    for (size_t i = 0; i < COUNT(assigned_later); i++)
        if (!strncmp(assigned_later[i].category, category, strlen(category)))
            lipsc_set_range(t, assigned_later[i].first, assigned_later[i].last);
}

static void put_category(lipsc_text *t, const char *category) {
    lipsc_text_put_string(t, "\\p{");
    lipsc_text_put_string(t, category);
    lipsc_text_put_string(t, "}");
    put_later(t, category);
}

static void put_space(lipsc_text *t) {
    lipsc_text_put_string(t,
                          "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
                          "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}");
}

void lipsc_set_word(lipsc_text *t, int rust, int in_bracket) {
    lipsc_text_put_string(t, "\\p{Alphabetic}");
    put_category(t, "M");
    put_category(t, "Nd");
    put_category(t, "Pc");
    put_later(t, "L");
    if (rust)
        lipsc_text_put_string(t, "\\x{200c}\\x{200d}");
    else if (!in_bracket)
        lipsc_text_put_string(t, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}");
}

int lipsc_set_short(int letter, int rust, int in_bracket, lipsc_text *t, int *negated) {
    *negated = letter >= 'A' && letter <= 'Z';
    switch (letter) {
    case 's':
    case 'S':
        put_space(t);
        return 1;
    case 'd':
    case 'D':
        put_category(t, "Nd");
        return 1;
    case 'w':
    case 'W':
        lipsc_set_word(t, rust, in_bracket);
        return 1;
    case 'h':
    case 'H':
        lipsc_text_put_string(t, "0-9A-Fa-f");
        return 1;
    default:
        return 0;
    }
}

static int put_script(lipsc_text *t, const char *name) {
    int known = 0;
    for (size_t i = 0; i < COUNT(script_later); i++) {
        if (strcmp(script_later[i].script, name)) continue;
        if (!known) {
            lipsc_text_put_string(t, "\\p{sc:");
            lipsc_text_put_string(t, name);
            lipsc_text_put_string(t, "}");
        }
        known = 1;
        if (script_later[i].last)
            lipsc_set_range(t, script_later[i].first, script_later[i].last);
    }
    return known;
}

/* "Letter" for "L"; other names are themselves. */
static const char *short_name(const char *name) {
    static const char *const words[][2] = {
        {"Letter", "L"},
        {"Mark", "M"},
        {"Number", "N"},
        {"Punctuation", "P"},
        {"Symbol", "S"},
        {"Separator", "Z"},
        {"Uppercase_Letter", "Lu"},
        {"Lowercase_Letter", "Ll"},
        {"Decimal_Number", "Nd"},
    };
    for (size_t i = 0; i < COUNT(words); i++)
        if (!strcmp(name, words[i][0])) return words[i][1];
    return name;
}

int lipsc_set_is_cased(const char *name) {
    const char *category = short_name(name);
    return !strcmp(category, "Lu") || !strcmp(category, "Ll") || !strcmp(category, "Lt");
}

/* Not C and Cn: what is unassigned there is not what is unassigned here. */
int lipsc_set_property(lipsc_text *t, const char *name) {
    static const char *const categories[] = {
        "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
        "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
        "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};
    const char *category = short_name(name);
    for (size_t i = 0; i < COUNT(categories); i++)
        if (!strcmp(category, categories[i])) {
            put_category(t, category);
            return 1;
        }
    return put_script(t, name);
}

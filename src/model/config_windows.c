/* config_windows.c - which layers see through a window, and how wide it is. */
#include "model/config_reader.h"

#include <string.h>

static int is_window(const lipsc_config *c, size_t l, size_t number) {
    switch (c->family->window_rule) {
    case LIPSC_WINDOW_ALL:
        return 1;
    case LIPSC_WINDOW_FROM:
        return l >= number;
    case LIPSC_WINDOW_BUT_EVERY:
        return number == 0 || (l + 1) % number != 0;
    case LIPSC_WINDOW_BUT_MULTIPLES:
        return number == 0 || l % number != 0;
    default:
        return 0;
    }
}

/* Layer l has the kind `name`; 0 when that is no kind. */
static int set_kind(lipsc_reader *r, lipsc_config *c, size_t l, const json_t *entry,
                    const char *field) {
    const char *name = json_string_value(entry);
    const int window =
        name && (!strcmp(name, "sliding_attention") || !strcmp(name, "local"));
    if (!window && (!name || (strcmp(name, "full_attention") && strcmp(name, "global")))) {
        lipsc_read_unsupported(r, field, entry);
        return 0;
    }
    if (window && !c->window)
        lipsc_read_wrong(r,
                         "layer %zu has sliding attention, but there is no "
                         "sliding_window",
                         l);
    c->sliding[l] = (unsigned char)window;
    return 1;
}

/* ["full_attention", "sliding_attention", ...], one name per layer */
static void read_list(lipsc_reader *r, lipsc_config *c, const json_t *list,
                      const char *field) {
    if (!json_is_array(list) || json_array_size(list) != c->layers) {
        lipsc_read_wrong(r, "field '%s' is not a list of %zu names", field, c->layers);
        return;
    }
    for (size_t l = 0; l < c->layers; l++)
        if (!set_kind(r, c, l, json_array_get(list, l), field)) return;
}

/* [[["global", "local"], 12]]: lists of names with the number of their repetitions */
static void read_repeated(lipsc_reader *r, lipsc_config *c, const json_t *list,
                          const char *field) {
    size_t l = 0;
    for (size_t g = 0; g < json_array_size(list); g++) {
        const json_t *group = json_array_get(list, g), *names = json_array_get(group, 0);
        const json_int_t times = json_integer_value(json_array_get(group, 1));
        for (json_int_t t = 0; json_array_size(names) && t < times && l < c->layers; t++)
            for (size_t i = 0; i < json_array_size(names) && l < c->layers; i++, l++)
                if (!set_kind(r, c, l, json_array_get(names, i), field)) return;
    }
    if (l != c->layers)
        lipsc_read_wrong(r, "field '%s' does not name %zu layers", field, c->layers);
}

static void read_width(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    const lipsc_flag used = {f->window_used, 0};
    if (f->window_used && !lipsc_read_flag(r, used)) return;
    /* null switches the window off, a field that is not there means the usual one */
    if (lipsc_read_present(r, f->window.field) && !lipsc_read_field(r, f->window.field))
        return;
    c->window = lipsc_read_size_or(r, f->window.field, (size_t)f->window.otherwise);
    if (c->window && f->window_both) c->window = c->window / 2 + 1;
}

/* The kinds by name: a field of the family, or layer_types. */
static void read_kinds(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    json_t *own = lipsc_read_field(r, f->window_layers);
    json_t *types = lipsc_read_field(r, "layer_types");
    if (own && json_is_array(json_array_get(own, 0)))
        read_repeated(r, c, own, f->window_layers);
    else if (own)
        read_list(r, c, own, f->window_layers);
    else if (types)
        read_list(r, c, types, "layer_types");
}

void lipsc_read_windows(lipsc_reader *r, lipsc_config *c) {
    const lipsc_family *f = c->family;
    if (f->window_rule == LIPSC_WINDOW_NEVER) {
        const lipsc_flag used = {"use_sliding_window", 0};
        if (f->rotary && lipsc_read_flag(r, used))
            lipsc_read_unsupported(r, used.field, lipsc_read_field(r, used.field));
    } else {
        read_width(r, c);
    }
    const size_t number = lipsc_read_count(r, f->window_number);
    for (size_t l = 0; c->window && l < c->layers; l++)
        c->sliding[l] = (unsigned char)is_window(c, l, number);
    read_kinds(r, c);
}

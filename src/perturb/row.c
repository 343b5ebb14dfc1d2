/* row.c - what a change did, as a row with one list of fields. */
#include <stddef.h>

#include "lipscope/perturb.h"

typedef lipsc_perturbed_row record;

static const lipsc_field fields[] = {LIPSC_PERTURBED_LIST(LIPSC_FIELD_ENTRY)};

lipsc_fields lipsc_perturbed_fields(void) {
    return (lipsc_fields){sizeof fields / sizeof *fields, fields};
}

lipsc_perturbed_row lipsc_perturbed_row_of(const lipsc_perturbed *p, const char *from,
                                           const char *to) {
    return (lipsc_perturbed_row){.change = lipsc_change_name(p->change),
                                 .layer = p->layer,
                                 .token = p->token,
                                 .from = p->token == LIPSC_NONE ? NULL : from,
                                 .to = p->change == LIPSC_CHANGE_SWAP ? to : NULL,
                                 .step = p->step,
                                 .ratio = p->ratio,
                                 .first_order = p->first,
                                 .sigma = p->sigma,
                                 .upper = p->upper,
                                 .others = p->others,
                                 .logits = p->logits};
}

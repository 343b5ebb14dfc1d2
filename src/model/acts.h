/* acts.h - what is kept of one window on its way through a model: acts.c and forward.c.
 *
 * It stays in the memory of the device that the window passes on, in the precision of the
 * pass; doubles of the host are made when somebody asks for them. */
#ifndef LIPSC_MODEL_ACTS_H
#define LIPSC_MODEL_ACTS_H

#include "model/state.h"

/* (n, d) numbers. */
typedef struct {
    lipsc_buffer there; /* nowhere: not known                                           */
    double *host;       /* NULL: nobody asked for it, or there is the host's            */
} lipsc_kept;

struct lipsc_acts {
    size_t n, blocks; /* tokens; blocks of the model                                    */
    size_t count;     /* n d                                                            */
    size_t passed;    /* blocks that are behind: inputs[passed] is where the window is  */
    size_t attended;  /* blocks whose attention's input is known                        */
    lipsc_dtype dtype;
    const lipsc_space *space;
    lipsc_kept *inputs;  /* (blocks + 1): input of block l; the last is the last output */
    lipsc_kept *attn_in; /* (blocks); nowhere where attention sees the block's input    */
    lipsc_kept *attn_out;
    lipsc_kept *output; /* one: the last hidden state, nowhere when not run through     */
    pthread_mutex_t asked; /* of all `host` */
};

/* A window of which nothing is known, for where the model is; NULL: out of memory. */
lipsc_acts *lipsc_acts_empty(const lipsc_model *model, lipsc_dtype dtype, size_t n);

/* Room for numbers; 0: out of memory, or the device has failed. */
int lipsc_acts_room(const lipsc_acts *acts, lipsc_kept *kept);
/* Nowhere from now on. */
void lipsc_acts_drop(const lipsc_acts *acts, lipsc_kept *kept);

/* Everything that is known goes to where the model is now. */
lipsc_status lipsc_acts_follow(const lipsc_model *model, lipsc_acts *acts);

/* What the attention of a layer sees, where it is; nowhere: not known. */
lipsc_buffer lipsc_acts_attention_there(const lipsc_acts *acts, size_t layer);

/* What this thread has done is done: others may go on with it. */
lipsc_status lipsc_acts_settle(const lipsc_acts *acts, const lipsc_kept *last);

#endif

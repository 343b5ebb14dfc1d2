/* gauss.h - split, push and distance for inputs of infinite length: Gaussians given by
 * their parameters, and their mixtures. */
#ifndef LIPSC_CLI_GAUSS_H
#define LIPSC_CLI_GAUSS_H

#include "layer_source.h"

/* One Gaussian, in closed form: its constants, and the image as a file where out is not
 * NULL. A mixture is refused, with what to do instead. */
int gauss_act(const cli_command *self, const layer_settings *s, const char *path,
              const char *out);

/* How samples of what the file holds approach the limit: lengths, errors, exponent. */
enum { GAUSS_LENGTHS = 4 };
typedef struct {
    double lengths[GAUSS_LENGTHS], errors[GAUSS_LENGTHS], exponent;
} gauss_rate;

/* CLI_RUN, or the exit code. */
int gauss_rate_of(const cli_command *self, const layer_source *layer, const char *path,
                  uint64_t seed, gauss_rate *out);

/* With a layer also the images and the ratio. */
int gauss_distance(const cli_command *self, const layer_settings *s, const char *first,
                   const char *second);

#endif

/* gauss.h - split, push and distance for inputs of infinite length: Gaussians given by
 * their parameters, and their mixtures. */
#ifndef LIPSC_CLI_GAUSS_H
#define LIPSC_CLI_GAUSS_H

#include "layer_source.h"

/* The file and its values checked; what is wrong is said on standard error.  CLI_RUN, or
 * the exit code. */
int gauss_open(const cli_command *self, const char *path, lipsc_gauss_file *out);

/* One Gaussian, in closed form: its constants, and the image as a file where out is not
 * NULL. A mixture is refused, with what to do instead. */
int gauss_act(const cli_command *self, const layer_settings *s, const char *path,
              const char *out);
/* Cells lengths, errors and exponent: how samples of the Gaussian in the file approach the
 * limit.  CLI_RUN, or the exit code. */
int gauss_fill_rate(const cli_command *self, const lipsc_layer *layer,
                    const lipsc_gauss *gauss, uint64_t seed, lipsc_table *t);

/* layer: also the images and the ratio. */
int gauss_distance(const cli_command *self, const layer_settings *s, int layer,
                   const char *first, const char *second);

/* A measure from a file, or with samples > 0 so many tokens of the Gaussian or mixture in
 * it. Free with lipsc_measure_file_free. */
int measure_open(const cli_command *self, const char *path, int normalise, size_t samples,
                 uint64_t seed, lipsc_measure_file *out);

#endif

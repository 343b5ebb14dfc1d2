/* hub.h - models by the name that the Hugging Face hub gives them, found in the local
 * cache. Nothing is ever fetched. */
#ifndef LIPSC_IO_HUB_H
#define LIPSC_IO_HUB_H

#include "lipscope.h"

/* Could it be such a name: "gpt2", "Qwen/Qwen2.5-0.5B"? */
int lipsc_hub_is_name(const char *word);

/* *dir (free with lipsc_release): the folder of the cached snapshot that `main` means, or
 * the only one.  The cache is HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or
 * ~/.cache/huggingface/hub, the first that is set.  LIPSC_E_IO, with the command that
 * fetches it, when it is not there. */
lipsc_status lipsc_hub_find(const char *name, char **dir, lipsc_error *err);

#endif
